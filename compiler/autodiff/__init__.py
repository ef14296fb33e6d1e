"""Graph → Gradient.

differentiate   the algorithm: forward with rules, reverse sweep, the cut between the two
forward         the forward half: a rule for each node, and what its backward needs beside it
backward        the backward half, cut apart from the forward
rules/          how to go back through a node: by a formula or a pair, through branches, through loops
registered      formulas of users' in the place of the library's
rounds          what may choose what a loop keeps of its rounds
draws           pairs whose forward draws random numbers
reverse         accumulation of gradients
aggregation     how gradients that meet are put together
joint           f and df as one graph again, for gs.grad
derived         the derivative of a function, as what a closure would have been lifted to
exchange        halves that exchange tensors alone
flatten         tuples in signatures, taken apart
subgraphs       what of a graph can be differentiated, sliced out
grouping        which nodes go together there
reach           which inputs results depend on at all
requires_grad   what `x.requires_grad` is, where it is asked for
unrecorded      what keeps its gradient where none is recorded
wrapper         a function with a backward of its own as a call of it
gradient        what comes of it
"""

from .differentiate import differentiate
from .gradient import Gradient

__all__ = ["Gradient", "differentiate"]
