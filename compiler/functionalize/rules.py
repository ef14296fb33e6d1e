"""What each kind of node does to places: results that are arguments, views of them, or may be either."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..ir.node import Node
from ..ops.registry import OPS, Trait
from ..types.types import ListType, OptionalType, TensorType, is_differentiable, is_subtype, is_tensor, unify
from .arguments import ask_argument, is_argument
from .calls import share
from .lists import MAX_CHOICES, depth_of, element_place, list_result, makes_list_of_objects, slots_of, write_list
from .places import (
    Either,
    Items,
    Place,
    Plain,
    Root,
    Slots,
    Spread,
    View,
    is_mutable,
    is_none,
    is_object,
    there,
    type_of,
)
from .scopes import Write
from .views import (
    GET,
    ElementStep,
    EquationStep,
    FieldStep,
    TypeStep,
    argument_of,
    is_view_equation,
    may_alias,
    possible_step,
    view_step,
)
from .walker import Walker
from .write_nodes import POP, WRITE

UPDATED = "aten::_updated"


# --- nodes that are not made again ---


def before(f: Walker, node: Node, places: Sequence[Place]) -> bool:
    """Whether the places of the arguments alone told what the node gives; the results' places are entered then."""
    rule = _BEFORE.get(node.kind)
    return rule is not None and rule(f, node, places)


def _write(f: Walker, node: Node, places: Sequence[Place]) -> bool:
    target, content = places
    write = Write(node.attrs["what"], node.span, node)
    if isinstance(node.inputs[0].type, ListType):
        write_list(f.memory, target, content, write)
    else:
        f.memory.write(target, f.memory.read(content), write)
    return True


def _tuple_index(f: Walker, node: Node, places: Sequence[Place]) -> bool:
    place = places[0]
    if not isinstance(place, Items):
        return False
    f.places[node.output] = place.slots[node.attrs["index"]]
    return True


def _tuple_unpack(f: Walker, node: Node, places: Sequence[Place]) -> bool:
    place = places[0]
    if not isinstance(place, Items):
        return False
    f.places.update(zip(node.outputs, place.slots, strict=True))
    return True


def _list_unpack(f: Walker, node: Node, places: Sequence[Place]) -> bool:
    slots = slots_of(f.memory, places[0])
    if slots is None or len(slots) != len(node.outputs):
        return False
    f.places.update(zip(node.outputs, slots, strict=True))
    return True


def _element(f: Walker, node: Node, places: Sequence[Place]) -> bool:
    """`l[i]` and `l.pop(i)` of a list whose elements are known."""
    slots = slots_of(f.memory, places[0])
    index = argument_of(node.inputs[1])
    if slots is None or not isinstance(index, int) or not -len(slots) <= index < len(slots):
        return False
    f.places[node.output] = slots[index]
    return True


def _same_object(f: Walker, node: Node, places: Sequence[Place]) -> bool:
    """A cast of a tuple is the tuple, one to the type that an object has, or to a wider one, is the object, and so is
    one of what may be an object or None."""
    place, type = places[0], node.output.type
    if isinstance(place, Items) or type_of(place) == type:
        f.places[node.output] = place
        return True
    if isinstance(type, OptionalType):
        # Of a tensor the annotation stays: its text compiles to the same again.
        if is_tensor(type.element):
            return False
    else:
        place = there(place)
    if (is_object(place) or is_none(place)) and is_subtype(type_of(place), type):
        f.places[node.output] = place
        return True
    return False


def _is_none(f: Walker, node: Node, places: Sequence[Place]) -> bool:
    """`x is None` of what an annotation alone said might be."""
    given = [place for place in places if not is_none(place)]
    if len(given) == 2 or any(isinstance(type_of(place), OptionalType) or not is_object(place) for place in given):
        return False
    f.places[node.output] = Plain(f.builder.constant((node.kind == "aten::__is__") is not bool(given)))
    return True


def _length(f: Walker, node: Node, places: Sequence[Place]) -> bool:
    """The length of a list whose elements are known."""
    slots = slots_of(f.memory, places[0])
    if slots is None:
        return False
    f.places[node.output] = Plain(f.builder.constant(len(slots)))
    return True


def _one_of_two(f: Walker, node: Node, places: Sequence[Place]) -> bool:
    """The lesser or the greater of two lengths that are known."""
    numbers = [argument_of(f.memory.read(place)) for place in places]
    if not all(isinstance(number, int) for number in numbers):
        return False
    f.places[node.output] = Plain(f.builder.constant((min if node.kind == "prim::min.int" else max)(numbers)))
    return True


def _updated(f: Walker, node: Node, places: Sequence[Place]) -> bool:
    """What an in-place op leaves needs no check where it has the dtype and shape of the tensor by its very nature."""
    new, old = f.memory.read(places[0]), f.memory.read_shape(places[1])
    assert isinstance(new.type, TensorType) and isinstance(old.type, TensorType)
    op = OPS.of(new.node.schema)
    of_itself = all(value is old for value in new.node.inputs if isinstance(value.type, TensorType))
    if op is None or not op.has(Trait.POINTWISE) or not of_itself:
        return False
    if new.type.dtype is None or new.type.dtype != old.type.dtype:
        return False
    f.places[node.output] = places[0]
    return True


