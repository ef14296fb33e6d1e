"""The text of a kernel → the kernel. A hand-written reader: a line is a statement, and there are few kinds."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NoReturn

from ...lang.source import Source, Span
from ...lang.trampoline import Walk, run
from ..types.dtypes import BY_NAME, DType, Number
from .index import AxisAtom, Index, Quotient, Remainder, ValueAtom, constant
from .kernel import (
    IDENTITY,
    Axis,
    Buffer,
    Cast,
    Compute,
    Condition,
    Kernel,
    KernelConstant,
    KernelParameter,
    Load,
    Operand,
    Position,
    Reduce,
    Statement,
    Store,
    Total,
    Uniform,
)
from .layout import contiguous_strides

_TOKEN = re.compile(
    r"\s*(?:(?P<name>%[A-Za-z_]\w*)|(?P<word>[A-Za-z_]\w*)"
    r"|(?P<number>\d+(?:\.\d*)?(?:e[+-]?\d+)?)|(?P<sign>//|<=|[-+*%()\[\],:;<=]))",
    re.ASCII,
)
MAX_DEPTH = 50
"""Of quotients and remainders in one another."""
_ROLES = ("parallel", "reduction", "serial")
_LITERALS = ("True", "False", "inf", "nan")


class KernelSyntaxError(ValueError):
    """The text is no kernel; the message says what was expected, `.span` where."""

    def __init__(self, message: str, span: Span) -> None:
        self.span = span
        super().__init__(f"{span.source.filename}:{span.line}:{span.column}: {message}")


def parse_kernel(text: str, name: str = "<kernel>") -> Kernel:
    """Read a kernel back. KernelSyntaxError for text that is none; `verify_kernel` says whether it makes sense."""
    return _Reader(Source(text, name)).kernel()


class _Reader:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.tokens: list[tuple[str, str, int, int]] = []
        self.at = 0
        self.depth = 0
        position, end = 0, len(source.text.rstrip())
        while position < end:
            match = _TOKEN.match(source.text, position)
            if match is None:
                start = position + len(source.text[position:]) - len(source.text[position:].lstrip())
                raise KernelSyntaxError("this is no part of a kernel", Span(source, start, start + 1))
            kind = str(match.lastgroup)
            self.tokens.append((kind, match.group(kind), match.start(kind), match.end(kind)))
            position = match.end()
        self.tokens.append(("end", "", end, end))

    # --- tokens ---

    @property
    def kind(self) -> str:
        return self.tokens[self.at][0]

    @property
    def text(self) -> str:
        return self.tokens[self.at][1]

    def fail(self, expected: str) -> NoReturn:
        _, text, start, end = self.tokens[self.at]
        found = f", not '{text}'" if text else ", not the end of the text"
        raise KernelSyntaxError(f"expected {expected}{found}", Span(self.source, start, max(end, start)))

    def take(self, kind: str, expected: str) -> str:
        if self.kind != kind:
            self.fail(expected)
        self.at += 1
        return self.tokens[self.at - 1][1]

    def accept(self, text: str) -> bool:
        if self.text == text and self.kind in ("sign", "word"):
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.accept(text):
            self.fail(f"'{text}'")

    def name(self) -> str:
        return self.take("name", "a name such as %x")[1:]

    def integer(self) -> int:
        negative = self.accept("-")
        text = self.take("number", "an integer")
        if not text.isdigit():
            self.at -= 1
            self.fail("an integer")
        return -int(text) if negative else int(text)

    def dtype(self) -> DType:
        if self.text not in BY_NAME:
            self.fail("a dtype")
        return BY_NAME[self.take("word", "a dtype")]

    def listed(self, item: Callable[[], Any]) -> tuple[Any, ...]:
        items = [item()]
        while self.accept(","):
            items.append(item())
        return tuple(items)

    # --- the head ---

    def kernel(self) -> Kernel:
        self.expect("kernel")
        name = self.take("word", "the kernel's name")
        self.expect("(")
        given = () if self.text == ")" else self.listed(self._given)
        self.expect(")")
        axes = self.listed(self._axis) if self.accept("axes") else ()
        body: list[Statement] = []
        while self.kind != "end":
            body.append(self._statement())
        buffers = tuple(g for g in given if isinstance(g, Buffer))
        parameters = tuple(g for g in given if isinstance(g, KernelParameter))
        return Kernel(name, axes, buffers, parameters, tuple(body))

    def _given(self) -> Buffer | KernelParameter:
        name = self.name()
        self.expect(":")
        dtype = self.dtype()
        if not self.accept("["):
            return KernelParameter(name, dtype)
        shape = () if self.text in ("]", ";") else self.listed(self.integer)
        strides = contiguous_strides(shape)
        if self.accept(";"):
            strides = self.listed(self.integer)
            if len(strides) != len(shape):
                self.fail(f"{len(shape)} strides")
        self.expect("]")
        if self.text not in ("in", "out"):
            self.fail("'in' or 'out'")
        is_output = self.take("word", "'in' or 'out'") == "out"
        return Buffer(name, dtype, shape, strides, is_output, self.name() if self.accept("at") else "")

    def _axis(self) -> Axis:
        name = self.take("word", "an axis")
        self.expect("<")
        size = self.integer()
        if self.text not in _ROLES:
            self.fail(f"one of {', '.join(_ROLES)}")
        role: Any = self.take("word", "a role")
        return Axis(name, size, role, self.accept("dynamic"))

    # --- statements ---

    def _statement(self) -> Statement:
        if self.accept("store"):
            return self._store()
        name = self.name()
        self.expect(":")
        dtype = self.dtype()
        self.expect("[")
        axes = frozenset(() if self.text == "]" else self.listed(lambda: self.take("word", "an axis")))
        self.expect("]")
        self.expect("=")
        word = self.take("word", "an operation")
        read = _DEFINITIONS.get(word)
        return read(self, name, dtype, axes) if read is not None else self._compute(name, dtype, axes, word)

    def _store(self) -> Store:
        buffer = self.name()
        self.expect("[")
        index = self.index()
        self.expect("]")
        self.expect(",")
        operand = self.operand()
        return Store(buffer, index, operand, self._conditions())

    def _compute(self, name: str, dtype: DType, axes: frozenset[str], primitive: str) -> Compute:
        self.expect("(")
        operands = () if self.text == ")" else self.listed(self.operand)
        self.expect(")")
        return Compute(name, dtype, axes, primitive, operands)

    def load(self, name: str, dtype: DType, axes: frozenset[str]) -> Load:
        buffer = self.name()
        self.expect("[")
        index = self.index()
        self.expect("]")
        conditions = self._conditions()
        other: Number = 0
        if conditions:
            self.expect("else")
            other = self.literal()
        return Load(name, dtype, axes, buffer, index, conditions, other)

    def cast(self, name: str, dtype: DType, axes: frozenset[str]) -> Cast:
        return Cast(name, dtype, axes, self.operand())

    def position(self, name: str, dtype: DType, axes: frozenset[str]) -> Position:
        return Position(name, dtype, axes, self.index())

    def uniform(self, name: str, dtype: DType, axes: frozenset[str]) -> Uniform:
        seed = self.operand()
        self.expect("at")
        return Uniform(name, dtype, axes, seed, self.index())

    def reduce(self, name: str, dtype: DType, axes: frozenset[str]) -> Reduce:
        if self.text not in IDENTITY:
            self.fail(f"one of {', '.join(IDENTITY)}")
        combine: Any = self.take("word", "a reduction")
        operand = self.operand()
        self.expect("over")
        return Reduce(name, dtype, axes, combine, operand, frozenset(self.listed(lambda: self.take("word", "an axis"))))

    def _conditions(self) -> tuple[Condition, ...]:
        return self.listed(self._condition) if self.accept("where") else ()

    def _condition(self) -> Condition:
        low = self.integer()
        self.expect("<=")
        index = self.index()
        self.expect("<")
        size_of = self._size_of() if self.kind == "word" else ""
        return Condition(index, low, self.integer(), size_of)

    def _size_of(self) -> str:
        """The axis whose size a number is, where that stands before it."""
        name = self.take("word", "an axis")
        self.expect(":")
        return name

    # --- operands and indices ---

    def operand(self) -> Operand:
        if self.kind == "name":
            return self.name()
        if self.kind == "word" and self.text not in _LITERALS:
            size_of = self._size_of()
            return Total(self.integer(), size_of)
        return KernelConstant(self.literal())

    def literal(self) -> Number:
        if self.text in ("True", "False"):
            return self.take("word", "a literal") == "True"
        negative = self.accept("-")
        if self.text in ("inf", "nan"):
            number: Number = float(self.take("word", "a literal"))
        else:
            text = self.take("number", "a name or a literal")
            number = int(text) if text.isdigit() else float(text)
        return -number if negative else number

    def index(self) -> Index:
        found: Index = run(self._sum())
        return found

    def _sum(self) -> Walk:
        total, sign = constant(0), -1 if self.accept("-") else 1
        while True:
            term = yield self._term()
            total += term * sign
            if self.accept("+"):
                sign = 1
            elif self.accept("-"):
                sign = -1
            else:
                return total

    def _term(self) -> Walk:
        factor = 1
        if self.kind == "number":
            factor = self.integer()
            if not self.accept("*"):
                return constant(factor)
        return (yield self._atom()) * factor

    def _atom(self) -> Walk:
        if self.kind == "name":
            return Index(((1, ValueAtom(self.name())),))
        if self.kind == "word":
            return Index(((1, AxisAtom(self.take("word", "an axis"))),))
        if self.depth >= MAX_DEPTH:
            self.fail(f"an index of at most {MAX_DEPTH} levels")
        self.depth += 1
        self.expect("(")
        inner = yield self._sum()
        self.expect(")")
        self.depth -= 1
        divides = self.accept("//")
        if not divides:
            self.expect("%")
        divisor = self.integer()
        if divisor < 1:
            self.fail("a positive divisor")
        return Index(((1, Quotient(inner, divisor) if divides else Remainder(inner, divisor)),))


_DEFINITIONS: dict[str, Callable[[_Reader, str, DType, frozenset[str]], Statement]] = {
    "load": _Reader.load,
    "cast": _Reader.cast,
    "position": _Reader.position,
    "uniform": _Reader.uniform,
    "reduce": _Reader.reduce,
}
