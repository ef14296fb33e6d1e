"""What every part of emission shares: where nodes go, what names mean, where errors go."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from ...lang import ast
from ...lang.diagnostics import Abort, Diagnostics, did_you_mean
from ...lang.light_dataclasses import dataclass, field
from ...lang.source import Span
from ...lang.trampoline import Walk
from ..ir.builder import Builder
from ..ir.graph import Callee
from ..ir.node import Block, Node, Value
from ..spelling.advice import for_member_of, for_name
from ..spelling.names import BUILTINS
from ..spelling.overloads import Resolver
from ..types.types import CLOSURE, Type, excess_of, strip_optional
from .annotations import dotted_name
from .exits import MAX_DEPTH, too_deep
from .last_rounds import value_of_last_round
from .outside import Environment, Outside, OutsideConstant
from .scopes import UNBOUND_LOCAL, Frame, InnerFunction, LastRound, Refined, UnusableName


@dataclass(frozen=True, eq=False, slots=True)
class Evaluated(ast.Syntax):
    """An expression that has been emitted, in the place of its syntax."""

    value: Value


@dataclass(frozen=True, eq=False, slots=True)
class InnerCall(ast.Syntax):
    """A call of a function that is defined inside the one around it."""

    call: ast.Call
    called: InnerFunction


Handler = Callable[["Emitter", Any], Walk]


@dataclass(frozen=True, slots=True)
class Handlers:
    """What emits what: expressions and statements by their kind of syntax, and calls by dotted name.

    `forms` are calls that are emitted from their syntax: an argument is a type, or no value. `tests` are those that
    give a condition, which may be known already.
    """

    expressions: Mapping[type[ast.Syntax], Handler]
    statements: Mapping[type[ast.Syntax], Handler]
    forms: Mapping[str, Handler]
    tests: Mapping[str, Handler]


class Unit(Protocol):
    """The functions of one source file, as emission of one of them sees them: see `unit.SourceUnit`."""

    names: Mapping[str, ast.FunctionDef]
    diagnostics: Diagnostics
    callees: dict[str, Callee]
    resolver: Resolver
    builtins_first: bool
    broken: frozenset[str]
    ignored: Mapping[str, str]
    handlers: Handlers
    hints: tuple[str, ...]

    @property
    def environment(self) -> Environment:
        """What names mean that are none of the unit's."""

    def next_function(self) -> int:
        """A number for a function or closure, by which frames know where one ends."""

    def emit(self, name: str, span: Span) -> Walk:
        """The Callee of a function, emitted now unless it has been. Abort if it failed, reported already."""

    def import_function(self, callee: Callee) -> Callee:
        """A function from outside as the unit calls it."""


_PARTS = (ast.Name, ast.Attribute, ast.Subscript)
"""Expressions whose type is that of a value that is there already, or of a part of it: no larger than what passed."""
POISON = UnusableName("", "")
"""Bound to a name whose definition failed: its uses fail too, silently."""


@dataclass(frozen=True, eq=False, slots=True)
class WrittenOut:
    """A call that was written out: where in its body gradients do not flow, and whether they do where it stands, if
    something around it in its own function says so."""

    regions: Sequence[tuple[int, int, bool]]
    mode: bool | None


@dataclass(eq=False, slots=True)
class InnerCalls:
    """What calls of functions inside one function came to."""

    closures: dict[Value, InnerFunction] = field(default_factory=dict)
    """What is called where a closure is that is returned too."""
    modes: dict[Node, WrittenOut] = field(default_factory=dict)
    """For which call a node was written out, the innermost."""
    open: set[int] = field(default_factory=set)
    """Those whose bodies are being emitted, by the `id` of the definition."""
    written: int = 0
    """How many statements were written out."""


