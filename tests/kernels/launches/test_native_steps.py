"""Steps run without Python: what each calls and keeps, what becomes of errors, and that nothing is kept alive."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any
from weakref import ref

import pytest
import torch
from gradscript.runtime.kernels.launches import native
from gradscript.runtime.kernels.launches.steps import LaunchedKernel
from gradscript.runtime.kernels.lists.row import EvaluatedStep
from gradscript.runtime.kernels.lists.slots import SlotOf

STREAM = 7


class Kernel:
    """What a list knows of a kernel. It tells what it was launched with."""

    device = torch.device("cpu")

    def __init__(self, hooks: Sequence[Any] = ()) -> None:
        self.by_python: list[Any] = []
        self.directly: list[Any] = []
        self.asked: list[Any] = []
        self.hooks = [*hooks]

    def closed(self, atoms: Sequence[int]) -> Any:
        return self

    def launch(self, tensors: Sequence[torch.Tensor], numbers: Sequence[float], stream: Any) -> None:
        self.by_python.append(([tensor.data_ptr() for tensor in tensors], [*numbers], stream))

    def direct(self, aligned: tuple[bool, ...]) -> Any:
        self.asked.append(aligned)
        return (lambda *given: self.directly.append(given), (1, 2, 3), ("f", None), (64, 65), (128,), self.hooks, [])


class NoMemory:
    def data_ptr(self) -> int:
        raise RuntimeError("batched")


@pytest.fixture(autouse=True)
def built() -> None:
    if native._steps_type() is None:
        pytest.skip("needs a compiler of C, and Python's headers")


def steps_of(*steps: Any, freed: Sequence[Sequence[int]] | None = None) -> Any:
    return native.native_steps(steps, freed or [()] * len(steps))


def made(slot: int) -> Any:
    return (slot, (2, 3), (3, 1), torch.float64)


def test_a_kernel_is_launched_directly_once_it_was_by_python() -> None:
    kernel, x = Kernel(), torch.zeros(8, dtype=torch.float64)
    run = steps_of(LaunchedKernel(kernel, [made(2)], [], [0, 2], [1]))
    for _ in range(3):
        slots = [x, 0.5, None]
        run(slots, STREAM)
        assert slots[0] is x and slots[2].shape == (2, 3) and slots[2].dtype == torch.float64
    assert kernel.by_python[0][1:] == ([0.5], STREAM) and len(kernel.by_python) == 1
    assert kernel.directly[-1] == (1, 2, 3, STREAM, "f", None, x.data_ptr(), slots[2].data_ptr(), 64, 65, 0.5, 128)
    assert kernel.asked == [(True, True)]
    # Memory that is aligned in another way has a launch of its own.
    for _ in range(2):
        run([x[1:], 0.5, None], STREAM)
    assert kernel.asked[1:] == [(False, True)] and len(kernel.by_python) == 2 and len(kernel.directly) == 3


def test_with_hooks_kernels_are_launched_by_python() -> None:
    kernel, hook = Kernel(), object()
    run = steps_of(LaunchedKernel(kernel, [], [], [0], []))
    run([torch.zeros(4)], STREAM)
    kernel.hooks.append(hook)
    run([torch.zeros(4)], STREAM)
    assert len(kernel.by_python) == 2 and not kernel.directly
    kernel.hooks.clear()
    run([torch.zeros(4)], STREAM)
    assert len(kernel.by_python) == 2 and len(kernel.directly) == 1 and len(kernel.asked) == 1


def test_many_alignments_and_many_buffers() -> None:
    kernel, memory = Kernel(), torch.zeros(64)
    run = steps_of(LaunchedKernel(kernel, [], [], [0, 1, 2], []))
    for turn in range(16):
        run([memory[turn & 1 :], memory[turn >> 1 & 1 :], memory[turn >> 2 & 1 :]], STREAM)
    # Four of eight are known; the others go by Python each time.
    assert len(kernel.directly) == 4 and len(kernel.by_python) == 12
    wide = Kernel()
    steps_of(LaunchedKernel(wide, [], [], range(80), []))([memory] * 80, STREAM)
    assert len(wide.by_python[0][0]) == 80 and not wide.asked


def test_what_has_no_memory_is_for_python_to_tell() -> None:
    run = steps_of(LaunchedKernel(Kernel(), [], [], [0], []))
    with pytest.raises(RuntimeError, match="batched"):
        run([NoMemory()], STREAM)


def test_memory_that_is_taken_over_is_seen_in_another_shape() -> None:
    x, run = torch.zeros(6), steps_of(LaunchedKernel(Kernel(), [], [(1, 0, (2, 3)), (2, 0, (6,))], [1, 2], []))
    slots = [x, None, None]
    run(slots, STREAM)
    assert slots[1].shape == (2, 3) and slots[1].data_ptr() == x.data_ptr() and slots[2] is x


def test_calls() -> None:
    heard: list[Any] = []

    def called(*given: Any) -> Any:
        heard.append(given)
        return 1, [2, 3]

    arguments = [SlotOf(0), "s", [SlotOf(1), None, (4, SlotOf(0))], [5]]
    run = steps_of(EvaluatedStep(called, arguments, [SlotOf(2), [None, SlotOf(3)]]))
    slots: list[Any] = [10, 11, None, None]
    run(slots, None)
    assert heard == [(10, "s", [11, None, (4, 10)], [5])] and slots == [10, 11, 1, 3]
    run(slots, None)
    assert heard[0][2] is not heard[1][2], "a list is nobody else's"


@pytest.mark.parametrize("result", [(1,), (1, [2]), (1, [2, 3, 4]), 1])
def test_other_results_than_there_were(result: Any) -> None:
    run = steps_of(EvaluatedStep(lambda: result, [], [SlotOf(0), [None, SlotOf(1)]]))
    with pytest.raises((ValueError, TypeError)):
        run([None, None], None)


def test_an_error_stops_the_steps() -> None:
    ran: list[int] = []
    kinds = [EvaluatedStep(lambda: ran.append(1), [], None), EvaluatedStep(lambda: 1 // 0, [], SlotOf(0))]
    run = steps_of(*kinds, EvaluatedStep(lambda: ran.append(2), [], None))
    with pytest.raises(ZeroDivisionError):
        run([None], None)
    assert ran == [1]


def test_nothing_is_kept_alive() -> None:
    kernel, x, item = Kernel(), torch.zeros(6), object()
    run = steps_of(
        LaunchedKernel(kernel, [made(2)], [(3, 0, (2, 3))], [0, 2, 3], [1]),
        EvaluatedStep(lambda a, b: [a, [b]], [SlotOf(2), [SlotOf(4), item]], [None, [SlotOf(5)]]),
        EvaluatedStep(torch.neg, [SlotOf(0)], SlotOf(6)),
        freed=[[], [2], []],
    )
    run([x, 0.5, None, None, item, None, None], STREAM)
    kernel.by_python.clear()
    before = [sys.getrefcount(one) for one in (x, item, kernel, torch.float64, None)]
    for _ in range(100):
        slots: list[Any] = [x, 0.5, None, None, item, None, None]
        run(slots, STREAM)
        last = ref(slots[6])
        assert slots[2] is None
        with pytest.raises(AttributeError):
            run([3, 0.5, None, None, item, None, None], STREAM)
    kernel.directly.clear()
    slots.clear()
    assert last() is None
    after = [sys.getrefcount(one) for one in (x, item, kernel, torch.float64, None)]
    assert after[:4] == before[:4] and abs(after[4] - before[4]) < 50, (before, after)


def test_what_is_told_wrongly_is_refused() -> None:
    made = native._steps_type()
    assert made is not None
    for described in (((9, ()),), ((0, ()),), ((1, (1, 2)),), (3,), ((2, ((), print)), None)):
        with pytest.raises((TypeError, ValueError)):
            made(described, None)
    with pytest.raises(TypeError):
        made((), None)((), None)
