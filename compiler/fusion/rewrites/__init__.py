"""Graphs of known shapes, rewritten before kernels are planned: parts put together, products that are sums."""
