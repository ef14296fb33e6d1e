"""`make bench-cpu` compares functions of the suite with what peers call the same."""

from __future__ import annotations

import sys
from pathlib import Path

import gradscript as gs
import pytest

ROOT = Path(__file__).parents[2]


def test_every_row_has_a_function_and_a_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import torch
    from cpu import ROWS, _ours, _smaller, _tensors, _torch
    from kernel_peers import TORCH

    unit = gs.CompilationUnit((ROOT / "benchmarks" / "suite.grad").read_text(encoding="utf-8"), "suite.grad")
    for name, shapes in ROWS.values():
        assert name in TORCH and torch.jit.script(TORCH[name]).name == name
        assert len(_tensors(name, [(2, 4)] * len(shapes))) == len(unit[name].schema.arguments)
    name, shapes = ROWS["SwiGLU [1024, 4096]"]
    tensors = _tensors(name, [_smaller((64, 8)) for _ in shapes])
    ours, theirs = _ours(gs, unit[name], tensors)(), _torch(TORCH[name], tensors)()
    for have, want in zip(ours, theirs, strict=True):
        assert abs(have - want.numpy()).max() < 1e-5
    assert "cpu" in sys.modules
