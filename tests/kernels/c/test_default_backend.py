"""What a process runs on where nobody has said anything: kernels in C, or op by op with one notice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from gradscript.runtime.kernels.c.compiler import compiler

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no compiler of C")
SCRIPT = """
import warnings
warnings.simplefilter("always")
import gradscript as gs
import numpy as np

unit = gs.CompilationUnit('''
def gelu(x, w):
    return torch.nn.functional.gelu(x * w)

def loss(x, w):
    return torch.tanh(x * w).sum()

def owned(x):
    def backward(g):
        return g * 2 * x
    return x * x, backward
''')
x, w = np.linspace(-2, 2, 24).reshape(4, 6), np.linspace(0.5, 1.5, 6)
bits = lambda *arrays: " ".join(np.asarray(a).tobytes().hex() for a in arrays)
said = set()
for turn in range(6):
    y, pullback = gs.vjp(unit.gelu, x, w)
    said.add(bits(unit.gelu(x, w), y, *pullback(y), *gs.grad(unit.loss, (0, 1))(x, w), unit.owned(x)))
print(len(said), str(gs.settings.backend))
print(*said)
"""


def _process(cache: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The script in a process of its own that nobody has told of a backend."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("GRADSCRIPT_")}
    cache.mkdir(exist_ok=True)
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**kept, "GRADSCRIPT_CACHE": str(cache), **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    return run


def _notices(run: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in run.stderr.splitlines() if "Warning" in line]


def _libraries(cache: Path) -> int:
    return len([*cache.glob("c/*")])


def test_a_process_begins_with_kernels_in_c_and_repeats_them_bit_for_bit(tmp_path: Path) -> None:
    """From an empty cache and from a full one; each call gives the bits of every other, and of the backend by name."""
    runs = [_process(tmp_path / "cache"), _process(tmp_path / "cache")]
    assert _libraries(tmp_path / "cache") > 0
    runs.append(_process(tmp_path / "named", GRADSCRIPT_BACKEND="c"))
    found = [run.stdout.splitlines() for run in runs]
    assert [lines[0] for lines in found] == ["1 auto", "1 auto", "1 c"]
    assert len({lines[1] for lines in found}) == 1
    assert not any(map(_notices, runs))


def test_where_there_is_no_compiler_one_notice_says_how_to_get_one(tmp_path: Path) -> None:
    empty = tmp_path / "bin"
    empty.mkdir()
    run = _process(tmp_path / "cache", PATH=str(empty), CC="")
    (notice,) = _notices(run)
    assert "there is no compiler of C" in notice and "pip install ziglang" in notice and "apt-get install gcc" in notice
    assert not _libraries(tmp_path / "cache")
    named = _process(tmp_path / "named", GRADSCRIPT_BACKEND="numpy")
    assert not _notices(named)
    assert run.stdout.splitlines() == ["1 auto", named.stdout.splitlines()[1]]


@pytest.mark.parametrize("name", ["false", "true"])
def test_a_compiler_that_makes_nothing_is_told_of_once(tmp_path: Path, name: str) -> None:
    run = _process(tmp_path / "cache", CC=name)
    (notice,) = _notices(run)
    assert name in notice and "op by op" in notice
    assert run.stdout.startswith("1 auto")
