"""Variables: which value a name stands for at this point of the program.

A frame is opened for each function, branch and loop body. Assignment binds in the innermost frame, so what a
branch changed is its frame's own content, and leaving it costs what it changed, not what there is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...lang import ast
from ...lang.light_dataclasses import dataclass, field
from ..ir.node import Block, Node, Value


@dataclass(frozen=True, slots=True)
class UnusableName:
    """A name that has no one value here, and why: reported when it is used, not before."""

    code: str
    message: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sliced(UnusableName):
    """A name for what stands in a subscript alone, which is no value: `slice(1, 3)`, `...`, a tuple with such."""

    index: ast.Expr = field(kw_only=True)
    """What it stands for there; its expressions have been emitted."""


@dataclass(frozen=True, eq=False, slots=True)
class InnerFunction(UnusableName):
    """A name for a function inside a function, which is no value: it is written out where it is called, and sees there
    what names stand for at the time, in the function that defines it. See `statements/called.py`."""

    definition: ast.FunctionDef = field(kw_only=True)
    frame: Frame = field(kw_only=True)
    """Where it is defined."""
    defaults: Mapping[str, Value] = field(kw_only=True)
    """The values of defaults, which are those of the time when it is defined."""


@dataclass(frozen=True, slots=True)
class Refined:
    """An optional value known not to be None in `block`; unwrapped where it is first used."""

    value: Value
    block: Block


@dataclass(frozen=True, eq=False, slots=True)
class LastRound:
    """A name that has a value if `loop` had a round: what is `given` at the end of its body, there by a loop inside
    where it is a LastRound itself. `carried` holds what the loop gives, once that was asked for: see `last_rounds`."""

    loop: Node
    given: Value | LastRound
    carried: list[Value] = field(default_factory=list)


Binding = Value | UnusableName | Refined | LastRound


@dataclass(slots=True)
class Frame:
    """One level of bindings. `function` numbers the function that it belongs to."""

    parent: Frame | None
    function: int
    bindings: dict[str, Binding] = field(default_factory=dict)
    refinements: dict[str, Binding] = field(default_factory=dict)
    locals: frozenset[str] = frozenset()
    """In a function's first frame: every name that the function assigns anywhere, hence local in Python."""
    raised: bool = False
    """Whether every path through it raises, so that what it bound matters no more."""
    had_round: set[Node] = field(default_factory=set)
    """Loops that did not come to an end without a round, or an error has been raised."""
    is_own: bool = False
    """Whether it is a comprehension's: what is bound in it no function sees that is called there."""
    left: bool = False
    """Whether every path through it has left by `return`, `break` or `continue`: what follows in it is dead."""

    def lookup(self, name: str) -> Binding | None:
        frame: Frame | None = self
        while frame is not None:
            found = frame.refinements.get(name) or frame.bindings.get(name)
            if found is not None:
                return found
            if name in frame.locals:
                return UNBOUND_LOCAL
            # The compiler's own names end at their function.
            if name.startswith("$") and frame.parent is not None and frame.parent.function != frame.function:
                return None
            frame = frame.parent
        return None

    def bind(self, name: str, binding: Binding) -> None:
        self.bindings[name] = binding
        self.refinements.pop(name, None)

    def first_asks_for_a_round(self, loop: Node) -> bool:
        """Whether nothing here or outside has asked yet that a loop had a round; from now on something has."""
        frame: Frame | None = self
        while frame is not None:
            if loop in frame.had_round:
                return False
            frame = frame.parent
        self.had_round.add(loop)
        return True

    def seen_by(self, called: InnerFunction) -> Frame:
        """What a function sees that is called here: this frame, or the next one around in the function that defines it.

        One that is defined in the frame itself, as a lambda that is called at once, sees what a comprehension binds.
        """
        seen, frame = called.frame, self
        found = False
        while frame is not called.frame:
            if frame.function != called.frame.function or frame.is_own:
                found = False
            elif not found:
                seen, found = frame, True
            assert frame.parent is not None, "what is called is defined around"
            frame = frame.parent
        return seen if found else called.frame

    def names(self) -> Iterator[str]:
        """Every name bound here or outside, for suggestions."""
        frame: Frame | None = self
        while frame is not None:
            yield from (name for name in frame.bindings if not name.startswith("$"))
            frame = frame.parent


DELETED = UnusableName("E205", "was deleted", ("assign it again before it is used",))
UNBOUND_LOCAL = UnusableName(
    "E205",
    "is used before it is assigned in this function",
    ("assigning a name anywhere in a function makes it local to that function, as in Python; give it another name",),
)
