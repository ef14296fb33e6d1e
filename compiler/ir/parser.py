"""Textual IR → graphs: the inverse of `printer`, whose docstring shows the text.

Line breaks, indentation and comments (`#` to the end of the line) carry no meaning: `return` ends a block, and
`block` opens one more in the node before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ...lang.diagnostics import Abort, Diagnostics, did_you_mean
from ...lang.source import Source, Span
from ..ops.registry import OPS
from ..types.dtypes import BY_NAME
from ..types.schema import NO_DEFAULT, Argument, FunctionSchema
from ..types.types import SCALAR_KINDS, ListType, OptionalType, TensorType, TupleType, Type
from .builder import default_fits
from .constants import TensorConstant
from .graph import Callee, Graph
from .kinds import KINDS
from .node import Block, Node, Value
from .printer import base_name

MAX_NESTING = 100
"""Of types and of constant lists; blocks nest as deep as they like."""

_TOKEN = re.compile(
    r"""(?P<space>(?:[ \t\r\n\f\v]|\#[^\n]*)+)
      | (?P<value>%[\w.]+)
      | (?P<string>"(?:[^"\\\n]|\\.)*")
      | (?P<number>-inf\b|-?0x[0-9a-f]+|-?[0-9]+(?:\.[0-9]*)?(?:e[+-]?[0-9]+)?)
      | (?P<name>[^\W\d][\w.]*(?:::[\w.]+)*)
      | (?P<mark>[()\[\],:=*])""",
    re.VERBOSE,
)
_BROADCAST = re.compile(r"BroadcastingList([1-6])")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}
_NAMED_CONSTANTS: dict[str, Any] = {
    "None": None,
    "True": True,
    "False": False,
    "inf": float("inf"),
    "nan": float("nan"),
}


class _Token(NamedTuple):
    kind: str
    """value, string, number, name, or a mark itself; `end` after the last one."""
    text: str
    start: int


def parse_graphs(source: Source, functions: Mapping[str, Callee], diagnostics: Diagnostics) -> list[Graph]:
    """The graphs of a text, which call `functions`; Abort, with diagnostics reported, for a text of something else."""
    return _Parser(source, diagnostics).graphs(functions)


class _Parser:
    def __init__(self, source: Source, diagnostics: Diagnostics) -> None:
        self._source = source
        self._diagnostics = diagnostics
        self._values: dict[str, Value] = {}
        self._length: int | None = None
        self._tokens = self._scan()
        self._token = next(self._tokens)

    def graphs(self, functions: Mapping[str, Callee]) -> list[Graph]:
        found: dict[str, Graph] = {}
        while self._token.text == "graph" or not found:
            graph = self._graph(functions)
            if graph.name in found:
                raise self._diagnostics.fail("E502", f"graph '{graph.name}' is defined twice", graph.span)
            found[graph.name] = graph
        if self._token.kind != "end":
            raise self._unexpected("the end of the text")
        return list(found.values())

    def _graph(self, functions: Mapping[str, Callee]) -> Graph:
        self._keyword("graph")
        self._values = {}
        name = self._string(self._next("string")) if self._token.kind == "string" else self._next("name").text
        graph = Graph(name, functions, self._span(self._token))
        graph.arguments = self._inputs(graph.body)
        open_blocks = [graph.body]
        while open_blocks:
            self._statement(open_blocks)
        return graph

    # Statements

    def _statement(self, open_blocks: list[Block]) -> None:
        block = open_blocks[-1]
        if self._token.text == "return":
            block.ret.span = self._span(self._take())
            for value in self._arguments():
                block.ret.add_input(value)
            open_blocks.pop()
        elif self._token.text == "block":
            last = block.ret.previous
            if last is None or last is block.param:
                raise self._fail("E501", "a block without a node that it belongs to", self._token)
            self._take()
            inner = last.add_block()
            self._parameters(inner)
            open_blocks.append(inner)
        else:
            self._node(block)

    def _node(self, block: Block) -> None:
        start = self._token
        outputs: list[tuple[_Token, Type]] = []
        if start.kind == "value":
            outputs = self._typed_names()
            self._next("=")
        kind = self._next("name")
        attrs = self._attributes() if self._token.kind == "[" else {}
        node = Node(kind.text, self._schema(kind), attrs, Span(self._source, start.start, kind.start + len(kind.text)))
        for value in self._arguments():
            node.add_input(value)
        self._define(node, outputs)
        block.append(node)

    def _schema(self, kind: _Token) -> FunctionSchema | None:
        if kind.text in KINDS:
            return None
        try:
            return OPS.named(kind.text).schema
        except KeyError:
            known = [op.schema.full_name for op in OPS.all()] + list(KINDS)
            raise self._unknown("E503", "kind of node", kind, known) from None

    def _parameters(self, block: Block) -> None:
        self._next("(")
        self._define(block.param, self._typed_names() if self._token.kind != ")" else [])
        self._next(")")
        self._next(":")

    def _inputs(self, block: Block) -> tuple[Argument, ...]:
        """The inputs of a graph, with defaults, `*` and lists of a length that one number may stand for."""
        self._next("(")
        found: list[Argument] = []
        by_name = False
        while self._token.kind != ")" and (not found or self._accept(",")):
            if self._accept("*"):
                if by_name:
                    raise self._fail("E101", "a second '*' among the parameters", self._token, "remove it")
                by_name = bool(self._next(","))
            found.append(self._input(block, by_name, bool(found) and not found[-1].required))
        self._next(")")
        self._next(":")
        return tuple(found)

    def _input(self, block: Block, by_name: bool, after_default: bool) -> Argument:
        token = self._next("value")
        self._next(":")
        self._length = None
        type = self._type(0)
        self._define(block.param, [(token, type)])
        default: Any = NO_DEFAULT
        if self._accept("="):
            start = self._token
            value = self._constant(0)
            default = tuple(value) if isinstance(value, list) else value
            if not _is_default(default, type):
                raise self._fail("E301", f"the default is not {type}", start)
        elif after_default and not by_name:
            raise self._fail("E101", f"{token.text} without a default follows one with a default", token)
        return Argument(base_name(token.text[1:]), type, default, by_name, self._length)

    def _typed_names(self) -> list[tuple[_Token, Type]]:
        names: list[tuple[_Token, Type]] = []
        while not names or self._accept(","):
            name = self._next("value")
            self._next(":")
            names.append((name, self._type(0)))
        return names

    def _define(self, node: Node, names: list[tuple[_Token, Type]]) -> None:
        for token, type in names:
            if token.text in self._values:
                raise self._fail("E502", f"{token.text} is defined twice", token)
            self._values[token.text] = node.add_output(type, base_name(token.text[1:]))

    def _arguments(self) -> list[Value]:
        self._next("(")
        values: list[Value] = []
        while self._token.kind != ")" and (not values or self._accept(",")):
            token = self._next("value")
            value = self._values.get(token.text)
            if value is None:
                raise self._unknown("E502", "value", token, self._values)
            values.append(value)
        self._next(")")
        return values

    # Types

    def _type(self, depth: int) -> Type:
        token = self._next("name")
        if depth > MAX_NESTING:
            raise self._fail("E004", "the type nests too deep", token)
        if token.text == "Tensor":
            return self._tensor_type()
        length = _BROADCAST.fullmatch(token.text)
        if length is not None:
            # A list for which one number may stand, where a parameter is one; else a list.
            self._length, token = int(length[1]), token._replace(text="List")
        if token.text in ("Optional", "List"):
            self._next("[")
            element = self._type(depth + 1)
            self._next("]")
            return OptionalType(element) if token.text == "Optional" else ListType(element)
        if token.text == "Tuple":
            return self._tuple_type(depth)
        if token.text not in SCALAR_KINDS:
            raise self._unknown("E503", "type", token, [*SCALAR_KINDS, "Tensor", "Optional", "List", "Tuple"])
        return SCALAR_KINDS[token.text]

    def _tuple_type(self, depth: int) -> Type:
        self._next("[")
        elements: list[Type] = []
        if self._accept("("):
            self._next(")")
        else:
            elements.append(self._type(depth + 1))
            while self._accept(","):
                elements.append(self._type(depth + 1))
        self._next("]")
        return TupleType(tuple(elements))

    def _tensor_type(self) -> Type:
        dtype, facts = None, {}
        if self._accept("["):
            while True:
                token = self._next("name")
                if token.text in BY_NAME:
                    dtype = BY_NAME[token.text]
                elif token.text in ("rank", "requires_grad"):
                    self._next("=")
                    facts[token.text] = self._fact(token.text)
                else:
                    raise self._unknown("E503", "dtype", token, BY_NAME)
                if not self._accept(","):
                    break
            self._next("]")
        return TensorType(dtype, facts.get("rank"), facts.get("requires_grad"))

    def _fact(self, name: str) -> Any:
        token, value = self._token, self._constant(0)
        if type(value) is not (int if name == "rank" else bool):
            raise self._fail("E005", f"{value!r} is no {name}", token)
        return value

    # Constants

    def _attributes(self) -> dict[str, Any]:
        self._next("[")
        attrs: dict[str, Any] = {}
        while not attrs or self._accept(","):
            key = self._next("name")
            self._next("=")
            if key.text in attrs:
                raise self._fail("E501", f"attribute '{key.text}' is given twice", key)
            attrs[key.text] = self._constant(0)
        self._next("]")
        return attrs

    def _constant(self, depth: int) -> Any:
        token = self._take()
        if token.kind == "string":
            return self._string(token)
        if token.kind == "number":
            return self._number(token)
        if token.kind == "name" and token.text in _NAMED_CONSTANTS:
            return _NAMED_CONSTANTS[token.text]
        if token.text == "tensor":
            return self._tensor(token)
        if token.kind != "[":
            raise self._fail("E501", f"expected a constant, found {_shown(token)}", token)
        if depth > MAX_NESTING:
            raise self._fail("E004", "the constant nests too deep", token)
        items: list[Any] = []
        while self._token.kind != "]" and (not items or self._accept(",")):
            items.append(self._constant(depth + 1))
        self._next("]")
        return items

    def _tensor(self, token: _Token) -> TensorConstant:
        self._next("(")
        dtype = self._next("name")
        if dtype.text not in BY_NAME:
            raise self._unknown("E503", "dtype", dtype, BY_NAME)
        self._next(",")
        shape = self._list()
        self._next(",")
        elements = self._list()
        self._next(")")
        try:
            return TensorConstant.of(BY_NAME[dtype.text], shape, elements)
        except ValueError as error:
            raise self._fail("E005", str(error), token) from None

    def _list(self) -> list[Any]:
        if self._token.kind != "[":
            raise self._unexpected("'['")
        items: list[Any] = self._constant(0)
        return items

    def _number(self, token: _Token) -> int | float:
        text = token.text
        if "x" in text:
            return int(text, 16)
        if text.endswith("inf") or not text.lstrip("-").isdecimal():
            return float(text)
        try:
            return int(text)
        except ValueError:
            # Python refuses to convert thousands of digits, for that takes quadratic time.
            raise self._fail("E005", "the number has too many digits; write it as 0x…", token) from None

    def _string(self, token: _Token) -> str:
        def character(match: re.Match[str]) -> str:
            escape = match.group(1)
            if len(escape) == 1:
                found = _ESCAPED.get(escape)
            else:
                code = int(escape[1:], 16)
                found = chr(code) if code <= 0x10FFFF else None
            if found is None:
                raise self._fail("E005", f"unknown escape \\{escape} in a string", token)
            return found

        return _ESCAPE.sub(character, token.text[1:-1])

    # Tokens

    def _scan(self) -> Iterator[_Token]:
        text, position = self._source.text, 0
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise self._fail("E001", "unexpected character", _Token("character", text[position], position))
            kind = str(match.lastgroup)
            if kind != "space":
                yield _Token(match.group() if kind == "mark" else kind, match.group(), position)
            position = match.end()
        while True:
            yield _Token("end", "", len(text))

    def _take(self) -> _Token:
        token, self._token = self._token, next(self._tokens)
        return token

    def _next(self, kind: str) -> _Token:
        if self._token.kind != kind:
            raise self._unexpected({"value": "a value such as %x", "name": "a name"}.get(kind, f"'{kind}'"))
        return self._take()

    def _accept(self, kind: str) -> bool:
        return self._token.kind == kind and bool(self._take())

    def _keyword(self, word: str) -> None:
        if self._token.text != word:
            raise self._unexpected(f"'{word}'")
        self._take()

    # Errors

    def _span(self, token: _Token) -> Span:
        return Span(self._source, token.start, token.start + len(token.text))

    def _fail(self, code: str, message: str, token: _Token, *notes: str) -> Abort:
        return self._diagnostics.fail(code, message, self._span(token), *notes)

    def _unexpected(self, wanted: str) -> Abort:
        return self._fail("E501", f"expected {wanted}, found {_shown(self._token)}", self._token)

    def _unknown(self, code: str, what: str, token: _Token, known: Any) -> Abort:
        # Comparing spellings takes time quadratic in their length, so long ones get no advice.
        notes = did_you_mean(token.text, known) if len(token.text) < MAX_NESTING else ()
        return self._fail(code, f"unknown {what} {_shown(token)}", token, *notes)


def _shown(token: _Token) -> str:
    return "the end of the text" if token.kind == "end" else f"'{token.text[:MAX_NESTING]}'"


def _is_default(value: Any, type: Type) -> bool:
    try:
        return not isinstance(value, TensorConstant) and default_fits(value, type)
    except ValueError:
        # A list of elements of unlike types.
        return False
