"""The functions of examples/kernels by Triton's interpreter: values and gradients are those of float64.

A few at each size, in one dtype; `example_running.py` runs all of them at any.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from amounts import some_of

pytest.importorskip("triton")
pytest.importorskip("torch")
SCRIPT = Path(__file__).with_name("example_running.py")
SIZES = ("3x16", "31x62", "33x62", "31x16390", "300x8", "33x16390", "31x1026", "34x11008", "5x8194", "5x8190")
"""Rows and columns: on both sides of what a program holds and walks, and of how many rows are enough. The first of each
four are run at once: the largest take a minute."""
DTYPES = ("float32", "float16", "bfloat16")
CASES = [(size, DTYPES[i % len(DTYPES)]) for i, size in enumerate(SIZES)]
FOLDER = Path(__file__).parents[3] / "examples" / "kernels"
NAMES = [
    name
    for path in sorted(FOLDER.glob("*.grad"))
    for name in re.findall(r"^def (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    if path.stem != "layers" and name != "widened"
]
SQUARE = ("causal_softmax", "info_nce")
"""Of as many rows and columns as one of the sizes."""


@pytest.mark.parametrize(("number", "size", "dtype"), some_of([(i, *case) for i, case in enumerate(CASES)]))
def test_programs_compute_what_formulas_mean(number: int, size: str, dtype: str, tmp_path: Path) -> None:
    names = [name for name in NAMES[number :: 2 * len(CASES)] if name not in SQUARE or size == "31x62"] or ["softmax"]
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
    environment["GRADSCRIPT_CACHE"] = str(tmp_path)
    command = [sys.executable, str(SCRIPT), dtype, size, *names]
    run = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", timeout=1200)
    assert run.returncode == 0, run.stdout + run.stderr
    assert sum(line.startswith("ok ") for line in run.stdout.splitlines()) == len(names)
