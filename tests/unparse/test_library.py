"""Every formula and every example prints as source that compiles to the same graphs."""

from __future__ import annotations

from pathlib import Path

import pytest
from amounts import some_of
from gradscript.compiler.formulas.library import compile_formula, formula_names, has_own_backward
from gradscript.compiler.ir.graph import Callee
from gradscript.compiler.lift import lift_closures
from gradscript.compiler.spelling.order import order_results
from gradscript.lang.diagnostics import CompileError, Diagnostics
from gradscript.stdlib_grads import formula_files
from roundtrip import check_callees, check_pair, check_unit, compiled

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.gs"))


@pytest.mark.parametrize("name", some_of(formula_names()))
def test_formula(name: str) -> None:
    callee = compile_formula(name)
    assert has_own_backward(name) == (callee.pair is not None)
    # What it calls was inlined after the order of results and captures was settled: settle it again.
    graph = callee.graph.copy()
    order_results(graph)
    pair = lift_closures(graph, callee.schema, Diagnostics())
    check_callees({callee.schema.name: Callee(callee.schema, graph, pair)})
    check_pair(callee)


@pytest.mark.parametrize("filename", formula_files())
def test_formula_file(filename: str) -> None:
    text = formula_files()[filename]
    try:
        compiled(text)
    except CompileError:
        pytest.skip("calls functions of another file")
    check_unit(text)


@pytest.mark.parametrize("path", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_example(path: Path) -> None:
    check_unit(path.read_text(encoding="utf-8"))
