"""One kernel, run by Triton: its text, its build, and launches that cost little."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from functools import cached_property
from threading import RLock
from types import ModuleType
from typing import Any

import torch

from ...compiler.codegen.triton import (
    COMPILE_OPTIONS,
    configuration,
    constants,
    dynamic_axes,
    emit_triton,
    grid,
)
from ...compiler.fusion.kernel import Kernel
from ...compiler.fusion.schedule import Schedule, choose_schedule
from .store import KernelStore

ALIGNMENT = 16
"""Bytes. Triton makes wide loads of pointers that are multiples of it, and takes them for granted in what it built."""
_TEXTS = KernelStore("text")
_BUILDING = RLock()
_MODULES: dict[str, ModuleType] = {}


def load_module(text: str) -> ModuleType:
    """The module of a generated text. Triton reads the source of a kernel from its file, so there is one."""
    with _BUILDING:
        found = _MODULES.get(text)
        if found is None:
            path = _TEXTS.text_file(".py", text)
            spec = importlib.util.spec_from_file_location(f"gradscript_{path.stem}", path)
            assert spec is not None and spec.loader is not None
            found = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(found)
            _MODULES[text] = found
        return found


class TritonKernel:
    """A kernel with its schedule. Nothing touches a driver before the first launch."""

    def __init__(self, kernel: Kernel, schedule: Schedule | None = None) -> None:
        self.kernel = kernel
        self.schedule = schedule if schedule is not None else choose_schedule(kernel)
        self.grid = grid(kernel, self.schedule)
        self._sizes = tuple(axis.size for axis in dynamic_axes(kernel))
        self._constants = constants(kernel, self.schedule)
        self._options = {**configuration(self.schedule), **COMPILE_OPTIONS}
        self._prepared: dict[Any, Callable[..., None]] = {}

    @cached_property
    def text(self) -> str:
        """The Triton module."""
        return emit_triton(self.kernel, self.schedule)

    @cached_property
    def function(self) -> Any:
        """Triton's own object for the kernel, or for its interpretation."""
        module = load_module(self.text)
        return next(f for f in vars(module).values() if getattr(f, "__name__", "") == self.kernel.name)

    def launch(self, tensors: Sequence[torch.Tensor], numbers: Sequence[float]) -> None:
        """Run on the current stream of the tensors' device. Tensors are those of the buffers, in their order."""
        if 0 in self.grid:
            return
        arguments = (*tensors, *self._sizes, *numbers)
        device = tensors[0].device
        if device.type == "cpu":
            self.function[self.grid](*arguments, **self._constants, **self._options)
            return
        aligned = tuple([tensor.data_ptr() % ALIGNMENT == 0 for tensor in tensors])
        key = (device.index, aligned)
        run = self._prepared.get(key) or self._prepare(key, device, arguments)
        if torch.cuda.current_device() == device.index:
            run(*arguments, *self._constants.values())
            return
        with torch.cuda.device(device):
            run(*arguments, *self._constants.values())

    def _prepare(self, key: Any, device: torch.device, arguments: Sequence[Any]) -> Callable[..., None]:
        from .triton_store import checked_cache

        with _BUILDING, torch.cuda.device(device), checked_cache():
            compiled = self.function.warmup(*arguments, grid=self.grid, **self._constants, **self._options)
            run: Callable[..., None] = compiled[self.grid]
            self._prepared[key] = run
            return run
