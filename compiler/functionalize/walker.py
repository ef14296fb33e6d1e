"""The walk over a function, as the rules that it follows see it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any, Protocol

from ...lang.trampoline import Walk
from ..ir.builder import Builder
from ..ir.graph import Callee, Graph
from ..ir.node import Block, Node, Value
from .memory import Memory
from .places import Place
from .scopes import RoundFacts


class Endless(Exception):
    """A loop was walked round by round that is too long for it: the walk over the function begins anew without that."""

    def __init__(self, loop: Node) -> None:
        super().__init__()
        self.loop = loop


class Walker(Protocol):
    """What is known on the way: the place of each value of the old graph, and the contents of all places.

    `facts` is what loops have shown, by their node and the path to it; `endless` are those that are not walked round by
    round, and `apart` are the branches, loops and calls whose ways are walked to the end of the function
    (`branches_apart.py`). `lost` are those that lost something where their ways met, with the paths to them; `returned`
    tells of each way to the end of the function what the results are (`calls.Returned`). `ways` are those so far.
    `rounds`, `walks` and `inlined` count what was spent on the whole function: rounds walked one by one, walks over the
    bodies of loops, nodes of functions called.
    """

    functions: Mapping[str, Callee]
    builder: Builder
    memory: Memory
    places: dict[Value, Place]
    facts: dict[tuple[Node, tuple[object, ...]], RoundFacts]
    endless: Set[Node]
    apart: Set[Node]
    lost: dict[tuple[Node, tuple[object, ...]], None]
    returned: list[tuple[Any, ...]]
    ways: int
    rounds: int
    walks: int
    inlined: int

    @property
    def asks(self) -> bool:
        """Whether what a run can tell is asked there."""

    @property
    def thorough(self) -> bool:
        """Whether no work is spared to tell objects apart: short loops are walked round by round, and of branches that
        are decided one side."""

    def parameters(self, block: Block, into: Block) -> None:
        """The inputs of a function or closure, which its caller owns."""

    def block(self, block: Block) -> Walk:
        """Every node, in order."""

    def nodes(self, nodes: Iterable[Node]) -> Walk:
        """The same of some nodes of a block."""

    def lose(self, node: Node) -> None:
        """Note that where the ways of a branch or a loop met less is known than on either."""

    def read(self, value: Value) -> Value:
        """What stands in the value's place."""

    def copy(self, node: Node, places: list[Place]) -> Node:
        """The node on the present contents of its arguments."""

    def result(self, value: Value, new: Value, argument: str = "") -> Place:
        """A place of its own for what a node gives, if it is an object."""

    def walked(self, graph: Graph) -> Walker:
        """The walk over another function, at its end."""
