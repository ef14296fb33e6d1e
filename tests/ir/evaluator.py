"""The meaning of IR in a page: slow, recursive, and independent of the runtime. An undefined gradient is UNDEFINED."""

from __future__ import annotations

from typing import Any

import numpy as np
from gradscript.compiler.ir.graph import Graph
from gradscript.compiler.ir.node import Block, Node, Value
from gradscript.compiler.ops.registry import OPS
from gradscript.compiler.types.dtypes import BY_CODE


class _Undefined:
    def __repr__(self) -> str:
        return "UNDEFINED"


UNDEFINED = _Undefined()
Env = dict[Value, Any]


def evaluate(graph: Graph, arguments: list[Any]) -> list[Any]:
    env: Env = dict(zip(graph.inputs, arguments, strict=True))
    return _run(graph, graph.body, env)


def same(left: Any, right: Any) -> bool:
    """Equal to the last bit, dtype and undefinedness included."""
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, np.ndarray):
        return (
            isinstance(right, np.ndarray) and left.dtype == right.dtype and np.array_equal(left, right, equal_nan=True)
        )
    return type(left) is type(right) and (left == right or left != left)


def _run(graph: Graph, block: Block, env: Env) -> list[Any]:
    for node in block.nodes:
        results = _results(graph, node, [env.get(value) for value in node.inputs], env)
        env.update(zip(node.outputs, results, strict=True))
    return [env[value] for value in block.outputs]


def _results(graph: Graph, node: Node, inputs: list[Any], env: Env) -> list[Any]:
    op = OPS.of(node.schema)
    if node.kind == "prim::grad_defined":
        return [inputs[0] is not UNDEFINED]
    if op is not None:
        result = op.evaluate(*inputs)
        return list(result) if len(node.outputs) != 1 else [result]
    match node.kind.removeprefix("prim::"):
        case "Constant":
            return [node.attr("value")]
        case "Function":
            return ["a closure"]
        case "Uninitialized":
            return ["uninitialized"]
        case "TupleConstruct" | "ListConstruct":
            return [list(inputs)]
        case "TupleUnpack" | "ListUnpack":
            return list(inputs[0])
        case "TupleIndex":
            return [inputs[0][node.attr("index")]]
        case "unchecked_unwrap_optional" | "unchecked_cast":
            return inputs
        case "If":
            return _run(graph, node.blocks[0 if inputs[0] else 1], env)
        case "Loop":
            return _loop(graph, node, inputs, env)
        case "CallFunction":
            callee = graph.functions[node.attr("callee")].graph
            return evaluate(callee, inputs)[: len(node.outputs)]
        case _:
            return _gradient(graph, node, inputs, env)


def _loop(graph: Graph, node: Node, inputs: list[Any], env: Env) -> list[Any]:
    trips, condition, *carried = inputs
    (block,) = node.blocks
    for i in range(trips):
        if not condition:
            break
        env.update(zip(block.inputs, [i, *carried], strict=True))
        condition, *carried = _run(graph, block, env)
    return carried


def _gradient(graph: Graph, node: Node, inputs: list[Any], env: Env) -> list[Any]:
    match node.kind:
        case "prim::AutogradZero":
            return [UNDEFINED]
        case "prim::AutogradAdd":
            defined = [value for value in inputs if value is not UNDEFINED]
            return [sum(defined[1:], defined[0]) if defined else UNDEFINED]
        case "prim::MaterializeGrad":
            grad, size, dtype = inputs
            return [np.zeros(size, BY_CODE[dtype].name) if grad is UNDEFINED else grad]
        case "prim::GradOf":
            if all(value is UNDEFINED for value in inputs):
                return [UNDEFINED] * len(node.outputs)
            return _run(graph, node.blocks[0], env)
    raise AssertionError(node.kind)
