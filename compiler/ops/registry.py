"""The op table: what an op is, how one is declared, and how one is found.

An op is declared once, by `declare` or by `pointwise`, in the file of its family. Everything else (overload
resolution, type rules, array evaluation, kernels' text, documentation) reads the declaration.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Flag, auto
from functools import cached_property
from threading import RLock
from typing import Any

from ...lang.light_dataclasses import dataclass
from ..types.schema import FunctionSchema, parse_schema
from ..types.types import Type
from .arguments import Check, ElementRule, ShapeRule
from .index import OpIndex
from .libraries import by_library

FAMILIES = (
    "language.control",
    "language.properties",
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
    "linalg.factorizations",
    "linalg.structure",
    "linalg.batches",
    "shape",
    "rearranging",
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
    "language.lists",
    "functional",
    "composites",
    "copies",
    "masked",
    "language.scalars",
    "language.strings",
    "language.texts",
    "language.hints",
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
    READS_BY_INDEX = auto()
    """Which elements it reads, a tensor of indices says: kernels look at each, and tell of one that is out of range."""
    COMPARES = auto()
    """What it gives is decided by which elements of lists are equal, or less than others."""
    LIBRARY = auto()
    """Libraries have a routine for it, quicker than the definition on arrays, and are asked first: see `libraries`."""
    ELEMENTS_APART = auto()
    """Of a list of tensors, a list: each of one tensor's elements, and of the others' sizes alone."""
    NONDIFFERENTIABLE = auto()
    """The derivative is zero or undefined everywhere: comparisons, argmax, integers' results."""

    def __or__(self, other: Trait) -> Trait:
        # Passes write `A | B` where they ask, for each node; Flag's own operator takes longer than all that asks.
        value = self._value_ | other._value_
        found = _COMBINED.get(value)
        if found is None:
            found = _COMBINED[value] = Trait(value)
        return found


_COMBINED: dict[int, Trait] = {}
ResultRule = Callable[[Sequence[Type]], Type | tuple[Type, ...]]
"""Types of the arguments, in schema order → type of the result (a tuple for several)."""


@dataclass(frozen=True, eq=False)
class Op:
    """One declared op.

    `function` takes one value per schema argument, in order (ndarray, number, bool, str, None, list; a dtype is
    its int code) and returns the result, a tuple for several. `scalar` is the expression of a pointwise op.
    `shape` is the rule of the result's shape, which pointwise ops, views and ops of numbers do without; `dtype` that of
    its dtype, where the types of the arguments (`result`) say too little and it is not the promoted one; `fits` asks
    what `shape` does not, such as a weight's sizes.
    `aliases` are other spellings in source (`cross_entropy` for `cross_entropy_loss`).
    """

    schema: FunctionSchema
    traits: Trait
    function: Callable[..., Any]
    result: ResultRule | None = None
    scalar: Any = None
    aliases: tuple[str, ...] = ()
    shape: ShapeRule | None = None
    dtype: ElementRule | None = None
    fits: Check | None = None

    @cached_property
    def evaluate(self) -> Callable[..., Any]:
        """`function`, or what is quicker and does the same."""
        found: Callable[..., Any] = self.function if self.scalar is None else self.scalar.evaluator()
        return found

    @cached_property
    def run(self) -> Callable[..., Any]:
        """`evaluate`, unless a library that is chosen for a while has a routine for it."""
        return by_library(self, self.evaluate) if self.has(Trait.LIBRARY) else self.evaluate

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
        # Passes ask it of each node: a method of Python's around it would take as long again.
        self.of: Callable[[FunctionSchema | None], Op | None] = self._by_schema.get  # type: ignore[assignment]
        """The op that declared a schema; None for functions and for nodes without one."""
        self._meant: dict[str, str] = {}
        self._asked: set[str] = set()
        self._loaded: set[str] = set()
        self._lock = RLock()

    def add(self, op: Op) -> None:
        if op.schema in self._by_schema:
            raise ValueError(f"{op.schema.full_name} is declared twice")
        self._by_schema[op.schema] = op
        for name in (op.schema.base_name, *op.aliases):
            self._by_name.setdefault(name, []).append(op)

    def alias(self, spelling: str, name: str) -> None:
        """Let `spelling` mean what `name` does, with every overload."""
        self._meant[spelling] = name

    def spellings(self, op: Op) -> list[str]:
        """Every name that an op has in source, its own first."""
        self.load()
        own = op.schema.base_name
        return [own, *sorted(n for n, ops in self._by_name.items() if n != own and op in ops)]

    @cached_property
    def _index(self) -> OpIndex:
        return OpIndex(FAMILIES)

    def load(self) -> None:
        """Import every family, once."""
        if len(self._loaded) == len(FAMILIES):
            return
        with self._lock:
            self._import(FAMILIES)
            for name in (*self._by_name, *self._meant):
                self.overloads(name)

    def _import(self, families: Iterable[str]) -> None:
        for family in families:
            importlib.import_module(f"{__package__}.families.{family}")
            self._loaded.add(family)

    def _ask(self, name: str) -> None:
        """Import what declares a name, as far as the index says, and all that it does not know."""
        with self._lock:
            self._import(f for f in (*self._index.unknown, *self._index.names.get(name, ())) if f not in self._loaded)
            found = self._by_name.get(name, [])
            meant = self.overloads(self._meant[name]) if name in self._meant else ()
            if found or meant:
                self._by_name[name] = [*sorted(found, key=self._place), *meant]
            self._asked.add(name)

    def _place(self, op: Op) -> int:
        """Where an op stands among all, in the order declared; behind all that the index knows if it knows nothing."""
        return self._index.places.get(op.schema.full_name, len(self._index.ops))

    def overloads(self, name: str) -> Sequence[Op]:
        """The ops that `name` (without namespace) may mean, in the order declared; empty for an unknown name."""
        if name not in self._asked:
            self._ask(name)
        return self._by_name.get(name, ())

    def has(self, schema: FunctionSchema | None, traits: Trait) -> bool:
        """Whether the op that declared a schema has any of the traits; False where there is no such op."""
        op = self.of(schema)
        return op is not None and op.has(traits)

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

    def by_family(self) -> Iterator[tuple[str, list[str], list[str]]]:
        """Each family with the full names of what it declares, and with the names it gives: what the index is made of.

        A family that another has loaded is part of that one.
        """
        seen: set[str] = set()
        for family in FAMILIES:
            known = set(self._meant)
            self._import([family])
            ops = [op for op in self._by_schema.values() if op.schema.full_name not in seen]
            full_names = [op.schema.full_name for op in ops]
            seen.update(full_names)
            spellings = [name for op in ops for name in (op.schema.base_name, *op.aliases)]
            yield family, full_names, [*dict.fromkeys(spellings), *(n for n in self._meant if n not in known)]

    def all(self) -> list[Op]:
        """In the order declared."""
        self.load()
        return sorted(self._by_schema.values(), key=self._place)


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
