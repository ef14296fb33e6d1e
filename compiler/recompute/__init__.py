"""Backward mirroring: trade what the backward keeps of the forward for recomputation.

policy        what may be recomputed, and what users write for it
plain         the gradient in the form in which captures can be counted
storage       which values share memory, and what it costs to keep one
problem       what is decided on: the values that the backward uses or could recompute from
mirror        regions between heavy nodes, in the manner of MXNet's gradient pass
min_cut       what to keep as a minimum cut of bytes and prices
flow          the greatest flow behind it
prices        what it costs to run a node again
checkpoints   what lives across a few places of the program
segments      loops that keep their state now and then
in_rounds     what loops keep of each round
rebuild       the gradient that keeps a given choice
peak          how much memory a gradient holds at once
decisions     what was decided, in words
result        what comes of it
driver        recompute: the policies, and the choice between what they give; loaded by who recomputes
"""

from .policy import Policy, policy
from .result import Decision, Recomputed

__all__ = ["Decision", "Policy", "Recomputed", "policy"]
