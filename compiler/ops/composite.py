"""Ops that are written in the language: the function in stdlib_grads says what they compute, and differentiates them.

    composite("gs::softsign(Tensor input) -> Tensor")          def softsign(input):
                                                                   return input / (input.abs() + 1)

Running a graph is the business of a runtime, which puts itself in `Composite.runner` when it is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from ..types.schema import FunctionSchema, parse_schema
from .registry import OPS, Op, Trait

CompositeRunner = Callable[[FunctionSchema, Sequence[Any]], Any]
"""Runs the function of a schema on one value per argument."""


class Composite:
    """The `function` of a composite op."""

    runner: ClassVar[CompositeRunner | None] = None

    def __init__(self, schema: FunctionSchema) -> None:
        self._schema = schema

    def __call__(self, *arguments: Any) -> Any:
        runner = type(self).runner
        if runner is None:
            raise RuntimeError(f"{self._schema.full_name} is written in the language: no runtime is loaded to run it")
        return runner(self._schema, arguments)


def composite(schema: str, *, aliases: tuple[str, ...] = (), traits: Trait = Trait.NONE) -> Op:
    """Declare an op whose function stands in stdlib_grads."""
    parsed = parse_schema(schema)
    op = Op(parsed, traits, Composite(parsed), None, None, aliases)
    OPS.add(op)
    return op


def is_composite(op: Op) -> bool:
    """Whether an op is written in the language."""
    return isinstance(op.function, Composite)
