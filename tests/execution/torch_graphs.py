"""Graphs in our text and in torch's, for tests that ask torch the same question."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from gradscript.compiler.ir.graph import Graph
from gradscript.compiler.parse_ir import parse_ir

_OVERLOAD = re.compile(r"(aten::\w+)\.\w+\(")


def both(body: str) -> tuple[Graph, Any]:
    """The same graph for us and for torch. It is written as ours, on `graph f(…):` and `block():` lines."""
    theirs = _OVERLOAD.sub(r"\1(", body).replace("graph f(", "graph(")
    theirs = theirs.replace("value=False", "value=0").replace("value=True", "value=1").replace("List[int]", "int[]")
    lines = []
    for line in theirs.splitlines():
        stripped = line.strip()
        in_block = stripped.startswith("return") and len(line) - len(stripped) > 2
        lines.append(line.replace("return", "->", 1) if in_block else line)
    return parse_ir(body), torch._C.parse_ir("\n".join(lines))


def count(graph: Any) -> int:
    """The groups of a torch graph, those in blocks included."""
    return str(graph).count(" = prim::DifferentiableGraph")


@contextmanager
def legacy_executor() -> Iterator[None]:
    """torch without its profiling executor: plans by ArgumentSpec."""
    executor = torch._C._jit_set_profiling_executor(False)
    mode = torch._C._jit_set_profiling_mode(False)
    try:
        yield
    finally:
        torch._C._jit_set_profiling_executor(executor)
        torch._C._jit_set_profiling_mode(mode)
