"""Programs of the suite's kernels run, and their kernels compile for devices that are not here.

A few stand for all; `make test-kernels` runs and compiles the whole suite in every dtype.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from compiled_suite import CASES, DTYPES, kernels_of
from gradscript.runtime.kernels.triton.compile import TARGETS

pytest.importorskip("triton")
pytest.importorskip("torch")

HERE = Path(__file__).parent
PARTS = ("7×13", "transposed", "expanded", "second row", "without elements", "one number")
COUNT = 20


@pytest.fixture(autouse=True)
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADSCRIPT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)


def test_programs_compute_what_functions_mean() -> None:
    """Results and gradients, in a process of its own, for Triton decides when it is imported whether it interprets."""
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(HERE.parents[1] / "support" / "program_running.py"), "float32", *PARTS]
    run = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", timeout=600)
    assert run.returncode == 0, run.stdout + run.stderr
    assert sum(line.startswith("ok ") for line in run.stdout.splitlines()) == COUNT


@pytest.mark.parametrize(
    ("case", "dtype", "target"),
    [
        ("layer_norm", "float32", "sm_90"),
        ("layer_norm", "float32", "gfx942"),
        ("cross_entropy", "bfloat16", "sm_90"),
        ("rope", "float16", "sm_100"),
        ("rms_norm of 8192", "bfloat16", "sm_80"),
    ],
)
def test_kernels_of_the_suite_compile_without_spills(case: str, dtype: str, target: str) -> None:
    kernels = kernels_of(case, dtype)
    assert len(kernels) >= 2
    for info in kernels:
        binary = info.compile(target)
        assert binary.code and binary.registers > 0
        assert binary.spills == 0, info.name


def test_the_whole_suite_can_be_compiled() -> None:
    """What `make test-kernels` goes through has a text for every kernel."""
    assert set(DTYPES) == {"float32", "float16", "bfloat16"} and len(TARGETS) == 4
    for case in CASES:
        for info in kernels_of(case, "bfloat16"):
            assert f"def {info.function}(" in info.text