def _overwritten(f: Walker, node: Node, places: Sequence[Place]) -> bool:
    """What has no gradient needs none of zeros."""
    old = f.memory.read(places[0])
    op = OPS.of(old.node.schema)
    takes_some = any(is_differentiable(value.type) for value in old.node.inputs)
    has_none = op is not None and (op.has(Trait.NONDIFFERENTIABLE | Trait.SHAPE_ONLY) or not takes_some)
    if has_none or not is_differentiable(old.type):
        f.places[node.output] = places[1]
        return True
    return False


_BEFORE: dict[str, Callable[[Walker, Node, Sequence[Place]], bool]] = {
    WRITE: _write,
    "prim::TupleIndex": _tuple_index,
    "prim::TupleUnpack": _tuple_unpack,
    "prim::ListUnpack": _list_unpack,
    GET: _element,
    POP: _element,
    "prim::unchecked_unwrap_optional": _same_object,
    "prim::unchecked_cast": _same_object,
    UPDATED: _updated,
    "aten::_overwritten": _overwritten,
    "aten::len.t": _length,
    "aten::__is__": _is_none,
    "aten::__isnot__": _is_none,
    "prim::min.int": _one_of_two,
    "prim::max.int": _one_of_two,
}


# --- results of nodes ---


def after(f: Walker, node: Node, places: Sequence[Place], made: Node) -> list[Place]:
    """The places of what a node gives, which stands in the new graph as `made`."""
    rule = _AFTER.get(node.kind)
    if rule is not None:
        found = rule(f, node, places, made)
        if found is not None:
            return found
    op = OPS.of(node.schema)
    if op is not None and makes_list_of_objects(node):
        return [list_result(f.memory, node, places, made.output)]
    step = view_step(made)
    if step is not None and not isinstance(places[0], Plain | Items):
        view = f.memory.view(places[0], step, made.output.type)
        if isinstance(made.output.type, ListType):
            return [f.memory.allocate(made.output, Spread(view), origin=node.output)]
        f.memory.keep(view, made.output)
        return [view]
    results = [f.result(value, new) for value, new in zip(node.outputs, made.outputs, strict=True)]
    if op is not None and may_alias(op):
        return _may_be_argument(f, places, made, results)
    return results


def _may_be_argument(f: Walker, places: Sequence[Place], made: Node, results: list[Place]) -> list[Place]:
    """The results of an op that returns its argument where nothing is to do."""
    told = is_argument(made)
    argument = next((place for place in places if not isinstance(place, Plain)), None)
    if told is False or argument is None:
        return results
    if told or f.asks:
        found = _unchanged(f, made, argument)
        if told and found is not None:
            return [found]
        either = _asked(f, made, found, results[0]) if found is not None else None
        if either is not None:
            return [either]
    for result in results:
        share(f.memory, result, argument)
    return results


def _unchanged(f: Walker, made: Node, argument: Place) -> Place | None:
    """What the op gives where it copies nothing: the argument, or the view that it then is."""
    step = possible_step(made)
    if step is None:
        return argument
    if isinstance(argument, Plain | Items):
        return None
    view = f.memory.view(argument, step, made.output.type)
    f.memory.keep(view, made.output)
    return view


def _asked(f: Walker, made: Node, found: Place, own: Place) -> Place | None:
    """The argument or what the op gave, by what the run says of them."""
    depth = 1 + max(depth_of(found), depth_of(own))
    if isinstance(found, Items) or depth > MAX_CHOICES:
        return None
    condition = ask_argument(f.builder, made)
    if condition is None:
        return None
    either = Either(condition, found, own, made.output.type, depth)
    f.memory.keep(either, made.output)
    return either


def _tuple(f: Walker, node: Node, places: Sequence[Place], made: Node) -> list[Place] | None:
    if not is_mutable(node.output.type):
        return None
    items = Items(tuple(places))
    f.memory.keep(items, made.output)
    return [items]


def _list(f: Walker, node: Node, places: Sequence[Place], made: Node) -> list[Place] | None:
    type = made.output.type
    assert isinstance(type, ListType)
    for value in made.inputs:
        if not is_subtype(value.type, type.element):
            wider = unify(type.element, value.type)
            type = made.output.type = ListType(wider if wider is not None else type.element)
    if not is_mutable(type.element):
        return None
    return [f.memory.allocate(made.output, Slots(tuple(places)), origin=node.output)]


def _part(f: Walker, node: Node, places: Sequence[Place], made: Node) -> list[Place] | None:
    """Elements of tuples and lists that are one value, and what an optional holds."""
    place = places[0]
    if isinstance(place, Plain | Items) or not any(is_mutable(value.type) for value in node.outputs):
        return None
    found: list[Place] = []
    for i, new in enumerate(made.outputs):
        if not is_mutable(new.type):
            found.append(Plain(new))
            continue
        if node.kind == "prim::ListUnpack":
            view: Place | None = element_at(f, node, place, i)
        elif node.kind in ("prim::TupleIndex", "prim::TupleUnpack"):
            view = f.memory.view(place, FieldStep(node.attrs.get("index", i)), new.type)
        else:
            view = f.memory.view(place, TypeStep(new.type), new.type)
        assert view is not None
        f.memory.keep(view, new)
        found.append(view)
    return found


