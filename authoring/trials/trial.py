"""One trial: arguments, gradients of them, and the finite differences they are held against."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...compiler.ops.arrays import Array
from ...lang.light_dataclasses import dataclass, field
from ...runtime.failures.failure import RuntimeFailure
from .arguments.draws import Rng
from .arguments.recipes import PlainEntry, Recipe
from .evaluation import Subject, flat
from .finite_differences import DOUBLE, Along, Slope, slopes
from .leaves import Path, at, floating_leaves, is_floating, precision_of, replaced
from .trace import sum_to, summed_like

TOLERANCE = 1e-6
"""Relative to the sum of the magnitudes of what adds up to a derivative."""
ERROR_FACTOR = 20.0
"""The estimated error of a finite difference may be short by so much."""
SETTLED = 1e-5
"""A finite difference whose estimated relative error is larger calls for another point."""
HOPELESS = 1e-2
"""One whose estimated error stays larger says nothing."""
NOTHING = 1e-11
"""Derivatives smaller than this count as zero: the noise of rounding."""
NOTICEABLE = 1e-9
"""A relative error below this is none to speak of."""
MAX_BASIS = 4
DIRECTIONS = 2

ArrayFunction = Callable[[Sequence[Any]], list[Any]]


@dataclass(slots=True)
class Probe:
    """A direction of one leaf, and the slope of every output along it."""

    direction: Array
    slope: Slope


@dataclass(slots=True)
class GradientFinding:
    """What a trial says of one parameter: `kind` is None where the gradient is right."""

    index: int
    kind: str | None = None
    message: str = ""
    error: float | None = None
    path: Path = ()
    notes: tuple[str, ...] = ()
    cause: RuntimeFailure | None = None
    unsummed: bool = False
    """Of a wrong shape: whether summing over broadcast dimensions would make the gradient right."""
    is_symmetric: bool = False
    """Whether it is right for changes that leave a symmetric matrix symmetric, and for no others."""
    summable: bool = False
    """Of a wrong shape: whether it is that of something the parameter was broadcast to."""


@dataclass(slots=True, eq=False)
class Trial:
    """Arguments of one call with gradients given for its outputs; what has been measured on them."""

    recipe: Recipe
    values: list[Any]
    outputs: list[Any]
    seeds: list[list[Any]] = field(default_factory=list)
    """Several choices of one gradient per output."""
    gradients: list[list[Any]] = field(default_factory=list)
    """For each choice one gradient per parameter."""
    probes: dict[Path, list[Probe]] = field(default_factory=dict)
    findings: list[GradientFinding] = field(default_factory=list)
    surrogates: frozenset[int] = frozenset()
    """The parameters whose gradients came by a surrogate this time."""

    @property
    def is_finite(self) -> bool:
        """Whether the results are: elsewhere no derivative says anything."""
        return all(np.isfinite(np.asarray(leaf, np.float64)).all() for leaf in floating_leaves(self.outputs).values())

    @property
    def settled(self) -> bool:
        """Whether every slope came with a small error."""
        return not any(f.kind == "unreliable" for f in self.findings) and all(
            _is_settled(probe.slope, SETTLED).all() for probes in self.probes.values() for probe in probes
        )

    @property
    def counts_down(self) -> bool:
        """Whether an int is negative, which may be a number of rounds that nobody means."""
        plain = (entry.value for entry in self.recipe.entries if isinstance(entry, PlainEntry))
        return any(isinstance(value, int) and value < 0 for value in plain)

    def sum_gradient(self, index: int) -> None:
        """Sum the gradients of a parameter over what it was broadcast to, as differentiation does."""
        for gradient in self.gradients:
            gradient[index] = summed_like(gradient[index], self.values[index])


def _is_settled(found: Slope, limit: float) -> Array:
    scale = np.abs(found.value) + 1e-3 * np.max(np.abs(found.value), initial=0.0) + 1e-12
    return np.asarray(found.error <= limit * scale)


def new_seed(rng: Rng) -> Callable[[Array], Array]:
    """Makes a random gradient for an output, no element of it near zero."""

    def make(output: Array) -> Array:
        signs = rng.signs(output.shape)
        return np.asarray(signs * rng.uniform(0.5, 1.5, output.shape)).astype(output.dtype)

    return make


# --- directions ---


def directions(leaf: Array, rng: Rng, basis: bool) -> list[Array]:
    """Directions in which to vary a leaf, each about as long as its numbers."""
    base = np.asarray(leaf, np.float64)
    scale = np.maximum(np.abs(base), 0.05 * np.max(np.abs(base), initial=0.0))
    scale = np.where(scale == 0, 1.0, scale)
    if base.size <= (MAX_BASIS if not basis else 64):
        return [unit.reshape(base.shape) * scale for unit in np.eye(base.size)]
    signs = rng.signs((DIRECTIONS, *base.shape))
    return [np.asarray(s * rng.uniform(0.3, 1.0, base.shape) * scale) for s in signs]


def probe_leaves(
    function: ArrayFunction,
    values: Sequence[Any],
    toward: Mapping[Path, Sequence[Array]],
    base: Array,
    precision: float = DOUBLE,
) -> dict[Path, list[Probe]]:
    """The slopes of a function's outputs along directions of leaves. Where it cannot be run, nothing is known."""
    ways = [(path, direction) for path, some in toward.items() for direction in some]
    lines = [_line(function, values, path, direction, base) for path, direction in ways]
    found: dict[Path, list[Probe]] = {path: [] for path in toward}
    for (path, direction), measured in zip(ways, slopes(lines, base, precision), strict=True):
        found[path].append(Probe(direction, measured))
    return found


