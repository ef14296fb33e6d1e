"""A program under test: compiled, with torch's answers beside it."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import gradscript as gs
import numpy as np
import torch
from eager import Eager, Outcome, slope
from fuzzed_program import Call, FuzzedProgram, leaves
from gradscript.compiler.types.types import ListType, TupleType, Type, is_tensor

TOLERANCE = 1e-9
LOSS = "weighted_loss"


class Mismatch(Exception):
    """Something else than torch gives."""


@dataclass
class Subject:
    program: FuzzedProgram

    @cached_property
    def unit(self) -> gs.CompilationUnit:
        return gs.CompilationUnit(self.program.source)

    @property
    def f(self) -> gs.Function:
        return self.unit["f"]

    def with_other_numbers(self) -> Subject:
        """The same compiled functions, called with the opposite of each number in a tensor."""
        other = Subject(FuzzedProgram(self.program.source, -self.program.scale))
        other.__dict__.update(unit=self.unit)
        return other

    @cached_property
    def eager(self) -> Eager:
        return Eager(self.program)

    @cached_property
    def _outcomes(self) -> dict[tuple[int, int], Outcome]:
        return {}

    def expected(self, which: int = 0, order: int = 2) -> Outcome:
        """torch's answer to a call. Second gradients cost as much as all else."""
        known = self._outcomes.get((which, 2)) or self._outcomes.get((which, order))
        if known is None:
            known = self._outcomes[which, order] = self.eager.run(self.program.calls[which], order)
        return known

    @property
    def calls(self) -> list[Call]:
        return self.program.calls

    @cached_property
    def loss_source(self) -> str:
        """The program, and a function of the same parameters for the number that is differentiated."""
        return f"{self.program.source}\n\n{loss_text(self.program.source, [r.type for r in self.f.schema.returns])}"

    @cached_property
    def loss(self) -> gs.Function:
        return gs.CompilationUnit(self.loss_source)[LOSS]

    def differentiable(self, call: Call) -> list[int]:
        """The positions of the parameters that hold tensors in a call, by position or by name.

        None where a tuple holds one, of which gs.grad takes no gradient.
        """
        if any(isinstance(value, tuple) and Call(value, {}).shapes for value in (*call.args, *call.kwargs.values())):
            return []
        names = [argument.name for argument in self.f.schema.arguments]
        given = {**dict(zip(names, call.args, strict=False)), **call.kwargs}
        tensors = Call(tuple(given.values()), {}).shapes
        held = [i for i, name in enumerate(names) if name in given and Call((given[name],), {}).shapes]
        assert len(tensors) == len(call.shapes)
        return held

    # --- holding to torch ---

    def check_value(self, found: Any, expected: Outcome, what: str = "value") -> None:
        if expected.failure is not None:
            raise Mismatch(f"{what}: torch raises {expected.failure!r}, this gives {found!r}")
        check_nesting(found, expected.value, what)
        for i, (ours, theirs) in enumerate(zip(leaves(found), expected.leaves, strict=True)):
            check_equal(ours, theirs, f"{what}, leaf {i}")

    def check_gradients(self, found: Sequence[Any], expected: Sequence[Any] | None, what: str) -> None:
        """One gradient per tensor of the arguments; none stands for zeros."""
        if expected is None:
            return
        flat = leaves(list(found))
        if len(flat) != len(expected):
            raise Mismatch(f"{what}: {len(flat)} gradients for {len(expected)} tensors")
        for i, (ours, theirs) in enumerate(zip(flat, expected, strict=True)):
            check_gradient(ours, theirs, f"{what}, tensor {i}")


def cotangents(value: Any) -> Any:
    """What to pull back, in the nesting of a result."""
    if isinstance(value, list | tuple):
        return type(value)([cotangents(item) for item in value])
    is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
    return slope(value).numpy() if is_float else None


