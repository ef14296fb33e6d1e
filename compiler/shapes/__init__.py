"""Shapes and dtypes of ops' results, without elements.

rules        what a rule is, and the table of them
reductions   arranging   products   windows: rules by family
dtypes       dtypes of results
fitting      what an op asks of shapes beyond that
infer        one op on abstract values
"""

from ..shapes import arranging as arranging
from ..shapes import products as products
from ..shapes import reductions as reductions
from ..shapes import windows as windows
from .infer import has_rule, infer

__all__ = ["has_rule", "infer"]
