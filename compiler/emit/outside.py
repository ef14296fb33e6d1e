"""What names from outside of a source text mean: functions of other units, constants, and modules under another name.

Emission asks for a dotted name whose first part is neither a variable nor a function of the unit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...lang.diagnostics import Diagnostic
from ...lang.light_dataclasses import dataclass
from ..ir.graph import Callee
from ..types.schema import FunctionSchema
from ..types.types import Type


@dataclass(frozen=True, slots=True)
class OutsideConstant:
    """A number, a string, a bool, None, or a tuple of such."""

    value: Any


@dataclass(frozen=True, slots=True)
class Alias:
    """Another spelling of a name that the language has: `torch.nn.functional.relu` for `nnf.relu`."""

    name: str


@dataclass(frozen=True, slots=True)
class Recursion:
    """A function that is being compiled, and those that call each other on the way back to it."""

    chain: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BrokenFunction:
    """A function that does not compile."""

    diagnostics: Sequence[Diagnostic]


@dataclass(frozen=True, slots=True)
class Unusable:
    """What source cannot use as a value: what it is, and what to do. `annotation` is the type that it is, if it is
    one: `Optional[Tensor]` for the name `OptTensor`."""

    message: str
    notes: tuple[str, ...] = ()
    annotation: str = ""


@dataclass(frozen=True, slots=True)
class RecordType:
    """A named tuple. Its schema makes one: fields are parameters, and the result has their names.

    `untyped` are the fields that nobody gave a type: they have that of what they are made of.
    """

    schema: FunctionSchema
    untyped: frozenset[str] = frozenset()

    @property
    def type(self) -> Type:
        return self.schema.returns[0].type


Outside = Callee | RecordType | OutsideConstant | Alias | Recursion | BrokenFunction | Unusable | None
"""None for a name that is not known."""
Environment = Callable[[str], Outside]
"""What a dotted name stands for."""


def nothing(name: str) -> Outside:
    """The environment of a source text that stands alone."""
    return None


def environment_within(found: Mapping[str, Outside], around: Environment) -> Environment:
    """The environment in which names have been found that hide those around it; it may be added to."""
    return lambda name: found[name] if name in found else around(name)
