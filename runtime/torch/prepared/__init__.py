"""Calls on tensors that are prepared: known by the kinds of their arguments, and what is run for each kind."""
