"""Running a plan: one loop over instructions, with a stack of its own for calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from ...compiler.ir.node import Node
from ...compiler.ops.bounds import MAX_LISTED, require_listed
from ...compiler.ops.families.language.control import is_gradient_there
from ...lang.source import NO_SPAN
from ..failures.failed_node import failure_at, notes_of_calls
from ..failures.failure import RuntimeFailure
from ..values.float_errors import ignoring_float_errors
from .plan import (
    AGAIN,
    APPEND,
    BAIL,
    BINARY,
    BRANCH,
    CALL,
    COPY,
    DESCEND,
    DOWN,
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
    Registers,
    SlotNumbers,
)

_FOREVER = 2**63 - 1
"""The rounds of a loop that its condition alone ends."""
CallerFrame = tuple[ExecutionPlan, Registers, int, SlotNumbers, SlotNumbers]
"""A caller that waits: its plan and registers, where to go on, where the results go, what to clear then."""


def run_plan(plan: ExecutionPlan, arguments: Sequence[Any]) -> list[Any]:
    """The outputs of a graph for one value per input, as arrays, Python values, lists and tuples.

    The arguments are what ops take, unchecked: `arrays` and `binding` make them of what a user passes. None stands
    for an undefined gradient. RuntimeFailure is all that is raised for what is wrong with the data.
    """
    if len(arguments) != plan.input_count:
        raise TypeError(f"{plan.graph.title} takes {plan.input_count} values, not {len(arguments)}")
    return execute(plan, [*arguments, *plan.template])


@ignoring_float_errors
def execute(plan: ExecutionPlan, registers: Registers) -> list[Any]:
    """The one loop. What it does for each kind is the table of `plan.Instruction`; the usual kinds come first.

    `registers` are the arguments and then the template; they are used up: a value that nothing else holds is freed
    after its last use.
    """
    frames: list[CallerFrame] = []
    code = plan.code
    address = 0
    try:
        while True:
            kind, function, target, first, second, dead = code[address]
            address += 1
            if kind == BINARY:
                registers[target] = function(registers[first], registers[second])
            elif kind == UNARY:
                registers[target] = function(registers[first])
            elif kind <= DOWN:
                if kind == ITEM:
                    registers[target] = registers[first][registers[second]]
                elif kind == APPEND:
                    registers[first].append(registers[second])
                    registers[target] = registers[first]
                elif kind == NEXT:
                    index = registers[first] + 1
                    if index < registers[second]:
                        registers[first] = index
                        address = target
                else:
                    index = registers[first] - 1
                    if index > registers[second]:
                        registers[first] = index
                        address = target
            elif kind == GENERAL:
                registers[target] = function(*first(registers))
            elif kind == SPREAD:
                results = function(*first(registers))
                if target:
                    for slot, value in zip(target, results, strict=True):
                        registers[slot] = value
                # What these names hold would outlive its register.
                results = value = None
            elif kind <= FREE:
                if kind == COPY:
                    registers[target] = registers[first]
                elif kind == MOVE:
                    for slot, value in zip(target, first(registers)):  # noqa: B905 - as long as each other by construction
                        registers[slot] = value
                    value = None
            elif kind == JUMP:
                address = target
            elif kind == BRANCH:
                if not registers[first]:
                    address = target
            elif kind == SKIP:
                if not any(map(is_gradient_there, first(registers))):
                    address = target
            elif kind <= AGAIN:
                if kind != AGAIN and MAX_LISTED < registers[second] < _FOREVER:
                    # What watches a run takes each item of the code for one that runs: none is, here.
                    _require_room([*islice(code, address, target)], registers[second])
                address = _go_round(kind, function, target, first, second, address, registers)
            elif kind == CALL:
                callee = plan.callees.plan(plan.functions[function].graph)
                values = [*first(registers), *callee.template]
                for slot in second:
                    registers[slot] = None
                frames.append((plan, registers, address, target, dead))
                plan, registers, code, address, dead = callee, values, callee.code, 0, ()
            elif kind == RETURN:
                results = first(registers)
                if not frames:
                    return [*results]
                plan, registers, address, target, dead = frames.pop()
                code = plan.code
                for slot, value in zip(target, results):  # noqa: B905 - a callee returns what its schema says
                    registers[slot] = value
            elif kind == BAIL:
                if function.holds(registers[first]):
                    registers[target] = registers[first]
                else:
                    plan, registers, address = function.leave(registers)
                    code, dead = plan.code, ()
            if dead:
                for slot in dead:
                    registers[slot] = None
    except RuntimeFailure as failure:
        # What ran in an instruction, as a group does, knows nothing of what is around.
        notes = [*_all_rounds(plan, registers, address - 1, frames), *notes_of_calls(_callers(frames))]
        if not notes:
            raise
        raise failure.with_notes(notes) from failure.__cause__
    except Exception as error:
        if isinstance(error, plan.passing):
            raise
        raise _failure(error, plan, registers, address - 1, frames) from error


def _go_round(
    kind: int, function: Any, target: int, first: int, second: int, address: int, registers: Registers
) -> int:
    """Where to go on at the start of a loop, or at the end of a round that a condition may follow by another."""
    if kind == AGAIN:
        index = registers[first] + 1
        if index >= registers[second] or not registers[function]:
            return address
        registers[first] = index
        return target
    if registers[second] <= 0:
        return target
    if kind == DESCEND:
        last, limit = function
        registers[first] = registers[last]
        registers[limit] = registers[last] - registers[second]
        return address
    if not registers[function]:
        return target
    registers[first] = 0
    return address


def _require_room(body: Sequence[tuple[Any, ...]], rounds: int) -> None:
    """MemoryError where each round of a loop appends to a list, and so many elements are more than one may have."""
    kinds = {kind for kind, *_ in body}
    # Between the ends of the loop nothing is left out.
    if APPEND in kinds and body[-1][0] in (NEXT, DOWN) and not kinds & {BRANCH, SKIP, JUMP, BAIL}:
        require_listed(int(rounds), "at least ")


def _failure(
    error: Exception, plan: ExecutionPlan, registers: Registers, address: int, frames: Sequence[CallerFrame]
) -> RuntimeFailure:
    operands = [registers[slot] for slot in plan.operands[address]]
    if plan.code[address][0] == ITEM:
        error = _said_by(plan.code[address][1], operands, error)
    rounds = _all_rounds(plan, registers, address, frames)
    return failure_at(plan.nodes[address], operands, error, plan.graph.title, _callers(frames), rounds)


def _callers(frames: Sequence[CallerFrame]) -> list[tuple[str, Node]]:
    """The function and the node of each call, from the inside out."""
    return [(caller.graph.title, caller.nodes[at - 1]) for caller, _, at, _, _ in reversed(frames)]


def _all_rounds(plan: ExecutionPlan, registers: Registers, address: int, frames: Sequence[CallerFrame]) -> list[str]:
    """Which rounds an instruction stands in, those of the calls around too."""
    rounds = _rounds(plan, registers, address)
    for caller, kept, at, _, _ in reversed(frames):
        rounds += _rounds(caller, kept, at - 1)
    return rounds


def _said_by(evaluate: Callable[..., Any], operands: Sequence[Any], error: Exception) -> Exception:
    """What the op says itself of what went wrong without it."""
    try:
        evaluate(*operands)
    except Exception as said:
        return said
    return error


def _rounds(plan: ExecutionPlan, registers: Registers, address: int) -> list[str]:
    """Which round of which loop of the user's an instruction stands in, from the inside out."""
    found = []
    for at in range(address, len(plan.code)):
        kind, _, start, index, _, _ = plan.code[at]
        if kind in ROUNDS and start <= address:
            span = plan.nodes[at].blocks[0].param.span
            if span != NO_SPAN and not span.source.is_library:
                done = registers[index]
                if kind == DOWN:
                    done = registers[plan.code[start - 1][1][0]] - done
                found.append(f"in round {done + 1} of the loop at {span}")
    return found
