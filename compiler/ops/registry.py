"""The op table: what an op is, how one is declared, and how one is found.

An op is declared once, by `declare` or by `pointwise`, in the file of its family. Everything else (overload
resolution, type rules, array evaluation, kernels' text, documentation) reads the declaration.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Flag, auto
from threading import RLock
from typing import Any

from ..types.schema import FunctionSchema, parse_schema
from ..types.types import Type
from .arguments import Check, ElementRule, ShapeRule

FAMILIES = (
    "control",
    "prim",
    "pointwise",
    "comparison",
    "activations",
    "special",
    "reductions.reductions",
    "reductions.moments",
    "reductions.norms",
    "reductions.order",
    "reductions.scan",
    "reductions.lists",
    "linalg.products",
    "linalg.solvers",
    "linalg.structure",
    "linalg.batches",
    "shape",
    "shape_parts",
    "indexing",
    "indexing_scatter",
    "creation",
    "conversion",
    "random",
    "nn.layers",
    "nn.losses",
    "nn.norm",
    "nn.windows",
    "nn.adjoints",
    "nn.resize",
    "torchscript",
    "lists",
    "functional",
    "composites",
    "scalars",
    "strings",
    "hints",
)
"""The modules of `families` that declare ops, loaded on first use in this order."""


class Trait(Flag):
    """What passes decide by, instead of by an op's name."""

    NONE = 0
    POINTWISE = auto()
    """Each element of the result depends on the elements at the same place of the broadcast inputs."""
    COMMUTATIVE = auto()
    VIEW = auto()
    """In torch the result shares memory with the first argument."""
    COPIES = auto()
    """Of a view: it is one here, where values never change, and a copy in torch."""
    MAY_ALIAS = auto()
    """In torch the result may be an argument itself, or a view of it: `x.to(dtype)`, `x.contiguous()`."""
    RANDOM = auto()
    SIDE_EFFECT = auto()
    """May not be removed, repeated or moved: raise, print."""
    REDUCTION = auto()
    MATMUL = auto()
    """Arithmetic-bound: never recomputed."""
    SHAPE_ONLY = auto()
    """Depends on sizes, ranks, dtypes and devices of tensors, never on their elements."""
    NONDIFFERENTIABLE = auto()
    """The derivative is zero or undefined everywhere: comparisons, argmax, integers' results."""


ResultRule = Callable[[Sequence[Type]], Type | tuple[Type, ...]]
"""Types of the arguments, in schema order → type of the result (a tuple for several)."""


@dataclass(frozen=True, eq=False, slots=True)
class Op:
    """One declared op.

    `evaluate` takes one value per schema argument, in order (ndarray, number, bool, str, None, list; a dtype is
    its int code) and returns the result, a tuple for several. `scalar` is the expression of a pointwise op.
    `shape` is the rule of the result's shape, which pointwise ops, views and ops of numbers do without; `dtype` that of
    its dtype, where the types of the arguments (`result`) say too little and it is not the promoted one; `fits` asks
    what `shape` does not, such as a weight's sizes.
    `aliases` are other spellings in source (`cross_entropy` for `cross_entropy_loss`).
    """

    schema: FunctionSchema
    traits: Trait
    evaluate: Callable[..., Any]
    result: ResultRule | None = None
    scalar: Any = None
    aliases: tuple[str, ...] = ()
    shape: ShapeRule | None = None
    dtype: ElementRule | None = None
    fits: Check | None = None

    def has(self, trait: Trait) -> bool:
        # The operators of Flag make another Flag, which takes longer than all that asks.
        return self.traits._value_ & trait._value_ != 0

    def result_types(self, types: Sequence[Type]) -> tuple[Type, ...]:
        """One type per result, given the arguments' types."""
        if self.result is None:
            return tuple(r.type for r in self.schema.returns)
        result = self.result(types)
        return result if isinstance(result, tuple) else (result,)


class Registry:
    """Every op, by name and overload. There is one, `OPS`; families fill it when first needed."""

    def __init__(self) -> None:
        self._by_name: dict[str, list[Op]] = {}
        self._by_schema: dict[FunctionSchema, Op] = {}
        self._loaded = False
        self._lock = RLock()

    def add(self, op: Op) -> None:
        if op.schema in self._by_schema:
            raise ValueError(f"{op.schema.full_name} is declared twice")
        self._by_schema[op.schema] = op
        for name in (op.schema.base_name, *op.aliases):
            self._by_name.setdefault(name, []).append(op)

    def alias(self, spelling: str, name: str) -> None:
        """Let `spelling` mean what `name` does, with every overload declared so far."""
        self._by_name.setdefault(spelling, []).extend(self._by_name[name])

    def spellings(self, op: Op) -> list[str]:
        """Every name that an op has in source, its own first."""
        self.load()
        own = op.schema.base_name
        return [own, *sorted(n for n, ops in self._by_name.items() if n != own and op in ops)]

    def load(self) -> None:
        """Import every family, once."""
        if self._loaded:
            return
        with self._lock:
            for family in FAMILIES:
                importlib.import_module(f"{__package__}.families.{family}")
            self._loaded = True

    def overloads(self, name: str) -> Sequence[Op]:
        """The ops that `name` (without namespace) may mean, in the order declared; empty for an unknown name."""
        self.load()
        return self._by_name.get(name, ())

    def of(self, schema: FunctionSchema | None) -> Op | None:
        """The op that declared a schema; None for functions and for nodes without one."""
        self.load()
        return self._by_schema.get(schema) if schema is not None else None

    def named(self, full_name: str) -> Op:
        """The op of a kind such as `aten::add.Tensor`; KeyError where there is none."""
        base, _, overload = full_name.rpartition("::")[2].partition(".")
        for op in self.overloads(base):
            if op.schema.full_name == full_name:
                return op
        raise KeyError(f"no op {full_name} (overload {overload!r} of {base!r})")

    def names(self) -> list[str]:
        self.load()
        return sorted(self._by_name)

    def all(self) -> list[Op]:
        self.load()
        return list(self._by_schema.values())


OPS = Registry()


def declare(
    schema: str,
    evaluate: Callable[..., Any],
    *,
    traits: Trait = Trait.NONE,
    result: ResultRule | None = None,
    shape: ShapeRule | None = None,
    dtype: ElementRule | None = None,
    fits: Check | None = None,
    aliases: tuple[str, ...] = (),
) -> Op:
    """Declare an op that works on whole arrays."""
    op = Op(parse_schema(schema), traits, evaluate, result, None, aliases, shape, dtype, fits)
    OPS.add(op)
    return op
