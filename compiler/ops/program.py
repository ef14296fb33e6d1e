"""A scalar expression run on whole arrays: a linear program over registers, without recursion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..types.lazy_numpy import np
from .arrays import Array
from .scalar import CHOICES, CONSTANT, EVALUATED, LIMITS, PARAMETER, ScalarStep


class LinearProgram:
    """A linear program for one dtype of computation and one of the result: registers, constants filled in."""

    __slots__ = ("code", "dtype", "output", "parameters", "registers", "result")

    def __init__(self, steps: Sequence[ScalarStep], compute: np.dtype[Any], result: np.dtype[Any]) -> None:
        self.dtype = compute
        self.result = result
        self.parameters: list[tuple[int, int, bool]] = []
        self.registers: list[Any] = []
        self.code: list[tuple[Callable[..., Any], tuple[int, ...], int]] = []
        place: list[int] = []
        free: list[int] = []
        last_use = {operand: i for i, step in enumerate(steps) for operand in step.operands}
        for i, step in enumerate(steps):
            operands = tuple(place[operand] for operand in step.operands)
            # Temporaries that nobody needs afterwards give their register, and so their memory, to later ones.
            free += {place[o]: None for o in step.operands if last_use[o] == i and steps[o].operands}
            is_leaf = not step.operands
            place.append(free.pop() if free and not is_leaf else len(self.registers))
            if place[i] == len(self.registers):
                self.registers.append(self._leaf(step))
            if step.op == PARAMETER:
                self.parameters.append((step.value, place[i], step.kind == "bool"))
            elif not is_leaf:
                self.code.append((self._function(step), operands, place[i]))
        self.output = place[-1]

    def _leaf(self, step: ScalarStep) -> Any:
        if step.op == CONSTANT:
            return numpy_number(step.value, self.dtype)
        limit = LIMITS.get(step.op)
        return None if limit is None else numpy_number(limit(self.result), self.dtype)

    def _function(self, step: ScalarStep) -> Callable[..., Any]:
        choice = CHOICES.get(step.op) if self.result == np.float16 else None
        evaluate = EVALUATED[choice.otherwise if choice else step.op].evaluate
        return partial(evaluate, dtype=self.dtype) if step.op == "number" else evaluate

    def run(self, arguments: Sequence[Any]) -> Array:
        """Evaluate on one value per schema argument."""
        registers = self.registers.copy()
        for index, register, is_condition in self.parameters:
            registers[register] = self._operand(arguments[index], is_condition)
        for function, operands, register in self.code:
            registers[register] = function(*[registers[operand] for operand in operands])
        result = np.asarray(registers[self.output])
        return result if result.dtype == self.result else result.astype(self.result)

    def _operand(self, argument: Any, is_condition: bool) -> Any:
        if not isinstance(argument, np.ndarray):
            return bool(argument) if is_condition else numpy_number(argument, self.dtype)
        if is_condition:
            return argument if argument.dtype.kind == "b" else argument != 0
        return argument if argument.dtype == self.dtype else argument.astype(self.dtype)


def numpy_number(value: bool | int | float, dtype: np.dtype[Any]) -> Any:
    """A Python number as a NumPy scalar; integers wrap around as torch's do."""
    return dtype.type(value) if dtype.kind == "f" else np.asarray(value).astype(dtype)[()]
