"""`make bench-cpu` compares functions of its files with what peers call the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gradscript as gs
import numpy as np
import pytest

ROOT = Path(__file__).parents[3]


def test_every_row_is_of_functions_that_do_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import torch
    from cpu import ROWS, Timed, arguments_of, by_torch, by_us, our_functions
    from peers.array_peers import _BY_HAND, functions
    from peers.kernel_peers import TORCH
    from scipy.special import erf

    ours, arrays = our_functions(), functions(np, erf)
    for row in ROWS.values():
        small = Timed(
            row.name, tuple((*shape[:-2], *(min(n, 8) * max(n // 1024, 1) for n in shape[-2:])) for shape in row.shapes)
        )
        arguments = arguments_of(small)
        wanted = [i for i in range(len(row.shapes)) if i not in row.constant]
        assert torch.jit.script(TORCH[row.name]).name == row.name
        if row.name == "dropout_add_layer_norm":
            continue
        value, gradients = _by_us(ours[row.name], arguments)
        theirs = TORCH[row.name](*[torch.from_numpy(a) if isinstance(a, np.ndarray) else a for a in arguments])
        _assert_close(value, theirs)
        _assert_close(value, arrays[row.name](*arguments))
        if wanted:
            found = by_us(ours[row.name], arguments, wanted)()
            _assert_close([found[i] for i in wanted], by_torch(TORCH[row.name], arguments, wanted)())
            assert len(gradients) >= len(wanted)
        if row.name in _BY_HAND and wanted:
            _assert_close(value, _BY_HAND[row.name](*arguments)[0])


def _by_us(function: gs.Function, arguments: list[object]) -> tuple[object, object]:
    value, pull_back = gs.vjp(function, *arguments)
    return value, pull_back(tuple(v * 0 + 1 for v in value) if isinstance(value, tuple) else value * 0 + 1)


def _assert_close(have: Any, want: Any) -> None:
    several = isinstance(have, list | tuple)
    for left, right in zip(
        have if several else [have], want if several or isinstance(want, tuple) else [want], strict=True
    ):
        np.testing.assert_allclose(np.asarray(left), np.asarray(right), rtol=1e-4, atol=1e-5)
