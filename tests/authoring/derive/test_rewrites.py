"""The example in the docstring of each rewrite of a derived function is what the rewrite does."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from typing import Any

import gradscript as gs
import pytest
from gradscript.authoring.derive import lists, nested, rounds, simplify, tidy
from gradscript.authoring.derive.joined import closures_of, joined
from gradscript.compiler.ir.graph import Callee, Graph
from gradscript.compiler.ir.verify import verify
from gradscript.compiler.passes.simplification.eliminate_dead_code import eliminate_dead_code
from gradscript.compiler.unparse.functions import unparse_function

NAMES = ("x", "w", "y", "g")
"""Those that a user gave, in the example of `tidy`."""
OF_CLOSURES = (rounds.keep_early, rounds.take_early, rounds.ask_again, lists.take_by_index)
OF_GRAPHS = (simplify.simplify, nested.nested, tidy.name_gradients, tidy.name_terms)
REWRITES: dict[str, Callable[[Graph], Any]] = {
    **{one.__name__: lambda graph, one=one: one(closures_of(graph)[-1]) for one in OF_CLOSURES},
    **{one.__name__: one for one in OF_GRAPHS},
    "tidy": lambda graph: tidy.tidy(graph, NAMES),
}
DOCSTRINGS = {one.__name__: one.__doc__ or "" for one in (*OF_CLOSURES, *OF_GRAPHS, tidy.tidy)}


WHOLE = {one.__name__: one.__doc__ or "" for one in (joined, lists.write_lists, lists.write_zeros)}
"""Of which the example shows what comes of all of them together."""


def _example(docstring: str) -> list[str]:
    parts = re.findall(r"^    (?:Before|After):\n((?:(?: {8}.*)?\n)+?)(?=    \S|    $)", docstring, re.MULTILINE)
    before, after = (textwrap.dedent(part).strip() + "\n" for part in parts)
    assert before != after
    return [before, after]


@pytest.mark.parametrize("name", REWRITES)
def test_example(name: str) -> None:
    before, after = _example(DOCSTRINGS[name])
    callee = gs.CompilationUnit(before).f.callee
    graph = callee.graph.copy()
    made = REWRITES[name](graph)
    graph = made if isinstance(made, Graph) else graph
    eliminate_dead_code(graph)
    verify(graph)
    assert unparse_function(Callee(callee.schema, graph, callee.pair)).strip() + "\n" == after


@pytest.mark.parametrize("name", WHOLE)
def test_example_of_the_whole(name: str) -> None:
    before, after = _example(WHOLE[name])
    assert gs.derive(gs.CompilationUnit(before).f).strip() + "\n" == after


def test_terms_are_named_without_printing_the_text_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    from gradscript.authoring.derive import derivation

    printed = []
    monkeypatch.setattr(
        derivation, "_printed", lambda *given, before=derivation._printed: printed.append(1) or before(*given)
    )
    terms = " + ".join(f"(x * {i + 1}.0).sin()" for i in range(100))
    gs.derive(gs.CompilationUnit(f"def f(x):\n    return {terms}\n").f)
    assert len(printed) < 20
