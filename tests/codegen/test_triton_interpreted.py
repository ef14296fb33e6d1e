"""Emitted kernels under Triton's interpreter: odd, tiny, prime, long, broadcast, strided and empty shapes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from amounts import some_of
from kernel_cases import GROUPS

pytest.importorskip("triton")
pytest.importorskip("torch")


def test_kernels_compute_what_they_mean() -> None:
    """In a process of their own, for Triton decides when it is imported whether it interprets."""
    script = Path(__file__).parents[1] / "support" / "kernel_running.py"
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONWARNINGS": "ignore"}
    groups = some_of(GROUPS)
    run = subprocess.run(
        [sys.executable, script, *groups], env=environment, capture_output=True, text=True, timeout=600
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("\nok ") + run.stdout.startswith("ok ") == sum(len(GROUPS[group]) for group in groups)
