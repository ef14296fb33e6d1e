"""What the trials of one function have reached, what is looked for besides, and what it comes to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .arguments.draws import Rng
from .arguments.ranks import RankSearch, without_elements
from .arguments.recipes import PlainEntry, Recipe, fixed_recipe
from .arguments.samples import holds_tensors
from .branch_conditions import NOTHING, RANKS, Decided
from .coverage import Coverage
from .decisions import COMPARISONS
from .evaluation import Subject
from .kinks import KinkCheck, KinkFinding
from .leaves import array_leaves, floating_leaves
from .observation import Observer, Side
from .trial import Trial
from .unreached import Reach

MAX_BASES = 4
MAX_WITNESSES = 4


class Survey:
    """Sees every trial, and finds arguments for what none has reached."""

    def __init__(self, subject: Subject, rng: Rng) -> None:
        self.subject = subject
        self.observer = Observer(subject)
        self._reach = Reach(subject, self.observer, rng)
        self._bases: dict[str, list[Any]] = {}
        self._of_other_ranks: dict[tuple[int, ...], list[Any]] = {}
        """Arguments that have run, by the numbers of dimensions of all tensors together."""
        self._decided = Decided(self.observer.forward, self.observer.backward)
        self._settled: frozenset[str] = frozenset()
        """What of a caller's arguments has been tried in every way, so that what only that decides was seen."""

    def see(self, trial: Trial) -> None:
        """Count what one trial has reached."""
        reached = self.observer.see(trial.values, trial.seeds[0] if trial.seeds else None)
        if reached is None:
            return
        ranks = tuple(leaf.ndim for leaf in floating_leaves(trial.values).values())
        self._of_other_ranks.setdefault(ranks, trial.values)
        if not all(leaf.size for leaf in floating_leaves(trial.values).values()):
            self.observer.reached_empty.add(reached)
            return
        self.observer.reached.add(reached)
        plain = repr([entry for entry in trial.recipe.entries if isinstance(entry, PlainEntry)])
        if trial.recipe.dtype == "float64" and len(self._bases) < MAX_BASES:
            self._bases.setdefault(plain, trial.values)

    def recipes(self, drawn: Iterable[Recipe] = (), *, kinks: bool = True) -> list[Recipe]:
        """Arguments that reach what the trials so far have not, `drawn` ones or others, and `kinks`."""
        for recipe in drawn:
            if not self.observer.missing():
                break
            self._reach.offer(recipe)
        self._look_at_ranks()
        self._reach.look([*self._bases.values(), *self._reach.found], kinks=kinks)
        # Of the first plain values alone: a count of zero, say, is not what a formula is written for.
        for base in list(self._bases.values())[: int(kinks)]:
            self._reach.look_for_traps(base)
        self.observer.accept_empty()
        return [fixed_recipe(values) for values in self._reach.found]

    def kinks(self, trials: Sequence[Trial]) -> list[KinkFinding]:
        """What is wrong at the kinks that were found. `trials` are those whose gradients are right."""
        if not self._reach.kinks:
            return []
        witnesses = [(t.values, t.seeds[0], t.gradients[0]) for t in trials if t.gradients][:MAX_WITNESSES]
        check = KinkCheck(self.subject, witnesses)
        return [finding for kink in self._reach.kinks for finding in check.findings(kink)]

    def missing(self) -> list[Side]:
        """The ways that no run went, but for those that nothing that a caller gives makes a run go.

        These are branches on numbers of dimensions, once all were tried, and on what the function itself says.
        """
        known = self._settled
        return [
            s for s in self.observer.never_seen() if s.node.kind != "prim::If" or not self._decided.by(s.node) <= known
        ]

    def _runs(self, values: list[Any]) -> bool:
        try:
            self.subject.forward(values)
        except Exception:  # any op may refuse its operands in its own way
            return False
        return True

    def _look_at_ranks(self) -> None:
        """Try other numbers of dimensions where a branch that is decided by them was never seen to go one way."""
        kinds = [self._decided.by(side.node) for side in self.observer.never_seen() if side.node.kind == "prim::If"]
        bases = list(self._bases.values())
        if not bases or not any(kind <= {RANKS, NOTHING} for kind in kinds):
            return
        search = RankSearch(self._runs)
        for values in search.search([*bases, *self._of_other_ranks.values()]):
            self._reach.offer_values(values)
        for base in bases:
            for values in without_elements(base):
                self._reach.offer_values(values)
        if search.is_exhausted:
            self._settled = frozenset((RANKS, NOTHING))

    def coverage(self, trials: Sequence[Trial]) -> Coverage:
        """The whole of it."""
        names = [argument.name for argument in self.subject.schema.arguments]
        sides, missing = self.observer.sides, self.missing()
        found = Coverage(branches=len(sides), branches_taken=len(sides) - len(missing), kinks=len(self._reach.kinks))
        found.never_taken = [(side.span, way_text(side)) for side in missing]
        found.lines, found.lines_never_run = self.observer.lines(), self.observer.unseen_lines()
        found.dtypes = list(dict.fromkeys(trial.recipe.dtype for trial in trials))
        for trial in trials:
            self._add_arguments(found, trial, names)
        found.surrogates = {names[i]: why for i, why in self.subject.surrogates.items()}
        found.unchecked = self._unchecked(trials, names)
        found.plain = {name: values for name, values in found.plain.items() if values}
        found.sizes = {name: sorted(values) for name, values in found.sizes.items()}
        found.ranks = {name: sorted(values) for name, values in found.ranks.items()}
        found.batch.sort()
        return found

    def _unchecked(self, trials: Sequence[Trial], names: Sequence[str]) -> dict[str, str]:
        """The tensors that never held floating numbers, or never were there."""
        found = {}
        for i, (name, argument) in enumerate(zip(names, self.subject.schema.arguments, strict=True)):
            if not trials or not holds_tensors(argument.type):
                continue
            values = [trial.values[i] for trial in trials]
            if any(floating_leaves([value]) for value in values):
                continue
            dtypes = {str(leaf.dtype) for value in values for leaf in array_leaves([value]).values()}
            if not dtypes:
                found[name] = "it was not given, or empty, in every call"
            else:
                found[name] = f"it held {' and '.join(sorted(dtypes))}, where floating numbers do not run"
        return found

    def _add_arguments(self, found: Coverage, trial: Trial, names: Sequence[str]) -> None:
        for name, value in zip(names, trial.values, strict=True):
            if isinstance(value, np.ndarray):
                _add(found.ranks.setdefault(name, []), value.ndim)
                for size in value.shape:
                    _add(found.sizes.setdefault(name, []), size)
            elif array_leaves([value]):
                _add(found.plain.setdefault(name, []), f"a list of {len(value)}")
            else:
                _add(found.plain.setdefault(name, []), value)
        first = next(iter(floating_leaves(trial.values).values()), None)
        if first is not None and first.ndim:
            _add(found.batch, first.shape[0])


def _add(values: list[Any], value: Any) -> None:
    if not any(value == known and type(value) is type(known) for known in values):
        values.append(value)


def way_text(side: Side) -> str:
    """Which way a branch or a comparison never went, in words."""
    if side.node.kind == "prim::If":
        return "taken" if side.way else "passed by"
    if side.node.schema is not None and side.node.schema.base_name not in COMPARISONS:
        return "true" if side.way > 0 else "false"
    return "with its left side greater" if side.way > 0 else "with its left side less"
