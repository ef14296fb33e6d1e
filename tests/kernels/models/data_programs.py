"""Programs that go by their data, their arguments, and the same text run by torch, to second order."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gradscript as gs
import numpy as np
import torch
from torch.nn import functional

TEXT = (Path(__file__).parent / "programs.grad").read_text(encoding="utf-8")
UNIT = gs.CompilationUnit(TEXT, "programs.grad")
_NAMES: dict[str, Any] = {"torch": torch, "F": functional, "math": math, "List": list, "Tensor": torch.Tensor}
exec(TEXT, _NAMES)
Draw = Callable[..., Any]
_ARGUMENTS: dict[str, Callable[[Draw], list[Any]]] = {
    "nested": lambda draw: [draw(4, 6), draw(6, 6) / 2, [draw(6) for _ in range(3)]],
    "two_breaks": lambda draw: [draw(3, 5), [draw(5, 5) / 2.2 for _ in range(5)], 4.2],
    "beam": lambda draw: [draw(1, 7), draw(7, 9), draw(9, 7), 3, 6],
    "routed": lambda draw: [
        *(draw(11, 6), draw(6, 4)),
        *([draw(6, 8) / 2.4 for _ in range(4)], [draw(8, 6) / 2.8 for _ in range(4)], 2),
    ],
    "tbptt": lambda draw: [[draw(3, 5) for _ in range(11)], draw(5, 5) / 2, draw(5, 5) / 2, draw(5), 4],
    "adaptive": lambda draw: [draw(4, 5), draw(5, 5), 0.05],
    "greedy": lambda draw: [draw(8, 5), draw(5, 5), draw(5, 5), 1, 7],
    "lengths_gru": lambda draw: [draw(4, 6, 5), [3, 6, 1, 4], draw(5, 5), draw(5, 5)],
    "line_search": lambda draw: [draw(6), 0.5 * np.eye(6) + draw(6, 1) * 0.3, draw(6)],
    "deflate": lambda draw: [draw(5, 7), draw(3, 5), 3, 1e-2],
    "called": lambda draw: [draw(4, 6), [draw(6) for _ in range(3)], [draw(6, 6) / 2.4 for _ in range(3)]],
    "cached": lambda draw: [draw(7, 5), draw(5, 5), draw(5, 5), draw(5, 5), 3],
    "pondering": lambda draw: [draw(4, 5), draw(5, 5), draw(5)],
    "chunks_of_loss": lambda draw: [draw(10, 6), draw(6, 7) * 2, np.abs(draw(10) * 3).astype(np.int64) % 7, 4],
    "sorted_out": lambda draw: [draw(4, 6), draw(6, 6) / 1.5],
}
PROGRAMS = tuple(_ARGUMENTS)


def eager(name: str) -> Callable[..., Any]:
    """A program by torch, from the same text."""
    found: Callable[..., Any] = _NAMES[name]
    return found


def arguments(name: str, seed: int, device: str = "cpu") -> list[Any]:
    """Tensors of float64 that require a gradient, and what else there is."""
    values = _ARGUMENTS[name](lambda *shape: np.random.default_rng([seed, *shape]).standard_normal(shape))
    return [_tensor(value, device) for value in values]


def _tensor(value: Any, device: str) -> Any:
    if isinstance(value, list):
        return [_tensor(item, device) for item in value]
    if not isinstance(value, np.ndarray):
        return value
    return torch.tensor(value, device=device, requires_grad=value.dtype == np.float64)


def to_second_order(function: Callable[..., Any], given: list[Any]) -> list[Any]:
    """The result, its gradients, and those of the squares and sums of these; None where there is none."""
    flat = [item for value in given for item in (value if isinstance(value, list) else [value])]
    leaves = [item for item in flat if isinstance(item, torch.Tensor) and item.requires_grad]
    result = function(*given)
    first = torch.autograd.grad(result, leaves, create_graph=True, allow_unused=True)
    terms = [(g * g).sum() + g.sum() for g in first if g is not None and g.requires_grad]
    second = torch.autograd.grad(sum(terms), leaves, allow_unused=True) if terms else ()
    return [result, *first, *second]


def compare(found: list[Any], wanted: list[Any], tolerance: float = 1e-9) -> None:
    """Raises: AssertionError where they differ; a gradient that is missing is zero."""
    assert len(found) == len(wanted)
    for have, want in zip(found, wanted, strict=True):
        if have is None or want is None:
            assert all(each is None or not each.detach().any() for each in (have, want))
            continue
        scale = max(1.0, float(want.detach().abs().max())) if want.numel() else 1.0
        torch.testing.assert_close(
            have.detach().cpu(), want.detach().cpu(), rtol=tolerance, atol=tolerance * scale, check_stride=False
        )
