"""What may have a say in the rounds of the loops of a graph that is differentiated: which values they keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ..ir.graph import Graph
from ..ir.node import Value
from ..ops.meta import Abstract
from .gradient import Gradient


class Rounds(Protocol):
    """Called with what is known of shapes; `shapes` are those of the inputs of the graph differentiated first."""

    @property
    def shapes(self) -> Sequence[Abstract]: ...

    def known(self, graph: Graph, shapes: Sequence[Abstract]) -> Mapping[Value, Abstract]:
        """The abstract values of a graph or body that is about to be differentiated."""

    def kept(self, gradient: Gradient, shapes: Sequence[Abstract], carried: int) -> Gradient:
        """The gradient of a round, with what it keeps chosen anew.

        Inputs 1 to `carried` of `gradient.f` differ from round to round, as do all of its outputs: what `df` takes of
        them is kept once for each round.
        """
