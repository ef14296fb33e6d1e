"""Naming the wrong term of a gradient: from a trial that failed to a span in the source and a sentence about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ...compiler.ir.graph import Graph
from ...compiler.ir.node import Node
from ...lang.light_dataclasses import dataclass, replace
from ...lang.patterns import pattern
from ...lang.source import Span
from ...runtime.failures.failure import RuntimeFailure
from ...runtime.plans.build import build_plan
from ...runtime.plans.interpreter import run_plan
from ..trials.evaluation import Subject, flat, repeatable
from ..trials.leaves import Path, at
from ..trials.trace import RunTrace, TooLong, sum_to
from ..trials.trial import Trial
from .edits import Repair, Search
from .evidence import HOLDS, Evidence, context_arrays
from .phrases import quoted
from .spans import Spans
from .steps import StepRepair, Steps

MAX_REPAIRS = 40
MAX_ELSEWHERE = 2
"""Other lines named where the gradients do not tell which of them is wrong."""
TURNED = "has the wrong sign"
_NUMBER = pattern(r"should be -?[\d.]+")
PLAIN = 1.1
"""A repair of a lower rank is not held beside others."""


@dataclass(frozen=True, slots=True)
class Blame:
    """Where the mistake is, and what it is, if it could be told."""

    span: Span | None
    message: str = ""
    also: tuple[Span, ...] = ()
    """Where else it may be: what stands there explains the gradients as well."""


def blame_value(subject: Subject, trial: Trial, path: Path, others: Sequence[Trial] = ()) -> Blame:
    """The term that makes the gradient at `path` wrong. The trial has slopes of every element of it.

    A change of a number has to mend it in `others` too: what it should be may be a size of this trial.
    """
    pair = subject.pair
    if pair is None:
        return Blame(subject.function.graph.span)
    spans = Spans(subject.function)
    whole = spans.returned(pair.backward, path[0])
    evidence = _evidence(subject, pair.forward, pair.backward, trial, path)
    if evidence is None:
        return Blame(whole)
    others_seen = [_evidence(subject, pair.forward, pair.backward, other, path) for other in others]
    beside = [Search(replace(found, tolerance=HOLDS), spans, whole) for found in others_seen if found is not None]
    if not any(expected.any() for expected in evidence.expected):
        is_zero = not any(expected.any() for other in beside for expected in other.evidence.expected)
        return Blame(whole, f"{quoted(whole)} should be zero, as the derivative is" if is_zero else "")
    steps = _steps(evidence, trial, spans)
    suspects = steps.suspects()
    made_by = {number: i for i, step in enumerate(evidence.traces[0].steps) for number in step.outputs}
    suspected = {*suspects, *([-1] if made_by.get(evidence.result(evidence.traces[0])) in suspects else [])}
    changes = [change for change in steps.repairs(suspects) if all(change.holds(other.evidence) for other in beside)]
    swapped = _swapped(subject, evidence, trial, path)
    if swapped is not None:
        blame: Blame | None = Blame(whole, swapped)
    else:
        best = _best(Search(evidence, spans, whole, suspected), beside)
        runs = [trace for other in (evidence, *(search.evidence for search in beside)) for trace in other.traces[:1]]
        chosen = _chosen(best, changes)
        blame = Blame(chosen.span, _told(chosen, runs)) if chosen is not None else None
    blame = blame or Blame(_deepest(evidence, suspects, whole))
    possible = [evidence.traces[0].steps[step].node.span for step in suspects]
    return replace(blame, also=_elsewhere(blame, changes, [*possible, whole]))


def _told(change: Repair | StepRepair, runs: Sequence[RunTrace]) -> str:
    """What is said of a change: nothing where its place runs in several rounds, of which only one was changed."""
    node = runs[0].steps[change.step].node if change.step >= 0 else None
    return "" if any(sum(step.node is node for step in run.steps) > 1 for run in runs) else change.message


def _chosen(repair: Repair | None, changes: Sequence[StepRepair]) -> Repair | StepRepair | None:
    """The likeliest of the changes that mend the gradient."""
    if repair is not None and repair.rank < PLAIN:
        return repair
    # Wherever a sign is wrong on the way, it may be turned: it most likely is where most is computed.
    if repair is not None and repair.message.endswith(TURNED):
        turned = _likeliest([change for change in changes if change.message.endswith(TURNED)])
        if turned is not None and turned.span.line != repair.span.line:
            return turned
        return repair
    change = _likeliest(changes)
    if change is not None and (repair is None or change.rank < repair.rank):
        return change
    return repair


def _elsewhere(blame: Blame, changes: Sequence[StepRepair], possible: Sequence[Span]) -> tuple[Span, ...]:
    """Other lines that a change of their own mends as well, the likeliest first.

    Behind them stand those of the steps that may be wrong, the ones with most of them first, unless a number is.
    """
    found = [change.span for change in sorted(changes, key=lambda change: change.rank)]
    if not _NUMBER.search(blame.message):
        lines = Counter(span.line for span in possible if span.end)
        found += sorted(possible, key=lambda span: -lines[span.line])
    return other_lines(blame.span, found)


def other_lines(span: Span | None, found: Iterable[Span]) -> tuple[Span, ...]:
    """The first spans of other lines than that one, each of a line of its own."""
    taken = {span.line} if span is not None else set()
    also: list[Span] = []
    for other in found:
        if other.end and other.line not in taken and len(also) < MAX_ELSEWHERE:
            taken.add(other.line)
            also.append(other)
    return tuple(also)


def _steps(evidence: Evidence, trial: Trial, spans: Spans) -> Steps:
    """The steps behind a gradient, beside the other gradients of the trial."""
    wrong, right = [], []
    for finding in trial.findings:
        for path, probes in trial.probes.items():
            if path[0] == finding.index and path != evidence.path:
                weights = [flat(seeds, trial.outputs) for seeds in trial.seeds]
                expected = [np.array([float(np.sum(w * p.slope.value)) for p in probes]) for w in weights]
                other = replace(evidence, path=path, directions=[p.direction for p in probes], expected=expected)
                if finding.kind == "value":
                    wrong.append(other)
                elif finding.kind is None:
                    right.append(other)
    return Steps(evidence, spans, wrong, right)


def _likeliest(changes: Sequence[StepRepair]) -> StepRepair | None:
    """Of changes that are as likely, one of the line where most of them stand, the shortest term."""
    least = min((change.rank for change in changes), default=0.0)
    best = [change for change in changes if change.rank <= least + 0.15]
    lines = Counter(change.span.line for change in best)
    return max(best, key=lambda change: (lines[change.span.line], -len(change.span.text)), default=None)


def _deepest(evidence: Evidence, suspects: Sequence[int], whole: Span) -> Span:
    """Where nothing is known of the change, the line that most of the suspects stand on."""
    spans = [evidence.traces[0].steps[step].node.span for step in suspects]
    lines = Counter(span.line for span in spans if span.end)
    if not lines or lines.get(whole.line, 0) == max(lines.values()):
        return whole
    line = max(lines, key=lambda line: lines[line])
    return next(span for span in spans if span.end and span.line == line)


def _best(search: Search, beside: Sequence[Search] = ()) -> Repair | None:
    found: list[Repair] = []
    for repair in search.repairs():
        if repair.holds is not None and not all(repair.holds(other) for other in beside):
            continue
        if found and min(found, key=lambda r: r.rank).rank < 2.2 <= repair.rank:
            break
        found.append(repair)
        if len(found) >= MAX_REPAIRS:
            break
    return min(found, key=lambda repair: repair.rank, default=None)


def _swapped(subject: Subject, evidence: Evidence, trial: Trial, path: Path) -> str | None:
    """The message if another parameter's gradient, which is wrong there, is the one of this."""
    right = {finding.index for finding in trial.findings if finding.kind is None}
    for index, gradients in evidence.others.items():
        if index not in right and evidence.matches(gradients):
            ours, theirs = (subject.schema.arguments[i].name for i in (path[0], index))
            return f"the gradients of '{ours}' and '{theirs}' are swapped: the right one is returned for '{theirs}'"
    return None


