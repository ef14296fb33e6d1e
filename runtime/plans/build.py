"""Graph → ExecutionPlan: registers, jumps, and where values are freed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from threading import Lock
from typing import Any

from ...compiler.analysis.counting import position_counted_back
from ...compiler.analysis.liveness import ALIASES, CONSTANTS, Liveness, analyse
from ...compiler.analysis.ownership import Ownership, ownership
from ...compiler.ir.constants import runtime_value
from ...compiler.ir.graph import Graph
from ...compiler.ir.node import Block, Node, Value
from ...compiler.ir.rewrite import constant_of
from ...compiler.types.types import INT_LIST, NUMBERS
from ...lang.trampoline import Walk, run
from .node_evaluation import evaluation_of
from .operations import WRITES, CopiedView, NodeFunction, own_copy
from .plan import (
    AGAIN,
    APPEND,
    BINARY,
    BRANCH,
    CALL,
    COPY,
    DESCEND,
    DOWN,
    ENTER,
    FREE,
    GENERAL,
    ITEM,
    JUMP,
    MOVE,
    NEXT,
    RETURN,
    ROUNDS,
    SKIP,
    SPREAD,
    UNARY,
    ExecutionPlan,
    Instruction,
    SlotNumbers,
    filled_registers,
    gather,
    without,
)

_MOVES = frozenset((COPY, MOVE, JUMP, BRANCH, ENTER, DESCEND, *ROUNDS))
"""Instructions that make nothing."""
_LIGHT = NUMBERS | {INT_LIST}
"""What takes next to no memory."""


class PlanCache:
    """The plans of graphs, each built when first asked for and once only, however many threads ask."""

    def __init__(self, build: Callable[[Graph, PlanCache], ExecutionPlan] | None = None) -> None:
        self._build = build or build_plan
        self._plans: dict[Graph, ExecutionPlan] = {}
        self._lock = Lock()

    def plan(self, graph: Graph) -> ExecutionPlan:
        """The plan of a graph as it is at the first call; a closure that it returns is left out."""
        found = self._plans.get(graph)
        if found is None:
            with self._lock:
                found = self._plans.get(graph)
                if found is None:
                    found = self._plans[graph] = self._build(graph, self)
        return found


def build_plan(graph: Graph, callees: PlanCache | None = None) -> ExecutionPlan:
    """Flatten a graph. Plans of the functions it calls are built when they are called, and kept in `callees`."""
    return PlanBuilder(graph.without_closure(), PlanCache() if callees is None else callees).build()


class PlanBuilder:
    """Builds one plan. `_owned` holds, innermost block last, the values that the block must free."""

    passing: tuple[type[Exception], ...] = ()
    """Errors that are none of the data's: they leave a run of the plan as they are."""
    writes = True
    """Whether a run may write into what nobody else sees."""
    own_copy = staticmethod(own_copy)
    """What makes of a value one that nobody else has."""
    descends = True
    """Whether a loop may count down where its rounds look at nothing but how many are left."""

    def __init__(self, graph: Graph, callees: PlanCache) -> None:
        self._graph = graph
        self._callees = callees
        self._live: Liveness = analyse(graph)
        self._own = ownership(graph) if self.writes else Ownership()
        self._slots: dict[Value, int] = {}
        self._template: list[Any] = []
        self._free: list[int] = []
        self._preferred: dict[Value, int] = {}
        """Where what a round ends with is best put: where the next round finds it."""
        self._reserved: dict[Value, int] = {}
        """Registers that wait for what a branch ends with: nobody else gets them."""
        self._pending: tuple[SlotNumbers, Node] = ((), graph.body.param)
        """What is to be cleared by the next instruction that makes nothing, or by one of its own before any other."""
        self._kept_in_lists: list[set[int]] = []
        """By loop, innermost last: registers of what has gone into lists, and dies no earlier than they."""
        self._positions: dict[Node, int] = {}
        """What is left of rounds, by the register that a loop counts down."""
        self._owned: list[set[Value]] = []
        self._steps: list[Instruction] = []
        self._nodes: list[Node] = []
        self._operands: list[SlotNumbers] = []
        self._node: Node = graph.body.param
        self._lowering = {
            "prim::If": self._if,
            "prim::Loop": self._loop,
            "prim::GradOf": self._grad_of,
        }

    def build(self) -> ExecutionPlan:
        body = self._graph.body
        for value in body.inputs:
            self._slots[value] = self._allocate()
        run(self._block(body, set(body.inputs)))
        self._node = body.ret
        self._emit(RETURN, first=gather(self._slots_of(body.outputs)), operands=self._slots_of(body.outputs))
        return ExecutionPlan(
            self._graph,
            tuple(tuple(step) for step in self._steps),
            tuple(self._template[len(body.inputs) :]),
            len(body.inputs),
            tuple(self._nodes),
            tuple(self._operands),
            self._callees,
            self.passing,
        )

    # --- registers ---

    def _allocate(self, wanted: int | None = None) -> int:
        if wanted is not None and wanted in self._free:
            self._free.remove(wanted)
            return wanted
        if self._free:
            return self._free.pop()
        self._template.append(None)
        return len(self._template) - 1

    def _slot(self, value: Value) -> int:
        value = self._live.resolve(value)
        slot = self._slots.get(value)
        if slot is None:
            assert value.node.kind in CONSTANTS, f"{value} has no register"
            # A register of its own: it is never written, so that loops and later runs find it as it was.
            self._template.append(self._constant(value.node.attrs.get("value")))
            slot = self._slots[value] = len(self._template) - 1
        return slot

    def _slots_of(self, values: Iterable[Value]) -> SlotNumbers:
        return tuple([self._slot(value) for value in values])

    def _dying(self, node: Node) -> list[Value]:
        """The values that end at a node of the current block."""
        owned = self._owned[-1]
        return [value for value in self._live.deaths.get(node, ()) if value in owned]

    def _release(self, values: Iterable[Value]) -> SlotNumbers:
        """Give up the registers of values; those that the next instruction is to clear unless it fills them.

        A number may stay where it is: nothing waits for its memory.
        """
        values = [*values]
        self._free += [self._slots[value] for value in values]
        return tuple([self._slots[value] for value in values if value.type not in NUMBERS])

    def _define(self, values: Iterable[Value]) -> SlotNumbers:
        """Registers for results, which the current block owns."""
        targets = []
        for value in values:
            slot = self._reserved.pop(value, None)
            slot = self._slots[value] = self._allocate(self._preferred.get(value)) if slot is None else slot
            self._owned[-1].add(value)
            targets.append(slot)
        return tuple(targets)

    def _unused(self, node: Node) -> list[Value]:
        """The results of a node of the current block that nobody uses."""
        assert node.owner is not None
        return [value for value in node.outputs if not self._live.used_in(node.owner, value)]

    # --- instructions ---

    def _emit(
        self,
        kind: int,
        function: Any = None,
        target: Any = None,
        first: Any = None,
        second: Any = None,
        dead: SlotNumbers = (),
        operands: SlotNumbers = (),
    ) -> int:
        pending, node = self._pending
        if pending:
            self._pending = (), node
            if kind in _MOVES or self._makes_numbers(kind):
                dead += without(pending, (*dead, *filled_registers(kind, function, target, first)))
            else:
                self._append(node, Instruction(FREE, dead=pending), ())
        self._append(self._node, Instruction(kind, function, target, first, second, dead), operands)
        return len(self._steps) - 1

    def _append(self, node: Node, step: Instruction, operands: SlotNumbers) -> None:
        self._steps.append(step)
        self._nodes.append(node)
        self._operands.append(operands)

    def _makes_numbers(self, kind: int) -> bool:
        """Whether an op gives nothing that takes memory of its own."""
        outputs = self._node.outputs
        return kind in (BINARY, UNARY, GENERAL) and bool(outputs) and all(v.type in _LIGHT for v in outputs)

    def _next_address(self) -> int:
        """Where the next instruction is going to stand."""
        pending, node = self._pending
        if pending:
            self._pending = (), node
            self._append(node, Instruction(FREE, dead=pending), ())
        return len(self._steps)

    def _aim(self, address: int) -> None:
        """Make the jump at `address` lead to what comes next."""
        self._steps[address] = self._steps[address]._replace(target=self._next_address())

    def _emit_free(self, dead: SlotNumbers) -> None:
        if dead:
            self._pending = (*self._pending[0], *dead), self._node

    def _emit_move(self, sources: SlotNumbers, targets: SlotNumbers, dead: SlotNumbers = ()) -> None:
        pairs = [(s, t) for s, t in zip(sources, targets, strict=True) if s != t]
        if len(pairs) == 1:
            ((source, target),) = pairs
            self._emit(COPY, None, target, source, dead=dead)
        elif pairs:
            self._emit(MOVE, None, tuple(t for _, t in pairs), gather([s for s, _ in pairs]), dead=dead)
        else:
            self._emit_free(dead)

    # --- blocks ---

    def _block(self, block: Block, owned: set[Value]) -> Walk:
        """Everything in a block but its results. What of `owned` it does not use is freed first."""
        self._owned.append(owned)
        entry = [value for value in owned if not self._live.used_in(block, value)]
        if entry:
            self._emit_free(self._release(entry))
        for node in block.nodes:
            self._node = node
            lower = self._lowering.get(node.kind)
            if lower is not None:
                yield lower(node)
            elif node.kind not in CONSTANTS and node.kind not in ALIASES and node not in self._positions:
                self._operation(node)

    def _close(self, node: Node, block: Block, targets: SlotNumbers) -> None:
        """Move the results of a node's block to registers and end the block; what dies here is freed."""
        self._node = node
        sources = self._slots_of(block.outputs)[len(block.outputs) - len(targets) :]
        dead = self._release(self._dying(block.ret))
        self._emit_move(sources, targets, without(dead, targets))
        self._owned.pop()

    def _operation(self, node: Node) -> None:
        """One op or call: operands that die give their registers to the results."""
        inputs, released, targets, unused = self._registers_of(node)
        if self._is_call(node):
            self._emit(CALL, node.attr("callee"), targets, gather(inputs), released, unused, inputs)
            return
        dead = without(released, targets) + unused
        function, taken = self._in_place(node) or self._evaluation(node)
        if node in self._own.views:
            function = CopiedView(function, self.own_copy)
        operands = tuple([inputs[i] for i in taken])
        if len(targets) != 1:
            self._emit(SPREAD, function, targets, gather(operands), None, dead, inputs)
        elif len(operands) == 2:
            kind = _kind_of_two(node, function)
            if kind == APPEND and self._kept_in_lists and operands[1] in dead:
                self._kept_in_lists[-1].add(operands[1])
                dead = without(dead, operands[1:])
            self._emit(kind, function, targets[0], *operands, dead, inputs)
        elif len(operands) == 1:
            self._emit(UNARY, function, targets[0], operands[0], None, dead, inputs)
        else:
            self._emit(GENERAL, function, targets[0], gather(operands), None, dead, inputs)

    def _registers_of(self, node: Node) -> tuple[SlotNumbers, SlotNumbers, SlotNumbers, SlotNumbers]:
        """Registers: of a node's operands, of those that die there, of its results, of those that nobody uses."""
        inputs = self._slots_of(node.inputs)
        released = self._release(self._dying(node))
        targets = self._define(node.outputs)
        return inputs, released, targets, self._release(self._unused(node))

    def _is_call(self, node: Node) -> bool:
        """Whether a node is run as a plan of its own, by an instruction of its own."""
        return node.kind == "prim::CallFunction"

    def _in_place(self, node: Node) -> tuple[NodeFunction, Sequence[int]] | None:
        return (WRITES[node.kind], range(len(node.inputs))) if node in self._own.writes else None

    def _evaluation(self, node: Node) -> tuple[NodeFunction, Sequence[int]]:
        """What a node comes to as a function of some of its operands."""
        return evaluation_of(node)

    def _constant(self, value: Any) -> Any:
        """A constant of the graph as ops take it."""
        return runtime_value(value)

    def _if(self, node: Node) -> Walk:
        then, otherwise = node.blocks
        condition = self._slot(node.inputs[0])
        dying = self._dying(node)
        targets = self._define(node.outputs)
        nowhere = [v for v in dying if not any(self._live.used_in(block, v) for block in node.blocks)]
        inside = set(dying).difference(nowhere)
        branch = self._emit(BRANCH, None, None, condition, None, self._release(nowhere), (condition,))
        self._reserve(then, targets)
        yield self._block(then, set(inside))
        self._close(node, then, targets)
        jump = self._emit(JUMP)
        self._aim(branch)
        self._take_back([*[self._slots[value] for value in inside], *targets])
        self._reserve(otherwise, targets)
        yield self._block(otherwise, inside)
        self._close(node, otherwise, targets)
        self._take_back(targets)
        self._aim(jump)
        self._emit_free(self._release(self._unused(node)))

    def _reserve(self, block: Block, targets: SlotNumbers) -> None:
        """Have what a branch ends with put where it is looked for, and what loops begin with that end with it."""
        for value, slot in zip(block.outputs, targets, strict=True):
            while value.node.owner is block and value.use_count == 1 and value not in self._reserved:
                self._reserved[value] = slot
                if value.node.kind != "prim::Loop":
                    break
                value = value.node.inputs[2 + value.node.outputs.index(value)]

    def _grad_of(self, node: Node) -> Walk:
        (block,) = node.blocks
        inputs = self._slots_of(node.inputs)
        dying = self._dying(node)
        targets = self._define(node.outputs)
        inside = {value for value in dying if self._live.used_in(block, value)}
        nowhere = self._release([value for value in dying if value not in inside])
        skip = self._emit(SKIP, None, None, gather(inputs), None, nowhere, inputs)
        yield self._block(block, set(inside))
        self._close(node, block, targets)
        jump = self._emit(JUMP)
        self._aim(skip)
        self._emit_free((*targets, *[self._slots[value] for value in inside]))
        self._aim(jump)
        self._emit_free(self._release(self._unused(node)))

    def _loop(self, node: Node) -> Walk:
        (block,) = node.blocks
        trips, entry, *initial = node.inputs
        dying = self._dying(node)
        early = [v for v in dying if v is not self._live.resolve(trips) and not self._live.used_in(block, v)]
        inside = [v for v in dying if v not in early]
        index = self._slots[block.inputs[0]] = self._allocate()
        sources = self._slots_of(initial)
        carried = self._carried(node, initial, early)
        self._slots.update(zip(block.inputs[1:], carried, strict=True))
        always = constant_of(entry) is True and constant_of(block.outputs[0]) is True
        condition = self._slot(entry) if always else self._allocate()
        head, targets = ((), carried) if always else ((self._slot(entry),), (condition, *carried))
        self._emit_move((*head, *sources), targets, self._release(early))
        for value in [value for value in block.inputs if value in self._own.copied]:
            slot = self._slots[value]
            self._emit(UNARY, self.own_copy, slot, slot, operands=(slot,))
        counts = self._slot(trips)
        position = position_counted_back(block) if always and self.descends else None
        if position is None:
            enter = self._emit(ENTER, condition, None, index, counts)
            round_ends: tuple[Any, ...] = (NEXT, None, index, counts) if always else (AGAIN, condition, index, counts)
        else:
            limit = self._allocate()
            self._positions[position] = self._slots[position.output] = index
            enter = self._emit(DESCEND, (self._slot(position.inputs[0]), limit), None, index, counts)
            round_ends = DOWN, None, index, limit
        start = self._next_address()
        self._preferred.update(zip(block.outputs[1:], carried, strict=True))
        self._kept_in_lists.append(set())
        yield self._block(block, set(block.inputs[1:]))
        self._close(node, block, targets)
        kind, function, first, second = round_ends
        self._emit(kind, function, start, first, second)
        self._aim(enter)
        self._take_back(carried)
        late = tuple([slot for slot in self._kept_in_lists.pop() if slot in self._free])
        late += self._release(inside) + self._release(self._unused(node))
        self._free += [index] if always else [index, condition]
        if position is not None:
            self._free.append(limit)
        self._emit_free(late)

    def _carried(self, loop: Node, initial: Sequence[Value], early: list[Value]) -> SlotNumbers:
        """Registers for what a loop carries: those of initial values that end with its start, which leave `early`."""
        started = [self._live.resolve(value) for value in initial]
        for value, carried in zip(started, loop.outputs, strict=True):
            if value in early and started.count(value) == 1:
                early.remove(value)
                self._slots[carried] = self._slots[value]
                self._owned[-1].add(carried)
        self._define([value for value in loop.outputs if value not in self._slots])
        return self._slots_of(loop.outputs)

    def _take_back(self, slots: Iterable[int]) -> None:
        """Registers that were given up in a block and hold something all the same where the next block starts."""
        taken = set(slots)
        self._free = [slot for slot in self._free if slot not in taken]


def _kind_of_two(node: Node, function: NodeFunction) -> int:
    """The instruction for an op of two operands: what loops keep and read again is done without a call."""
    if function is WRITES["aten::append.t"]:
        return APPEND
    return ITEM if node.kind == "aten::__getitem__.t" and function is evaluation_of(node)[0] else BINARY
