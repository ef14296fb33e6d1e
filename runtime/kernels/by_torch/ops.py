"""An op run by torch: our schemas are torch's, so what it has under the same name is called there."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import cache
from operator import attrgetter
from typing import Any

import numpy as np
import torch

from ....compiler.ops.registry import Op, Trait
from ....compiler.types.types import ListType, OptionalType, TensorType, Type
from ...values.tensor_memory import memory_of
from ...values.torch_dtypes import tensor_of
from ..capture import outside_of_capture
from .draws import SEEDED, drawn
from .forms import FORMS, is_of_floats, takes

BOUND: dict[str, Callable[..., Any]] = {
    "aten::matmul": torch.matmul,
    "aten::mm": torch.mm,
    "aten::bmm": torch.bmm,
    "aten::t": torch.t,
    "aten::transpose.int": torch.transpose,
    "aten::permute": torch.permute,
    "aten::view": torch.Tensor.view,
    "aten::reshape": torch.reshape,
    "aten::select.int": torch.select,
    "aten::unsqueeze": torch.unsqueeze,
    "aten::squeeze.dim": torch.squeeze,
    # A tuple is none of the language's lists.
    "aten::unbind.int": lambda tensor, dim: [*torch.unbind(tensor, dim)],
    "aten::mT": attrgetter("mT"),
}
"""What stands between kernels most often, by torch's own bindings, which take half of the time to parse arguments that
`torch.ops` does."""

_OF_NUMBERS = ("tensor", "as_tensor")
"""Which torch has twice: as TorchScript runs them, a number is rounded to the default dtype before any other."""


@cache
def op_function(op: Op, device: torch.device) -> Callable[..., Any]:
    """What gives the result of an op on tensors of a device, for its arguments; several as a list or tuple.

    Ops that torch does not have under this name are evaluated on the CPU, by their definition on arrays.
    """
    name = op.schema.full_name
    if _moves_values(op) and name not in FORMS:
        return op.evaluate
    if name in SEEDED:
        return drawn(op, device, lambda *arguments: _by_definition(op, arguments, device))
    function = _torch_function(op)
    if function is None:
        return lambda *arguments: _by_definition(op, arguments, device)
    if name in FORMS:
        form, is_picky = function, is_of_floats(name)
        if not is_picky:
            return form
        return lambda *given: form(*given) if takes(name, given) else _by_definition(op, given, device)
    names = [argument.name for argument in op.schema.arguments if argument.keyword_only]
    if not names:
        return BOUND.get(name, function)
    count = len(op.schema.arguments) - len(names)
    assert all(argument.keyword_only for argument in op.schema.arguments[count:])

    def run(*arguments: Any) -> Any:
        named = dict(zip(names, arguments[count:], strict=True))
        if "device" in named:
            named["device"] = device
        return function(*arguments[:count], **named)

    return run


def is_literal(op: Op) -> bool:
    """Whether an op makes a tensor of numbers that stand in its arguments, which the host has to copy to a device."""
    return not any(holds_tensor(part.type) for part in op.schema.arguments) and _is_by_definition(op)


def is_of_torch(op: Op) -> bool:
    """Whether an op runs by torch's own, or moves values about, and never by its definition on arrays."""
    return _moves_values(op) or _torch_function(op) is not None


def _is_by_definition(op: Op) -> bool:
    return not _moves_values(op) and not op.has(Trait.RANDOM) and _torch_function(op) is None


def _moves_values(op: Op) -> bool:
    """Whether an op is of lists, or of numbers: it neither looks into a tensor nor makes one."""
    return not any(holds_tensor(part.type) for part in (*op.schema.arguments, *op.schema.returns))


def holds_tensor(type: Type) -> bool:
    """Whether values of a type are tensors, or lists of them."""
    while isinstance(type, ListType | OptionalType):
        type = type.element
    return isinstance(type, TensorType)


def _torch_function(op: Op) -> Callable[..., Any] | None:
    """torch's op of the same name, overload and arguments, or what stands for one of ours."""
    if op.schema.full_name in FORMS:
        return FORMS[op.schema.full_name]
    namespace, _, name = op.schema.name.partition("::")
    if namespace != "aten" or name in _OF_NUMBERS:
        return None
    packet = getattr(torch.ops.aten, name, None)
    found = getattr(packet, op.schema.overload or "default", None)
    if found is None or any(_is_generic(argument.type) for argument in found._schema.arguments):
        return None
    theirs = [(argument.name, argument.kwarg_only) for argument in found._schema.arguments]
    ours = [(argument.name, argument.keyword_only) for argument in op.schema.arguments]
    function: Callable[..., Any] = found
    return function if theirs == ours else None


def _is_generic(type: Any) -> bool:
    """Whether a type is TorchScript's "of any type", to which no Python value converts."""
    while type.kind() in ("ListType", "OptionalType"):
        type = type.getElementType()
    return bool(type.kind() == "VarType")


def _by_definition(op: Op, arguments: Sequence[Any], device: torch.device) -> Any:
    result = op.evaluate(*[_to_array(argument) for argument in arguments])
    return _to_tensor(result, device)


def _to_array(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return memory_of(value.detach().cpu())
    return [_to_array(item) for item in value] if isinstance(value, list | tuple) else value


def _to_tensor(value: Any, device: torch.device) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return tensor_of(np.array(value, order="C")).to(device)
    return type(value)(_to_tensor(item, device) for item in value) if isinstance(value, list | tuple) else value


def constant_tensor(array: Any, device: torch.device) -> torch.Tensor:
    """A constant of a graph on a device."""
    with outside_of_capture(device):
        found: torch.Tensor = _to_tensor(np.asarray(array), device)
    return found


def without_autocast(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Ops are called in the dtypes of their arguments, which is what was planned for."""
    if torch.is_autocast_enabled(device.type):
        found: contextlib.AbstractContextManager[Any] = torch.autocast(device.type, enabled=False)
        return found
    return contextlib.nullcontext()


__all__ = ["constant_tensor", "is_literal", "is_of_torch", "op_function", "without_autocast"]