def _evidence(subject: Subject, forward: Graph, backward: Graph, trial: Trial, path: Path) -> Evidence | None:
    pair = subject.pair
    assert pair is not None
    probes = trial.probes.get(path)
    if not probes:
        return None
    try:
        *_, context = repeatable(run_plan)(build_plan(forward), trial.values)
        made = repeatable(RunTrace().run)(forward, trial.values)
        traces = [RunTrace().run(backward, [context, *(seeds[i] for i in pair.grad_outputs)]) for seeds in trial.seeds]
    except (TooLong, RuntimeFailure, ValueError, TypeError, KeyError):
        return None
    weights = [flat(seeds, trial.outputs) for seeds in trial.seeds]
    expected = [np.array([float(np.sum(w * p.slope.value)) for p in probes]) for w in weights]
    names = [argument.name for argument in subject.schema.arguments]
    arguments = context_arrays(trial.values, names)
    others = _others(trial, path)
    return Evidence(backward, traces, path, [p.direction for p in probes], expected, others, arguments, made)


def blame_nan(subject: Subject, trial: Trial, path: Path) -> Blame:
    """The step whose result is not finite though what it is given is, and what is computed in front of it."""
    pair = subject.pair
    if pair is None:
        return Blame(subject.function.graph.span)
    spans = Spans(subject.function)
    whole = spans.returned(pair.backward, path[0])
    try:
        *_, context = repeatable(run_plan)(build_plan(pair.forward), trial.values)
        trace = RunTrace().run(pair.backward, [context, *(trial.seeds[0][i] for i in pair.grad_outputs)])
    except (TooLong, RuntimeFailure, ValueError, TypeError, KeyError):
        return Blame(whole)
    for number in sorted(trace.steps_of(trace.results[path[0]])):
        step = trace.steps[number]
        made, given = ([trace.values[i] for i in places] for places in (step.outputs, step.inputs))
        if step.node.span.end and not _is_finite(made) and _is_finite(given):
            return Blame(step.node.span, also=other_lines(step.node.span, [*feeding(step.node), whole]))
    return Blame(whole)


