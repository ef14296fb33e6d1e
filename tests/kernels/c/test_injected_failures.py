"""What kernels in C need fails: the compiler, the disk, memory. Then ops run one by one, to the same results, or say
which of them failed; one notice says why, and nothing half-made is kept."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gradscript as gs
import numpy as np
import pytest
from gradscript.runtime.kernels import notices
from gradscript.runtime.kernels.c import compiler as compilers
from gradscript.runtime.kernels.c import launched, library
from gradscript.runtime.kernels.cache.store import KernelStore
from gradscript.runtime.values.arena import ARENA

HAS_COMPILER = compilers.compiler() is not None
pytestmark = pytest.mark.skipif(not HAS_COMPILER, reason="there is no compiler of C")
X = np.linspace(-1, 1, 12, dtype=np.float32)
OTHER_LIBRARY = 'echo "int unlike(void) { return 1; }" | {cc} -shared -fPIC -x c - -o "$out"'
FAULTS = {
    "fails": ("echo 'no such flag' >&2; exit 1", "failed: no such flag"),
    "fails in silence": ("exit 3", "failed: exit status 3"),
    "is killed": ("kill -KILL $$", "was killed: Killed"),
    "is killed in mid-write": ('printf "\\177ELF" > "$out"; kill -TERM $$', "was killed: Terminated"),
    "makes nothing": ("exit 0", "made no library: No such file"),
    "makes an empty file": (': > "$out"', "could not be loaded"),
    "makes a text": ('echo "no library" > "$out"', "could not be loaded"),
    "makes half a library": (
        '{cc} "$@"; head -c 5000 "$out" > "$out.half"; mv "$out.half" "$out"',
        "could not be loaded",
    ),
    "makes another library": (OTHER_LIBRARY, "could not be loaded: the compiler made a library without"),
    "finds the disk full": ('echo "$out: No space left on device" >&2; exit 1', "No space left on device"),
    "hangs": ("sleep 1000", "took more than 1 seconds"),
}
"""What a compiler does, and how it is told."""
TARGET = 'out=; for word; do [ "$out" = next ] && out=$word; [ "$word" = -o ] && out=next; done\n'
_NUMBERS = iter(range(1000, 2000))


@pytest.fixture(autouse=True)
def anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No notice, no library and no cache of before."""
    monkeypatch.setenv("GRADSCRIPT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(notices, "TOLD", set())
    monkeypatch.setattr(library, "_LOADED", dict(library._LOADED))
    with gs.settings.backend("c"):
        yield


def functions(count: int = 2) -> list[gs.Function]:
    """Functions whose kernels nobody has built."""
    texts = [f"def f(x):\n    return torch.exp(x) * {next(_NUMBERS)}\n" for _ in range(count)]
    return [gs.CompilationUnit(text, "failing.grad").f for text in texts]


def by_ops(function: gs.Function, *args: Any) -> Any:
    with gs.settings.backend("numpy"):
        return function(*args)


def install(path: Path, script: str) -> None:
    real = shutil.which("cc") or shutil.which("gcc")
    path.write_text(f"#!/bin/sh\n{TARGET}{script.replace('{cc}', str(real))}\n", encoding="utf-8")
    path.chmod(0o700)


def expect_ops(message: str) -> None:
    """Two functions run op by op, and both passes of them; one notice says why."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for function in functions():
            np.testing.assert_array_equal(function(X), by_ops(function, X))
            _, pullback = gs.vjp(function, X)
            np.testing.assert_allclose(pullback(X)[0], X * by_ops(function, X), rtol=1e-6)
    said = [str(warning.message) for warning in told if warning.category is RuntimeWarning]
    assert len(said) == 1 and message in said[0], said


def files_of(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file() and path.name != ".lock")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_compiler_that_does_not_do_its_work(fault: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script, message = FAULTS[fault]
    install(tmp_path / "cc", script)
    monkeypatch.setattr(compilers, "SECONDS", 1)
    monkeypatch.setenv("CC", str(tmp_path / "cc"))
    expect_ops(message)
    assert files_of(tmp_path / "cache") == []
    monkeypatch.delenv("CC")
    expect_kernels()


def expect_kernels() -> None:
    (function,) = functions(1)
    before = len(library._LOADED)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(function(X), by_ops(function, X), rtol=1e-6)
    assert len(library._LOADED) > before


def test_a_compiler_that_hangs_leaves_nothing_running(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(tmp_path / "cc", f'sh -c "echo \\$\\$ > {tmp_path}/started; exec sleep 1000"')
    monkeypatch.setattr(compilers, "SECONDS", 1)
    monkeypatch.setenv("CC", str(tmp_path / "cc"))
    expect_ops("took more than")
    pid = int((tmp_path / "started").read_text())
    for _ in range(100):
        if not _runs(pid):
            return
        time.sleep(0.05)
    pytest.fail("what the compiler had started still runs")


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_a_compiler_that_is_gone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(tmp_path / "cc", '{cc} "$@"')
    monkeypatch.setenv("CC", str(tmp_path / "cc"))
    expect_kernels()
    (tmp_path / "cc").unlink()
    expect_ops("could not be run: ")


def test_a_compiler_that_is_no_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "cc").write_bytes(b"\x7fELF is what it is not")
    (tmp_path / "cc").chmod(0o700)
    monkeypatch.setenv("CC", str(tmp_path / "cc"))
    expect_ops("could not be run: ")


def test_a_path_without_a_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(compilers, "find_spec", lambda name: None)
    expect_ops("there is no compiler of C")


def test_a_compiler_may_have_arguments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(tmp_path / "wrapped", 'echo "$1" > "${0%/*}/first"; "$@"')
    monkeypatch.setenv("CC", f"{tmp_path / 'wrapped'} {shutil.which('cc') or shutil.which('gcc')}")
    expect_kernels()
    assert (tmp_path / "first").read_text().strip().endswith("cc")


def test_no_more_files_may_be_mapped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def failing(name: str, *args: Any) -> None:
        raise OSError(f"{name}: failed to map segment from shared object")

    with monkeypatch.context() as patch:
        patch.setattr(ctypes, "CDLL", failing)
        expect_ops("failed to map segment")
    assert files_of(tmp_path / "cache") == []
    expect_kernels()


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EMFILE, errno.EPERM])
def test_without_files_in_memory_there_are_others(error: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def failing(*args: Any) -> int:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "memfd_create", failing, raising=False)
    expect_kernels()


@pytest.mark.parametrize("call", ["replace", "open"])
def test_a_disk_that_is_full_when_a_kernel_is_kept(call: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real: Callable[..., Any] = getattr(os, call)

    def full(path: Any, *args: Any, **kwargs: Any) -> Any:
        if str(path).startswith("new-"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(path, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(os, call, full)
        expect_kernels()
    assert files_of(tmp_path / "cache") == []
    expect_kernels()
    assert len(files_of(tmp_path / "cache")) == 1


def test_files_that_may_not_grow(tmp_path: Path) -> None:
    """A whole process that can write no file of more than a page, which the system itself sees to."""
    run_limited("RLIMIT_FSIZE", "4096", """
import warnings
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    for number in range(2):
        f = gs.CompilationUnit(f"def f(x):\\n    return torch.exp(x) * {number + 2}\\n").f
        assert np.allclose(f(np.zeros(3)), number + 2)
assert len(told) == 1 and "kernels in C cannot be built" in str(told[0].message), [str(t.message) for t in told]
""", tmp_path)  # fmt: skip
    assert files_of(tmp_path / "cache") == []


def test_what_was_kept_and_does_not_load_is_built_again(tmp_path: Path) -> None:
    """As on another machine of the same home, where less is installed."""
    text = "int answer(void)\n{\n    return 42;\n}\n"
    store, put = KernelStore("c"), KernelStore.put
    library._LOADED.pop(text, None)
    names: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KernelStore, "put", lambda self, name, content: (names.append(name), put(self, name, content)))
        library.load_module(text, ["answer"])
    store.put(names[0], b"for another machine")
    library._LOADED.pop(text)
    assert library.load_module(text, ["answer"]).answer() == 42
    kept = store.get(names[0])
    assert kept is not None and kept.startswith(b"\x7fELF")


# --- memory ---

ROADS = """
def call(f, x):
    return f(x)
def vjp(f, x):
    y, pullback = gs.vjp(f, x)
    return pullback(y)[0]
def tape(f, x):
    v = gs.tape.Variable(x)
    f(v).sum().backward()
    return v.grad.data
def torch_call(f, x):
    import torch
    return f(torch.from_numpy(x)).numpy()
def torch_recorded(f, x):
    import torch
    t = torch.from_numpy(x).requires_grad_()
    f(t).sum().backward()
    return t.grad.numpy()
"""


def test_no_memory_for_results(tmp_path: Path) -> None:
    """A process with room for the argument and not for what is made of it, on every road, new to it and prepared."""
    run_limited("RLIMIT_AS", "resource.RLIM_INFINITY", ROADS + """
import gc
for run in (call, vjp, tape, torch_call, torch_recorded):
    f = gs.CompilationUnit(
        "def f(x):\\n    y = torch.exp(x)\\n    return torch.cat([y, y * 2, y + 1])\\n", "big.grad"
    ).f
    small, large = np.ones(1 << 12, np.float32), np.ones(1 << 23, np.float32)
    wanted = run(f, small)
    if run not in (call, tape):
        run(f, large), run(f, large), run(f, large)
    gc.collect()
    gs.memory.empty_cache()
    hold = np.ones(1 << 23, np.float32)
    resource.setrlimit(limited, (held() + (40 << 20), resource.RLIM_INFINITY))
    before = gs.memory.stats().in_use
    for _ in range(2):
        try:
            run(f, large)
        except gs.RuntimeFailure as failure:
            assert failure.code == "R103" and "big.grad:" in str(failure), failure
        else:
            raise SystemExit(f"there was memory for {run.__name__}")
    assert (large == 1).all() and gs.memory.stats().in_use == before, (before, gs.memory.stats())
    resource.setrlimit(limited, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert all(np.array_equal(a, b) for a, b in zip(run(f, small), wanted))
""", tmp_path)  # fmt: skip


def test_no_memory_for_what_kernels_need_besides() -> None:
    unit = gs.CompilationUnit("def f(x):\n    y = torch.exp(x)\n    return (y / y.sum(-1, keepdim=True)).cumsum(0)\n")
    x = np.random.default_rng(0).standard_normal((64, 100)).astype(np.float32)
    wanted = unit.f(x)
    run = launched.LaunchedKernels.run
    with pytest.MonkeyPatch.context() as patch:

        def without_memory(self: launched.LaunchedKernels, *args: Any) -> None:
            for launch in self.launches:
                launch.scratch = 1 << 60
            with pytest.raises(MemoryError):
                run(self, *args)
            raise MemoryError

        patch.setattr(launched.LaunchedKernels, "run", without_memory)
        for threads in (1, 3):
            with gs.settings.num_threads(threads):
                np.testing.assert_allclose(unit.f(x), wanted, rtol=1e-5)
                _, pullback = gs.vjp(unit.f, x)
                assert np.isfinite(pullback(x)[0]).all()


def test_the_arena_gives_what_waits_before_it_says_that_there_is_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    first = ARENA.empty((1 << 20,), np.dtype(np.float32))
    del first
    assert gs.memory.stats().waiting
    real, failures = np.empty, iter([True, False])

    def empty(*args: Any, **kwargs: Any) -> Any:
        if next(failures):
            raise MemoryError
        return real(*args, **kwargs)

    before = gs.memory.stats().in_use
    with monkeypatch.context() as patch:
        patch.setattr(np, "empty", empty)
        second = ARENA.empty((1 << 21,), np.dtype(np.float32))
    assert gs.memory.stats().waiting == 0 and gs.memory.stats().in_use > before
    del second
    assert gs.memory.stats().in_use == before


def run_limited(limit: str, most: str, body: str, tmp_path: Path) -> None:
    """Run a text in a process of its own, whose resources are limited."""
    text = f"""
import os, resource
import gradscript as gs, numpy as np
def held():
    return int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
gs.settings.backend = "c"
limited = resource.{limit}
import torch
torch.ones(1).exp()
gs.CompilationUnit("def g(x):\\n    return x * 2\\n").g
resource.setrlimit(limited, ({most}, resource.RLIM_INFINITY))
{body}
"""
    environment = {**os.environ, "GRADSCRIPT_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", text]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
