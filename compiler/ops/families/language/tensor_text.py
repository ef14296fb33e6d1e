"""Tensors as text, as torch prints them: `tensor([1.0000, 2.5000])`, without what autograd knows of them."""

from __future__ import annotations

import math
from typing import Any

from .....lang.light_dataclasses import dataclass
from ....types.dtypes import BOOL, DEFAULT_FLOAT, INT64
from ....types.lazy_numpy import np
from ...arrays import Array, dtype_of

PRECISION = 4
THRESHOLD = 1000
"""Elements beyond which the middle of each dimension is left out."""
EDGE = 3
"""Elements shown at either end then."""
LINE = 80
_PREFIX = "tensor("


def tensor_text(array: Array) -> str:
    """The text of a tensor, over several lines where one is too short."""
    dtype = dtype_of(array)
    notes: list[str] = []
    if not array.size:
        body = "[]"
        if array.ndim != 1:
            notes.append(f"size={tuple(array.shape)}")
        if dtype != DEFAULT_FLOAT:
            notes.append(f"dtype=torch.{dtype}")
    else:
        shortens = array.size > THRESHOLD
        numbers = array.astype(np.float64) if dtype.is_floating else array
        style = _style(_edges(numbers) if shortens else numbers)
        body = _nested(numbers, len(_PREFIX), shortens, style)
        if dtype not in (DEFAULT_FLOAT, INT64, BOOL):
            notes.append(f"dtype=torch.{dtype}")
    return _with_notes(_PREFIX + body, notes)


def _with_notes(text: str, notes: list[str]) -> str:
    length = len(text) - text.rfind("\n") + 1
    for note in notes:
        if length + len(note) + 2 > LINE:
            text += ",\n" + " " * len(_PREFIX) + note
            length = len(_PREFIX) + len(note)
        else:
            text += f", {note}"
            length += len(note) + 2
    return text + ")"


# --- elements ---


@dataclass(frozen=True, slots=True)
class _Style:
    """How each element is written: the format of a finite one, what is behind it, and the width of all."""

    form: str
    mark: str
    width: int

    def of(self, element: Any) -> str:
        text = format(element, self.form)
        if self.mark and math.isfinite(element):
            text += self.mark
        return text.rjust(self.width)


def _style(array: Array) -> _Style:
    """One style for all elements: whole numbers as such, powers of ten where the sizes differ widely."""
    if array.dtype.kind != "f":
        return _Style("", "", max(len(str(element)) for element in array.reshape(-1).tolist()))
    values = array[np.isfinite(array) & (array != 0)]
    if not values.size:
        return _Style(".0f", ".", 1)
    sizes = np.abs(values)
    smallest, largest = float(sizes.min()), float(sizes.max())
    is_whole = bool((values == np.ceil(values)).all())
    is_wide = largest / smallest > 1000.0 or largest > 1.0e8
    form, mark = f".{PRECISION}f", ""
    if is_wide or (not is_whole and smallest < 1.0e-4):
        form = f".{PRECISION}e"
    elif is_whole:
        form, mark = ".0f", "."
    width = max(len(format(value, form)) for value in values.reshape(-1).tolist()) + len(mark)
    return _Style(form, mark, width)


def _edges(array: Array) -> Array:
    """The elements that are shown of a tensor that is too large to show."""
    for axis, size in enumerate(array.shape):
        if size > 2 * EDGE:
            array = np.take(array, [*range(EDGE), *range(size - EDGE, size)], axis)
    return array


# --- dimensions ---


def _nested(array: Array, indent: int, shortens: bool, style: _Style) -> str:
    """As many brackets as dimensions, of which there are few, so this recurses."""
    if not array.ndim:
        return style.of(array.item())
    if array.ndim == 1:
        return _row(array, indent, shortens, style)
    parts = [_nested(part, indent + 1, shortens, style) for part in _shown(array, shortens)]
    if len(parts) < array.shape[0]:
        parts.insert(EDGE, "...")
    return "[" + ("," + "\n" * (array.ndim - 1) + " " * (indent + 1)).join(parts) + "]"


def _row(array: Array, indent: int, shortens: bool, style: _Style) -> str:
    parts = [style.of(element.item()) for element in _shown(array, shortens)]
    if len(parts) < array.shape[0]:
        parts.insert(EDGE, " ...")
    count = max(1, (LINE - indent) // (style.width + 2))
    lines = [", ".join(parts[i : i + count]) for i in range(0, len(parts), count)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _shown(array: Array, shortens: bool) -> list[Any]:
    if shortens and array.shape[0] > 2 * EDGE:
        return [*array[:EDGE], *array[-EDGE:]]
    return [*array]
