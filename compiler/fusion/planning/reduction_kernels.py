"""Which kernel takes a reduction: one that is there already, else one that begins with it."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.node import Value
from ...kernel_ir.kernel import POSITIONS
from ...scheduling.split import ChunkLimits
from ..straight import Unfusable, told
from .group import Group
from .placement import MemoryPlacement
from .reductions import Reduction, is_of_blocks, is_of_columns, is_of_rows
from .rows_beside import rows_of_others, rows_within
from .steps import PlannedSteps, is_full
from .tiles import Tile, Tiles


class ReductionKernels:
    """Of one plan. Where a trial was overgrown (`memory.overgrown`), none is given: the planner has something in memory
    then, and asks again.
    """

    def __init__(
        self,
        memory: MemoryPlacement,
        steps: PlannedSteps,
        tiles: Tiles,
        limits: ChunkLimits,
        most_tiled: int,
        materialize: Callable[[Value], object],
    ) -> None:
        self._memory = memory
        self._steps = steps
        self._tiles = tiles
        self._most_tiled = most_tiled
        self._materialize = materialize
        self._known = memory.known
        self._whole_columns = limits.whole_columns
        self._few_rows = limits.few_rows

    def joined(self, value: Value) -> Group | None:
        """The kernel that takes a reduction besides what it does already."""
        reduction = self._memory.reductions[value]
        after = self._memory.kept_until(reduction.operand)
        for group in self._steps.open_groups(full=True):
            if group.order < after:
                break
            group.may_grow = not is_full(group)
            joined = self._joins(group, value, reduction)
            group.may_grow = True
            if joined or self._memory.overgrown is not None:
                return group if joined else None
        return None

    def begun(self, value: Value) -> Group | None:
        """A new kernel for a reduction: of a tile, unless that is no axis of it."""
        reduction = self._memory.reductions[value]
        shape, tile = self._known[reduction.operand].shape, self._tile(reduction)
        if tile is not None:
            group = self._steps.begin(tile.space)
            group.hold(tile)
            if group.try_reduction(value, reduction):
                return group
            self._steps.remove(group)
        dims = reduction.dims
        if not (self._is_row(reduction) or reduction.combine in POSITIONS or self._is_whole(reduction, shape)):
            turned = self._begun_beside(value, reduction, shape)
            if turned is not None:
                return turned
            dims = rows_within(shape, reduction, self._memory.reductions, self._known, self._few_rows)
        group = self._steps.begin(shape)
        group.reduced = frozenset(group.axes[d] for d in dims)
        if not group.try_reduction(value, reduction):
            if self._memory.overgrown is not None:
                self._steps.remove(group)
                return None
            self._begin_from_memory(group, value, reduction)
        return group

    def _is_whole(self, reduction: Reduction, shape: tuple[int, ...]) -> bool:
        """Whether a program is to hold columns or blocks, for what they are reduced to is needed along them, or what
        others like them are that share the pass."""
        alike = [
            value
            for value, other in self._memory.reductions.items()
            if other.dims == reduction.dims and self._known[other.operand].shape == shape
        ]
        if not any(self._tiles.leads_to(value, {shape}) for value in alike):
            return False
        return is_of_columns(shape, reduction.dims, self._whole_columns) or is_of_blocks(shape, reduction.dims)

    def _begun_beside(self, value: Value, reduction: Reduction, shape: tuple[int, ...]) -> Group | None:
        """A new kernel over the rows of another reduction, where this one goes over them in another order."""
        reductions, known = self._memory.reductions, self._known
        peers = [r.operand for r in reductions.values() if known[r.operand].shape == shape]
        for theirs, dims in rows_of_others(shape, reductions, known, self._few_rows):
            group = self._steps.begin(theirs)
            group.reduced = frozenset(group.axes[d] for d in dims)
            if group.try_turned(value, reduction, [reduction.operand, *peers]):
                return group
            self._steps.remove(group)
        return None

    def _joins(self, group: Group, value: Value, reduction: Reduction) -> bool:
        is_row, tile = self._is_row(reduction), self._tile(reduction)
        if tile is not None and not group.reduced and not group.held and group.shape == tile.space:
            group.hold(tile)
            if group.try_reduction(value, reduction):
                return True
            group.hold(None)
            return False
        if group.is_tile:
            return len(group.held) < self._most_tiled and group.try_reduction(value, reduction)
        if not group.reduced and group.shape == self._known[reduction.operand].shape:
            rows = frozenset(group.axes[d] for d in reduction.dims)
            held = [held.across for held in group.held.values()]
            if not is_row:
                # Beside sums across all rows a sum of everything is one of each row first.
                rows -= frozenset[str]().union(*held)
                dims = [group.axes.index(name) for name in sorted(rows, key=group.axes.index)]
                is_all = len(dims) == len(reduction.dims)
                is_row = bool(rows) and (
                    self._is_whole(reduction, group.shape) if is_all else is_of_rows(group.shape, dims, self._few_rows)
                )
            if is_row:
                group.reduced = rows
                if not any(across & rows for across in held) and group.try_reduction(value, reduction):
                    return True
                group.reduced = frozenset()
        if is_row and not group.reduced:
            return False
        return group.try_reduction(value, reduction)

    def _begin_from_memory(self, group: Group, value: Value, reduction: Reduction) -> None:
        """The operand needs what a kernel of its own cannot hold, so it is computed into memory first."""
        self._steps.remove(group)
        self._materialize(reduction.operand)
        self._steps.append(group)
        if not group.try_reduction(value, reduction):
            raise Unfusable(f"{told(value.node)} cannot be reduced from memory", value.node.span)

    def _is_row(self, reduction: Reduction) -> bool:
        return is_of_rows(self._known[reduction.operand].shape, reduction.dims, self._few_rows)

    def _tile(self, reduction: Reduction) -> Tile | None:
        return self._tiles.of(self._known[reduction.operand].shape) if self._most_tiled else None
