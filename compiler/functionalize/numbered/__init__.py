"""Writes where only a run can tell which objects are one: each object gets a number when it is made.

    n = [[e * 1 for e in held] for held in given]         contents: List[Tensor], held: List[List[int]], n: List[int]
    n[i][j].mul_(2)                                ─▶     at = held[n[i]][j]
                                                          contents[at] = contents[at] * 2

A name, an element of a list, a view that a branch may have bound: all are numbers then, and equal numbers are one
object, whatever the run decides. So nothing has to be known of lengths and conditions. It costs lists where places
(`functionalize/places.py`) cost nothing, and is for functions in which places cannot be told. Only what is written
anywhere is numbered (`families.py`).
"""

from .families import Unfit
from .walk import numbered_graph

__all__ = ["Unfit", "numbered_graph"]
