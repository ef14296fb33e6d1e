"""Second order: the derivative of the gradient, by autodiff, against finite differences of the gradient itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...compiler.ops.arrays import Array
from ...lang.diagnostics import CompileError
from ...lang.light_dataclasses import dataclass
from ...runtime.failures.failure import RuntimeFailure
from .arguments.draws import Rng
from .evaluation import Joint, Subject, flat
from .finite_differences import Along, slopes
from .leaves import Path, at, floating_leaves, is_floating, precision_of, replaced
from .trial import ERROR_FACTOR, HOPELESS, TOLERANCE, Probe, Trial, directions, is_symmetric, new_seed, symmetric

DIRECTIONS = 2


@dataclass(slots=True)
class SecondFinding:
    """What is known of the derivative of the gradient in one input: a parameter, or the gradient of an output.

    `index` counts the parameters, then the gradients of outputs. `kind` is None where all is right.
    """

    index: int
    name: str
    kind: str | None = None
    message: str = ""
    error: float | None = None


NOT_FINITE = "holds NaN or infinity where the gradient changes by a finite amount"


class NotTwice(Exception):
    """The gradient has no derivative that autodiff could take; the text says why."""


def check_second(subject: Subject, trial: Trial, rng: Rng) -> list[SecondFinding]:
    """One finding per parameter and per gradient of an output. `trial` must have passed at first order."""
    values, seeds = trial.values, trial.seeds[0]
    try:
        joint = subject.second(values, seeds)
    except CompileError as error:
        raise NotTwice(error.message) from error
    inputs = joint.arguments(values, seeds)
    like = [values[i] for i in joint.wrt]
    cotangents = [_cotangent(value, rng) for value in like]
    names = _names(subject, joint)
    try:
        pulled = joint.pull_back(values, seeds, cotangents) if joint.wrt else [None] * len(inputs)
    except CompileError as error:
        raise NotTwice(error.message) from error
    except RuntimeFailure as failure:
        raised = f"taking the derivative of the gradient raises: {failure.message}"
        return [SecondFinding(0, names[0], "second_order", raised)]
    check = _SecondCheck(subject.gradient, joint, trial, cotangents, like)
    held = _SecondCheck(subject.held_gradient(values), joint, trial, cotangents, like)
    findings = []
    for i in (i for i, value in enumerate(inputs) if floating_leaves([value])):
        found = check.finding(i, names[i], pulled[i], inputs, rng)
        if found.kind == "second_order" and subject.holds_constants:
            # What the forward calls a constant may be one to the gradient as well.
            found = held.finding(i, names[i], pulled[i], inputs, rng)
        findings.append(found)
    return findings


def _cotangent(value: Any, rng: Rng) -> Any:
    make = new_seed(rng)
    if isinstance(value, list):
        return [make(item) if is_floating(item) else np.zeros_like(item) for item in value]
    return make(value)


def _names(subject: Subject, joint: Joint) -> list[str]:
    names = [argument.name for argument in subject.schema.arguments]
    if subject.pair is None:
        return names + [f"grad_output{i}" if len(joint.seeded) > 1 else "grad_output" for i in joint.seeded]
    parameters = [value.name_hint or "grad_output" for value in subject.pair.backward.inputs[1:]]
    by_output = dict(zip(subject.pair.grad_outputs, parameters, strict=True))
    return names + [by_output.get(i, "grad_output") for i in joint.seeded]


@dataclass(slots=True)
class _SecondCheck:
    evaluate: Callable[[Sequence[Any], Sequence[Any]], list[Any]]
    joint: Joint
    trial: Trial
    cotangents: list[Any]
    like: list[Any]

    def gradient(self, inputs: Sequence[Any]) -> Array:
        """The first-order gradient, by the function's own backward, as one vector."""
        count = len(self.trial.values)
        seeds: list[Any] = [None] * len(self.trial.outputs)
        for i, seed in zip(self.joint.seeded, inputs[count:], strict=True):
            seeds[i] = seed
        found = self.evaluate(inputs[:count], seeds)
        return flat([found[i] for i in self.joint.wrt], self.like)

    def finding(self, index: int, name: str, pulled: Any, inputs: Sequence[Any], rng: Rng) -> SecondFinding:
        result = SecondFinding(index, name)
        base, weight = self.gradient(inputs), flat(self.cotangents)
        precision = precision_of(inputs)
        for path, leaf in floating_leaves(inputs).items():
            if path[0] != index or not leaf.size:
                continue
            second = at([pulled], (0, *path[1:]))
            if second is not None and np.shape(second) != leaf.shape:
                result.kind, result.message = "second_order", f"has shape {np.shape(second)}, and '{name}' {leaf.shape}"
                return result
            toward = directions(leaf, rng, basis=False)[:DIRECTIONS]
            toward = [symmetric(direction) for direction in toward] if is_symmetric(leaf) else toward
            lines = [self._along(inputs, path, direction, base) for direction in toward]
            for direction, found in zip(toward, slopes(lines, base, precision), strict=True):
                self._compare(result, second, weight, Probe(direction, found))
        return result

    def _along(self, inputs: Sequence[Any], path: Path, direction: Array, base: Array) -> Along:
        leaf = np.asarray(at(inputs, path))

        def along(step: float) -> Array:
            try:
                found = self.gradient(replaced(inputs, path, np.asarray(leaf + step * direction, leaf.dtype)))
            except (RuntimeFailure, ValueError):
                return np.full(base.shape, np.nan)
            return found if found.shape == base.shape else np.full(base.shape, np.nan)

        return along

    def _compare(self, result: SecondFinding, second: Any, weight: Array, probe: Probe) -> None:
        found = probe.slope
        with np.errstate(all="ignore"):
            size = float(np.abs(weight * found.value).sum())
            noise = float((np.abs(weight) * found.error).sum())
            expected = float((weight * found.value).sum())
            actual = 0.0 if second is None else float(np.sum(second * probe.direction))
            if second is not None:
                size = max(size, float(np.abs(second * probe.direction).max(initial=0.0)))
        if not noise <= HOPELESS * (size + 1e-9):
            result.kind = result.kind or "unreliable"
            return
        hidden = float((np.abs(weight) * found.rounding).sum())
        allowed = 10 * TOLERANCE * size + ERROR_FACTOR * (noise + hidden) + 1e-10
        largest = max(abs(actual), abs(expected), 1e-3 * size)
        error = abs(actual - expected) / largest if largest > 1e-10 else 0.0
        result.error = max(error, result.error or 0.0)
        if not np.isfinite(actual):
            result.kind, result.message, result.error = "second_order", NOT_FINITE, None
        elif not abs(actual - expected) <= allowed:
            result.kind = "second_order"
