"""The example in each pass's docstring is what the pass does."""

from __future__ import annotations

import importlib
import pkgutil
import re
import textwrap

import gradscript.compiler.passes
import pytest
from gradscript.compiler.ir.verify import verify
from gradscript.compiler.parse_ir import parse_ir
from gradscript.compiler.passes.eliminate_dead_code import eliminate_dead_code

PASSES = [module.name for module in pkgutil.iter_modules(gradscript.compiler.passes.__path__)]


_SQUARE = "graph square(%x : Tensor): %y : Tensor = aten::mul.Tensor(%x, %x) return (%y)"


@pytest.mark.parametrize("name", PASSES)
def test_example(name: str) -> None:
    module = importlib.import_module(f"gradscript.compiler.passes.{name}")
    before, after = re.findall(r"^(?:Before|After).*:\n((?: {4}.*\n)+)", module.__doc__ or "", re.MULTILINE)
    graph = parse_ir(textwrap.dedent(before) + _SQUARE)
    assert getattr(module, name)(graph) is (before != after)
    verify(graph)
    if "aside" in (module.__doc__ or ""):
        eliminate_dead_code(graph)
    assert str(graph) == textwrap.dedent(after)
