"""What each kind of node must look like: a rule for each structural kind, for `kinds.py`, and one for ops."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from ..types.schema import FunctionSchema
from ..types.types import (
    BOOL,
    CLOSURE,
    DEVICE,
    FLOAT,
    INT,
    INT_LIST,
    NONE,
    STR,
    TENSOR,
    UNDEFINED,
    ListType,
    OptionalType,
    TensorType,
    TupleType,
    Type,
    is_subtype,
    leaf_of,
    strip_optional,
    unify,
)
from .constants import TensorConstant
from .graph import Graph
from .node import RECORDED, RETURN, Block, Node, Value, walk
from .signature import Bindings, argument_matches, substitute


class Broken(Exception):
    """A node breaks a rule, which is the text."""


StructureRule = Callable[[Node, Graph], None]
STAGE = "stage"
"""An attribute that any node may have: "mirror" for one that a backward computes again."""
UNROUNDED = "unrounded"
"""An attribute that a conversion may have: kernels go on with what they compute, rounded or not."""
SEGMENT = "segment"
"""An attribute that a prim::Loop may have: its backward runs so many rounds again at a time, and keeps their start."""
GRADIENT_OF = "gradient_of"
"""An attribute of what brings a user's gradient to the size of an argument: the names of the function and of the
argument, for messages."""
AS_LONG = "as_long"
"""An attribute of a slice_scatter in the gradient of a slice: what is put in is as long as what it is put over."""
OF_NETWORKS = "functional_"
"""How the names of ops begin that are of torch.nn.functional where torch has another one of the name."""
OF_NUMBERS = frozenset(("abs", "max", "min"))
"""Functions of Python among the ops that are the compiler's own."""
_ATTRIBUTE = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)


def spelled(node: Node) -> str:
    """What a message calls the op of a node; nothing where source has no name for it."""
    if node.schema is None:
        callee: str = node.attrs.get("callee", "")
        return callee if "::" in callee else ""
    namespace, _, name = node.schema.full_name.partition("::")
    if namespace == "prim":
        return node.schema.base_name if node.schema.base_name in OF_NUMBERS else ""
    if name.startswith("_") or node.schema.base_name.endswith("Implicit"):
        return ""
    return f"F.{node.schema.base_name.removeprefix(OF_NETWORKS)}" if name.startswith(OF_NETWORKS) else node.kind


def require(holds: bool, rule: str) -> None:
    """For rules whose text costs nothing; where it is put together, `if` keeps that for the case of need."""
    if not holds:
        raise Broken(rule)


def check_attrs(node: Node) -> None:
    """Attributes have names and hold constants only."""
    for key, value in node.attrs.items():
        if not _ATTRIBUTE.match(key) or not _is_constant(value):
            raise Broken(f"attribute {key!r} has no proper name, or is no constant")


def _is_constant(value: Any) -> bool:
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, list | tuple):
            pending += item
        elif item is not None and not isinstance(item, int | float | bool | str | TensorConstant):
            return False
    return True


def check_closure(node: Node, value: Value) -> None:
    require(node.kind == "prim::Function", "only prim::Function makes a Closure")
    for user, index in value.uses:
        block = user.owner
        of_function = block is not None and (block.node is None or block.node.kind == "prim::Function")
        placed = user.kind == RETURN and of_function and block is node.owner and index == len(user.inputs) - 1
        require(placed, "a Closure may only be the last result of the function that defines it")


def check_call(node: Node, schema: FunctionSchema) -> None:
    """Arguments fit the schema; a result's type is that of the schema, or more or less precise."""
    if len(node.inputs) != len(schema.arguments):
        raise Broken(f"{schema.full_name} takes {len(schema.arguments)} arguments, not {len(node.inputs)}")
    bound: Bindings = {}
    for argument, value in zip(schema.arguments, node.inputs, strict=True):
        # A gradient that is not there may be one of a list.
        absent = value.type == UNDEFINED and isinstance(argument.type, ListType)
        if not absent and not argument_matches(value.type, argument, bound):
            raise Broken(f"argument '{argument.name}' is {argument.type}, not {value.type}")
    if len(node.outputs) != len(schema.returns):
        raise Broken(f"{schema.full_name} has {len(schema.returns)} results, not {len(node.outputs)}")
    for result, value in zip(schema.returns, node.outputs, strict=True):
        # A variable that no argument binds, as in the result of an op with a rule of its own, leaves any type.
        if not argument_matches(value.type, result, dict(bound)):
            expected = substitute(result.type, bound)
            if not is_subtype(expected, value.type):
                raise Broken(f"a result is {expected}, not {value.type}")


def _shape(node: Node, inputs: int | None, outputs: int | None, *, blocks: int = 0, attrs: Sequence[str] = ()) -> None:
    """Counts of inputs, outputs and blocks (None: any), and the attributes there must be."""
    for name, count, found in (
        ("inputs", inputs, node.inputs),
        ("outputs", outputs, node.outputs),
        ("blocks", blocks, node.blocks),
    ):
        if count is not None and len(found) != count:
            raise Broken(f"{node.kind} has {count} {name}, not {len(found)}")
    if set(attrs) != node.attrs.keys() - {STAGE, SEGMENT, RECORDED, UNROUNDED}:
        raise Broken(f"{node.kind} has attributes {list(attrs)}, not {list(node.attrs)}")


