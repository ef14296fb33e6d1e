"""Mutants of formulas, made from the IR of their backwards: one change each that a person might have written.

What is provably no change is left out: of code that no gradient depends on, or by its sizes or dtype alone; of what
simplifies to the same graph; of the sign of what goes into an even function; factors of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from gradscript.compiler.ir.builder import Builder
from gradscript.compiler.ir.graph import Callee, Graph
from gradscript.compiler.ir.node import Node, Value
from gradscript.compiler.ops.registry import OPS, Trait
from gradscript.compiler.pipeline import SIMPLIFY
from gradscript.compiler.types.types import is_tensor
from gradscript.lang.light_dataclasses import replace
from gradscript.runtime.face.function import Function

SWAPS = {
    "mul": ("add", "div"),
    "add": ("sub",),
    "sub": ("add",),
    "div": ("mul",),
    "gt": ("ge", "lt"),
    "ge": ("gt", "le"),
    "lt": ("le", "gt"),
    "le": ("lt", "ge"),
    "eq": ("ne",),
    "ne": ("eq",),
    "sin": ("cos",),
    "cos": ("sin",),
    "sinh": ("cosh",),
    "cosh": ("sinh",),
    "tanh": ("sigmoid",),
    "exp": ("expm1",),
    "log": ("log1p",),
    "sqrt": ("rsqrt",),
    "rsqrt": ("sqrt",),
    "amax": ("amin",),
    "amin": ("amax",),
    "sum": ("mean",),
}
"""By the name of an op, ops that are written in its place."""
LEFT_OUT = ("neg", "sum_to_size", "sigmoid", "tanh", "exp", "log", "square", "abs", "sign", "t", "mT", "conj")
"""Ops of one tensor that are forgotten."""
REORDERED = ("sub", "div", "rsub", "mm", "matmul", "bmm", "pow", "atan2")
_KEEPING_ZERO = ("sum_to_size", "reshape", "to", "neg")
_EVEN = ("cos", "cosh", "abs", "square", "sinc")
"""Functions of which the sign of the argument is no matter."""
_OF_ELEMENTS = ("the other way round", "with the other sign", " of `")
"""Changes of a pointwise op that leave the shape and the dtype of what it makes."""
_COUNTING = ("mul", "add", "sub", "div", "rsub", "pow", "gt", "lt", "ge", "le")
_SIZES = ("size", "numel", "dim", "broadcast_tensors", "zeros_like", "ones_like", "full_like")
"""What asks a tensor for its sizes only: another of the same sizes is no mistake."""
_NOT_OF_NUMBERS = (*_SIZES, "dtype", "isnan", "isinf", "isfinite")
"""And what asks for its dtype, or is true, or false, of every number: what is none is given no gradient to compare."""
_NUMBERS: tuple[Callable[[Any], Any], ...] = (lambda n: n + 1, lambda n: -n, lambda n: 2 * n)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A function with one mistake. `arguments` are those whose gradients it may change, `line` is where it stands.

    `users` are the lines that use what is there, if nothing is left of that line, so that nothing can point at it.
    """

    function: Function
    what: str
    arguments: frozenset[str]
    line: int
    end_line: int
    users: frozenset[int] = frozenset()


Change = tuple[str, int, Callable[[Graph, Node], bool]]
"""What it is, the number of the node, and what makes it; False where it cannot be made."""


def mutants(function: Function) -> Iterator[Mutant]:
    """Every mutant of a function with a backward that is not provably the same."""
    return (made for change in changes(function) if (made := mutant(function, change)) is not None)


def changes(function: Function) -> list[Change]:
    """What might be changed, before anything is known of what would come of it."""
    assert function.callee.pair is not None
    return list(_changes(function.callee.pair.backward))


