"""Names for values.

Values that a loop or a branch copies into each other share a name where none of them is needed once the next is
there: then the copy needs no text. Every other value has a name of its own, the source's where it had one. Names
survive being compiled again, since a value's hint is then the name that it was written with.
"""

from __future__ import annotations

import builtins
import keyword
import re
from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence

from ..ir.kinds import parameters
from ..ir.node import PARAM, Block, Node, Value
from ..ir.printer import base_name
from ..types.types import INT
from .inlining import FunctionShape, is_bare

RESERVED = frozenset(keyword.kwlist) | frozenset(("torch", "math", "nn", "F", "uninitialized", "rangelist"))
_BUILTINS = frozenset(name for name in dir(builtins) if name.isidentifier())
_RENAMED = {"return": "result"}
_NOT_IN_NAMES = re.compile(r"\W")


class _Variable:
    """Values that share a name, in the order of their definitions."""

    __slots__ = ("fixed", "hint", "members")

    def __init__(self, value: Value, position: int, hint: str, fixed: bool) -> None:
        self.members = [(position, id(value), value)]
        self.hint = hint
        self.fixed = fixed


class SourceNames:
    """The name of each value of one function that is written as a name."""

    def __init__(self, shape: FunctionShape, body: Block, taken: Iterable[str] = ()) -> None:
        self._shape = shape
        self._uses = shape.uses
        self._used = set(taken)
        self._counts: dict[str, int] = {}
        self._variables: dict[Value, _Variable] = {}
        self._names: dict[_Variable, str] = {}
        nodes = list(self._uses.at)
        for value in _defined(nodes, shape):
            self._enter(value, body)
        self._share(nodes)
        self._allocate()

    def __getitem__(self, value: Value) -> str:
        return self._names[self._variables[self._uses.root(value)]]

    def fresh(self, hint: str) -> str:
        """A name for something that is no value."""
        base = clean(hint) or "value"
        name, count = base, self._counts.get(base, 0)
        while name in self._used:
            count += 1
            name = f"{base}_{count}"
        self._counts[base] = count
        self._used.add(name)
        return name

    def _enter(self, value: Value, body: Block) -> None:
        if self._uses.root(value) is not value:
            return
        # A parameter keeps its name; the context of a lifted half, which may be anything, gives way to what is called.
        fixed = value.node is body.param and value.name_hint not in self._used
        hint = value.name_hint if fixed else clean(value.name_hint)
        if value.node.kind == "prim::Function":
            hint = clean(value.node.attrs["name"])
        self._variables[value] = _Variable(value, self._uses.defined_at(value), hint, fixed)

    # Sharing

    def _share(self, nodes: Sequence[Node]) -> None:
        loops = [node for node in nodes if node.kind == "prim::Loop"]
        for node in loops:
            for param, value in zip(parameters(node.blocks[0]), node.outputs, strict=True):
                self._merge(param, value, forced=True)
        for node in nodes:
            if node.kind == "prim::Loop":
                (block,) = node.blocks
                for k, param in enumerate(parameters(block)):
                    if self._uses.root(param) is param:
                        self._merge(param, node.inputs[k + 2])
                        self._merge(param, block.outputs[k + 1])
            elif node.kind == "prim::If" and node not in self._shape.expressions:
                for k, value in enumerate(node.outputs):
                    roots = [self._uses.root(block.outputs[k]) for block in node.blocks]
                    # One variable on both sides that is another afterwards: an optional, unwrapped in each.
                    if roots[0] is not roots[1]:
                        self._merge(value, roots[0])
                        self._merge(value, roots[1])

    def _merge(self, value: Value, other: Value, forced: bool = False) -> None:
        value, other = self._uses.root(value), self._uses.root(other)
        into, merged = self._variables.get(value), self._variables.get(other)
        if into is None or merged is None or into is merged or (into.fixed and merged.fixed):
            return
        hints = {v.hint for v in (into, merged) if v.hint}
        if not forced and (len(hints) > 1 or _is_closure(other) or self._interfere(into, merged)):
            return
        if len(into.members) < len(merged.members):
            into, merged = merged, into
        into.hint = into.hint or merged.hint
        if merged.fixed:
            into.fixed, into.hint = True, merged.hint
        for member in merged.members:
            insort(into.members, member)
            self._variables[member[2]] = into

    def _interfere(self, left: _Variable, right: _Variable) -> bool:
        if len(left.members) < len(right.members):
            left, right = right, left
        return any(self._collides(left, position, value) for position, _, value in right.members)

    def _collides(self, variable: _Variable, position: int, value: Value) -> bool:
        """Whether `value` and a member of the variable are needed at one time."""
        members = variable.members
        index = bisect_right(members, position, key=lambda member: member[0])
        for _, _, earlier in _backwards(members, index):
            home = earlier.node.owner
            assert home is not None
            first, last = self._uses.range(home)
            if first <= position <= last:
                if self._is_live(earlier, value):
                    return True
                if self._uses.defined_at(earlier) < position:
                    break
        until = self._uses.needed_until(value)
        for later_at, _, later in _forwards(members, index):
            if later_at > until:
                break
            if self._is_live(value, later):
                return True
        return False

    def _is_live(self, value: Value, at: Value) -> bool:
        home = at.node.owner
        assert home is not None
        return self._uses.is_live_after(value, self._uses.defined_at(at), home)

    # Allocation

    def _allocate(self) -> None:
        variables = dict.fromkeys(self._variables.values())
        ordered = sorted(variables, key=lambda variable: variable.members[0][0])
        for variable in ordered:
            if variable.fixed:
                self._names[variable] = variable.hint
                self._used.add(variable.hint)
        for named in (True, False):
            for variable in ordered:
                if variable not in self._names and bool(variable.hint) is named:
                    self._names[variable] = self.fresh(variable.hint or _generated(variable))


def clean(hint: str) -> str:
    """A hint as a name that means nothing else in the language."""
    name = _NOT_IN_NAMES.sub("_", base_name(hint))
    name = _RENAMED.get(name, name)
    if name in RESERVED or name in _BUILTINS:
        return name + "_"
    return f"_{name}" if name[:1].isdigit() else name


def _generated(variable: _Variable) -> str:
    value = variable.members[0][2]
    is_index = value.node.kind in (PARAM, "aten::__derive_index") and value.type == INT
    return "i" if is_index else "value"


def _defined(nodes: Iterable[Node], shape: FunctionShape) -> Iterator[Value]:
    for node in nodes:
        if is_bare(node):
            continue
        for value in node.outputs:
            if shape.is_variable(value):
                yield value


def _is_closure(value: Value) -> bool:
    return value.node.kind == "prim::Function"


def _backwards(members: list[tuple[int, int, Value]], index: int) -> Iterator[tuple[int, int, Value]]:
    while index:
        index -= 1
        yield members[index]


def _forwards(members: list[tuple[int, int, Value]], index: int) -> Iterator[tuple[int, int, Value]]:
    while index < len(members):
        yield members[index]
        index += 1
