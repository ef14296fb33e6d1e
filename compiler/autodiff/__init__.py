"""Graph → Gradient.

differentiate      the algorithm: forward with rules, reverse sweep, the cut between the two
differentiable     what is differentiated when a function is: its graph, or a call of one with a backward of its own
forward            the forward half: a rule for each node, and what its backward needs beside it
backward           the backward half, cut apart from the forward
rules/             how to go back through a node: by a formula or a pair, through branches, through loops
registered         formulas of users' in the place of the library's
kept_rounds        what may choose what a loop keeps of its rounds
draws              pairs whose forward draws random numbers
missing            lists that may not be there when a graph runs
reverse            accumulation of gradients
aggregation        how gradients that meet are put together
joint              f and df as one graph again, for gs.grad
derived            the derivative of a function, as what a closure would have been lifted to
exchange           halves that exchange tensors alone
flatten            tuples in signatures, taken apart
subgraphs          what of a graph can be differentiated, sliced out
grouping           which nodes go together there
reach              which inputs results depend on at all
certain_gradients  what surely requires a gradient, or surely does not
requires_grad      what `x.requires_grad` is, where it is asked for
marked_results     which results require a gradient, where the way that a run goes decides it
unrecorded         what keeps its gradient where none is recorded
gradient           what comes of it
"""

from .differentiate import differentiate
from .gradient import Gradient

__all__ = ["Gradient", "differentiate"]
