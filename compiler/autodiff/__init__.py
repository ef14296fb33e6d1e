"""Graph → Gradient.

differentiate   the algorithm: forward with rules, reverse sweep, the cut between the two
formulas        the library of formulas: which op is differentiated by what
rules           how to go back through a node without blocks
control_flow    how to go back through a branch
loops           how to go back through a loop
rounds          what may choose what a loop keeps of its rounds
recompute       what the backward computes again instead of keeping it
second_order    backwards that carry a backward of their own
reverse         accumulation of gradients
joint           f and df as one graph again, for gs.grad
subgraphs       what of a graph can be differentiated, sliced out
grouping        which nodes go together there
requires_grad   what `x.requires_grad` is, where it is asked for
unrecorded      what keeps its gradient where none is recorded
gradient        what comes of it
"""

from .differentiate import differentiate
from .gradient import Gradient

__all__ = ["Gradient", "differentiate"]