def check_nesting(found: Any, expected: Any, what: str) -> None:
    if isinstance(expected, list | tuple):
        if not isinstance(found, list | tuple) or len(found) != len(expected):
            raise Mismatch(f"{what}: {found!r} where torch has {expected!r}")
        for ours, theirs in zip(found, expected, strict=True):
            check_nesting(ours, theirs, what)
    elif isinstance(found, list | tuple):
        raise Mismatch(f"{what}: {found!r} where torch has {expected!r}")


def check_equal(found: Any, expected: Any, what: str) -> None:
    if not isinstance(expected, torch.Tensor):
        if type(found) is not type(expected) or not _is_same(found, expected):
            raise Mismatch(f"{what}: {found!r} where Python has {expected!r}")
        return
    if isinstance(found, bool | int | float | None):
        raise Mismatch(f"{what}: {found!r} where torch has {expected!r}")
    ours, theirs = array_of(found), expected.detach().numpy()
    if ours.dtype != theirs.dtype:
        raise Mismatch(f"{what}: dtype {ours.dtype} where torch has {theirs.dtype}")
    _check_close(ours, theirs, what)


def _is_same(found: Any, expected: Any) -> bool:
    if isinstance(expected, float):
        return bool(np.isclose(found, expected, rtol=TOLERANCE, equal_nan=True))
    return bool(found == expected)


def check_gradient(found: Any, expected: Any, what: str) -> None:
    if found is None and expected is None:
        return
    if found is None or expected is None:
        there = array_of(expected if found is None else found)
        # A gradient of zeros and none at all are the same to whoever adds it.
        if there.any():
            whose = "torch has" if found is None else "torch has none, this"
            raise Mismatch(f"{what}: none where {whose} {there!r}" if found is None else f"{what}: {whose} {there!r}")
        return
    _check_close(array_of(found), array_of(expected), what)


def _check_close(ours: np.ndarray[Any, Any], theirs: np.ndarray[Any, Any], what: str) -> None:
    if ours.shape != theirs.shape:
        raise Mismatch(f"{what}: shape {ours.shape} where torch has {theirs.shape}")
    if not theirs.size:
        return
    finite = theirs[np.isfinite(theirs)]
    scale = max(1.0, float(np.abs(finite).max())) if finite.size else 1.0
    if not np.allclose(ours, theirs, rtol=TOLERANCE, atol=TOLERANCE * scale, equal_nan=True):
        raise Mismatch(f"{what}:\n{ours!r}\nwhere torch has\n{theirs!r}")


def array_of(value: Any) -> np.ndarray[Any, Any]:
    if isinstance(value, gs.tape.Variable):
        value = value.data
    return value.detach().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)


# --- the number that is differentiated, in the language ---


def loss_text(source: str, returns: Sequence[Type]) -> str:
    """A function that calls `f`, and sums what it returns as `eager.weighed` does."""
    (f,) = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef) and node.name == "f"]
    names = [f"r{i}" for i in range(len(returns))]
    positional = [argument.arg for argument in f.args.args]
    passed = [*positional, *(f"{argument.arg}={argument.arg}" for argument in f.args.kwonlyargs)]
    lines = [
        f"def {LOSS}({ast.unparse(f.args)}):",
        f"    {', '.join(names)} = f({', '.join(passed)})",
        "    total = torch.zeros([], dtype=torch.float64)",
    ]
    for name, type in zip(names, returns, strict=True):
        lines += _added(name, type, 1)
    return "\n".join([*lines, "    return total", ""])


def _added(name: str, type: Type, depth: int) -> list[str]:
    pad = "    " * depth
    if is_tensor(type):
        return [f"{pad}total = total + ({name} * torch.cos({name})).sum()"]
    if isinstance(type, ListType):
        inner = _added(f"{name}_", type.element, depth + 1)
        return [f"{pad}for {name}_ in {name}:", *inner] if inner else []
    if isinstance(type, TupleType):
        return [line for i, item in enumerate(type.elements) for line in _added(f"{name}[{i}]", item, depth)]
    return []