def mutant(function: Function, chosen: Change) -> Mutant | None:
    """A function with one change, unless that is no program, or provably none."""
    pair = function.callee.pair
    assert pair is not None
    names = [argument.name for argument in function.schema.arguments]
    what, number, change = chosen
    graph = pair.backward.copy()
    node = list(graph.all_nodes())[number]
    span, shape = node.span, _keeps_shape(what, node)
    touched = [i for i, output in enumerate(graph.outputs) if i < len(names) and _depends(output, node, shape)]
    turned = what.endswith("with the other sign")
    users = frozenset(use.user.span.line for use in node.output.uses)
    same = (turned and (_is_even_only(node) or _is_zero(node.output))) or _leaves_out_zero(what, node)
    try:
        if not touched or same or not change(graph, node) or _simplified(graph) == _simplified(pair.backward):
            return None
    except Exception:  # a change that the IR refuses is no program
        return None
    callee = Callee(function.callee.schema, function.callee.graph, replace(pair, backward=graph))
    arguments = frozenset(names[i] for i in touched)
    left = [other for other in graph.all_nodes() if other is not node and other.span.end and not _is_unused(other)]
    is_there = any(other.span.line <= span.end_line and span.line <= other.span.end_line for other in left)
    given = Function(callee, definition=function.definition)
    return Mutant(given, what, arguments, span.line, span.end_line, frozenset() if is_there else users)


def _is_unused(node: Node) -> bool:
    return bool(node.outputs) and not any(output.uses for output in node.outputs)


def _is_zero(value: Value) -> bool:
    """Whether a value is zero whatever the arguments are."""
    pending = [value.node]
    while pending:
        node = pending.pop()
        name = node.schema.base_name if node.schema is not None else ""
        if name in ("zeros", "zeros_like") or (node.kind == "prim::Constant" and node.attrs.get("value") == 0):
            return True
        if name in _KEEPING_ZERO or name == "mul":
            pending += [made.node for made in node.inputs[: 2 if name == "mul" else 1]]
    return False


def _leaves_out_zero(what: str, node: Node) -> bool:
    """Whether what is left out of a sum is zero, or of a product that is zero without it."""
    head, _, operand = what.partition(" without its operand ")
    if head not in ("`add`", "`sub`", "`mul`") or not operand:
        return False
    left_out = int(operand)
    return _is_zero(node.inputs[1 - left_out if head == "`mul`" else left_out])


def _is_even_only(node: Node) -> bool:
    """Whether what a node makes goes into even functions alone, from its sign on."""
    uses = node.output.uses
    return bool(uses) and all(u.user.schema is not None and u.user.schema.base_name in _EVEN for u in uses)


def _keeps_shape(what: str, node: Node) -> bool:
    """Whether a change leaves the shape and the dtype of what a node makes: it is one of a pointwise op's elements."""
    op = OPS.of(node.schema)
    pointwise = op is not None and op.has(Trait.POINTWISE) and is_tensor(node.output.type)
    name = node.schema.base_name if node.schema is not None else ""
    swaps = {f"`{name}` as `{other}`" for other in SWAPS.get(name, ())}
    return pointwise and (what in swaps or any(text in what for text in _OF_ELEMENTS))


def _simplified(graph: Graph) -> str:
    copied = graph.copy()
    for _ in range(2):
        for simplify in SIMPLIFY:
            simplify(copied)
    return copied.text(alone=True)


def _depends(value: Value, node: Node, elements: bool) -> bool:
    """Whether a value is computed from what a node gives; from its `elements`, where no more than these change."""
    pending, seen = [value], {value}
    while pending:
        made = pending.pop().node
        if made is node:
            return True
        op = OPS.of(made.schema)
        if elements and op is not None and op.has(Trait.SHAPE_ONLY):
            continue
        inside = [v for block in made.blocks for inner in (*block.nodes, block.ret) for v in inner.inputs]
        if any(inner is node for block in made.blocks for inner in block.nodes):
            return True
        pending += [v for v in (*made.inputs, *inside) if v not in seen]
        seen.update((*made.inputs, *inside))
    return False


