"""Inputs that are numbers: seeds, steps, counters. What is computed changes with them, and nothing of how."""

from __future__ import annotations

from ..ir.graph import Graph
from ..ir.node import Node, Value
from ..ops.registry import OPS, Op, Trait
from ..passes.inline_functions import inline_functions
from ..types.types import BOOL, FLOAT, INT, NUMBER, STR, ListType, strip_optional

SEED = "seed"
"""The name of such an argument, in every schema that has one."""


def open_inputs(graph: Graph) -> frozenset[int]:
    """The numbers of the inputs that are seeds or integers that are computed with and decide nothing else: kernels take
    them at each call, so that a program need not know them."""
    plain = graph.copy()
    inline_functions(plain)
    numbers = [i for i, value in enumerate(plain.inputs) if value.type == INT and value.uses]
    return frozenset(i for i in numbers if _is_open(plain.inputs[i], plain.body.ret))


def open_lists(graph: Graph) -> frozenset[int]:
    """The inputs that are lists of such integers, as the seeds that the rounds of a loop drew, of which nothing but the
    elements is looked at: what stays a loop reads them as it runs."""
    plain = graph.copy()
    inline_functions(plain)
    lists = [i for i, value in enumerate(plain.inputs) if value.type == ListType(INT) and value.uses]
    return frozenset(i for i in lists if _has_open_elements(plain.inputs[i], plain.body.ret))


def _has_open_elements(values: Value, returned: Node) -> bool:
    readers = [use.user for use in values.uses if use.user.kind == "aten::__getitem__.t" and use.index == 0]
    return len(readers) == values.use_count and all(_is_open(node.output, returned) for node in readers)


def takes_any_number(op: Op, index: int) -> bool:
    """Whether kernels take any number as this argument: an operand of arithmetic, or a seed."""
    if op.schema.arguments[index].name == SEED:
        return True
    # A number that has a default is one like any other: kernels of it do without what the default would leave out.
    type = strip_optional(op.schema.arguments[index].type)
    return op.has(Trait.POINTWISE) and op.scalar is not None and type not in (INT, BOOL, STR)


def _is_open(number: Value, returned: Node) -> bool:
    """Whether all that is made of a number is arithmetic on numbers, or an argument that kernels take as it comes."""
    pending, seen = [number], {number}
    while pending:
        for use in pending.pop().uses:
            op = OPS.of(use.user.schema)
            if op is None:
                if use.user is not returned:
                    return False
            elif _is_arithmetic(op):
                found = [value for value in use.user.outputs if value not in seen]
                seen.update(found)
                pending += found
            elif not takes_any_number(op, use.index):
                return False
    return True


def _is_arithmetic(op: Op) -> bool:
    """Whether an op makes numbers of numbers, and decides nothing: what is compared is a condition."""
    types = [*(argument.type for argument in op.schema.arguments), *(result.type for result in op.schema.returns)]
    return all(type in (INT, FLOAT, NUMBER) for type in types) and not op.has(Trait.SIDE_EFFECT | Trait.RANDOM)
