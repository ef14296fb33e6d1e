"""What a check forgives: what differentiation mends, and shapes and counts that a formula is not meant for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from ...compiler.ir.node import Node, Value
from ...lang.light_dataclasses import replace
from .arguments.recipes import FixedEntry, PlainEntry
from .arguments.shapes import shape_signature
from .evaluation import Subject
from .kinks import ends_at
from .leaves import floating_leaves
from .trial import GradientFinding, Trial

RAISED = "R102"
"""The code of what the source itself raises."""
_KEEPS_NUMBERS = ("aten::add.int", "aten::sub.int", "aten::mul.int", "aten::floordiv.int", "aten::Int.Scalar")


def sum_where_broadcast(subject: Subject, trials: Sequence[Trial]) -> list[tuple[Trial, GradientFinding]]:
    """Gradients that are right once they are summed to the shape of their input, as differentiation does.

    A backward that sums none of its gradients leaves that to differentiation, if it is right for operands of one shape.
    One that sums some takes it upon itself, and one that it forgets is an error.
    """
    if subject.sums_to_sizes or not any(_shapes_fit(trial) for trial in ordinary(trials)):
        return []
    subject.sums_where_broadcast = True
    wrong = {f.index for t in trials for f in t.findings if f.kind == "value"}
    mended = []
    for trial in trials:
        for finding in trial.findings:
            if finding.kind == "shape" and finding.unsummed:
                finding.kind = None
                trial.sum_gradient(finding.index)
                mended.append((trial, finding))
            elif finding.kind == "shape" and finding.summable and finding.index in wrong:
                # Summing does not make it right because it is wrong already where nothing is summed.
                finding.kind = "unsupported"
    return mended


def excuse_refused_shapes(subject: Subject, trials: Sequence[Trial]) -> list[tuple[Trial, GradientFinding]]:
    """A backward may refuse shapes that the forward takes, and be right all the same on those it is written for.

    A pointwise function has no such excuse, and neither has a wrong value, nor a gradient that only lacks the sum
    over broadcast dimensions, unless the formula sums for that input elsewhere. What is excused is returned.
    """
    start = None if subject.is_pointwise else home(trials)
    if start is None:
        return []
    excused = []
    for trial in trials:
        if trial.recipe.shapes and shape_signature(trial.recipe.shapes) != shape_signature(start.recipe.shapes):
            wrong = [f for f in trial.findings if f.kind is not None]
            only_sums = all(f.unsummed for f in wrong)
            for finding in wrong:
                sums_elsewhere = _is_broadcast(start, finding.index)
                if finding.kind == "error" or (finding.kind == "shape" and (sums_elsewhere or not only_sums)):
                    excused.append((trial, replace(finding)))
                    finding.kind = "unsupported"
    return excused


def excuse_refusals(trials: Sequence[Trial]) -> list[str]:
    """What a backward refuses by a `raise` or an `assert` of its own, if it is right elsewhere; its messages."""
    if home(trials) is None:
        return []
    refused: dict[str, None] = {}
    for trial in trials:
        for finding in trial.findings:
            if finding.kind == "error" and finding.cause is not None and finding.cause.code == RAISED:
                finding.kind = "unsupported"
                refused[finding.message] = None
    return list(refused)


def forgive_negative_counts(subject: Subject, trials: Sequence[Trial]) -> list[tuple[Trial, GradientFinding]]:
    """What is wrong only where an int that counts the rounds of a loop is negative, which nobody means."""
    counts = _counts(subject)
    forgiven = []
    for trial in trials:
        entries = [trial.recipe.entries[i] for i in counts]
        if not any(isinstance(e, PlainEntry) and isinstance(e.value, int) and e.value < 0 for e in entries):
            continue
        for finding in trial.findings:
            if finding.kind in ("value", "none", "nan", "error", "shape"):
                forgiven.append((trial, GradientFinding(finding.index, finding.kind, finding.message, finding.error)))
                finding.kind = "unsupported"
    return forgiven


def forgive_ends(subject: Subject, trials: Sequence[Trial]) -> list[tuple[Trial, GradientFinding]]:
    """What is not finite at an end of the function's domain, where few arguments are: it is told, as at kinks."""
    forgiven = []
    for trial in trials:
        found = any(isinstance(entry, FixedEntry) for entry in trial.recipe.entries)
        for finding in [f for f in trial.findings if f.kind == "nan"] if found else []:
            if ends_at(subject, trial.values):
                forgiven.append((trial, GradientFinding(finding.index, "nan", finding.message)))
                finding.kind = "unsupported"
    return forgiven


def _counts(subject: Subject) -> list[int]:
    """The parameters that say how often a loop of the forward runs."""
    graph = subject.function.graph
    inputs = {value: i for i, value in enumerate(graph.inputs)}
    found: dict[int, None] = {}
    for node in graph.all_nodes():
        if node.kind == "prim::Loop":
            found.update((inputs[v], None) for v in _origins(node) if v in inputs)
    return list(found)


def _origins(loop: Node) -> Iterator[Value]:
    """What the number of rounds is computed from by arithmetic."""
    pending = [loop.inputs[0]]
    seen: set[Value] = set()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        yield value
        if value.node.schema is not None and value.node.schema.full_name in _KEEPS_NUMBERS:
            pending += value.node.inputs


# --- what is ordinary ---


def home(trials: Sequence[Trial]) -> Trial | None:
    """The first trial where all is right: the shapes that a formula is written for. Matrices before vectors."""
    return next((t for t in ordinary(trials) if all(f.kind is None for f in t.findings)), None)


def ordinary(trials: Sequence[Trial]) -> list[Trial]:
    """Trials that are not empty, of matrices or more where there are any, and of several of each where there are."""
    full = [t for t in trials if all(leaf.size for leaf in floating_leaves(t.values).values())]
    full = [trial for trial in full if not _is_degenerate(trial)] or full
    least = min(2, max(map(_rank, full), default=0))
    return [trial for trial in full if _rank(trial) >= least]


def _is_degenerate(trial: Trial) -> bool:
    """Whether some dimension has one element in every tensor that has it: sums over it, and copies, do nothing."""
    shapes = [leaf.shape[::-1] for leaf in floating_leaves(trial.values).values()]
    sizes = [max(sizes) for sizes in zip_longest(*shapes, fillvalue=0)]
    return any(size <= 1 for size in sizes)


def _shapes_fit(trial: Trial) -> bool:
    return bool(trial.findings) and not any(f.kind in ("shape", "error") for f in trial.findings)


def _rank(trial: Trial) -> int:
    return max((leaf.ndim for leaf in floating_leaves(trial.values).values()), default=0)


def _is_broadcast(trial: Trial, index: int) -> bool:
    """Whether a parameter has fewer dimensions than others, so that its gradient must have been summed."""
    own = [leaf for path, leaf in floating_leaves(trial.values).items() if path[0] == index]
    return any(leaf.ndim < _rank(trial) or 1 in leaf.shape for leaf in own)