@dataclass(slots=True)
class Emitter:
    """The state of emitting one function or closure."""

    unit: Unit
    builder: Builder
    frame: Frame
    name: str
    parameters: dict[Value, str] = field(default_factory=dict)
    outer: Emitter | None = None
    calls: InnerCalls = field(default_factory=InnerCalls)
    loop_types: dict[tuple[int, str], Type] = field(default_factory=dict)
    """What a loop, by its `id`, carries for a name, where that is wider than what stands before it."""
    sums: set[tuple[int, str]] = field(default_factory=set)
    """Names that are numbers before a loop, by its `id`, and tensors after a round."""
    depth: int = 0
    regions: Sequence[tuple[int, int, bool]] = ()
    """Where gradients do not flow: see `grad_modes`."""
    mode: bool | None = None
    """Whether they flow around a call that is being written out; None where the function around says nothing."""
    returned: frozenset[str] = frozenset()
    """The names that its `return`s have last: those of closures, if they are functions."""
    returns: Type | None = None
    """What the function is annotated to return."""
    unrolled: int = 1
    """How often what is being emitted is written out: the lengths of the loops over tuples around it, multiplied."""
    wanted: dict[int, Type] = field(default_factory=dict)
    """What the elements of comprehensions are to be, by the `id` of the comprehension: an annotation says it."""
    listed: dict[int, ast.Expr] = field(default_factory=dict)
    """Calls of `tuple`, and lists written out, by `id`, that stand where a tuple and a list are the same."""
    untold: set[Value] = field(default_factory=set)
    """Empty lists of which nothing has said yet what they hold: `l = []`."""
    dtypes: set[Value] = field(default_factory=set)
    """Numbers that stand for a dtype that the source names: `torch.float32`."""
    unsettled: set[Value] = field(default_factory=set)
    """What branches give for names that a path which leaves a round does not assign."""
    falls_off: bool = False
    """Whether some path comes to the end of a function that returns a value on others."""

    @property
    def diagnostics(self) -> Diagnostics:
        return self.unit.diagnostics

    def fail(self, code: str, message: str, span: Span, *notes: str) -> Abort:
        return self.unit.diagnostics.fail(code, message, span, *notes)

    def at(self, node: ast.Syntax) -> Builder:
        """The builder, with the node's span on what it makes next."""
        self.builder.current_span = node.span
        return self.builder

    @contextmanager
    def block(self, block: Block, span: Span) -> Iterator[Frame]:
        """Emit into a block, in a frame of its own."""
        if self.depth >= MAX_DEPTH:
            raise too_deep(self.diagnostics, span)
        frame = self.frame
        self.frame = Frame(frame, frame.function)
        self.depth += 1
        try:
            with self.builder.at(block):
                yield self.frame
        finally:
            self.frame = frame
            self.depth -= 1

    def expression(self, node: ast.Expr) -> Walk:
        """Emit any expression; its value, which is no closure."""
        value = yield self.unit.handlers.expressions[type(node)](self, node)
        if value.type == CLOSURE:
            raise self.fail(
                "E402",
                f"closure '{value.name_hint}' is used as a value",
                node.span,
                "a closure can only be the last element that its function returns",
            )
        return value if isinstance(node, _PARTS) else self.checked(value, node)

    def checked(self, value: Value, node: ast.Syntax) -> Value:
        """The value, unless its type is too large to work with."""
        if excess := excess_of(value.type):
            raise self.fail("E004", f"a type of more than {excess}", node.span, "flatten the data")
        return value

    def form(self, node: ast.Call) -> Handler | None:
        """What emits the call from its syntax, if something does."""
        return self._handler(self.unit.handlers.forms, node)

    def test(self, node: ast.Call) -> Handler | None:
        """What emits the call as a condition, if something does."""
        return self._handler(self.unit.handlers.tests, node)

    def _handler(self, table: Mapping[str, Handler], node: ast.Call) -> Handler | None:
        """What emits the call, if its name is one of the table's and means nothing else here."""
        name = dotted_name(node.function)
        handler = table.get(name)
        return handler if handler is not None and self.is_free(name.partition(".")[0]) else None

    def is_free(self, name: str) -> bool:
        """Whether a name is neither a variable nor a function of the unit."""
        is_function = name in self.unit.names and not self.unit.builtins_first
        return not is_function and self.frame.lookup(name) is None

    # Names

    def outside(self, name: str) -> Outside:
        """What a dotted name stands for outside, unless its first part means something here."""
        root = name.partition(".")[0]
        is_own = not self.is_free(root) or self.is_open_closure(root) or root in self.unit.broken
        return None if not name or is_own else self.unit.environment(name)

    def is_value(self, name: str) -> bool:
        """Whether a name is that of a value: a variable's, or a constant's from outside."""
        return self.frame.lookup(name) is not None or isinstance(self.outside(name), OutsideConstant)

    def lookup(self, name: str, span: Span, member: str = "") -> Value:
        """The value of a name, of which a member may be asked; what is wrong with it is reported."""
        binding = self.frame.lookup(name)
        if isinstance(binding, Value):
            return binding
        if isinstance(binding, Refined):
            return self._unwrap(name, binding)
        if isinstance(binding, LastRound):
            self.builder.current_span = span
            value = value_of_last_round(self.builder, self.frame, binding, self.told(name))
            self.frame.refinements[name] = value
            return value
        if (binding is None or binding is UNBOUND_LOCAL) and self.is_open_closure(name):
            raise self.fail("E404", f"closure '{name}' refers to itself", span, "a closure cannot be recursive")
        if binding is None:
            if name in self.unit.names or name in BUILTINS:
                note = f"call it where its value is used, `{name}(…)`: what is passed, kept and returned are values"
                raise self.fail("E402", f"'{name}' is a function, and used as a value", span, note)
            known = [*dict.fromkeys(self.frame.names()), *self.unit.names]
            notes = for_member_of(name, member) or for_name(name) or did_you_mean(name, known)
            raise self.fail("E201", f"undefined name '{name}'", span, *notes, *self.unit.hints)
        if binding is POISON or not binding.code:
            raise Abort(name)
        raise self.fail(binding.code, f"{self.told(name)} {binding.message}", span, *binding.notes)

    def told(self, name: str) -> str:
        """What a message calls a name: that of a result is none of the source's."""
        return f"what '{self.name}' returns" if name.startswith("$") else f"'{name}'"

    def is_open_closure(self, name: str) -> bool:
        """Whether `name` is a closure whose body is being emitted."""
        emitter: Emitter | None = self
        while emitter is not None and emitter.outer is not None:
            if emitter.name == name:
                return True
            emitter = emitter.outer
        return False

    def _unwrap(self, name: str, binding: Refined) -> Value:
        """Unwrap at the start of the block that knows the value is there, once."""
        first = binding.block.param.next
        assert first is not None
        with self.builder.before(first):
            value = self.builder.unwrap(binding.value, name)
        frame: Frame | None = self.frame
        while frame is not None:
            if frame.refinements.get(name) is binding:
                frame.refinements[name] = value
                break
            frame = frame.parent
        return value

    def bind(self, name: str, value: Value) -> None:
        """Let the name stand for the value from here on; the value takes the name if it has none."""
        if not value.name_hint and not name.startswith("$") and value.node.kind != "prim::Constant":
            value.name_hint = name
        self.frame.bind(name, value)

    def poison(self, names: Sequence[str]) -> None:
        for name in names:
            self.frame.bind(name, POISON)

    # Values

    def elements(self, value: Value, node: ast.Syntax) -> Sequence[Value]:
        """The elements of a tuple."""
        return value.node.inputs if value.node.kind == "prim::TupleConstruct" else self.at(node).unpack(value)

    def value(self, name: str, node: ast.Syntax, *inputs: Value | Any, **keywords: Any) -> Value:
        """A call of a declared op by its full name: for syntax that stands for an op."""
        return self.at(node).op(name, *inputs, **keywords)


def known_constant(value: Value) -> Any:
    """The Python value of a prim::Constant; None for any other value."""
    return value.node.attrs["value"] if value.node.kind == "prim::Constant" else None


def is_constant(value: Value) -> bool:
    return value.node.kind == "prim::Constant"


def described(type: Type) -> str:
    """A type in a message."""
    return f"a {type}" if strip_optional(type) == type else f"an {type}"
