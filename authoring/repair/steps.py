"""What each step of a wrong backward would have had to make for the gradient to be right, and by which change.

A gradient is mostly linear in what a step makes, so what it should have made can be solved for. That rules steps out:
one that would have to make something else for each gradient given, though it depends on none; one whose other value
would mend one parameter and not another, or spoil one that is right. Of those that are left, each is asked for the one
change of its own that makes what it should: other operands, another op, a factor or a term that was left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...compiler.ops.arrays import Array
from ...lang.light_dataclasses import dataclass, field
from ...lang.source import Span
from ..trials.leaves import is_floating
from ..trials.trace import RunTrace, is_number, is_written_number, took_the_same_steps
from .alternatives import UNARY, alternatives
from .evidence import Evidence
from .phrases import quoted, rounded, short_number
from .solving import near, solved_for
from .spans import Spans

MAX_STEPS = 60
MAX_RESHAPED = 20
MAX_VALUES = 48
Make = Callable[[RunTrace], Any]
"""What a step makes, in one trace."""

_FACTORS = (-1.0, 2.0, 0.5, -2.0, -0.5, 3.0, 1 / 3, 4.0, 0.25)
_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    **UNARY,
    "mT": lambda x: x.swapaxes(-1, -2),
    "1 - …": lambda x: 1 - x,
    "1 + …": lambda x: 1 + x,
}
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
}


@dataclass(frozen=True, slots=True)
class StepRepair:
    """A change of one step that makes it give what it should; the lowest rank is the likeliest."""

    rank: float
    step: int
    message: str
    span: Span
    makes: Make
    first: RunTrace
    """The run in which it was found."""

    def holds(self, other: Evidence) -> bool:
        """Whether the same change mends another trial, if that took the same steps."""
        results = []
        for trace in other.traces:
            if not took_the_same_steps(self.first, trace):
                return True
            results.append(trace.with_made(self.step, other.result(trace), partial(self.makes, trace)))
        return other.matches(results)


@dataclass(slots=True)
class Steps:
    """The steps behind one wrong gradient. `wrong` are those of other parameters, `right` those that are right."""

    evidence: Evidence
    spans: Spans
    wrong: Sequence[Evidence] = ()
    right: Sequence[Evidence] = ()
    _used: set[int] = field(default_factory=set)
    """The values that some gradient is computed by, and the inputs: what else there is, no line of the source needs."""
    _wanted: dict[tuple[int, int], list[Array] | bool | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        trace = self.evidence.traces[0]
        self._used.update(trace.results)
        self._used.update(range(len(self.evidence.graph.inputs)))
        for result in trace.results:
            for number in trace.steps_of(result):
                self._used.update(trace.steps[number].inputs)
                self._used.update(trace.steps[number].outputs)

    @property
    def first(self) -> RunTrace:
        return self.evidence.traces[0]

    def _behind(self) -> list[int]:
        """The ops that the gradient is computed by, last first."""
        steps = self.first.steps_of(self.evidence.result(self.first))
        return [step for step in steps if self.first.steps[step].node.schema is not None]

    def suspects(self) -> list[int]:
        """The steps that can be what is wrong: those that explain every wrong gradient, if there are such."""
        steps = self._behind()[:MAX_STEPS]
        if any(len(trace.steps) != len(self.first.steps) for trace in self.evidence.traces):
            return steps
        possible = [step for step in steps if self._can_be_wrong(step)]
        return [step for step in possible if self._explains_all(step)] or possible or steps

    def repairs(self, suspects: Sequence[int]) -> Iterator[StepRepair]:
        """The changes of each that make it give what it should."""
        with np.errstate(all="ignore"):
            for step in suspects:
                yield from self._of_step(step)

    # --- what a step should have made ---

    def wanted(self, step: int, evidence: Evidence) -> list[Array] | bool | None:
        """One value per trace; None where it cannot be told, False where no value would do."""
        key = (step, id(evidence))
        if key not in self._wanted:
            with np.errstate(all="ignore"):
                self._wanted[key] = self._solved(step, evidence)
        return self._wanted[key]

    def _solved(self, step: int, evidence: Evidence) -> list[Array] | bool | None:
        found: list[Array] = []
        for trace, expected in zip(evidence.traces, evidence.gradients(), strict=True):
            made = _made(trace, step)
            if made is None or expected is None:
                return None
            solved = solved_for(partial(_outcome, evidence, trace, step), made, expected)
            if solved is None or isinstance(solved, bool):
                return solved
            found.append(solved)
        now = [_made(trace, step) for trace in evidence.traces]
        same = all(np.array_equal(now[0], other) for other in now[1:])  # type: ignore[arg-type]
        return False if same and not all(near(found[0], other) for other in found[1:]) else found

    def _can_be_wrong(self, step: int) -> bool:
        wanted = self.wanted(step, self.evidence)
        if wanted is False:
            return False
        return wanted is None or not any(self._spoils(step, wanted, other) for other in self.right)

    def _spoils(self, step: int, wanted: Any, other: Evidence) -> bool:
        """Whether another value would change a gradient that is right."""
        for trace, value in zip(other.traces, wanted, strict=True):
            changed = _outcome(other, trace, step, value)
            if changed is None or not near(changed, other.of_result(trace.values[other.result(trace)])):
                return True
        return False

    def _explains_all(self, step: int) -> bool:
        """Whether the same value mends all other gradients that are wrong."""
        wanted = self.wanted(step, self.evidence)
        for other in self.wrong:
            if step not in other.traces[0].steps_of(other.result(other.traces[0])):
                return False
            theirs = self.wanted(step, other)
            if theirs is False:
                return False
            known = isinstance(wanted, list) and isinstance(theirs, list)
            if known and not all(near(a, b) for a, b in zip(wanted, theirs, strict=True)):  # type: ignore[arg-type]
                return False
        return True

    # --- by which change it would ---

    def _of_step(self, step: int) -> Iterator[StepRepair]:
        wanted = self.wanted(step, self.evidence)
        node = self.first.steps[step].node
        if not isinstance(wanted, list) or not node.span.end:
            return
        seen: set[str] = set()
        for rank, message, span, makes in self._changes(step):
            if message not in seen and not self.spans.is_forward(span) and self._gives(wanted, makes):
                seen.add(message)
                yield StepRepair(rank, step, message, span, makes, self.first)

    def _gives(self, wanted: Sequence[Array], makes: Make) -> bool:
        for trace, value in zip(self.evidence.traces, wanted, strict=True):
            made = _attempted(makes, trace)
            if made is None or not near(made, value):
                return False
        return True

    def _changes(self, number: int) -> Iterator[tuple[float, str, Span, Make]]:
        """How likely a change is, what it is in words, where it stands, and what the step would make."""
        step = self.first.steps[number]
        place, whole = step.node.span, _getter(step.outputs[0])
        written = quoted(place)
        for position, operand in enumerate(step.inputs):
            value = self.first.values[operand]
            if is_number(value) and is_written_number(self.first, step, operand):
                for other in dict.fromkeys((value + 1, value - 1, -value, 2 * value, value / 2)):
                    if other != value:
                        text = f"`{short_number(value)}` should be {short_number(rounded(other))}"
                        span = self._operand_span(number, operand)
                        yield 1.0, f"{text} in {written}", span, _with(number, position, _constant(other))
        for name, evaluate in alternatives(step):
            yield 2.2, f"{written} should be {name}", place, _reworked(number, evaluate)
        for _, operand in self._arrays(number) if len(step.inputs) > 1 else ():
            kept = quoted(self._operand_span(number, operand))
            yield 2.25, f"{written} should be {kept} alone", place, _getter(operand)
        yield 2.3, f"{written} has the wrong sign", place, _applied(np.negative, whole)
        for position, operand in self._arrays(number):
            span = self._operand_span(number, operand)
            renamed = self.spans.renamed(step.node, position, self.first.sources[operand])
            if renamed is not None:
                yield from self._lost(number, position, operand, renamed)
            for factor in _FACTORS:
                change = _with(number, position, _scaled(factor, _getter(operand)))
                yield 2.35, f"{quoted(span)} {_factor_text(factor)}", span, change
        yield from self._functions(number)
        yield from self._other_values(number)

    def _lost(self, number: int, position: int, operand: int, place: Span) -> Iterator[tuple[float, str, Span, Make]]:
        """What an assignment lost, that gives another name to a value and no more."""
        get, written = _getter(operand), quoted(place)
        for factor in _FACTORS:
            yield 1.8, f"{written} {_factor_text(factor)}", place, _with(number, position, _scaled(factor, get))
        for name, function in _FUNCTIONS.items():
            yield 1.8, f"{written} lacks `{name}`", place, _with(number, position, _applied(function, get))
        for other, named in self._values(number):
            for symbol, join in _BINARY.items():
                said = f"`{symbol} {named}`" if named else "a term or factor"
                for left, right in ((get, other), (other, get)):
                    change = _with(number, position, _joined(join, left, right))
                    yield 1.9, f"{written} lacks {said}", place, change

    def _functions(self, number: int) -> Iterator[tuple[float, str, Span, Make]]:
        """A factor of the whole, or a function of it or of an operand, that was left out."""
        step = self.first.steps[number]
        place, whole = step.node.span, _getter(step.outputs[0])
        for factor in _FACTORS[1:]:
            yield 2.5, f"{quoted(place)} {_factor_text(factor)}", place, _scaled(factor, whole)
        for name, function in _FUNCTIONS.items():
            for position, operand in self._arrays(number):
                span = self._operand_span(number, operand)
                change = _with(number, position, _applied(function, _getter(operand)))
                # A value that has a name is wrong where it is computed rather than where it is used.
                rank = 2.7 if self._is_made_here(operand) else 2.45
                yield rank, f"{quoted(span)} lacks `{name}`", span, change
            yield 2.5, f"{quoted(place)} lacks `{name}`", place, _applied(function, whole)

    def _other_values(self, number: int) -> Iterator[tuple[float, str, Span, Make]]:
        """Another value in the place of an operand, and a factor or a term that was left out."""
        step = self.first.steps[number]
        place, whole = step.node.span, _getter(step.outputs[0])
        written = quoted(place)
        for get, named in self._values(number):
            for position, operand in self._arrays(number):
                span = self._operand_span(number, operand)
                said = f"should be `{named}`" if named else f"is not what belongs in {written}"
                if named == span.text:
                    continue
                yield 2.4 if named else 2.9, f"{quoted(span)} {said}", span, _with(number, position, get)
            rank = 2.6 if named else 3.0
            for symbol, function in _BINARY.items():
                lacks = f"{written} lacks `{symbol} {named}`" if named else f"{written} lacks a term or factor"
                yield rank, lacks, place, _joined(function, whole, get)
                if symbol in "/-":
                    turned = f"{written} lacks `{named} {symbol}`" if named else lacks
                    yield rank, turned, place, _joined(function, get, whole)

    def _is_made_here(self, operand: int) -> bool:
        return self.first.sources[operand].node.schema is not None

    def _operand_span(self, number: int, operand: int) -> Span:
        return self.spans.operand(self.first.steps[number].node, self.first.sources[operand])

    def _arrays(self, number: int) -> list[tuple[int, int]]:
        """The operands of a step that are arrays: where they stand, and their numbers."""
        inputs = enumerate(self.first.steps[number].inputs)
        return [(position, operand) for position, operand in inputs if is_floating(self.first.values[operand])]

    def _values(self, number: int) -> list[tuple[Make, str]]:
        """What an expression here could use: floating arrays that were there before, or could be captured; named first.

        Those without a name stand in expressions.
        """
        step, names = self.first.steps[number], self.first.names
        there = [i for i in range(min(step.outputs)) if is_floating(self.first.values[i]) and i in self._used]
        called = {names[i] for i in there}
        captured = [name for name in self.evidence.named_values(self.first) if name not in called]
        found = [(_getter(i), names[i]) for i in there if names[i]]
        found += [(partial(_named, self.evidence, name), name) for name in captured]
        found += [(_getter(i), "") for i in there if not names[i]]
        return found[:MAX_VALUES]

    def reshapes(self) -> Iterator[StepRepair]:
        """Of a gradient of the wrong shape: the changes of one step, to another shape, that make it right."""
        with np.errstate(all="ignore"):
            for step in self._behind()[:MAX_RESHAPED]:
                made, node = _made(self.first, step), self.first.steps[step].node
                if made is None or not node.span.end:
                    continue
                for rank, message, span, makes in self._changes(step):
                    found = _attempted(makes, self.first)
                    if found is not None and found.shape != made.shape:
                        repair = StepRepair(rank, step, message, span, makes, self.first)
                        if repair.holds(self.evidence):
                            yield repair


# --- what a step makes ---


def _outcome(evidence: Evidence, trace: RunTrace, step: int, made: Any) -> Array | None:
    found = evidence.of_result(trace.with_made(step, evidence.result(trace), lambda: made))
    return np.asarray(found, np.float64) if isinstance(found, np.ndarray | np.generic) else None


def _made(trace: RunTrace, step: int) -> Array | None:
    outputs = trace.steps[step].outputs
    value = trace.values[outputs[0]] if len(outputs) == 1 else None
    return value if isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.size else None


# --- changes ---


def _attempted(makes: Make, trace: RunTrace) -> Array | None:
    try:
        made = makes(trace)
    except Exception:  # any op may refuse other operands in its own way
        return None
    return np.asarray(made) if isinstance(made, np.ndarray | np.generic) else None


def _named(evidence: Evidence, name: str, trace: RunTrace) -> Any:
    return evidence.named_values(trace)[name]


def _operands(trace: RunTrace, step: int) -> list[Any]:
    return [trace.values[i] for i in trace.steps[step].inputs]


def _getter(number: int) -> Make:
    return lambda trace: trace.values[number]


def _constant(value: Any) -> Make:
    return lambda trace: value


def _applied(function: Callable[[Any], Any], get: Make) -> Make:
    return lambda trace: function(get(trace))


def _scaled(factor: float, get: Make) -> Make:
    return lambda trace: factor * get(trace)


def _joined(function: Callable[[Any, Any], Any], left: Make, right: Make) -> Make:
    return lambda trace: function(left(trace), right(trace))


def _reworked(step: int, evaluate: Callable[[list[Any]], Any]) -> Make:
    return lambda trace: evaluate(_operands(trace, step))


def _factor_text(factor: float) -> str:
    return "has the wrong sign" if factor == -1 else f"is {short_number(rounded(1 / factor))} times what it should be"


def _with(step: int, position: int, get: Make) -> Make:
    """What a step makes with another operand."""

    def makes(trace: RunTrace) -> Any:
        operands = _operands(trace, step)
        operands[position] = get(trace)
        return trace.steps[step].evaluate(*operands)

    return makes
