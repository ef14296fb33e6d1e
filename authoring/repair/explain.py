"""From findings to failures: of the trials that show a mistake the one that tells most, its place and its words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...compiler.ir.node import Node, Value
from ...lang.source import NO_SPAN, Span
from ..trials.arguments.recipes import FixedEntry, PlainEntry
from ..trials.arguments.shapes import shape_signature
from ..trials.evaluation import Subject
from ..trials.excuses import home
from ..trials.kinks import KinkFinding
from ..trials.leaves import Path, at, floating_leaves
from ..trials.report import Failure
from ..trials.trial import NOTICEABLE, GradientFinding, Trial
from .blame import (
    Blame,
    blame_nan,
    blame_shape,
    blame_value,
    feeding,
    made_span,
    other_lines,
    returned_span,
    second_span,
)
from .phrases import quoted

Again = Callable[[Trial], Trial]
"""The same arguments again, with the slope of every element."""
MAX_SLOPES = 300
Shown = Sequence[tuple[Trial, GradientFinding]]

_MESSAGES = {
    "value": "the gradient of '{name}' is off by {off}",
    "shape": "the gradient of '{name}' {detail}",
    "dtype": "the gradient of '{name}' {detail}",
    "nan": "the gradient of '{name}' {detail}",
    "kink": "the gradient of '{name}' {detail}",
    "none": "the gradient of '{name}' is None, yet the result depends on it",
    "error": "the backward raises: {detail}",
    "surrogate": "the surrogate of '{name}' is not linear in the gradient that it is given, as gradients are",
    "unreliable": "finite differences in '{name}' do not settle: is the function continuous?",
}


class Explainer:
    """Puts what the trials of one function have found into words."""

    def __init__(self, subject: Subject, trials: Sequence[Trial], again: Again) -> None:
        self.subject = subject
        self.names = [argument.name for argument in subject.schema.arguments]
        self._trials = trials
        self._again = again
        self._exactly: dict[Trial, Trial] = {}

    def failures(self) -> Iterator[Failure]:
        """One failure for each parameter and kind."""
        found: dict[tuple[int, str], list[tuple[Trial, GradientFinding]]] = {}
        settled = {f.index for t in self._trials for f in t.findings if f.kind is None and f.error is not None}
        for trial in self._trials:
            for finding in trial.findings:
                if finding.kind is None or finding.kind == "unsupported":
                    continue
                if finding.kind == "unreliable" and finding.index in settled:
                    continue
                found.setdefault((finding.index, finding.kind), []).append((trial, finding))
        raised: set[Span] = set()
        for (index, kind), shown in found.items():
            if kind != "error":
                yield self._failure(index, kind, shown)
                continue
            # What the backward raises stops all its gradients: it is told once, of the one that it is computed for.
            span = shown[0][1].cause.span if shown[0][1].cause is not None else NO_SPAN
            if span not in raised:
                raised.add(span)
                yield self._failure(self._raised_for(span, index), kind, shown)

    def _raised_for(self, span: Span, otherwise: int) -> int:
        """The first parameter whose gradient is computed from what stands there."""
        pair = self.subject.pair
        outputs = pair.backward.outputs[: len(self.names)] if pair is not None else []
        found = (i for i, output in enumerate(outputs) if any(node.span == span for node in _makers(output)))
        return next(found, otherwise)

    def _failure(self, index: int, kind: str, shown: Shown) -> Failure:
        trial, finding = max(shown, key=lambda pair: _tells(pair, index)) if kind == "value" else shown[0]
        name = self.names[index]
        blame = self._blame(trial, finding, kind)
        message = _MESSAGES[kind].format(name=name, detail=finding.message, off=percent(finding.error))
        if kind == "value" and finding.message:
            message = f"the gradient of '{name}' {finding.message}"
        notes = [f"tried with {trial.recipe.describe(self.names)}"]
        if self._is_right_elsewhere(index, [trial for trial, _ in shown]):
            notes.append("other shapes are right: if it is not meant for these, `assert` so, or give examples")
        if kind == "value" and blame.message.endswith("should be zero, as the derivative is"):
            notes.append('if it is meant to be another: `gs.surrogate(grad, "why")`')
        if kind == "surrogate":
            notes.append('if it is meant not to be: `gs.surrogate(grad, "why", linear=False)`')
        if kind == "none":
            notes.append(f"if it is meant to be a constant, say so in the forward: `{name} = gs.constant({name})`")
        if kind == "shape" and blame.message:
            message = f"{message}: {blame.message}"
        elif blame.message:
            message = f"the gradient of '{name}' is wrong: {blame.message}"
        notes += [f"or look at line {span.line}: {quoted(span)}" for span in blame.also]
        return Failure(name, kind, message, blame.span, tuple(notes), also=blame.also)

    def warning(self, kind: str, finding: GradientFinding, trial: Trial, message: str) -> Failure:
        """What is not meant, and so no error."""
        name = self.names[finding.index]
        path = finding.path or (finding.index,)
        span = made_span(self.subject, trial, path) if kind == "shape" else returned_span(self.subject, finding.index)
        return Failure(name, kind, message.format(name=name), span, (f"met with {trial.recipe.describe(self.names)}",))

    def refused(self, found: Shown) -> Iterator[Failure]:
        """Shapes that the forward takes and the backward does not: a warning for each gradient that refuses some."""
        by_index: dict[int, list[tuple[Trial, GradientFinding]]] = {}
        for trial, finding in found:
            span = finding.cause.span if finding.kind == "error" and finding.cause is not None else None
            index = finding.index if span is None else self._raised_for(span, finding.index)
            by_index.setdefault(index, []).append((trial, finding))
        for index, shown in by_index.items():
            trial, finding = shown[0]
            shapes = dict.fromkeys("·".join(map(str, t.recipe.shapes)) for t, _ in shown)
            message = f"the forward takes shapes that the backward does not: {', '.join(list(shapes)[:3])}"
            kind = finding.kind or "error"
            blame = self._blame(trial, finding, kind)
            notes = ("an `assert` in the forward can say which it is written for",)
            yield Failure(self.names[index], kind, message, blame.span, notes, also=blame.also)

    def kink(self, finding: KinkFinding) -> Failure:
        """A gradient that is wrong where something decides."""
        name = self.names[finding.index]
        texts = dict.fromkeys(" ".join(node.span.text.split()) for node in finding.nodes if node.span.end)
        what = "what is not finite first" if finding.is_trap else "what decides there"
        notes = [f"{what}: {', '.join(f'`{text}`' for text in list(texts)[:3])}"] if texts else []
        if finding.is_trap:
            notes.append("write it without what overflows, or divide by `torch.where(d == 0, 1.0, d)`")
        elif finding.kind == "nan":
            notes.append("give the side that is not taken a harmless argument: `torch.log(torch.where(x > 0, x, 1.0))`")
        else:
            notes.append("docs/conventions.md says what the gradient is at every kink and tie")
        message = _MESSAGES[finding.kind].format(name=name, detail=finding.message)
        span = self._kink_span(finding)
        pair = self.subject.pair
        also = other_lines(span, feeding(pair.backward.outputs[finding.index].node)) if pair is not None else ()
        return Failure(name, finding.kind, message, span, tuple(notes), also=also)

    def returned(self, index: int) -> Span:
        """Where the gradient of a parameter is returned."""
        return returned_span(self.subject, index)

    def second(self, position: int | None, wanted: Sequence[int]) -> Span:
        """Where a second derivative is written."""
        return second_span(self.subject, position, wanted)

    def off(self, error: float | None) -> str:
        """By how much a gradient is wrong, as told."""
        return f"is off by {percent(error)}"

    def _kink_span(self, finding: KinkFinding) -> Any:
        """The comparison of the backward that stands at the kink, if it is one; else the gradient returned."""
        pair = self.subject.pair
        if pair is not None:
            own = set(pair.backward.all_nodes())
            decides = [node for node in finding.nodes if node in own and node.span.end]
            if decides:
                return decides[0].span
        return returned_span(self.subject, finding.index)

    def _is_right_elsewhere(self, index: int, wrong: Sequence[Trial]) -> bool:
        """Whether the gradient is right on ordinary shapes, and wrong on shapes unlike those, whatever is in them."""
        if self.subject.is_pointwise or any(isinstance(e, FixedEntry) for t in wrong for e in t.recipe.entries):
            return False
        shapes, beside = {shape_signature(t.recipe.shapes) for t in wrong}, [_plain(t) for t in wrong]
        others = [t for t in self._trials if shape_signature(t.recipe.shapes) not in shapes and _plain(t) in beside]
        start = home(others)
        return start is not None and any(f.index == index for f in start.findings)

    def _raised(self, span: Span) -> Blame:
        """What raised, and where what it was given was computed."""
        nodes = self.subject.pair.backward.all_nodes() if self.subject.pair is not None else ()
        return Blame(span, also=other_lines(span, (s for node in nodes if node.span == span for s in feeding(node))))

    def _others(self, trial: Trial, path: Path) -> list[Trial]:
        """A trial or two of other shapes, and a few of other plain values, in which the gradient could be compared."""
        plain = _plain(trial)
        shapes: dict[object, Trial] = {}
        values: dict[str, Trial] = {}
        for other in self._trials:
            if other.recipe.dtype != "float64" or not other.probes.get(path) or not _is_finding(other, path[0]):
                continue
            if _plain(other) != plain:
                values.setdefault(repr(_plain(other)), other)
            elif other.recipe.shapes != trial.recipe.shapes:
                shapes.setdefault(shape_signature(other.recipe.shapes), other)
        return [*list(shapes.values())[:2], *list(values.values())[:3]]

    def _exact(self, trial: Trial, path: Path) -> Trial:
        """The trial with a slope for each element, if it shows the mistake as well; itself where there are too many."""
        if np.size(at(trial.values, path)) > MAX_SLOPES:
            return trial
        if trial not in self._exactly:
            self._exactly[trial] = self._again(trial)
        found = self._exactly[trial]
        shows = any(f.index == path[0] and f.kind == "value" for f in found.findings)
        return found if shows and path in found.probes else trial

    def _blame(self, trial: Trial, finding: GradientFinding, kind: str) -> Blame:
        path = finding.path or (finding.index,)
        if kind == "shape":
            return blame_shape(self.subject, trial, path)
        if kind == "error" and finding.cause is not None and finding.cause.span.end:
            return self._raised(finding.cause.span)
        if kind == "nan":
            return blame_nan(self.subject, trial, path)
        if kind == "value" and trial.recipe.dtype == "float64":
            shown = trial if _is_of_each_element(trial, path) else self._exact(trial, path)
            return blame_value(self.subject, shown, path, self._others(shown, path))
        return Blame(returned_span(self.subject, finding.index))


def _is_of_each_element(trial: Trial, path: Path) -> bool:
    """Whether slopes are known of every element alone."""
    probes = trial.probes.get(path, ())
    size = np.size(at(trial.values, path))
    return len(probes) == size and all(np.count_nonzero(probe.direction) == 1 for probe in probes)


def _plain(trial: Trial) -> list[PlainEntry]:
    return [entry for entry in trial.recipe.entries if isinstance(entry, PlainEntry)]


def _makers(value: Value) -> Iterator[Node]:
    """The nodes that a value is computed by."""
    pending, seen = [value.node], {value.node}
    while pending:
        node = pending.pop()
        yield node
        inner = [made for block in node.blocks for made in (*block.nodes, block.ret)]
        following = [*inner, *(v.node for v in node.inputs)]
        pending += [made for made in following if made not in seen]
        seen.update(following)


def _is_finding(trial: Trial, index: int) -> bool:
    return any(finding.index == index and finding.kind in (None, "value") for finding in trial.findings)


def percent(error: float | None) -> str:
    """How far off a gradient is, as told."""
    if error is None or error == 0:
        return "an amount that is lost beside its other terms"
    return f"{error:.0%}" if error >= 0.01 else f"{error:.1e} of its size"


def _tells(shown: tuple[Trial, GradientFinding], index: int) -> tuple[bool, bool, bool, int, int]:
    """How much a trial tells about a parameter: float64, ordinary numbers, many elements (but not too many)."""
    trial, finding = shown
    size = sum(leaf.size for path, leaf in floating_leaves(trial.values).items() if path[0] == index)
    plain = all(getattr(entry, "domain", "real") in ("real", "positive", "index") for entry in trial.recipe.entries)
    clear = finding.error is not None and finding.error > NOTICEABLE
    whole = sum(leaf.size for leaf in floating_leaves(trial.values).values())
    return trial.recipe.dtype == "float64", clear, plain, size if size <= 24 else 0, whole if whole <= 48 else 0
