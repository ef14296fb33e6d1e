"""Pointwise ops for one dtype: where the types of the operands are known, the whole expression as one function.

    aten::sigmoid on float32, rank 2      def evaluate(a0):
                                              r1 = negative(a0)
                                              r2 = exp(r1, r1)
                                              r3 = add(one, r2, r2)
                                              return divide(one, r3, r3)

It gives, bit for bit, what `Pointwise.evaluate` gives, without looking at the operands: constants are converted
beforehand, each primitive is called at once, and a temporary's memory takes the next result. The text of the function
is put together from numbered names alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ...lang.light_dataclasses import dataclass
from ..types.dtypes import FLOAT32, FLOAT64, DType
from .arrays import numpy_dtype
from .elementwise import SYMBOLIC, Pointwise, SpecializedOp
from .program import numpy_number
from .registry import Op
from .scalar import CONSTANT, EVALUATED, LIMITS, PARAMETER, ScalarStep


@dataclass(frozen=True, eq=False, slots=True)
class TensorOperand:
    """A tensor among the arguments, of which at least one dimension is known to be there."""


TENSOR = TensorOperand()
CONDITION = TensorOperand()
"""A tensor of bools, for a parameter that is read as one."""
Typed = tuple[Callable[..., Any], tuple[int, ...]]
"""The function, and which of the op's arguments it takes."""
_MAX_TYPED = 4096
_KEYWORD_OUT = (np.maximum, np.minimum)
"""NumPy wants these told by name where to write; to the others, the place among the arguments is quicker."""


def typed_evaluation(op: Op, arguments: Sequence[Any], dtype: DType) -> Typed | None:
    """The op for tensors of `dtype` at TENSOR, and constants elsewhere; None where only `evaluate` will do.

    At CONDITION, which must be one of the op's conditions, stands a tensor of bools.
    """
    if dtype not in (FLOAT32, FLOAT64) or not isinstance(op.scalar, Pointwise):
        return None
    if any(isinstance(argument, list) for argument in arguments):
        return None
    # repr tells 0.0 from -0.0, and 1 from 1.0 and True.
    key = tuple([a if isinstance(a, TensorOperand) else repr(a) for a in arguments])
    return _cached(op, key, _Arguments(tuple(arguments)), dtype)


class _Arguments(tuple[Any, ...]):
    """Arguments that stand beside their key: equal to any others, so that the cache goes by the key."""

    __slots__ = ()

    def __new__(cls, values: tuple[Any, ...]) -> _Arguments:
        return super().__new__(cls, values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Arguments)

    def __hash__(self) -> int:
        return 0


@lru_cache(maxsize=_MAX_TYPED)
def _cached(op: Op, key: Hashable, arguments: _Arguments, dtype: DType) -> Typed | None:
    pointwise: Pointwise = op.scalar
    tensors = tuple(i for i, a in enumerate(arguments) if isinstance(a, TensorOperand))
    numbers = {i for i in tensors if arguments[i] is TENSOR}
    if not numbers:
        return None
    sample = [np.ones(1, numpy_dtype(dtype) if i in numbers else np.bool_) for i in tensors]
    given = list(arguments)
    for index, array in zip(tensors, sample, strict=True):
        given[index] = array
    try:
        # Checks go by dtypes and constants.
        pointwise.require(given)
        special = pointwise.specialize([SYMBOLIC if isinstance(a, TensorOperand) else a for a in arguments])
    except Exception:
        # The op refuses its constants; that is an error where it runs, and not before.
        return None
    if not special.keeps_floats or not special.promoting_tensors or not numbers <= set(special.promoting):
        return None
    # A constant beyond the dtype's range is infinite.
    with np.errstate(all="ignore"):
        function = _function(special, arguments, tensors, numpy_dtype(dtype))
    wanted = numpy_dtype(special.rule.result(dtype))
    return (function, tensors) if _gives(function, sample, wanted) else None


