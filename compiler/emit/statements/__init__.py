"""Statements → nodes and bindings: assignments, branches, loops, functions and what they return."""
