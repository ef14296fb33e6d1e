"""What is known of a value's type when it is compiled: `isinstance(x, T)`, `torch.jit.is_scripting()`.

Types are static, so a test of one is decided here, and only the side that runs is emitted. An Optional is split as by
`is None`, and the name refined. As in TorchScript, True is no int.
"""

from __future__ import annotations

from collections.abc import Callable

from ....lang import ast
from ....lang.trampoline import Walk
from ...types.types import (
    FLOAT,
    INT,
    NONE,
    NUMBER,
    ListType,
    OptionalType,
    TupleType,
    Type,
    is_subtype,
)
from ..annotations import dotted_name, resolve_type
from ..emitter import Emitter, Evaluated, described
from ..truth import TruthValue
from .conditions import emit_condition

Test = Callable[[Type], bool]

_CLASSES: dict[str, Test] = {
    **dict.fromkeys(("list", "List", "typing.List"), lambda type: isinstance(type, ListType)),
    **dict.fromkeys(("tuple", "Tuple", "typing.Tuple"), lambda type: isinstance(type, TupleType)),
    **dict.fromkeys(("dict", "Dict", "set", "Set", "complex", "bytes", "slice", "range"), lambda type: False),
    "NoneType": lambda type: type == NONE,
    "object": lambda type: True,
}
"""Classes that are no annotations by themselves."""


def emit_isinstance(e: Emitter, node: ast.Call) -> Walk:
    if len(node.args) != 2 or node.keywords:
        raise e.fail("E204", "isinstance() takes a value and a type, or a tuple of types", node.span)
    subject = node.args[0]
    value = yield e.expression(subject)
    tests = _tests(e, node.args[1])
    verdicts = {type: any(test(type) for test in tests) for type in _alternatives(value.type)}
    if len(set(verdicts.values())) == 1:
        return TruthValue(static=verdicts.popitem()[1])
    if not isinstance(value.type, OptionalType) or len(verdicts) > 2:
        note = "annotate it as int or as float"
        raise e.fail("E301", f"{described(value.type)} is an int or a float, known only when it runs", node.span, note)
    op = "is" if verdicts[NONE] else "is not"
    tested = subject if isinstance(subject, ast.Name) else Evaluated(subject.span, value)
    return (yield emit_condition(e, ast.Compare(node.span, tested, (op,), (ast.Constant(node.span, None),))))  # type: ignore[arg-type]


def _alternatives(type: Type) -> list[Type]:
    """What a value of the type may be when it runs."""
    if isinstance(type, OptionalType):
        return [*_alternatives(type.element), NONE]
    return [INT, FLOAT] if type == NUMBER else [type]


def _tests(e: Emitter, classes: ast.Expr) -> list[Test]:
    """One test for each of the classes: `(int, float)`, `int | None`, `Optional[Tensor]`, `list`, `type(None)`."""
    tests: list[Test] = []
    pending = [classes]
    while pending:
        node = pending.pop()
        match node:
            case ast.TupleExpr():
                pending += node.elements
            case ast.BinaryOp(op="|"):
                pending += (node.left, node.right)
            case ast.Call(function=ast.Name("type"), args=(ast.Constant(value=None),), keywords=()):
                tests.append(_CLASSES["NoneType"])
            case ast.Subscript() if dotted_name(node.value) in ("Dict", "dict", "Set", "set"):
                tests.append(_CLASSES["dict"])
            case _:
                known = _CLASSES.get(dotted_name(node))
                tests.append(known or _is_of(resolve_type(node, e.diagnostics, e.unit.environment)))
    return tests


def _is_of(wanted: Type) -> Test:
    return lambda type: is_subtype(type, wanted)


def emit_is_tensor(e: Emitter, node: ast.Call) -> Walk:
    """`torch.is_tensor(x)` is `isinstance(x, torch.Tensor)`."""
    if len(node.args) != 1 or node.keywords:
        raise e.fail("E204", "torch.is_tensor() takes one value", node.span)
    tensor = ast.Name(node.span, "Tensor")
    return (yield emit_isinstance(e, ast.Call(node.span, node.function, (*node.args, tensor), ())))


def emit_is_scripting(e: Emitter, node: ast.Call) -> Walk:
    yield from ()
    return TruthValue(static=True)


def emit_is_tracing(e: Emitter, node: ast.Call) -> Walk:
    yield from ()
    return TruthValue(static=False)
