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
from gradscript.compiler.passes.simplification.eliminate_dead_code import eliminate_dead_code

ROOM = gradscript.compiler.passes
PASSES = [module.name for module in pkgutil.walk_packages(ROOM.__path__, f"{ROOM.__name__}.") if not module.ispkg]


_SQUARE = "graph square(%x : Tensor): %y : Tensor = aten::mul.Tensor(%x, %x) return (%y)"


@pytest.mark.parametrize("path", PASSES)
def test_example(path: str) -> None:
    module, name = importlib.import_module(path), path.rpartition(".")[2]
    before, after = re.findall(r"^(?:Before|After).*:\n((?: {4}.*\n)+)", module.__doc__ or "", re.MULTILINE)
    graph = parse_ir(textwrap.dedent(before) + _SQUARE)
    assert getattr(module, name)(graph) is (before != after)
    verify(graph)
    if "aside" in (module.__doc__ or ""):
        eliminate_dead_code(graph)
    assert str(graph) == textwrap.dedent(after)