def _line(function: ArrayFunction, values: Sequence[Any], path: Path, direction: Array, base: Array) -> Along:
    leaf = np.asarray(at(values, path))

    def along(step: float) -> Array:
        moved = np.asarray(leaf + step * direction, leaf.dtype)
        try:
            result = flat(function(replaced(values, path, moved)))
        except (RuntimeFailure, ValueError):
            return np.full(base.shape, np.nan)
        return result if result.shape == base.shape else np.full(base.shape, np.nan)

    return along


# --- comparing ---


@dataclass(frozen=True, slots=True)
class SlopeComparison:
    """A gradient against slopes: the relative error, and whether it is more than can be explained."""

    error: float | None
    wrong: bool
    unreliable: bool


def compare(gradients: Sequence[Any], weights: Sequence[Array], probes: Sequence[Probe]) -> SlopeComparison:
    """Hold gradients of one leaf, one per choice of output weights, against the slopes weighted alike."""
    pairs = list(zip(gradients, weights, strict=True))
    numbers = [_deviation(gradient, weight, probe) for gradient, weight in pairs for probe in probes]
    known = [(a, e, allowed, lost) for a, e, size, allowed, lost in numbers if allowed <= HOPELESS * size]
    if not known:
        return SlopeComparison(None, False, bool(numbers))
    largest = max(max(abs(actual), abs(expected)) for actual, expected, _, _ in known)
    size = max(size for _, _, size, _, _ in numbers)
    errors = [max(abs(actual - expected) - lost, 0.0) for actual, expected, _, lost in known]
    wrong = any(not e <= allowed + 1e-10 * size for e, (_, _, allowed, _) in zip(errors, known, strict=True))
    wrong = wrong and not largest <= NOTHING
    nothing = largest <= NOTHING or (not wrong and largest <= 1e-9 * size)
    error = 0.0 if nothing else max(errors) / largest
    return SlopeComparison(error, wrong, False)


def _deviation(gradient: Any, weight: Array, probe: Probe) -> tuple[float, float, float, float, float]:
    """The derivative along a probe by the gradient and by the slope, the size of its parts, the error allowed, and what
    rounding hides."""
    found = probe.slope
    with np.errstate(all="ignore"):
        actual = 0.0 if gradient is None else float(np.sum(np.asarray(gradient, np.float64) * probe.direction))
        parts = np.abs(weight * found.value)
        size = float(parts.sum())
        noise = float(np.where(weight == 0, 0.0, np.abs(weight) * found.error).sum())
        if gradient is not None:
            size = max(size, float(np.abs(np.asarray(gradient, np.float64) * probe.direction).max(initial=0.0)))
    allowed = TOLERANCE * size + ERROR_FACTOR * noise + 1e-12
    hidden = ERROR_FACTOR * float(np.sum(np.abs(weight) * found.rounding))
    return actual, float(np.sum(weight * found.value)), size + 1e-9, allowed, hidden


# --- first order ---


def run_trial(subject: Subject, recipe: Recipe, rng: Rng, attempt: int, basis: bool = False) -> Trial:
    """Make arguments, run forward and gradient, and measure. RuntimeFailure only from the forward."""
    values = recipe.make(rng, attempt)
    outputs = subject.forward(values)
    trial = Trial(recipe, values, outputs)
    if not trial.is_finite:
        return trial
    for _ in range(2):
        trial.seeds.append(subject.seeds(outputs, new_seed(rng)))
    differentiable = [i for i, value in enumerate(values) if floating_leaves([value])]
    try:
        trial.gradients = [subject.gradient(values, seeds) for seeds in trial.seeds]
    except RuntimeFailure as failure:
        trial.findings = [GradientFinding(i, "error", failure.message, cause=failure) for i in differentiable]
        return trial
    trial.surrogates = subject.surrogates_in(values, trial.seeds[0])
    trial.findings = [_inspect(trial, i) or GradientFinding(i) for i in differentiable]
    if recipe.dtype == "float64":
        measure_differences(subject, trial, rng, basis)
    else:
        _compare_with_double(subject, trial)
    return trial


