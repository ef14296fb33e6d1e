"""Calls whose arguments are of kinds met before: how they are told, and what is run for each."""
