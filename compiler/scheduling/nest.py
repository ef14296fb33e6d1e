"""A kernel's body as loops, for what runs one instruction after the other: where values are computed and stay.

    loops (r, j)            for r:  mean = load                    what varies along no loop further in stands before it
                                for j:  x = load                   a loop for what is summed along j
                                        total += x * mean
                                scale = rsqrt(total)
                                for j:  store x * scale            another one for what needs the sum
                                        column[j] += x             a sum along r, one for each j: an array

What varies along a loop is computed again in each loop that needs it, but for what is costly: that is kept in an array.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from ...lang.light_dataclasses import dataclass, field, replace
from ..kernel_ir.kernel import Cast, Compute, Definition, Kernel, Load, Position, Reduce, Statement, Store, Uniform
from ..kernel_ir.queries import statement_axes
from ..kernel_ir.statements import used_names

CHEAP = frozenset(
    (
        *("add", "sub", "mul", "neg", "abs", "where", "number", "maximum", "minimum", "fmax", "fmin", "sign"),
        *("eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "signbit", "and", "or", "xor", "not", "shl", "shr"),
        *("floor", "ceil", "round", "trunc", "copysign", "largest", "lowest"),
    )
)
"""Primitives that cost no more than to read their result from memory."""


@dataclass(frozen=True, slots=True)
class Evaluate:
    """A value, in a variable; a `kept` one in its array besides."""

    statement: Definition
    is_kept: bool = False


@dataclass(frozen=True, slots=True)
class Put:
    """A store."""

    statement: Store


@dataclass(frozen=True, slots=True)
class Start:
    """What a reduction begins with, in a variable or in each element of an array."""

    reduce: Reduce
    is_array: bool


@dataclass(frozen=True, slots=True)
class Accumulate:
    """One turn of a reduction."""

    reduce: Reduce


@dataclass(frozen=True, slots=True)
class AxisLoop:
    """The points along an axis, one after the other; those of an innermost loop may be computed side by side."""

    axis: str
    body: tuple[Item, ...]
    is_innermost: bool


Item: TypeAlias = Evaluate | Put | Start | Accumulate | AxisLoop
Effect: TypeAlias = Store | Accumulate


@dataclass(frozen=True, slots=True)
class Nest:
    """What a program does: `arrays` holds the axes along which the values that have arrays are indexed."""

    items: tuple[Item, ...]
    arrays: Mapping[str, tuple[str, ...]]
    definitions: Mapping[str, Definition]


def nest_of(kernel: Kernel, loops: Sequence[str], extents: Mapping[str, int], most: int) -> Nest:
    """The body of a program that goes through `loops`, outermost first.

    `extents` are their points; an array to keep what would else be computed again has `most` bytes at most.
    """
    builder = _Builder(kernel, extents, most)
    stores: list[Effect] = [s for s in kernel.body if isinstance(s, Store)]
    items = builder.nest(tuple(loops), stores, frozenset(), frozenset())
    return Nest(tuple(items), builder.arrays, builder.definitions)


@dataclass
class _Group:
    """What one piece of straight code, or one loop, is for: effects, and values that are wanted after it."""

    effects: list[Effect] = field(default_factory=list)
    wanted: set[str] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.effects or self.wanted)


@dataclass
class _Stage:
    straight: _Group = field(default_factory=_Group)
    loop: _Group = field(default_factory=_Group)
    reductions: list[Reduce] = field(default_factory=list)


class _Builder:
    def __init__(self, kernel: Kernel, extents: Mapping[str, int], most: int) -> None:
        self.kernel = kernel
        self.extents = extents
        self.most = most
        self.definitions = {s.name: s for s in kernel.body if isinstance(s, Definition)}
        self.arrays: dict[str, tuple[str, ...]] = {}
        self._place: dict[str, float] = {
            s.name: float(i) for i, s in enumerate(kernel.body) if isinstance(s, Definition)
        }
        self._stores = {id(s): float(i) for i, s in enumerate(kernel.body) if isinstance(s, Store)}
        axes_of = statement_axes(kernel)
        self._axes = {id(s): axes_of(s) for s in kernel.body if isinstance(s, Store)}

    def nest(
        self, loops: tuple[str, ...], effects: Sequence[Effect], wanted: frozenset[str], available: frozenset[str]
    ) -> list[Item]:
        """The items that have the effects and define what is wanted, where `available` values are known."""
        needed = self._slice(effects, wanted, available)
        if not loops:
            return self._lines(needed, effects)
        along, rest = loops[0], loops[1:]
        stages = self._stages(along, rest, effects, wanted, needed)
        items: list[Item] = []
        for stage in stages:
            items += self.nest(rest, stage.straight.effects, frozenset(stage.straight.wanted), available)
            available |= stage.straight.wanted
            if not stage.loop:
                continue
            for reduce in stage.reductions:
                items.append(Start(reduce, self._in_array(reduce, rest)))
            body = self.nest(rest, stage.loop.effects, frozenset(stage.loop.wanted), available)
            items.append(AxisLoop(along, tuple(body), not any(isinstance(item, AxisLoop) for item in body)))
            available |= stage.loop.wanted | {reduce.name for reduce in stage.reductions}
        return items

    def _lines(self, needed: Sequence[Definition], effects: Sequence[Effect]) -> list[Item]:
        found: list[tuple[float, Item]] = [(self._place[d.name], Evaluate(d, d.name in self.arrays)) for d in needed]
        for effect in effects:
            if isinstance(effect, Store):
                found.append((self._stores[id(effect)], Put(effect)))
            else:
                found.append((self._place[effect.reduce.name], effect))
        return [item for _, item in sorted(found, key=lambda pair: pair[0])]

    # --- what is needed ---

    def _used(self, statement: Statement | Accumulate) -> list[str]:
        if isinstance(statement, Accumulate):
            operand = statement.reduce.operand
            return [operand] if isinstance(operand, str) else []
        return used_names(statement)

    def _slice(self, effects: Iterable[Effect], wanted: Iterable[str], available: frozenset[str]) -> list[Definition]:
        """What has to be computed, in the order of the body."""
        found: dict[str, Definition] = {}
        pending = [*wanted, *(name for effect in effects for name in self._used(effect))]
        while pending:
            name = pending.pop()
            if name in found or name in available or name not in self.definitions:
                continue
            found[name] = self.definitions[name]
            pending += used_names(found[name])
        return sorted(found.values(), key=lambda d: self._place[d.name])

    def _axes_of(self, effect: Effect) -> frozenset[str]:
        if isinstance(effect, Store):
            return self._axes[id(effect)]
        return effect.reduce.axes | effect.reduce.over

    # --- stages ---

    def _stages(
        self,
        along: str,
        rest: tuple[str, ...],
        effects: Sequence[Effect],
        wanted: frozenset[str],
        needed: Sequence[Definition],
    ) -> list[_Stage]:
        """Straight code and loops in turn: where a statement stands is how many loops have to be over before it."""
        level: dict[str, int] = {}
        for d in needed:
            level[d.name] = max((level.get(name, 0) for name in used_names(d)), default=0)
            level[d.name] += isinstance(d, Reduce) and along in d.over
        levels = [max((level.get(name, 0) for name in self._used(effect)), default=0) for effect in effects]
        stages = [_Stage() for _ in range(max([*level.values(), *levels], default=0) + 1)]
        for effect, at in zip(effects, levels, strict=True):
            stage = stages[at]
            (stage.loop if along in self._axes_of(effect) else stage.straight).effects.append(effect)
        for d in needed:
            if isinstance(d, Reduce) and along in d.over:
                stage = stages[level[d.name] - 1]
                stage.reductions.append(d)
                stage.loop.effects.append(Accumulate(self._of_one_turn(d, along, rest)))
            elif along in d.axes:
                if d.name in wanted:
                    stages[level[d.name]].loop.wanted.add(d.name)
            elif not d.axes & frozenset(rest) or self._is_worth_an_array(d, along, level, needed, effects, wanted):
                if d.axes & frozenset(rest):
                    self.arrays.setdefault(d.name, self._indices(d, rest))
                stages[level[d.name]].straight.wanted.add(d.name)
        self._keep(along, rest, stages, level)
        return stages

    def _of_one_turn(self, reduce: Reduce, along: str, rest: tuple[str, ...]) -> Reduce:
        """What is reduced along loops further in is reduced there first: one number for each turn."""
        inner = reduce.over & frozenset(rest)
        if not inner:
            return reduce
        part = replace(
            reduce, name=f"{reduce.name}_along_{along}", over=inner, axes=reduce.axes | (reduce.over - inner)
        )
        self.definitions[part.name] = part
        self._place[part.name] = self._place[reduce.name] - 0.5 / (1 + len(rest))
        return replace(reduce, operand=part.name, over=reduce.over - inner)

    def _in_array(self, reduce: Reduce, rest: tuple[str, ...]) -> bool:
        if not reduce.axes & frozenset(rest):
            return False
        self.arrays[reduce.name] = self._indices(reduce, rest)
        return True

    def _indices(self, d: Definition, loops: Iterable[str]) -> tuple[str, ...]:
        return tuple(name for name in loops if name in d.axes)

    def _is_worth_an_array(
        self,
        d: Definition,
        along: str,
        level: Mapping[str, int],
        needed: Sequence[Definition],
        effects: Sequence[Effect],
        wanted: frozenset[str],
    ) -> bool:
        """Whether a value that varies along loops further in alone is computed before the loop and kept."""
        if d.name in wanted:
            return True
        if isinstance(d, Reduce):
            # What is reduced along loops further in is one number in each turn, as in `_keep`.
            return not d.over & self.extents.keys()
        if isinstance(d, Load | Position) or (isinstance(d, Cast) and self._is_of_load(d)):
            return False
        users: list[tuple[int, frozenset[str]]] = []
        for user in needed:
            if d.name in used_names(user):
                over = user.over if isinstance(user, Reduce) else frozenset[str]()
                users.append((level[user.name] - (along in over), user.axes | over))
        for effect in effects:
            if d.name in self._used(effect):
                users.append((max(level.get(n, 0) for n in self._used(effect)), self._axes_of(effect)))
        return any(along in axes or at != level[d.name] for at, axes in users)

    def _is_of_load(self, cast: Cast) -> bool:
        return isinstance(cast.operand, str) and isinstance(self.definitions.get(cast.operand), Load)

    def _keep(self, along: str, rest: tuple[str, ...], stages: Sequence[_Stage], level: Mapping[str, int]) -> None:
        """Have what is costly, and needed in several of the loops, stored by the first and read by the others."""
        kept: set[str] = set()
        seen: dict[str, _Stage] = {}
        for stage in stages:
            if not stage.loop:
                continue
            here = [
                d
                for d in self._slice(stage.loop.effects, stage.loop.wanted, frozenset(kept))
                if d.name in level and along in d.axes and not (isinstance(d, Reduce) and along in d.over)
            ]
            shared = {d.name for d in here if d.name in seen}
            for name in self._border(here, shared, stage):
                if isinstance(self.definitions[name], Reduce):
                    # Its running total is one number in each turn: no array is filled by the way.
                    continue
                if self._is_costly(name, shared) and self._bytes(name, (along, *rest)) <= self.most:
                    kept.add(name)
                    # What loops further out keep has an element for each of their points.
                    self.arrays.setdefault(name, self._indices(self.definitions[name], (along, *rest)))
                    seen[name].loop.wanted.add(name)
            for d in here:
                seen.setdefault(d.name, stage)

    def _border(self, here: Sequence[Definition], shared: set[str], stage: _Stage) -> list[str]:
        """The shared values that something which is not shared uses."""
        found: dict[str, None] = {}
        users: list[Definition | Effect] = [d for d in here if d.name not in shared]
        for user in [*users, *stage.loop.effects]:
            found.update((name, None) for name in self._used(user) if name in shared)
        return [*found, *(name for name in stage.loop.wanted if name in shared and name not in found)]

    def _is_costly(self, name: str, shared: set[str]) -> bool:
        pending, seen = [name], set[str]()
        while pending:
            current = pending.pop()
            if current in seen or current not in shared:
                continue
            seen.add(current)
            d = self.definitions[current]
            if isinstance(d, Uniform | Reduce) or (isinstance(d, Compute) and d.primitive not in CHEAP):
                return True
            pending += used_names(d)
        return False

    def _bytes(self, name: str, loops: Iterable[str]) -> int:
        d = self.definitions[name]
        size = max(d.dtype.itemsize, 4) if d.dtype.is_floating else d.dtype.itemsize
        for axis in self._indices(d, loops):
            size *= self.extents[axis]
        return size


def items_of(items: Iterable[Item]) -> Iterator[Item]:
    """Every item, those in loops too."""
    for item in items:
        yield item
        if isinstance(item, AxisLoop):
            yield from items_of(item.body)
