"""The numbers of a seed: those that Triton's interpreter gives, and the published test vectors of Philox."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import gradscript as gs
import numpy as np
import pytest
from gradscript.compiler.ops.arrays import numpy_dtype
from gradscript.compiler.ops.families.random import philox, uniform_at
from gradscript.compiler.types.dtypes import BFLOAT16, FLOAT16, FLOAT64, INT64

RUNS = [
    (0, 0, 4096),
    (1, 0, 1024),
    (12345678901234567, 0, 1024),
    (2**63 - 1, 1_000_000, 1024),
    (-7, 5, 256),
    (99, 2**32 - 512, 1024),
    (2**40 + 3, 2**45, 256),
]
"""Seed, first offset, number of offsets."""


@pytest.fixture(scope="module")
def triton_numbers() -> list[Any]:
    pytest.importorskip("triton")
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    script = os.path.join(os.path.dirname(__file__), "triton_numbers.py")
    done = subprocess.run(
        [sys.executable, script, json.dumps(RUNS)], capture_output=True, text=True, env=environment, check=True
    )
    found: list[Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("index", range(len(RUNS)), ids=[f"seed={s}-first={f}" for s, f, _ in RUNS])
def test_the_numbers_are_those_of_triton(index: int, triton_numbers: list[Any]) -> None:
    seed, first, count = RUNS[index]
    uniform, bits, normal = triton_numbers[index]
    counters = first + np.arange(count)
    for word in range(4):
        assert philox(seed, counters, word).tolist() == bits[word]
    assert uniform_at(seed, counters.reshape(-1, 2)).reshape(-1).tolist() == np.asarray(uniform, np.float32).tolist()
    if first == 0:
        f = gs.CompilationUnit(
            "def f(seed: int, n: int):\n    return gs.uniform(seed, [n]), standard(seed, n)\n" + NORMAL
        ).f
        ours, gaussian = f(seed, count)
        assert ours.dtype == np.float32
        assert ours.tolist() == np.asarray(uniform, np.float32).tolist()
        np.testing.assert_allclose(gaussian, normal, rtol=2e-5, atol=2e-6)


NORMAL = """
def standard(seed: int, n: int):
    u = gs.uniform(seed, [n]).clamp_min(1e-07)
    return torch.sqrt(-2 * torch.log(u)) * torch.cos(6.283185307179586 * gs.uniform(seed, [n], word=1))
"""


def test_published_vectors() -> None:
    """Random123's known answers for philox4x32-10, where the counter's upper half is zero as it is here."""
    words = [int(philox(0, np.zeros(1, np.int64), word)[0]) for word in range(4)]
    assert words == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


def test_an_element_does_not_depend_on_how_many_there_are() -> None:
    f = gs.CompilationUnit("def f(seed: int, n: int):\n    return gs.uniform(seed, [n])").f
    many = f(8, 70_000)
    for count in (0, 1, 7, 16_384, 16_385, 40_000):
        np.testing.assert_array_equal(f(8, count), many[:count])
    shaped = gs.CompilationUnit(
        "def f(seed: int):\n    return gs.uniform(seed, [7, 0, 2]), gs.uniform(seed, [5, 2, 3])"
    ).f
    empty, cube = shaped(8)
    assert empty.shape == (7, 0, 2)
    np.testing.assert_array_equal(cube.reshape(-1), many[:30])


def test_other_dtypes_are_conversions() -> None:
    source = "def f(seed: int, code: Optional[int]):\n    return gs.uniform(seed, [1000], dtype=code)"
    f = gs.CompilationUnit(source).f
    single = f(3, None)
    for dtype in (FLOAT16, BFLOAT16, FLOAT64):
        np.testing.assert_array_equal(f(3, dtype.code), single.astype(numpy_dtype(dtype)))
    with pytest.raises(gs.RuntimeFailure, match="floating"):
        f(3, INT64.code)


def test_bad_arguments_are_failures_not_tracebacks() -> None:
    source = (
        "def f(seed: int, n: int, word: int):\n    return gs.uniform(seed, [n], word=word), gs.random_bits(seed, [n])"
    )
    f = gs.CompilationUnit(source).f
    with pytest.raises(gs.RuntimeFailure, match="words 0 to 3"):
        f(0, 3, 4)
    with pytest.raises(gs.RuntimeFailure, match="negative dimension"):
        f(0, -1, 0)
    assert f(2**70 + 1, 3, 0)[0].tolist() == f(1, 3, 0)[0].tolist()


def test_all_words_of_a_block_are_random() -> None:
    for word in range(4):
        bits = philox(11, np.arange(60_000), word)
        ones = np.unpackbits(bits.astype(np.uint32).view(np.uint8)).mean()
        assert abs(ones - 0.5) < 0.002