def _flows(values: Sequence[Value], into: Sequence[Value], what: str) -> None:
    """As many values as there are in `into`, each of a type that fits there."""
    if len(values) != len(into):
        raise Broken(f"{what}: {len(values)} values for {len(into)}")
    for i, (value, target) in enumerate(zip(values, into, strict=True)):
        if not is_subtype(value.type, target.type):
            raise Broken(f"{what}: number {i} is {value.type}, which does not fit {target.type}")


def _input_types(node: Node, *types: Type) -> None:
    for i, (value, type) in enumerate(zip(node.inputs, types, strict=False)):
        if not is_subtype(value.type, type):
            raise Broken(f"input {i} of {node.kind} is {type}, not {value.type}")


def check_constant(node: Node, _: Graph) -> None:
    _shape(node, 0, 1, attrs=["value"])
    if not constant_fits(node.attrs["value"], node.output.type):
        raise Broken(f"the constant is no {node.output.type}")


def constant_fits(value: Any, type: Type) -> bool:
    """Whether a constant is of a type."""
    pending = [(value, type)]
    while pending:
        value, type = pending.pop()
        inner = strip_optional(type) if value is not None else type
        if isinstance(value, list | tuple) and isinstance(inner, ListType):
            pending += [(item, inner.element) for item in value]
        elif isinstance(value, list | tuple) or not _is_scalar(value, inner):
            return False
    return True


def _is_scalar(value: Any, type: Type) -> bool:
    if value is None:
        return type == NONE or isinstance(type, OptionalType)
    if isinstance(value, bool):
        return type == BOOL
    if isinstance(value, TensorConstant):
        return is_subtype(value.type, type)
    if isinstance(value, str):
        return type in (STR, DEVICE)
    return is_subtype(FLOAT if isinstance(value, float) else INT, type)


def check_uninitialized(node: Node, _: Graph) -> None:
    _shape(node, 0, 1)


def check_tuple_construct(node: Node, _: Graph) -> None:
    _shape(node, None, 1)
    require(isinstance(node.output.type, TupleType), "prim::TupleConstruct makes a Tuple")
    made = TupleType(tuple(v.type for v in node.inputs))
    if not is_subtype(made, node.output.type):
        raise Broken(f"the elements make {made}, which does not fit {node.output.type}")


def _elements(node: Node) -> tuple[Type, ...]:
    type = node.inputs[0].type
    if not isinstance(type, TupleType):
        raise Broken(f"{node.kind} takes a Tuple, not {type}")
    return type.elements


def check_tuple_unpack(node: Node, _: Graph) -> None:
    _shape(node, 1, None)
    elements = _elements(node)
    if len(elements) != len(node.outputs):
        raise Broken(f"{len(elements)} elements for {len(node.outputs)} outputs")
    for element, value in zip(elements, node.outputs, strict=True):
        _check_projection(element, value)


def check_tuple_index(node: Node, _: Graph) -> None:
    _shape(node, 1, 1, attrs=["index"])
    elements, index = _elements(node), node.attrs["index"]
    if not isinstance(index, int) or not 0 <= index < len(elements):
        raise Broken(f"no element {index} among {len(elements)}")
    _check_projection(elements[index], node.output)


def _check_projection(element: Type, value: Value) -> None:
    """An element is of the type that its container says, or more or less precise, as what an op gives is."""
    if not is_subtype(element, value.type) and not is_subtype(value.type, element):
        raise Broken(f"an element is {element}, which does not fit {value.type}")


def check_list_construct(node: Node, _: Graph) -> None:
    _shape(node, None, 1)
    made = node.output.type
    if not isinstance(made, ListType):
        raise Broken("prim::ListConstruct makes a List")
    _input_types(node, *[made.element] * len(node.inputs))


def check_list_unpack(node: Node, _: Graph) -> None:
    _shape(node, 1, None)
    type = node.inputs[0].type
    if type == UNDEFINED:
        # A gradient that is not there may be one of a list, whose elements nobody then asks for.
        return
    if not isinstance(type, ListType):
        raise Broken(f"prim::ListUnpack takes a List, not {type}")
    for value in node.outputs:
        _check_projection(type.element, value)


def check_if(node: Node, _: Graph) -> None:
    _shape(node, 1, None, blocks=2)
    _input_types(node, BOOL)
    for block in node.blocks:
        require(not block.inputs, "a branch of prim::If has no parameters")
        _flows(block.outputs, node.outputs, "results of a branch")


