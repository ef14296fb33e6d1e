"""Kernels whose launches torch's tracers record: `torch.library.wrap_triton`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch

from ....compiler.codegen.triton.module import portable_options
from .kernel import TritonKernel


class WrappedKernel(TritonKernel):
    """A TritonKernel whose launch is recorded, or made where nothing records it. Its schedule is the default one."""

    def launch(self, tensors: Sequence[torch.Tensor], numbers: Sequence[float], stream: int | None) -> None:
        """Record a launch on the current stream of the device."""
        if not self._is_empty:
            self._wrapped[self._grid](*tensors, *self._sizes, *numbers)

    @cached_property
    def _wrapped(self) -> Any:
        import triton

        built = self._built
        options = built.configuration if torch.version.hip is None else portable_options(built.configuration)
        # One configuration: the launch says how many warps it has, and nothing is tuned.
        only = triton.Config(dict(built.constants), **options)
        return torch.library.wrap_triton(triton.autotune(configs=[only], key=[])(built.function))
