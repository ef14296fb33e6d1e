"""`gs.check`: whether a function's gradient is the derivative of its forward, to second order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..lang.diagnostics import CompileError
from ..runtime.face.function import Function
from ..runtime.failures.failure import RuntimeFailure
from ..runtime.values.arrays import on_host
from .repair.blame import Blame, blame_shape, blame_value, returned_span, second_span
from .trials.evaluation import Subject, flat
from .trials.examples import examples_beside
from .trials.inputs import InputSearch
from .trials.leaves import floating_leaves
from .trials.recipes import Recipe, TensorEntry, example_recipe
from .trials.report import Case, CheckReport, Failure
from .trials.second import NotTwice, SecondFinding, check_second
from .trials.shapes import kind_of, signature
from .trials.trial import Finding, Trial, run_trial

ATTEMPTS = 8
"""Points tried before a finite difference that does not settle is taken as it is."""
SECOND_TRIALS = 5
AUTODIFF_TRIALS = 3

Progress = Callable[[int, int], None]
"""Called with the number of trials done and the number there will be."""


def check(function: Function, *example: Any, **named: Any) -> CheckReport:
    """Hold the gradients of a function against finite differences of it in float64, to second order.

    A function with its own backward is checked by that, any other by autodiff, on the CPU. Without an example the
    arguments are found: those that a function `NAME_examples` beside it returns, else by a search over shapes, dtypes
    and values. The report is true if all is well; its text is what `gradscript check` prints.
    """
    if not isinstance(function, Function):
        raise TypeError(f"gs.check takes a Function of a CompilationUnit, not {type(function).__name__}")
    given = (on_host(example), {name: on_host(value) for name, value in named.items()})
    return Checker(function).run([given] if example or named else None)


class Checker:
    """One check of one function. The same seed gives the same numbers."""

    def __init__(self, function: Function, *, seed: int = 0, progress: Progress | None = None) -> None:
        self.subject = Subject(function)
        self.names = [argument.name for argument in function.schema.arguments]
        self.report = CheckReport(function.name)
        self._rng = np.random.default_rng(seed)
        self._seed = seed
        self._progress = progress
        self._trials: list[Trial] = []

    def run(self, examples: Sequence[tuple[tuple[Any, ...], dict[str, Any]]] | None = None) -> CheckReport:
        """Check on examples, each positional and named arguments, or on what can be found."""
        recipes = self._recipes(examples)
        for done, recipe in enumerate(recipes):
            if self._progress is not None:
                self._progress(done, len(recipes))
            trial = self._settled_trial(recipe, basis=done == 0)
            if trial is not None:
                self._forgive_detached(trial)
                self._trials.append(trial)
        self._sum_where_broadcast()
        self._excuse_refused_shapes()
        for trial in self._trials:
            self._record(trial)
        self._explain()
        self._compare_with_autodiff()
        self._second_order()
        if self._progress is not None:
            self._progress(len(recipes), len(recipes))
        return self.report

    # --- arguments ---

    def _recipes(self, examples: Sequence[tuple[tuple[Any, ...], dict[str, Any]]] | None) -> list[Recipe]:
        function = self.subject.function
        given = examples if examples is not None else examples_beside(function)
        if given is None:
            found = InputSearch(self.subject, self._seed).recipes()
            if not found:
                self._no_inputs("no arguments were found on which it runs and gives finite numbers")
            return found
        recipes = []
        for args, named in given:
            recipe = self._example(args, named)
            if recipe is not None:
                recipes.append(recipe)
        return recipes + [recipe.with_dtype("float32") for recipe in recipes[:1]]

    def _example(self, args: tuple[Any, ...], named: dict[str, Any]) -> Recipe | None:
        try:
            values = self.subject.function.bind(args, named)
            self.subject.forward(values)
        except RuntimeFailure as failure:
            self._no_inputs(f"the example given does not run: {failure.message}")
            return None
        if not floating_leaves(values):
            self._no_inputs("the example given holds no floating tensor")
            return None
        return example_recipe(values)

    def _no_inputs(self, message: str) -> None:
        name = self.report.function
        arguments = ", ".join(self.names) + ("," if len(self.names) == 1 else "")
        notes = [
            f"write beside it: `def {name}_examples(): return [({arguments}), …]`",
            f"or pass arguments: `gs.check(cu.{name}, …)`",
        ]
        self._fail(None, "no_inputs", f"'{name}': {message}", self.subject.function.graph.span, notes)

    # --- first order ---

    def _forgive_detached(self, trial: Trial) -> None:
        """A parameter that the forward detaches wherever it uses it needs no gradient."""
        for finding in trial.findings:
            if finding.kind == "none" and self.subject.detaches(finding.index):
                finding.kind, finding.error = None, None

    def _settled_trial(self, recipe: Recipe, *, basis: bool = False) -> Trial | None:
        """A trial at a point where the function is smooth, if one is found; None if the forward never runs."""
        best: Trial | None = None
        for attempt in range(ATTEMPTS):
            if best is not None and (best.settled or _is_wrong_anyway(best)):
                break
            try:
                other = run_trial(self.subject, recipe, self._rng, attempt, basis)
            except RuntimeFailure:
                continue
            if best is None or other.settled or _unreliable(other) < _unreliable(best):
                best = other
        return best

    def _sum_where_broadcast(self) -> None:
        """A backward written for operands of one shape is summed by differentiation where they were broadcast.

        That is no fault of it, if it has such shapes and leaves the summing alone altogether.
        """
        if self.subject.sums_to_sizes or not any(_shapes_fit(trial) for trial in _ordinary(self._trials)):
            return
        self.subject.sums_where_broadcast = True
        wrong = {f.index for t in self._trials for f in t.findings if f.kind == "value"}
        for trial in self._trials:
            for finding in trial.findings:
                if finding.kind == "shape" and finding.unsummed:
                    finding.kind = None
                    trial.sum_gradient(finding.index)
                elif finding.kind == "shape" and finding.summable and finding.index in wrong:
                    # Summing does not make it right because it is wrong already where nothing is summed.
                    finding.kind = "unsupported"

    def _excuse_refused_shapes(self) -> None:
        """A backward may refuse shapes that the forward takes, and be right all the same on those it is written for.

        A pointwise function has no such excuse, and neither has a wrong value, nor a gradient that only lacks the sum
        over broadcast dimensions, unless the formula sums for that input elsewhere.
        """
        home = None if self.subject.is_pointwise else _home(self._trials)
        if home is None:
            return
        excused: dict[str, None] = {}
        for trial in self._trials:
            if trial.recipe.shapes and signature(trial.recipe.shapes) != signature(home.recipe.shapes):
                wrong = [f for f in trial.findings if f.kind is not None]
                only_sums = all(f.unsummed for f in wrong)
                for finding in wrong:
                    sums_elsewhere = _is_broadcast(home, finding.index)
                    if finding.kind == "error" or (finding.kind == "shape" and (sums_elsewhere or not only_sums)):
                        finding.kind = "unsupported"
                        excused["·".join(map(str, trial.recipe.shapes))] = None
        if excused:
            shown = ", ".join(list(excused)[:3])
            note = f"the forward takes shapes that the backward does not: {shown}; an `assert` can say so"
            self.report.notes.append(note)

    def _record(self, trial: Trial) -> None:
        for finding in trial.findings:
            empty = all(not leaf.size for p, leaf in floating_leaves(trial.values).items() if p[0] == finding.index)
            verdict = finding.kind or ("skipped" if empty and finding.error is None else "ok")
            self._case(trial, self.names[finding.index], 1, finding.error, verdict)

    def _case(self, trial: Trial, argument: str, order: int, error: float | None, verdict: str) -> None:
        recipe = trial.recipe
        tried = recipe.describe(self.names)
        self.report.cases.append(Case(argument, order, tried, recipe.shapes, recipe.dtype, error, verdict))

    def _explain(self) -> None:
        """One failure for each parameter and kind: of the trials that show it, the one that tells most."""
        found: dict[tuple[int, str], list[tuple[Trial, Finding]]] = {}
        settled = {f.index for t in self._trials for f in t.findings if f.kind is None and f.error is not None}
        for trial in self._trials:
            for finding in trial.findings:
                if finding.kind is None or finding.kind == "unsupported":
                    continue
                if finding.kind == "unreliable" and finding.index in settled:
                    continue
                found.setdefault((finding.index, finding.kind), []).append((trial, finding))
        for (index, kind), shown in found.items():
            if kind == "error" and any(f.argument is not None and f.kind == "error" for f in self.report.failures):
                continue
            self._explain_one(index, kind, shown)

    def _explain_one(self, index: int, kind: str, shown: list[tuple[Trial, Finding]]) -> None:
        trial, finding = max(shown, key=lambda pair: _tells(pair[0], index)) if kind == "value" else shown[0]
        name = self.names[index]
        blame = self._blame(trial, finding, kind)
        message = _MESSAGES[kind].format(name=name, detail=finding.message, off=_percent(finding.error))
        if kind == "value" and finding.message:
            message = f"the gradient of '{name}' {finding.message}"
        notes = [f"tried with {trial.recipe.describe(self.names)}"]
        if self._is_right_elsewhere(index, {signature(t.recipe.shapes) for t, _ in shown}):
            notes.append("other shapes are right: if it is not meant for these, `assert` so, or give examples")
        if kind == "shape" and blame.message:
            message = f"{message}: {blame.message}"
        elif blame.message:
            message = f"the gradient of '{name}' is wrong: {blame.message}"
        self._fail(name, kind, message, blame.span, notes)

    def _is_right_elsewhere(self, index: int, wrong: set[Any]) -> bool:
        """Whether the gradient is right on ordinary shapes, and wrong only on shapes unlike those."""
        if self.subject.is_pointwise:
            return False
        home = _home([t for t in self._trials if signature(t.recipe.shapes) not in wrong])
        return home is not None and any(f.index == index for f in home.findings)

    def _blame(self, trial: Trial, finding: Finding, kind: str) -> Blame:
        path = finding.path or (finding.index,)
        if kind == "shape":
            return blame_shape(self.subject, trial, path)
        if kind == "error" and finding.cause is not None and finding.cause.span.end:
            return Blame(finding.cause.span)
        if kind == "value" and trial.recipe.dtype == "float64":
            exact = self._settled_trial(trial.recipe, basis=True)
            usable = exact is not None and path in exact.probes
            return blame_value(self.subject, exact if exact is not None and usable else trial, path)
        return Blame(returned_span(self.subject, finding.index))

    # --- against autodiff ---

    def _compare_with_autodiff(self) -> None:
        if self.subject.pair is None:
            return
        for trial in self._sound_trials()[:AUTODIFF_TRIALS]:
            try:
                found = self.subject.autodiff(trial.values, trial.seeds[0])
            except (CompileError, RuntimeFailure) as error:
                span = self.subject.pair.backward.span
                self._fail(None, "autodiff", f"gs.vjp fails where the backward runs by hand: {error.message}", span)
                return
            for index in {finding.index for finding in trial.findings}:
                like = [trial.values[index]]
                by_hand, by_vjp = flat([trial.gradients[0][index]], like), flat([found[index]], like)
                if not np.allclose(by_hand, by_vjp, rtol=1e-9, atol=1e-12, equal_nan=True):
                    name = self.names[index]
                    message = f"gs.vjp gives another gradient of '{name}' than the backward run by hand"
                    self._fail(name, "autodiff", message, returned_span(self.subject, index))
                    return

    def _sound_trials(self) -> list[Trial]:
        """Trials whose gradients have the right shapes, in float64, those of unlike shapes first."""
        sound = [
            t
            for t in self._trials
            if t.recipe.dtype == "float64"
            and t.gradients
            and all(f.kind in (None, "value", "unreliable") for f in t.findings)
            and all(leaf.size for leaf in floating_leaves(t.values).values())
        ]
        different: dict[Any, Trial] = {}
        for trial in sound:
            plain = [entry for entry in trial.recipe.entries if not isinstance(entry, TensorEntry)]
            different.setdefault((repr(plain), kind_of(trial.recipe.shapes)), trial)
        rest = [t for t in sound if not any(t is chosen for chosen in different.values())]
        return [*different.values(), *rest]

    # --- second order ---

    def _second_order(self) -> None:
        failed: set[str] = set()
        if any(failure.argument is not None for failure in self.report.failures):
            self.report.notes.append("second order is checked once the first is right")
            return
        for trial in self._sound_trials()[:SECOND_TRIALS]:
            try:
                findings = self._second_findings(trial)
            except NotTwice as reason:
                self.report.notes.append(f"no second order: {reason}")
                return
            for finding in findings:
                self._case(trial, finding.name, 2, finding.error, finding.kind or "ok")
                if finding.kind == "second_order" and finding.name not in failed:
                    failed.add(finding.name)
                    self._fail_second(trial, finding)

    def _second_findings(self, trial: Trial) -> list[SecondFinding]:
        """The findings of a trial, at another point if finite differences do not settle at this one."""
        findings = check_second(self.subject, trial, self._rng)
        for attempt in range(1, ATTEMPTS):
            if not any(finding.kind == "unreliable" for finding in findings):
                break
            other = run_trial(self.subject, trial.recipe, self._rng, attempt)
            if other.gradients and all(f.kind in (None, "value", "unreliable") for f in other.findings):
                findings = check_second(self.subject, other, self._rng)
        for finding in findings:
            if finding.kind == "unreliable":
                finding.kind = "skipped"
        return findings

    def _fail_second(self, trial: Trial, finding: SecondFinding) -> None:
        count = len(self.names)
        pair = self.subject.pair
        position: int | None = None
        if pair is not None and pair.second is not None:
            seeds = len(pair.grad_outputs)
            position = finding.index - count if finding.index >= count else finding.index + seeds
        detail = finding.message or f"is off by {_percent(finding.error)}"
        message = f"the derivative of the gradient in '{finding.name}' {detail}"
        notes = [f"tried with {trial.recipe.describe(self.names)}"]
        if pair is not None and pair.second is None and finding.message == "":
            notes.append("a value that the backward captures must be computed from the inputs, and not be detached")
        wanted = [i for i, g in enumerate(trial.gradients[0]) if g is not None]
        span = second_span(self.subject, position, wanted)
        self._fail(finding.name, "second_order", message, span, notes, order=2)

    def _fail(
        self, argument: str | None, kind: str, message: str, span: Any, notes: Sequence[str] = (), order: int = 1
    ) -> None:
        self.report.failures.append(Failure(argument, kind, message, span, tuple(notes), order))


_MESSAGES = {
    "value": "the gradient of '{name}' is off by {off}",
    "shape": "the gradient of '{name}' {detail}",
    "dtype": "the gradient of '{name}' {detail}",
    "nan": "the gradient of '{name}' {detail}",
    "none": "the gradient of '{name}' is None, yet the result depends on it",
    "error": "the backward raises: {detail}",
    "unreliable": "finite differences in '{name}' do not settle: is the function continuous?",
}


def _percent(error: float | None) -> str:
    if error is None:
        return "an unknown amount"
    return f"{error:.0%}" if error >= 0.01 else f"{error:.1e} of its size"


def _home(trials: Sequence[Trial]) -> Trial | None:
    """The first trial where all is right: the shapes that a formula is written for. Matrices before vectors."""
    return next((t for t in _ordinary(trials) if all(f.kind is None for f in t.findings)), None)


def _ordinary(trials: Sequence[Trial]) -> list[Trial]:
    """Trials that are not empty, of matrices or more where there are any."""
    full = [t for t in trials if all(leaf.size for leaf in floating_leaves(t.values).values())]
    least = min(2, max(map(_rank, full), default=0))
    return [trial for trial in full if _rank(trial) >= least]


def _shapes_fit(trial: Trial) -> bool:
    return bool(trial.findings) and not any(f.kind in ("shape", "error") for f in trial.findings)


def _rank(trial: Trial) -> int:
    return max((leaf.ndim for leaf in floating_leaves(trial.values).values()), default=0)


def _is_broadcast(trial: Trial, index: int) -> bool:
    """Whether a parameter has fewer dimensions than others, so that its gradient must have been summed."""
    own = [leaf for path, leaf in floating_leaves(trial.values).items() if path[0] == index]
    return any(leaf.ndim < _rank(trial) or 1 in leaf.shape for leaf in own)


def _unreliable(trial: Trial) -> int:
    return sum(finding.kind == "unreliable" for finding in trial.findings)


def _is_wrong_anyway(trial: Trial) -> bool:
    """Whether another point would tell nothing new."""
    return not trial.probes or any(f.kind in ("error", "shape", "dtype", "nan") for f in trial.findings)


def _tells(trial: Trial, index: int) -> tuple[bool, bool, int]:
    """How much a trial tells about a parameter: float64, ordinary numbers, many elements (but not too many)."""
    size = sum(leaf.size for path, leaf in floating_leaves(trial.values).items() if path[0] == index)
    plain = all(getattr(entry, "domain", "real") in ("real", "positive", "index") for entry in trial.recipe.entries)
    return trial.recipe.dtype == "float64", plain, size if size <= 24 else 0
