"""Execution plans: a graph flattened into instructions over registers.

    graph f(x, y)                      registers   0: x   1: y   2: 2.0 (the template)
      %2 = prim::Constant[value=2.0]
      %3 = aten::mul.Tensor(%x, %y)    BINARY  0 ← mul(0, 1)      free 1
      %4 = aten::mul.Scalar(%3, %2)    BINARY  0 ← mul(0, 2)
      return (%4)                      RETURN  (0)

Branches and loops are jumps. Constants stand in the template, of which each run makes its registers. A result
takes over the register of an operand that dies there, and what else dies is freed by the same instruction, so a
chain of ops keeps one value alive however long it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, Protocol

from ...compiler.ir.graph import Callee, Graph
from ...compiler.ir.node import Node
from ...lang.light_dataclasses import dataclass

SlotNumbers = tuple[int, ...]
Registers = list[Any]
Gather = Callable[[Registers], tuple[Any, ...]]

KINDS = (
    *("BINARY", "UNARY", "ITEM", "APPEND", "NEXT", "DOWN", "GENERAL", "SPREAD", "COPY", "MOVE", "FREE"),
    *("JUMP", "BRANCH", "SKIP", "ENTER", "DESCEND", "AGAIN", "CALL", "RETURN", "BAIL"),
)
BINARY, UNARY, ITEM, APPEND, NEXT, DOWN, GENERAL, SPREAD, COPY, MOVE, FREE = range(11)
JUMP, BRANCH, SKIP, ENTER, DESCEND, AGAIN, CALL, RETURN, BAIL = range(11, 20)
"""What an instruction does, in the order in which the interpreter asks."""
ROUNDS = (NEXT, DOWN, AGAIN)
"""What ends a round of a loop."""


class Instruction(NamedTuple):
    """One step. What the fields hold depends on `kind`; `dead` lists registers to clear afterwards.

    | kind    | function  | target          | first         | second          |                                      |
    |---------|-----------|-----------------|---------------|-----------------|--------------------------------------|
    | BINARY  | evaluate  | register        | register      | register        | an op of two operands                |
    | UNARY   | evaluate  | register        | register      |                 | an op of one                         |
    | GENERAL | evaluate  | register        | gather        |                 | an op of any number                  |
    | ITEM    | evaluate  | register        | list          | position        | reads an element                     |
    | APPEND  | evaluate  | register        | list          | register        | writes into the list, and hands it on|
    | SPREAD  | evaluate  | registers       | gather        |                 | an op of several results, or of none |
    | COPY    |           | register        | register      |                 |                                      |
    | MOVE    |           | registers       | gather        |                 | all at once                          |
    | FREE    |           |                 |               |                 | clears `dead`, nothing else          |
    | JUMP    |           | address         |               |                 |                                      |
    | BRANCH  |           | address         | register      |                 | jumps if it holds False              |
    | SKIP    |           | address         | gather        |                 | jumps if none is a defined gradient  |
    | ENTER   | condition | address behind  | index         | trip count      | starts a loop, or jumps over it      |
    | NEXT    |           | address of body | index         | trip count      | goes round again, or falls through   |
    | AGAIN   | condition | address of body | index         | trip count      | the same, while a condition holds    |
    | DESCEND | registers | address behind  | position      | trip count      | starts a loop over positions, the    |
    |         |           |                 |               |                 | last first; puts its limit into the  |
    |         |           |                 |               |                 | second register that it names        |
    | DOWN    |           | address of body | position      | limit           | goes round again with the one before |
    | CALL    | name      | registers       | gather        | registers       | clears `second`, runs a function;    |
    |         |           |                 |               |                 | `dead` is cleared when it returns    |
    | RETURN  |           |                 | gather        |                 |                                      |
    | BAIL    | exit      | register        | register      |                 | a copy; or goes on in another plan   |

    A gather takes the registers and returns a tuple of some of them; conditions, indices and counts are registers.
    """

    kind: int
    function: Any = None
    target: Any = None
    first: Any = None
    second: Any = None
    dead: SlotNumbers = ()


def filled_registers(kind: int, function: Any, target: Any, first: Any) -> SlotNumbers:
    """The registers that an instruction fills."""
    if kind in (ENTER, DESCEND, *ROUNDS):
        return (first, function[1]) if kind == DESCEND else (first,)
    if kind in (JUMP, BRANCH):
        return ()
    return target if isinstance(target, tuple) else (target,)


class Callees(Protocol):
    """Where the plans of functions that a plan calls come from: each is built when it is first called."""

    def plan(self, graph: Graph) -> ExecutionPlan:
        """The plan of a graph as it is at the first call."""


@dataclass(frozen=True, eq=False, slots=True)
class ExecutionPlan:
    """What the interpreter runs. Immutable, so any number of threads may run one plan.

    A run begins with its arguments and then `template` as registers: constants, and room. `code` holds the
    instructions as plain tuples. `nodes` and `operands` say, for each of them, which node it
    stands for and which registers hold that node's inputs: error messages need them. Errors in `passing` leave a run as
    they are.
    """

    graph: Graph
    code: tuple[tuple[int, Any, Any, Any, Any, SlotNumbers], ...]
    template: tuple[Any, ...]
    input_count: int
    nodes: tuple[Node, ...]
    operands: tuple[SlotNumbers, ...]
    callees: Callees
    passing: tuple[type[Exception], ...] = ()

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        """`code` with names."""
        return tuple(Instruction(*step) for step in self.code)

    @property
    def functions(self) -> Mapping[str, Callee]:
        """The functions that CALL names."""
        return self.graph.functions

    @property
    def groups(self) -> tuple[Any, ...]:
        """The groups that the plan runs, in the order of its instructions."""
        named = zip(self.code, self.nodes, strict=True)
        return tuple([step[1] for step, node in named if node.kind == "prim::DifferentiableGraph"])

    def __str__(self) -> str:
        lines = []
        for address, (step, node) in enumerate(zip(self.instructions, self.nodes, strict=True)):
            operands = self.operands[address]
            target = "" if step.target is None else f" {step.target} ←"
            dead = f"  free {', '.join(map(str, step.dead))}" if step.dead else ""
            lines.append(f"{address:>4} {KINDS[step.kind]:<8}{target} {node.kind}{operands}{dead}")
        return "\n".join(lines) + "\n"


def gather(slots: Sequence[int]) -> Gather:
    """A function from registers to the tuple of some of them."""
    if len(slots) > 1:
        return itemgetter(*slots)
    if slots:
        (slot,) = slots
        return lambda registers: (registers[slot],)
    return _nothing


def _nothing(registers: Registers) -> tuple[Any, ...]:
    return ()


def without(slots: SlotNumbers, others: SlotNumbers) -> SlotNumbers:
    """The registers that are not among the others."""
    return tuple([slot for slot in slots if slot not in others])