def of_each_element(subject: Subject, trial: Trial, rng: Rng) -> Trial:
    """The same arguments and output gradients again, with a slope for each element. The trial ran in float64."""
    found = Trial(trial.recipe, trial.values, trial.outputs)
    found.seeds, found.surrogates = trial.seeds, trial.surrogates
    found.gradients = [subject.gradient(found.values, seeds) for seeds in found.seeds]
    found.findings = [_inspect(found, finding.index) or GradientFinding(finding.index) for finding in trial.findings]
    measure_differences(subject, found, rng, basis=True)
    return found


def measure_differences(subject: Subject, trial: Trial, rng: Rng, basis: bool = False) -> None:
    """Take finite differences of the forward in every parameter and hold its gradient against them."""
    base = flat(trial.outputs)
    forward = subject.held(trial.values)
    precision = precision_of(trial.outputs)
    weights = [flat(seeds, trial.outputs) for seeds in trial.seeds]
    leaves = {path: leaf for path, leaf in floating_leaves(trial.values).items() if leaf.size}
    judged = {f.index for f in trial.findings if f.index not in trial.surrogates}
    toward = {path: directions(leaf, rng, basis) for path, leaf in leaves.items() if path[0] in judged}
    trial.probes.update(probe_leaves(forward, trial.values, toward, base, precision))
    for finding in trial.findings:
        if finding.index in trial.surrogates:
            _judge_surrogate(subject, trial, finding)
            continue
        for path, leaf in leaves.items():
            if path[0] != finding.index:
                continue
            if finding.kind is None:
                gradients = [at(gradient, path) for gradient in trial.gradients]
                found = compare(gradients, weights, trial.probes[path])
                if found.wrong and _is_square(leaf):
                    mirrored = _held_to_symmetric_changes(subject, trial, path, rng, precision)
                    found, finding.is_symmetric = mirrored or found, mirrored is not None
                _judge(finding, path, gradients, found)
            elif finding.kind == "nan" and finding.path == path and not _has_slopes(trial, path):
                finding.kind, finding.message = None, ""
            elif finding.kind == "shape" and finding.path == path:
                finding.unsummed = _is_unsummed(trial, finding, path, weights)


def _has_slopes(trial: Trial, path: Path) -> bool:
    """Whether the results move by a finite amount with some element whose gradient is not finite."""
    lost = ~np.isfinite(np.asarray(at(trial.gradients[0], path), np.float64))
    touching = [probe for probe in trial.probes[path] if (lost & (probe.direction != 0)).any()]
    return not touching or any(np.isfinite(probe.slope.error).all() for probe in touching)


def _held_to_symmetric_changes(
    subject: Subject, trial: Trial, path: Path, rng: Rng, precision: float
) -> SlopeComparison | None:
    """The gradient of what reads one triangle of a matrix, as decompositions do, at the symmetric matrix that it stands
    for, which the trial then holds; None where both are read, or where it is wrong."""
    base, leaf = flat(trial.outputs), np.asarray(at(trial.values, path))
    for triangle in (np.tril, np.triu):
        mirrored = np.asarray(triangle(leaf) + triangle(leaf, -1 if triangle is np.tril else 1).swapaxes(-1, -2))
        values = replaced(trial.values, path, mirrored)
        try:
            if not np.array_equal(flat(subject.forward(values)), base):
                continue
            gradients = [subject.gradient(values, seeds) for seeds in trial.seeds]
        except RuntimeFailure:
            continue
        toward = [symmetric(direction) for direction in directions(mirrored, rng, basis=True)]
        probes = probe_leaves(subject.held(values), values, {path: toward}, base, precision)[path]
        weights = [flat(seeds, trial.outputs) for seeds in trial.seeds]
        found = compare([at(gradient, path) for gradient in gradients], weights, probes)
        if not found.wrong and not found.unreliable:
            trial.values, trial.gradients, trial.probes[path] = values, gradients, probes
            return found
    return None


def _is_square(leaf: Array) -> bool:
    return leaf.ndim >= 2 and leaf.shape[-1] == leaf.shape[-2] > 1


def is_symmetric(leaf: Array) -> bool:
    """Whether a leaf holds symmetric matrices of two rows or more, as decompositions take them."""
    return _is_square(leaf) and bool((leaf == leaf.swapaxes(-1, -2)).all())