def _gives(function: Callable[..., Any], sample: Sequence[Any], wanted: np.dtype[Any]) -> bool:
    """Whether the result has the dtype that it is to have, tried out."""
    with np.errstate(all="ignore"):
        result = function(*sample)
    return type(result) is np.ndarray and result.dtype == wanted


def _function(
    special: SpecializedOp, arguments: Sequence[Any], tensors: tuple[int, ...], dtype: np.dtype[Any]
) -> Callable[..., Any]:
    steps = special.steps
    root = steps[-1]
    primitive = EVALUATED[root.op].evaluate if root.op in EVALUATED else None
    leaves = [steps[o] for o in root.operands]
    if isinstance(primitive, np.ufunc) and [(s.op, s.value) for s in leaves] == [(PARAMETER, t) for t in tensors]:
        return primitive
    return _FunctionText(steps, arguments, tensors, dtype).build()


class _FunctionText:
    """The text of a function, line by line, and the objects that its names stand for.

    `reach` are the tensors on which a value depends: its shape is that of all of them broadcast together.
    """

    def __init__(
        self, steps: Sequence[ScalarStep], arguments: Sequence[Any], tensors: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        self._steps = steps
        self._arguments = arguments
        self._tensors = tensors
        self._dtype = dtype
        self._names: list[str] = []
        self._reach: list[frozenset[int]] = []
        self._scope: dict[str, Any] = {}
        self._lines: list[str] = []
        self._last = {operand: i for i, step in enumerate(steps) for operand in step.operands}

    def build(self) -> Callable[..., Any]:
        for index, step in enumerate(self._steps):
            name, reach = self._step(index, step)
            self._names.append(name)
            self._reach.append(reach)
        parameters = ", ".join(f"a{t}" for t in self._tensors)
        body = "".join(f"    {line}\n" for line in self._lines)
        text = f"def evaluate({parameters}):\n{body}    return {self._names[-1]}\n"
        exec(compile(text, "<pointwise>", "exec"), self._scope)
        function: Callable[..., Any] = self._scope["evaluate"]
        return function

    def _step(self, index: int, step: ScalarStep) -> tuple[str, frozenset[int]]:
        if step.op == PARAMETER and step.value in self._tensors:
            return f"a{step.value}", frozenset((step.value,))
        if not step.operands:
            self._scope[f"c{index}"] = self._leaf(step)
            return f"c{index}", frozenset()
        evaluate = EVALUATED[step.op].evaluate
        function = partial(evaluate, dtype=self._dtype) if step.op == "number" else evaluate
        self._scope[f"f{index}"] = function
        reach = frozenset[int]().union(*(self._reach[o] for o in step.operands))
        operands = [self._names[o] for o in step.operands]
        reused = self._reused(index, step, reach) if isinstance(function, np.ufunc) else None
        if reused:
            operands.append(f"out={reused}" if function in _KEYWORD_OUT else reused)
        given = ", ".join(operands)
        self._lines.append(f"r{index} = f{index}({given})")
        return f"r{index}", reach

    def _leaf(self, step: ScalarStep) -> Any:
        if step.op == PARAMETER:
            return numpy_number(self._arguments[step.value], self._dtype)
        if step.op == CONSTANT:
            return numpy_number(step.value, self._dtype)
        return numpy_number(LIMITS[step.op](self._dtype), self._dtype)

    def _reused(self, index: int, step: ScalarStep, reach: frozenset[int]) -> str | None:
        """A temporary that ends here, of the result's shape and dtype, which may take the result."""
        if step.kind != "number" or not reach:
            return None
        for operand in step.operands:
            is_own = self._steps[operand].kind == "number" and self._is_fresh(operand)
            if is_own and self._last[operand] == index and self._reach[operand] == reach:
                return self._names[operand]
        return None

    def _is_fresh(self, operand: int) -> bool:
        """Whether a value is an array of its own: what a ufunc made, not an operand handed on."""
        step = self._steps[operand]
        return bool(step.operands) and isinstance(self._scope[f"f{operand}"], np.ufunc)
