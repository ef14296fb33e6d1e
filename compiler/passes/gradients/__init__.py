"""Gradients: which are asked for, where they are zero, how they are added up."""
