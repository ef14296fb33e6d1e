"""What one element of a node's result is, and the body of the kernel in which that is written."""
