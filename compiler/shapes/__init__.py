"""Shapes and dtypes of ops' results, without elements.

infer          one op on abstract values, by the rules that it declares
dtypes         dtypes of results
propagate      graphs
loops          what loops carry, after all rounds
numbers        numbers that loops carry
growth         lists that loops add to
fills          lists of which each round sets elements
open_lists     ops on lists of open length
gradient_sums  sums of gradients, of which one may be missing
"""