def element_at(f: Walker, node: Node, place: Place, index: int) -> Place | None:
    content = f.memory.content(place.cell) if isinstance(place, Root) else None
    parent = content.place if isinstance(content, Spread) else place
    return f.memory.view(parent, ElementStep(index), node.outputs[index].type)


def _getitem(f: Walker, node: Node, places: Sequence[Place], made: Node) -> list[Place] | None:
    if not is_mutable(node.output.type) or isinstance(places[0], Plain):
        return None
    place = element_place(f.memory, node, places[0], made.inputs[1])
    if place is None:
        return _any_element(f, node, places[0], made)
    if isinstance(place, View) or not isinstance(place, Root | Items):
        f.memory.keep(place, made.output)
    return [place]


def _pop(f: Walker, node: Node, places: Sequence[Place], made: Node) -> list[Place] | None:
    """The element that a list gives away: no longer its own, unless the list has it twice."""
    made = _as_getitem(f, made)
    if not is_mutable(node.output.type) or isinstance(places[0], Plain):
        return [Plain(made.output)] if not is_mutable(node.output.type) else None
    place = places[0]
    content = f.memory.content(place.cell) if isinstance(place, Root) else None
    if isinstance(content, Slots | Spread):
        return _getitem(f, node, places, made)
    taken = f.memory.allocate(made.output, None, origin=node.output)
    for cell in f.memory.elements_of(place):
        for other in (cell, *cell.others) if cell.repeats or not isinstance(place, Root) else tuple(cell.others):
            f.memory.share(taken.cell, other)
            if taken.cell.elements is not None:
                f.memory.share(taken.cell.elements, other)
    return [taken]


def _as_getitem(f: Walker, made: Node) -> Node:
    op = OPS.named(GET)
    found = f.builder.node(GET, made.inputs, [made.output.type], schema=op.schema, names=[made.output.name_hint])
    made.destroy()
    return found


def _any_element(f: Walker, node: Node, place: Place, made: Node) -> list[Place]:
    """An element that may be any of those that the list holds."""
    taken = f.memory.allocate(made.output, None, origin=node.output)
    for cell in f.memory.elements_of(place):
        f.memory.link(taken.cell, cell)
    if taken.cell.elements is not None:
        f.memory.hold(taken.cell.elements, f.memory.elements_of(place))
    return [taken]


def _any_gradient(f: Walker, node: Node, places: Sequence[Place], made: Node) -> list[Place] | None:
    """A gradient that may be one of those that it is made of."""
    place = f.result(node.output, made.output)
    for argument in places:
        share(f.memory, place, argument)
    return [place]


def _einsum(f: Walker, node: Node, places: Sequence[Place], made: Node) -> list[Place] | None:
    """A view of the one operand, or a tensor of its own; None where the equation is known only when it runs."""
    equation = argument_of(made.inputs[0])
    if not isinstance(equation, str):
        return None
    if not is_view_equation(equation):
        return [f.result(node.output, made.output)]
    operands = slots_of(f.memory, places[1])
    if operands is None or len(operands) != 1 or isinstance(operands[0], Plain | Items):
        return None
    view = f.memory.view(operands[0], EquationStep(equation), made.output.type)
    f.memory.keep(view, made.output)
    return [view]


def _detached(f: Walker, node: Node, places: Sequence[Place], made: Node) -> list[Place] | None:
    """What was made to be detached is a tensor of its own: nobody else has its memory, and what is written into it
    later flows back from it."""
    source, place = node.inputs[0], places[0]
    while source.use_count == 1 and source.node.schema is not None and view_step(source.node) is not None:
        source = source.node.inputs[0]
    root = place.root if isinstance(place, View) else place
    if source.use_count != 1 or not isinstance(root, Root) or root.cell.key[0] is not source:
        return None
    cell = root.cell
    if cell.argument or cell.others or cell.level != f.memory.scope.level:
        return None
    return [f.result(node.output, made.output)]


def _missing(f: Walker, node: Node, places: Sequence[Place], made: Node) -> list[Place] | None:
    return [Plain(made.output)]


_AFTER: dict[str, Callable[[Walker, Node, Sequence[Place], Node], list[Place] | None]] = {
    "prim::TupleConstruct": _tuple,
    "prim::ListConstruct": _list,
    "prim::TupleIndex": _part,
    "prim::TupleUnpack": _part,
    "prim::ListUnpack": _part,
    "prim::unchecked_unwrap_optional": _part,
    "prim::unchecked_cast": _part,
    "prim::Uninitialized": _missing,
    "prim::AutogradZero": _missing,
    "prim::AutogradAdd": _any_gradient,
    "prim::MaterializeGrad": _any_gradient,
    GET: _getitem,
    POP: _pop,
    "aten::einsum": _einsum,
    "aten::detach": _detached,
}
