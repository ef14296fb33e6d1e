"""Arguments for what drawn ones do not reach: the other side of a branch, and the kinks and ties of what decides.

Candidates come from the program's own numbers: tensors around, at and beyond each constant, of other magnitudes, with
elements that are equal. What is left is solved for: along a line through the arguments the difference that decides is
followed to where it changes its sign.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ...compiler.ir.node import Node
from ...compiler.ops.arrays import Array
from ...lang.light_dataclasses import dataclass
from .arguments.draws import Rng
from .arguments.recipes import Recipe
from .arguments.traps import no_numbers, traps
from .evaluation import Subject
from .leaves import Path, TrialValues, array_leaves, at, floating_leaves, replaced
from .observation import Observer, Reached

MAX_RUNS = 900
"""Runs spent on looking; a function without decisions takes none."""
MAX_RUNS_FOR_KINKS = 300
"""Where nothing but kinks is left to find."""
MAX_STEPS_OF_ALL = 400_000
"""Ops that all runs together may take: of what loops over many there are fewer runs."""
MAX_KINKS = 3
"""Points kept for each kink, of each choice of plain values."""
MAX_REGIONS = 6
"""Arguments kept because a decision fell out as it never had, where no branch or comparison is missing."""
MAX_CORNERS = 2
MAGNITUDES = (10.0, 100.0, 1e3, 1e4, 1e-2, 1e-4)
STEPS = (0.25, 1.0, 4.0, 16.0, 64.0, 1e3, 1e5)
BISECTIONS = 70
BESIDE = (1e-6, 1e-3, 1e-2)
"""How far from where a decision changes there may be something narrow."""
_MAX_CONSTANTS = 8

Turn = tuple[Node, int]


@dataclass(frozen=True, slots=True, eq=False)
class Kink:
    """Arguments at which some decisions stand at zero."""

    values: TrialValues
    nodes: tuple[Node, ...]
    is_corner: bool = False
    """Whether arguments were set together, at points that a program may not be meant for."""
    is_trap: bool = False
    """Whether the nodes are those that make what is not finite there, and decide nothing."""


class Reach:
    """Looks for arguments beside some that run."""

    def __init__(self, subject: Subject, observer: Observer, rng: Rng) -> None:
        self.subject = subject
        self.observer = observer
        self.rng = rng
        self.found: list[TrialValues] = []
        """Arguments that reach what nothing had."""
        self.kinks: list[Kink] = []
        self._at: dict[tuple[Turn, str], int] = {}
        """By decision and plain values, how many points stand at it."""
        self._regions = 0
        self._decisions: dict[Turn, None] = {}
        self._runs = 0
        self._runs_for_kinks = MAX_RUNS_FOR_KINKS

    def offer(self, recipe: Recipe) -> None:
        """Keep what a recipe makes if it reaches something new."""
        try:
            self._try(recipe.make(self.rng))
        except ValueError:
            return

    def offer_values(self, values: TrialValues) -> None:
        """Keep arguments if they reach something new."""
        self._try(values)

    def look(self, bases: Sequence[TrialValues], *, kinks: bool = True) -> None:
        """Find what can be found beside these arguments, and beside what is found; if nothing is missing, `kinks`."""
        self._runs_for_kinks = MAX_RUNS_FOR_KINKS if kinks else 0
        pending = list(bases)
        while pending and self._may_run():
            known = len(self.found)
            running = [base for base in pending if self._try(base)]
            for search in (self._candidates, self._solved):
                self._try_in_turn([(base, search(base)) for base in running])
            for base in running:
                for corner in self._corners(base):
                    self._try(corner, is_corner=True)
            pending = self.found[known:]

    def _try_in_turn(self, searches: Sequence[tuple[TrialValues, Iterator[TrialValues]]]) -> None:
        """One candidate of each base after the other: one that has many is not to take all the runs there are."""
        pending = list(searches)
        while pending and self._may_run():
            base, candidates = pending.pop(0)
            candidate = next(candidates, None)
            if candidate is None:
                continue
            self._try(candidate)
            if not self._is_done(base):
                pending.append((base, candidates))

    def look_for_traps(self, base: TrialValues) -> None:
        """Keep the arguments beside ordinary ones at which the backward makes what is not finite.

        Of what asks which elements are numbers those too that are none.
        """
        for values, is_corner in traps(base):
            reached = self._see(values)
            if reached is not None and reached.lost:
                self.kinks.append(Kink(values, tuple(dict.fromkeys(reached.lost)), is_corner, is_trap=True))

        asking = self.observer.asking_for_numbers
        for values in no_numbers(base) if asking else ():
            if self._see(values) is not None:
                self.kinks.append(Kink(values, tuple(asking), is_corner=True))

    def _may_run(self) -> bool:
        if self.observer.steps > MAX_STEPS_OF_ALL:
            return False
        return self._runs < (MAX_RUNS if self.observer.missing() else self._runs_for_kinks)

    def _is_done(self, base: TrialValues) -> bool:
        """Whether nothing is missing, and every decision has been seen at its kink and on both sides."""
        if self.observer.missing():
            return False
        plain, signs = _plain(base), self.observer.reached.signs
        return all(
            self._has_tied(key, plain) and all((*key, way) in signs for way in (-1, 1)) for key in self._decisions
        )

    def _has_tied(self, key: Turn, plain: str) -> bool:
        """Whether a decision has been seen at its kink; with several elements, if there is always one that is."""
        alone = self._at.get((key, f"{plain} one"), 0)
        tied = any(self._at.get((key, f"{plain} {many}"), 0) for many in ("several", "all"))
        return tied or (not alone and self._at.get((key, plain), 0) >= 1)

    def _see(self, values: TrialValues) -> Reached | None:
        self._runs += 1
        try:
            seeds = self.subject.seeds(self.subject.forward(values), np.ones_like)
        except Exception:  # whatever a candidate does not fit
            return None
        return self.observer.see(values, seeds)

    def _try(self, values: TrialValues, *, is_corner: bool = False) -> bool:
        """Keep arguments that reach something new, or stand at a kink that is not known.

        Of a corner, where functions have no derivative more often than not, nothing but the kinks is looked at.
        """
        reached = self._see(values)
        if reached is None:
            return False
        self._decisions.update(dict.fromkeys(reached.gaps))
        plain = _plain(values)
        zeros = reached.zero_gaps()
        places = [(key, f"{plain} {_how_many(reached.gaps[key])}") for key in zeros]
        fresh = is_corner or any(self._at.get(place, 0) < MAX_KINKS for place in places)
        news = set(self.observer.missing()) & reached.sides or reached.nodes - self.observer.reached.nodes
        reaches = bool(news) and not is_corner
        if zeros and (fresh or reaches):
            for place in (*((key, plain) for key in zeros), *places):
                self._at[place] = self._at.get(place, 0) + 1
            self.kinks.append(Kink(values, tuple(dict.fromkeys(node for node, _ in zeros)), is_corner))
        elif not is_corner and self._regions < MAX_REGIONS and _regions(reached) - self.observer.reached.signs:
            self._regions += 1
            reaches = True
        if reaches:
            self.observer.reached.add(reached)
            self.found.append(values)
        return True

    # --- candidates ---

    def _candidates(self, base: TrialValues) -> Iterator[TrialValues]:
        leaves = floating_leaves(base)
        constants = self.constants(base)
        for path, leaf in leaves.items():
            for constant in constants:
                yield from (_with(base, path, made) for made in self._near(leaf, constant))
            yield from (_with(base, path, leaf * factor) for size in MAGNITUDES for factor in (size, -size))
            yield from (_with(base, path, made) for made in _equal(leaf))
        for path, leaf in leaves.items():
            for other, twin in leaves.items():
                if other != path and twin.shape == leaf.shape:
                    half = np.arange(leaf.size).reshape(leaf.shape) % 2 == 0
                    yield _with(base, path, np.where(half, twin, leaf))
                    yield _with(base, path, twin)

    def _corners(self, base: TrialValues) -> Iterator[TrialValues]:
        """Every leaf at once at the constants and one beside them: where several decisions stand at zero together."""
        if not self._decisions:
            return
        constants = self.constants(base)
        points = np.array(sorted({constant + beside for constant in constants for beside in (-1.0, 0.0, 1.0)}))
        for _ in range(MAX_CORNERS):
            values = base
            for path, leaf in floating_leaves(base).items():
                values = _with(values, path, self.rng.choice(points, leaf.shape))
            yield self._finite(values, base)

    def _finite(self, values: TrialValues, base: TrialValues) -> TrialValues:
        """Values with the elements of a base where the result, of the same shape, is not finite."""
        try:
            outputs = self.subject.forward(values)
        except Exception:  # whatever they do not fit
            return values
        lost = [~np.isfinite(leaf) for leaf in floating_leaves(outputs).values()]
        for path, leaf in floating_leaves(values).items():
            for where in lost:
                if where.shape == leaf.shape and where.any():
                    leaf = np.where(where, np.asarray(at(base, path)), leaf)
            values = _with(values, path, leaf)
        return values

    def _near(self, leaf: Array, constant: float) -> Iterator[Array]:
        """A leaf around a constant, at it in part and altogether, and beyond it."""
        spread = max(0.5, 0.1 * abs(constant)) * self.rng.uniform(0.1, 1.0, leaf.shape)
        signs = self.rng.signs(leaf.shape)
        yield constant + signs * spread
        some = self.rng.uniform(shape=leaf.shape) < 0.5
        yield np.where(some, constant, constant + signs * spread)
        yield np.where(some, constant, leaf)
        yield np.full(leaf.shape, constant)
        yield constant + spread
        yield constant - spread

    def constants(self, base: TrialValues) -> list[float]:
        """The numbers that the program and its arguments name, zero among them."""
        named = [0.0, *self.subject.numbers, *(v for v in base if isinstance(v, float))]
        found = dict.fromkeys(float(n) for n in named if np.isfinite(n) and abs(n) < 1e8)
        return list(found)[:_MAX_CONSTANTS]

    # --- solving ---

    def _solved(self, base: TrialValues) -> Iterator[TrialValues]:
        """Along lines through the arguments, the points at which a decision stands at zero, and those beside."""
        reached = self._see(base)
        if reached is None:
            return
        for key, gap in reached.gaps.items():
            if not gap.size or (self._at.get((key, _plain(base)), 0) and not self.observer.missing()):
                continue
            for path, leaf in floating_leaves(base).items():
                yield from self._along(base, key, path, leaf)
                if not self._may_run():
                    return

    def _along(self, base: TrialValues, key: Turn, path: Path, leaf: Array) -> Iterator[TrialValues]:
        if not leaf.size:
            return
        lines = [np.ones(leaf.shape), self.rng.uniform(0.5, 1.0, leaf.shape)]
        if leaf.size > 1:
            lines.append(np.eye(1, leaf.size).reshape(leaf.shape))
        for line in lines:
            previous, start = 0.0, self._gap(base, key)
            for step in (s * sign for sign in (1.0, -1.0) for s in STEPS):
                if step * previous < 0:
                    previous, start = 0.0, self._gap(base, key)
                here = self._gap(_with(base, path, leaf + step * line), key)
                place = _changed(start, here)
                if place is not None:
                    low, high = self._bisected(base, key, path, leaf, line, previous, step, place)
                    beside = (sign * part * max(1.0, abs(high)) for part in BESIDE for sign in (1.0, -1.0))
                    for t in (low, high, *(high + distance for distance in beside)):
                        yield _with(base, path, leaf + t * line)
                    return
                previous, start = step, here

    def _bisected(
        self,
        base: TrialValues,
        key: Turn,
        path: Path,
        leaf: Array,
        line: Array,
        low: float,
        high: float,
        place: int,
    ) -> tuple[float, float]:
        """Neighbouring steps between which one gap changes its sign; equal ones where it is zero."""
        first = self._gap(_with(base, path, leaf + low * line), key)
        if first is None:
            return low, high
        side = np.sign(first.ravel()[place])
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            if middle in (low, high):
                break
            gap = self._gap(_with(base, path, leaf + middle * line), key)
            if gap is None or gap.size <= place:
                break
            now = np.sign(gap.ravel()[place])
            if now == 0:
                return middle, middle
            low, high = (middle, high) if now == side else (low, middle)
        return low, high

    def _gap(self, values: TrialValues, key: Turn) -> Array | None:
        reached = self._see(values)
        return None if reached is None else reached.gaps.get(key)


def _plain(values: TrialValues) -> str:
    """What the arguments without elements are."""
    return repr([value for value in values if not array_leaves([value])])


def _how_many(gap: Array) -> str:
    """Whether one, several or all elements stand at zero: of those that tie there are several."""
    count = int((gap == 0).sum())
    return "all" if count == gap.size else "one" if count == 1 else "several"


def _regions(reached: Reached) -> set[tuple[Node, int, int]]:
    """The signs of gaps, those at a kink aside."""
    return {sign for sign in reached.signs if sign[2]}


def _changed(before: Array | None, after: Array | None) -> int | None:
    """An element whose sign is another now."""
    if before is None or after is None or before.shape != after.shape:
        return None
    places = np.flatnonzero(np.sign(before) != np.sign(after))
    return int(places[0]) if places.size else None


def _with(base: TrialValues, path: Path, leaf: Array) -> TrialValues:
    return replaced(base, path, np.asarray(leaf, np.asarray(at(base, path)).dtype))


def _equal(leaf: Array) -> Iterator[Array]:
    """A leaf with elements that are equal: rounded, all one, neighbours alike."""
    if leaf.size < 2:
        return
    yield np.round(leaf)
    yield np.full(leaf.shape, leaf.ravel()[0])
    for axis in range(leaf.ndim):
        if leaf.shape[axis] > 1:
            yield np.repeat(leaf.take([0], axis), leaf.shape[axis], axis)
