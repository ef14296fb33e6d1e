"""The library that computes on the memory of CPU tensors: products by BLAS, other ops by torch's loops."""
