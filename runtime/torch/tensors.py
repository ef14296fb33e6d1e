"""Tensors as arrays and arrays as tensors, and whose memory is whose.

An array is a view of its tensor's memory. A tensor made of an array shares the array's memory, but torch does not
know of it: two such tensors have version counters of their own, and torch would see no write through one of them to
what it saved as the other. So memory is tracked here (`TensorMemory`), and no two tensors that a call hands out share
any.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch.autograd import forward_ad

from ...compiler.ops.arrays import Array
from ...compiler.types.schema import Argument
from ...lang.source import Span
from ..failures.failure import RuntimeFailure
from ..values.arrays import check_torch, to_array
from ..values.containers import alike
from ..values.tensor_memory import NoMemory, memory_of
from ..values.torch_dtypes import dtypes_of_torch, tensor_of
from .devices import has_runner
from .kinds import SYMBOLIC, has_dispatch, is_batch_of_gradients, is_batched, is_recorded, kind_of

DTYPE_OF = dtypes_of_torch()


def checked(value: Any) -> Any:
    """An argument for a Tensor: a torch tensor as it is, anything else as an array; Unsuitable for what is neither."""
    if not isinstance(value, torch.Tensor):
        return to_array(value)
    if hasattr(value, "trigger_wait"):
        # What a collective of torch.distributed returns before it is done.
        return _Waited.apply(value)
    if not value.is_cpu or value.layout is not torch.strided or value.dtype not in DTYPE_OF or value.is_nested:
        check_torch(value, elsewhere=value.is_meta or has_dispatch(value) or has_runner(value.device.type))
    return value


class _Waited(torch.autograd.Function):  # type: ignore[misc] # torch is not typed here
    """The tensor that a collective gives, once it is there."""

    @staticmethod
    def forward(ctx: Any, value: Any) -> Any:
        return value.trigger_wait().detach()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient


def tensors_in(value: Any) -> Iterator[Any]:
    """The tensors and arrays in a value, in lists and tuples too."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, torch.Tensor | np.ndarray):
        yield value


def requires_grad(values: Sequence[Any]) -> bool:
    """Whether a tensor among the values, or in their lists and tuples, requires a gradient."""
    for value in values:
        if isinstance(value, torch.Tensor):
            if value.requires_grad:
                return True
        elif isinstance(value, list | tuple) and requires_grad(value):
            return True
    return False


def is_forward_mode() -> bool:
    """Whether dual tensors are computed with somewhere (`torch.autograd.forward_ad`)."""
    return forward_ad._current_level >= 0


def has_tangent(values: Sequence[Any]) -> bool:
    """Whether a tensor among the values is a dual one, of forward-mode differentiation."""
    if not is_forward_mode():
        return False
    found = [item for value in values for item in tensors_in(value) if isinstance(item, torch.Tensor)]
    plain = [tensor for tensor in found if not is_batch_of_gradients(tensor)]
    return any(forward_ad.unpack_dual(tensor).tangent is not None for tensor in plain)


def kind_of_gradient(tensor: Any) -> tuple[Any, ...]:
    """Shape, dtype and device; nothing of what is not floating."""
    return (tensor.shape, tensor.dtype, tensor.device) if tensor.dtype.is_floating_point else ()


def device_of(values: Sequence[Any]) -> str:
    """The kind of device that tensors are on: the first that is not the CPU; SYMBOLIC where torch records."""
    if is_recorded():
        return SYMBOLIC
    for value in values:
        if isinstance(value, torch.Tensor):
            found = kind_of(value)
        else:
            found = device_of(value) if isinstance(value, list | tuple) else "cpu"
        if found != "cpu":
            return found
    return "cpu"


def without_tangent(tensor: Any) -> Any:
    """What a dual tensor of the innermost level is the primal of; of a batch, one without tangents."""
    if not is_batched(tensor):
        return forward_ad.unpack_dual(tensor).primal
    functorch = torch._C._functorch
    samples = without_tangent(functorch.get_unwrapped(tensor))
    return functorch._add_batch_dim(samples, functorch.maybe_get_bdim(tensor), functorch.maybe_get_level(tensor))


def check_devices(function: str, arguments: Sequence[Argument], values: Sequence[Any], span: Span) -> None:
    """RuntimeFailure where tensors are on several devices. As in torch, a single number may be on the CPU."""
    found: dict[str, str] = {}
    for argument, value in zip(arguments, values, strict=True):
        for item in tensors_in(value):
            place = str(item.device) if isinstance(item, torch.Tensor) else "cpu"
            if place != "cpu" or item.ndim:
                found.setdefault(place, argument.name)
    if len(found) > 1:
        where = " and ".join(f"'{name}' on {place}" for place, name in found.items())
        message = f"the arguments are on several devices: {where}"
        raise RuntimeFailure("R003", function, message, span=span, notes=["move them to one: `x.to(…)`"])


def on_device(value: Any) -> Any:
    """The value as runners of other devices take it: numbers that are arrays become tensors, and what torch has put
    off negating is negated."""
    if isinstance(value, list | tuple):
        return alike(value, [on_device(item) for item in value])
    if isinstance(value, torch.Tensor):
        return value.resolve_neg() if value.is_neg() else value
    return tensor_of(value) if isinstance(value, np.ndarray) else value


