"""Rewrites of graphs, a file for each: what it does, shown before and after, and a function of its name."""
