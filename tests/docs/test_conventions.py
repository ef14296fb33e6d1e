"""The gradients that docs/conventions.md shows are torch's and ours. `REWRITE_GOLDENS=1` takes torch's."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch

PAGE = Path(__file__).parents[2] / "docs" / "conventions.md"

_ROW = re.compile(
    r"^\| `(?P<of>[^`]+)` \| `(?P<at>[^`]+)` \| `(?P<gradient>[^`]+)` \|(?: `(?P<torchs>[^`]+)` \|)?$", re.MULTILINE
)
_NUMBERS = {"inf": float("inf"), "nan": float("nan")}


@dataclass(frozen=True)
class Case:
    of: str
    at: str
    gradient: str
    torchs: str | None
    """Torch's gradient, where it is another."""

    def arrays(self) -> dict[str, np.ndarray]:
        """The inputs by name; floats are float64."""
        pairs = (part.split(" = ") for part in self.at.split("; "))
        return {name: np.asarray(eval(value, dict(_NUMBERS))) for name, value in pairs}


CASES = [Case(**m.groupdict()) for m in _ROW.finditer(PAGE.read_text(encoding="utf-8"))]


def by_torch(case: Case) -> str:
    """The gradients of the float inputs, as the page writes them."""
    tensors = {name: torch.from_numpy(array.copy()) for name, array in case.arrays().items()}
    floats = [t.requires_grad_() for t in tensors.values() if t.is_floating_point()]
    out = eval(case.of, {"torch": torch, "F": torch.nn.functional, **tensors})
    gradients = torch.autograd.grad(out, floats, torch.ones_like(out), materialize_grads=True)
    return "; ".join(written(g.numpy()) for g in gradients)


def by_us(case: Case) -> str:
    arrays = case.arrays()
    unit = gs.CompilationUnit(f"def f({', '.join(arrays)}):\n    return {case.of}\n")
    out, pullback = gs.vjp(unit.f, *arrays.values())
    gradients = pullback(np.ones_like(out))
    floats = [(g, a) for g, a in zip(gradients, arrays.values(), strict=True) if np.issubdtype(a.dtype, np.floating)]
    return "; ".join(written(np.zeros_like(a) if g is None else g) for g, a in floats)


def written(gradient: Any) -> str:
    """A gradient to four digits; there is no minus zero on the page."""
    if np.ndim(gradient):
        return f"[{', '.join(written(element) for element in gradient)}]"
    return f"{float(gradient) + 0.0:.4g}"


@pytest.mark.filterwarnings("ignore:var\\(\\)")
@pytest.mark.parametrize("case", CASES, ids=[f"{case.of} at {case.at}" for case in CASES])
def test_gradient(case: Case) -> None:
    expected = by_torch(case)
    if case.torchs is not None:
        assert case.torchs == expected != case.gradient
        expected = case.gradient
    elif os.environ.get("REWRITE_GOLDENS"):
        text = PAGE.read_text(encoding="utf-8")
        row = f"| `{case.of}` | `{case.at}` | "
        PAGE.write_text(text.replace(f"{row}`{case.gradient}`", f"{row}`{expected}`"), encoding="utf-8")
    else:
        assert case.gradient == expected
    assert by_us(case) == expected


def test_page_has_its_rows() -> None:
    assert len(CASES) > 80
    assert len({(case.of, case.at) for case in CASES}) == len(CASES)
