"""Matrices: products, solvers and factorizations, structure."""
