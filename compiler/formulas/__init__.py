"""The library of formulas: which op is differentiated by what, compiled from stdlib_grads."""
