"""The example of each rewrite that is no pass, for what it is told besides the graph or for when it runs."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gradscript.compiler.analysis.points import Points
from gradscript.compiler.autodiff.aggregation import copy_repeated
from gradscript.compiler.autodiff.flatten import flatten_signature
from gradscript.compiler.autodiff.gradient import Gradient, residuals_of
from gradscript.compiler.autodiff.requires_grad import answer_requires_grad
from gradscript.compiler.autodiff.subgraphs import create_autodiff_subgraphs, inline_autodiff_subgraphs
from gradscript.compiler.fusion.decided import decided_graph
from gradscript.compiler.fusion.decompose import decompose, decompose_for_kernels, open_draws
from gradscript.compiler.fusion.groups import Parts, create_fusion_groups
from gradscript.compiler.fusion.refusals import keep_refusing
from gradscript.compiler.fusion.rewrites.added_products import add_to_products
from gradscript.compiler.fusion.rewrites.exponentials_by_parts import sum_exponentials_by_parts
from gradscript.compiler.fusion.rewrites.factors_of_sums import take_factors_out
from gradscript.compiler.fusion.rewrites.few_largest import find_few_largest
from gradscript.compiler.fusion.rewrites.join_slices import join_slices
from gradscript.compiler.fusion.rewrites.memory_order import lay_in_order
from gradscript.compiler.fusion.rewrites.numbers_first import put_numbers_first
from gradscript.compiler.fusion.rewrites.outer_variances import sum_variances_at_once
from gradscript.compiler.fusion.rewrites.products_together import bring_products_together
from gradscript.compiler.fusion.rewrites.short_products import write_short_products
from gradscript.compiler.fusion.rewrites.stacked_sums import spread_over_stacked_sums
from gradscript.compiler.fusion.rewrites.streams import take_streams_apart
from gradscript.compiler.fusion.rewrites.sums_of_deviations import drop_sums_of_deviations
from gradscript.compiler.fusion.rewrites.sums_of_parts import sum_parts
from gradscript.compiler.fusion.rewrites.thin_products import thin_products
from gradscript.compiler.fusion.rewrites.turn_back import turn_back
from gradscript.compiler.fusion.rewrites.weighed_deviations import sum_deviations_at_once
from gradscript.compiler.fusion.slices_by_size import place_by_size
from gradscript.compiler.fusion.statistics import with_wide_statistics
from gradscript.compiler.ir.graph import Graph
from gradscript.compiler.ir.verify import verify
from gradscript.compiler.ops.meta import UNKNOWN, Meta
from gradscript.compiler.parse_ir import parse_ir
from gradscript.compiler.passes.simplification.eliminate_dead_code import eliminate_dead_code
from gradscript.compiler.recompute.plain import with_captures
from gradscript.compiler.recompute.problem import all_defined
from gradscript.compiler.shapes.propagate import propagate_shapes
from gradscript.compiler.specialize.assume import assume, assume_inputs
from gradscript.compiler.specialize.close import close_sizes, take_open_sizes
from gradscript.compiler.specialize.optionals import specialize_optionals
from gradscript.compiler.specialize.settle import settle_rounds, settle_shapes
from gradscript.compiler.specialize.straighten import straighten
from gradscript.compiler.spelling.order import drop_unchanged, order_results
from gradscript.compiler.types.dtypes import BFLOAT16, FLOAT32
from gradscript.compiler.types.open_sizes import Symbols
from gradscript.compiler.types.types import TENSOR, UNDEFINED
from gradscript.compiler.unparse.standalone import in_source_terms, with_ops
from gradscript.runtime.execution.gradients import settle_for_shapes, specialized
from gradscript.runtime.execution.uniform import Leaders, tie_to_one_shape

ROOT = Path(__file__).parents[2]


def _float(*shape: int) -> Meta:
    return Meta(shape, FLOAT32)


SHAPES = tuple(_float(*shape) for shape in ((2, 32), (2, 16), (2, 16)))
"""Of the tensors in the example of `join_slices`."""


def _join_slices(graph: Graph) -> None:
    join_slices(graph, propagate_shapes(graph, SHAPES))
    eliminate_dead_code(graph)


def _sum_parts(graph: Graph) -> None:
    assert sum_parts(graph, propagate_shapes(graph, [_float(3, 2), _float(3, 2)]))
    eliminate_dead_code(graph)


def _turn_back(graph: Graph) -> None:
    assert turn_back(graph, propagate_shapes(graph, [_float(2, 3)]), 1)


def _thin_products(graph: Graph) -> None:
    metas = [_float(3, 2, 4), _float(4), _float(3, 1), _float(1, 5)]
    assert thin_products(graph, propagate_shapes(graph, metas), lambda primitive, dtype: True)


def _sum_variances_at_once(graph: Graph) -> None:
    assert sum_variances_at_once(graph, propagate_shapes(graph, [_float(40_000, 3)]), lambda primitive, dtype: True)
    eliminate_dead_code(graph)


def _sum_deviations_at_once(graph: Graph) -> None:
    known = propagate_shapes(graph, [_float(40_000, 3), _float(40_000, 3)])
    assert sum_deviations_at_once(graph, known, lambda primitive, dtype: True)
    eliminate_dead_code(graph)


def _take_factors_out(graph: Graph) -> None:
    assert take_factors_out(graph, propagate_shapes(graph, [_float(40_000, 3), _float(40_000, 3)]))
    eliminate_dead_code(graph)


def _sum_exponentials_by_parts(graph: Graph) -> None:
    known = propagate_shapes(graph, [_float(40_000, 3)])
    assert sum_exponentials_by_parts(graph, known, lambda primitive, dtype: True, 1024)
    eliminate_dead_code(graph)


def _write_short_products(graph: Graph) -> None:
    assert write_short_products(graph, propagate_shapes(graph, [_float(64, 4, 4), _float(64, 4, 32)]))


def _take_streams_apart(graph: Graph) -> None:
    known = propagate_shapes(graph, [_float(64, 2, 32), _float(64, 2, 32)])
    assert take_streams_apart(graph, known, lambda primitive, dtype: True)
    eliminate_dead_code(graph)


def _find_few_largest(graph: Graph) -> None:
    assert find_few_largest(graph, propagate_shapes(graph, [_float(3, 5)]))
    eliminate_dead_code(graph)


def _spread_over_stacked_sums(graph: Graph) -> None:
    assert spread_over_stacked_sums(graph, propagate_shapes(graph, [_float(3, 5), _float(3, 5), _float(3, 1)]))
    eliminate_dead_code(graph)


def _add_to_products(graph: Graph) -> None:
    known = dict(propagate_shapes(graph, [_float(3, 5), _float(3, 4), _float(4, 5)]))
    assert add_to_products(graph, known, lambda primitive, dtype: True)
    assert known[graph.outputs[0]] == _float(3, 5)
    eliminate_dead_code(graph)


def _grouped(graph: Graph) -> Graph:
    parts = create_fusion_groups(graph, settle_shapes(graph, [_float(4), _float()]))
    assert isinstance(parts, Parts)
    return parts.graph


def _opened(graph: Graph) -> None:
    assert open_draws(graph)


def _decided(graph: Graph) -> Graph:
    """On the way of a tensor with a positive element."""
    decided = decided_graph(graph, [_float(1)], lambda telling: True)
    assert decided is not None
    return decided.graph


def _bring_products_together(graph: Graph) -> None:
    known = propagate_shapes(graph, [_float(4, 4), _float(4, 4)])
    assert bring_products_together(graph, known, lambda primitive, dtype: True)


def _open(graph: Graph) -> Graph:
    """Settled for as many rows as are not known."""
    shape = (*Symbols([2]).sizes, 3)
    settle_shapes(graph, [_float(*shape), _float(*shape)])
    return graph


REWRITES: tuple[tuple[Callable[..., Any], Callable[[Graph], Any]], ...] = (
    *(
        (one, one)
        for one in (drop_unchanged, order_results, decompose, decompose_for_kernels, inline_autodiff_subgraphs)
    ),
    *((one, one) for one in (flatten_signature, all_defined, keep_refusing, with_ops, in_source_terms)),
    (open_draws, _opened),
    (decided_graph, _decided),
    (join_slices, _join_slices),
    (sum_parts, _sum_parts),
    (thin_products, _thin_products),
    (add_to_products, _add_to_products),
    (sum_variances_at_once, _sum_variances_at_once),
    (sum_deviations_at_once, _sum_deviations_at_once),
    (take_factors_out, _take_factors_out),
    (sum_exponentials_by_parts, _sum_exponentials_by_parts),
    (write_short_products, _write_short_products),
    (take_streams_apart, _take_streams_apart),
    (find_few_largest, _find_few_largest),
    (spread_over_stacked_sums, _spread_over_stacked_sums),
    (place_by_size, place_by_size),
    (put_numbers_first, put_numbers_first),
    (bring_products_together, _bring_products_together),
    (turn_back, _turn_back),
    (lay_in_order, lambda graph: lay_in_order(graph, {0: (1, 0)})),
    (create_fusion_groups, _grouped),
    (create_autodiff_subgraphs, lambda graph: create_autodiff_subgraphs(graph, 1)),
    (assume_inputs, lambda graph: assume_inputs(graph, [None, 2])),
    (assume, lambda graph: assume(graph, Points(graph), [UNKNOWN, UNKNOWN], {0: _float(4)})),
    (straighten, lambda graph: straighten(graph, [_float(3), 2])),
    (settle_shapes, lambda graph: settle_shapes(graph, [_float(2, 3)])),
    (settle_rounds, lambda graph: settle_rounds(graph, [_float(2, 3)])),
    (specialize_optionals, lambda graph: specialize_optionals(graph, ())),
    (close_sizes, lambda graph: close_sizes(_open(graph), [5])),
    (take_open_sizes, lambda graph: take_open_sizes(_open(graph))[0]),
    (tie_to_one_shape, lambda graph: tie_to_one_shape(graph, Leaders(shaped=0, scalar=-1))),
    (specialized, lambda graph: specialized(graph, [TENSOR, UNDEFINED])),
    (settle_for_shapes, lambda graph: settle_for_shapes(graph, [_float(2, 3), _float(3)])),
    (answer_requires_grad, lambda graph: answer_requires_grad(graph, {graph.inputs[0]: True})),
    (copy_repeated, lambda graph: copy_repeated(graph, "aten::clone")),
)


def _example(told: Callable[..., Any]) -> tuple[str, str]:
    before, after = re.findall(r"^    (?:Before|After)[^\n]*:\n((?: {8}.*\n)+)", told.__doc__ or "", re.MULTILINE)
    assert before != after
    return textwrap.dedent(before), textwrap.dedent(after)


@pytest.mark.parametrize(("told", "rewrite"), REWRITES, ids=lambda one: one.__name__)
def test_example(told: Callable[..., Any], rewrite: Callable[[Graph], Any]) -> None:
    before, after = _example(told)
    graph = parse_ir(before)
    made = rewrite(graph)
    graph = made if isinstance(made, Graph) else graph
    verify(graph)
    assert str(graph).strip() == after.strip()


def test_example_of_both_halves() -> None:
    """One that changes what a forward hands to its backward."""
    before, after = _example(with_wide_statistics)
    f, df = (parse_ir(f"graph{text}") for text in before.split("graph")[1:])
    gradient = Gradient(f, df, 2, (0,), (0,), (), (1,), (True, True))
    made = with_wide_statistics(gradient, [Meta((2, 8), BFLOAT16)])
    assert made.captured_outputs == (2,)
    assert f"{made.f}{made.df}".replace("\n\n", "\n") == after


def test_example_of_a_backward_and_what_its_forward_knows() -> None:
    before, after = _example(drop_sums_of_deviations)
    f, df = (parse_ir(f"graph{text}") for text in before.split("graph")[1:])
    gradient = Gradient(f, df, 1, (0,), (0,), (), (1,), (True,))
    rows, columns = _float(4, 3), _float(3)
    assert drop_sums_of_deviations(gradient, propagate_shapes(f, [rows]), propagate_shapes(df, [columns, rows]))
    eliminate_dead_code(df)
    assert str(df) == after


def test_example_of_captures() -> None:
    """What `df` takes is an input of f, an output that f needs not give, a temporary, a constant and a list."""
    before, after = _example(with_captures)
    f, df = (parse_ir(f"graph{text}") for text in before.split("graph")[1:])
    gradient = Gradient(f, df, 1, (0,), (0,), (), (1, 2, 3, 4), (True,))
    sources = dict(zip(df.inputs[1:], residuals_of(gradient, f.inputs, f.outputs), strict=True))
    made = with_captures(gradient, f, df, sources)
    assert made.captured_inputs == (1, 2) and made.captured_outputs == (1,)
    assert f"{made.f}{made.df}".replace("\n\n", "\n") == after


CHANGES = {"replace_uses_with", "destroy", "unlink", "set_input", "splice"} | {
    *("replace_node", "replace_value", "replace_by_constant")
}
BUILDERS = ("compiler/emit", "compiler/lift.py", "compiler/functionalize", "compiler/autodiff", "compiler/ir")
"""What makes graphs: what it changes is its own, and not whole yet."""


def _called(tree: ast.Module) -> set[str]:
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return {call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", "") for call in calls}


def _shown(tree: ast.Module) -> set[str]:
    """The functions of a file whose docstring has a before and an after."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return {one.name for one in functions if re.search(r"^Before.*:$", ast.get_docstring(one) or "", re.MULTILINE)}


def test_what_changes_graphs_says_how() -> None:
    """A file that does is a pass, makes graphs, or has a rewrite with a before and an after, which is run."""
    shown: dict[str, set[str]] = {}
    for path in (path for room in ("compiler", "runtime", "authoring") for path in (ROOT / room).rglob("*.py")):
        name, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        is_of_graphs = "compiler.ir." in text or name.startswith("compiler/")
        if is_of_graphs and ("Before" in text or any(f"{word}(" in text for word in CHANGES)):
            tree = ast.parse(text)
            if _called(tree) & CHANGES or _shown(tree):
                shown[name] = _shown(tree)
    silent = {name for name, functions in shown.items() if not functions}
    assert {name for name in silent if not name.startswith((*BUILDERS, "compiler/passes/"))} == set()
    elsewhere = [functions for name, functions in shown.items() if not name.startswith("authoring/derive/")]
    run = {told.__name__ for told, _ in REWRITES}
    run |= {told.__name__ for told in (with_wide_statistics, drop_sums_of_deviations, with_captures)}
    assert set().union(*elsewhere) == run
