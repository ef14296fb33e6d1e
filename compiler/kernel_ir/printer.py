"""Kernel IR as text, which `kernel_parser` reads back to the same kernel."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .index import Atom, AxisAtom, Index, Quotient, ValueAtom
from .kernel import (
    Axis,
    Buffer,
    Cast,
    Compute,
    Condition,
    Definition,
    Kernel,
    KernelConstant,
    Load,
    Operand,
    Position,
    Reduce,
    Statement,
    Store,
    Total,
    Uniform,
)


def print_kernel(kernel: Kernel) -> str:
    """The whole kernel. The places in the source from which it was made are not part of the text."""
    parameters = [*map(_buffer, kernel.buffers), *(f"%{p.name} : {p.dtype}" for p in kernel.parameters)]
    lines = [f"kernel {kernel.name}({', '.join(parameters)})"]
    if kernel.axes:
        lines.append(f"  axes {', '.join(map(_axis, kernel.axes))}")
    lines += [f"  {print_statement(statement, kernel)}" for statement in kernel.body]
    return "\n".join(lines) + "\n"


def print_statement(statement: Statement, kernel: Kernel) -> str:
    """One line."""
    text = _TEXTS[type(statement)](statement)
    if not isinstance(statement, Definition):
        return text
    axes = [axis.name for axis in kernel.axes if axis.name in statement.axes]
    return f"%{statement.name} : {statement.dtype} [{', '.join(axes)}] = {text}"


def print_index(index: Index) -> str:
    """`1000*i + j`, the constant last."""
    parts = [_term(coefficient, atom) for coefficient, atom in index.terms]
    if index.constant or not parts:
        parts.append(str(index.constant))
    return " + ".join(parts).replace("+ -", "- ")


def _term(coefficient: int, atom: Atom) -> str:
    # Quotients nest as deep as reshapes did not cancel.
    if coefficient == 1:
        return _atom(atom)
    return f"-{_atom(atom)}" if coefficient == -1 else f"{coefficient}*{_atom(atom)}"


def _atom(atom: Atom) -> str:
    if isinstance(atom, AxisAtom):
        return atom.name
    if isinstance(atom, ValueAtom):
        return f"%{atom.name}"
    return f"({print_index(atom.index)}){'//' if isinstance(atom, Quotient) else '%'}{atom.divisor}"


def _axis(axis: Axis) -> str:
    return f"{axis.name} < {axis.size} {axis.role}{' dynamic' if axis.dynamic else ''}"


def _buffer(buffer: Buffer) -> str:
    shape = ", ".join(map(str, buffer.shape))
    strides = "" if buffer.is_contiguous else f"; {', '.join(map(str, buffer.strides))}"
    place = f" at %{buffer.place_of}" if buffer.place_of else ""
    return f"%{buffer.name} : {buffer.dtype}[{shape}{strides}] {'out' if buffer.is_output else 'in'}{place}"


def _operand(operand: Operand) -> str:
    if isinstance(operand, Total):
        return f"{operand.size_of}:{operand.value}"
    return number_text(operand.value) if isinstance(operand, KernelConstant) else f"%{operand}"


def number_text(number: bool | int | float) -> str:
    """A literal: as Python writes it, with `inf` and `nan`."""
    if isinstance(number, float) and not math.isfinite(number):
        return "nan" if math.isnan(number) else ("inf" if number > 0 else "-inf")
    return repr(number)


def _where(conditions: tuple[Condition, ...]) -> str:
    if not conditions:
        return ""
    return " where " + ", ".join(f"{c.low} <= {print_index(c.index)} < {_high(c)}" for c in conditions)


def _high(condition: Condition) -> str:
    return f"{condition.size_of}:{condition.high}" if condition.size_of else str(condition.high)


def _load(load: Load) -> str:
    other = f" else {number_text(load.other)}" if load.conditions else ""
    return f"load %{load.buffer}[{print_index(load.index)}]{_where(load.conditions)}{other}"


def _reduce(reduce: Reduce) -> str:
    return f"reduce {reduce.combine} {_operand(reduce.operand)} over {', '.join(sorted(reduce.over))}"


def _store(store: Store) -> str:
    return f"store %{store.buffer}[{print_index(store.index)}], {_operand(store.operand)}{_where(store.conditions)}"


_TEXTS: dict[type[Statement], Callable[[Any], str]] = {
    Load: _load,
    Compute: lambda s: f"{s.primitive}({', '.join(map(_operand, s.operands))})",
    Cast: lambda s: f"cast {_operand(s.operand)}",
    Position: lambda s: f"position {print_index(s.index)}",
    Uniform: lambda s: f"uniform {_operand(s.seed)} at {print_index(s.counter)}",
    Reduce: _reduce,
    Store: _store,
}
