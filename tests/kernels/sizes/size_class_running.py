"""Runs functions and their gradients for many sizes by Triton's interpreter, by plans for classes and by exact ones.

A script for a process of its own, for Triton decides when it is imported whether it interprets:

    TRITON_INTERPRET=1 python size_class_running.py FUNCTION …
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import gradscript as gs
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))
SIZES = (48, 64, 65, 51, 39, 7, 132, 40, 1)


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def results_of(function: Any, size: int) -> list[bytes]:
    """What a function gives, and its gradients for two kinds of seeds, to the bit."""
    x, w = draw(size, 16).requires_grad_(), draw(16).requires_grad_()
    try:
        y = function(x, w)
    except gs.RuntimeFailure as failure:
        return [str(failure).splitlines()[0].encode()]
    plain = torch.full((), 0.5).expand(y.shape)
    seeds = [draw(*y.shape) if y.dim() else torch.tensor(0.7), plain]
    found = [gradient for seed in seeds for gradient in torch.autograd.grad(y, [x, w], seed, retain_graph=True)]
    return [tensor.detach().contiguous().numpy().tobytes() for tensor in (y, *found)]


def main(names: list[str]) -> None:
    import kernel_running
    from gradscript.runtime.kernels.runner import KernelGraph
    from gradscript.runtime.kernels.size_classes import SizeClasses
    from kernel_device import kernel_device
    from sized_functions import TEXT

    kernel_running._give_libdevice_to_the_interpreter()
    unit, other = gs.CompilationUnit(TEXT), gs.CompilationUnit(TEXT)
    patch, met = pytest.MonkeyPatch(), []
    find = SizeClasses.find
    with kernel_device(patch, KernelGraph):
        for name in names:
            with patch.context() as noted:
                noted.setattr(SizeClasses, "find", lambda *given: met.append(find(*given)) or met[-1])
                found = [results_of(unit[name], size) for size in SIZES]
            with patch.context() as exact:
                exact.setattr(SizeClasses, "find", lambda *given: None)
                exact.setattr(SizeClasses, "plan", lambda *given: None)
                wanted = [results_of(other[name], size) for size in SIZES]
            for size, have, want in zip(SIZES, found, wanted, strict=True):
                assert have == want, (name, size)
            print(f"ok      {name}", flush=True)
    assert any(met), "nothing ran by a plan for a class"


if __name__ == "__main__":
    main(sys.argv[1:])
