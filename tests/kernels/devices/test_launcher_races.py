"""The launcher called from several threads at once, under gcc's sanitizers: no race, no byte out of bounds."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from gradscript.runtime.kernels.c.launcher import TEXT

CALLERS = Path(__file__).with_name("launcher_callers.c")
FLAGS = ("-std=gnu11", "-O1", "-g", "-pthread", "-fno-sanitize-recover=undefined")


def available() -> list[str]:
    """The sanitizers of gcc that are installed."""
    return [name for name in ("thread", "address,undefined") if shutil.which("gcc") and _links(name)]


def _links(sanitizer: str) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        return not built("int main(void) { return 0; }", sanitizer, Path(folder) / "empty").returncode


def built(text: str, sanitizer: str, target: Path) -> subprocess.CompletedProcess[str]:
    command = ["gcc", *FLAGS, f"-fsanitize={sanitizer}", "-x", "c", "-", "-o", str(target)]
    return subprocess.run(command, input=text, text=True, capture_output=True, timeout=120, check=False)


@pytest.mark.parametrize("sanitizer", available())
def test_many_threads_call_at_once(sanitizer: str, tmp_path: Path) -> None:
    target = tmp_path / "callers"
    made = built(TEXT + CALLERS.read_text(encoding="utf-8"), sanitizer, target)
    assert not made.returncode, made.stderr
    found = subprocess.run([str(target)], capture_output=True, text=True, timeout=300, check=False)
    assert not found.returncode and "WARNING: ThreadSanitizer" not in found.stderr, found.stderr


@pytest.mark.parametrize("sanitizer", [name for name in available() if name == "thread"])
def test_a_race_would_be_seen(sanitizer: str, tmp_path: Path) -> None:
    """Without the lock by which one call at a time has the threads."""
    text = TEXT.replace("!pthread_mutex_trylock(&in_use)", "pthread_mutex_trylock(&in_use) != -1")
    assert text != TEXT
    target = tmp_path / "callers"
    assert not built(text + CALLERS.read_text(encoding="utf-8"), sanitizer, target).returncode
    try:
        found = subprocess.run([str(target)], capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        return  # calls that wait for each other's threads
    assert found.returncode
