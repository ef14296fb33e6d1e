"""What a tensor is: memory on some kind of device, or a stand-in that takes torch's ops."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import torch

SYMBOLIC = "symbolic"
"""What stands in the place of a kind of device for tensors without memory."""
BY_OPS = frozenset(("cpu", "meta", SYMBOLIC))
"""Kinds for which no kernels are planned."""
PLAIN = frozenset((torch.Tensor, torch.nn.Parameter))
_PROXIES = torch._C._TorchDispatchModeKey.PROXY
_modes: Callable[[], int] = torch._C._len_torch_dispatch_stack
_is_functional: Callable[[Any], bool] = torch._is_functional_tensor
_is_batched: Callable[[Any], bool] = torch._C._functorch.is_batchedtensor
is_batch_of_gradients: Callable[[Any], bool] = torch._C._functorch.is_legacy_batchedtensor
is_on_cpu: Callable[[Any], bool] = attrgetter("is_cpu")
dispatch_keys: Callable[[Any], Any] = torch._C._dispatch_keys
"""What a tensor is to torch's dispatcher: on which device, of which layout, batched, functional, put off negating …"""


def is_recorded() -> bool:
    """Whether torch records the ops that are called now, of plain tensors too (`make_fx`)."""
    return bool(_modes()) and torch._C._get_dispatch_mode(_PROXIES) is not None


def has_dispatch(tensor: Any) -> bool:
    """Whether a tensor's class says itself what torch's ops do with it: fake, functional and distributed ones."""
    return type(tensor) not in PLAIN and type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__


def is_batched(tensor: Any) -> bool:
    """Whether a tensor is one sample's, and stands for those of all (`torch.func.vmap`, `is_grads_batched`)."""
    return _is_batched(tensor) or is_batch_of_gradients(tensor)


def kind_of(tensor: Any) -> str:
    """The kind of device that a tensor is on, as `torch.device.type` names it, or SYMBOLIC."""
    if has_dispatch(tensor) or _is_functional(tensor) or is_batched(tensor):
        return SYMBOLIC
    if is_on_cpu(tensor):
        return "cpu"
    kind: str = tensor.device.type
    return kind
