"""Threads that kernels in C share: how many there are, and that results are the same for any number of them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import gradscript as gs
import numpy as np
import pytest
from gradscript.runtime.kernels.c.compiler import compiler
from gradscript.runtime.kernels.c.launched import thread_count

SOURCE = "def f(x):\n    return torch.tanh(x) * x + torch.exp(-x * x)\n"
HERE = sys.platform == "linux" and compiler() is not None

PROGRAM = f"""
import os, sys, threading, time
{{torch}}
import gradscript as gs
import numpy as np

def threads():
    return len(os.listdir("/proc/self/task"))

f = gs.CompilationUnit({SOURCE!r}).f
x = np.linspace(-2, 2, 1 << 20, dtype=np.float32)
gs.settings.backend = "c"
f(x[:16])
before = threads()
{{body}}
"""


def run(body: str, torch: str = "", **environment: str) -> list[str]:
    """The lines that a process of its own prints."""
    found = {k: v for k, v in os.environ.items() if k not in ("OMP_NUM_THREADS", "GRADSCRIPT_BACKEND")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(torch=torch, body=body)],
        env={**found, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_the_setting_says_how_many() -> None:
    assert gs.settings.num_threads == None  # noqa: E711 # the setting is equal to its value, and never it
    with gs.settings.num_threads(3):
        assert thread_count() == 3
        assert gs.settings.num_threads == 3
        assert repr(gs.settings.num_threads) == "gs.settings.num_threads: 3"
        with gs.settings.num_threads(None):
            assert thread_count() != 3 or gs.settings.num_threads.value is None
    assert gs.settings.num_threads.value is None


@pytest.mark.parametrize("wrong", [True, 1.5, "2", [1]])
def test_what_is_no_number_is_refused(wrong: object) -> None:
    with pytest.raises(TypeError, match="num_threads is a number from 1, or None, not"):
        gs.settings.num_threads = wrong


@pytest.mark.parametrize("wrong", [0, -1])
def test_no_threads_are_refused(wrong: int) -> None:
    with pytest.raises(ValueError, match="num_threads is a number from 1, or None, not"):
        gs.settings.num_threads = wrong


def test_the_setting_is_a_threads_own() -> None:
    seen: list[object] = []
    with gs.settings.num_threads(5):
        thread = threading.Thread(target=lambda: seen.append(gs.settings.num_threads.value))
        thread.start()
        thread.join()
    assert seen == [None]


COUNTED = "f(x); print(threads() - before)"


@pytest.mark.parametrize(
    ("said", "body", "started"),
    [
        ({}, "gs.settings.num_threads = 3\n" + COUNTED, "2"),
        ({}, "gs.settings.num_threads = 1\n" + COUNTED, "0"),
        ({"OMP_NUM_THREADS": "4"}, COUNTED, "3"),
        ({"OMP_NUM_THREADS": "1"}, COUNTED, "0"),
        ({"OMP_NUM_THREADS": "4,2"}, COUNTED, "3"),
        ({"OMP_NUM_THREADS": "4"}, "gs.settings.num_threads = 2\n" + COUNTED, "1"),
    ]
    if HERE
    else [],
)
def test_as_many_threads_are_started_as_are_asked_for(said: dict[str, str], body: str, started: str) -> None:
    assert run(body, **said) == [started]


@pytest.mark.parametrize("chosen", ["1", "3"] if HERE else [])
def test_where_torch_is_there_are_as_many_as_it_has(chosen: str) -> None:
    body = "from gradscript.runtime.kernels.c.launched import thread_count\nprint(thread_count())"
    assert run(body, f"import torch; torch.set_num_threads({chosen})", OMP_NUM_THREADS="2") == [chosen]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 300] if HERE else [])
def test_results_are_the_same_for_any_number(count: int) -> None:
    function = gs.CompilationUnit(SOURCE + "def g(x):\n    return f(x).sum(0)\n").g
    x = np.random.default_rng(1).normal(size=(513, 257)).astype(np.float32)
    with gs.settings.backend("c"):
        with gs.settings.num_threads(1):
            expected = gs.vjp(function, x)[1](np.ones(257, np.float32))[0]
        with gs.settings.num_threads(count):
            found = gs.vjp(function, x)[1](np.ones(257, np.float32))[0]
    np.testing.assert_array_equal(found, expected)


FORKED = """
gs.settings.num_threads = 3
want = f(x)
child = os.fork()
if not child:
    same = all(np.array_equal(f(x), want) for _ in range(5))
    os._exit(0 if same and threads() == 3 else 1)
