"""Large results on tensors lie in blocks that are used again, counted with those of the arena."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import gradscript as gs
import pytest

torch = pytest.importorskip("torch")
from gradscript.runtime.kernels.c.entry import types  # noqa: E402

pytestmark = pytest.mark.skipif(types() is None, reason="needs a compiler and headers")
UNIT = gs.CompilationUnit("def double(x):\n    return x * 2\ndef both(x):\n    return x * 2, x + 1\n")


@pytest.fixture(autouse=True)
def _in_c() -> Iterator[None]:
    with gs.settings.backend("c"):
        yield


def _ready(size: int) -> torch.Tensor:
    """An argument for which calls are prepared."""
    x = torch.randn(size)
    for _ in range(3):
        UNIT.double(x)
    gc.collect()
    return x


@pytest.mark.parametrize("size", [16_383, 16_384, 16_385, 1 << 17, (1 << 20) + 3, (1 << 22) - 1])
def test_what_is_gone_is_used_again(size: int) -> None:
    x = _ready(size)
    first = UNIT.double(x)
    view, address = first[5:].view(-1), first.data_ptr()
    del first
    second = UNIT.double(x)
    assert second.data_ptr() != address and torch.equal(view, 2 * x[5:])
    is_large = 4 * size >= 1 << 16
    before = gs.memory.stats()
    del view
    after = gs.memory.stats()
    assert (before.in_use - after.in_use == after.waiting - before.waiting > 0) is is_large
    third = UNIT.double(x)
    assert torch.equal(third, 2 * x) and torch.equal(second, third)
    assert third.data_ptr() % 64 == 0
    if is_large:
        assert third.data_ptr() == address and gs.memory.stats().reused == after.reused + 1


def test_what_waits_is_given_back() -> None:
    x = _ready(1 << 18)
    results = [UNIT.double(x) for _ in range(4)]
    in_use = gs.memory.stats().in_use
    results.clear()
    assert gs.memory.stats().waiting >= 4 << 20
    assert in_use - gs.memory.stats().in_use == 4 << 20
    gs.memory.empty_cache()
    assert gs.memory.stats().waiting == 0


def test_the_least_used_go_first_where_too_many_wait() -> None:
    found = types()
    assert found is not None
    gs.memory.empty_cache()
    small, large = _ready(1 << 16), _ready(1 << 18)
    gs.memory.empty_cache()
    found.blocks.shrink(3 << 20, stays=True)
    try:
        kept = [UNIT.double(small) for _ in range(2)]
        kept.clear()
        results = [UNIT.double(large) for _ in range(4)]
        results.clear()
        assert gs.memory.stats().waiting == 3 << 20
    finally:
        found.blocks.shrink(1 << 29, stays=True)


def test_threads_share_them_and_let_them_go_anywhere() -> None:
    x = _ready(1 << 16)
    for _ in range(3):
        UNIT.both(x)
    gc.collect()
    in_use = gs.memory.stats().in_use

    def work(turns: int) -> list[torch.Tensor]:
        found = []
        with gs.settings.backend("c"):
            for _ in range(turns):
                doubled, more = UNIT.both(x)
                assert torch.equal(doubled, 2 * x) and torch.equal(more, x + 1)
                found.append(doubled)
        return found[-2:]

    with ThreadPoolExecutor(4) as pool:
        kept = list(pool.map(work, [30] * 8))
    assert gs.memory.stats().in_use - in_use == 16 << 18
    assert all(torch.equal(result, 2 * x) for results in kept for result in results)
    del kept
    assert gs.memory.stats().in_use == in_use


def test_a_forked_process_goes_on() -> None:
    x = _ready(1 << 16)
    process = os.fork()
    if not process:
        with gs.settings.num_threads(1):
            os._exit(0 if torch.equal(UNIT.double(x), 2 * x) else 1)
    assert os.waitpid(process, 0)[1] == 0
