"""Runs the functions of examples/kernels by Triton's interpreter, beside themselves op by op in float64.

A script for a process of its own, as tests/support/program_running.py:

    TRITON_INTERPRET=1 python example_running.py DTYPE ROWSxCOLUMNS [FUNCTION …]
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gradscript as gs
import numpy as np
import torch

ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "benchmarks")]

import kernel_running  # noqa: E402
from inputs.example_shapes import ARGUMENTS, arguments  # noqa: E402
from program_running import TOLERANCES, check  # noqa: E402

IN_ROUNDS = ("linear_cross_entropy", "linear_jsd", "linear_dpo", "tiled_mlp")
"""Programs of several parts, which tests of groups run."""
SQUARE = {"lora_linear": 1, "causal_softmax": 0, "info_nce": 0, "embedding": 0}
"""Those of a matrix of so many rows and as many columns as one of the sizes, by which."""
LARGEST = 400


def main(dtype: str, size: str, names: Sequence[str]) -> int:
    kernel_running._give_libdevice_to_the_interpreter()
    rows, columns = map(int, size.split("x"))
    units = [gs.load(path) for path in sorted((ROOT / "examples" / "kernels").glob("*.grad"))]
    failed = 0
    for name in names or functions(rows, columns):
        unit = next(unit for unit in units if name in unit.functions)
        given: list[Any] = [torch.from_numpy(np.ascontiguousarray(array)) for array in arguments(name, rows, columns)]
        given += [argument.default for argument in unit[name].callee.schema.arguments[len(given) :]]
        try:
            check(unit, name, given, getattr(torch, dtype), TOLERANCES[dtype])
            print(f"ok      {name}", flush=True)
        except Exception:
            failed += 1
            print(f"failed  {name}\n{traceback.format_exc()}", flush=True)
    return min(failed, 1)


def functions(rows: int, columns: int) -> list[str]:
    """Those that are run at a size."""
    sizes = (rows, columns)
    return [n for n in ARGUMENTS if n not in IN_ROUNDS and (n not in SQUARE or sizes[SQUARE[n]] <= LARGEST)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
