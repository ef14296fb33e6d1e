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


LONG = {
    "norms": "x = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-3)",
    "softmaxes": "x = torch.softmax(x * 1.1, -1)",
}


@pytest.mark.parametrize("name", LONG)
def test_as_many_statistics_of_rows_as_there_are_steps_stay_in_one_kernel(name: str) -> None:
    body = "\n    ".join([LONG[name]] * 30)
    program = RowProgram(f"def f(x, y, w, b, c, labels):\n    {body}\n    return x\n", (4096, 1024))
    pair = planned(program, SPLITS["for GPUs"])
    assert len(pair.forward.kernels) == len(pair.backward(pair.usual_seeds()).kernels) == 1


@pytest.mark.parametrize(("rounds", "side", "most"), [(20, 4, 1), (40, 8, 1), (14, 32, 1), (30, 32, 8), (60, 16, 16)])
def test_more_rounds_of_a_tile_than_registers_hold_keep_statistics(rounds: int, side: int, most: int) -> None:
    both = "x / (x.sum(-1, keepdim=True) + 1e-6)", "x / (x.sum(-2, keepdim=True) + 1e-6)"
    body = "\n        ".join(f"x = {step}" for step in both)
    source = f"def f(x, y, w, b, c, labels):\n    for _ in range({rounds}):\n        {body}\n    return x\n"
    pair = planned(RowProgram(source, (4096, side, side)), SPLITS["for GPUs"])
    assert len(pair.backward(pair.usual_seeds()).kernels) <= most
