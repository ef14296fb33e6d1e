"""The diffs in CONTRIBUTING: without the first is no `torch.roll`, with it a tested one; the second adds a kind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from diffs import apply, diffs_of

ROOT = Path(__file__).parents[2]
OPERATOR, KIND = diffs_of(ROOT / "CONTRIBUTING.md")
FOLDERS = ("lang", "compiler", "runtime", "stdlib_grads", "authoring", "tests/support", "tests/ops", "tests/shapes")
FILES = ("__init__.py", "pyproject.toml", "tests/conftest.py")
USE_OF_OPERATOR = """
import gradscript as gs

try:
    print(gs.CompilationUnit("def f(x):\\n    return torch.roll(x, 1)\\n").f(gs.tape.Variable([1.0, 2.0]).data))
except gs.CompileError as error:
    print(error.code)
"""
USE_OF_KIND = """
import gradscript as gs
import numpy as np

cu = gs.CompilationUnit("def f(x, l: List[List[Tensor]]):\\n    return x * gs.depth(l) + gs.depth(x)\\n")
x = np.ones(2)
print(cu.f(x, [[x]]), gs.vjp(cu.f, x, [[x]])[1](x)[0])
print("prim::Depth" in str(cu.f.graph), gs.CompilationUnit(cu.f.code).f.code == cu.f.code)
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project as if nobody had thought of `torch.roll`."""
    root = tmp_path_factory.mktemp("project") / "gradscript"
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in FILES:
        shutil.copy(ROOT / file, root / file)
    apply([hunk.reversed() for hunk in OPERATOR], root)
    return root


def run(tree: Path, *arguments: str) -> str:
    """What Python prints with the copy in the place of the project."""
    environment = {**os.environ, "PYTHONPATH": str(tree.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_the_first_diff_adds_an_operator_and_its_tests(tree: Path) -> None:
    assert run(tree, "-c", USE_OF_OPERATOR).strip() == "E202"
    apply(OPERATOR, tree)
    assert all((tree / hunk.path).read_text() == (ROOT / hunk.path).read_text() for hunk in OPERATOR)
    tests = ("tests/ops/test_array_ops.py", "tests/shapes")
    assert "passed" in run(tree, "-m", "pytest", "-p", "no:cacheprovider", "-rA", *tests, "-k", "roll")


def test_the_second_diff_adds_a_kind_of_node(tree: Path) -> None:
    apply(KIND, tree)
    assert run(tree, "-c", USE_OF_KIND).splitlines() == ["[2. 2.] [2. 2.]", "True True"]
