"""Random valid graphs that run: every tensor is float64 of shape (2, 3), so that any op fits any operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gradscript.compiler.ir.builder import Builder
from gradscript.compiler.ir.graph import Callee, Graph
from gradscript.compiler.ir.node import Block, Node, Value
from gradscript.compiler.types.dtypes import FLOAT64
from gradscript.compiler.types.schema import parse_schema
from gradscript.compiler.types.types import (
    BOOL,
    CLOSURE,
    FLOAT,
    INT,
    TENSOR,
    OptionalType,
    TensorType,
    TupleType,
    Type,
)
from hypothesis import strategies as st

KNOWN = TensorType(FLOAT64, 2)
SHAPE = (2, 3)
Scope = dict[str, list[Value]]
"""Values in scope by sort: tensor, grad (may be undefined), int, float, bool, ints, optional, tuple, tensors."""


@st.composite
def graphs(draw: st.DrawFn, size: int = 14) -> Graph:
    """A graph with a few inputs of each sort, nested control flow, gradients, tuples and calls."""
    return _Generator(draw, size).graph


def arguments(graph: Graph) -> list[Any]:
    """Inputs that fit, the same each time."""
    samples = iter(np.random.default_rng(0).normal(size=(len(graph.inputs), *SHAPE)))
    plain: dict[Type, Any] = {INT: 2, BOOL: True, FLOAT: 0.5, OptionalType(TENSOR): None}
    return [plain[v.type] if v.type in plain else next(samples) for v in graph.inputs]


def square() -> Callee:
    """A function with a closure, which a call leaves behind."""
    graph = Graph("square")
    x = graph.body.add_input(TENSOR, "x")
    builder = Builder(graph)
    closure = builder.node("prim::Function", (), [CLOSURE], attrs={"name": "backward"}, names=["backward"], blocks=1)
    grad = closure.blocks[0].add_input(TENSOR, "grad_output")
    with builder.at(closure.blocks[0]):
        builder.returns(builder.op("aten::mul.Tensor", grad, x))
    builder.returns(builder.op("aten::mul.Tensor", x, x), closure.output)
    return Callee(parse_schema("square(Tensor x) -> Tensor"), graph)


class _Generator:
    def __init__(self, draw: st.DrawFn, size: int) -> None:
        self._draw = draw
        self.graph = Graph("random", {"square": square()})
        self._builder = Builder(self.graph)
        self._scope: Scope = {}
        for name, type, sort in (
            ("x", TENSOR, "tensor"),
            ("y", KNOWN, "tensor"),
            ("n", INT, "int"),
            ("c", BOOL, "bool"),
            ("s", FLOAT, "float"),
            ("o", OptionalType(TENSOR), "optional"),
        ):
            self._add(sort, self.graph.body.add_input(type, name))
        self._statements(size, depth=0)
        self._builder.returns(*self._results(depth=0))

    # Choice

    def _number(self, low: int, high: int) -> int:
        return self._draw(st.integers(low, high))

    def _pick(self, sort: str) -> Value:
        return self._draw(st.sampled_from(self._scope[sort]))

    def _add(self, sort: str, value: Value) -> None:
        self._scope.setdefault(sort, []).append(value)

    def _name(self) -> str:
        return self._draw(st.sampled_from(["", "", "t", "total", "x"]))

    # Statements

    def _statements(self, count: int, depth: int) -> None:
        makers: list[Callable[[int], None]] = [
            self._tensor_op,
            self._tensor_op,
            self._scalar_op,
            self._constant,
            self._tuple,
            self._list,
            self._gradient,
            self._gradient,
            self._narrowing,
        ]
        if depth < 3:
            makers += [self._if, self._loop, self._grad_of]
        for _ in range(count):
            makers[self._number(0, len(makers) - 1)](depth)

    def _tensor_op(self, _: int) -> None:
        builder, x = self._builder, self._pick("tensor")
        choice = self._number(0, 8)
        if choice <= 2:
            op = ("aten::mul.Tensor", "aten::add.Tensor", "aten::sub.Tensor")[choice]
            value = builder.op(op, x, self._pick("tensor"), name=self._name())
        elif choice == 3:
            value = builder.op("aten::mul.Scalar", x, self._draw(st.sampled_from([1, 1.0, 2, self._pick("float")])))
        elif choice == 4:
            value = builder.op("aten::expand", x, builder.op("aten::size", self._pick("tensor")))
        elif choice == 5:
            value = builder.op("aten::_grad_sum_to_size", x, None)
        elif choice == 6:
            value = builder.op("aten::to.dtype", x, FLOAT64)
        elif choice == 7:
            node = builder.node("prim::CallFunction", [x], [TENSOR], attrs={"callee": "square"})
            value = node.output
        else:
            value = builder.op("aten::neg", x)
        self._add("tensor", value)

    def _scalar_op(self, _: int) -> None:
        builder, n, m = self._builder, self._pick("int"), self._pick("int")
        choice = self._number(0, 7)
        if choice <= 2:
            self._add(
                "int",
                builder.op(
                    ("aten::add.int", "aten::mul.int", "aten::floordiv.int")[choice], n, 1 if choice == 2 else m
                ),
            )
        elif choice <= 4:
            self._add("bool", builder.op(("aten::eq.int", "aten::lt.int")[choice - 3], n, m))
        elif choice == 5:
            self._add("bool", builder.op("aten::__not__.bool", self._pick("bool")))
        elif choice == 6:
            self._add(
                "int", builder.op(self._draw(st.sampled_from(["aten::dim", "prim::dtype"])), self._pick("tensor"))
            )
        else:
            self._add("bool", builder.op("aten::__is__", self._pick("optional"), None))

    def _constant(self, _: int) -> None:
        choice = self._number(0, 3)
        if choice == 0:
            self._add("int", self._builder.constant(self._number(-2, 3), name=self._name()))
        elif choice == 1:
            self._add(
                "float", self._builder.constant(self._draw(st.sampled_from([0.0, -0.0, 1.0, 1e300, float("nan")])))
            )
        elif choice == 2:
            self._add("bool", self._builder.constant(self._draw(st.booleans())))
        else:
            self._add("optional", self._builder.constant(None))

    def _tuple(self, _: int) -> None:
        builder = self._builder
        if "tuple" not in self._scope or self._number(0, 1):
            self._add("tuple", builder.tuple([self._pick("tensor"), self._pick("int")]))
        elif self._number(0, 1):
            tensor, number = builder.unpack(self._pick("tuple"))
            self._add("tensor", tensor)
            self._add("int", number)
        else:
            self._add("tensor", builder.tuple_index(self._pick("tuple"), 0))

    def _list(self, _: int) -> None:
        builder = self._builder
        if "ints" not in self._scope or self._number(0, 1):
            self._add("ints", builder.list([self._pick("int") for _ in range(self._number(1, 3))], INT))
        elif self._number(0, 1):
            self._add("int", builder.op("aten::len.t", self._pick("ints")))
        else:
            self._add("int", builder.op("aten::__getitem__.t", self._pick("ints"), 0))

    def _narrowing(self, _: int) -> None:
        choice = self._number(0, 2)
        if choice == 0:
            self._add("optional", self._builder.cast(self._pick("tensor"), OptionalType(TENSOR)))
        elif choice == 1:
            self._add("tensor", self._builder.cast(self._pick("tensor"), TENSOR))
        else:
            self._add("optional", self._pick("tensor"))

    def _gradient(self, _: int) -> None:
        builder = self._builder
        choice = self._number(0, 3)
        if choice == 0 or "grad" not in self._scope:
            self._add("grad", builder.undefined())
        elif choice == 1:
            self._add("grad", self._pick("tensor"))
        elif choice == 2:
            pair = [self._pick("grad"), self._pick("grad")]
            self._add("grad", builder.node("prim::AutogradAdd", pair, [TENSOR]).output)
        else:
            size, dtype = builder.constant(list(SHAPE)), builder.constant(FLOAT64)
            node = builder.node("prim::MaterializeGrad", [self._pick("grad"), size, dtype], [TENSOR])
            self._add("tensor", node.output)

    # Blocks

    def _inside(self, block: Block, depth: int, finish: Callable[[], list[Value]]) -> None:
        saved, self._scope = self._scope, {sort: list(values) for sort, values in self._scope.items()}
        with self._builder.at(block):
            self._statements(self._number(0, 4), depth + 1)
            self._builder.returns(*finish())
        self._scope = saved

    def _results(self, depth: int) -> list[Value]:
        extra = [self._pick(sort) for sort in ("tuple", "grad", "ints") if sort in self._scope and depth == 0]
        return [self._pick("tensor"), self._pick("int"), *extra]

    def _if(self, depth: int) -> None:
        sorts = self._draw(st.lists(st.sampled_from(["tensor", "int", "optional", "pair"]), max_size=3))
        types = {"tensor": TENSOR, "int": INT, "optional": OptionalType(TENSOR), "pair": TupleType((TENSOR, INT))}
        node = self._builder.node("prim::If", [self._pick("bool")], [types[s] for s in sorts], blocks=2)
        for block in node.blocks:
            self._inside(block, depth, lambda: [self._result(sort) for sort in sorts])
        self._publish(node, sorts)

    def _result(self, sort: str) -> Value:
        if sort == "pair":
            return self._builder.tuple([self._pick("tensor"), self._pick("int")])
        return self._pick(sort)

    def _publish(self, node: Node, sorts: list[str]) -> None:
        for value, sort in zip(node.outputs, sorts, strict=True):
            self._add("tuple" if sort == "pair" else sort, value)

    def _loop(self, depth: int) -> None:
        sorts = self._draw(st.lists(st.sampled_from(["tensor", "int", "pair"]), max_size=3))
        types = [{"tensor": TENSOR, "int": INT, "pair": TupleType((TENSOR, INT))}[s] for s in sorts]
        initial = [self._result(sort) for sort in sorts]
        head = [self._builder.constant(self._number(0, 3)), self._pick("bool")]
        node = self._builder.node("prim::Loop", [*head, *initial], types, blocks=1)
        (block,) = node.blocks
        index = block.add_input(INT, "i")
        params = [block.add_input(type) for type in types]
        saved = {sort: list(values) for sort, values in self._scope.items()}
        self._add("int", index)
        for param, sort in zip(params, sorts, strict=True):
            self._add("tuple" if sort == "pair" else sort, param)
        self._inside(block, depth, lambda: [self._pick("bool"), *(self._result(sort) for sort in sorts)])
        self._scope = saved
        self._publish(node, sorts)

    def _grad_of(self, depth: int) -> None:
        if "grad" not in self._scope:
            return
        grad = self._pick("grad")
        node = self._builder.node("prim::GradOf", [grad], [TENSOR], attrs={"name": "aten::mul.Tensor"}, blocks=1)
        saved = {sort: list(values) for sort, values in self._scope.items()}
        # The block runs only where its gradient is there.
        self._scope["tensor"].append(grad)
        self._inside(node.blocks[0], depth, lambda: [self._pick("tensor")])
        self._scope = saved
        self._add("grad", node.output)
