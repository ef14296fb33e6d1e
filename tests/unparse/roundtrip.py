"""What every printed text must do: compile, mean the same graphs, and print as itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import unified_diff
from itertools import takewhile
from typing import Any

from gradscript.compiler.emit import emit_unit
from gradscript.compiler.ir.graph import Callee, Graph
from gradscript.compiler.ir.node import Block, Node, Value
from gradscript.compiler.ir.printer import constant_text
from gradscript.compiler.ir.verify import verify
from gradscript.compiler.unparse import unparse_pair, unparse_unit
from gradscript.lang.diagnostics import Diagnostics
from gradscript.lang.parser import parse
from gradscript.lang.source import Source


def compiled(text: str) -> dict[str, Callee]:
    """The unit in a source text; CompileError with all that is wrong."""
    diagnostics = Diagnostics()
    callees = emit_unit(parse(Source(text), diagnostics), diagnostics)
    diagnostics.raise_if_any()
    return callees


def shape_of(graph: Graph) -> str:
    """The graph without names. Where a constant is made and how often does not count, nor who made a list of them.

    Nor does the order in which a block first unwraps what is known to be there: names decide it.
    """
    numbers: dict[Value, str] = {}
    lines: list[str] = []

    def use(value: Value) -> str:
        text = constant_of(value)
        return text if text is not None else numbers[value]

    def define(values: list[Value]) -> str:
        for value in values:
            numbers[value] = f"%{len(numbers)}"
        return ", ".join(f"{numbers[v]} : {v.type}" for v in values)

    def enter(block: Block, depth: int) -> None:
        lines.append(f"{depth} block({define(block.inputs)})")

    def ordered(block: Block) -> list[Node]:
        nodes = [node for node in block.nodes if node.kind not in ("prim::Constant", "prim::Uninitialized")]
        unwrapping = list(takewhile(lambda node: node.kind == "prim::unchecked_unwrap_optional", nodes))
        return [*sorted(unwrapping, key=lambda node: use(node.inputs[0])), *nodes[len(unwrapping) :]]

    stack: list[tuple[int, Node | Block | None, Block | None]] = [(0, graph.body, None)]
    while stack:
        depth, item, ending = stack.pop()
        if ending is not None:
            lines.append(f"{depth} return ({', '.join(map(use, ending.outputs))})")
        elif isinstance(item, Block):
            enter(item, depth)
            stack.append((depth, None, item))
            stack += [(depth + 1, node, None) for node in reversed(ordered(item))]
        elif isinstance(item, Node):
            if len(item.outputs) == 1 and constant_of(item.outputs[0]) is not None:
                continue
            attrs = {k: v for k, v in item.attrs.items() if k != "name"}
            inputs = ", ".join(map(use, item.inputs))
            lines.append(f"{depth} {define(item.outputs)} = {item.kind}{attrs}({inputs})")
            stack += [(depth + 1, block, None) for block in reversed(item.blocks)]
    # What is known about a tensor is no part of an annotation.
    return re.sub(r"Tensor\[[^\[\]]*\]", "Tensor", "\n".join(lines))


def constant_of(value: Value) -> str | None:
    node = value.node
    if node.kind == "prim::Constant":
        return constant_text(node.attrs["value"])
    if node.kind == "prim::Uninitialized":
        return f"uninitialized {value.type}"
    if node.kind == "prim::ListConstruct" and all(constant_of(v) is not None for v in node.inputs):
        return f"[{', '.join(constant_of(v) or '' for v in node.inputs)}]"
    return None


def check_unit(text: str) -> str:
    """Print a unit, compile the print, and compare; then the same with every pair. The printed text."""
    return check_callees(compiled(text))


def check_callees(callees: Mapping[str, Callee]) -> str:
    printed = unparse_unit(callees)
    again = compiled(printed)
    assert_same_text(unparse_unit(again), printed)
    assert again.keys() == callees.keys()
    for name, callee in callees.items():
        check_same(callee, again[name])
        check_pair(callee)
    return printed


def check_same(callee: Callee, again: Callee) -> None:
    verify(again.graph)
    assert_same_text(shape_of(again.graph), shape_of(callee.graph))
    assert signature(again) == signature(callee)
    assert (callee.pair is None) == (again.pair is None)
    if callee.pair is not None and again.pair is not None:
        for mine, other in ((callee.pair.forward, again.pair.forward), (callee.pair.backward, again.pair.backward)):
            verify(other)
            assert_same_text(shape_of(other), shape_of(mine))
        assert [c.type for c in again.pair.context] == [c.type for c in callee.pair.context]


def signature(callee: Callee) -> list[tuple[Any, ...]]:
    return [
        (a.name, a.type, a.keyword_only, a.required, a.required or repr(a.default)) for a in callee.schema.arguments
    ]


def check_pair(callee: Callee) -> None:
    """The pair's print, with the functions that it calls, compiles to itself."""
    pair = callee.pair
    if pair is None:
        return
    text = unparse_pair(pair)
    again = compiled(text)
    assert_same_text(unparse_unit(again), text)
    for graph, name in zip((pair.forward, pair.backward), again, strict=False):
        verify(again[name].graph)
        assert_same_text(shape_of(again[name].graph), shape_of(graph))


def assert_same_text(actual: str, expected: str) -> None:
    if actual != expected:
        lines = unified_diff(expected.splitlines(), actual.splitlines(), "expected", "actual", lineterm="", n=2)
        raise AssertionError("\n".join(lines))
