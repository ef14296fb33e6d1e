"""The backward half: `df`, built against the forward's values and then cut apart from it.

What df uses of the forward becomes its captures: inputs of the function, and temporaries, which the forward gives too.
Of a tensor that is captured for its size alone, it gives the size.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..analysis.definedness import is_sure, is_unsure_input, may_be_uninitialized
from ..ir.builder import Builder
from ..ir.graph import Graph, backward_of
from ..ir.node import Node, Value, copy_node
from ..ops.registry import OPS, Trait
from ..passes.gradients.specialize_autograd_zero import specialize_autograd_zero
from ..passes.simplification.eliminate_dead_code import eliminate_dead_code
from ..pipeline import run_recipe
from ..types.types import TensorType, is_tensor
from .aggregation import copy_repeated
from .forward import Forward
from .gradient import Gradient
from .reverse import Reverse, gradient_type, known_floating
from .rules.branches import is_unsure_tensor, sure_type

_SIZED = ("aten::sum_to_size", "aten::_grad_sum_to_size", "aten::expand", "aten::new_zeros")
"""Ops that bring a tensor to a size."""
_ASKING = frozenset(("prim::AutogradZero", "prim::GradOf", "prim::If", "prim::Loop"))
"""What may give no gradient, or asks whether one is there."""
_SHAPED = ("prim::grad_list", "prim::grad_zeros")
"""Ops that ask their last operand, a list of tensors, for shapes and dtypes."""


class Backward:
    """Builds `df` against the forward's values, then cuts the two apart."""

    def __init__(self, forward: Forward, wanted: Sequence[int], temporaries: bool, is_asked: bool = False) -> None:
        self.forward = forward
        self.temporaries = temporaries
        self.is_asked = is_asked
        self.wanted = wanted
        # A value that is returned twice takes two gradients, one per output.
        self.seeded = [i for i, v in enumerate(forward.graph.outputs) if v in forward.active]
        self.seeds = [forward.graph.outputs[i] for i in self.seeded]

    def build(self) -> Gradient:
        """Build until no further temporary is captured: each captured one takes a gradient itself."""
        while True:
            df = self._reverse()
            captured = self._captured(df)
            more = [v for v in captured if v in self.forward.active and v not in self.seeds and not self._is_input(v)]
            if not more or not self.temporaries:
                return self._cut(df, captured)
            self.seeds += more
            for node in reversed(list(df.nodes)):
                df.body.ret.replace_inputs(())
                node.destroy()

    def _reverse(self) -> Graph:
        f = self.forward.graph
        df = Graph(f"{f.name}_gradient", self.forward.functions, f.span, backward_of(f.title))
        builder = Builder(df, span=f.span)
        reverse = Reverse(
            df, builder, self.forward.active, self.forward.functions, aggregation=self.forward.aggregation
        )
        values = [*f.inputs, *(value for node in f.nodes for value in node.outputs)]
        reverse.mixes = len({known_floating(value.type) for value in values} - {None}) > 1
        reverse.is_certain = len(self.seeds) == len(self.seeded)
        for value in self.seeds:
            name = f"grad_{value.name_hint}" if value.name_hint else ""
            seed = df.body.add_input(gradient_type(value), name)
            if self.is_asked and len(self.seeds) == 1 and is_tensor(value.type):
                reverse.there.add(seed)
            reverse.add(value, seed)
        reverse.run(self.forward.rules)
        reverse.builder.current_span = f.span
        reverse.settle(f.inputs)
        results = [reverse.gradient_or_zero(f.inputs[i]) for i in self.wanted]
        reverse.builder.returns(*results)
        if self.forward.aggregation.copy is not None:
            copy_repeated(df, self.forward.aggregation.copy)
        # Where all gradients are there, there is none to leave out.
        is_there = bool(reverse.there) and not any(node.kind in _ASKING for node in df.all_nodes())
        without = (specialize_autograd_zero,) if is_there else ()
        run_recipe(df, "after_autodiff", is_part=True, without=without)
        self._hoist_sizes(df)
        self._hoist_shapes(df)
        self._rebuild(df)
        return df

    def _is_input(self, value: Value) -> bool:
        return value.node is self.forward.graph.body.param

    def _captured(self, df: Graph) -> list[Value]:
        """Values of the forward that df uses, constants left out: inputs first, each group in forward order."""
        used = {v for v in _used(df) if v.node.owner is self.forward.graph.body and v.node.kind != "prim::Constant"}
        graph = self.forward.graph
        ordered = [v for v in graph.inputs if v in used]
        ordered += [v for node in graph.nodes for v in node.outputs if v in used]
        return ordered

    def _hoist_sizes(self, df: Graph) -> None:
        """Take sizes of tensors that nothing else captures in the forward, so that the tensors are not kept."""
        f = self.forward.graph
        for node in [n for n in df.all_nodes() if n.kind == "aten::size.int" and self._is_forward(n.inputs[0])]:
            if _is_guarded(node):
                _take_from_whole(df, node)
        shape_nodes = [n for n in df.all_nodes() if _is_shape_query(n) and self._is_forward(n.inputs[0])]
        shape_nodes = [n for n in shape_nodes if not may_be_uninitialized(n.inputs[0])]
        if self.forward.lacks:
            # What is asked for where a gradient is there is not to be asked of one that is not.
            shape_nodes = [n for n in shape_nodes if n.kind == "prim::grad_defined" or is_sure(n.inputs[0])]
        asked = set(shape_nodes)
        kept = {v for v, user in _uses(df) if user not in asked}
        known: dict[tuple[object, ...], list[Value]] = {}
        for node in shape_nodes:
            if node.inputs[0] in kept or not all(v.node.kind == "prim::Constant" for v in node.inputs[1:]):
                continue
            constants = tuple(repr(v.node.attrs["value"]) for v in node.inputs[1:])
            key = (node.kind, node.inputs[0], constants)
            if key not in known:
                # Right behind the tensor, which need not live to the end for this.
                builder = Builder(f, before=node.inputs[0].node.next, span=f.span)
                env: dict[Value, Value] = {}
                for value in node.inputs[1:]:
                    copy_node(value.node, env, builder.insert)
                known[key] = copy_node(node, env, builder.insert).outputs
            for old, new in zip(node.outputs, known[key], strict=True):
                _keep_rank(node.inputs[0], old)
                old.replace_uses_with(new)
            node.destroy()

    def _hoist_shapes(self, df: Graph) -> None:
        """Take the shapes of lists that are captured for zeros in them alone, so that no element is kept."""
        f = self.forward.graph
        if not any(node.kind in _SHAPED for node in df.all_nodes()):
            return
        zeros: dict[Value, list[Node]] = {}
        kept = {*f.outputs}
        for value, user in _uses(df):
            if user.kind in _SHAPED and value is user.inputs[-1] and value not in user.inputs[:-1]:
                zeros.setdefault(value, []).append(user)
            else:
                kept.add(value)
        for value, users in zeros.items():
            made_here = value.node.owner is f.body and not self._is_input(value)
            if not made_here or value in kept or self.forward.lacks or may_be_uninitialized(value):
                continue
            shapes = Builder(f, before=value.node.next, span=f.span).op("prim::grad_shapes", value)
            for node in users:
                node.set_input(len(node.inputs) - 1, shapes)

    def _rebuild(self, df: Graph) -> None:
        """Have df put together the lists that the forward put together, so that what is in them is captured: tensors
        that may be kept already, and constants, which are not. So too what tells that an input may not be there."""
        forward = self.forward.graph.body
        while True:
            used = {v.node for v, _ in _uses(df) if v.node.owner is forward and _is_rebuilt(v)}
            if not used:
                return
            first = df.body.param.next
            assert first is not None
            builder = Builder(df, before=first)
            env: dict[Value, Value] = {}
            # A list that another holds stands before it.
            for node in [node for node in forward.nodes if node in used]:
                copy_node(node, env, builder.insert)
            for node in _users(df):
                for i, value in enumerate(node.inputs):
                    if value in env:
                        node.set_input(i, env[value])

    def _is_forward(self, value: Value) -> bool:
        return value.node.owner is self.forward.graph.body or value.node.kind == "prim::Constant"

    def _cut(self, df: Graph, captured: Sequence[Value]) -> Gradient:
        f = self.forward.graph
        inputs = [v for v in captured if self._is_input(v)]
        temporaries = [v for v in captured if not self._is_input(v)]
        tensors = [v for v in temporaries if v in self.forward.active]
        temporaries = [*tensors, *(v for v in temporaries if v not in self.forward.active)]
        outputs = {v: i for i, v in reversed(list(enumerate(f.outputs)))}
        for value in (*self.seeds, *temporaries):
            if value not in outputs:
                outputs[value] = len(f.outputs)
                f.body.ret.add_input(value)
        self._replace_captures(df, [*inputs, *temporaries])
        eliminate_dead_code(f)
        position = {v: i for i, v in enumerate(f.inputs)}
        real = f.outputs[: self.forward.num_real_outputs]
        return Gradient(
            f,
            df,
            self.forward.num_real_outputs,
            (*self.seeded, *(outputs[v] for v in self.seeds[len(self.seeded) :])),
            tuple(self.wanted),
            tuple(position[v] for v in inputs),
            tuple(outputs[v] for v in temporaries),
            tuple(v in self.forward.active for v in real),
        )

    def _replace_captures(self, df: Graph, captured: Sequence[Value]) -> None:
        """Make the captures inputs of df, which tells of those that may not be there, and repeat the constants that it
        uses."""
        first = df.body.param.next
        assert first is not None
        builder = Builder(df, before=first)
        env = {v: df.body.add_input(sure_type(v), v.name_hint) for v in captured}
        env.update({v: builder.cast(given, v.type) for v, given in env.items() if is_unsure_tensor(v)})
        for value, _ in _uses(df):
            if value not in env and value.node.owner is self.forward.graph.body:
                copy_node(value.node, env, builder.insert)
        for node in _users(df):
            for i, value in enumerate(node.inputs):
                if value in env:
                    node.set_input(i, env[value])


