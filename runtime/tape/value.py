"""The values of the tape: arrays whose operations are recorded, so that gradients can be taken of them."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock
from typing import Any, Self, TypeVar
from weakref import ReferenceType, ref

import numpy as np

from ...compiler.ops.arrays import Array, dtype_of
from ..operands.operand import RecordedOperand
from ..operands.snippets import operate
from ..values.arrays import to_array
from ..values.containers import alike
from ..values.given import flag
from ..values.unsuitable import Unsuitable
from .node import AccumulateGrad, Edge, Hook, RemovableHandle, TapeNode

_ACCUMULATORS = Lock()


class TapeValue(RecordedOperand):
    """What the tape knows of a Variable: the array, and where its gradient goes.

    What users hold is the class above, `Variable`, whose methods call the engine and compiled functions.
    """

    __slots__ = ("__weakref__", "_accumulator", "_data", "_grad", "_requires_grad", "grad_fn", "hooks", "slot")

    grad_fn: TapeNode | None
    """The node that this is an output of; None for a leaf."""

    def __init__(self, array: Any, requires_grad: bool | None = None) -> None:
        self._data = _array_of(array)
        floating = dtype_of(self._data).is_floating
        self._requires_grad = floating if requires_grad is None else flag(requires_grad, "requires_grad")
        if self._requires_grad and not floating:
            raise TypeError(f"a Variable of {self._data.dtype} has no gradient: only floating arrays have")
        self.grad_fn = None
        self.slot = 0
        self.hooks: dict[int, Hook] | None = None
        self._grad: TapeValue | None = None
        self._accumulator: ReferenceType[AccumulateGrad] | None = None

    # --- what it is ---

    @property
    def data(self) -> Array:
        """The array itself. May be set, to one of the same dtype if a gradient is required."""
        return self._data

    @data.setter
    def data(self, value: Any) -> None:
        array = _array_of(value)
        if self._requires_grad and not dtype_of(array).is_floating:
            raise TypeError(f"a Variable that requires a gradient cannot hold {array.dtype}")
        if array.shape != self.shape or array.dtype != self.dtype:
            # Where gradients used to go expects the old shape.
            self._accumulator = None
        self._data = array

    @property
    def grad(self) -> TapeValue | None:
        """The gradient accumulated so far; None before there is one."""
        return self._grad

    @grad.setter
    def grad(self, value: Any) -> None:
        gradient = None if value is None else as_variable(value)
        if gradient is not None and gradient.shape != self.shape:
            raise ValueError(f"the gradient has shape {list(gradient.shape)}, its Variable {list(self.shape)}")
        self._grad = gradient

    @property
    def requires_grad(self) -> bool:
        """Whether gradients are taken of it. May be set on a leaf."""
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if self.grad_fn is not None:
            raise RuntimeError("only a leaf may be told whether it requires a gradient: use `.detach()`")
        wanted = flag(value, "requires_grad")
        if wanted and not dtype_of(self._data).is_floating:
            raise TypeError(f"a Variable of {self._data.dtype} has no gradient: only floating arrays have")
        self._requires_grad = wanted

    @property
    def is_leaf(self) -> bool:
        """Whether a user made it, instead of an operation that is recorded."""
        return self.grad_fn is None

    @property
    def shape(self) -> tuple[int, ...]:
        return self._data.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._data.dtype

    @property
    def ndim(self) -> int:
        return self._data.ndim

    # --- gradients ---

    def accumulate(self, gradient: Any, create_graph: bool) -> None:
        """Add to `.grad` what a backward gives: a Variable if it is recorded, else an array."""
        before = self._grad
        if create_graph:
            self.grad = gradient if before is None else before + gradient
        else:
            # A copy: the same array may be on its way elsewhere, and `.grad` is the user's.
            self._grad = _made(gradient.copy() if before is None else np.asarray(before._data + gradient), None, 0)

    def register_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(grad)` whenever a gradient of this is known; what it returns, if anything, replaces that.

        As in torch, `grad` is None where what uses this gave no gradient back.
        """
        if not self._requires_grad:
            raise RuntimeError("a hook is for a Variable that requires a gradient")
        if self.grad_fn is not None:
            return RemovableHandle(self.grad_fn.tensor_hooks(self.slot), hook)
        if self.hooks is None:
            self.hooks = {}
        return RemovableHandle(self.hooks, hook)

    def retain_grad(self) -> None:
        """Have `.grad` on what is no leaf, too."""
        if self.grad_fn is None:
            return
        reference = ref(self)

        def keep(gradient: TapeValue | None) -> None:
            variable = reference()
            if variable is not None and gradient is not None:
                variable.grad = gradient if variable.grad is None else variable.grad + gradient

        self.register_hook(keep)

    def detach(self) -> Self:
        """The same array, with no past."""
        return type(self)(self._data, requires_grad=False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        self.requires_grad = requires_grad
        return self

    @property
    def edge(self) -> Edge | None:
        """Where a gradient of this goes; None where none is wanted."""
        if not self._requires_grad:
            return None
        return Edge(self._accumulate_node(), 0) if self.grad_fn is None else Edge(self.grad_fn, self.slot)

    def _accumulate_node(self) -> AccumulateGrad:
        node = None if self._accumulator is None else self._accumulator()
        if node is not None:
            return node
        with _ACCUMULATORS:
            node = None if self._accumulator is None else self._accumulator()
            if node is None:
                node = AccumulateGrad(self)
                self._accumulator = ref(node)
            return node

    # --- Python ---

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if self._requires_grad:
            raise TypeError("a Variable that requires a gradient becomes an array by `.data`, or `.detach()`")
        return np.array(self._data, dtype=dtype, copy=copy)

    def numpy(self) -> Array:
        """The array; TypeError where that would lose a gradient."""
        return self.__array__()

    def tolist(self) -> Any:
        return self._data.tolist()

    def item(self) -> Any:
        """The element as a number of Python; ValueError unless there is exactly one."""
        if self._data.size != 1:
            raise ValueError(f"a Variable of shape {[*self.shape]} is no single number: choose one, or reduce it first")
        return self._data.item()

    def __bool__(self) -> bool:
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        found = self.item()
        if not isinstance(found, int):
            raise TypeError(f"a Variable of {self._data.dtype} is no index: it takes one of ints, as of `.long()`")
        return found

    def __float__(self) -> float:
        return float(self.item())

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("a Variable of no dimensions has no length")
        return len(self._data)

    def __iter__(self) -> Iterator[TapeValue]:
        if not self.ndim:
            raise TypeError("a Variable of no dimensions has nothing to iterate over")
        return iter(operate("{}.unbind(0)", self))

    def __repr__(self) -> str:
        text = np.array2string(self._data, prefix="Variable(", separator=", ")
        past = f", grad_fn={self.grad_fn!r}" if self.grad_fn is not None else ""
        return f"Variable({text}, {self._data.dtype}{past or (', requires_grad=True' if self._requires_grad else '')})"


class _Class:
    """The class of what the tape makes: the one that is here, until `Variable` takes its place."""

    made: type[TapeValue] = TapeValue


MadeValue = TypeVar("MadeValue", bound=TapeValue)


def made_by_the_tape(cls: type[MadeValue]) -> type[MadeValue]:
    """Let a class be that of whatever the tape makes: users hold it, and its methods start what stands above."""
    _Class.made = cls
    return cls


def _array_of(value: Any) -> Array:
    try:
        return value.data if isinstance(value, TapeValue) else to_array(value)
    except Unsuitable as error:
        raise TypeError(f"a Variable is made of an array: {error.message}") from None


def as_variable(value: Any) -> TapeValue:
    """A Variable as it is; anything else without a past."""
    return value if isinstance(value, TapeValue) else _made(_array_of(value), None, 0)


def without_past(data: Array) -> TapeValue:
    """A native array as a Variable."""
    return _made(data, None, 0)


def recorded(data: Array, node: TapeNode, slot: int) -> TapeValue:
    """The Variable of a node's slot."""
    return _made(data, node, slot)


def _made(data: Array, node: TapeNode | None, slot: int) -> TapeValue:
    """A Variable of a native array, unchecked: of each op there is one."""
    variable = _Class.made.__new__(_Class.made)
    variable._data = data
    variable._requires_grad = node is not None
    variable.grad_fn = node
    variable.slot = slot
    variable.hooks = None
    variable._grad = None
    variable._accumulator = None
    return variable


def needs_gradient(value: Any) -> bool:
    """Whether a value is a Variable that requires a gradient, or a list or tuple with one in it."""
    if isinstance(value, TapeValue):
        return value._requires_grad
    return isinstance(value, list | tuple) and any(map(needs_gradient, value))


def plain(value: Any) -> Any:
    """A value with arrays in the place of Variables, inside lists and tuples too."""
    if isinstance(value, TapeValue):
        return value._data
    return alike(value, [plain(item) for item in value]) if isinstance(value, list | tuple) else value


def wrapped(value: Any) -> Any:
    """A value with Variables in the place of arrays, inside lists and tuples too."""
    if isinstance(value, np.ndarray):
        return _made(value, None, 0)
    return alike(value, [wrapped(item) for item in value]) if isinstance(value, list | tuple) else value
