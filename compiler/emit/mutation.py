"""In-place spellings: `x.mul_(y)`, `x += y`, `l.append(v)`, `x[i] = v`.

Each computes what the object becomes, as a value, and says that the object becomes it: prim::Write. The names stay with
the object, as in Python; what they read afterwards is found when the function is whole (`compiler/functionalize`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ...lang import ast
from ...lang.diagnostics import did_you_mean
from ...lang.source import Span
from ..functionalize.writes import POP, WRITE
from ..ir.node import Value
from ..ops.registry import OPS
from ..types.types import is_tensor
from .annotations import dotted_name
from .emitter import Emitter
from .overloads import Argued

LIST_MUTATIONS = frozenset(("append", "extend", "insert", "pop", "reverse", "sort", "clear", "remove"))
_LIST_OPS = {"append": "append", "extend": "extend", "insert": "insert", "reverse": "reverse", "sort": "sorted"}
_FILLS = {"zero_": "zeros_like", "fill_": "full_like"}
_REFUSED = {
    **dict.fromkeys(
        ("t_", "transpose_", "swapaxes_", "swapdims_", "squeeze_", "unsqueeze_", "resize_", "resize_as_", "set_"),
        "it changes the shape of a tensor in place; bind the name anew: `y = y.t()`",
    ),
    **dict.fromkeys(
        ("normal_", "uniform_", "bernoulli_", "random_", "exponential_", "geometric_", "cauchy_", "log_normal_"),
        "draw a tensor of its own: `torch.rand_like(x)`, `torch.randn_like(x)`",
    ),
    **dict.fromkeys(("requires_grad_", "detach_"), "a value has a gradient or has none: write `y = x.detach()`"),
}
"""In-place methods of torch's that do more than change elements, and what to write instead."""


def emit_mutation(
    e: Emitter, node: ast.Call, function: ast.Attribute, subject: Argued, arguments: Sequence[Argued]
) -> Value:
    """A mutating method. A tensor's gives the tensor, a list's None, and `pop` the element."""
    from .calls import emit_resolved

    name = function.name
    if name == "pop":
        return _pop(e, node, subject, arguments)
    functional = _LIST_OPS.get(name) or _FILLS.get(name) or name.rstrip("_")
    if name in _REFUSED:
        raise e.fail("E202", f"in-place method '{name}' is not in the language", function.name_span, _REFUSED[name])
    if name == "copy_":
        new = copied_into(e, node, subject.value, arguments[0])
    elif not OPS.overloads(functional):
        notes = did_you_mean(name[:-1], OPS.names())
        raise e.fail("E202", f"unknown in-place method '{name}'", function.name_span, *notes)
    else:
        new = emit_resolved(e, node, functional, [subject, *arguments], f"method '{name}'")
    if name in _FILLS or name == "copy_" or not is_tensor(subject.value.type):
        emit_write(e, node.span, subject.value, new, f"`{name}`")
    else:
        emit_update(e, node, subject.value, new, f"`{name}`")
    return subject.value if is_tensor(subject.value.type) else e.at(node).constant(None)


def copied_into(e: Emitter, node: ast.Syntax, old: Value, source: Argued) -> Value:
    """`source` as `old.copy_(source)` stores it: in old's shape and dtype."""
    from .calls import emit_resolved

    cast = emit_resolved(e, node, "type_as", [source, Argued(old, node.span)], "method 'copy_'")
    return emit_resolved(e, node, "expand_as", [Argued(cast, source.span), Argued(old, node.span)], "method 'copy_'")


def _pop(e: Emitter, node: ast.Call, subject: Argued, arguments: Sequence[Argued]) -> Value:
    from .calls import emit_resolved

    index = list(arguments) or [Argued(e.at(node).constant(-1), node.span)]
    element = emit_resolved(e, node, POP.removeprefix("aten::").partition(".")[0], [subject, *index], "method 'pop'")
    rest = emit_resolved(e, node, "_without", [subject, *index], "method 'pop'")
    emit_write(e, node.span, subject.value, rest, "`pop`")
    return element


def emit_update(e: Emitter, node: ast.Syntax, target: Value, new: Value, what: str) -> None:
    """The tensor becomes what an op made of it, which must have its shape, and a dtype that its own can hold."""
    if not is_tensor(new.type):
        raise e.fail("E301", f"{what} gives {new.type}, not a tensor", node.span)
    emit_write(e, node.span, target, e.value("aten::_updated", node, new, target), what)


def emit_write(e: Emitter, span: Span, target: Value, new: Value, what: str) -> None:
    """The object becomes what `new` is."""
    e.builder.current_span = span
    e.builder.node(WRITE, [target, new], attrs={"what": what})


def is_written(value: Value) -> bool:
    """Whether a write into the object has been emitted."""
    return any(use.user.kind == WRITE and use.index == 0 for use in value.uses)


# What an expression writes into


def target_names(targets: Iterable[ast.Expr], *, through: bool) -> Iterator[str]:
    """Names that targets bind; with `through`, also the x of `x[i]` and `x.a`."""
    stack: list[ast.Expr] = list(targets)
    while stack:
        target = stack.pop()
        match target:
            case ast.Name():
                yield target.id
            case ast.TupleExpr():
                stack += target.elements
            case ast.Subscript() | ast.Attribute() if through:
                stack.append(target.value)
            case _:
                pass


def mutated_names(expression: ast.Expr) -> Iterator[str]:
    """Names whose objects an in-place method anywhere in the expression writes into."""
    stack: list[ast.Syntax] = [expression]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Call) and isinstance(node.function, ast.Attribute):
            method = node.function.name
            mutates = method in LIST_MUTATIONS or (method.endswith("_") and not method.endswith("__"))
            # `torch.append(l, v)` is an op: it gives a new list.
            if mutates and dotted_name(node.function.value) != "torch":
                yield from target_names([_receiver(node.function.value)], through=True)
        stack += ast.children(node)


def _receiver(node: ast.Expr) -> ast.Expr:
    """What a chain such as `x.add_(1).mul_(2)` starts from."""
    while isinstance(node, ast.Call) and isinstance(node.function, ast.Attribute):
        node = node.function.value
    return node
