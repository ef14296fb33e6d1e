"""`gs.authoring.export`: a function as a standalone module of Python, and as C."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ...compiler.codegen.triton.module import supports
from ...compiler.fusion.fuse import Unfusable, fuse
from ...compiler.fusion.program import Program
from ...compiler.ir.graph import Graph
from ...compiler.kernel_ir.layout import Layout
from ...compiler.recompute import Policy
from ...compiler.recompute.policy import policy as policy_of
from ...compiler.shapes.propagate import ShapeError
from ...compiler.types.dtypes import BFLOAT16, FLOAT16, DType
from ...compiler.types.types import is_tensor, strip_optional
from ...lang.diagnostics import CompileError, Diagnostic
from ...lang.light_dataclasses import replace
from ...lang.source import Span
from ...runtime.face.function import Function
from ...runtime.face.stages import source_text
from ..derive.derivation import derive
from .launchers import Launchers, LauncherWriter
from .module_text import ModuleText
from .plans import NoPlan, Passes, graph_of, kernel_policy, plans
from .reference import ReferenceText, reference_of
from .signature import BATCH, ROWS, ExportSignature, signatures
from .sizes import NotASize

NOTE = (
    "kernels and plain torch are made of functions of tensors whose branches and loops follow from shapes and numbers"
)


def exported(function: Function, values: Sequence[Any], policy: str | int | Policy | None = None) -> str:
    """The text of a module for a function of arguments like `values`, one for each parameter.

    CompileError (E412) for what no module can hold, with the line; ValueError for a policy that there is not.
    """
    wanted = policy_of(policy)
    require_tensors(function)
    try:
        reference = reference_of(function, "_reference")
        return _written(function, values, wanted, reference)
    except NoPlan as problem:
        span = problem.span if problem.span is not None and problem.span.source.text else None
        raise export_failure(function, str(problem), NOTE, span) from problem


def export_failure(function: Function, why: str, note: str, span: Span | None = None) -> CompileError:
    """E412 at a place, by default that of the function."""
    message = f"'{function.name}' cannot be exported: {why}"
    return CompileError([Diagnostic("E412", message, span or function.callee.graph.span, (note,))])


def require_tensors(function: Function) -> None:
    """CompileError (E412) unless tensors and numbers are taken and tensors given."""
    for argument in function.schema.arguments:
        if argument.name in (ROWS, BATCH):
            why = f"its parameter '{argument.name}' is called as a module calls a size"
            raise export_failure(function, why, "give it another name")
        text = str(strip_optional(argument.type))
        if not text.startswith("Tensor") and text not in _PLAIN:
            why = f"its parameter '{argument.name}' is {argument.type}; a module takes tensors and numbers"
            raise export_failure(function, why, "take the tensors of a list or a tuple one by one")
    if not function.schema.returns or not all(is_tensor(result.type) for result in function.schema.returns):
        raise export_failure(
            function, "it returns what is no tensor", "return one tensor or several, and compute the rest outside"
        )


_PLAIN = ("int", "float", "bool", "str", "List[int]", "List[float]", "List[bool]")


def _written(function: Function, values: Sequence[Any], policy: Policy, reference: ReferenceText) -> str:
    absent = [i for i, value in enumerate(values) if value is None]
    graph = graph_of(function, absent)
    signature, held = _launchers(function, graph, values, policy, reference)
    launchers = [held]
    if held.holds_rows:
        long = _long(function, graph, signature, policy, reference, held)
        launchers += [long] if long is not None else []
    return ModuleText(
        function,
        values,
        signature,
        launchers,
        reference,
        str(policy),
        _version(),
        _formula(function),
        _derivation(function),
    ).text()


def _launchers(
    function: Function, graph: Graph, values: Sequence[Any], policy: Policy, reference: ReferenceText
) -> tuple[ExportSignature, Launchers]:
    """The most general signature that has kernels of one text for all sizes, and what launches them."""
    *found, fixed = signatures(values, [argument.name for argument in function.schema.arguments])
    # What has no kernels for the arguments themselves has none for any sizes.
    _for(function, graph, fixed, policy, reference)
    reasons: list[NoPlan] = []
    for signature in (*found, fixed):
        try:
            return signature, _for(function, graph, signature, policy, reference)
        except NoPlan as problem:
            reasons.append(problem)
        except NotASize:
            continue
    raise reasons[-1] if reasons else NoPlan("no kernels of one text serve all sizes")


def _for(
    function: Function, graph: Graph, signature: ExportSignature, policy: Policy, reference: ReferenceText
) -> Launchers:
    passes = plans(graph, signature, kernel_policy(policy), supports)
    halves = _halves(graph, signature, passes[0])
    return LauncherWriter(function.schema.arguments, signature, passes, halves, bool(reference.seeds)).write()


def _long(
    function: Function,
    graph: Graph,
    signature: ExportSignature,
    policy: Policy,
    reference: ReferenceText,
    held: Launchers,
) -> Launchers | None:
    try:
        found = _for(function, graph, replace(signature, is_long=True), policy, reference)
    except (NoPlan, NotASize):
        return None
    if list(found.saved) != list(held.saved) or found.results != held.results:
        return None
    return found.beside(held)


def _halves(graph: Graph, signature: ExportSignature, passes: Passes) -> list[bool]:
    """Per result, whether it is of the dtype of the arguments, which a plan for halves tells."""
    count = passes.gradient.num_real_outputs if passes.gradient is not None else len(passes.forward.outputs)
    half, program = _planned_in_half(graph, signature)
    found = []
    for output in program.outputs[:count]:
        layout: Layout | None = program.layouts.get(getattr(output, "name", ""))
        if layout is None or not layout.dtype.is_floating:
            raise NoPlan("a result is no floating tensor")
        found.append(layout.dtype == half)
    return found


def _planned_in_half(graph: Graph, signature: ExportSignature) -> tuple[DType, Program]:
    """A plan for halves, and which; numbers like -1e9 are none in float16."""
    reason: Exception | None = None
    for half in (FLOAT16, BFLOAT16):
        try:
            return half, fuse(graph, signature.given(0, half), supports)
        except (Unfusable, ShapeError) as error:
            reason = error
    raise NoPlan(str(reason)) from reason


def _formula(function: Function) -> str:
    """The author's text, with the comment in front of it."""
    definition = function.definition
    if definition is None:
        return function.code
    before = definition.span.source.text[: definition.span.start].rstrip("\n").split("\n")
    comment = list(_comment_at_end(before))
    return "\n".join([*comment[::-1], source_text(definition)])


def _comment_at_end(lines: Sequence[str]) -> Iterator[str]:
    for line in reversed(lines):
        if not line.startswith("#"):
            return
        yield line


def _derivation(function: Function) -> str:
    """The backward that was derived; nothing where the author wrote it, or it says no more than the library's ops."""
    if function.pair is not None:
        return ""
    try:
        text = derive(function)
    except (ValueError, CompileError):
        return ""
    return "" if "gs." in text else text.replace("aten::", "torch.")


def _version() -> str:
    try:
        return version("gradscript")
    except PackageNotFoundError:
        return "of a clone"