_, status = os.waitpid(child, 0)
print(status, np.array_equal(f(x), want))
"""
FORKED_MEANWHILE = """
gs.settings.num_threads = 3
want = f(x)
over = threading.Event()
def others():
    gs.settings.backend = "c"
    gs.settings.num_threads = 3
    while not over.is_set():
        f(x)
workers = [threading.Thread(target=others) for _ in range(2)]
for worker in workers: worker.start()
found = []
for _ in range(5):
    child = os.fork()
    if not child:
        os._exit(0 if np.array_equal(f(x), want) else 1)
    found.append(os.waitpid(child, 0)[1])
over.set()
for worker in workers: worker.join()
print(*found)
"""


@pytest.mark.parametrize("body", [FORKED] if HERE else [], ids=["idle"])
def test_a_forked_process_has_threads_of_its_own(body: str) -> None:
    assert run(body) == ["0", "True"]


@pytest.mark.parametrize("body", [FORKED_MEANWHILE] if HERE else [], ids=["busy"])
def test_a_process_is_forked_while_others_run_kernels(body: str) -> None:
    assert run(body) == ["0"] * 5


SEVERAL = """
want = f(x)
found = []
def other():
    gs.settings.backend = "c"
    gs.settings.num_threads = 2
    found.append(all(np.array_equal(f(x), want) for _ in range(10)))
workers = [threading.Thread(target=other) for _ in range(6)]
for worker in workers: worker.start()
for worker in workers: worker.join()
# What was joined may be there a moment longer.
for _ in range(500):
    if threads() - before > 1: time.sleep(0.01)
print(len(found), all(found), threads() - before)
"""


@pytest.mark.parametrize("body", [SEVERAL] if HERE else [], ids=["six"])
def test_calls_in_several_threads_share_one_pool(body: str) -> None:
    assert run(body, OMP_NUM_THREADS="1") == ["6", "True", "1"]


APART = """
def others():
    return set(os.listdir("/proc/self/task"))

allowed = os.sched_getaffinity(0)
gs.settings.num_threads = 3
known = others()
f(x)
added = others() - known
for pinned in (allowed, {min(allowed)}, allowed):
    os.sched_setaffinity(0, pinned)
    f(x)
    found = {frozenset(os.sched_getaffinity(int(thread))) for thread in added}
    print(len(added), len(found), min(map(len, found)), found.pop() <= allowed)
print(len(allowed))
"""


@pytest.mark.parametrize("body", [APART] if HERE else [], ids=["three"])
def test_threads_leave_the_processor_of_the_caller_to_it(body: str) -> None:
    """Where it has but one, they keep what they had."""
    *found, count = run(body)
    several = max(int(count) - 1, 1)
    assert found == ["2", "1", str(several), "True"] * 3


WITH_TORCH = "import torch; torch.set_num_threads(3); torch.ones(1 << 22).exp()"
IN_TEAM = """
want = f(x)
started = threads() - before
with gs.settings.num_threads(1):
    print(started, np.array_equal(f(x), want))
torch.set_num_threads(4); torch.ones(1 << 22).exp(); before = threads()
print(np.array_equal(f(x), want), threads() - before)
with gs.settings.num_threads(2):
    print(np.array_equal(f(x), want), threads() - before)
"""
TEAM_IN_THREADS = """
want, found = f(x), []
def other():
    gs.settings.backend = "c"
    found.append(all(np.array_equal(f(x), want) for _ in range(10)))
workers = [threading.Thread(target=other) for _ in range(6)]
for worker in workers: worker.start()
for worker in workers: worker.join()
print(len(found), all(found))
"""


@pytest.mark.parametrize("body", [IN_TEAM] if HERE else [], ids=["team"])
def test_torchs_threads_are_shared_where_they_are_as_many(body: str) -> None:
    """Else there are threads beside them, as with two where torch has four."""
    assert run(body, WITH_TORCH) == ["0", "True", "True", "0", "True", "1"]


@pytest.mark.parametrize("body", [TEAM_IN_THREADS] if HERE else [], ids=["six"])
def test_calls_in_several_threads_share_torchs_one_at_a_time(body: str) -> None:
    assert run(body, WITH_TORCH) == ["6", "True"]


@pytest.mark.parametrize("body", [FORKED.replace("gs.settings.num_threads = 3", "f(x)")] if HERE else [], ids=["torch"])
def test_a_process_forked_beside_torchs_threads_has_its_own(body: str) -> None:
    assert run(body, WITH_TORCH) == ["0", "True"]
