"""From a straight-line graph to kernels: which values meet in one, which pass through memory between them."""
