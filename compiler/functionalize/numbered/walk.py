"""The walk over a function whose objects are numbered: each node is made again, on numbers or on what stands there."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....lang.patterns import pattern
from ....lang.trampoline import Walk, run
from ...ir.builder import Builder
from ...ir.graph import Graph
from ...ir.kinds import entering, leaving, own_inputs, parameters
from ...ir.node import Block, Node, Value, copy_nodes, walk
from ...ir.rewrite import replace_node
from ...ir.signature import result_types
from ...ops.registry import OPS
from ...types.types import INT, NONE, ListType, OptionalType, TupleType, Type, is_subtype, is_tensor
from ..arguments import ask_argument, is_argument
from ..lists import SLOT_OPS
from ..places import is_mutable
from ..unrecorded import is_plain_call
from ..views import (
    GET,
    argument_of,
    by_numbers,
    is_view_equation,
    may_alias,
    possible_step,
    view_step,
)
from ..write_nodes import POP, WRITE
from .families import Families, Unfit, numbered_type
from .objects import LENGTH, NumberedBranch, NumberedObjects, NumberedRounds

_ENABLES = pattern(r"\b(enable_grad|set_grad_enabled|inference_mode)\b")
MAX_INLINED = 20_000
"""Nodes of other functions that are walked in one function."""

_ON_NUMBERS = (*SLOT_OPS, GET, POP, LENGTH)
"""Ops on lists that mean the same whatever these hold."""


def numbered_graph(graph: Graph) -> Graph:
    """The function without writes, its objects numbered; Unfit where something in it cannot be followed so."""
    if _ENABLES.search(graph.span.source.text):
        # What is marked as recorded (`emit/statements/grad_modes.py`) are ops of the program, not lists of contents.
        raise Unfit
    source = graph.copy()
    source.arguments = graph.arguments
    _inline(source)
    return NumberedWalk(source).graph


def _inline(graph: Graph) -> None:
    """Put what is called in the place of the calls, unless it has a backward of its own."""
    pending, inlined = [node for node in walk(graph.body.nodes) if is_plain_call(graph, node)], 0
    while pending:
        call = pending.pop()
        callee = graph.functions[call.attr("callee")]
        called = callee.source if callee.source is not None else callee.graph
        if called.returns_closure or any(graph.functions.get(name) is not c for name, c in called.functions.items()):
            raise Unfit
        inner = _inlined(call, called)
        inlined += len(inner)
        if inlined > MAX_INLINED:
            raise Unfit
        pending += [node for node in inner if is_plain_call(graph, node)]


def _inlined(call: Node, called: Graph) -> list[Node]:
    """The nodes of a function, put in the place of a call."""
    builder, made = Builder.in_front_of(call), list[Node]()

    def insert(node: Node) -> Node:
        made.append(node)
        return builder.insert(node)

    results = copy_nodes(called.body, dict(zip(called.inputs, call.inputs, strict=True)), insert)
    replace_node(call, results)
    return list(walk(made))


class NumberedWalk:
    """What stands for each value of the source, by the time it is made."""

    def __init__(self, source: Graph) -> None:
        self.source = source
        self.families = Families(source)
        self.graph = Graph(source.name, source.functions, source.span, source.title)
        self.builder = Builder(self.graph, span=source.span)
        self.objects = NumberedObjects(self.builder)
        self.values: dict[Value, Value] = {}
        self._begin()
        run(self._function())

    def _begin(self) -> None:
        values = [*self.source.inputs, *(v for n in walk(self.source.body.nodes) for v in _made_by(n))]
        for value in values:
            pending = [(self.families.of(value), value.type)]
            while pending:
                family, type = pending.pop()
                type = type.element if isinstance(type, OptionalType) else type
                if family.written and (family, "contents") not in self.objects.state:
                    self.objects.begin(family, type)
                if isinstance(type, ListType):
                    pending.append((family.part(), type.element))
                elif isinstance(type, TupleType):
                    pending += [(family.part(i), element) for i, element in enumerate(type.elements)]

    def _function(self) -> Walk:
        given = [self.graph.body.add_input(value.type, value.name_hint) for value in self.source.inputs]
        for value, new in zip(self.source.inputs, given, strict=True):
            self.values[value] = self.objects.store(new, value.type, self.families.of(value))
        self.objects.given()
        yield self._block(self.source.body)
        self.builder.current_span = self.source.span
        self.builder.returns(*map(self._result, self.source.outputs))

    def _result(self, value: Value) -> Value:
        """What the function gives, of the type by which its callers know it."""
        found = self.load(value)
        return found if is_subtype(found.type, value.type) else self.builder.cast(found, value.type)

    def _block(self, block: Block) -> Walk:
        for node in block.nodes:
            self.builder.current_span = node.span
            if node.kind == "prim::If":
                yield self._branch(node)
            elif node.kind == "prim::Loop":
                yield self._loop(node)
            else:
                self._node(node)

    # --- values ---

    def value(self, value: Value) -> Value:
        """What stands for a value of the source."""
        found = self.values.get(value)
        if found is None:
            # A constant means the same wherever it stands.
            if value.node.kind != "prim::Constant":
                raise Unfit
            found = self.builder.constant(value.node.attrs["value"], value.type)
        return found

    def load(self, value: Value) -> Value:
        """The content of a value, as it is now."""
        return self.objects.load(self.value(value), value.type, self.families.of(value))

    def content(self, value: Value) -> Value:
        """The elements of a list as they stand for theirs; any other value as it stands."""
        family, found = self.families.of(value), self.value(value)
        return self.objects.read(family, found) if family.written and isinstance(value.type, ListType) else found

    def type(self, value: Value) -> Type:
        return numbered_type(value.type, self.families.of(value))

    def holds_numbers(self, value: Value) -> bool:
        return is_mutable(value.type) and self.families.of(value).holds_numbers

    # --- blocks ---

    def _branch(self, node: Node) -> Walk:
        branch = NumberedBranch(self.objects, self.value(node.inputs[0]))
        branch.node.attrs.update(node.attrs)
        for block in node.blocks:
            with branch.side():
                yield self._block(block)
                self.builder.returns(*map(self.value, block.outputs))
        names = [value.name_hint for value in node.outputs]
        self.values.update(zip(node.outputs, branch.close(list(map(self.type, node.outputs)), names), strict=True))

    def _loop(self, node: Node) -> Walk:
        (block,) = node.blocks
        given = zip(parameters(block), entering(node), strict=True)
        initial = [(self.value(value), self.type(parameter)) for parameter, value in given]
        touched = self.families.touched([node])
        rounds = NumberedRounds(self.objects, list(map(self.value, own_inputs(node))), initial, touched)
        rounds.node.attrs.update(node.attrs)
        self.values[block.inputs[0]] = rounds.index
        self.values.update(zip(parameters(block), rounds.carried, strict=True))
        with self.builder.at(rounds.block):
            yield self._block(block)
            results = rounds.close(self.value(block.outputs[0]), list(map(self.value, leaving(block))))
        self.values.update(zip(node.outputs, results, strict=True))

    # --- nodes ---

    def _node(self, node: Node) -> None:
        rule = _RULES.get(node.kind)
        if rule is not None:
            rule(self, node)
        elif node.kind in _ON_NUMBERS:
            self._on_numbers(node)
        elif any(map(self.holds_numbers, (*node.inputs, *node.outputs))):
            self._on_contents(node)
        else:
            made = self.copy(node, list(map(self.value, node.inputs)))
            self.values.update(zip(node.outputs, made.outputs, strict=True))

    def copy(self, node: Node, inputs: Sequence[Value], types: Sequence[Type] | None = None) -> Node:
        """The node on other inputs, with results of the types that follow."""
        made = Node("aten::__getitem__.t" if node.kind == POP else node.kind, node.schema, dict(node.attrs), node.span)
        op = OPS.named(GET) if node.kind == POP else OPS.of(node.schema)
        made.schema = op.schema if op is not None else node.schema
        for value in inputs:
            made.add_input(value)
        found = types or [value.type for value in node.outputs]
        given = [value.type for value in inputs]
        if op is not None and types is None and given != [value.type for value in node.inputs]:
            found = list(result_types(op, given))
        for value, type in zip(node.outputs, found, strict=True):
            made.add_output(type, value.name_hint)
        return self.builder.insert(made)

    def _on_numbers(self, node: Node) -> None:
        """An op on lists, whose result is a list of its own, or an element."""
        assert node.schema is not None
        formals = [argument.type for argument in node.schema.arguments]
        given = [
            self.content(value) if isinstance(type, ListType) else self.value(value)
            for type, value in zip(formals, node.inputs, strict=True)
        ]
        made = self.copy(node, given)
        result, family = made.output, self.families.of(node.output)
        if isinstance(node.output.type, ListType) and node.kind not in (GET, POP) and family.written:
            result = self.objects.allocate(family, result)
        self.values[node.output] = result

    def _on_contents(self, node: Node) -> None:
        """An op that reads what it is given, and whose results nobody else has, unless they are views."""
        op = OPS.of(node.schema)
        if op is None:
            raise Unfit
        if any(map(self.holds_numbers, node.outputs)):
            if op.schema.is_generic:
                raise Unfit
            step = view_step(node) if self.holds_numbers(node.inputs[0]) else None
            if step is not None:
                if by_numbers(step) or not _is_read_at_once(node):
                    self._view(node)
                    return
            elif may_alias(op) and is_mutable(node.inputs[0].type) and is_argument(node) is not False:
                self._may_be_argument(node)
                return
        made = self.copy(node, list(map(self.load, node.inputs)))
        for value, new in zip(node.outputs, made.outputs, strict=True):
            self.values[value] = self.objects.store(new, value.type, self.families.of(value))

    def _view(self, node: Node) -> None:
        """A view has the numbers of its elements, or a list of views has those of each."""
        step = view_step(node)
        if step is None or not by_numbers(step) or not is_tensor(node.inputs[0].type):
            raise Unfit
        family, source = self.families.of(node.inputs[0]), self.value(node.inputs[0])
        others = [self.load(value) for value in node.inputs[1:]]
        owner, elements = self.objects.whole(family, source)
        seen = self.copy(node, [elements, *others]).output
        if not isinstance(node.output.type, ListType):
            self.values[node.output] = self.objects.enter_view(family, owner, seen)
            return
        found = self.objects.map(seen, lambda one: self.objects.enter_view(family, owner, one), INT, [family])
        views = self.families.of(node.output)
        self.values[node.output] = self.objects.allocate(views, found) if views.written else found

    def _may_be_argument(self, node: Node) -> None:
        """An op that returns its argument, or a view of it, where nothing is to do: the run is asked."""
        source = node.inputs[0]
        if not is_tensor(source.type) or not is_tensor(node.output.type):
            raise Unfit
        family = self.families.of(source)
        step = possible_step(node)
        others = [self.load(value) for value in node.inputs[1:]]
        made = self.copy(node, [self.load(source), *others])
        told = is_argument(made)
        if told is False:
            self.values[node.output] = self.objects.allocate(family, made.output)
            return
        condition = self.builder.constant(True) if told else ask_argument(self.builder, made)
        if condition is None:
            raise Unfit
        branch = NumberedBranch(self.objects, condition)
        with branch.side():
            found = self.value(source)
            if step is not None:
                owner, elements = self.objects.whole(family, found)
                found = self.objects.enter_view(family, owner, self.copy(node, [elements, *others]).output)
            self.builder.returns(found)
        with branch.side():
            self.builder.returns(self.objects.allocate(family, made.output))
        self.values[node.output] = branch.close([INT])[0]


def _is_read_at_once(view: Node) -> bool:
    """Whether ops alone read a view, and before anything is written: it is as good as a copy then."""
    readers = {use.user for use in view.output.uses}
    following = view.next
    while readers and following is not None and following.kind not in (WRITE, POP) and not following.blocks:
        if following in readers and (not (op := OPS.of(following.schema)) or may_alias(op) or op.schema.is_generic):
            return False
        readers.discard(following)
        following = following.next
    return not readers


def _made_by(node: Node) -> list[Value]:
    return [*node.outputs, *(value for block in node.blocks for value in block.inputs)]


def _write(f: NumberedWalk, node: Node) -> None:
    target, content = node.inputs
    family = f.families.of(target)
    if isinstance(target.type, ListType):
        f.objects.write(family, f.value(target), f.content(content))
    elif is_tensor(target.type):
        f.objects.write(family, f.value(target), f.load(content))
    else:
        raise Unfit


def _constant(f: NumberedWalk, node: Node) -> None:
    if f.holds_numbers(node.output):
        raise Unfit


def _uninitialized(f: NumberedWalk, node: Node) -> None:
    f.values[node.output] = f.builder.uninitialized(f.type(node.output))


def _list(f: NumberedWalk, node: Node) -> None:
    family, type = f.families.of(node.output), node.output.type
    assert isinstance(type, ListType)
    made = f.builder.list(list(map(f.value, node.inputs)), numbered_type(type.element, family.part()))
    made.name_hint = node.output.name_hint
    f.values[node.output] = f.objects.allocate(family, made) if family.written else made


def _list_unpack(f: NumberedWalk, node: Node) -> None:
    made = f.copy(node, [f.content(node.inputs[0])], list(map(f.type, node.outputs)))
    f.values.update(zip(node.outputs, made.outputs, strict=True))


def _parts(f: NumberedWalk, node: Node) -> None:
    """Tuples made and taken apart."""
    made = f.copy(node, list(map(f.value, node.inputs)), list(map(f.type, node.outputs)))
    f.values.update(zip(node.outputs, made.outputs, strict=True))


def _cast(f: NumberedWalk, node: Node) -> None:
    given, is_number = f.value(node.inputs[0]), f.holds_numbers(node.output)
    type = f.type(node.output) if is_number else node.output.type
    f.values[node.output] = given if is_number and given.type == type else f.copy(node, [given], [type]).output


def _identity(f: NumberedWalk, node: Node) -> None:
    """`x is None`; whether two objects are one, their numbers do not tell."""
    if any(map(f.holds_numbers, node.inputs)) and not any(value.type == NONE for value in node.inputs):
        raise Unfit
    made = f.copy(node, list(map(f.value, node.inputs)), [node.output.type])
    f.values[node.output] = made.output


def _einsum(f: NumberedWalk, node: Node) -> None:
    equation = argument_of(node.inputs[0])
    if f.holds_numbers(node.output) and (not isinstance(equation, str) or is_view_equation(equation)):
        raise Unfit
    made = f.copy(node, list(map(f.load, node.inputs)))
    f.values[node.output] = f.objects.store(made.output, node.output.type, f.families.of(node.output))


def _call(f: NumberedWalk, node: Node) -> None:
    """A function with a backward of its own."""
    if any(map(f.holds_numbers, node.outputs)):
        raise Unfit
    made = f.copy(node, list(map(f.load, node.inputs)))
    f.values.update(zip(node.outputs, made.outputs, strict=True))


_RULES: dict[str, Callable[[NumberedWalk, Node], None]] = {
    WRITE: _write,
    "prim::Constant": _constant,
    "prim::Uninitialized": _uninitialized,
    "prim::ListConstruct": _list,
    "prim::ListUnpack": _list_unpack,
    "prim::TupleConstruct": _parts,
    "prim::TupleIndex": _parts,
    "prim::TupleUnpack": _parts,
    "prim::unchecked_unwrap_optional": _cast,
    "prim::unchecked_cast": _cast,
    "prim::CallFunction": _call,
    "aten::einsum": _einsum,
    "aten::__is__": _identity,
    "aten::__isnot__": _identity,
}
