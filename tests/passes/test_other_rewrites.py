"""The example of each rewrite that is no pass, for what it is told besides the graph or for when it runs."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from typing import Any

import pytest
from gradscript.compiler.autodiff.subgraphs import inline_autodiff_subgraphs
from gradscript.compiler.fusion.decompose import decompose
from gradscript.compiler.fusion.join_slices import join_slices
from gradscript.compiler.ir.graph import Graph
from gradscript.compiler.ir.verify import verify
from gradscript.compiler.ops.meta import Meta
from gradscript.compiler.parse_ir import parse_ir
from gradscript.compiler.passes.simplification.eliminate_dead_code import eliminate_dead_code
from gradscript.compiler.shapes.propagate import propagate_shapes
from gradscript.compiler.spelling.order import drop_unchanged, order_results
from gradscript.compiler.types.dtypes import FLOAT32

SHAPES = ((2, 32), (2, 16), (2, 16))
"""Of the tensors in the example of `join_slices`."""


def _join_slices(graph: Graph) -> None:
    join_slices(graph, propagate_shapes(graph, [Meta(shape, FLOAT32) for shape in SHAPES]))
    eliminate_dead_code(graph)


REWRITES: tuple[tuple[Callable[..., Any], Callable[[Graph], Any]], ...] = (
    *((one, one) for one in (drop_unchanged, order_results, decompose, inline_autodiff_subgraphs)),
    (join_slices, _join_slices),
)


@pytest.mark.parametrize(("told", "rewrite"), REWRITES, ids=lambda one: one.__name__)
def test_example(told: Callable[..., Any], rewrite: Callable[[Graph], Any]) -> None:
    before, after = re.findall(r"^    (?:Before|After):\n((?: {8}.*\n)+)", told.__doc__ or "", re.MULTILINE)
    graph = parse_ir(textwrap.dedent(before))
    rewrite(graph)
    verify(graph)
    assert str(graph).strip() == textwrap.dedent(after).strip() != textwrap.dedent(before).strip()
