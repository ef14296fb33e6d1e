"""torch.func on a device with kernels: samples of programs whose lists and loops are followed to the tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from kernel_device import kernel_device
from torch.func import grad, vmap
from torch_programs import CASES


def _flat(result: Any) -> list[Any]:
    return [leaf for item in result for leaf in _flat(item)] if isinstance(result, list | tuple) else [result]


@pytest.mark.parametrize("name", ["loops", "lists", "calls own backward", "several outputs", "tuples and lists"])
def test_per_sample_gradients(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    samples = [torch.stack([t.detach() + i for i in range(3)]) for t in case.tensors()]

    def gradients(function: Any) -> Any:
        def loss(*inputs: Any) -> Any:
            outputs = _flat(function(*inputs, *case.extra))
            return sum((t * t).sum() for t in outputs if t.is_floating_point())

        return vmap(grad(loss, argnums=tuple(range(len(samples)))))(*samples)

    with kernel_device(monkeypatch):
        found = gradients(case.ours)
    for ours, eager in zip(found, gradients(case.eager), strict=True):
        torch.testing.assert_close(ours, eager, rtol=1e-10, atol=1e-10)
