"""Prepares and launches kernels with a driver that records instead of a GPU's: compilation and arguments are real.

A script for a process of its own, for it takes the place of Triton's driver.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import gradscript as gs
import torch
from gradscript.compiler.autodiff.differentiable import differentiable_graph
from gradscript.compiler.codegen.triton.module import supports
from gradscript.compiler.fusion.fuse import fuse
from gradscript.compiler.kernel_ir.layout import Layout
from gradscript.compiler.ops.meta import Meta
from gradscript.compiler.types.dtypes import FLOAT32
from gradscript.compiler.types.guards import values_of_atoms
from gradscript.compiler.types.open_sizes import Symbols
from gradscript.runtime.kernels.launches.native import native_steps
from gradscript.runtime.kernels.launches.steps import LaunchedKernel
from gradscript.runtime.kernels.triton.kernel import TritonKernel, current_stream
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

ROOT = Path(__file__).parents[3]
STREAM = 1234
launches: list[tuple[Any, ...]] = []
loaded: list[str] = []


class Launcher:
    """What Triton makes of a compiled kernel's metadata, and calls with the grid, the stream and all arguments."""

    def __init__(self, source: Any, metadata: Any) -> None:
        self.metadata = metadata

    def __call__(self, *arguments: Any) -> None:
        launches.append(arguments)


class Utils:
    def load_binary(self, name: str, kernel: bytes, shared: int, device: int) -> tuple[object, str, int, int, int]:
        assert kernel[:4] == b"\x7fELF"
        loaded.append(name)
        return object(), f"function of {name}", 32, 0, 1024

    def get_device_properties(self, device: int) -> dict[str, int]:
        return {"max_shared_mem": 232_448, "multiprocessor_count": 132, "warpSize": 32}


class Driver:
    launcher_cls = Launcher
    utils = Utils()

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return STREAM


class OnDevice:
    """A tensor of the CPU that says it is on a GPU."""

    device = torch.device("cuda", 0)

    def __init__(self, tensor: torch.Tensor, offset: int = 0) -> None:
        self.tensor = tensor
        self.dtype = tensor.dtype
        self.offset = offset + 64 * id(tensor)

    def data_ptr(self) -> int:
        return 4096 + self.offset


def main() -> int:
    driver.set_active(Driver())
    unit = gs.CompilationUnit((ROOT / "benchmarks" / "suite.grad").read_text(encoding="utf-8"), "suite.grad")
    matrix, numbers = torch.zeros(64, 128), (1e-3, 0.9, 0.99, 1e-8, 0.1, 3.0)
    (info,) = unit.adamw.kernels(matrix, matrix, matrix, matrix, *numbers).forward
    kernel = TritonKernel(info.kernel, OnDevice.device)
    tensors = [OnDevice(torch.zeros(buffer.shape)) for buffer in info.kernel.buffers]
    given = [0.25 + i for i, _ in enumerate(info.kernel.parameters)]
    kernel.launch(tensors, given, current_stream(0))  # type: ignore[arg-type]
    kernel.launch(tensors, given, current_stream(0))  # type: ignore[arg-type]
    assert len(loaded) == 1, "the second launch is prepared"
    for launch in launches:
        assert launch[:4] == (*info.grid, STREAM)
        passed = launch[-len(info.signature) :]
        assert list(passed[: len(tensors)]) == [tensor.data_ptr() for tensor in tensors]
        assert passed[len(tensors)] == 64 * 128
        assert list(passed[len(tensors) + 1 :]) == [*given, *info.constants.values()]
    assert launches[-1][6:9] == (None, None, None), "nothing is done for hooks that are not there"
    launch_without_python(kernel, tensors, given)
    hook = [].append
    knobs.runtime.launch_enter_hook.add(hook)
    kernel.launch(tensors, given, STREAM)  # type: ignore[arg-type]
    knobs.runtime.launch_enter_hook.remove(hook)
    assert launches.pop()[7] is knobs.runtime.launch_enter_hook, "a profiler that hooks in is called"
    kernel.launch([OnDevice(t.tensor, 4) for t in tensors], given, STREAM)  # type: ignore[arg-type]
    assert len(loaded) == 2, "pointers that are not aligned have a kernel of their own"
    (empty,) = unit.swiglu.kernels(torch.zeros(0, 4), torch.zeros(0, 4)).forward
    nothing = [OnDevice(torch.zeros(0, 4))] * 3
    TritonKernel(empty.kernel, OnDevice.device).launch(nothing, [], STREAM)  # type: ignore[arg-type]
    assert len(launches) == 3, "nothing is launched for no elements"
    launch_for_other_sizes()
    refuse_planted_folders(unit)
    print("ok")
    return 0


