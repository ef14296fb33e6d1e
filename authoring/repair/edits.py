"""Single changes to a backward that would make a gradient right, found by trying them.

Each search yields `Repair`s: what would have to change, where, and how likely that is what the author meant. The
measured gradient decides: a change counts only if the gradient then agrees with it in every element.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import combinations, combinations_with_replacement
from typing import Any

import numpy as np

from ...compiler.ir.node import Node
from ...compiler.ops.arrays import Array
from ...lang.light_dataclasses import dataclass, replace
from ...lang.source import Span
from ..trials.decisions import COMPARISONS
from ..trials.trace import RunTrace, UseSite, is_number, is_written_number, sum_to, took_the_same_steps
from .alternatives import UNARY, alternatives
from .evidence import MIN_EQUATIONS, Evidence
from .phrases import coefficient_message, is_nice, quoted, rounded, short_number, term_text
from .spans import Spans

Change = Callable[[Any, RunTrace], Any]
"""From an operand, in one trace, to what should stand in its place; None where nothing can."""
Get = Callable[[RunTrace], Array]

MAX_NAMED = 12
MAX_SITES = 60
_SUMS = tuple(f"aten::{name}" for name in ("add", "sub", "rsub", "neg", "sum_to_size", "reshape", "view", "expand"))
"""Ops whose operands are terms."""


@dataclass(frozen=True, slots=True)
class Repair:
    """One change that makes the gradient right; the lowest rank is the likeliest."""

    rank: float
    message: str
    span: Span
    step: int = -1
    """The step that is changed; -1 stands for the result."""
    holds: Callable[[Search], bool] | None = None
    """Whether the same change mends another trial, of a change by a number that may be that of one trial's sizes."""


