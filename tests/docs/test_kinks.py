"""What docs/kinks.md says of torch, of us and of TorchScript is so. JAX's column was measured once."""

from __future__ import annotations

import importlib.util
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from test_conventions import Case, by_torch, by_us, written

PAGE = Path(__file__).parents[2] / "docs" / "kinks.md"
_ROW = re.compile(r"^\| (?P<cells>`torch\..*|`F\..*|`x .*) \|$", re.MULTILINE)
PROFILING_RUNS = 3


def _cells(line: str) -> list[str]:
    return [cell.strip("*`") for cell in line.split(" | ")]


ROWS = [_cells(m["cells"]) for m in _ROW.finditer(PAGE.read_text(encoding="utf-8"))]
DIFFERENT = [row for row in ROWS if len(row) == 6]


def _scripted(of: str, names: list[str], folder: Path) -> Callable[..., Any]:
    """The expression under torch.jit.script, which reads a file."""
    path = folder / "scripted.py"
    parameters = ", ".join(f"{name}: torch.Tensor" for name in names)
    head = "import torch\nimport torch.nn.functional as F\n"
    path.write_text(f"{head}def f({parameters}):\n    return {of} * 1.0\n", encoding="utf-8")
    spec = importlib.util.spec_from_file_location("scripted", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return torch.jit.script(module.f)


def by_torchscript(case: Case, folder: Path) -> str:
    arrays = case.arrays()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        function = _scripted(case.of, list(arrays), folder)
        for _ in range(PROFILING_RUNS + 1):
            tensors = [torch.from_numpy(a.copy()).requires_grad_() for a in arrays.values()]
            out = function(*tensors)
            gradients = torch.autograd.grad(out, tensors, torch.ones_like(out), materialize_grads=True)
    return "; ".join(written(g.numpy()) for g in gradients)


@pytest.mark.parametrize("row", ROWS, ids=[f"{row[0]} at {row[1]}" for row in ROWS])
def test_torch_and_we(row: list[str]) -> None:
    case = Case(row[0], row[1], row[2], None)
    assert by_torch(case) == row[2]
    assert by_us(case) == row[2]


@pytest.mark.parametrize("row", DIFFERENT, ids=[f"{row[0]} at {row[1]}" for row in DIFFERENT])
def test_torchscript(row: list[str], tmp_path: Path) -> None:
    assert by_torchscript(Case(row[0], row[1], row[2], None), tmp_path) == row[3]


def test_every_row_of_the_first_table_has_a_difference() -> None:
    assert len(DIFFERENT) >= 15
    assert all(row[3] != row[2] or row[4] != row[2] for row in DIFFERENT)
