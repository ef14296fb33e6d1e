"""What may be recomputed, and by which rule that is decided: Policy, and what users write for one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from ...lang.light_dataclasses import dataclass
from ..ir.graph import Graph
from ..ir.node import Node, Value, walk
from ..ops.registry import OPS, Trait
from ..types.types import is_differentiable

Predicate: TypeAlias = Callable[[Node], bool]
"""Whether a node of the forward may be computed again in the backward."""
Holding: TypeAlias = Callable[[Graph, Mapping[Value, Any]], Predicate]
"""Of a forward, and what is known of its values: whether who computes a node again holds all that it takes."""

POLICIES = ("save_all", "mirror", "min_cut", "recompute_all", "budget")
DEFAULT = "min_cut"
_HEAVY = Trait.MATMUL | Trait.RANDOM | Trait.SIDE_EFFECT
_NEVER = Trait.RANDOM | Trait.SIDE_EFFECT
_LIGHT = Trait.POINTWISE | Trait.VIEW | Trait.REDUCTION | Trait.SHAPE_ONLY
_MOVES = frozenset(
    {
        "prim::ListConstruct",
        "prim::ListUnpack",
        "prim::TupleConstruct",
        "prim::TupleUnpack",
        "prim::TupleIndex",
        "prim::unchecked_cast",
        "prim::unchecked_unwrap_optional",
        "prim::Constant",
        "prim::Uninitialized",
    }
)
"""Structural kinds that only hand values on."""
_CHEAP_OPS = frozenset(
    (
        *("cat", "concat", "concatenate", "stack", "flip", "roll", "tril", "triu", "constant_pad_nd", "pad"),
        *("gather", "index", "index_select", "embedding", "masked_fill", "masked_dropout", "to", "type_as", "add_n"),
        *(
            "uniform",
            "random_bits",
            "seeded_dropout",
            "seeded_rrelu",
            "float",
            "double",
            "half",
            "bfloat16",
            "zeros",
            "ones",
            "full",
            "empty",
            "arange",
            "eye",
            "linspace",
        ),
    )
)
"""Ops that no trait describes whose work is that of moving their elements."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How captures are traded for recomputation.

    `name` is one of POLICIES. `budget` is the number of bytes that the backward may keep of the forward, where the name
    is "budget". `predicate` says per node of the forward whether it may be recomputed (None: `is_light`, or for
    "recompute_all" and "budget" `is_repeatable`). `in_registers` says that what runs again is nowhere in memory, as
    in fused kernels: what is kept counts then, and no peak; and `holds` which nodes cost their arithmetic alone there,
    whatever the predicate says.
    """

    name: str = DEFAULT
    budget: int | None = None
    predicate: Predicate | None = None
    in_registers: bool = False
    holds: Holding | None = None

    def __post_init__(self) -> None:
        if self.name not in POLICIES:
            raise ValueError(f"there is no policy '{self.name}'; the policies are {', '.join(POLICIES)}=N")
        if (self.name == "budget") != (self.budget is not None):
            raise ValueError("a budget in bytes belongs to the policy 'budget', which needs one: 'budget=1000000'")
        if self.budget is not None and self.budget < 0:
            raise ValueError(f"a budget is a number of bytes, not {self.budget}")

    def __str__(self) -> str:
        return self.name if self.budget is None else f"budget={self.budget}"

    @property
    def may_recompute(self) -> Predicate:
        """The predicate in force. What is random or has an effect is never computed twice, whatever a user's says."""
        chosen = self.predicate
        if chosen is None:
            return is_repeatable if self.name in ("recompute_all", "budget") else is_light
        return lambda node: is_repeatable(node) and chosen(node)


def policy(spec: str | int | Policy | None) -> Policy:
    """A policy from what users write: a name, "budget=1000000", a number of bytes, None for the default.

    ValueError for anything else.
    """
    if spec is None:
        return Policy()
    if isinstance(spec, Policy):
        return spec
    if isinstance(spec, int) and not isinstance(spec, bool):
        return Policy("budget", spec)
    if not isinstance(spec, str):
        raise ValueError(f"a policy is a name or a number of bytes, not {type(spec).__name__}")
    name, _, amount = spec.partition("=")
    if not amount:
        return Policy(name.strip())
    if not amount.strip().isdecimal():
        raise ValueError(f"'{spec}': a budget is a whole number of bytes, such as 'budget=1000000'")
    return Policy(name.strip(), int(amount))


def is_light(node: Node) -> bool:
    """The default mirror predicate: pointwise ops, views, sizes and cheap reductions; a branch of only such.

    Matrix products, convolutions, sorts, random ops and loops are not.
    """
    if node.blocks:
        inside = (inner for block in node.blocks for inner in walk(block.nodes))
        return node.kind == "prim::If" and all(inner.kind == "prim::If" or is_light(inner) for inner in inside)
    op = OPS.of(node.schema)
    if op is None:
        return node.kind in _MOVES
    if op.has(_HEAVY):
        return False
    if op.has(_LIGHT) or op.schema.base_name in _CHEAP_OPS:
        return True
    return not any(is_differentiable(value.type) for value in node.outputs)


def is_repeatable(node: Node) -> bool:
    """Whether a node, and all inside it, may run a second time: it is neither random nor has it an effect."""
    return not any(one.kind == "prim::CallFunction" or OPS.has(one.schema, _NEVER) for one in walk([node]))
