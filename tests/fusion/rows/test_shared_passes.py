"""Sums over different axes of the same points share a pass: gradients of numbers, rows and columns, one kernel and what
finishes it."""

from __future__ import annotations

import pytest
from row_program_running import SPLITS, planned
from row_programs import RowProgram

PROGRAMS = {
    "a number and a row": "x * c * w",
    "a number inside, a row and a row added": "torch.tanh(c * x) * w + w",
    "a number inside and one added": "torch.erf(x * c + c) * w",
    "a number and a column": "torch.sigmoid(x * c) * b",
    "a number beside rows' norms": "c * F.rms_norm(x, [x.size(-1)], w, 1e-6)",
    "several norms by numbers": "c * F.rms_norm(x, [x.size(-1)], None, 1e-6) + b.mean() * F.rms_norm(x, [x.size(-1)])",
    "elements of a row that scale": "w[0] * x * x + w[1] * x + c",
}
SHAPES = ((4096, 1024), (511, 4096), (40_000, 64), (64, 128, 1024))


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_matrices_are_read_once(name: str, split: str) -> None:
    for shape in SHAPES:
        program = RowProgram(f"def f(x, y, w, b, c, labels):\n    return {PROGRAMS[name]}\n", shape)
        pair = planned(program, SPLITS[split])
        backward = pair.backward(pair.usual_seeds())
        whole = [buffer.name for kernel in backward.kernels for buffer in kernel.inputs if buffer.shape == shape]
        assert whole
        assert len(whole) == len(set(whole)), (shape, whole)
