"""Backward mirroring: trade what the backward keeps of the forward for recomputation.

policy      what may be recomputed, and what users write for it
plain       the gradient in the form in which captures can be counted
result      what comes of it
driver      recompute: the policies, and the choice between what they give
"""

from .driver import recompute
from .policy import Policy, policy
from .result import Decision, Recomputed

__all__ = ["Decision", "Policy", "Recomputed", "policy", "recompute"]
