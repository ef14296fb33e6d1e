"""Graphs as text, which `parse_ir` reads back.

    graph mul(%self : Tensor, %other : Tensor):
      %backward : Closure = prim::Function[name="backward"]()
        block(%grad_output : Tensor):
          %1 : Tensor = aten::mul.Tensor(%grad_output, %other)
          return (%1)
      %2 : Tensor = aten::mul.Tensor(%self, %other)
      return (%2, %backward)

The graphs of the functions that it calls follow, in the order met. Inputs have the defaults of the function's
parameters, and `*` stands before those that go by name: `graph f(%x : Tensor, %n : int = 3, *, %p : float = 0.5):`.

`return` ends a block and `block` opens another one of the node before it, so indentation carries no meaning; it
stops growing at some depth, lest the text of a deeply nested graph grow with the square of its depth.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from ...lang.source import NO_SOURCE
from ..types.schema import Argument
from .constants import TensorConstant
from .node import Block, Node, Value

MAX_INDENT = 40
PLAIN_NAME = re.compile(r"[A-Za-z_][\w.]*\Z")
"""A graph's name that stands without quotes."""

_SUFFIX = re.compile(r"(\.[0-9]+)+\Z")
_NOT_IN_NAMES = re.compile(r"[^\w.]")
_LONGEST_DECIMAL = 4096
"""Bits; longer ints are written in hexadecimal, which Python converts at any length."""


def graph_text(name: str, body: Block, arguments: Sequence[Argument] = (), with_spans: bool = False) -> str:
    """The text of one graph, whose inputs may have defaults. With spans, each node that came from source says where:
    `# mul.grad:3:12`."""
    printer = _Printer(with_spans)
    shown = name if PLAIN_NAME.match(name) else quote(name)
    is_told = len(arguments) == len(body.inputs)
    inputs = printer.parameters(body.inputs, arguments) if is_told else printer.definitions(body.inputs)
    printer.lines.append(f"graph {shown}({inputs}):")
    printer.block_body(body, 1)
    return "\n".join(printer.lines) + "\n"


def print_node(node: Node, *, inside: bool = True) -> str:
    """A node's text with all inside it; values from outside get names made up for this text."""
    printer = _Printer(False)
    for value in node.inputs:
        printer.name(value)
    if inside:
        printer.nodes(iter([node]), 0)
    else:
        printer.line(node, 0)
    return "\n".join(printer.lines) + "\n"


def constant_text(value: Any) -> str:
    """An attribute's value: a number, string, bool, None, a tensor, or a list of such."""
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, TensorConstant):
        return value.text
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(constant_text, value))}]"
    if type(value) is int and value.bit_length() > _LONGEST_DECIMAL:
        return hex(value)
    return repr(value)


def quote(text: str) -> str:
    """A string literal; what does not print is escaped, each code point on its own, lone surrogates too."""
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    if character.isprintable():
        return character
    named = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(character)
    code = ord(character)
    return named or (f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}")


def base_name(hint: str) -> str:
    """What is left of a hint without the suffix that made it unique; empty for a number, which names nothing."""
    base = _SUFFIX.sub("", _NOT_IN_NAMES.sub("_", hint))
    return "" if base.isdecimal() else base


class _Printer:
    """Lines so far, and the name of each value met. Bases never end in a number, so `base.k` is unique."""

    def __init__(self, with_spans: bool) -> None:
        self.lines: list[str] = []
        self._with_spans = with_spans
        self._names: dict[Value, str] = {}
        self._used: dict[str, int] = {}

    def name(self, value: Value) -> str:
        found = self._names.get(value)
        if found is None:
            base = base_name(value.name_hint)
            count = self._used.get(base, 0)
            self._used[base] = count + 1
            found = self._names[value] = f"%{base}.{count}" if base and count else f"%{base or count + 1}"
        return found

    def definitions(self, values: list[Value]) -> str:
        return ", ".join(f"{self.name(v)} : {v.type}" for v in values)

    def parameters(self, values: Sequence[Value], arguments: Sequence[Argument]) -> str:
        """As `definitions`, with defaults, `*` before those that go by name, and lists for which a number may stand."""
        parts: list[str] = []
        for value, argument in zip(values, arguments, strict=True):
            if argument.keyword_only and "*" not in parts:
                parts.append("*")
            type = str(value.type)
            if argument.fixed_size is not None:
                type = type.replace("List[", f"BroadcastingList{argument.fixed_size}[", 1)
            default = "" if argument.required else f" = {constant_text(argument.default)}"
            parts.append(f"{self.name(value)} : {type}{default}")
        return ", ".join(parts)

    def uses(self, values: list[Value]) -> str:
        return ", ".join(map(self.name, values))

    def block_body(self, block: Block, depth: int) -> None:
        self.nodes(block.nodes, depth)
        self._add(depth, f"return ({self.uses(block.outputs)})")

    def nodes(self, nodes: Iterator[Node], depth: int) -> None:
        """Print nodes and all inside them. The stack holds what is still to print, each with its depth."""
        stack: list[tuple[int, Iterator[Node] | Block]] = [(depth, nodes)]
        while stack:
            depth, pending = stack.pop()
            if isinstance(pending, Block):
                self._add(depth - 1, f"block({self.definitions(pending.inputs)}):")
                stack += [(depth, _with_return(pending))]
                continue
            node = next(pending, None)
            if node is None:
                continue
            stack.append((depth, pending))
            self.line(node, depth)
            stack += [(depth + 2, block) for block in reversed(node.blocks)]

    def line(self, node: Node, depth: int) -> None:
        """Print a node without what is inside it."""
        if node.kind == "prim::Return":
            self._add(depth, f"return ({self.uses(node.inputs)})")
            return
        attrs = ", ".join(f"{key}={constant_text(value)}" for key, value in sorted(node.attrs.items()))
        uses = self.uses(node.inputs)
        results = f"{self.definitions(node.outputs)} = " if node.outputs else ""
        known = self._with_spans and node.span.source is not NO_SOURCE
        place = "  # " + "".join(c if c.isprintable() else "?" for c in str(node.span)) if known else ""
        self._add(depth, f"{results}{node.kind}{f'[{attrs}]' if attrs else ''}({uses}){place}")

    def _add(self, depth: int, text: str) -> None:
        self.lines.append("  " * min(depth, MAX_INDENT) + text)


def _with_return(block: Block) -> Iterator[Node]:
    yield from block.nodes
    yield block.ret
