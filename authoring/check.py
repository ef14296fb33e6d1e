"""`gs.check`: whether a function's gradient is the derivative of its forward, to second order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from ..compiler.types.types import NONE
from ..lang.diagnostics import CompileError
from ..runtime.face.function import Function
from ..runtime.failures.failure import RuntimeFailure
from ..runtime.settings.modes import settings
from ..runtime.values.arrays import on_host
from .trials.arguments.draws import Rng
from .trials.arguments.examples import examples_beside
from .trials.arguments.inputs import InputSearch
from .trials.arguments.recipes import Recipe, TensorEntry, example_recipe
from .trials.arguments.shapes import kind_of_shapes
from .trials.evaluation import Subject, flat
from .trials.excuses import (
    excuse_refusals,
    excuse_refused_shapes,
    forgive_ends,
    forgive_negative_counts,
    sum_where_broadcast,
)
from .trials.leaves import floating_leaves
from .trials.report import Case, CheckReport, Failure
from .trials.second import NOT_FINITE, NotTwice, SecondFinding, check_second
from .trials.survey import Survey, way_text
from .trials.trial import GradientFinding, Trial, of_each_element, run_trial

if TYPE_CHECKING:
    from .repair.explain import Explainer

ATTEMPTS = 8
"""Points tried before a finite difference that does not settle is taken as it is."""
SECOND_TRIALS = 5
AUTODIFF_TRIALS = 3


def check(function: Function, /, *example: Any, **named: Any) -> CheckReport:
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

    def __init__(self, function: Function, *, seed: int = 0) -> None:
        self.subject = Subject(function)
        self.names = [argument.name for argument in function.schema.arguments]
        self.report = CheckReport(function.name)
        self._rng = Rng(seed)
        self._seed = seed
        self._trials: list[Trial] = []
        self._infinite: list[Trial] = []
        self._refused: list[tuple[Trial, GradientFinding]] = []
        self._drawn: Iterator[Recipe] = iter(())
        self._is_given = False
        """Whether the arguments are the author's, who means them all."""
        self._survey = Survey(self.subject, Rng(seed + 1))

    def run(self, examples: Sequence[tuple[tuple[Any, ...], dict[str, Any]]] | None = None) -> CheckReport:
        """Check on examples, each positional and named arguments, or on what can be found."""
        # What runs a dozen times is not worth optimising; `Subject.autodiff` holds what a user's call runs to it. All
        # run by ops: what kernels draw may differ from what these do in the last digit.
        with settings.optimize(False), settings.backend("numpy"):
            return self._run(examples)

    def _run(self, examples: Sequence[tuple[tuple[Any, ...], dict[str, Any]]] | None) -> CheckReport:
        recipes = self._recipes(examples)
        self._try(recipes)
        if recipes and not self._trials and not self._infinite:
            self._no_inputs("it raises on all arguments that were tried")
        if self._trials:
            self._try(self._survey.recipes(self._drawn, kinks=not self._is_plainly_wrong()))
        self._forgive()
        for trial in self._trials:
            self._record(trial)
        if any(finding.kind is not None for trial in self._trials for finding in trial.findings):
            self.report.failures += self._explainer.failures()
        if self._refused and not self.report.failures:
            self.report.warnings += self._explainer.refused(self._refused)
        if not self.report.failures:
            self._at_kinks()
        self._compare_with_autodiff()
        self._second_order()
        self._account()
        return self.report

    def _is_plainly_wrong(self) -> bool:
        """Whether some number is, which nothing forgives: then kinks are not looked for, and the second order waits."""
        return any(f.kind in ("value", "none", "nan") for t in self._trials for f in t.findings if not t.counts_down)

    @cached_property
    def _explainer(self) -> Explainer:
        """What finds words for what is wrong: loaded with the first that is."""
        from .repair.explain import Explainer

        return Explainer(self.subject, self._trials, lambda trial: of_each_element(self.subject, trial, self._rng))

    def _try(self, recipes: Sequence[Recipe]) -> None:
        for recipe in recipes:
            trial = self._settled_trial(recipe, basis=not self._trials)
            if trial is not None and not trial.is_finite:
                self._infinite.append(trial)
            elif trial is not None:
                self._forgive_detached(trial)
                self._trials.append(trial)
                self._survey.see(trial)

    def _forgive(self) -> None:
        """What differentiation mends, and what nobody means, is no error."""
        mended = sum_where_broadcast(self.subject, self._trials)
        for trial, finding in {finding.index: (trial, finding) for trial, finding in reversed(mended)}.values():
            message = "the gradient of '{name}' is not summed where it was broadcast; differentiation sums it"
            self.report.warnings.append(self._explainer.warning("shape", finding, trial, message))
        self.report.notes += [f"the backward refuses: {said}" for said in excuse_refusals(self._trials)[:3]]
        self._refused = [] if self._is_given else excuse_refused_shapes(self.subject, self._trials)
        at_ends = {finding.index: (trial, finding) for trial, finding in forgive_ends(self.subject, self._trials)}
        for trial, finding in at_ends.values():
            message = f"the gradient of '{{name}}' {finding.message}, at an end of where the function is defined"
            self.report.warnings.append(self._explainer.warning("nan", finding, trial, message))
        for trial, finding in forgive_negative_counts(self.subject, self._trials)[:1]:
            message = "the gradient of '{name}' is wrong for a negative number of rounds; an `assert` can rule it out"
            self.report.warnings.append(self._explainer.warning(finding.kind or "value", finding, trial, message))

    def _at_kinks(self) -> None:
        """Hold gradients to the conventions where finite differences say nothing."""
        known = {failure.argument for failure in self.report.failures}
        found: dict[tuple[int, str], Any] = {}
        for finding in self._survey.kinks(self._sound_trials()):
            key = (finding.index, finding.kind)
            if self.names[finding.index] not in known and (key not in found or found[key].is_at_an_end):
                found[key] = finding
        for finding in found.values():
            failure = self._explainer.kink(finding)
            if finding.is_at_an_end:
                self.report.warnings.append(failure)
                continue
            self.report.failures.append(failure)
            shapes = self._trials[0].recipe.shapes
            name = self.names[finding.index]
            self.report.cases.append(Case(name, 1, f"{name}: {finding.tried}", shapes, "float64", None, finding.kind))

    def _account(self) -> None:
        """What was reached; what was not is a failure, for nothing is right that has not run."""
        if self._infinite:
            tried = self._infinite[0].recipe.describe(self.names)
            self.report.notes.append(f"not checked where the result is not finite: {tried}")
        if not self._trials and self._infinite:
            self._no_inputs("the result is not finite on any arguments that were tried")
        if any(finding.is_symmetric for trial in self._trials for finding in trial.findings):
            self.report.notes.append("of symmetric matrices the gradient is held to changes that leave them symmetric")
        self.report.coverage = self._survey.coverage(self._trials)
        if not self._trials:
            return
        if not self.report.failures:
            self._require_elements()
        for side in self._survey.missing():
            text = " ".join(side.span.text.split())
            what = f"`{text}`" if len(text) <= 60 else f"`{text[:57]}...`"
            notes = [f"give arguments that do: `def {self.report.function}_examples(): return [(…), …]`"]
            message = f"{what} was never {way_text(side)}: what follows from that is not checked"
            self._fail(None, "unreached", message, side.span, notes)

    def _require_elements(self) -> None:
        """A gradient that only ever had no elements was not compared with anything."""
        compared: dict[int, bool] = {}
        for trial in self._trials:
            for path, leaf in floating_leaves(trial.values).items():
                compared[path[0]] = compared.get(path[0], False) or bool(leaf.size)
        empty = [self.names[i] for i, has_elements in compared.items() if not has_elements]
        if empty:
            self._no_inputs(f"no arguments were found with elements in {' and '.join(map(repr, empty))}")

    # --- arguments ---

    def _recipes(self, examples: Sequence[tuple[tuple[Any, ...], dict[str, Any]]] | None) -> list[Recipe]:
        function = self.subject.function
        given = examples if examples is not None else examples_beside(function)
        if given is None:
            return self._found_recipes()
        self._is_given = True
        recipes = []
        for args, named in given:
            recipe = self._example(args, named)
            if recipe is not None:
                recipes.append(recipe)
        search = InputSearch(self.subject, self._seed)
        self._drawn = search.varied(recipes)
        shorter = [recipe.with_dtype("float32") for recipe in recipes[:1]]
        others = chain(search.with_other_numbers(recipes), search.broadcast_examples(recipes))
        return [*recipes, *others, *search.in_other_dtypes(recipes), *shorter]

    def _found_recipes(self) -> list[Recipe]:
        search = InputSearch(self.subject, self._seed)
        found = search.recipes()
        if found:
            self._drawn = search.drawn(found[0])
        elif search.gives_no_numbers:
            self._no_derivative()
        else:
            self._no_inputs("no arguments were found on which it runs and gives finite numbers")
        return found

    def _no_derivative(self) -> None:
        """A function whose results are integers, flags or texts: right if it gives no gradient."""
        pair = self.subject.pair
        if pair is None or all(value.type == NONE for value in pair.backward.outputs):
            self.report.notes.append("its results hold no floating numbers: there is nothing to differentiate")
            return
        message = f"'{self.report.function}': its results hold no floating numbers, so its backward is never run"
        self._fail(None, "no_inputs", message, pair.backward.span, ["return None for each input, or no backward"])

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
            if best is not None and best.is_finite and (best.settled or _is_wrong_anyway(best)):
                break
            try:
                other = run_trial(self.subject, recipe, self._rng, attempt, basis)
            except RuntimeFailure:
                continue
            if best is None or not best.is_finite or other.settled or _unreliable(other) < _unreliable(best):
                best = other
        return best

    def _record(self, trial: Trial) -> None:
        for finding in trial.findings:
            empty = all(not leaf.size for p, leaf in floating_leaves(trial.values).items() if p[0] == finding.index)
            verdict = finding.kind or ("skipped" if empty and finding.error is None else "ok")
            if verdict == "ok" and finding.index in trial.surrogates:
                verdict = "surrogate"
            elif verdict == "ok" and self.subject.detaches(finding.index):
                verdict = "constant"
            self._case(trial, self.names[finding.index], 1, finding.error, verdict)

    def _case(self, trial: Trial, argument: str, order: int, error: float | None, verdict: str) -> None:
        recipe = trial.recipe
        tried = recipe.describe(self.names)
        self.report.cases.append(Case(argument, order, tried, recipe.shapes, recipe.dtype, error, verdict))

    # --- against autodiff ---

    def _compare_with_autodiff(self) -> None:
        """What `gs.vjp` gives, as a user calls it: once optimised for its arguments, then as it is written."""
        pair = self.subject.pair
        by = "the backward run by hand" if pair is not None else "it gives without optimisation"
        for number, trial in enumerate(self._sound_trials()[: AUTODIFF_TRIALS if pair is not None else 1]):
            try:
                found = self.subject.autodiff(trial.values, trial.seeds[0], optimised=number == 0)
            except (CompileError, RuntimeFailure) as error:
                span = self.subject.function.graph.span if pair is None else pair.backward.span
                self._fail(None, "autodiff", f"gs.vjp fails where {by} does not: {error.message}", span)
                return
            for index in {finding.index for finding in trial.findings}:
                like = [trial.values[index]]
                by_hand, by_vjp = flat([trial.gradients[0][index]], like), flat([found[index]], like)
                if not np.allclose(by_hand, by_vjp, rtol=1e-9, atol=1e-12, equal_nan=True):
                    name = self.names[index]
                    message = f"gs.vjp gives another gradient of '{name}' than {by}"
                    self._fail(name, "autodiff", message, self._explainer.returned(index))
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
            different.setdefault((repr(plain), kind_of_shapes(trial.recipe.shapes)), trial)
        rest = [t for t in sound if not any(t is chosen for chosen in different.values())]
        return [*different.values(), *rest]

    # --- second order ---

    def _second_order(self) -> None:
        failed: set[str] = set()
        if any(failure.argument is not None for failure in self.report.failures):
            self.report.notes.append("kinks and second order are checked once the rest is right")
            return
        for trial in self._sound_trials()[:SECOND_TRIALS]:
            try:
                findings = self._second_findings(trial)
            except NotTwice as reason:
                self.report.notes.append(f"no second order: {reason}")
                return
            for finding in findings:
                if finding.index < len(self.names) and self.subject.detaches(finding.index):
                    continue
                if finding.kind == "second_order" and self._not_twice is not None:
                    self.report.notes.append(f"no second order: {self._not_twice}")
                    return
                self._case(trial, finding.name, 2, finding.error, finding.kind or "ok")
                if finding.kind == "second_order" and finding.name not in failed:
                    failed.add(finding.name)
                    self._fail_second(trial, finding)

    @property
    def _not_twice(self) -> str | None:
        """Why what a function without a backward gives twice is not the derivative of what it gives once."""
        if self.subject.pair is not None:
            return None
        if self.subject.holds_constants:
            return "the forward holds constants, which move with what they are computed from"
        return "what the forward calls has surrogates" if self.subject.surrogates else None

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
        detail = finding.message or self._explainer.off(finding.error)
        message = f"the derivative of the gradient in '{finding.name}' {detail}"
        notes = [f"tried with {trial.recipe.describe(self.names)}"]
        if pair is not None and pair.second is None and finding.message == "":
            notes.append("a value that the backward captures must be computed from the inputs, and not be detached")
        elif finding.message == NOT_FINITE:
            notes.append("both sides of a `where` are differentiated: `torch.log(torch.where(x > 0, x, 1.0))`")
        wanted = [i for i, g in enumerate(trial.gradients[0]) if g is not None]
        span = self._explainer.second(position, wanted)
        self._fail(finding.name, "second_order", message, span, notes, order=2)

    def _fail(
        self, argument: str | None, kind: str, message: str, span: Any, notes: Sequence[str] = (), order: int = 1
    ) -> None:
        self.report.failures.append(Failure(argument, kind, message, span, tuple(notes), order))


def _unreliable(trial: Trial) -> int:
    return sum(finding.kind == "unreliable" for finding in trial.findings)


def _is_wrong_anyway(trial: Trial) -> bool:
    """Whether another point would tell nothing new."""
    return not trial.probes or any(f.kind in ("error", "shape", "dtype", "nan") for f in trial.findings)