def _changes(graph: Graph) -> Iterator[Change]:
    for number, node in enumerate(graph.all_nodes()):
        if node.schema is None or not node.span.end or len(node.outputs) != 1:
            continue
        name = node.schema.base_name
        others = [o for o in SWAPS.get(name, ()) if not ({name, o} == {"mul", "div"} and _is_unit(node, (1, -1)))]
        yield from ((f"`{name}` as `{other}`", number, _swapped(other)) for other in others)
        tensors = [i for i, value in enumerate(node.inputs) if is_tensor(value.type)]
        if name in LEFT_OUT:
            yield f"without `{name}`", number, _left_out(0)
        if name in ("mul", "add", "sub", "div") and len(tensors) == 2:
            yield from ((f"`{name}` without its operand {1 - i}", number, _left_out(i)) for i in (0, 1))
        elif name in ("mul", "div") and not _is_unit(node, (1,)):
            yield f"`{name}` by a number left out", number, _left_out(0)
        if name in REORDERED and len(tensors) == 2:
            yield f"`{name}` the other way round", number, _exchanged(0, 1)
        if name == "where":
            yield "`where` with its branches exchanged", number, _exchanged(1, 2)
        if is_tensor(node.output.type) and name in ("mul", "div", "mm", "matmul", "where", "sum_to_size"):
            yield f"`{name}` with the other sign", number, _negated
        for position, value in enumerate(node.inputs):
            if name in _COUNTING and _is_number(value):
                given = value.node.attr("value")
                for number_change in _NUMBERS:
                    other = number_change(given)
                    if other != given:
                        yield f"{given} of `{name}` as {other}", number, _number(position, other)
            elif is_tensor(value.type) and value.node.kind == "prim::TupleUnpack" and name not in _NOT_OF_NUMBERS:
                captured = [v for v in value.node.outputs if is_tensor(v.type) and v is not value]
                for made in captured[:2]:
                    change = _captured(position, value.node.outputs.index(made))
                    yield f"`{value.name_hint}` as `{made.name_hint}` in `{name}`", number, change


def _is_unit(node: Node, units: tuple[int, ...]) -> bool:
    """Whether the second operand is a number by which multiplying is dividing, or does nothing."""
    given = node.inputs[1].node.attrs.get("value") if len(node.inputs) > 1 else None
    return isinstance(given, int | float) and given in units


def _is_number(value: Value) -> bool:
    given = value.node.attrs.get("value") if value.node.kind == "prim::Constant" else None
    return isinstance(given, int | float) and not isinstance(given, bool) and bool(value.node.span.end)


# --- changes ---


def _swapped(name: str) -> Callable[[Graph, Node], bool]:
    def change(graph: Graph, node: Node) -> bool:
        assert node.schema is not None
        wanted = f"aten::{name}" + (f".{node.schema.overload}" if node.schema.overload else "")
        candidates = [op for op in OPS.overloads(name) if op.schema.full_name == wanted]
        if not candidates:
            return False
        given = node.inputs[: len(candidates[0].schema.arguments)]
        required = sum(argument.required for argument in candidates[0].schema.arguments)
        if len(given) < required:
            return False
        return _put(node, Builder(graph, before=node, span=node.span).op(wanted, *given))

    return change


def _left_out(kept: int) -> Callable[[Graph, Node], bool]:
    return lambda graph, node: _put(node, node.inputs[kept])


def _exchanged(first: int, second: int) -> Callable[[Graph, Node], bool]:
    def change(graph: Graph, node: Node) -> bool:
        a, b = node.inputs[first], node.inputs[second]
        if a is b or a.type != b.type:
            return False
        node.set_input(first, b)
        node.set_input(second, a)
        return True

    return change


def _negated(graph: Graph, node: Node) -> bool:
    assert node.next is not None
    users = node.output.uses
    opposite = Builder(graph, before=node.next, span=node.span).op("aten::neg", node.output)
    for use in users:
        use.user.set_input(use.index, opposite)
    return True


def _number(position: int, other: Any) -> Callable[[Graph, Node], bool]:
    def made(graph: Graph, node: Node) -> bool:
        value = node.inputs[position]
        constant = Builder(graph, before=node, span=value.node.span).constant(other)
        node.set_input(position, constant)
        return True

    return made


def _captured(position: int, other: int) -> Callable[[Graph, Node], bool]:
    def change(graph: Graph, node: Node) -> bool:
        node.set_input(position, node.inputs[position].node.outputs[other])
        return True

    return change


def _put(node: Node, value: Value) -> bool:
    if value.type != node.output.type and not (is_tensor(value.type) and is_tensor(node.output.type)):
        return False
    node.output.replace_uses_with(value)
    return True
