"""Reductions that one program cannot do alone, in two kernels: partial results of chunks, and a kernel that finishes.

    axes i < 4096 parallel, j < 768 reduction            axes c < 256 parallel, r < 16 serial, j < 768 reduction
      …                                                    …                                       with 16*c + r for i
      %w [j] = reduce sum %1 over i                →       %w [c, j] = reduce sum %1 over r
      store %grad_weight[j], %w                            store %partial_grad_weight[768*c + j], %w

                                                         axes j < 768 parallel, c < 256 reduction
                                                           %2 [c, j] = load %partial_grad_weight[768*c + j]
                                                           %w [j] = reduce sum %2 over c
                                                           store %grad_weight[j], %w

What is reduced over a parallel axis is reduced over chunks of it; a reduction over so many points that one program for
each result would leave the device idle is cut likewise. There are no atomics, and chunks follow from the sizes alone:
results are the same at each run, on each device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from math import prod

from ...lang.light_dataclasses import dataclass, replace
from ..kernel_ir.kernel import Axis, Kernel, Load, Reduce, Store
from ..kernel_ir.queries import statement_axes
from ..kernel_ir.statements import slice_of, used_names
from ..types.open_sizes import greatest, least
from .choose import fits_in_registers
from .chunks import chunked
from .collapse import collapse_axes
from .order import frugal_order
from .partials import Unsplittable
from .pieces import parts_apart
from .row_results import in_turn, others_apart, rows_apart, sums_apart
from .strides import is_across, next_power
from .tiles import held_points, is_tiled

__all__ = ["ChunkLimits", "TooLarge", "Unsplittable", "limits_of", "split_reductions"]


class TooLarge(Exception):
    """A tile that no program can hold."""


@dataclass(frozen=True, slots=True)
class ChunkLimits:
    """The table by which chunks are chosen."""

    programs: int = 256
    """Programs that keep any device busy."""
    side_by_side: int = 2048
    """The same where a program has a few columns only, and many fit beside each other."""
    walking: int = 512
    """Programs at most that walk rows: four for each multiprocessor of a large device, which run all at once."""
    rows: int = 8
    """Rows of a chunk at least."""
    share: int = 32
    """Of what is moved, partial results are no more than this part, however many programs could run."""
    few: int = 128
    """Programs that have enough on its way to keep memory busy."""
    few_share: int = 12
    """Of what is moved, partial results are no more than this part where programs that are more would make it so."""
    lanes: int = 64
    """Columns that one program reduces side by side."""
    column_rows: int = 64
    """Rows of a chunk at least where rows are reduced side by side."""
    elements: int = 8192
    """Elements of a chunk at least where all lie in a row."""
    most: int = 1024
    """Chunks at most, so that one program can finish."""
    in_turn: int = 0
    """Terms at most that a program adds up one after the other, and partial results are added in float64: in float32
    each rounds at the size of the sum, and torch adds up in cascades; 0 for any number."""
    whole_columns: int = 1024
    """Columns side by side, at least, that programs take whole however high they are, a few each, where each element
    is needed again once they are reduced; 0 for none."""
    few_rows: int = 0
    """Rows at least that programs take whole although they are few and long, as a cache holds them; 0 for none."""
    turns: bool = True
    """Whether programs turn tiles: what they read along one axis they may write along another."""
    parts_apart: bool = False
    """Whether what is put together is computed part by part, each by a kernel of its own."""
    joined: int = 16
    """Tensors at most that `torch.cat` has put together where elements are needed, and not in memory, if all are in one
    kernel."""
    large: int = 1 << 21
    """Elements at least of a tensor of which loops write one part alone: of smaller ones a kernel makes another in
    less time than it takes to launch one more."""


LIMITS = ChunkLimits()


def limits_of(split: Callable[[Kernel], list[Kernel]]) -> ChunkLimits:
    """The table of what splits kernels: `split_reductions`, or that with a table of its own."""
    given = split.keywords.get("limits") if isinstance(split, partial) else None
    return given if isinstance(given, ChunkLimits) else LIMITS


def split_reductions(
    kernel: Kernel, limits: ChunkLimits = LIMITS, fits: Callable[[Kernel, int], bool] = fits_in_registers
) -> list[Kernel]:
    """The kernels to run, in order, in place of one. Partial results are outputs of the first and inputs of the last.

    `fits` says whether a program can accumulate along whole rows of so many points. Raises: Unsplittable, TooLarge.
    """
    across = _axes_across(kernel)
    if not across:
        if is_tiled(kernel) and not fits(kernel, held_points(kernel)):
            raise TooLarge
        parts = parts_apart(kernel) if limits.parts_apart else [kernel]
        return [found for part in parts for found in _split_long_rows(part, limits)]
    across_set = frozenset(a.name for a in across)
    finals = [s for s in kernel.body if isinstance(s, Reduce) and s.over & across_set]
    if any(not across_set <= s.over for s in finals):
        raise Unsplittable(f"{kernel.name} reduces over different parallel axes", kernel)
    turns = in_turn(kernel, across_set, finals)
    if turns is not None:
        return [found for turn in turns for found in split_reductions(turn, limits, fits)]
    apart = others_apart(kernel, across_set, finals)
    if apart is not None:
        others, second = apart
        return [*_split_long_rows(others, limits), *split_reductions(second, limits, fits)]
    if not kernel.with_role("reduction"):
        return _side_by_side(kernel, across, finals, limits)
    walked = _walked(kernel, across)
    if not fits(walked, held_points(kernel)):
        if is_tiled(kernel):
            raise TooLarge
        sums = sums_apart(kernel, finals) if limits.few_rows else None
        if sums is not None:
            with suppress(Unsplittable):
                return [found for part in sums for found in split_reductions(part, limits, fits)]
        rows, second = rows_apart(kernel, across_set, finals)
        return [*([rows] if rows.body else []), *split_reductions(second, limits, fits)]
    cut = max(across, key=lambda a: a.size)
    chunk = _in_turn(_chunk_walked(kernel, cut, finals, limits), across, cut, limits.in_turn)
    first, *rest = chunked(walked, cut.name, chunk, finals, wide=bool(limits.in_turn))
    if rest and _axes_across(rest[0]):
        # What follows the reductions reduces their results.
        rest = split_reductions(rest[0], limits, fits)
    # Axes that lay apart along a tile are one in memory.
    return [first, *(map(collapse_axes, rest) if is_tiled(first) else rest)]


def _axes_across(kernel: Kernel) -> list[Axis]:
    over = {name for s in kernel.body if isinstance(s, Reduce) for name in s.over}
    return [a for a in kernel.with_role("parallel") if a.name in over]


def _with_axes(kernel: Kernel, changed: dict[str, Axis]) -> Kernel:
    return replace(kernel, axes=tuple(changed.get(a.name, a) for a in kernel.axes))


def _walked(kernel: Kernel, across: Iterable[Axis]) -> Kernel:
    """The kernel in which one program walks the axes that are reduced across."""
    changed = _with_axes(kernel, {a.name: replace(a, role="serial", dynamic=True) for a in across})
    row = frozenset(a.name for a in kernel.with_role("reduction"))
    return changed.with_body(frugal_order(kernel.body, row, frozenset(a.name for a in across)))


def _chunk_walked(kernel: Kernel, cut: Axis, finals: Sequence[Reduce], limits: ChunkLimits) -> int:
    """Rows of a chunk: enough to pay for its results, and not so many that a program could be more."""
    axes_of, rows = statement_axes(kernel), {a.name for a in kernel.with_role("reduction")}
    moved = sum(
        kernel.buffer(s.buffer).dtype.itemsize
        for s in kernel.body
        if isinstance(s, Load | Store) and cut.name in axes_of(s) and rows & axes_of(s)
    )
    stored_and_loaded = 2 * sum(final.dtype.itemsize for final in finals)
    paying = next_power(-(-limits.share * stored_and_loaded // max(moved, 1)))
    others = prod(a.size for a in kernel.with_role("parallel") if a.name != cut.name and a.name not in finals[0].over)
    chunk = least(_rows_of_chunk(cut.size, limits.programs // greatest(others, 1), limits.rows), paying)
    row = frozenset(a.name for a in kernel.with_role("reduction"))
    along = 2 * sum(final.dtype.itemsize for final in finals if final.axes & row)
    worth = next_power(max(-(-limits.few_share * along // max(moved, 1)), 1))
    chunk = greatest(chunk, least(_rows_of_chunk(cut.size, limits.few, limits.rows), worth))
    return greatest(chunk, _rows_of_chunk(cut.size, limits.walking, limits.rows))


def _in_turn(chunk: int, reduced: Iterable[Axis], cut: Axis, most: int) -> int:
    """A chunk of an axis, no longer than adds up so many terms in turn with the other axes that are reduced."""
    others = prod(a.size for a in reduced if a != cut)
    return least(chunk, next_power(-(-most // greatest(others, 1)))) if most else chunk


def _rows_of_chunk(size: int, programs: int, fewest: int) -> int:
    """A power of two, as `fewest` is, so that blocks of any smaller power divide it."""
    return next_power(greatest(-(-size // max(programs, 1)), fewest))


def _side_by_side(kernel: Kernel, across: list[Axis], finals: list[Reduce], limits: ChunkLimits) -> list[Kernel]:
    """Column sums: reduced in chunks; what is stored along the way, in the same pass."""
    stores = _stores_along(kernel, frozenset(a.name for a in across))
    if not stores:
        return _split_long_rows(_with_axes(kernel, {a.name: replace(a, role="reduction") for a in across}), limits)
    kernel = _walked(kernel, across)
    cut = max(across, key=lambda a: a.size)
    return chunked(kernel, cut.name, _chunk_of_rows(kernel, tuple(across), limits), finals, wide=bool(limits.in_turn))


def _stores_along(kernel: Kernel, axes: frozenset[str]) -> bool:
    axes_of = statement_axes(kernel)
    return any(isinstance(s, Store) and axes_of(s) & axes for s in kernel.body)


def _split_long_rows(kernel: Kernel, limits: ChunkLimits) -> list[Kernel]:
    """A kernel of few and long rows that are only reduced, and once: each row in chunks."""
    reduction = kernel.with_role("reduction")
    finals = [s for s in kernel.body if isinstance(s, Reduce)]
    names = frozenset(a.name for a in reduction)
    if not finals or kernel.with_role("serial") or any(a.dynamic for a in reduction):
        return [kernel]
    if any(s.over != names for s in finals) or _stores_along(kernel, names) or _depends(kernel, finals):
        return [kernel]
    chunk = _chunk_of_rows(kernel, reduction, limits)
    cut = max(reduction, key=lambda a: a.size)
    return chunked(kernel, cut.name, chunk, finals, wide=bool(limits.in_turn))


def _chunk_of_rows(kernel: Kernel, reduction: tuple[Axis, ...], limits: ChunkLimits) -> int:
    """Points of the longest reduction axis in one chunk."""
    cut = max(reduction, key=lambda a: a.size)
    others = prod(a.size for a in reduction if a != cut)
    rows = prod(a.size for a in kernel.with_role("parallel"))
    across = rows > 1 and is_across(kernel, kernel.with_role("parallel"), reduction)
    if across:
        programs, fewest = limits.side_by_side // -(-rows // limits.lanes), limits.column_rows
    else:
        programs, fewest = limits.programs * 4 // max(rows, 1), -(-limits.elements // max(others, 1))
    chunk = _rows_of_chunk(cut.size, min(programs, limits.most), next_power(fewest))
    return _in_turn(chunk, reduction, cut, limits.in_turn * (1 if across else limits.lanes))


def _depends(kernel: Kernel, finals: Iterable[Reduce]) -> bool:
    """Whether one reduction needs another one's result."""
    names = [name for final in finals for name in used_names(final)]
    return any(isinstance(s, Reduce) for s in slice_of(kernel.body, names))
