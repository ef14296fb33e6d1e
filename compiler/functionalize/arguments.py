"""Ops that return their argument, or a view of it, where nothing is to copy: told now, or asked when it runs.

    %z = aten::double(%y)        ─▶    %same = aten::eq.int(prim::dtype(%y), prim::dtype(%z))

where %z is %y if %same, and a tensor of its own otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...lang.light_dataclasses import dataclass
from ..ir.builder import Builder
from ..ir.node import Node, Value
from ..types.dtypes import BOOL, UINT8
from ..types.types import NONE, ListType, TensorType, is_tensor
from .views import ViewArgument, argument_of

PRESERVE_FORMAT = 2


@dataclass(frozen=True, slots=True)
class CopyRule:
    """Whether an op copies nothing. `told` gives None where only a run can tell; `asked` may give None, too."""

    told: Callable[[Node, Mapping[str, ViewArgument]], bool | None]
    asked: Callable[[Builder, Node, Mapping[str, ViewArgument]], Value | None]


def is_argument(made: Node) -> bool | None:
    """Whether the op of a node returns its argument or a view of it; None where that is not known here."""
    return _told(made, _SHARING)


def ask_argument(builder: Builder, made: Node) -> Value | None:
    """The same as a bool of the program; None where the values do not tell either."""
    return _asked(builder, made, _SHARING)


def is_itself(made: Node) -> bool | None:
    """Whether the op returns the very object that it was given; None where that is not known here."""
    known = made.schema is not None and made.schema.base_name in _ITSELF and is_tensor(made.output.type)
    return _told(made, _ITSELF) if known else False


def gives_elements(made: Node) -> bool:
    """Whether the op gives a list, in which those tensors are the very objects given that have their shapes still."""
    known = made.schema is not None and made.schema.base_name in _ELEMENTS
    return known and isinstance(made.output.type, ListType)


def ask_itself(builder: Builder, made: Node) -> Value | None:
    return _asked(builder, made, _ITSELF)


def _told(made: Node, rules: Mapping[str, CopyRule]) -> bool | None:
    rule = rules.get(made.schema.base_name) if made.schema is not None else None
    return rule.told(made, _arguments(made)) if rule is not None else None


def _asked(builder: Builder, made: Node, rules: Mapping[str, CopyRule]) -> Value | None:
    rule = rules.get(made.schema.base_name) if made.schema is not None else None
    return rule.asked(builder, made, _arguments(made)) if rule is not None else None


def _arguments(made: Node) -> dict[str, ViewArgument]:
    assert made.schema is not None
    return {a.name: argument_of(value) for a, value in zip(made.schema.arguments, made.inputs, strict=True)}


# --- conversions ---


def _converts(made: Node, given: Mapping[str, ViewArgument]) -> bool | None:
    if given.get("copy") is True:
        return False
    source, result = made.inputs[0].type, made.output.type
    if not isinstance(source, TensorType) or not isinstance(result, TensorType):
        return None
    if source.dtype is None or result.dtype is None:
        return None
    if source.dtype != result.dtype:
        return False
    is_plain = given.get("device") is None and given.get("copy", False) is False and _keeps_layout(given)
    return True if is_plain else None


def _ask_dtypes(builder: Builder, made: Node, given: Mapping[str, ViewArgument]) -> Value | None:
    if given.get("copy", False) is not False or not _keeps_layout(given):
        return None
    source, result = made.inputs[0], made.output
    same = builder.op("aten::eq.int", builder.op("prim::dtype", source), builder.op("prim::dtype", result))
    if given.get("device") is None:
        return same
    devices = builder.op("prim::device", source), builder.op("prim::device", result)
    return builder.op("aten::__and__.bool", same, builder.op("aten::eq.Device", *devices))


def _keeps_layout(given: Mapping[str, ViewArgument]) -> bool:
    return given.get("memory_format") in (None, PRESERVE_FORMAT)


# --- dropouts ---


def _drops_nothing(made: Node, given: Mapping[str, ViewArgument]) -> bool | None:
    """Outside of training, and where nothing is dropped."""
    trains, p = _trains(given), given.get("p")
    if trains is False or p == 0:
        return True
    return False if trains is True and isinstance(p, float) else None


def _ask_training(builder: Builder, made: Node, given: Mapping[str, ViewArgument]) -> Value | None:
    idle = builder.op("aten::__not__.bool", _trains(given))
    return builder.op("aten::__or__.bool", idle, builder.op("aten::eq.float", given["p"], 0.0))


def _ask_batch(rank: int) -> Callable[[Builder, Node, Mapping[str, ViewArgument]], Value | None]:
    """A dropout of channels, which gives a view of one sample without a batch."""

    def ask(builder: Builder, made: Node, given: Mapping[str, ViewArgument]) -> Value | None:
        idle = _ask_training(builder, made, given)
        batched = builder.op("aten::eq.int", builder.op("aten::dim", made.inputs[0]), rank)
        return builder.op("aten::__and__.bool", idle, batched) if idle is not None else None

    return ask


def _trains(given: Mapping[str, ViewArgument]) -> ViewArgument:
    return given["train"] if "train" in given else given["training"]


# --- sums ---


def _unknown(made: Node, given: Mapping[str, ViewArgument]) -> bool | None:
    return None


def _ask_sizes(builder: Builder, made: Node, given: Mapping[str, ViewArgument]) -> Value | None:
    return builder.op("aten::is_same_size", made.inputs[0], made.output)


# --- ranks ---


def _always(made: Node, given: Mapping[str, ViewArgument]) -> bool | None:
    return True


def _never_asked(builder: Builder, made: Node, given: Mapping[str, ViewArgument]) -> Value | None:
    return None


def _ask_rank(least: int) -> Callable[[Builder, Node, Mapping[str, ViewArgument]], Value | None]:
    """`atleast_2d` and its like."""
    return lambda builder, made, given: builder.op("aten::ge.int", builder.op("aten::dim", made.inputs[0]), least)


def _ask_flat(builder: Builder, made: Node, given: Mapping[str, ViewArgument]) -> Value | None:
    """`flatten` of one dimension."""
    rank = builder.op("aten::dim", made.inputs[0])
    ends = [builder.op("aten::remainder.int", given[name], rank) for name in ("start_dim", "end_dim")]
    return builder.op("aten::eq.int", *ends)


def _ask_no_dims(builder: Builder, made: Node, given: Mapping[str, ViewArgument]) -> Value | None:
    return builder.op("aten::eq.int", builder.op("aten::dim", made.inputs[0]), 0)


def _is_alone(made: Node, given: Mapping[str, ViewArgument]) -> bool | None:
    elements = _elements(made.inputs[0])
    return None if elements is None else len(elements) == 1


def _ask_alone(builder: Builder, made: Node, given: Mapping[str, ViewArgument]) -> Value | None:
    return builder.op("aten::eq.int", builder.op("aten::len.t", made.inputs[0]), 1)


# --- subscripts ---


def _selects(made: Node, given: Mapping[str, ViewArgument]) -> bool | None:
    """Index tensors make a copy, and an int is none, even if it comes as a tensor."""
    indices = _elements(made.inputs[1])
    if indices is None:
        return None
    types = [index.type for index in indices]
    if any(isinstance(type, TensorType) and (type.rank or _is_mask(type)) for type in types):
        return False
    known = all(isinstance(type, TensorType) and type.rank == 0 and type.dtype is not None for type in types)
    return True if known else None


def _is_mask(type: TensorType) -> bool:
    return type.dtype in (BOOL, UINT8)


def _ask_indices(builder: Builder, made: Node, given: Mapping[str, ViewArgument]) -> Value | None:
    selects: Value | None = None
    for index in _elements(made.inputs[1]) or ():
        if not is_tensor(index.type):
            return None
        # A mask of rank 0 takes no dimension.
        rank, taken = builder.op("aten::dim", index), builder.op("aten::_index_rank", index)
        is_int = [builder.op("aten::eq.int", rank, 0), builder.op("aten::eq.int", taken, 1)]
        for found in is_int:
            selects = found if selects is None else builder.op("aten::__and__.bool", selects, found)
    return selects


def _elements(listed: Value) -> list[Value] | None:
    """What a list made of others holds, without None; None where that is not known."""
    found: list[Value] = []
    pending = [listed]
    while pending:
        node = pending.pop().node
        if node.kind == "prim::ListConstruct":
            found += [value for value in node.inputs if value.type != NONE]
        elif node.kind in ("aten::add.t", "aten::mul.left_t"):
            pending += [value for value in node.inputs if isinstance(value.type, ListType)]
        else:
            return None
    return found


_CONVERSIONS = ("to", "as_tensor", "type_as", "float", "double", "half", "bfloat16", "int", "long", "short", "bool")
_DROPOUTS = (
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "feature_dropout",
    "alpha_dropout",
    "feature_alpha_dropout",
)
_SHARING: dict[str, CopyRule] = {
    **dict.fromkeys(_CONVERSIONS, CopyRule(_converts, _ask_dtypes)),
    **dict.fromkeys(_DROPOUTS, CopyRule(_drops_nothing, _ask_training)),
    "index": CopyRule(_selects, _ask_indices),
    "sum_to_size": CopyRule(_unknown, _ask_sizes),
}
"""Ops whose result may share memory with their argument, which Trait.MAY_ALIAS says of them."""

_ITSELF: dict[str, CopyRule] = {
    **{name: _SHARING[name] for name in (*_CONVERSIONS, *_DROPOUTS, "sum_to_size")},
    **{f"atleast_{n}d": CopyRule(_unknown, _ask_rank(n)) for n in (1, 2, 3)},
    "dropout1d": CopyRule(_unknown, _ask_batch(3)),
    "dropout3d": CopyRule(_unknown, _ask_batch(5)),
    **dict.fromkeys(("positive", "conj", "save", "recompute"), CopyRule(_always, _never_asked)),
    **dict.fromkeys(("mT", "adjoint"), CopyRule(_unknown, _ask_no_dims)),
    "flatten": CopyRule(_unknown, _ask_flat),
    "cartesian_prod": CopyRule(_is_alone, _ask_alone),
    "contiguous": CopyRule(_unknown, _never_asked),
}
"""Ops that may return the object itself, and with it its gradient; a view is an object of its own."""

_ELEMENTS = ("broadcast_tensors", "atleast_1d", "atleast_2d", "atleast_3d")
