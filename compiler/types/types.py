"""The types of values. Structural, immutable, compared by content.

A type's text is the language's own spelling (`Optional[Tensor]`, `List[int]`), which the IR text shares.
A tensor type may carry what is known about the value: `Tensor[float64, rank=2]`; plain `Tensor` knows nothing.
"""

from __future__ import annotations

from ...lang.light_dataclasses import dataclass, field
from .dtypes import DType


@dataclass(frozen=True, slots=True)
class Type:
    """Base of all types."""


@dataclass(frozen=True, slots=True)
class TensorType(Type):
    """A tensor; None in a field means unknown.

    `requires_grad` is set by propagation, never by the source. False promises that no gradient is asked for; True, as
    None, only says that one may be, so any tensor fits it.
    """

    dtype: DType | None = None
    rank: int | None = None
    requires_grad: bool | None = None

    def __str__(self) -> str:
        known = [str(self.dtype)] if self.dtype else []
        known += [f"rank={self.rank}"] if self.rank is not None else []
        known += [f"requires_grad={self.requires_grad}"] if self.requires_grad is not None else []
        return f"Tensor[{', '.join(known)}]" if known else "Tensor"


@dataclass(frozen=True, slots=True)
class ScalarKind(Type):
    """A type without parts: int, float, bool, str, number, Device, None, and the internal ones."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class OptionalType(Type):
    element: Type

    def __str__(self) -> str:
        return f"Optional[{self.element}]"


@dataclass(frozen=True, slots=True)
class ListType(Type):
    element: Type

    def __str__(self) -> str:
        return f"List[{self.element}]"


@dataclass(frozen=True, slots=True)
class TupleType(Type):
    """`names` are those by which source may ask for an element (`torch.max(x, 0).values`); they make no other type."""

    elements: tuple[Type, ...]
    names: tuple[str, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        return f"Tuple[{', '.join(map(str, self.elements)) or '()'}]"


@dataclass(frozen=True, slots=True)
class VariableType(Type):
    """A schema's type variable, such as `t` in `aten::len.t(t[] a) -> int`."""

    name: str

    def __str__(self) -> str:
        return self.name


TENSOR = TensorType()
INT = ScalarKind("int")
FLOAT = ScalarKind("float")
BOOL = ScalarKind("bool")
STR = ScalarKind("str")
NUMBER = ScalarKind("number")
DEVICE = ScalarKind("Device")
NONE = ScalarKind("None")
CLOSURE = ScalarKind("Closure")
"""The output of prim::Function. Such a value may only be returned."""
UNDEFINED = ScalarKind("Undefined")
"""The output of prim::AutogradZero: a gradient that nobody has to compute. A subtype of Tensor, and of its lists."""

INT_LIST = ListType(INT)
TENSOR_LIST = ListType(TENSOR)
SCALAR_KINDS: dict[str, ScalarKind] = {
    kind.name: kind for kind in (INT, FLOAT, BOOL, STR, NUMBER, DEVICE, NONE, CLOSURE, UNDEFINED)
}
NUMBERS = frozenset((INT, FLOAT, BOOL, NUMBER))


def is_subtype(actual: Type, formal: Type) -> bool:
    """Whether a value of type `actual` may stand where `formal` is asked for, with no conversion at all."""
    if actual is formal:
        return True
    pairs = [(actual, formal)]
    while pairs:
        a, f = pairs.pop()
        if a == f:
            continue
        if a == UNDEFINED and isinstance(f, ListType):
            pairs.append((a, f.element))
        elif isinstance(f, TensorType):
            if a != UNDEFINED and not (isinstance(a, TensorType) and _refines(a, f)):
                return False
        elif isinstance(f, OptionalType):
            if a != NONE:
                pairs.append((a.element if isinstance(a, OptionalType) else a, f.element))
        elif isinstance(f, TupleType) and isinstance(a, TupleType) and len(a.elements) == len(f.elements):
            pairs += zip(a.elements, f.elements, strict=True)
        elif isinstance(f, ListType) and isinstance(a, ListType):
            # Values are immutable, so lists are covariant.
            pairs.append((a.element, f.element))
        elif not (f == NUMBER and a in (BOOL, INT, FLOAT)):
            return False
    return True


