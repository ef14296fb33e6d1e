"""Running compiled functions on data: conversion of arrays, plans, the interpreter, and the objects users hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..compiler.ops.composite import Composite
from ..compiler.types.schema import FunctionSchema
from .settings import random as random


def _run_composite(schema: FunctionSchema, arguments: Sequence[Any]) -> Any:
    """Run the function of an op that is written in the language. What runs it is loaded with the first of them."""
    from .plans.composites import run_composite

    return run_composite(schema, arguments)


Composite.runner = _run_composite
