"""A graph as instructions over registers, and the loop that runs them."""
