"""What a function keeps in memory from its forward to its backward, measured while both run.

    report = f.memory(x, w)              report.saved_bytes, report.peak_bytes, report.timeline, str(report)

Every buffer is followed from the instruction that makes it to the one after which nothing holds it, by `ledger`.
"Saved" is what is alive between the two halves because the backward needs it: beyond the arguments and the outputs,
which the caller has anyhow. What an op uses inside itself is not seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...compiler.autodiff.flatten import leaves
from ...compiler.ir.node import Value
from ...compiler.recompute import Decision, Policy, Recomputed, policy
from ...compiler.types.types import is_differentiable
from ...lang.light_dataclasses import dataclass
from ..execution.derivatives import derivatives_of
from ..execution.differentiated import Differentiated
from ..execution.gradients import ones_of
from .ledger import GRADIENT, INPUT, KINDS, OUTPUT, SAVED, HeldBuffer, Ledger, LedgerStep, run_watched
from .report import Instant, KeptValue, PolicyTotal, Report

if TYPE_CHECKING:
    from ..execution.compiled import Compiled

DEFAULT_POLICY = "min_cut"
ALWAYS_COMPARED = ("save_all", "mirror", "min_cut", "recompute_all")
"""The policies that every report compares, beside the one that it is about."""
COMPARED = (*ALWAYS_COMPARED, "budget")


@dataclass(frozen=True, slots=True)
class Measurement:
    """One forward and backward. `residual_bytes` are, per captured output of f, the bytes that it adds to those
    before it."""

    outputs: list[Any]
    gradients: list[Any]
    input_bytes: int
    saved_bytes: int
    peak_bytes: int
    residual_bytes: list[int]
    timeline: list[Instant]


def measure(differentiated: Differentiated, values: Sequence[Any], seeds: Sequence[Any] | None = None) -> Measurement:
    """Run forward and backward on arguments with their tuples taken apart, and account for every buffer.

    `seeds` are one gradient per output; ones if there are none given. Residuals are given up to the backward, which
    frees each after its last use. Raises RuntimeFailure.
    """
    ledger = Ledger()
    _mark(ledger.hold(values), INPUT)
    results = run_watched(differentiated.forward.plan(values), values, ledger)
    outputs, residuals = differentiated.parted(values, results)
    _mark(ledger.buffers(outputs), OUTPUT)
    _mark(ledger.buffers(residuals), SAVED)
    residual_bytes = _sizes(ledger, residuals[len(residuals) - len(differentiated.gradient.captured_outputs) :])
    boundary = len(ledger.steps)
    ledger.begin(None)
    ledger.hold(outputs)
    vjps = differentiated.vjps([ones_of(output) for output in outputs] if seeds is None else seeds)
    _mark(ledger.hold(vjps), GRADIENT)
    # From here on only the registers of the backward hold these.
    ledger.drop([*results, *vjps])
    program = differentiated.backward_for(vjps)
    given = [*vjps, *residuals]
    found = run_watched(program.executor.plan(given), given, ledger)
    _mark(ledger.buffers(found), GRADIENT)
    ledger.finish()
    timeline = _timeline(ledger.steps, boundary)
    return Measurement(
        outputs,
        differentiated.fitted(values, program, found),
        timeline[0].inputs,
        sum(residual_bytes),
        max(instant.live for instant in timeline),
        residual_bytes,
        timeline,
    )


def _mark(buffers: Sequence[HeldBuffer], kind: str) -> None:
    for buffer in buffers:
        buffer.mark(kind)


def _sizes(ledger: Ledger, residuals: Sequence[Any]) -> list[int]:
    """What each residual keeps alive that none before it does."""
    seen: set[int] = set()
    sizes = []
    for value in residuals:
        own = [b for b in ledger.buffers([value]) if b.kind == SAVED and id(b) not in seen]
        seen.update(map(id, own))
        sizes.append(sum(b.nbytes for b in own))
    return sizes


def _timeline(steps: Sequence[LedgerStep], boundary: int) -> list[Instant]:
    """What is live during each step, operands and results together. `boundary` is where the backward begins."""
    live = dict.fromkeys(KINDS, 0)
    timeline = []
    for index, step in enumerate(steps):
        for buffer in step.born:
            live[buffer.kind] += buffer.nbytes
        name, span = (step.node.kind, step.node.span) if step.node is not None else ("", None)
        timeline.append(Instant(index, "forward" if index < boundary else "backward", name, span, **live))
        for buffer in step.died:
            live[buffer.kind] -= buffer.nbytes
    return timeline


# --- reports ---


def memory_report(
    function: Compiled, args: Sequence[Any], kwargs: Mapping[str, Any], spec: Policy | str | int | None
) -> Report:
    """What `Function.memory` returns. ValueError for a policy that does not exist, RuntimeFailure for what does not
    run, CompileError (E408) where an op has no gradient."""
    chosen = policy(DEFAULT_POLICY if spec is None else spec)
    values = function.bind(tuple(args), kwargs)
    derivatives = derivatives_of(function)
    flat = leaves(values, derivatives.input_types)
    totals = []
    for other in COMPARED:
        if other == chosen.name:
            differentiated, recomputed = derivatives.rematerialize(values, chosen)
            measured = measure(differentiated, flat)
            totals.append(PolicyTotal(str(chosen), measured.saved_bytes, measured.peak_bytes))
        elif other in ALWAYS_COMPARED:
            found = measure(derivatives.rematerialize(values, policy(other))[0], flat)
            totals.append(PolicyTotal(other, found.saved_bytes, found.peak_bytes))
    return report_of(function.name, chosen, differentiated, recomputed, measured, totals)


def report_of(
    name: str,
    chosen: Policy,
    differentiated: Differentiated,
    recomputed: Recomputed,
    measured: Measurement,
    totals: Sequence[PolicyTotal],
) -> Report:
    """A measurement told in terms of the source."""
    gradient = differentiated.gradient
    decided = {decision.value: decision for decision in recomputed.decisions}
    captured = [gradient.f.outputs[i] for i in gradient.captured_outputs]
    sizes = zip(captured, measured.residual_bytes, strict=True)
    return Report(
        function=name,
        policy=str(chosen),
        in_force=recomputed.policy,
        saved=[_kept(value, nbytes, decided.get(value)) for value, nbytes in sizes if _holds(value, nbytes)],
        recomputed=[_recomputed(decision) for decision in recomputed.decisions if not decision.saved],
        kept_inputs=[gradient.f.inputs[i].name_hint for i in gradient.captured_inputs],
        saved_bytes=measured.saved_bytes,
        peak_bytes=measured.peak_bytes,
        input_bytes=measured.input_bytes,
        timeline=measured.timeline,
        totals=[*totals],
    )


def _kept(value: Value, nbytes: int, decision: Decision | None) -> KeptValue:
    """A captured value as it was measured."""
    name = decision.name if decision is not None else value.name_hint
    reason = decision.reason if decision is not None else ""
    return KeptValue(name, nbytes, value.node.span, reason)


def _recomputed(decision: Decision) -> KeptValue:
    return KeptValue(decision.name, decision.nbytes or 0, decision.span, decision.reason)


def _holds(value: Value, nbytes: int) -> bool:
    """Whether a captured value is one that a report names: not a number or a list of sizes."""
    return nbytes > 0 or is_differentiable(value.type)
