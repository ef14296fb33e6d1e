"""In-place spellings: `x.mul_(y)`, `x += y`, `l.append(v)`, `x[i] = v`.

Values are immutable, so each makes a new value, and every name that stood for the old one stands for the new
one. That is what Python does only if nobody else holds the old object; where somebody does (the caller, a view, a
container, a closure) the program is refused instead of being misread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...lang import ast
from ...lang.diagnostics import did_you_mean
from ...lang.source import Span
from ..ir import Value
from ..ops.registry import OPS, Trait
from ..types import ListType
from .emitter import Emitter, op_of
from .overloads import Argued

_CONTAINERS = frozenset(("prim::TupleConstruct", "prim::ListConstruct", "prim::CallFunction"))
_LIST_OPS = {"append": "append", "extend": "extend", "insert": "insert", "reverse": "reverse", "sort": "sorted"}
_SPECIAL = {"zero_": "zeros_like", "fill_": "full_like"}


def emit_mutation(
    e: Emitter, node: ast.Call, function: ast.Attribute, subject: Argued, arguments: Sequence[Argued]
) -> Value:
    """A mutating method: the new value, bound to every name of the old one. `pop` gives the element instead."""
    from .calls import emit_resolved
    from .subscripts import emit_store, is_part

    name = function.name
    if name == "pop":
        return _pop(e, node, subject, arguments)
    functional = _LIST_OPS.get(name) or _SPECIAL.get(name) or name.rstrip("_")
    if name == "copy_":
        new = copied_into(e, node, subject.value, arguments[0])
    elif not OPS.overloads(functional):
        notes = did_you_mean(name[:-1], OPS.names())
        raise e.fail("E202", f"unknown in-place method '{name}'", function.name_span, *notes)
    else:
        new = emit_resolved(e, node, functional, [subject, *arguments], f"method '{name}'")
    if is_part(subject.value) and not e.names_of(subject.value):
        emit_store(e, node, subject.value, new)
    else:
        rebind(e, subject.value, new, node.span, f"`{name}`")
    return new


def copied_into(e: Emitter, node: ast.Syntax, old: Value, source: Argued) -> Value:
    """`source` as `old.copy_(source)` stores it: in old's shape and dtype."""
    from .calls import emit_resolved

    cast = emit_resolved(e, node, "type_as", [source, Argued(old, node.span)], "method 'copy_'")
    return emit_resolved(e, node, "expand_as", [Argued(cast, source.span), Argued(old, node.span)], "method 'copy_'")


def _pop(e: Emitter, node: ast.Call, subject: Argued, arguments: Sequence[Argued]) -> Value:
    from .calls import emit_resolved

    index = list(arguments) or [Argued(e.at(node).constant(-1), node.span)]
    element = emit_resolved(e, node, "__getitem__", [subject, *index], "method 'pop'")
    rest = emit_resolved(e, node, "_without", [subject, *index], "method 'pop'")
    rebind(e, subject.value, rest, node.span, "`pop`")
    return element


def rebind(e: Emitter, old: Value, new: Value, span: Span, what: str) -> None:
    """Let every name of `old` stand for `new`, unless someone else would see the change in Python."""
    check_mutable(e, old, span, what)
    for name in e.names_of(old):
        e.bind(name, new)


def check_mutable(e: Emitter, value: Value, span: Span, what: str) -> None:
    """Report a write into something that others hold."""
    instead = "make a new value instead: `y = x + 1`, `y = torch.add(x, 1)`"
    if isinstance(value.type, ListType):
        instead = "make a new list instead: `y = x + [item]`, or start from a copy: `y = list(x)`"
    for root in _roots(value):
        parameter = _parameter(e, root)
        if parameter:
            raise e.fail("E305", f"{what} writes into argument '{parameter}'", span, instead)
        others = [name for name in e.names_of(root) if root is not value]
        if others:
            raise e.fail("E305", f"{what} writes into a value that is also '{others[0]}'", span, instead)
        holder = _holder(e, root)
        if holder:
            raise e.fail("E305", f"{what} writes into a value that {holder}", span, instead)


def _parameter(e: Emitter, value: Value) -> str:
    emitter: Emitter | None = e
    while emitter is not None:
        if value in emitter.parameters:
            return emitter.parameters[value]
        emitter = emitter.outer
    return ""


def _roots(value: Value) -> Iterator[Value]:
    """The value and all that it may be the same object as: through branches, loops and casts."""
    seen: set[Value] = set()
    stack = [value]
    while stack:
        value = stack.pop()
        if value in seen:
            continue
        seen.add(value)
        yield value
        node = value.node
        if node.kind == "prim::If":
            stack += [block.outputs[value.index] for block in node.blocks]
        elif node.kind == "prim::Loop":
            stack += [node.inputs[value.index + 2]]
        elif node.kind in ("prim::unchecked_unwrap_optional", "prim::unchecked_cast"):
            stack += node.inputs
        elif node.kind == "prim::Param" and node.owner is not None and node.owner.node is not None:
            loop = node.owner.node
            if loop.kind == "prim::Loop" and value.index > 0:
                stack.append(loop.inputs[value.index + 1])


def _holder(e: Emitter, value: Value) -> str:
    """Who else holds the object, in words; empty if nobody does. A view that has no name is gone by now."""
    base = value
    while _is_view(base):
        base = base.node.inputs[0]
        if e.names_of(base) or _parameter(e, base):
            return "shares memory with another value"
    stack = [value]
    while stack:
        for use in stack.pop().uses:
            outputs = use.user.outputs
            if use.user.kind in _CONTAINERS and any(v.use_count or e.names_of(v) for v in outputs):
                return "a tuple, a list or a function holds"
            if _inside_closure(use.user.owner, use.user.inputs[use.index]):
                return "a closure has captured"
            if use.index == 0 and outputs and _is_view(outputs[0]):
                if e.names_of(outputs[0]):
                    return "another name shares memory with"
                stack.append(outputs[0])
    return ""


def _is_view(value: Value) -> bool:
    op = op_of(value)
    return op is not None and op.has(Trait.VIEW)


def _inside_closure(block: object, value: Value) -> bool:
    from ..ir import Block, enclosing_blocks

    assert isinstance(block, Block)
    for inner in enclosing_blocks(block):
        if inner is value.node.owner:
            return False
        if inner.node is not None and inner.node.kind == "prim::Function":
            return True
    return False
