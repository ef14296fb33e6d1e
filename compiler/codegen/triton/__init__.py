"""Kernel IR → Triton text."""