@dataclass(slots=True)
class Search:
    """Tries changes against the evidence."""

    evidence: Evidence
    spans: Spans
    whole: Span
    """The returned expression."""
    suspects: Collection[int] = ()
    """The steps of which changes are tried, -1 for the result."""

    def repairs(self) -> Iterator[Repair]:
        yield from self._constants()
        yield from self._coefficients()
        yield from self._other_operations()
        yield from self._transposed()
        yield from self._other_operands()
        yield from self._missing_factors()
        yield from self._missing_terms()

    # --- what can be changed ---

    @property
    def first(self) -> RunTrace:
        return self.evidence.traces[0]

    def _sites(self) -> Iterator[UseSite]:
        """Every use of a tensor or number by a suspect, the result itself first unless it is a list."""
        trace = self.first
        if -1 in self.suspects and not isinstance(trace.values[self.evidence.result(trace)], list):
            yield UseSite(-1, 0)
        count = 0
        for number in self._suspected():
            step = trace.steps[number]
            for position, operand in enumerate(step.inputs):
                value = trace.values[operand]
                if (isinstance(value, np.ndarray) and value.dtype.kind == "f") or is_written_number(
                    trace, step, operand
                ):
                    count += 1
                    if count > MAX_SITES:
                        return
                    yield UseSite(number, position)

    def _suspected(self) -> list[int]:
        """The suspects on the way to the result, last first."""
        return [step for step in self.first.steps_of(self.evidence.result(self.first)) if step in self.suspects]

    def _span(self, site: UseSite) -> Span:
        if site.step < 0:
            return self.whole
        step = self.first.steps[site.step]
        return self.spans.operand(step.node, self.first.sources[step.inputs[site.position]])

    def _with(self, site: UseSite, change: Change) -> Iterator[Any]:
        """The gradient, per trace, with an operand changed."""
        for trace in self.evidence.traces:
            result = self.evidence.result(trace)
            try:
                with np.errstate(all="ignore"):
                    operand = change(trace.operand(site, result), trace)
            except (ValueError, TypeError, ZeroDivisionError):
                operand = None
            yield None if operand is None else trace.with_operand(site, result, operand)

    def _elsewhere(self, site: UseSite, change: Change) -> Callable[[Search], bool]:
        """Whether a change mends another trial that took the same steps."""
        return lambda other: not took_the_same_steps(self.first, other.first) or other._fixes(site, change)

    def _fixes(self, site: UseSite, change: Change) -> bool:
        return self.evidence.matches(self._with(site, change))

    def _is_written(self, site: UseSite) -> bool:
        """Whether the source writes the number, which a value of an argument is not."""
        return self.first.sources[self.first.steps[site.step].inputs[site.position]].node.kind == "prim::Constant"

    def _only_decides(self, number: int) -> bool:
        """Whether what a step makes is only compared: then a change of it may put the border out of sight."""
        pending, result = set(self.first.steps[number].outputs), self.evidence.result(self.first)
        for step in self.first.steps[number + 1 :]:
            if not _compares(step.node) and pending.intersection(step.inputs):
                pending.update(step.outputs)
        return result not in pending

    def _is_seen(self, site: UseSite, change: Change) -> bool:
        """Whether a change of what is compared is told by both outcomes: else it only puts the border out of sight."""
        step = self.first.steps[site.step] if site.step >= 0 else None
        if step is None or not _compares(step.node):
            return step is None or not self._only_decides(site.step)
        operands = _operands(self.first, site.step)
        changed = change(operands[site.position], self.first)
        if changed is None:
            return False
        operands[site.position] = changed
        outcomes = np.asarray(step.evaluate(*operands))
        return bool(outcomes.any() and not outcomes.all())

    # --- coefficients ---

    def _constants(self) -> Iterator[Repair]:
        """A number in the source that should be another one."""
        for site in self._sites():
            if site.step < 0 or not is_number(operand := self.first.operand(site, 0)) or not self._is_written(site):
                continue
            guesses = [operand + 1, operand - 1, -operand, 2 * operand, operand / 2, 1 / operand if operand else 1]
            fitted = self._fitted_coefficient(site)
            if fitted is not None and is_nice(fitted * operand):
                guesses.insert(0, rounded(fitted * operand))
            for guess in guesses:
                change = _constant(guess)
                if guess != operand and self._fixes(site, change) and self._is_seen(site, change):
                    rank = 1.0 if float(guess).is_integer() or not float(operand).is_integer() else 1.2
                    message = f"`{short_number(operand)}` should be {short_number(guess)}"
                    yield Repair(rank, message, self._span(site), site.step, self._elsewhere(site, change))
                    break

    def _fitted_coefficient(self, site: UseSite) -> float | None:
        """The factor of an operand that makes the gradient right, if the gradient is linear in it."""
        zero = self._with(site, lambda operand, _: operand * 0)
        rows, right = [], []
        for trace, without, expected in zip(self.evidence.traces, zero, self.evidence.expected, strict=True):
            base = self.evidence.project(without)
            full = self.evidence.project(trace.values[self.evidence.result(trace)])
            if base is None or full is None:
                return None
            rows.append(full - base)
            right.append(expected - base)
        share, wanted = np.concatenate(rows), np.concatenate(right)
        norm = float(share @ share)
        if not np.isfinite(norm) or norm <= 1e-20 * max(float(wanted @ wanted), 1e-300):
            return None
        factor = float(share @ wanted) / norm
        return factor if np.isfinite(factor) else None

    def _coefficients(self) -> Iterator[Repair]:
        """A term with the wrong sign or factor, or one that should not be there."""
        enough = self.evidence.equations >= MIN_EQUATIONS
        for site in self._sites():
            factor = self._fitted_coefficient(site)
            factors = [-1.0] if factor is None else [rounded(factor), -1.0]
            for tried in dict.fromkeys(factors):
                if abs(tried - 1) < 1e-9 or not (enough or is_nice(tried)):
                    continue
                if self._fixes(site, _times(tried)) and self._is_seen(site, _times(tried)):
                    found = self._coefficient_repair(site, tried)
                    yield (
                        found
                        if " elements" in found.message
                        else replace(found, holds=self._elsewhere(site, _times(tried)))
                    )
                    break

    def _coefficient_repair(self, site: UseSite, factor: float) -> Repair:
        span = self._span(site)
        term = self._is_term(site)
        rank = (2.0 if term else 2.6) + (0.0 if is_nice(factor) else 0.3) + (0.25 if site.step < 0 else 0.0)
        # Of terms that explain it alike the shortest says most.
        rank += min(len(span.text), 400) * 1e-4
        return Repair(rank, self._coefficient_text(quoted(span), factor), span, site.step)

    def _coefficient_text(self, term: str, factor: float) -> str:
        counts = [n for n in (int(np.prod(self.evidence.shape)), *self.evidence.shape) if n > 2]
        if any(abs(factor * n - 1) < 1e-6 for n in counts):
            return f"{term} should be divided by {short_number(round(1 / factor))}, the number of elements"
        return coefficient_message(term, factor)

    def _is_term(self, site: UseSite) -> bool:
        """Whether the operand is a term of a sum, or the whole."""
        if site.step < 0:
            return True
        kind = self.first.steps[site.step].node.kind
        return kind.startswith(_SUMS) and site.position < 2

    # --- another operation ---

    def _other_operations(self) -> Iterator[Repair]:
        for number in self._suspected():
            step = self.first.steps[number]
            if not _compares(step.node) and self._only_decides(number):
                continue
            for name, evaluate in alternatives(step):
                if self._is_mended_by(number, evaluate):
                    span = step.node.span if step.node.span.end else self.whole
                    holds = self._operation_elsewhere(number, evaluate)
                    yield Repair(2.2, f"{quoted(span)} should be {name}", span, number, holds)

    def _is_mended_by(self, number: int, evaluate: Callable[[list[Any]], Any]) -> bool:
        return self.evidence.matches(self._with_operation(t, number, evaluate) for t in self.evidence.traces)

    def _operation_elsewhere(self, number: int, evaluate: Callable[[list[Any]], Any]) -> Callable[[Search], bool]:
        """Whether another operation mends another trial that took the same steps."""
        return lambda other: not took_the_same_steps(self.first, other.first) or other._is_mended_by(number, evaluate)

    def _with_operation(self, trace: RunTrace, number: int, evaluate: Callable[[list[Any]], Any]) -> Any:
        return trace.with_made(number, self.evidence.result(trace), lambda: evaluate(_operands(trace, number)))

    def _transposed(self) -> Iterator[Repair]:
        for site in self._sites():
            operand = self.first.operand(site, self.evidence.result(self.first))
            if not isinstance(operand, np.ndarray) or operand.ndim < 2:
                continue
            if self._fixes(site, lambda operand, _: operand.swapaxes(-1, -2)):
                span = self._span(site)
                yield Repair(2.4 + len(span.text) * 1e-4, f"{quoted(span)} should be transposed", span, site.step)

    # --- another operand ---

    def _named(self) -> dict[str, Get]:
        names = list(self.evidence.named_values(self.first))[:MAX_NAMED]
        return {name: self._getter(name) for name in names}

    def _getter(self, name: str) -> Get:
        return lambda trace: self.evidence.named_values(trace)[name]

    def _derived(self) -> dict[str, Get]:
        """Simple expressions of named values."""
        named = self._named()
        found: dict[str, Get] = {}
        for name, get in named.items():
            for text, function in _OF_ONE.items():
                found[text.format(name)] = _applied(function, get)
        for (left, f), (right, g) in combinations(named.items(), 2):
            found[f"{left} * {right}"] = _combined(np.multiply, f, g)
            found[f"{left} / {right}"] = _combined(np.divide, f, g)
        for name in list(self.evidence.arguments)[:4]:
            for operation in ("sin", "cos", "exp", "log", "tanh", "sigmoid"):
                found[f"torch.{operation}({name})"] = _applied(UNARY[operation], named[name])
        return found

    def _other_operands(self) -> Iterator[Repair]:
        named = self._named()
        for rank, choices in ((2.8, named), (4.0, self._derived())):
            for site in self._sites():
                shape = self._shape_at(site)
                written = self._span(site)
                is_compared = site.step >= 0 and _compares(self.first.steps[site.step].node)
                for text, get in choices.items():
                    # What is compared is told by few elements: nothing but a name is proposed for it.
                    if text == written.text or site.step < 0 or (is_compared and choices is not named):
                        continue
                    change = _replaced_by(get, shape)
                    if self._fixes(site, change) and self._is_seen(site, change):
                        length = len(written.text) * 1e-4
                        yield Repair(rank + length, f"{quoted(written)} should be `{text}`", written, site.step)

    def _shape_at(self, site: UseSite) -> tuple[int, ...]:
        return np.shape(self.first.operand(site, self.evidence.result(self.first)))

    def _missing_factors(self) -> Iterator[Repair]:
        """A term that should be multiplied or divided by a named value."""
        for site in self._sites():
            if not self._is_term(site) and site.step >= 0:
                continue
            span = self._span(site)
            shape = self._shape_at(site)
            for text, get in {**self._named(), **self._derived()}.items():
                rank = (3.8 if site.step < 0 else 3.6) + len(text) * 1e-3 - min(len(span.text), 400) * 1e-4
                if self._fixes(site, _multiplied_by(get, shape)):
                    yield Repair(rank, f"{quoted(span)} lacks the factor `{text}`", span, site.step)
                elif text in self.evidence.arguments and self._fixes(site, _divided_by(get, shape)):
                    yield Repair(rank, f"{quoted(span)} should be divided by `{text}`", span, site.step)

    # --- a missing term ---

    def _missing_terms(self) -> Iterator[Repair]:
        """What is missing is a multiple of a product of two or three named values."""
        if self.evidence.equations < MIN_EQUATIONS or -1 not in self.suspects:
            return
        rests = []
        for trace, expected in zip(self.evidence.traces, self.evidence.expected, strict=True):
            found = self.evidence.project(trace.values[self.evidence.result(trace)])
            if found is None:
                return
            rests.append(expected - found)
        rest = np.concatenate(rests)
        for names in self._products():
            made = [self._product(trace, names) for trace in self.evidence.traces]
            if any(m is None for m in made):
                continue
            term = np.concatenate([m for m in made if m is not None])
            norm = float(term @ term)
            factor = float(term @ rest) / norm if norm else 0.0
            scale = float(np.abs(rest).max())
            if factor and float(np.abs(rest - factor * term).max()) <= 1e-5 * scale:
                yield Repair(
                    5.0 + 0.1 * len(names), f"a term is missing: {term_text(rounded(factor), names)}", self.whole
                )

    def _products(self) -> Iterator[Sequence[str]]:
        names = list(self._named())
        for size in (1, 2, 3):
            yield from combinations_with_replacement(names, size)

    def _product(self, trace: RunTrace, names: Sequence[str]) -> Array | None:
        named = self._named()
        try:
            product: Any = 1.0
            for name in names:
                product = product * named[name](trace)
        except ValueError:
            return None
        summed = sum_to(np.asarray(product), self.evidence.shape)
        if summed is None or len(self.evidence.path) > 1:
            return None
        return self.evidence.project(summed)