def _refines(actual: TensorType, formal: TensorType) -> bool:
    return (
        formal.dtype in (None, actual.dtype)
        and formal.rank in (None, actual.rank)
        and (formal.requires_grad is not False or actual.requires_grad is False)
    )


def unify(left: Type, right: Type) -> Type | None:
    """The least type of which both are subtypes; None where there is none."""
    if left == right or is_subtype(right, left):
        return left
    if is_subtype(left, right):
        return right
    if left == NONE or right == NONE:
        return OptionalType(right if left == NONE else left)
    if isinstance(left, OptionalType) or isinstance(right, OptionalType):
        element = unify(strip_optional(left), strip_optional(right))
        return None if element is None else OptionalType(element)
    if isinstance(left, TensorType) and isinstance(right, TensorType):
        return TensorType(
            left.dtype if left.dtype == right.dtype else None,
            left.rank if left.rank == right.rank else None,
            left.requires_grad if left.requires_grad == right.requires_grad else None,
        )
    if left in (INT, FLOAT, NUMBER) and right in (INT, FLOAT, NUMBER):
        return NUMBER
    if isinstance(left, ListType) and isinstance(right, ListType):
        element = unify(left.element, right.element)
        return None if element is None else ListType(element)
    if isinstance(left, TupleType) and isinstance(right, TupleType) and len(left.elements) == len(right.elements):
        elements = [unify(a, b) for a, b in zip(left.elements, right.elements, strict=True)]
        return TupleType(tuple(e for e in elements if e is not None)) if None not in elements else None
    return None


def strip_optional(type: Type) -> Type:
    """T for Optional[T], anything else unchanged."""
    return type.element if isinstance(type, OptionalType) else type


def leaf_of(type: Type) -> Type:
    """What lists and optionals of some depth hold in the end; any other type is its own."""
    while isinstance(type, OptionalType | ListType):
        type = type.element
    return type


MAX_TYPE_DEPTH = 30
"""Lists and tuples inside each other, in a type: types are compared and printed by recursion."""
MAX_TYPE_PARTS = 20_000
"""Types that one type is written with: a tuple that holds another twice doubles it, and each use compares it whole."""


def excess_of(type: Type) -> str:
    """By what a type is too large to work with: "30 levels"; "" if it is not."""
    parts, stack = 0, [(type, 0)]
    while stack:
        type, depth = stack.pop()
        parts += 1
        if depth > MAX_TYPE_DEPTH:
            return f"{MAX_TYPE_DEPTH} levels"
        if parts > MAX_TYPE_PARTS:
            return f"{MAX_TYPE_PARTS} parts"
        if isinstance(type, OptionalType | ListType):
            stack.append((type.element, depth + 1))
        elif isinstance(type, TupleType):
            stack += [(element, depth + 1) for element in type.elements]
    return ""


def may_be_none(type: Type) -> bool:
    return type == NONE or isinstance(type, OptionalType)


def is_tensor(type: Type) -> bool:
    return isinstance(type, TensorType)


def can_require_grad(type: Type) -> bool:
    """Whether a floating tensor may be in it. Types are shallow, so this recurses."""
    if isinstance(type, OptionalType | ListType):
        return can_require_grad(type.element)
    if isinstance(type, TupleType):
        return any(map(can_require_grad, type.elements))
    return isinstance(type, TensorType) and (type.dtype is None or type.dtype.is_floating)


def is_tensor_list(type: Type) -> bool:
    return isinstance(type, ListType) and is_tensor(type.element)


def is_differentiable(type: Type) -> bool:
    """Whether a gradient may flow through: floating or unknown tensors, and lists and optionals of them."""
    leaf = leaf_of(type)
    if not isinstance(leaf, TensorType) or leaf.requires_grad is False:
        return False
    return leaf.dtype is None or leaf.dtype.is_floating
