"""Rebuild a gradient so that the backward keeps given values only and computes the others again.

    df(g, h, y):                            df(g, h):
      use of y, where y = relu(h)    ─▶       y_mirror = aten::relu[stage="mirror"](h)
                                              use of y_mirror

A mirrored node stands right before the first use of what it gives. Its values are named after those of the forward,
with `_mirror` behind; it has the attribute `stage`, by which it is never taken for the node of the forward where both
halves stand in one graph.
"""

from __future__ import annotations

from collections.abc import Set

from ..autodiff.gradient import Gradient
from ..ir.graph import Graph
from ..ir.node import Node, Value, copy_block, copy_node, walk
from ..ir.structure import STAGE
from ..types.types import is_tensor, strip_optional
from .plain import with_captures
from .problem import Problem, short_op_name

MIRROR = "mirror"
SUFFIX = "_mirror"


def rebuild(problem: Problem, saved: Set[Value]) -> tuple[Gradient, dict[Value, Value]]:
    """The gradient that keeps `saved`, from which all that df uses must follow; and where f's values are in its f."""
    plain = problem.plain
    mirrored = _Mirrored(problem, saved)
    df, sources = mirrored.build()
    f = Graph(plain.f.name, plain.f.functions, plain.f.span, plain.f.title)
    env: dict[Value, Value] = {}
    copy_block(plain.f.body, f.body, env)
    made = with_captures(plain, f, df, {inner: env[outer] for inner, outer in sources.items()})
    return made, env


class _Mirrored:
    """Copies df, with mirrored nodes before their first use. `_at` says where a value of f is in the copy."""

    def __init__(self, problem: Problem, saved: Set[Value]) -> None:
        self._problem = problem
        self._saved = saved
        self._df = Graph(
            problem.plain.df.name, problem.plain.df.functions, problem.plain.df.span, problem.plain.df.title
        )
        self._at: dict[Value, Value] = {}
        self._sources: dict[Value, Value] = {}
        self._order = {node: i for i, node in enumerate(problem.nodes)}

    def build(self) -> tuple[Graph, dict[Value, Value]]:
        plain = self._problem.plain
        count = len(plain.input_vjps)
        env: dict[Value, Value] = {}
        for value in plain.df.inputs[:count]:
            env[value] = self._df.body.add_input(value.type, value.name_hint)
        captured = [plain.f.inputs[i] for i in plain.captured_inputs] + self._problem.wanted
        stands_for = dict(zip(plain.df.inputs[count:], captured, strict=True))
        for node in [*plain.df.nodes, plain.df.body.ret]:
            for value in _used(node):
                if value in stands_for and value not in env:
                    env[value] = self._value(stands_for[value])
            if node is not plain.df.body.ret:
                copy_node(node, env, self._df.body.append)
        self._df.body.ret.replace_inputs([env[value] for value in plain.df.outputs])
        return self._df, self._sources

    def _value(self, wanted: Value) -> Value:
        """A value of f in the copy: taken as an input, or computed again with all that it needs."""
        needed: set[Node] = set()
        stack = [wanted]
        while stack:
            value = stack.pop()
            if value in self._at or value.node in needed:
                continue
            if self._problem.is_input(value) or value in self._saved:
                self._take(value)
                continue
            needed.add(value.node)
            stack += self._problem.sources(value.node)
            stack += [v for v in _used(value.node) if v.node.kind == "prim::Constant" and v.node in self._order]
        for node in sorted(needed, key=self._order.__getitem__):
            self._repeat(node)
        return self._at[wanted]

    def _take(self, value: Value) -> None:
        taken = self._df.body.add_input(value.type, value.name_hint)
        self._at[value] = taken
        self._sources[taken] = value

    def _repeat(self, node: Node) -> None:
        kept = {value: self._at[value] for value in node.outputs if value in self._at}
        copied = copy_node(node, self._at, self._df.body.append)
        # What is kept is not computed again, though another result of its node is.
        self._at.update(kept)
        if node.kind != "prim::Constant":
            _mark(node, copied)


def _mark(node: Node, copied: Node) -> None:
    for inner in walk([copied]):
        if inner.schema is not None or inner.blocks:
            inner.attrs[STAGE] = MIRROR
    for original, value in zip(node.outputs, copied.outputs, strict=True):
        if is_tensor(strip_optional(value.type)) or value.name_hint:
            value.name_hint = f"{original.name_hint or short_op_name(node)}{SUFFIX}"


def _used(node: Node) -> list[Value]:
    """Every value that a node, or a node or block inside it, uses."""
    inner = list(walk([node]))
    rets = [block.ret for n in inner for block in n.blocks]
    return [value for user in (*inner, *rets) for value in user.inputs]
