"""Launches, by a driver that records: what is compiled once, and what a launch is given."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")


def test_launches_are_prepared(tmp_path: Path) -> None:
    script = Path(__file__).with_name("launch_recording.py")
    environment = {**os.environ, "GRADSCRIPT_CACHE": str(tmp_path)}
    environment.pop("TRITON_INTERPRET", None)
    for turn in ("built", "found on disk"):
        done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{turn}: {done.stderr}"
        assert done.stdout.strip().endswith("ok")
