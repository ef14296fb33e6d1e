"""Rows of 16,384 and 32,768 columns spill no registers at the default schedule."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import gradscript as gs
import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("triton")
ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "examples" / "kernels"
sys.path[:0] = [str(ROOT / "benchmarks")]

from inputs.example_shapes import ARGUMENTS, Classes  # noqa: E402

KERNELS = {
    "rms_norm_llama_forward": 32_768,
    "instance_norm_backward": 32_768,
    "distillation_backward": 32_768,
    "focal_loss_backward": 32_768,
    "smoothed_cross_entropy_backward": 32_768,
    "kl_divergence_forward": 16_384,
    "generalized_jsd_forward": 32_768,
    "layer_norm_backward": 16_384,
    "rms_norm_backward": 32_768,
    "softcapped_cross_entropy_forward": 32_768,
}
"""Functions and their passes, and columns: a weight beside the row, three loops over it, two rows held, a row of one
number, two rows walked, rows in parts beside two sums and one, two functions of each point."""
HALVES = (
    "softcapped_cross_entropy_forward",
    "kl_divergence_forward",
    "total_variation_forward",
    "l2_norm_backward",
)
"""The same of 32,768 columns of halves, of which two rows are walked, the last time after a sum of their products."""


@pytest.mark.parametrize("name", KERNELS)
def test_nothing_spills(name: str) -> None:
    function, _, half = name.rpartition("_")
    unit = next(unit for unit in map(gs.load, sorted(FOLDER.glob("*.grad"))) if function in unit.functions)
    listing = unit[function].kernels(*map(_zeros, ARGUMENTS[function](512, KERNELS[name])))
    kernels = listing.forward if half == "forward" else listing.backward
    assert kernels
    for info in kernels:
        assert info.compile("sm_80" if function.startswith("smoothed") else "sm_90").spills == 0, info.name


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("name", HALVES)
def test_nothing_of_halves_spills(name: str, dtype: Any) -> None:
    function, _, half = name.rpartition("_")
    unit = next(unit for unit in map(gs.load, sorted(FOLDER.glob("*.grad"))) if function in unit.functions)
    listing = unit[function].kernels(*(_zeros(given, dtype) for given in ARGUMENTS[function](512, 32_768)))
    for info in listing.forward if half == "forward" else listing.backward:
        assert info.compile("sm_90").spills == 0, info.name


def test_rows_in_many_parts_spill_nothing_on_a_device_of_wide_warps() -> None:
    unit = next(unit for unit in map(gs.load, sorted(FOLDER.glob("*.grad"))) if "gated_rms_norm" in unit.functions)
    first, _ = unit.gated_rms_norm.kernels(*map(_zeros, ARGUMENTS["gated_rms_norm"](512, 32_768))).backward
    assert first.compile("gfx942").spills == 0


@pytest.mark.parametrize(
    "name", ["rms_norm", "layer_norm", "add_rms_norm", "gated_rms_norm", "dynamic_tanh", "dynamic_erf"]
)
def test_backwards_of_wide_rows_move_what_narrow_ones_do(name: str) -> None:
    unit = next(unit for unit in map(gs.load, sorted(FOLDER.glob("*.grad"))) if name in unit.functions)
    for columns in (1024, 8192, 11_008, 16_384):
        listing = unit[name].kernels(*map(_zeros, ARGUMENTS[name](4096, columns)))
        moved = sum(info.bytes_read + info.bytes_written for info in listing.backward)
        assert moved <= 1.1 * listing.least_bytes[1], columns
        assert len(listing.backward) == 2


def _zeros(given: Any, dtype: Any = np.float32) -> Any:
    return np.zeros(given.shape, np.int64 if isinstance(given, Classes) else dtype)
