"""Which sizes a text has by name, and strides as products of them.

    axes c < 32 parallel dynamic, r < 128 serial dynamic, j < 1024 reduction
    … load %x[131072*c + 1024*r + j] where 0 <= 128*c + r < i:4000

    size_c, size_r, size_i                  are passed at each launch
    1024 * c * size_r + 1024 * r + j        chunks lie as far apart as a row does, times the rows of a chunk

Texts are the same for all sizes that are passed, as far as what follows from them is written so.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from ..types.open_sizes import whole
from .index import Atom, AxisAtom, Index, SizeValues, ValueAtom
from .kernel import Kernel, Total
from .statements import conditions, operands


def passed_sizes(kernel: Kernel) -> dict[str, int]:
    """The sizes that are passed, by axis: those of dynamic axes, then those of axes that were cut into chunks."""
    found = {axis.name: axis.size for axis in kernel.axes if axis.dynamic}
    for statement in kernel.body:
        found |= {c.size_of: c.high for c in conditions(statement) if c.size_of}
        found |= {o.size_of: whole(o.value) for o in operands(statement) if isinstance(o, Total)}
    return found


def size_parameter(axis: str) -> str:
    return f"size_{axis}"


def open_sizes(kernel: Kernel) -> SizeValues:
    """The sizes as far as the text knows them: a dynamic axis has no end."""
    return {axis.name: (0, inf) if axis.dynamic else axis.size for axis in kernel.axes}


def strides(index: Index, dynamic: Mapping[str, int]) -> dict[Atom, tuple[int, tuple[str, ...]]]:
    """The coefficient of each axis and value in an index: a number, and dynamic axes by whose sizes it is multiplied.

    That is so where something lies around a dynamic axis, `size` of whose steps are one of its own; or around a value
    that says which of these steps it is.
    """
    found = {atom: c for c, atom in index.terms if isinstance(atom, AxisAtom | ValueAtom)}
    has_value = any(isinstance(atom, ValueAtom) and c == 1 for atom, c in found.items())
    steps = {name: found.get(AxisAtom(name), 1) for name in dynamic if has_value or AxisAtom(name) in found}
    result: dict[Atom, tuple[int, tuple[str, ...]]] = {}
    for atom, stride in sorted(found.items(), key=lambda item: abs(item[1])):
        inner = [n for n, step in steps.items() if abs(step) < abs(stride) and stride == step * dynamic[n]]
        if not inner:
            result[atom] = stride, ()
            continue
        nearest = max(inner, key=lambda n: abs(steps[n]))
        number, sizes = result.get(AxisAtom(nearest), (1, ()))
        result[atom] = number, (*sizes, nearest)
    return result
