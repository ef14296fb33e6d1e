"""Gradients at kinks and ties, where finite differences say nothing: held to what the forward's own gradient is there.

The forward without its backward is differentiated by the library's formulas, whose kinks are those of
docs/conventions.md. It is a witness where it agrees with the gradient everywhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...compiler.ir.node import Node
from ...compiler.ops.arrays import Array
from ...lang.diagnostics import CompileError
from ...lang.light_dataclasses import dataclass
from ...runtime.failures.failure import RuntimeFailure
from .evaluation import Subject, flat
from .leaves import Path, at, floating_leaves, replaced
from .unreached import Kink

AGREE = 1e-6
"""Relative to the largest gradient: what a witness may differ by."""
_STEPS = (1e-5, 1e-6)
DERIVATIVE = 1e-6
"""Relative: how near the mean of the slopes on both sides a gradient must be to be the derivative."""
MAX_PLACES = 8
"""As many elements of a gradient are looked at where it is not what the convention says."""


@dataclass(frozen=True, slots=True)
class KinkFinding:
    """What is wrong with the gradient of one parameter at a kink."""

    index: int
    kind: str
    """ "kink": another number than the convention's, or "nan"."""
    message: str
    nodes: tuple[Node, ...]
    tried: str
    is_trap: bool = False
    """Whether the nodes are those that make what is not finite."""
    is_at_an_end: bool = False
    """Of a trap: whether the function is defined on one side alone, so that few arguments are there."""