def symmetric(direction: Array) -> Array:
    """A direction that leaves symmetric matrices symmetric."""
    return np.asarray((direction + direction.swapaxes(-1, -2)) / 2)


def _judge_surrogate(subject: Subject, trial: Trial, finding: GradientFinding) -> None:
    """A gradient that is meant to be another has to be linear in the gradients of the outputs all the same."""
    if finding.kind is not None:
        return
    first, second = trial.seeds
    joined = [_combined(a, b) for a, b in zip(first, second, strict=True)]
    try:
        found = subject.gradient(trial.values, joined)[finding.index]
    except RuntimeFailure:
        return
    like = [trial.values[finding.index]]
    parts = [flat([gradients[finding.index]], like) for gradients in trial.gradients]
    with np.errstate(all="ignore"):
        whole, expected = flat([found], like), parts[0] - 2 * parts[1]
    if whole.shape != expected.shape:
        return
    scale = float(np.abs(parts[0]).max(initial=0.0) + np.abs(parts[1]).max(initial=0.0)) + 1e-12
    finding.error = float(np.abs(whole - expected).max(initial=0.0)) / scale
    if finding.error > TOLERANCE and finding.index not in subject.bent:
        finding.kind = "surrogate"


def _combined(first: Any, second: Any) -> Any:
    """One choice of gradients less twice another."""
    if isinstance(first, list):
        return [_combined(a, b) for a, b in zip(first, second, strict=True)]
    return None if first is None else np.asarray(first - 2 * second, first.dtype)


def _judge(finding: GradientFinding, path: Path, gradients: Sequence[Any], found: SlopeComparison) -> None:
    finding.error = max(filter(None, (finding.error, found.error)), default=found.error)
    finding.path = finding.path or path
    if found.unreliable:
        finding.kind, finding.path = "unreliable", path
    elif found.wrong:
        finding.kind, finding.path = ("none" if gradients[0] is None else "value"), path


def _is_unsummed(trial: Trial, finding: GradientFinding, path: Path, weights: Sequence[Array]) -> bool:
    """Whether a gradient of the wrong shape is right once it is summed over what was broadcast."""
    leaf = at(trial.values, path)
    summed = [sum_to(np.asarray(at(gradient, path)), leaf.shape) for gradient in trial.gradients]
    if any(gradient is None for gradient in summed) or np.size(at(trial.gradients[0], path)) <= leaf.size:
        return False
    found = compare(summed, weights, trial.probes[path])
    finding.error, finding.summable = found.error, True
    return not found.wrong and not found.unreliable


def _inspect(trial: Trial, index: int) -> GradientFinding | None:
    """What is wrong with a gradient without knowing its value: shape, dtype, NaN."""
    value, gradient = trial.values[index], trial.gradients[0][index]
    if gradient is None:
        return None
    if isinstance(value, list) and (not isinstance(gradient, list) or len(gradient) != len(value)):
        return GradientFinding(index, "shape", f"is no list of {len(value)} tensors")
    for path, leaf in floating_leaves(trial.values).items():
        found = at(trial.gradients[0], path) if path[0] == index else None
        if found is None:
            continue
        if np.shape(found) != leaf.shape:
            return GradientFinding(
                index, "shape", f"has shape {np.shape(found)}, and the input {leaf.shape}", path=path
            )
        if found.dtype != leaf.dtype:
            return GradientFinding(index, "dtype", f"is {found.dtype}, and the input {leaf.dtype}", path=path)
        if is_floating(found) and not np.isfinite(np.asarray(found, np.float64)).all():
            return GradientFinding(index, "nan", "holds NaN or infinity where the result is finite", path=path)
    return None


def _compare_with_double(subject: Subject, trial: Trial) -> None:
    """In a shorter dtype: the gradient must be near that in float64 at the same numbers."""
    wide = [_widened(value) for value in trial.values]
    outputs = subject.forward(wide)
    seeds = [_widened(seed) for seed in trial.seeds[0]]
    del outputs
    reference = subject.gradient(wide, seeds)
    for finding in trial.findings:
        if finding.kind is not None:
            continue
        exact, rough = flat([reference[finding.index]]), flat([trial.gradients[0][finding.index]])
        if exact.shape != rough.shape or not exact.size:
            continue
        scale = float(np.abs(exact).max()) or 1.0
        finding.error = None
        noise = 1e-4 * float(np.abs(flat(seeds)).max(initial=0.0))
        if float(np.abs(exact - rough).max()) > 1e-2 * scale + noise:
            finding.kind, finding.message = "value", f"in {trial.recipe.dtype} is far from that in float64"


def _widened(value: Any) -> Any:
    if isinstance(value, list):
        return [_widened(item) for item in value]
    return value.astype(np.float64) if is_floating(value) else value