def _is_finite(values: Sequence[Any]) -> bool:
    arrays = [value for value in values if isinstance(value, np.ndarray | np.generic) and value.dtype.kind == "f"]
    return all(bool(np.isfinite(array).all()) for array in arrays)


def feeding(node: Node) -> Iterator[Span]:
    """Where what a node is given was computed, the nearest first."""
    pending, seen = [value.node for value in node.inputs], {node}
    while pending:
        made = pending.pop(0)
        if made not in seen:
            seen.add(made)
            yield made.span
            pending += [value.node for value in made.inputs]


def _others(trial: Trial, path: Path) -> dict[int, list[Any]]:
    indices = [i for i in range(len(trial.values)) if i != path[0]]
    return {i: [g[i] for g in trial.gradients] for i in indices if isinstance(trial.gradients[0][i], np.ndarray)}


def blame_shape(subject: Subject, trial: Trial, path: Path) -> Blame:
    """Why a gradient has the wrong shape: not summed, transposed, or that of another parameter."""
    pair = subject.pair
    if pair is None:
        return Blame(subject.function.graph.span)
    spans = Spans(subject.function)
    span = spans.returned(pair.backward, path[0])
    leaf, gradient = at(trial.values, path), at(trial.gradients[0], path)
    name = subject.schema.arguments[path[0]].name
    if not isinstance(gradient, np.ndarray) or not isinstance(leaf, np.ndarray):
        return Blame(span)
    evidence = _evidence(subject, pair.forward, pair.backward, trial, path)
    reshaped = _likeliest(list(_steps(evidence, trial, spans).reshapes())) if evidence is not None else None
    if reshaped is not None and reshaped.span.line != span.line:
        return Blame(reshaped.span, reshaped.message)
    others = _other_shapes(subject, trial, path)
    if gradient.ndim >= 2 and gradient.swapaxes(-1, -2).shape == leaf.shape:
        return Blame(span, f"{quoted(span)} is transposed")
    if gradient.shape in others.values() and _place_of(others, gradient.shape) is not None:
        other = _place_of(others, gradient.shape)
        if np.shape(trial.gradients[0][_index(subject, other)]) == leaf.shape:
            return Blame(span, f"the gradients of '{name}' and '{other}' seem to be swapped")
    if sum_to(gradient, leaf.shape) is not None:
        message = f"'{name}' was broadcast, so its gradient is summed: `.sum_to_size({name}.size())`"
        made, written = _made_at(evidence) or span, spans.element(pair.backward, path[0])
        return Blame(made, message, also=other_lines(made, [written] if written is not None else []))
    return Blame(span)


def made_span(subject: Subject, trial: Trial, path: Path) -> Span:
    """Where a gradient was made, in the branch that was taken; where it is returned if that is not known."""
    pair = subject.pair
    evidence = _evidence(subject, pair.forward, pair.backward, trial, path) if pair is not None else None
    return _made_at(evidence) or returned_span(subject, path[0])


def _made_at(evidence: Evidence | None) -> Span | None:
    """Where the gradient was made, in the branch that was taken."""
    if evidence is None:
        return None
    trace = evidence.traces[0]
    result = evidence.result(trace)
    return next((step.node.span for step in trace.steps if result in step.outputs and step.node.span.end), None)


def _other_shapes(subject: Subject, trial: Trial, path: Path) -> dict[str, tuple[int, ...]]:
    arguments = subject.schema.arguments
    return {
        arguments[i].name: value.shape
        for i, value in enumerate(trial.values)
        if i != path[0] and isinstance(value, np.ndarray)
    }


def _place_of(shapes: dict[str, tuple[int, ...]], shape: tuple[int, ...]) -> str | None:
    return next((name for name, other in shapes.items() if other == shape), None)


def _index(subject: Subject, name: str | None) -> int:
    return [argument.name for argument in subject.schema.arguments].index(name or "")


def returned_span(subject: Subject, index: int) -> Span:
    """Where the gradient of a parameter is returned; the function's header if it has no backward."""
    if subject.pair is None:
        return subject.function.graph.span
    return Spans(subject.function).returned(subject.pair.backward, index)


def second_span(subject: Subject, index: int | None, order: Sequence[int]) -> Span:
    """Where a second derivative is written: in the author's second-order formula if there is one."""
    pair = subject.pair
    if pair is None:
        return subject.function.graph.span
    spans = Spans(subject.function)
    if pair.second is not None and index is not None and index < len(pair.second.backward.outputs):
        return spans.returned(pair.second.backward, index)
    return spans.returned(pair.backward, order[0]) if order else pair.backward.span
