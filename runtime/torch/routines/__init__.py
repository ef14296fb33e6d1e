"""The library that computes on the memory of CPU tensors: products of matrices by BLAS, other ops by torch's loops."""
