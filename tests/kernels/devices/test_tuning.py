"""Tuning keeps the quickest schedule, remembers it, and falls back on the default one."""

from __future__ import annotations

from pathlib import Path

import gradscript as gs
import numpy as np
import pytest
from gradscript.compiler.kernel_ir.kernel import Kernel
from gradscript.compiler.scheduling.choose import candidates, choose_schedule
from gradscript.compiler.scheduling.schedule import Schedule
from gradscript.runtime.kernels.triton.tuning import FAILED, STORE, tuned_schedule


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    monkeypatch.setenv("GRADSCRIPT_CACHE", str(tmp_path))
    unit = gs.CompilationUnit("def f(x):\n    return torch.softmax(x, -1)\n")
    return unit.f.kernels(np.zeros((64, 1000), np.float32)).forward[0].kernel


def test_the_quickest_is_kept_and_remembered(kernel: Kernel) -> None:
    wanted = candidates(kernel)[-1]
    tried: list[Schedule] = []

    def seconds(schedule: Schedule) -> float:
        tried.append(schedule)
        return 1.0 if schedule == wanted else 2.0

    assert tuned_schedule(kernel, "device", seconds) == wanted
    assert tried == candidates(kernel) and tried[0] == choose_schedule(kernel)
    tried.clear()
    assert tuned_schedule(kernel, "device", seconds) == wanted
    assert not tried
    tuned_schedule(kernel, "another device", seconds)
    assert tried


def test_spoilt_choices_are_made_again(kernel: Kernel) -> None:
    best = candidates(kernel)[1]
    tuned_schedule(kernel, "device", lambda schedule: float(schedule != best))
    for path in STORE.directory.iterdir():
        path.write_bytes(path.read_bytes()[:-2])
    other = candidates(kernel)[2]
    assert tuned_schedule(kernel, "device", lambda schedule: float(schedule != other)) == other


def test_where_nothing_runs_the_default_stays(kernel: Kernel) -> None:
    assert tuned_schedule(kernel, "device", lambda schedule: FAILED) == choose_schedule(kernel)
    assert not list(STORE.directory.iterdir())
