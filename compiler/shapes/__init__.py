"""Shapes and dtypes of ops' results, without elements.

infer       one op on abstract values, by the rules that it declares
dtypes      dtypes of results
propagate   graphs   loops, numbers: what loops carry
"""
