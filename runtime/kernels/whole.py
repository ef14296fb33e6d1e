"""A graph run op by op on torch tensors, control flow and all: for what cannot be planned before it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ...compiler.ir.constants import TensorConstant
from ...compiler.ir.graph import Graph
from ...compiler.ir.node import Block, Node, Value
from ...compiler.ops.families.control import is_defined
from ...compiler.ops.registry import OPS
from ...compiler.types.dtypes import BY_CODE
from ...lang.trampoline import Walk, run
from ..failures.failed_node import failure_at
from ..values.torch_dtypes import torch_dtypes
from .torch_ops import constant_tensor, op_runner

_OF_THE_DEVICE = (torch.OutOfMemoryError, torch.AcceleratorError)
"""Errors that are none of the data's: programs catch them by these types."""


def run_graph(graph: Graph, values: Sequence[Any], device: torch.device) -> list[Any]:
    """The outputs of a graph whose calls are inlined, for one value per input.

    RuntimeFailure for what is wrong with the data; what is wrong with the device is torch's error.
    """
    interpreter = _Interpreter(graph.title, device)
    interpreter.values.update(zip(graph.inputs, values, strict=True))
    results: list[Any] = run(interpreter.block(graph.body))
    return results


class _Interpreter:
    def __init__(self, name: str, device: torch.device) -> None:
        self.name = name
        self.device = device
        self.values: dict[Value, Any] = {}

    def block(self, block: Block) -> Walk:
        for node in block.nodes:
            inputs = [self.values[value] for value in node.inputs]
            control = _CONTROL.get(node.kind)
            results = (yield control(self, node, inputs)) if control is not None else self._checked(node, inputs)
            self.values.update(zip(node.outputs, results, strict=True))
        return [self.values[value] for value in block.outputs]

    def _checked(self, node: Node, inputs: list[Any]) -> Sequence[Any]:
        try:
            return self._simple(node, inputs)
        except _OF_THE_DEVICE:
            raise
        except Exception as error:
            raise failure_at(node, inputs, error, self.name, ()) from error

    def _simple(self, node: Node, inputs: list[Any]) -> Sequence[Any]:
        structural = _STRUCTURAL.get(node.kind)
        if structural is not None:
            return structural(self, node, inputs)
        op = OPS.of(node.schema)
        if op is None:
            raise NotImplementedError(f"{node.kind} does not run on {self.device.type}")
        result = op_runner(op, self.device)(inputs)
        return [result] if len(node.outputs) == 1 else list(result or ())

    def branch(self, node: Node, inputs: list[Any]) -> Walk:
        return (yield self.block(node.blocks[0 if inputs[0] else 1]))

    def loop(self, node: Node, inputs: list[Any]) -> Walk:
        (body,) = node.blocks
        trips, condition, *carried = inputs
        turn = 0
        while turn < trips and condition:
            self.values.update(zip(body.inputs, [turn, *carried], strict=True))
            condition, *carried = yield self.block(body)
            turn += 1
        return carried

    def gradient(self, node: Node, inputs: list[Any]) -> Walk:
        """Nothing comes of gradients that are all undefined."""
        if not any(map(is_defined, inputs)):
            return [None] * len(node.outputs)
        return (yield self.block(node.blocks[0]))

    def unpack_list(self, node: Node, inputs: list[Any]) -> Sequence[Any]:
        """An undefined gradient has undefined elements."""
        (values,) = inputs
        if values is not None and len(values) != len(node.outputs):
            raise ValueError(f"{len(node.outputs)} values are needed to unpack, and the list has {len(values)}")
        return [None] * len(node.outputs) if values is None else list(values)

    def constant(self, node: Node, inputs: list[Any]) -> Sequence[Any]:
        value = node.attr("value")
        return [constant_tensor(value.array, self.device) if isinstance(value, TensorConstant) else value]

    def add(self, node: Node, inputs: list[Any]) -> Sequence[Any]:
        left, right = inputs
        if left is None or right is None:
            return [right if left is None else left]
        if isinstance(left, list):
            return [[self.add(node, [a, b])[0] for a, b in zip(left, right, strict=True)]]
        return [left + right]

    def materialize(self, node: Node, inputs: list[Any]) -> Sequence[Any]:
        gradient, size, dtype = inputs
        if gradient is not None:
            return [gradient]
        return [torch.zeros(size, dtype=torch_dtypes()[BY_CODE[dtype]], device=self.device)]


_CONTROL: dict[str, Callable[[_Interpreter, Node, list[Any]], Walk]] = {
    "prim::If": _Interpreter.branch,
    "prim::Loop": _Interpreter.loop,
    "prim::GradOf": _Interpreter.gradient,
}
_STRUCTURAL: dict[str, Callable[[_Interpreter, Node, list[Any]], Sequence[Any]]] = {
    "prim::Constant": _Interpreter.constant,
    "prim::Uninitialized": lambda self, node, inputs: [None],
    "prim::AutogradZero": lambda self, node, inputs: [None],
    "prim::TupleConstruct": lambda self, node, inputs: [tuple(inputs)],
    "prim::TupleUnpack": lambda self, node, inputs: list(inputs[0]),
    "prim::TupleIndex": lambda self, node, inputs: [inputs[0][node.attr("index")]],
    "prim::ListConstruct": lambda self, node, inputs: [list(inputs)],
    "prim::ListUnpack": _Interpreter.unpack_list,
    "prim::AutogradAdd": _Interpreter.add,
    "prim::MaterializeGrad": _Interpreter.materialize,
    "prim::unchecked_unwrap_optional": lambda self, node, inputs: inputs,
    "prim::unchecked_cast": lambda self, node, inputs: inputs,
}


def is_walked(kind: str) -> bool:
    """Whether nodes of a kind are what the walk itself evaluates."""
    return kind in _CONTROL or kind in _STRUCTURAL
