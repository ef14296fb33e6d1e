"""ArgumentSpec: what of a call's arguments a plan is specialised on, and how it is found quickly.

Sizes, strides and the values of numbers are no part of it. Neither is what is inside lists, as in torch; tuples are
looked into.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from ...compiler.ir.graph import Graph
from ...compiler.ir.node import Value
from ...compiler.ops.arrays import dtype_of
from ...compiler.types.dtypes import DType
from ...compiler.types.types import (
    NONE,
    UNDEFINED,
    OptionalType,
    TensorType,
    TupleType,
    Type,
    is_tensor,
    strip_optional,
)
from ...lang.light_dataclasses import dataclass
from .uniform import Leaders, uniformity


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One tensor argument. One that is not defined (an absent optional, an undefined gradient) has nothing else."""

    defined: bool
    requires_grad: bool = False
    dtype: DType | None = None
    rank: int | None = None
    device: str = "cpu"

    def __str__(self) -> str:
        if not self.defined:
            return "undefined"
        grad = ", requires_grad" if self.requires_grad else ""
        return f"{self.dtype}, rank={self.rank}, {self.device}{grad}"


@dataclass(frozen=True, slots=True)
class OptionalSpec:
    """An optional argument that is no tensor."""

    present: bool

    def __str__(self) -> str:
        return "present" if self.present else "absent"


ArgumentPart = TensorSpec | OptionalSpec | tuple[Any, ...] | None
"""What is known of one argument: a tuple for a tuple, None for what plans do not depend on."""


@dataclass(frozen=True, slots=True)
class ArgumentSpec:
    """The key of a plan. `grad_mode` says whether gradients are recorded, which they are if an argument needs one."""

    grad_mode: bool
    arguments: tuple[ArgumentPart, ...]
    leaders: Leaders | None = None
    """Whose shape all tensors and sizes are known to have, in a graph that sums to sizes."""

    def types(self, declared: Sequence[Type]) -> list[Type]:
        """The types of a graph's inputs, made as precise as the arguments are known."""
        return [_specialized(t, a) for t, a in zip(declared, self.arguments, strict=True)]

    def __str__(self) -> str:
        parts = ["-" if part is None else str(part) for part in self.arguments]
        modes = " with gradients" * self.grad_mode + " of one shape" * (self.leaders is not None)
        return f"({'; '.join(parts)}){modes}"


def _specialized(type: Type, part: ArgumentPart) -> Type:
    if isinstance(part, TensorSpec):
        if not part.defined:
            return NONE if isinstance(type, OptionalType) else UNDEFINED
        known = strip_optional(type)
        declared = known if isinstance(known, TensorType) else TensorType()
        dtype = part.dtype if declared.dtype is None else declared.dtype
        rank = part.rank if declared.rank is None else declared.rank
        return TensorType(dtype, rank, part.requires_grad)
    if isinstance(part, OptionalSpec):
        return strip_optional(type) if part.present else NONE
    if isinstance(part, tuple) and isinstance(strip_optional(type), TupleType):
        inner = strip_optional(type)
        assert isinstance(inner, TupleType)
        return TupleType(tuple(_specialized(t, p) for t, p in zip(inner.elements, part, strict=True)))
    return type


def seen_type(declared: TensorType, value: Any) -> TensorType:
    """The type of a tensor that was seen, where its declared type says less."""
    dtype = dtype_of(value) if declared.dtype is None else declared.dtype
    return TensorType(dtype, value.ndim if declared.rank is None else declared.rank, declared.requires_grad)


# --- describing arguments ---

Describe = Callable[[Any, bool], ArgumentPart]


def _tensor(value: Any, requires_grad: bool) -> ArgumentPart:
    if value is None:
        return TensorSpec(False)
    dtype = dtype_of(value)
    return TensorSpec(True, requires_grad and dtype.is_floating, dtype, value.ndim)


def _expected(value: Any, requires_grad: bool) -> ArgumentPart:
    """A tensor that is not there is one of another branch than the one taken, or a gradient that branch had none of:
    of either a plan knows nothing."""
    return None if value is None else _tensor(value, requires_grad)


def _optional(value: Any, _: bool) -> ArgumentPart:
    return OptionalSpec(value is not None)


def _nothing(value: Any, _: bool) -> ArgumentPart:
    return None


def _describer(type: Type) -> Describe:
    """Types are as deep as an annotation in source, so this recurses."""
    inner = strip_optional(type)
    if is_tensor(inner):
        return _tensor if isinstance(type, OptionalType) else _expected
    if isinstance(type, OptionalType):
        return _optional
    if isinstance(inner, TupleType):
        elements = [_describer(element) for element in inner.elements]

        def describe(value: Any, requires_grad: bool) -> ArgumentPart:
            return tuple([part(v, requires_grad) for part, v in zip(elements, value, strict=True)])

        return describe
    return _nothing


class Signature:
    """How the arguments of one graph are described. What its types say already, a key leaves out."""

    def __init__(self, graph: Graph) -> None:
        types = [value.type for value in graph.inputs]
        self._describers = [_describer(type) for type in types]
        is_open = [(i, v.type) for i, v in enumerate(graph.inputs) if _is_open(v)]
        self._tensors = [i for i, type in is_open if is_tensor(strip_optional(type))]
        self._others = [(i, _key_part(type)) for i, type in is_open if i not in self._tensors]
        self.uniform = uniformity(graph)

    def key(self, values: Sequence[Any]) -> Hashable:
        """What tells apart arguments of different specs, without gradients, and is quick to make."""
        # What comes first tells it from the keys of those who know more of their arguments: no dtype does.
        key: list[Hashable] = [False if self.uniform is None else self.uniform(values)]
        for i in self._tensors:
            value = values[i]
            if value is None:
                key.append(None)
            else:
                key.append(value.dtype)
                key.append(value.ndim)
        for i, part in self._others:
            key.append(part(values[i]))
        return tuple(key)

    def spec(self, values: Sequence[Any], requires_grad: Sequence[bool] = (), grad_mode: bool = True) -> ArgumentSpec:
        """The spec of arguments; gradients count only where the mode is on and one argument at least needs one."""
        flags = [*requires_grad] if grad_mode and requires_grad else [False] * len(values)
        parts = [d(v, f) for d, v, f in zip(self._describers, values, flags, strict=True)]
        leaders = None if self.uniform is None else self.uniform(values)
        return ArgumentSpec(any(_needs_gradient(part) for part in parts), tuple(parts), leaders)


def _is_open(value: Value) -> bool:
    """Whether a plan may depend on more of an input than its type says."""
    type = value.type
    if not value.use_count:
        return False
    return not (isinstance(type, TensorType) and type.dtype is not None and type.rank is not None)


def _needs_gradient(part: ArgumentPart) -> bool:
    if isinstance(part, tuple):
        return any(_needs_gradient(item) for item in part)
    return isinstance(part, TensorSpec) and part.requires_grad


def _key_part(type: Type) -> Callable[[Any], Hashable]:
    inner = strip_optional(type)
    if is_tensor(inner):
        return _tensor_key
    if isinstance(type, OptionalType):
        return lambda value: value is not None
    if isinstance(inner, TupleType):
        elements = [_key_part(element) for element in inner.elements]
        return lambda value: tuple([part(v) for part, v in zip(elements, value, strict=True)])
    return _nothing_key


def _tensor_key(value: np.ndarray[Any, Any] | None) -> Hashable:
    return None if value is None else (value.dtype, value.ndim)


def _nothing_key(value: Any) -> Hashable:
    return None
