"""Backwards written for functions that have none: derived, simplified, and set into the author's text."""
