"""Passes run until none of them has anything to do."""

from __future__ import annotations

from collections.abc import Sequence

from gradscript.compiler.ir.graph import Graph
from gradscript.compiler.pipeline import GraphPass, run_passes

MOST_ROUNDS = 10
"""Each round is sound, so stopping early only leaves work undone."""


def run_to_fixpoint(graph: Graph, passes: Sequence[GraphPass]) -> bool:
    """Whether anything changed."""
    for done in range(MOST_ROUNDS):
        if not run_passes(graph, passes):
            return done > 0
    return True
