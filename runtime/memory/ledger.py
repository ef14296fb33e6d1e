"""Which buffers are live while a plan runs: the interpreter's own loop, on registers and code that keep a ledger.

Views share the buffer of the array that owns the memory, and a buffer counts once however many registers, lists and
views lead to it. Nothing here is in the way of a plan that is run without a ledger.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, SupportsIndex

from numpy import ndarray

from ...compiler.ir.node import Node
from ...lang.light_dataclasses import dataclass, replace
from ..plans.interpreter import execute
from ..plans.plan import CALL, ExecutionPlan

INPUT, OUTPUT, SAVED, GRADIENT, TEMPORARY = "inputs", "outputs", "saved", "gradients", "temporaries"
KINDS = (INPUT, OUTPUT, SAVED, GRADIENT, TEMPORARY)
"""What a buffer is there for; of several, the first in this order."""


class HeldBuffer:
    """The memory behind arrays, from when the first of them is held until none is."""

    __slots__ = ("holders", "kind", "nbytes")

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self.kind = TEMPORARY
        self.holders = 0

    def mark(self, kind: str) -> None:
        """Say what the buffer is there for, unless it is there for something that comes before that."""
        if KINDS.index(kind) < KINDS.index(self.kind):
            self.kind = kind


@dataclass(slots=True)
class LedgerStep:
    """One instruction that ran, or (None) what the caller did: which buffers became live, and which died by its end."""

    node: Node | None
    born: list[HeldBuffer]
    died: list[HeldBuffer]


class Ledger:
    """Who holds which buffer. A register that is written lets go of what it held only when its instruction ends:

    operands and results of an op are live together.
    """

    def __init__(self) -> None:
        self.steps: list[LedgerStep] = [LedgerStep(None, [], [])]
        self._live: dict[int, HeldBuffer] = {}
        self._leaving: list[int] = []

    def begin(self, node: Node | None) -> None:
        """End the current step and start another."""
        self._settle()
        self.steps.append(LedgerStep(node, [], []))

    def hold(self, values: Iterable[Any]) -> list[HeldBuffer]:
        """One more holder of the buffers behind values; returns them, each once."""
        found: dict[int, HeldBuffer] = {}
        for array in arrays_in(values):
            key, nbytes = memory_owner(array)
            buffer = self._live.get(key)
            if buffer is None:
                buffer = self._live[key] = HeldBuffer(nbytes)
                self.steps[-1].born.append(buffer)
            buffer.holders += 1
            found[key] = buffer
        return [*found.values()]

    def drop(self, values: Iterable[Any]) -> None:
        """One holder less, from the end of this step on."""
        self._leaving += [memory_owner(array)[0] for array in arrays_in(values)]

    def _settle(self) -> None:
        for key in self._leaving:
            buffer = self._live[key]
            buffer.holders -= 1
            if not buffer.holders:
                del self._live[key]
                self.steps[-1].died.append(buffer)
        self._leaving.clear()

    def finish(self) -> None:
        """End the last step."""
        self._settle()

    def buffers(self, values: Iterable[Any]) -> list[HeldBuffer]:
        """The live buffers behind values, each once."""
        keys = dict.fromkeys(memory_owner(array)[0] for array in arrays_in(values))
        return [self._live[key] for key in keys]


def arrays_in(values: Iterable[Any]) -> Iterator[ndarray[Any, Any]]:
    """The arrays among values and in the lists and tuples among them."""
    pending = [iter(values)]
    while pending:
        for value in pending[-1]:
            if isinstance(value, ndarray):
                yield value
            elif isinstance(value, list | tuple):
                pending.append(iter(value))
                break
        else:
            pending.pop()


def memory_owner(array: ndarray[Any, Any]) -> tuple[int, int]:
    """The identity of what owns an array's memory, and the bytes that are kept with it."""
    holder: Any = array
    nbytes = array.nbytes
    while (base := getattr(holder, "base", None)) is not None:
        holder = base
        if isinstance(holder, ndarray):
            nbytes = holder.nbytes
    return id(holder), nbytes


class _Registers(list[Any]):
    """Registers whose every write the ledger sees. `_lists` are what lists held when they were written there: a plan
    may write into one since."""

    __slots__ = ("_ledger", "_lists")

    def __init__(self, values: Iterable[Any], ledger: Ledger) -> None:
        super().__init__(values)
        self._ledger = ledger
        self._lists: dict[Any, list[Any]] = {i: [*v] for i, v in enumerate(self) if type(v) is list}
        ledger.hold(self)

    def __setitem__(self, slot: SupportsIndex | slice, value: Any) -> None:
        old = self._lists.pop(slot, None) if slot in self._lists else self[slot]
        super().__setitem__(slot, value)
        if type(value) is list:
            self._lists[slot] = [*value]
        if old is not value:
            gained, lost = _difference(value, old)
            self._ledger.hold(gained)
            self._ledger.drop(lost)


def _difference(new: Any, old: Any) -> tuple[Sequence[Any], Sequence[Any]]:
    """What a register came to hold and what it no longer does: of a list that grew by an element, that element."""
    if type(new) is type(old) is list:
        news, olds = {id(v): v for v in new}, {id(v): v for v in old}
        if len(news) == len(new) and len(olds) == len(old):
            return [news[key] for key in news.keys() - olds.keys()], [olds[key] for key in olds.keys() - news.keys()]
    return (new,), (old,)


class _Code(tuple[Any, ...]):
    """Instructions that tell the ledger when they run."""

    _ledger: Ledger
    _nodes: tuple[Node, ...]

    def __getitem__(self, address: Any) -> Any:
        self._ledger.begin(self._nodes[address])
        return super().__getitem__(address)


def run_watched(plan: ExecutionPlan, arguments: Iterable[Any], ledger: Ledger) -> list[Any]:
    """Run a plan that calls no function, as `run_plan` does; the results are held when it returns, and need a `drop`.

    The arguments are held by the registers alone as far as the ledger knows: hold them before if they live longer.
    Raises RuntimeFailure.
    """
    if any(step[0] == CALL for step in plan.code):
        raise ValueError(f"the plan of {plan.graph.name} calls functions: inline them first")
    code = _Code(plan.code)
    code._ledger, code._nodes = ledger, plan.nodes
    registers = _Registers([*arguments, *plan.template], ledger)
    for buffer in ledger.buffers(plan.template):
        buffer.mark(INPUT)
    results = execute(replace(plan, code=code), registers)
    ledger.hold(results)
    ledger.drop(registers)
    return results
