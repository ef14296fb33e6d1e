"""Kernels run by Triton: built, kept, launched, tuned."""
