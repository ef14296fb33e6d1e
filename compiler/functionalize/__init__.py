"""Writes → values: after this step no node of a graph writes into anything.

Emission leaves the objects of the program as Python has them: two names, a view and its base, a list and its element
may be one object, and prim::Write changes it. Here every value is traced to its place (`places.py`), the contents of
places are followed through the program (`memory.py`), and what is read is what stands in the place at that time:

    %y = aten::clone(%x)                         %y = aten::clone(%x)
    %row = aten::select.int(%y, 0, 1)            %row = aten::select.int(%y, 0, 1)
    %1 = aten::mul.Scalar(%row, 2)        ─▶     %row.1 = aten::mul.Scalar(%row, 2)
    prim::Write(%row, %1)                        %y.1 = aten::select_scatter(%y, %row.1, 0, 1)
    return (%y)                                  return (%y.1)

Branches give what either side wrote, and loops carry it. Two objects of which only a run can tell whether they are one
are kept apart until one is written and the other read afterwards: a function in which that happens is walked anew, and
its objects are numbered (`numbered/`). A write into an argument is refused.
"""

from __future__ import annotations

from ...lang.diagnostics import Abort, Diagnostics
from ..ir.graph import Graph
from .write_nodes import POP, WRITE, has_writes


def functionalize(graph: Graph, diagnostics: Diagnostics) -> Graph:
    """The same function without writes. Abort for one that cannot be told apart from another program (E305)."""
    # Most functions write into nothing: what follows places is loaded with the first that does.
    from .driver import walk_function
    from .scopes import UndecidedWrite

    found = len(diagnostics.found)
    try:
        return walk_function(graph, diagnostics).graph
    except Abort as error:
        numbered = _by_numbers(graph) if isinstance(error, UndecidedWrite) else None
        if numbered is None:
            raise
        del diagnostics.found[found:]
        return numbered


def _by_numbers(graph: Graph) -> Graph | None:
    from .numbered import Unfit, numbered_graph

    try:
        return numbered_graph(graph)
    except Unfit:
        return None


__all__ = ["POP", "WRITE", "functionalize", "has_writes"]