def _in_shape(value: Any, shape: tuple[int, ...]) -> Any:
    """The value if it may stand where one of a shape stood."""
    if np.shape(value) == shape:
        return value
    try:
        return np.broadcast_to(value, shape).copy()
    except ValueError:
        return None


def _compares(node: Node) -> bool:
    return node.schema is not None and node.schema.base_name in COMPARISONS


def _operands(trace: RunTrace, number: int) -> list[Any]:
    return [trace.values[i] for i in trace.steps[number].inputs]


# --- changes ---

_OF_ONE: dict[str, Callable[[Array], Array]] = {
    "{0} * {0}": lambda x: x * x,
    "1 - {0}": lambda x: 1 - x,
    "1 / {0}": lambda x: 1 / x,
    "({0} > 0)": lambda x: (x > 0) * 1.0,
}


def _constant(value: float) -> Change:
    return lambda operand, trace: value


def _times(factor: float) -> Change:
    return lambda operand, trace: operand * factor


def _replaced_by(get: Get, shape: tuple[int, ...]) -> Change:
    return lambda operand, trace: _in_shape(get(trace), shape)


def _multiplied_by(get: Get, shape: tuple[int, ...]) -> Change:
    return lambda operand, trace: _in_shape(operand * get(trace), shape)


def _divided_by(get: Get, shape: tuple[int, ...]) -> Change:
    return lambda operand, trace: _in_shape(operand / get(trace), shape)


def _applied(function: Callable[[Array], Array], get: Get) -> Get:
    return lambda trace: function(get(trace))


def _combined(function: Callable[[Array, Array], Array], left: Get, right: Get) -> Get:
    return lambda trace: function(left(trace), right(trace))
