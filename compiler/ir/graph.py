"""Graphs, and the functions that they call: plain data, and its text.

Graph ─ body: Block
      ─ functions: Callee … ─ graph: Graph
                            ─ pair: GradPair ─ forward: Graph, backward: Graph
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from ...lang.light_dataclasses import dataclass
from ...lang.source import NO_SPAN, Span
from ..types.schema import Argument, FunctionSchema
from ..types.types import CLOSURE, Type
from .node import Block, Node, Value, copy_block, copy_node, walk_block
from .printer import graph_text


class Graph:
    """A named body, and the functions that its prim::CallFunction nodes name.

    `title` is what messages call it: the user's function that it serves, and what of that it is. `backward_of` makes
    that of a backward. `arguments` are the inputs as a caller passes them, with defaults; () where that is not told.
    """

    __slots__ = ("__weakref__", "arguments", "body", "functions", "name", "span", "title")

    def __init__(
        self, name: str, functions: Mapping[str, Callee] | None = None, span: Span = NO_SPAN, title: str = ""
    ) -> None:
        self.name = name
        self.title = title or name
        self.arguments: tuple[Argument, ...] = ()
        self.body = Block()
        self.functions: Mapping[str, Callee] = functions if functions is not None else {}
        self.span = span

    @property
    def inputs(self) -> list[Value]:
        return self.body.inputs

    @property
    def outputs(self) -> list[Value]:
        return self.body.outputs

    @property
    def nodes(self) -> Iterator[Node]:
        return self.body.nodes

    @property
    def returns_closure(self) -> bool:
        return bool(self.outputs) and self.outputs[-1].type == CLOSURE

    def called(self, node: Node) -> Callee | None:
        """The function that a node of the graph calls; None where it calls none, or one that is not there."""
        return self.functions.get(node.attr("callee")) if node.kind == "prim::CallFunction" else None

    def all_nodes(self) -> Iterator[Node]:
        """Every node, those inside blocks included, each before the nodes inside it."""
        return walk_block(self.body)

    def copy(self, name: str | None = None) -> Graph:
        """A graph of its own with the same content."""
        graph = Graph(name or self.name, self.functions, self.span, self.title)
        copy_block(self.body, graph.body, {})
        return graph

    def without_closure(self) -> Graph:
        """A copy of the graph that returns its outputs only; the graph itself if it has no closure."""
        if not self.returns_closure:
            return self
        env: dict[Value, Value] = {}
        plain = copy_without_closures(self, env)
        plain.body.ret.replace_inputs([env.get(v, v) for v in self.outputs[:-1]])
        return plain

    def plain_copy(self) -> Graph:
        """A graph of its own that returns the outputs only."""
        return self.without_closure() if self.returns_closure else self.copy()

    def text(self, *, with_spans: bool = False, alone: bool = False) -> str:
        """The graph's text, and behind it, unless it is to stand `alone`, the texts of what it calls.

        With spans, each node that came from source says where: `# mul.grad:3:12`.
        """
        texts = [graph_text(self.name, self.body, self.arguments, with_spans)]
        if not alone:
            called = _called(self).items()
            texts += [graph_text(name, graph.body, graph.arguments, with_spans) for name, graph in called]
        return "\n".join(texts)

    def __str__(self) -> str:
        return self.text()


@dataclass(frozen=True, slots=True)
class Captured:
    """One element of a context tuple."""

    name: str
    type: Type


@dataclass(frozen=True, eq=False, slots=True)
class GradPair:
    """A function and its backward, as two plain graphs.

    `forward` takes the function's inputs and returns its outputs and, last, the context tuple. `backward` takes
    the context and one gradient per output (per differentiable output, where the source leaves the others out:
    `grad_outputs` are the outputs' indices) and returns one gradient per input. `second` is the pair of `backward`
    itself, where the source gives it: its backward returns one gradient per gradient that `backward` takes,
    and, if it returns more, one per input of the function. It may have a `second` in turn, whose backward returns one
    per gradient that it takes, and then one for each of those inputs. `body`, on the pair of a backward that gives the
    former only, is the graph through which the other inputs are differentiated. `draws` are the last of the forward's
    outputs which are random numbers drawn: given them as further inputs, `replay` returns what `forward` returned
    without them.
    """

    schema: FunctionSchema
    forward: Graph
    backward: Graph
    context: tuple[Captured, ...]
    grad_outputs: tuple[int, ...]
    second: GradPair | None = None
    body: Graph | None = None
    draws: int = 0
    replay: Graph | None = None

    @property
    def graphs(self) -> list[Graph]:
        """Forward and backward, those of the pair of its backward, and so on."""
        found: list[Graph] = []
        pair: GradPair | None = self
        while pair is not None:
            found += [pair.forward, pair.backward]
            pair = pair.second
        return found


def backward_of(title: str) -> str:
    """The title of a graph of gradients."""
    return f"the backward of {title}"


class Callee:
    """A function that graphs may call: its schema, its graph, and the pair that differentiates it, if it has one.

    `has_effect` remembers whether it, or what it calls, has a side effect, and `returned` which of its arguments it may
    return; None until somebody looks. `source` is the graph with its writes, where it has any.
    """

    __slots__ = ("graph", "has_effect", "pair", "returned", "schema", "source")

    def __init__(self, schema: FunctionSchema, graph: Graph, pair: GradPair | None = None) -> None:
        self.schema = schema
        self.graph = graph
        self.pair = pair
        if len(schema.arguments) == len(graph.inputs):
            graph.arguments = schema.arguments
        self.has_effect: bool | None = None
        self.returned: Any = None
        self.source: Graph | None = None


def copy_without_closures(graph: Graph, env: dict[Value, Value]) -> Graph:
    """A copy, as yet without results, which leaves closures out; `env` gains the copied values."""
    copied = Graph(graph.name, graph.functions, graph.span, graph.title)
    for value in graph.inputs:
        env[value] = copied.body.add_input(value.type, value.name_hint)
    for node in graph.nodes:
        if node.kind != "prim::Function":
            copy_node(node, env, copied.body.append)
    return copied


def without_backward(callee: Callee) -> Callee:
    """The function as if its author had written no backward."""
    env: dict[Value, Value] = {}
    graph = copy_without_closures(callee.graph, env)
    graph.body.ret.replace_inputs([env[value] for value in callee.graph.outputs if value in env])
    return Callee(callee.schema, graph)


def _called(graph: Graph) -> dict[str, Graph]:
    """The graphs of the functions that a graph calls, and of those that they call, by name, closures in place."""
    found: dict[str, Graph] = {}
    pending = deque([graph])
    while pending:
        current = pending.popleft()
        for node in current.all_nodes():
            name = str(node.attrs.get("callee"))
            callee = current.functions.get(name) if node.kind == "prim::CallFunction" and name not in found else None
            if callee is not None:
                found[name] = with_closure(callee)
                pending.append(found[name])
    return found


def with_closure(callee: Callee) -> Graph:
    """The graph of a function with its backward as a closure.

    A backward that gives gradients of some inputs only, the others being found through the body, has no closure that
    says so: the body alone stands for it, through which all of them are found.
    """
    if callee.pair is None or callee.pair.body is not None or callee.graph.returns_closure:
        return callee.graph
    return _unlifted(callee.pair)


def _unlifted(pair: GradPair) -> Graph:
    """The forward with a closure in its context's place: what lifting undid."""
    backward = pair.backward if pair.second is None else _unlifted(pair.second)
    graph = pair.forward.copy()
    *outputs, context = graph.outputs
    function = Node("prim::Function", None, {"name": pair.backward.name}, backward.span)
    closure = function.add_output(CLOSURE)
    block = graph.body.append(function).add_block()
    packed, *parameters = backward.inputs
    env = {value: block.add_input(value.type, value.name_hint) for value in parameters}
    for node in backward.nodes:
        if packed in node.inputs and node.kind == "prim::TupleUnpack":
            env |= zip(node.outputs, context.node.inputs, strict=True)
        else:
            copy_node(node, env, block.append)
    block.ret.replace_inputs([env.get(value, value) for value in backward.outputs])
    graph.body.ret.replace_inputs([*outputs, closure])
    if not context.use_count:
        context.node.destroy()
    return graph
