"""Loops written out, opened at an end, and rid of what does not change."""
