"""Graphs from what Python code does with values that stand for arguments."""
