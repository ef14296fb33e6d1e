"""Chains of attributes: a name that is known has few parts, so no more of a chain is looked at."""

from __future__ import annotations

import gradscript as gs
import pytest
from gradscript.compiler.emit.annotations import MAX_DOTS, dotted_name
from gradscript.lang import ast
from gradscript.lang.source import NO_SPAN


def test_a_chain_is_followed_no_further_than_a_name_goes() -> None:
    node: ast.Expr = ast.Name(NO_SPAN, "torch")
    for depth in range(3 * MAX_DOTS):
        assert dotted_name(node) == (".".join(["torch", *["a"] * depth]) if depth <= MAX_DOTS else "")
        node = ast.Attribute(NO_SPAN, node, "a", NO_SPAN)


def test_ten_thousand_attributes_are_told_of() -> None:
    with pytest.raises(gs.CompileError, match="has no attribute 'a'"):
        gs.CompilationUnit("def f(x):\n    return x" + ".a" * 10_000 + "\n")