def _users(graph: Graph) -> list[Node]:
    """Every node of a graph, the Return nodes of all blocks included."""
    nodes = list(graph.all_nodes())
    return [*nodes, *(b.ret for n in nodes for b in n.blocks), graph.body.ret]


def _uses(graph: Graph) -> Iterable[tuple[Value, Node]]:
    return [(value, node) for node in _users(graph) for value in node.inputs]


def _used(graph: Graph) -> set[Value]:
    return {value for value, _ in _uses(graph)}


def _is_rebuilt(value: Value) -> bool:
    return value.node.kind == "prim::ListConstruct" or is_unsure_input(value)


def _keep_rank(tensor: Value, size: Value) -> None:
    """Write the rank of a tensor into the types of gradients that are brought to its size."""
    rank = tensor.type.rank if isinstance(tensor.type, TensorType) else None
    for use in size.uses if rank is not None else ():
        for value in use.user.outputs if use.user.kind in _SIZED and use.index == 1 else ():
            if isinstance(value.type, TensorType) and value.type.rank is None:
                value.type = TensorType(value.type.dtype, rank, value.type.requires_grad)


def _is_guarded(node: Node) -> bool:
    """Whether a branch or a loop decides if a node runs."""
    block = node.owner
    while block is not None and block.node is not None:
        if block.node.kind in ("prim::If", "prim::Loop"):
            return True
        block = block.node.owner
    return False


def _take_from_whole(df: Graph, node: Node) -> None:
    """Ask for the whole size, which every tensor has, where a branch may ask for a dimension because it is there."""
    tensor, dim = node.inputs
    builder = Builder(df, before=node, span=node.span)
    node.output.replace_uses_with(builder.op("aten::__getitem__.t", builder.op("aten::size", tensor), dim))
    node.destroy()


def _is_shape_query(node: Node) -> bool:
    is_query = OPS.has(node.schema, Trait.SHAPE_ONLY) and bool(node.inputs)
    return is_query and not any(is_tensor(value.type) for value in node.outputs)
