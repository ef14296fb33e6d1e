"""Calls as torch's autograd records them: the node, what it keeps, and the gradients that are made of that."""
