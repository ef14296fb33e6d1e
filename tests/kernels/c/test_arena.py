"""The arena: blocks come back when the last view of them is gone, wait within bounds, and are used again."""

from __future__ import annotations

import gc
import os
from concurrent.futures import ThreadPoolExecutor

import gradscript as gs
import numpy as np
import pytest
from gradscript.runtime.values.arena import LEAST, Arena

FLOAT32 = np.dtype(np.float32)


def test_memory_is_used_again_once_the_last_view_is_gone() -> None:
    arena = Arena(1 << 24)
    first = arena.empty((300, 400), FLOAT32)
    address = first.__array_interface__["data"][0]
    view = first[10:, ::2].T
    del first
    second = arena.empty((300, 400), FLOAT32)
    assert not np.shares_memory(second, view)
    del view
    third = arena.empty((400, 300), FLOAT32)
    assert third.__array_interface__["data"][0] == address
    assert arena.stats().reused == 1 and arena.stats().made == 2
    del second, third
    assert arena.stats().in_use == 0


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (7,), (LEAST // 4,), (LEAST // 4 + 1,), (513, 1001)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bool", "int16"])
def test_arrays_are_what_numpy_would_make(shape: tuple[int, ...], dtype: str) -> None:
    array = Arena(1 << 24).empty(shape, np.dtype(dtype))
    expected = np.empty(shape, dtype)
    assert (array.shape, array.dtype, array.strides) == (expected.shape, expected.dtype, expected.strides)
    assert array.flags.writeable and array.flags.aligned
    array[...] = 1
    assert array.sum() == expected.size


def test_what_waits_is_bounded_and_can_be_given_back() -> None:
    arena = Arena(1 << 20)
    arrays = [arena.empty((1 << 17,), FLOAT32) for _ in range(5)]
    assert arena.stats().in_use == 5 << 19
    arrays.clear()
    assert arena.stats().in_use == 0 and arena.stats().waiting == 2 << 19
    too_large = arena.empty((1 << 20,), FLOAT32)
    del too_large
    assert arena.stats().waiting == 2 << 19
    arena.clear()
    assert arena.stats().waiting == 0


def test_threads_share_it() -> None:
    arena = Arena(1 << 22)

    def work(number: int) -> bool:
        for turn in range(200):
            array = arena.empty((1 << 15,), FLOAT32)
            array.fill(number + turn)
            if not (array == number + turn).all():
                return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(0, 4000, 1000)))
    gc.collect()
    assert arena.stats().in_use == 0 and arena.stats().waiting <= 1 << 22


def test_a_forked_process_has_its_own_lock() -> None:
    arena_lock = gs.memory.stats()
    process = os.fork()
    if not process:
        os._exit(0 if gs.memory.stats().most_waiting == arena_lock.most_waiting else 1)
    assert os.waitpid(process, 0)[1] == 0


def test_it_is_asked_and_emptied_by_its_public_names() -> None:
    gs.memory.empty_cache()
    assert gs.memory.stats().waiting == 0
