"""docs/benchmarks.md: what `cpu.py` and `cpu_growth.py` measure, each part in a process of its own."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
PAGE = HERE.parent / "docs" / "benchmarks.md"
MARK = "<!-- measured by `make bench-cpu ARGS=--keep` -->\n"


def keep(turns: int, compiles: bool) -> None:
    """Measure everything, each part in a process of its own, and write the page."""
    parts = [
        _said("cpu.py", f"--turns={turns}", *(["--compile"] if compiles else [])),
        _said("cpu.py", f"--turns={turns}", "--resident", *(["--compile"] if compiles else [])),
        _said("cpu.py", f"--turns={turns}", "--threads=1"),
        _said("cpu_growth.py"),
    ]
    titles = ("As users run them", "With memory that the system's allocator keeps", "One thread")
    text = "".join(f"## {title}\n\n{part}\n" for title, part in zip(titles, parts, strict=False)) + parts[-1]
    before = PAGE.read_text(encoding="utf-8").split(MARK)[0]
    PAGE.write_text(f"{before}{MARK}\n{_machine()}\n\n{text}", encoding="utf-8")


def _said(script: str, *arguments: str) -> str:
    command = [sys.executable, str(HERE / script), *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def _machine() -> str:
    import numpy
    import torch

    versions = [f"Python {platform.python_version()}", f"NumPy {numpy.__version__}", f"torch {torch.__version__}"]
    versions += [f"{name} {_version(name)}" for name in ("jax", "autograd") if find_spec(name)]
    processor = "a processor"
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        processor = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), processor)
    return f"Measured on {datetime.date.today()}: {processor}, {os.cpu_count()} cores; {', '.join(versions)}; float32."


def _version(name: str) -> str:
    from importlib.metadata import version

    return version(name)
