"""A function as C: both passes behind functions that take pointers and sizes, and as a library."""