def launch_without_python(kernel: TritonKernel, tensors: list[Any], given: list[float]) -> None:
    """A list of launches gives Triton what the kernel's own `launch` does."""
    slots = [*tensors, *given]
    buffers, numbers = range(len(tensors)), range(len(tensors), len(slots))
    run = native_steps([LaunchedKernel(kernel, [], [], buffers, numbers)], [()])
    if run is None:
        return
    kernel.launch(tensors, given, STREAM)
    for _ in range(3):
        run(slots, STREAM)
    assert kernel.direct((True,) * len(tensors)) is not None
    first, *others = launches[-4:]
    assert all(other == first for other in others), others
    del launches[-4:]


def launch_for_other_sizes() -> None:
    """What is compiled of a kernel for open sizes serves all that Triton does not compile for apart."""
    unit = gs.CompilationUnit("def turned(x, w):\n    return x.flip([0]) * w / x.size(0)\n")
    symbols = Symbols([64])
    (rows,) = symbols.sizes
    layouts = [Layout.contiguous(Meta(shape, FLOAT32)) for shape in ((rows, 128), (128,))]
    program = fuse(differentiable_graph(unit.turned.callee), layouts, supports)
    kernel = TritonKernel(program.kernels[0], OnDevice.device, is_open=True)
    before, counts = len(loaded), []
    for size in (64, 80, 16, 1600, 65, 79):
        closed = kernel.closed(values_of_atoms(symbols, [size]))
        tensors = [OnDevice(torch.zeros(size, 128)), OnDevice(torch.zeros(128)), OnDevice(torch.zeros(size, 128))]
        closed.launch(tensors, [], STREAM)  # type: ignore[arg-type]
        counts.append(len(loaded) - before)
        exact = unit.turned.kernels(torch.zeros(size, 128), torch.zeros(128)).forward[0]
        assert launches[-1][:4] == (*exact.grid, STREAM)
        assert launches[-1][-4:-1] == (size, size, 128 * (size - 1)), launches[-1]
    assert counts == [1, 1, 1, 1, 2, 2], counts


def refuse_planted_folders(unit: gs.CompilationUnit) -> None:
    """What is launched is never taken from a folder that somebody else may have filled."""
    cache = Path(os.environ["GRADSCRIPT_CACHE"], "other")
    cache.mkdir(mode=0o700)
    os.environ["GRADSCRIPT_CACHE"] = str(cache)
    (cache / "triton").symlink_to(cache.parent / "triton")
    before = len(loaded)
    (info,) = unit.swiglu.kernels(torch.zeros(8, 4), torch.zeros(8, 4)).forward
    tensors = [OnDevice(torch.zeros(8, 4)) for _ in info.kernel.buffers]
    try:
        TritonKernel(info.kernel, OnDevice.device).launch(tensors, [], STREAM)  # type: ignore[arg-type]
    except gs.RuntimeFailure as failure:
        assert failure.code == "R104" and "triton is a link; remove it, or set GRADSCRIPT_CACHE" in str(failure)
    else:
        raise AssertionError("a link was followed")
    assert len(loaded) == before
    shutil.rmtree(cache)


if __name__ == "__main__":
    sys.exit(main())
