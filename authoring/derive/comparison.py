"""An author's backward beside the derived one: how long each is, how much it computes, and what it keeps."""

from __future__ import annotations

import io
import tokenize
from textwrap import dedent
from typing import Any

from ...compiler.ir.graph import GradPair, without_backward
from ...compiler.ops.registry import OPS, Trait
from ...compiler.types.types import is_tensor
from ...compiler.unparse import unparse_function
from ...lang.light_dataclasses import asdict, dataclass, field
from ...runtime.face.function import Function
from .derivation import derivation_of
from .measuring import Costs, arguments_of, costs, reference_gradients


@dataclass(frozen=True, slots=True)
class Measured:
    """One backward: its words, its operations on tensors, and the tensors that it keeps of the forward."""

    words: int
    operations: int
    kept_tensors: int
    costs: Costs = field(default_factory=Costs)
    """Of a call on the same arguments, where such were asked for and found."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The author's backward and the derived one of a function."""

    name: str
    author: Measured
    derived: Measured
    text: str
    """The function with the derived backward."""
    reference: str = "float128"
    """In what the gradients were computed that errors are told against."""

    @property
    def ratio(self) -> float:
        """How long the derived one is beside the author's."""
        return self.derived.words / self.author.words

    def to_dict(self) -> dict[str, Any]:
        sides = {"author": asdict(self.author), "derived": asdict(self.derived)}
        ratio = round(self.ratio, 3)
        return {"name": self.name, **sides, "ratio": ratio, "reference": self.reference, "text": self.text}

    def __str__(self) -> str:
        measures = ("words", "operations", "tensors kept", "bytes kept", "flops", "kernels")
        rows: list[tuple[str, ...]] = [("", *measures, f"error to {self.reference}")]
        for name, side in (("author", self.author), ("derived", self.derived)):
            of_text = (side.words, side.operations, side.kept_tensors)
            found = side.costs
            measured = [_told(number) for number in (found.saved_bytes, found.flops, found.kernels)]
            error = "-" if found.error is None else f"{found.error:.0e}"
            rows.append((name, *map(str, of_text), *measured, error))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  " + "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([f"{self.name}:", *lines, "", self.text.rstrip("\n")])


def _told(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def compared(function: Function, *, measured: bool = False) -> Comparison:
    """The two backwards of a function that has one. ValueError where none can be derived.

    `measured` says to run both, on the first arguments that are found.
    """
    callee = function.callee
    if callee.pair is None:
        raise ValueError(f"'{function.name}' has no backward to compare with")
    found = derivation_of(Function(without_backward(callee)))
    assert found.callee.pair is not None
    author = unparse_function(callee)
    derived = Function(found.callee)
    arguments = arguments_of(function) if measured else None
    reference = reference_gradients(derived, arguments)
    return Comparison(
        function.name,
        _measured(author, callee.pair, costs(function, arguments, reference)),
        _measured(found.text, found.callee.pair, costs(derived, arguments, reference)),
        found.text,
        reference.precision,
    )


def _measured(text: str, pair: GradPair, found: Costs) -> Measured:
    tensors = [item for item in pair.context if is_tensor(item.type)]
    return Measured(_words(closure_text(text)), _operations(pair), len(tensors), found)


def _operations(pair: GradPair) -> int:
    """How many ops on tensors the backward has, sizes left out."""
    found = 0
    for node in pair.backward.all_nodes():
        op = OPS.of(node.schema)
        computes = op is not None and not op.has(Trait.SHAPE_ONLY)
        found += computes and any(is_tensor(value.type) for value in node.outputs)
    return found


def closure_text(text: str) -> str:
    """The lines of the closure in a printed function."""
    lines = text.split("\n")
    first = next(i for i, line in enumerate(lines) if line.startswith("    def "))
    last = next(i for i in range(first + 1, len(lines)) if lines[i] and not lines[i].startswith("        "))
    return dedent("\n".join(lines[first:last])) + "\n"


def _words(text: str) -> int:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(1 for token in tokens if token.string.strip())
