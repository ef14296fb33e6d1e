"""Gradients that the rounds of a loop add up, on torch's tensors: where the sum lies, and in nobody else's memory."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import torch
from gradscript.compiler.autodiff.differentiable import differentiable_graph
from gradscript.compiler.fusion.fuse import fuse_groups, pair_gradient
from gradscript.compiler.ir.graph import Graph
from gradscript.compiler.kernel_ir.layout import Layout
from gradscript.compiler.ops.meta import Meta
from gradscript.compiler.types.dtypes import FLOAT64
from gradscript.runtime.kernels.device_plan import device_plan, run_graph
from gradscript.runtime.plans.interpreter import run_plan

CPU = torch.device("cpu")
SOURCE = """
def layer(x, gate, down, chunks: int):
    rows = x.size(0) // chunks
    parts = []
    for i in range(chunks):
        piece = x[i * rows : (i + 1) * rows]
        parts.append(torch.tanh(gs.recompute(piece @ gate.t())) @ down.t() + (piece @ gate.t()) @ gate)
    return torch.cat(parts, 0)
"""


def by_ops(graph: Graph) -> Any:
    return lambda values: run_graph(graph, values, CPU)


def test_gradients_of_rounds_are_torchs() -> None:
    generator = torch.Generator().manual_seed(0)
    shapes, chunks = ((6, 3), (5, 3), (3, 5)), 3
    given = [torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True) for shape in shapes]
    known = [*(Layout.contiguous(Meta(shape, FLOAT64)) for shape in shapes), chunks]
    gradient = pair_gradient(differentiable_graph(gs.CompilationUnit(SOURCE).layer.callee), known, [True] * 3 + [False])
    passed: list[Any] = [*(tensor.detach() for tensor in given), chunks]
    outputs = run_graph(gradient.f, passed, CPU)
    seed = torch.randn((6, 3), generator=generator, dtype=torch.float64)
    values = [seed, *(passed[i] for i in gradient.captured_inputs), *(outputs[i] for i in gradient.captured_outputs)]
    before = [value.clone() if isinstance(value, torch.Tensor) else value for value in values]
    parts = fuse_groups(gradient.df, [_known(value) for value in values])
    assert parts is not None
    kinds = [node.kind for node in parts.graph.all_nodes()]
    assert kinds.count("prim::grad_add_product") == 3 and kinds.count("prim::grad_add_slice") == 1
    found = run_plan(device_plan(parts.graph, CPU, by_ops), values)
    x, gate, down = given
    y = torch.tanh(x @ gate.t()) @ down.t() + (x @ gate.t()) @ gate
    for ours, theirs in zip(found, torch.autograd.grad(y, given, seed), strict=True):
        torch.testing.assert_close(ours, theirs)
    for value, was in zip(values, before, strict=True):
        assert not isinstance(value, torch.Tensor) or torch.equal(value, was)


def _known(value: Any) -> Any:
    if isinstance(value, list):
        return [_known(item) for item in value]
    return Layout.contiguous(Meta(tuple(value.shape), FLOAT64)) if isinstance(value, torch.Tensor) else value
