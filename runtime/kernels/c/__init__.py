"""Kernels in C: built by the system's compiler, kept, loaded and run on the memory of arrays."""
