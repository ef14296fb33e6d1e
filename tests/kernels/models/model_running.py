"""Runs models with control flow, and their gradients, by Triton's interpreter, beside torch in float64.

A script for a process of its own, for Triton decides when it is imported whether it interprets:

    TRITON_INTERPRET=1 python model_running.py MODEL …
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))


def main(names: list[str]) -> None:
    import kernel_running
    from gradscript.runtime.kernels.runner import KernelGraph
    from gradscript.runtime.kernels.triton.kernel import TritonKernel
    from kernel_device import kernel_device
    from whole_models import UNIT, arguments, eager, flat, tensors

    kernel_running._give_libdevice_to_the_interpreter()
    launched: list[Any] = []
    launch = TritonKernel.launch

    def counted(kernel: TritonKernel, *given: Any) -> None:
        launched.append(kernel.kernel.name)
        launch(kernel, *given)

    TritonKernel.launch = counted  # type: ignore[method-assign]
    for name in names:
        given = tensors(arguments(name, 2))
        want = eager(name)(*given)
        wanted = torch.autograd.grad(want, flat(given), allow_unused=True)
        launched.clear()
        with kernel_device(pytest.MonkeyPatch(), KernelGraph):
            result = UNIT[name](*given)
            found = torch.autograd.grad(result, flat(given), allow_unused=True)
        assert launched
        for have, expected in zip([result, *found], [want, *wanted], strict=True):
            if expected is not None:
                np.testing.assert_allclose(have.detach(), expected.detach(), rtol=1e-9, atol=1e-10)
        print(f"ok      {name}: {len(launched)} launches", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
