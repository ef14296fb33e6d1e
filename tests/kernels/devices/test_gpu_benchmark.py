"""The GPU benchmark says so where there is no GPU, and its measuring runs."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")
SCRIPT = Path(__file__).parents[3] / "benchmarks" / "kernels.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *arguments]
    return subprocess.run(command, capture_output=True, encoding="utf-8", timeout=300, check=False)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_gpu_it_says_so() -> None:
    found = run()
    assert (found.returncode, found.stdout) == (0, "nothing is measured: torch finds no CUDA device\n")


def test_an_unknown_function_is_told() -> None:
    found = run("--device", "cpu", "swigloo")
    assert found.returncode == 2 and "no function swigloo" in found.stderr


def test_the_measurement_runs(tmp_path: Path) -> None:
    """On the CPU, where its times mean nothing, with results that are held to eager torch's."""
    options = ("--device", "cpu", "--megabytes", "0.01", "--turns", "1", "--peers", "eager,liger")
    found = run(*options, "--keep", "--results", str(tmp_path), "add_rms_norm", "adamw")
    assert found.returncode == 0, found.stderr
    (data,) = (json.loads(path.read_text(encoding="utf-8")) for path in tmp_path.glob("kernels-*-cpu.json"))
    assert [(m["function"], m["dtype"], m["passes"]) for m in data["measured"]] == [
        ("add_rms_norm", "float32", "forward"),
        ("add_rms_norm", "float32", "forward + backward"),
        ("add_rms_norm", "bfloat16", "forward"),
        ("add_rms_norm", "bfloat16", "forward + backward"),
        ("adamw", "float32", "forward"),
        ("adamw", "bfloat16", "forward"),
    ]
    assert all(
        m["is_right"] and m["least_bytes"] > 0 and {"ours", "eager"} <= set(m["seconds"]) for m in data["measured"]
    )
    assert [o["function"] for o in data["overheads"]] == ["add_rms_norm", "add_rms_norm", "adamw"]
    assert data["circumstances"]["packages"]["torch"] == version("torch")
    (text,) = (path.read_text(encoding="utf-8") for path in tmp_path.glob("kernels-*-cpu.md"))
    assert text == found.stdout and "| `add_rms_norm` | bfloat16 | forward + backward |" in text
