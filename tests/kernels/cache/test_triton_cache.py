"""What Triton compiled is kept in files that are checked, and nothing touches a driver before a launch."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import gradscript as gs
import numpy as np
import pytest
from gradscript.runtime.kernels.cache.folder import process_directory
from gradscript.runtime.kernels.listing import KernelInfo
from gradscript.runtime.kernels.triton import store as triton_store
from gradscript.runtime.kernels.triton.store import CheckedCache, checked_cache

pytest.importorskip("triton")


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRADSCRIPT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    return tmp_path / "cache"


def kernel() -> KernelInfo:
    unit = gs.CompilationUnit("def double(x):\n    return x + x\n")
    (info,) = unit.double.kernels(np.zeros((4, 100), np.float32)).forward
    return info


def stored() -> dict[Path, bytes]:
    """What the store holds."""
    return {path: path.read_bytes() for path in sorted(triton_store.STORE.directory.iterdir())}


def flip(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.fixture
def puts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are written, in order."""
    written: list[str] = []
    put = CheckedCache.put

    def noted(self: CheckedCache, data: object, filename: str, binary: bool = True) -> str:
        written.append(filename)
        return put(self, data, filename, binary)

    monkeypatch.setattr(CheckedCache, "put", noted)
    return written


def test_what_was_compiled_is_found(puts: list[str], directory: Path) -> None:
    info = kernel()
    with checked_cache():
        first = info.compile("sm_90")
        assert any(name.endswith(".cubin") for name in puts)
        puts.clear()
        before = stored()
        again = info.compile("sm_90")
    assert not puts and stored() == before
    assert again.code == first.code
    assert not list((directory.parent / "triton").glob("**/*.cubin"))


@pytest.mark.parametrize(
    "spoil", [flip, lambda content: content[:-1], lambda content: content[: len(content) // 2], lambda content: b""]
)
def test_a_spoilt_artifact_is_compiled_again(spoil: Callable[[bytes], bytes], puts: list[str]) -> None:
    """Whichever it is: machine code, metadata, or the list of both."""
    info = kernel()
    with checked_cache():
        first = info.compile("sm_90")
        whole = stored()
        assert len(whole) >= 4
        for path, content in whole.items():
            path.write_bytes(spoil(content))
            puts.clear()
            assert info.compile("sm_90").code == first.code
            assert any(name.endswith(".cubin") for name in puts), path
            assert path.read_bytes() == content


def _linked(path: Path) -> None:
    elsewhere = path.parent.parent / f"{path.name}.elsewhere"
    elsewhere.write_bytes(path.read_bytes())
    path.unlink()
    path.symlink_to(elsewhere)


def _piped(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("put", [_linked, _piped, _folder, lambda path: path.chmod(0o666)])
def test_what_is_no_file_of_ours_is_compiled_again(put: Callable[[Path], None]) -> None:
    """It is neither read through nor waited for."""
    info = kernel()
    with checked_cache():
        first = info.compile("sm_90")
        for path in stored():
            put(path)
        assert info.compile("sm_90").code == first.code


def test_what_was_laid_out_is_no_source_of_later_reads() -> None:
    """The plain files that Triton reads are written from checked content each time."""
    info = kernel()
    with checked_cache():
        first = info.compile("sm_90")
        for path in process_directory().glob("**/*.cubin"):
            path.write_bytes(flip(path.read_bytes()))
        assert info.compile("sm_90").code == first.code


def test_other_kernels_of_triton_go_where_they_went() -> None:
    from triton import knobs

    before = knobs.cache.manager_class
    with checked_cache():
        assert knobs.cache.manager_class is CheckedCache
    assert knobs.cache.manager_class is before


FORKED = """
import os, sys
import numpy as np, gradscript as gs
f = gs.CompilationUnit("def f(x):\\n    return torch.relu(x * 2).sum(-1)\\n").f
text = f.kernels(np.zeros((5, 8), np.float32)).forward[0].text
assert not {"torch", "triton"} & set(sys.modules)

import torch
from gradscript.compiler.autodiff.differentiable import differentiable_graph
from gradscript.runtime.kernels.runner import KernelGraph
x = torch.linspace(-1, 1, 40).reshape(5, 8)
run = KernelGraph(differentiable_graph(f.callee))
assert run.fixed([x]).kernels[0].text
assert "triton" not in sys.modules and not torch.cuda.is_initialized()

child = os.fork()
if not child:
    try:
        assert f.kernels(np.zeros((5, 8), np.float32)).forward[0].text == text
        (result,) = run([x])
        assert torch.allclose(result, torch.relu(x * 2).sum(-1))
    except BaseException as error:
        print(repr(error), flush=True)
        os._exit(1)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
(result,) = run([x])
assert torch.allclose(result, torch.relu(x * 2).sum(-1))
print("both ran")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_planning_touches_no_driver_and_survives_a_fork() -> None:
    pytest.importorskip("torch")
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    run = subprocess.run([sys.executable, "-c", FORKED], env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0 and run.stdout == "both ran\n", run.stdout + run.stderr


_LIMITED = """
import resource, signal, sys
import gradscript as gs
import numpy as np
from gradscript.runtime.kernels.failure import KernelFailure
from gradscript.runtime.kernels.triton.store import checked_cache
unit = gs.CompilationUnit("def double(x):\\n    return x + x\\n")
(info,) = unit.double.kernels(np.zeros((4, 100), np.float32)).forward
before = resource.getrlimit(resource.RLIMIT_FSIZE)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for limit in (0, 512, 4000, before[0]):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        with checked_cache():
            print(len(info.compile("sm_90").code) > 0)
    except KernelFailure as failure:
        print("set GRADSCRIPT_CACHE" in str(failure))
"""


def test_files_that_may_not_grow_are_told_and_then_made() -> None:
    done = subprocess.run([sys.executable, "-c", _LIMITED], capture_output=True, text=True, timeout=300)
    assert done.stdout.split() == ["True"] * 4, done.stderr


_WRITER = """
from gradscript.runtime.kernels.triton.store import CheckedCache
for k in range(10**6):
    cache = CheckedCache(f"key{k % 5}")
    cache.put_group("group", {name: cache.put(f"{k % 5}{name}" * 40000, name) for name in ("a.cubin", "a.json")})
    if k == 0:
        print("begun", flush=True)
"""


def test_a_writer_that_is_killed_leaves_whole_files_or_none() -> None:
    for wait in (0.0, 0.003, 0.01, 0.02):
        with subprocess.Popen([sys.executable, "-c", _WRITER], stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None and writer.stdout.readline() == "begun\n"
            time.sleep(wait)
            writer.kill()
    found = 0
    for k in range(5):
        cache = CheckedCache(f"key{k}")
        for name in ("a.cubin", "a.json"):
            path = cache.get_file(name)
            if path is not None:
                found += 1
                assert Path(path).read_text() == f"{k}{name}" * 40000
    assert found >= 2