def array_of(tensor: Any) -> Array:
    """A view of a CPU tensor's memory; of one whose negation torch has put off, a copy.

    RuntimeFailure (R003) for a tensor without memory: the batched one of `is_grads_batched=True`, a traced one.
    """
    try:
        plain = tensor.detach()
        if plain.is_neg():
            plain = plain.resolve_neg()
        return memory_of(plain)
    except (NoMemory, RuntimeError, TypeError) as error:
        message = f"a tensor has no memory to share: {str(error).splitlines()[0]}"
        notes = ["batches of gradients go through torch.func: `torch.func.vmap`, `torch.func.jacrev`"]
        raise RuntimeFailure("R003", "", message, notes=notes) from error
    except ValueError as error:
        message = f"a tensor of {tensor.dim()} dimensions: arrays have 64 at most"
        raise RuntimeFailure("R003", "", message, notes=["take some away: `x.flatten()`, `x.squeeze()`"]) from error


def _owner(array: Array) -> Any:
    """The object whose memory an array is a view of. Every view that NumPy makes leads there."""
    owner: Any = array
    base = array.base
    while base is not None:
        owner = base
        base = None if isinstance(owner, torch.Tensor) else getattr(owner, "base", None)
    return owner


class TensorMemory:
    """The tensors whose memory the arrays of one run are views of.

    `arrays` turns arguments into arrays. `owned` makes a tensor of a result that shares no memory with any tensor seen
    before; `shared` one that may be a view of such a tensor, by torch's own means, so that they have one version
    counter.
    """

    def __init__(self) -> None:
        self._tensors: dict[int, Any] = {}
        self._given: dict[int, Any] = {}
        # Kept so that no other object takes over an identity.
        self._arrays: list[Array] = []

    def arrays(self, values: Sequence[Any]) -> list[Any]:
        """Arguments with arrays for tensors, in lists and tuples too."""
        found: list[Any] = []
        for value in values:
            if isinstance(value, torch.Tensor):
                array = array_of(value)
                self.knows(array, value)
                found.append(array)
            elif isinstance(value, list | tuple):
                found.append(alike(value, self.arrays(value)))
            else:
                if isinstance(value, np.ndarray):
                    self._keep(value, None)
                found.append(value)
        return found

    def knows(self, array: Array, tensor: Any) -> None:
        """Such an array is a view of that tensor's memory."""
        self._keep(array, tensor)
        self._given[id(array)] = tensor

    def keeps(self, array: Array) -> None:
        """Nobody is handed such an array's memory."""
        self._keep(array, None)

    def owned(self, array: Any) -> Any:
        if not isinstance(array, np.ndarray):
            return array
        if id(_owner(array)) in self._tensors:
            # In the order in which it lies: NumPy takes twenty times as long to turn a large array over.
            return tensor_of(array.copy(order="K"))
        tensor = tensor_of(array)
        self._keep(array, tensor)
        return tensor

    def shared(self, array: Any) -> Any:
        if not isinstance(array, np.ndarray):
            return array
        tensor = self._tensors.get(id(_owner(array)))
        view = None if tensor is None else _view(tensor, array)
        return self.owned(array) if view is None else view

    def passed_on(self, array: Any) -> Any:
        """As `owned`, but for an argument that is returned as it came, the tensor itself."""
        given = self._given.get(id(array))
        return self.owned(array) if given is None else given

    def given(self, array: Any) -> Any:
        """The very tensor of an array that was given, or of one at the same place."""
        found = self._given.get(id(array))
        if found is None and isinstance(array, np.ndarray):
            places = [kept for kept in self._arrays if id(kept) in self._given and _is_at(array, kept)]
            found = self._given[id(places[0])] if places else None
        return self.viewed(array) if found is None else found

    def viewed(self, array: Any) -> Any:
        """A view of the tensor that was given, which requires a gradient where that one does."""
        tensor = self._tensors.get(id(_owner(array))) if isinstance(array, np.ndarray) else None
        view = None if tensor is None else _view(tensor, array, detached=False)
        return self.shared(array) if view is None else view

    def _keep(self, array: Array, tensor: Any) -> None:
        self._arrays.append(array)
        self._tensors.setdefault(id(_owner(array)), tensor)


def _is_at(array: Array, other: Array) -> bool:
    places = [(a.__array_interface__["data"][0], a.shape, a.strides, a.dtype) for a in (array, other)]
    return places[0] == places[1]


def _view(tensor: Any, array: Array, *, detached: bool = True) -> Any:
    """The array as a view of the tensor that owns its memory; None where torch cannot say it.

    Detached, it is to autograd a tensor of its own, but its version counter is the tensor's.
    """
    size = array.itemsize
    strides: Sequence[int] = array.strides
    if not array.size or DTYPE_OF[tensor.dtype].name != array.dtype.name:
        return None
    if any(stride < 0 or stride % size for stride in strides):
        return None
    storage = tensor.untyped_storage()
    offset = array.__array_interface__["data"][0] - storage.data_ptr()
    last = offset + sum((n - 1) * stride for n, stride in zip(array.shape, strides, strict=True))
    if offset < 0 or last + size > storage.nbytes():
        return None
    place = (array.shape, [stride // size for stride in strides], offset // size)
    return tensor.detach().as_strided(*place).detach() if detached else tensor.as_strided(*place)