def check_loop(node: Node, _: Graph) -> None:
    _shape(node, None, None, blocks=1)
    length = node.attrs.get(SEGMENT, 1)
    require(type(length) is int and length > 0, "a segment is a positive number of rounds")
    (block,) = node.blocks
    require(len(node.inputs) >= 2, "prim::Loop takes a trip count and a condition")
    _input_types(node, INT, BOOL)
    require(bool(block.inputs) and block.inputs[0].type == INT, "a loop body's first parameter is the int index")
    require(bool(block.outputs) and block.outputs[0].type == BOOL, "a loop body's first result is the condition")
    for values, what in ((node.inputs[2:], "initial values"), (block.outputs[1:], "results of the body")):
        _flows(values, block.inputs[1:], f"{what} of prim::Loop")
        _flows(values, node.outputs, f"{what} of prim::Loop")


def check_function(node: Node, _: Graph) -> None:
    _shape(node, 0, 1, blocks=1, attrs=["name"])
    require(node.output.type == CLOSURE, "the output of prim::Function is a Closure")
    require(isinstance(node.attrs["name"], str), "the name of a closure is a string")


def check_call_function(node: Node, graph: Graph) -> None:
    _shape(node, None, None, attrs=["callee"])
    name = node.attrs["callee"]
    require(isinstance(name, str), "the callee is named by a string")
    callee = graph.functions.get(name)
    if callee is not None:
        check_call(node, callee.schema)


def check_grad_of(node: Node, _: Graph) -> None:
    _shape(node, None, None, blocks=1, attrs=["name"])
    (block,) = node.blocks
    require(isinstance(node.attrs["name"], str), "prim::GradOf names the forward op by a string")
    require(not block.inputs, "the block of prim::GradOf has no parameters")
    _flows(block.outputs, node.outputs, "results of prim::GradOf")


def check_differentiable_graph(node: Node, _: Graph) -> None:
    _shape(node, None, None, blocks=1)
    _check_closed(node)


def check_fusion_group(node: Node, _: Graph) -> None:
    _shape(node, None, None, blocks=1, attrs=["name"])
    require(isinstance(node.attrs["name"], str), "the name of prim::FusionGroup is a string")
    _check_closed(node)


def _check_closed(node: Node) -> None:
    """A block that stands for itself: what it uses goes in, and what it returns comes out."""
    (block,) = node.blocks
    _flows(node.inputs, block.inputs, f"inputs of {node.kind}")
    _flows(block.outputs, node.outputs, f"results of {node.kind}")
    inside: set[Block] = {block}
    for inner in walk(block.nodes):
        inside.update(inner.blocks)
        require(_stands_in(inner, inside), f"{node.kind} takes what it uses as inputs")
    require(_stands_in(block.ret, inside), f"{node.kind} takes what it returns as inputs")


def _stands_in(node: Node, blocks: set[Block]) -> bool:
    return all(value.node.owner in blocks for value in node.inputs)


def check_bail_out(node: Node, _: Graph) -> None:
    """The value that something is taken for granted of (`shape` and `dtype`, or `value`), then all that lives on."""
    is_tensor = "shape" in node.attrs
    _shape(node, None, 1, attrs=["point", "shape", "dtype"] if is_tensor else ["point", "value"])
    require(type(node.attrs["point"]) is int, "the point of prim::BailOut is a number")
    require(bool(node.inputs), "prim::BailOut takes a value and what lives on")
    if unify(node.inputs[0].type, node.output.type) is None:
        raise Broken(f"a {node.inputs[0].type} is never a {node.output.type}")


def check_autograd_add(node: Node, _: Graph) -> None:
    _shape(node, 2, 1)
    if isinstance(node.output.type, ListType):
        # How deep a list is nested, a formula that works on lists of any kind does not say.
        lists = all(isinstance(v.type, ListType) or v.type == UNDEFINED for v in node.inputs)
        require(
            lists and isinstance(leaf_of(node.output.type), TensorType),
            "prim::AutogradAdd of lists takes two lists of tensors",
        )
        return
    _input_types(node, TENSOR, TENSOR)
    require(is_subtype(node.output.type, TENSOR), "prim::AutogradAdd gives a Tensor")


def check_autograd_zero(node: Node, _: Graph) -> None:
    _shape(node, 0, 1)
    require(node.output.type == UNDEFINED, "the output of prim::AutogradZero is Undefined")


def check_materialize_grad(node: Node, _: Graph) -> None:
    _shape(node, 3, 1)
    _input_types(node, TENSOR, INT_LIST, INT)
    defined = is_subtype(node.output.type, TENSOR) and node.output.type != UNDEFINED
    require(defined, "prim::MaterializeGrad gives a Tensor")


def check_unwrap(node: Node, _: Graph) -> None:
    _shape(node, 1, 1)
    given, made = strip_optional(node.inputs[0].type), node.output.type
    if given != NONE and not is_subtype(given, made):
        raise Broken(f"{node.inputs[0].type} does not unwrap to {made}")


def check_cast(node: Node, _: Graph) -> None:
    _shape(node, 1, 1)
    given, made = node.inputs[0].type, node.output.type
    if unify(given, made) is None:
        raise Broken(f"a {given} is never a {made}")
