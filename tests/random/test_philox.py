"""The numbers of a seed: those that Triton's interpreter gives, and the published test vectors of Philox."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import gradscript as gs
import numpy as np
import pytest
from gradscript.compiler.ops import OPS
from gradscript.compiler.ops.arrays import numpy_dtype
from gradscript.compiler.ops.families.random import philox, uniform_at
from gradscript.compiler.types.dtypes import BFLOAT16, FLOAT16, FLOAT64, INT64
from gradscript.runtime.settings.seeds_in_memory import SeedInMemory

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
    uniform, bits = triton_numbers[index]
    blocks = first + np.arange(count)
    assert philox(seed, blocks).T.tolist() == bits
    places = 4 * first + np.arange(4 * count)
    expected = np.asarray(uniform, np.float32)
    np.testing.assert_array_equal(uniform_at(seed, places.reshape(-1, 2)).reshape(-1), expected)
    np.testing.assert_array_equal(uniform_at(seed, places[::-3]), expected[::-3])
    if first == 0:
        f = gs.CompilationUnit(
            "def f(seed: int, n: int):\n    return gs.uniform(seed, [n]), gs.random_bits(seed, [n])"
        ).f
        ours, words = f(seed, 4 * count)
        assert ours.dtype == np.float32
        np.testing.assert_array_equal(ours, expected)
        assert words.tolist() == np.transpose(bits).reshape(-1).tolist()


def test_published_vectors() -> None:
    """Random123's known answer for philox4x32-10 of zeros."""
    assert philox(0, np.zeros(1, np.int64)).tolist() == [[0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]]


def test_subsequences_are_the_counter_s_third_word() -> None:
    """Against the generator as it is defined, in Python's integers."""
    for seed, block, subsequence in ((0, 0, 1), (2**63 - 1, 2**33 + 5, 7), (-3, 12, 2**32 - 1)):
        words, key = [block % 2**32, block >> 32, subsequence, 0], [seed % 2**32, (seed >> 32) % 2**32]
        for _ in range(10):
            left, right = words[0] * 0xD2511F53, words[2] * 0xCD9E8D57
            words = [(right >> 32) ^ words[1] ^ key[0], right % 2**32, (left >> 32) ^ words[3] ^ key[1], left % 2**32]
            key = [(key[0] + 0x9E3779B9) % 2**32, (key[1] + 0xBB67AE85) % 2**32]
        assert philox(seed, np.array([block]), subsequence).tolist() == [words]


def test_normal_numbers_are_of_two_subsequences() -> None:
    drawn = gs.CompilationUnit("def f(n: int):\n    return torch.randn([n])").f
    formula = gs.CompilationUnit("def f(seed: int, n: int):\n    return standard(seed, n)\n" + NORMAL).f
    with gs.random.local_seed(5):
        found = drawn(100_000)
    with gs.random.local_seed(5):
        seed = gs.CompilationUnit("def f():\n    return gs.seed()").f()
    np.testing.assert_allclose(found, formula(seed, 100_000), rtol=1e-6, atol=1e-6)
    assert abs(found.mean()) < 0.01 and abs(found.std() - 1) < 0.01
    assert abs(np.corrcoef(found[:-1], found[1:])[0, 1]) < 0.01


NORMAL = """
def standard(seed: int, n: int):
    u = gs.uniform(seed, [n]).clamp_min(1e-07)
    return torch.sqrt(-2 * torch.log(u)) * torch.cos(6.283185307179586 * gs.uniform(seed, [n], subsequence=1))
"""


def test_an_element_does_not_depend_on_how_many_there_are() -> None:
    f = gs.CompilationUnit("def f(seed: int, n: int):\n    return gs.uniform(seed, [n])").f
    many = f(8, 140_001)
    for count in (0, 1, 2, 3, 7, 16_384, 65_535, 65_537):
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
        "def f(seed: int, n: int, s: int):\n    return gs.uniform(seed, [n], subsequence=s), gs.random_bits(seed, [n])"
    )
    f = gs.CompilationUnit(source).f
    with pytest.raises(gs.RuntimeFailure, match="subsequences"):
        f(0, 3, -1)
    with pytest.raises(gs.RuntimeFailure, match="subsequences"):
        f(0, 3, 2**32)
    with pytest.raises(gs.RuntimeFailure, match="negative dimension"):
        f(0, -1, 0)
    assert f(2**70 + 1, 3, 0)[0].tolist() == f(1, 3, 0)[0].tolist()


def test_all_words_of_a_block_are_random() -> None:
    words = philox(11, np.arange(60_000))
    for word in range(4):
        ones = np.unpackbits(words[:, word].astype(np.uint32).view(np.uint8)).mean()
        assert abs(ones - 0.5) < 0.002
    uniform = words / 2**32 - 0.5
    assert np.abs(np.corrcoef(uniform.T) - np.eye(4)).max() < 0.02


@pytest.mark.parametrize("seed", [0, 1, 12345678901234567, 2**63 - 1, -7, 2**40 + 3])
@pytest.mark.parametrize("size", [[], [1], [3, 7], [4096], [2, 0, 3]])
def test_torch_draws_the_same_of_a_seed_that_lies_in_memory(seed: int, size: list[int]) -> None:
    torch = pytest.importorskip("torch")
    from gradscript.runtime.kernels.by_torch.ops import op_function

    uniform, bits = (OPS.named(name) for name in ("gs::uniform", "gs::random_bits"))
    held = SeedInMemory(torch.tensor(seed))
    for subsequence in (0, 1, 2**32 - 1):
        found = op_function(bits, torch.device("cpu"))(held, size, subsequence)
        np.testing.assert_array_equal(found.numpy(), bits.evaluate(seed, size, subsequence))
        for dtype in (None, FLOAT16, FLOAT64):
            code = None if dtype is None else dtype.code
            drawn = op_function(uniform, torch.device("cpu"))(held, size, code, subsequence)
            expected = uniform.evaluate(seed, size, code, subsequence)
            assert drawn.numpy().dtype == expected.dtype
            np.testing.assert_array_equal(drawn.numpy(), expected)
    for given in (([-1], None, 0), ([2], INT64.code, 0), ([2], None, -1)):
        with pytest.raises(RuntimeError):
            op_function(uniform, torch.device("cpu"))(held, *given)


@pytest.mark.parametrize("seed", [0, 5, 2**63 - 1, -(2**63)])
def test_seeds_in_memory_are_added_and_multiplied_as_ints_are(seed: int) -> None:
    torch = pytest.importorskip("torch")
    held = SeedInMemory(torch.tensor(seed))
    pairs = [
        (held + 7, seed + 7),
        (7 - held, 7 - seed),
        (held * (2**70 + 3), seed * (2**70 + 3)),
        (3 * held - held, 3 * seed - seed),
        (-held + True, -seed + 1),
    ]
    for found, expected in pairs:
        assert int(found.memory) % 2**64 == expected % 2**64


@pytest.mark.parametrize(
    "looked",
    [
        lambda held: held + 0.5,
        lambda held: held == 3,
        lambda held: held < 3,
        lambda held: {held: 1},
        lambda held: held // 2,
        lambda held: not held,
        float,
        int,
        range,
    ],
)
def test_nothing_else_of_the_host_takes_a_seed_in_memory(looked: Callable[[Any], Any]) -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="SeedInMemory"):
        looked(SeedInMemory(torch.tensor(5)))
    with pytest.raises(TypeError, match="SeedInMemory"):
        torch.ones(2) * SeedInMemory(torch.tensor(5))
