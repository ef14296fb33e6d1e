"""Which ops are written as methods: `x.sum(0)`, not `torch.sum(x, 0)`."""

from __future__ import annotations

from ..ir.node import Node
from ..ops.registry import OPS, Trait
from ..spelling.functions import FUNCTIONS_ONLY
from ..spelling.names import MODULES, OWN
from ..types.types import TENSOR, is_tensor
from .arguments import Spelling

_NO_METHODS = frozenset(("where", "polygamma", "special_polygamma"))
"""Functions whose object is not their first argument."""
_PREFIXES = tuple(prefix for prefix in MODULES.values() if prefix)


def is_method(node: Node, spelling: Spelling) -> bool:
    """Whether the op may be called on its first argument, which these arguments begin with."""
    assert node.schema is not None
    name = node.schema.base_name
    if (
        name in _NO_METHODS
        or name in OWN
        or name in FUNCTIONS_ONLY
        or name.startswith(("_", *_PREFIXES))
        or name.endswith("_")
    ):
        return False
    return bool(spelling) and spelling[0] == (0, "") and is_tensor(node.inputs[0].type)


def is_method_by_custom(node: Node) -> bool:
    """Whether torch's users would call the op on its first argument: what says something about one tensor."""
    op = OPS.of(node.schema)
    assert op is not None
    if op.has(Trait.POINTWISE) or op.has(Trait.RANDOM) or op.schema.base_name.endswith("_like"):
        return False
    first, *rest = op.schema.arguments
    return first.name == "self" and first.type == TENSOR and not any(is_tensor(argument.type) for argument in rest)


def is_method_of_string(node: Node, spelling: Spelling) -> bool:
    """Whether the op is a string's: `s.upper()`."""
    assert node.schema is not None
    return node.schema.base_name.startswith(MODULES["str"]) and bool(spelling) and spelling[0] == (0, "")