class KinkCheck:
    """Holds the gradients of one function at its kinks."""

    def __init__(self, subject: Subject, witnesses: Sequence[tuple[list[Any], list[Any], list[Any]]]) -> None:
        """`witnesses` are arguments, output gradients and gradients of trials that passed."""
        self.subject = subject
        self.agreed = self._agreed(witnesses)

    def _agreed(self, witnesses: Sequence[tuple[list[Any], list[Any], list[Any]]]) -> dict[int, bool]:
        """By parameter, whether the forward differentiated gives its gradient away from kinks."""
        found: dict[int, bool] = {}
        for values, seeds, gradients in witnesses:
            reference = self._reference(values, seeds)
            for i, value in enumerate(values):
                if floating_leaves([value]) and i < len(gradients) and i not in self.subject.surrogates:
                    same = reference is not None and _same(gradients[i], reference[i], value)
                    found[i] = found.get(i, True) and same
        return found

    def _reference(self, values: Sequence[Any], seeds: Sequence[Any]) -> list[Any] | None:
        try:
            return self.subject.forward_gradient(values, seeds)
        except (RuntimeFailure, CompileError, ValueError, TypeError):
            return None

    def findings(self, kink: Kink) -> list[KinkFinding]:
        """What is wrong at one point."""
        values = kink.values
        try:
            outputs = self.subject.forward(values)
            seeds = self.subject.seeds(outputs, np.ones_like)
            gradients = self.subject.gradient(values, seeds)
        except (RuntimeFailure, CompileError):
            return []
        if not np.isfinite(flat(outputs)).all():
            return []
        reference = self._reference(values, seeds)
        found = (self._finding(kink, i, gradients[i], reference, seeds) for i in self.agreed)
        return [finding for finding in found if finding is not None]

    def _finding(
        self, kink: Kink, index: int, gradient: Any, reference: list[Any] | None, seeds: Sequence[Any]
    ) -> KinkFinding | None:
        for path, leaf in floating_leaves(kink.values).items():
            if path[0] != index or not leaf.size:
                continue
            ours = _leaf(gradient, path, leaf)
            theirs = _leaf(reference[index], path, leaf) if reference is not None and self.agreed[index] else None
            if ours is None or ours.shape != leaf.shape:
                continue
            place = self._broken(kink, path, leaf, ours, theirs, seeds)
            if place is not None:
                said = f"is {_text(ours.flat[place])} where it is {_text(leaf.flat[place])}, and the result is finite"
                if theirs is not None and theirs.shape == leaf.shape and np.isfinite(theirs.flat[place]):
                    said += f"; the convention is {_text(theirs.flat[place])}"
                at_an_end = kink.is_trap and ends_at(self.subject, kink.values)
                return KinkFinding(index, "nan", said, kink.nodes, _text(leaf.flat[place]), kink.is_trap, at_an_end)
            if theirs is None or theirs.shape != leaf.shape or kink.is_trap:
                continue
            scale = max(float(np.abs(theirs[np.isfinite(theirs)]).max(initial=0.0)), 1e-6)
            with np.errstate(invalid="ignore"):
                off = np.flatnonzero(np.isfinite(theirs) & ~(np.abs(ours - theirs) <= AGREE * scale))
            places = (
                i for i in map(int, off[:MAX_PLACES]) if not self._is_derivative(kink, path, leaf, i, ours, seeds)
            )
            place = next(places, None)
            if place is not None:
                said = f"is {_text(ours.flat[place])} where it is {_text(leaf.flat[place])}, at a kink or tie"
                said += f"; the convention is {_text(theirs.flat[place])}"
                return KinkFinding(index, "kink", said, kink.nodes, _text(leaf.flat[place]))
        return None

    def _broken(
        self, kink: Kink, path: Path, leaf: Array, ours: Array, theirs: Array | None, seeds: Sequence[Any]
    ) -> int | None:
        """An element whose gradient is not finite, though the convention's is, or the slope on a side."""
        for place in np.flatnonzero(~np.isfinite(ours))[:4]:
            expected = None if theirs is None or theirs.shape != leaf.shape else theirs.flat[place]
            if expected is not None and np.isfinite(expected):
                return int(place)
            if kink.is_corner:
                continue
            if np.isnan(ours.flat[place]) and self._has_slope(kink.values, path, leaf, int(place), seeds):
                return int(place)
        return None

    def _is_derivative(
        self, kink: Kink, path: Path, leaf: Array, place: int, ours: Array, seeds: Sequence[Any]
    ) -> bool:
        """Whether the function has a derivative there after all, and the gradient is it, as where kinks cancel."""
        slopes = self._slopes(kink.values, path, leaf, place, seeds)
        if len(slopes) < 2 or not _are_one(slopes):
            return False
        derivative = sum(slopes) / 2
        return bool(abs(ours.flat[place] - derivative) <= DERIVATIVE * max(abs(derivative), 1.0))

    def _has_slope(self, values: Sequence[Any], path: Path, leaf: Array, place: int, seeds: Sequence[Any]) -> bool:
        """Whether the result has a finite slope in one element on some side, that does not change with the step.

        Where both sides have one, and another, there is no derivative.
        """
        slopes = self._slopes(values, path, leaf, place, seeds)
        return bool(slopes) and _are_one(slopes)

    def _slopes(self, values: Sequence[Any], path: Path, leaf: Array, place: int, seeds: Sequence[Any]) -> list[float]:
        """The slopes of the result in one element above and below, those that do not change with the step."""
        weighted = self._along(values, path, leaf, place, seeds)
        slopes: list[float] = []
        try:
            base = weighted(0.0)
            for sign in (1.0, -1.0):
                first, second = ((weighted(sign * h) - base) / (sign * h) for h in _STEPS)
                if np.isfinite(first) and abs(first - second) <= 1e-3 * max(abs(first), 1.0):
                    slopes.append(first)
        except (RuntimeFailure, ValueError):
            return []
        return slopes

    def _along(
        self, values: Sequence[Any], path: Path, leaf: Array, place: int, seeds: Sequence[Any]
    ) -> Callable[[float], float]:
        """The weighted sum of the results by how far one element is moved."""
        forward = self.subject.held(values)

        def weighted(step: float) -> float:
            moved = leaf.copy()
            moved.flat[place] += step
            outputs = forward(replaced(values, path, moved))
            return float(np.sum(flat(outputs) * flat(seeds, outputs)))

        return weighted


def _are_one(slopes: Sequence[float]) -> bool:
    return max(slopes) - min(slopes) <= 1e-3 * max(*map(abs, slopes), 1.0)


def ends_at(subject: Subject, values: Sequence[Any]) -> bool:
    """Whether the result is not finite beside: with what is zero here a little more, or a little less."""
    zeros = [(path, leaf) for path, leaf in floating_leaves(values).items() if (leaf == 0).any()]
    try:
        beside = [
            subject.forward(replaced(values, path, np.where(leaf == 0, step, leaf)))
            for path, leaf in zeros
            for step in (_STEPS[0], -_STEPS[0])
        ]
    except RuntimeFailure:
        return True
    return not all(np.isfinite(flat(outputs)).all() for outputs in beside)


def _leaf(gradient: Any, path: Path, leaf: Array) -> Array | None:
    found = at([gradient], (0, *path[1:]))
    return np.zeros_like(leaf) if found is None else np.asarray(found, np.float64)


def _same(gradient: Any, reference: Any, value: Any) -> bool:
    ours, theirs = flat([gradient], [value]), flat([reference], [value])
    if ours.shape != theirs.shape:
        return False
    scale = float(np.abs(theirs).max(initial=0.0)) + 1e-12
    return bool(np.isfinite(theirs).all() and (np.abs(ours - theirs) <= AGREE * scale).all())


def _text(number: Any) -> str:
    return f"{float(number):.4g}"
