"""Calls on CPU tensors told apart and run without Python: `text/tensors.c` and what is built behind it, which ask torch
by its functions for DLPack.

It needs the headers of Python, beside a compiler, and a torch that has such functions. Where there are none, calls go
the longer way, to the same results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple, Protocol

import torch
from torch.autograd import forward_ad

from ...settings.modes import BEGUN, TOUCHED, usual_backend
from ...values.torch_dtypes import has_other_default
from .entry import TEXTS, types
from .library import build_extensions, extension


class Kinds(Protocol):
    """What was prepared, by the values that it is for."""

    def __call__(self, values: Sequence[Any]) -> Any:
        """The result of what was prepared for such values, called with these and with the same with arrays for tensors;
        NotImplemented where nothing was."""

    def add(self, kind: Any) -> None:
        """Have one tried first; of too many the oldest is dropped."""

    def clear(self) -> None:
        """Drop all."""


class TensorTypes(NamedTuple):
    """What the texts have."""

    kind: Callable[..., Any]
    """Of what was prepared, the values it was for, NumPy's dtypes for those that are tensors, whether torch recorded,
    the backend, and the places where any int may stand."""
    kinds: Callable[[], Kinds]
    run: Callable[..., Any]
    """Of what runs a program of values and arrays for them, and of its constants: the same by kernels, once it was told
    of these (`enter`)."""
    prepared: Callable[..., Any]
    """A call, of values and arrays for them, and both halves of its node."""
    dispatch: Callable[[Kinds, Callable[..., Any], Callable[[], bool] | None], Callable[..., Any]]
    """What calls what was prepared, or else a function: always, where it is said so."""
    new_tensors: Callable[[Sequence[Any], tuple[Any, ...]], list[Any] | None]
    """Tensors of arrays that own their memory; None where one does not, is there twice, or is one of some constants."""
    forward: Callable[..., Any]
    backward: Callable[..., Any]
    """Those of a node of what was prepared."""


_TEXTS = ("dlpack.c", "tensors.c", "calls.c", "nodes.c")
"""Parts of one module."""


@cache
def tensor_types() -> TensorTypes | None:
    """The types; None where they cannot be built."""
    exchange = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if exchange is not None:
        # Both are long.
        build_extensions({TEXTS: ["gs_types"], _TEXTS: ["gs_tensor_types"]})
    entries = types() if exchange is not None else None
    if entries is None:
        return None
    functions = extension(_TEXTS, "gs_tensor_types")
    if functions is None:
        return None
    quiet = (
        torch._C._are_functorch_transforms_active,
        torch._C._len_torch_dispatch_stack,
        torch._C._len_torch_function_stack,
        torch._C._get_tracing_state,
        torch._C._autograd._profiler_enabled,
        torch.is_anomaly_enabled,
        has_other_default,
    )
    found = functions[0](
        (
            *(exchange, torch.Tensor, torch.nn.Parameter),
            *(torch.is_grad_enabled, torch.from_numpy, quiet, forward_ad, usual_backend, TOUCHED, BEGUN, entries.bare),
            *(torch.is_autocast_enabled, torch.set_autocast_enabled),
        )
    )
    return None if found is None else TensorTypes(*found)
