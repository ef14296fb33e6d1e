"""Expressions → values: what each form computes, calls and conditions, and the targets that values are bound to."""
