"""`gs.register_formula`: a pair of the user's in the place of the library's formula of an op."""

from __future__ import annotations

from collections.abc import Callable

from ..compiler.autodiff.registered import enter_formula
from ..compiler.autodiff.rules.nodes import calls_op_alone
from ..compiler.formulas.library import closed_callee
from ..compiler.ir.graph import GradPair
from ..compiler.ops.registry import OPS, Op, Trait
from ..lang.diagnostics import did_you_mean
from ..runtime.execution.function_executor import forget_compiled
from ..runtime.face.function import Function
from .check import check


def register_formula(op: str, function: Function) -> Callable[[], None]:
    """Differentiate an op by a function of yours from now on; returns what undoes it.

        undo = gs.register_formula("aten::sigmoid", cu.sigmoid)

    The function returns what the op gives for its parameters, all of the op's in order, and a backward, which may
    capture more: `return torch.sigmoid(x), backward`. It is checked as `gs.check` does before it is taken. What has
    been compiled is compiled again; functions that `gs.grad` has made keep what they are.

    ValueError, with the reason, for an op that is unknown or random and for a function that does not fit or whose
    gradient is wrong.
    """
    if not isinstance(function, Function):
        raise TypeError(f"gs.register_formula takes a Function of a CompilationUnit, not {type(function).__name__}")
    if not isinstance(op, str):
        raise TypeError(f"an op is named by a str such as 'aten::sigmoid', not by a {type(op).__name__}")
    found = _op(op)
    reason = _misfit(found, function)
    if reason is not None:
        raise ValueError(f"'{function.name}' is no formula of {op}: {reason}")
    report = check(function)
    if not report.ok:
        raise ValueError(f"'{function.name}' is no formula of {op}: its gradient is wrong\n{report}")
    remove = enter_formula(found.schema, closed_callee(function.callee))
    forget_compiled()

    def undo() -> None:
        remove()
        forget_compiled()

    return undo


def _op(name: str) -> Op:
    try:
        return OPS.named(name)
    except KeyError:
        known = [op.schema.full_name for op in OPS.all()]
        base = name.rpartition("::")[2].partition(".")[0]
        overloads = [op.schema.full_name for op in OPS.overloads(base)]
        hint = f"its overloads are {', '.join(overloads)}" if overloads else "; ".join(did_you_mean(name, known))
        raise ValueError(f"there is no op '{name}'" + (f"; {hint}" if hint else "")) from None


def _misfit(op: Op, function: Function) -> str | None:
    """Why a function cannot be the formula of an op; None where it can."""
    pair = function.pair
    if pair is None:
        return "it has no backward of its own: end it with `return y, backward`"
    if op.has(Trait.RANDOM):
        return "the op draws random numbers, and its formula would draw others"
    if not calls_op_alone(pair, op.schema):
        return f"it must return what the op gives for its parameters, all of them in order: {op.schema}"
    if sum(node.schema is op.schema for node in pair.forward.all_nodes()) > 1:
        return "its forward calls the op more than once"
    called = _pair_called(pair)
    return f"it calls '{called}', which has a backward of its own: write that out" if called is not None else None


def _pair_called(pair: GradPair) -> str | None:
    """A function with a backward of its own that a pair calls, if it calls one."""
    pending, seen = pair.graphs, set[str]()
    while pending:
        graph = pending.pop()
        for node in graph.all_nodes():
            name = node.attrs.get("callee") if node.kind == "prim::CallFunction" else None
            if name is None or name in seen:
                continue
            seen.add(name)
            if graph.functions[name].pair is not None:
                return str(name)
            pending.append(graph.functions[name].graph)
    return None


__all__ = ["register_formula"]
