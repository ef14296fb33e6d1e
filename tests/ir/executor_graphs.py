"""Random graphs of what the executor's passes look for: products and their sums, broadcasts undone, counted loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gradscript.compiler.ir.builder import Builder
from gradscript.compiler.ir.graph import Graph
from gradscript.compiler.ir.node import Value
from gradscript.compiler.types.dtypes import FLOAT64
from gradscript.compiler.types.types import BOOL, INT, TENSOR, TensorType

SHAPES = {"a": (3, 3), "b": (3, 3), "v": (3,), "r": (1, 3), "c": (3, 1), "s": (), "m": (2, 3, 3)}


def arguments(seed: int) -> list[Any]:
    """Tensors of the inputs' shapes, an int and a bool."""
    rng = np.random.default_rng(seed)
    return [*(rng.standard_normal(shape) for shape in SHAPES.values()), int(rng.integers(0, 20)), bool(seed % 2)]


def executor_graph(seed: int, size: int = 12, typed: bool = True) -> Graph:
    """A graph that can be evaluated on `arguments(seed)`."""
    return _Generator(seed, typed).make(size)


class _Generator:
    """`_scope` holds the tensors to choose from, with their shapes."""

    def __init__(self, seed: int, typed: bool) -> None:
        self._rng = np.random.default_rng(seed)
        self._graph = Graph("random")
        self._builder = Builder(self._graph)
        self._scope: list[tuple[Value, tuple[int, ...]]] = []
        for name, shape in SHAPES.items():
            type = TensorType(FLOAT64, len(shape), name in "acr") if typed else TENSOR
            self._scope.append((self._graph.body.add_input(type, name), shape))
        self._count = self._graph.body.add_input(INT, "n")
        self._flag = self._graph.body.add_input(BOOL, "flag")

    def make(self, size: int) -> Graph:
        makers: list[Callable[[], None]] = [
            *(self._pointwise, self._pointwise, self._tree, self._siblings, self._affine, self._expand),
            *(self._shrink, self._shrink, self._loop, self._branch, self._twice),
        ]
        for _ in range(size):
            makers[self._rng.integers(len(makers))]()
        self._builder.returns(*(value for value, _ in self._scope[-3:]))
        return self._graph

    # --- choice ---

    def _pick(self, shape: tuple[int, ...] | None = None) -> tuple[Value, tuple[int, ...]]:
        fits = [entry for entry in self._scope if shape is None or entry[1] == shape]
        return fits[self._rng.integers(len(fits))]

    def _matrix(self) -> Value:
        return self._pick((3, 3))[0]

    def _add(self, value: Value, shape: tuple[int, ...]) -> None:
        self._scope.append((value, shape))

    # --- makers ---

    def _pointwise(self) -> None:
        """Bounded, so that nothing overflows."""
        (x, left), (y, right) = self._pick(), self._pick()
        op = self._rng.choice(["aten::mul.Tensor", "aten::add.Tensor", "aten::maximum"])
        made = self._builder.op("aten::tanh", self._builder.op(str(op), x, y))
        self._add(made, np.broadcast_shapes(left, right))

    def _tree(self) -> None:
        terms = [self._builder.op("aten::mm", self._matrix(), self._matrix()) for _ in range(self._rng.integers(2, 7))]
        while len(terms) > 1:
            right = terms.pop(self._rng.integers(len(terms)))
            left = terms.pop(self._rng.integers(len(terms)))
            terms.append(self._builder.op("aten::add.Tensor", left, right))
        self._add(self._builder.op("aten::tanh", terms[0]), (3, 3))

    def _siblings(self) -> None:
        """Products that share a side; not all of the other sides are there before the first."""
        shared, made = self._matrix(), []
        for i in range(self._rng.integers(7, 11)):
            other = self._matrix() if i % 4 else self._builder.op("aten::neg", self._matrix())
            pair = (shared, other) if self._rng.integers(2) or not made else (shared, self._matrix())
            made.append(self._builder.op("aten::mm", *pair))
        for value in made:
            self._add(self._builder.op("aten::tanh", value), (3, 3))

    def _affine(self) -> None:
        beta, alpha = (int(self._rng.choice([1, 1, 2])) for _ in range(2))
        choice = self._rng.integers(3)
        if choice == 0:
            bias = self._pick(((3,), (1, 3), (3, 1), (3, 3))[self._rng.integers(4)])[0]
            made, shape = self._builder.op("aten::addmm", bias, self._matrix(), self._matrix(), beta, alpha), (3, 3)
        elif choice == 1:
            vector = self._pick((3,))[0]
            made, shape = self._builder.op("aten::addmv", vector, self._matrix(), vector, beta, alpha), (3,)
        else:
            batch = self._pick((2, 3, 3))[0]
            made, shape = self._builder.op("aten::baddbmm", batch, batch, batch, beta, alpha), (2, 3, 3)
        self._add(self._builder.op("aten::tanh", made), shape)

    def _expand(self) -> None:
        """What an op broadcasts by itself, expanded for it."""
        x, shape = self._pick()
        larger = [entry for entry in self._scope if np.broadcast_shapes(entry[1], (2, 3, 3)) == (2, 3, 3)]
        y, target = larger[self._rng.integers(len(larger))]
        if np.broadcast_shapes(shape, target) != target:
            return
        made = self._builder.op("aten::expand", x, self._builder.op("aten::size", y), bool(self._rng.integers(2)))
        self._add(self._builder.op("aten::mul.Tensor", made, y), target)

    def _shrink(self) -> None:
        """A sum to the size of an operand, as in the backward of what broadcasts."""
        (x, left), (y, right) = self._pick(), self._pick()
        made = self._builder.op("aten::mul.Tensor", x, y)
        target = (x, y)[self._rng.integers(2)]
        size = self._builder.op("aten::size", target)
        self._add(self._builder.op("aten::sum_to_size", made, size), left if target is x else right)

    def _loop(self) -> None:
        (x, shape), (y, other) = self._pick(), self._pick()
        if np.broadcast_shapes(shape, other) != shape:
            return
        trips = self._count if self._rng.integers(2) else self._builder.constant(int(self._rng.integers(0, 11)))
        always = self._builder.constant(True)
        node = self._builder.node("prim::Loop", [trips, always, x], [TENSOR], blocks=1)
        (block,) = node.blocks
        index, carried = block.add_input(INT, "i"), block.add_input(TENSOR)
        with self._builder.at(block):
            scaled = self._builder.op("aten::mul.Scalar", y, index)
            total = self._builder.op("aten::add.Tensor", carried, scaled)
            self._builder.returns(always, self._builder.op("aten::tanh", total))
        self._add(node.output, shape)

    def _branch(self) -> None:
        x, shape = self._pick()
        asked = self._builder.op("aten::__not__.bool", self._flag) if self._rng.integers(2) else self._flag
        node = self._builder.node("prim::If", [asked], [TENSOR], blocks=2)
        with self._builder.at(node.blocks[0]):
            self._builder.returns(self._builder.op("aten::sigmoid", x))
        node.blocks[1].ret.add_input(x)
        self._add(node.output, shape)

    def _twice(self) -> None:
        """The same twice, and a constant twice."""
        x, shape = self._pick()
        first, second = (self._builder.op("aten::mul.Scalar", x, 0.5) for _ in range(2))
        self._add(self._builder.op("aten::add.Tensor", first, second), shape)
