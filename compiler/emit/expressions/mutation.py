"""In-place spellings: `x.mul_(y)`, `x += y`, `l.append(v)`, `x[i] = v`.

Each computes what the object becomes, as a value, and says that the object becomes it: prim::Write. The names stay with
the object, as in Python; what they read afterwards is found when the function is whole (`compiler/functionalize`).
"""

from __future__ import annotations

from collections.abc import Sequence

from ....lang import ast
from ....lang.diagnostics import did_you_mean
from ...functionalize.write_nodes import POP
from ...ir.node import Value
from ...ops.registry import OPS
from ...spelling.advice import for_function
from ...spelling.in_place import IN_PLACE
from ...spelling.overloads import Argued
from ...types.types import ListType, is_tensor
from ..emitter import Emitter
from ..expected import take_element, take_elements, take_type
from ..resolve import emit_resolved
from ..stores import emit_overwrite, emit_update, emit_write

_LIST_OPS = {"append": "append", "extend": "extend", "insert": "insert", "reverse": "reverse", "sort": "sorted"}
_FILLS = {"zero_": "zeros_like", "fill_": "full_like"}
_IN_PLACE_ALONE = {"fill_diagonal_": "_fill_diagonal"}
"""Methods that torch has in place alone, and the ops of ours that make the new value."""
_DRAWN = {
    "normal_": "torch.randn_like(y) * std + mean",
    "log_normal_": "torch.exp(torch.randn_like(y) * std + mean)",
    "uniform_": "torch.rand_like(y) * (high - low) + low",
    "bernoulli_": "torch.bernoulli(torch.full_like(y, p))",
    "random_": "torch.randint_like(y, low, high)",
    "exponential_": "-torch.log1p(-torch.rand_like(y)) / rate",
    "geometric_": "torch.ceil(torch.log1p(-torch.rand_like(y)) / math.log1p(-p))",
    "cauchy_": "median + sigma * torch.tan(math.pi * (torch.rand_like(y) - 0.5))",
}
"""What in-place methods draw, in ops that are there."""
_REFUSED = {
    **dict.fromkeys(
        ("t_", "transpose_", "swapaxes_", "swapdims_", "squeeze_", "unsqueeze_", "resize_", "resize_as_", "set_"),
        "it changes the shape of a tensor in place; bind the name anew: `y = y.t()`",
    ),
    **{name: f"write what it draws: `y.copy_({drawn})`" for name, drawn in _DRAWN.items()},
    **dict.fromkeys(("requires_grad_", "detach_"), "a value has a gradient or has none: write `y = x.detach()`"),
}
"""In-place methods of torch's that do more than change elements, and what to write instead."""


def emit_mutation(
    e: Emitter, node: ast.Call, function: ast.Attribute, subject: Argued, arguments: Sequence[Argued]
) -> Value:
    """A mutating method. A tensor's gives the tensor, a list's None, and `pop` the element."""
    name = function.name
    _take_elements(e, name, subject.value, arguments)
    if name == "pop":
        return _pop(e, node, subject, arguments)
    functional = _LIST_OPS.get(name) or _FILLS.get(name) or _IN_PLACE_ALONE.get(name) or name.rstrip("_")
    if name == "fill_" and arguments and is_tensor(arguments[0].value.type):
        functional = "fill"
    if name in _REFUSED:
        raise e.fail("E202", f"in-place method '{name}' is not in the language", function.name_span, _REFUSED[name])
    if name == "copy_" and 1 <= len(arguments) <= 2:
        new = copied_into(e, node, subject.value, arguments[0])
    elif not OPS.overloads(functional):
        notes = did_you_mean(name, [f"{known}_" for known in IN_PLACE])
        raise e.fail("E202", f"unknown in-place method '{name}'", function.name_span, *notes)
    elif name[-1] == "_" and is_tensor(subject.value.type) and not _is_in_place(name):
        instead = f"torch writes nothing of the name in place; bind the name anew: `y = y.{functional}(…)`"
        notes = for_function(functional) or (instead,)
        raise e.fail("E202", f"unknown in-place method '{name}'", function.name_span, *notes)
    else:
        new = emit_resolved(e, node, functional, [subject, *arguments], f"method '{name}'")
    if name in _FILLS or name == "copy_":
        emit_overwrite(e, node, subject.value, new, f"`{name}`")
    elif not is_tensor(subject.value.type):
        emit_write(e, node.span, subject.value, new, f"`{name}`")
    else:
        emit_update(e, node, subject.value, new, f"`{name}`")
    return subject.value if is_tensor(subject.value.type) else e.at(node).constant(None)


def _take_elements(e: Emitter, name: str, target: Value, arguments: Sequence[Argued]) -> None:
    """What goes into a list says what it holds, where nothing else did."""
    if name in ("append", "insert") and arguments:
        take_elements(e, target, arguments[-1].value.type)
        take_element(arguments[-1].value, target)
    elif name == "extend" and arguments and isinstance(arguments[0].value.type, ListType):
        take_elements(e, target, arguments[0].value.type.element)
        take_type(arguments[0].value, target.type)


def _is_in_place(name: str) -> bool:
    return name.removesuffix("_") in IN_PLACE or name in _IN_PLACE_ALONE


def copied_into(e: Emitter, node: ast.Syntax, old: Value, source: Argued) -> Value:
    """`source` as `old.copy_(source)` stores it: in old's shape and dtype."""
    cast = emit_resolved(e, node, "type_as", [source, Argued(old, node.span)], "method 'copy_'")
    whole = emit_resolved(e, node, "expand_as", [Argued(cast, source.span), Argued(old, node.span)], "method 'copy_'")
    return e.value("aten::clone", node, whole)


def _pop(e: Emitter, node: ast.Call, subject: Argued, arguments: Sequence[Argued]) -> Value:
    index = list(arguments) or [Argued(e.at(node).constant(-1), node.span)]
    element = emit_resolved(e, node, POP.removeprefix("aten::").partition(".")[0], [subject, *index], "method 'pop'")
    rest = emit_resolved(e, node, "_without", [subject, *index], "method 'pop'")
    emit_write(e, node.span, subject.value, rest, "`pop`")
    return element
