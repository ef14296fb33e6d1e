"""Python's operators, NumPy's and torch's functions on what is recorded instead of computed."""
