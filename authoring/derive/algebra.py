"""Algebra on gradients: what a product with 1, a sum of products with a common factor or a negation twice is.

A backward's elements are floating numbers, and rounding is no part of what a formula says: terms may be gathered, and
signs moved, where the author of a formula would.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...compiler.ir.builder import Builder
from ...compiler.ir.kinds import is_loop
from ...compiler.ir.node import Node, Value
from ...compiler.ir.rewrite import constant_of
from ...compiler.ops.registry import OPS, Trait
from ...compiler.types.types import is_tensor
from .facts import ShapeFacts, constants_text

AlgebraRule = Callable[[Node, ShapeFacts, Builder], Value | None]
_SUMS = ("aten::sum_to_size", "aten::_grad_sum_to_size")


def times(b: Builder, left: Value, right: Value) -> Value:
    """The product of a tensor and a tensor or a number."""
    if not is_tensor(left.type):
        left, right = right, left
    return b.op(f"aten::mul.{'Tensor' if is_tensor(right.type) else 'Scalar'}", left, right)


def plus(b: Builder, left: Value, right: Value, sign: int = 1) -> Value:
    """The sum of two tensors, or of a tensor and a number; the difference for a negative sign."""
    if not is_tensor(left.type):
        return b.op("aten::add.Scalar", right, left) if sign > 0 else b.op("aten::rsub.Scalar", right, left)
    return b.op(f"aten::{'add' if sign > 0 else 'sub'}.{'Tensor' if is_tensor(right.type) else 'Scalar'}", left, right)


def _number(value: Value) -> float | None:
    found = constant_of(value)
    return found if isinstance(found, int | float) and not isinstance(found, bool) else None


def _scaled(node: Node, facts: ShapeFacts, b: Builder) -> Value | None:
    """x * 1, x * -1, (x * 2) * 3."""
    factor = _number(node.inputs[1])
    inner = node.inputs[0].node
    if factor == 1:
        return node.inputs[0]
    if factor == -1:
        return b.op("aten::neg", node.inputs[0])
    inner_factor = _number(inner.inputs[1]) if inner.kind == "aten::mul.Scalar" else None
    if factor is not None and inner_factor is not None:
        return _times_number(inner.inputs[0], factor * inner_factor, b)
    if factor is not None and _is_quotient(node.inputs[0]):
        return _times_number(inner.inputs[0], factor / (_number(inner.inputs[1]) or 1), b)
    if inner.kind == "aten::neg" and factor is not None:
        return times(b, inner.inputs[0], b.constant(-factor))
    return None


def _whole(number: float) -> float:
    return int(number) if float(number).is_integer() and abs(number) < 1 << 53 else number


def _divided(node: Node, facts: ShapeFacts, b: Builder) -> Value | None:
    """x / 1, -x / y."""
    divisor = _number(node.inputs[1])
    if divisor == 1:
        return node.inputs[0]
    if divisor and _is_quotient(node.inputs[0]):
        return _times_number(
            node.inputs[0].node.inputs[0], 1 / (divisor * (_number(node.inputs[0].node.inputs[1]) or 1)), b
        )
    return _out_of(node, b, 0)


def _multiplied(node: Node, facts: ShapeFacts, b: Builder) -> Value | None:
    """Signs and numbers go outwards: -x * y is -(x * y), x / 2 * (y * 2) is x * y."""
    for place in (0, 1):
        found = _out_of(node, b, place)
        if found is not None:
            return found
    factors = _factors(node.output)
    kept = [f for f in factors if is_tensor(f.type)]
    quotients = [f for f in kept if _is_quotient(f) and f.use_count == 1]
    numbers = [_number(f) for f in factors if not is_tensor(f.type)]
    if None in numbers or len(numbers) + len(quotients) < 2:
        return None
    coefficient = 1.0
    for number in numbers:
        coefficient *= number or 0
    for quotient in quotients:
        coefficient /= _number(quotient.node.inputs[1]) or 1
    made = _product([f.node.inputs[0] if f in quotients else f for f in kept], b)
    return _times_number(made, coefficient, b)


def _is_quotient(value: Value) -> bool:
    """Whether it is something over a number."""
    return value.node.kind == "aten::div.Scalar" and bool(_number(value.node.inputs[1]))


def _times_number(value: Value, coefficient: float, b: Builder) -> Value:
    """As people write it: over a whole number rather than times a fraction."""
    if coefficient == 1:
        return value
    inverse = 1 / coefficient if coefficient else 0.5
    if not float(coefficient).is_integer() and abs(inverse - round(inverse)) < 1e-12:
        return b.op("aten::div.Scalar", value, round(inverse))
    return times(b, value, b.constant(_whole(coefficient)))


def _out_of(node: Node, b: Builder, place: int) -> Value | None:
    """The node without the negation of an operand, negated."""
    inner = node.inputs[place].node
    if inner.kind != "aten::neg":
        return None
    inputs = list(node.inputs)
    inputs[place] = inner.inputs[0]
    return b.op("aten::neg", b.op(node.kind, *inputs))


def _negated(node: Node, facts: ShapeFacts, b: Builder) -> Value | None:
    """--x, and -(x - y)."""
    inner = node.inputs[0].node
    if inner.kind == "aten::neg":
        return inner.inputs[0]
    alone = node.inputs[0].use_count == 1
    if alone and inner.kind == "aten::sub.Tensor" and _number(inner.inputs[2]) == 1:
        return plus(b, inner.inputs[1], inner.inputs[0], -1)
    return None


def _power(node: Node, facts: ShapeFacts, b: Builder) -> Value | None:
    """x ** 1."""
    return node.inputs[0] if _number(node.inputs[1]) == 1 else None


def _added(node: Node, facts: ShapeFacts, b: Builder) -> Value | None:
    """x + 0, x + -y, a * b + a * c, and sums of sums to one size."""
    left, right = node.inputs[:2]
    sign = -1 if node.kind.startswith("aten::sub") else 1
    if _number(node.inputs[2]) != 1:
        return None
    if _number(right) == 0:
        return left
    if not is_tensor(right.type):
        return None
    if _is_zero(right) and facts.broadcast([facts.shape(left), facts.shape(right)]) == facts.shape(left):
        return left
    if _is_zero(left) and facts.broadcast([facts.shape(left), facts.shape(right)]) == facts.shape(right):
        return right if sign > 0 else b.op("aten::neg", right)
    if right.node.kind == "aten::neg":
        return plus(b, left, right.node.inputs[0], -sign)
    if left.node.kind == "aten::neg" and sign > 0:
        return plus(b, right, left.node.inputs[0], -1)
    if left.node.kind == "aten::neg" and left.node.inputs[0] is right:
        return times(b, right, b.constant(-2))
    if left is right and sign > 0:
        return times(b, left, b.constant(2))
    if _is_summed_alone(left) and _is_summed_alone(right) and _same_size(left, right, facts):
        total = plus(b, left.node.inputs[0], right.node.inputs[0], sign)
        return b.op(left.node.kind, total, left.node.inputs[1])
    return _factored(left, right, sign, b)


def _is_zero(value: Value, depth: int = 8) -> bool:
    """Whether it is made of zeros, as the gradients of results that nothing uses are."""
    node = value.node
    if node.kind in ("aten::zeros", "aten::zeros_like") or not depth:
        return node.kind in ("aten::zeros", "aten::zeros_like")
    if node.kind == "aten::mul.Tensor":
        return any(_is_zero(factor, depth - 1) for factor in node.inputs)
    return node.kind in _ZERO_OF_ZERO and _is_zero(node.inputs[0], depth - 1)


_ZERO_OF_ZERO = frozenset(("aten::neg", "aten::mul.Scalar", "aten::div.Tensor", "aten::div.Scalar", "aten::to.dtype"))


def _is_summed_alone(value: Value) -> bool:
    return value.node.kind in _SUMS and value.use_count == 1


def _same_size(left: Value, right: Value, facts: ShapeFacts) -> bool:
    """Whether two sums are to one size, and of one: what is broadcast only in their sum would be summed too often."""
    if facts.shape(left.node.inputs[0]) != facts.shape(right.node.inputs[0]):
        return False
    first, second = (facts.size_of(value.node.inputs[1]) for value in (left, right))
    return first is not None and second is not None and facts.shape(first) == facts.shape(second)


def _factors(value: Value) -> list[Value]:
    """What a product that is used for nothing else is of."""
    found: list[Value] = []
    waiting = [value]
    while waiting:
        factor = waiting.pop()
        is_product = factor.node.kind in ("aten::mul.Tensor", "aten::mul.Scalar")
        if is_product and (factor is value or (factor.use_count == 1 and factor.node.owner is value.node.owner)):
            waiting += reversed(factor.node.inputs)
        else:
            found.append(factor)
    return found


def _factored(left: Value, right: Value, sign: int, b: Builder) -> Value | None:
    """a * b + a * c as a * (b + c)."""
    if left.use_count != 1 or right.use_count != 1:
        return None
    mine, other = _factors(left), _factors(right)
    common: list[Value] = []
    for factor in list(mine):
        if factor in other and is_tensor(factor.type):
            common.append(factor)
            mine.remove(factor)
            other.remove(factor)
    if not common:
        return None
    first, second = _product(mine, b), _product(other, b)
    if not is_tensor(first.type) and not is_tensor(second.type):
        numbers = _number(first), _number(second)
        if None in numbers:
            return None
        total: Value = b.constant(_whole((numbers[0] or 0) + sign * (numbers[1] or 0)))
    else:
        total = plus(b, first, second, sign)
    return times(b, _product(common, b), total)


def _product(factors: Sequence[Value], b: Builder) -> Value:
    numbers = [f for f in factors if not is_tensor(f.type)]
    tensors = [f for f in factors if is_tensor(f.type)]
    if not tensors and len(numbers) > 1:
        known = [_number(f) for f in numbers]
        product = 1.0
        for number in known:
            product *= number if number is not None else float("nan")
        return b.constant(_whole(product)) if product == product else numbers[0]
    if not factors:
        return b.constant(1)
    made = (tensors or numbers)[0]
    for factor in [*tensors[1:], *(numbers if tensors else ())]:
        made = times(b, made, factor)
    return made


def _transposed(node: Node, facts: ShapeFacts, b: Builder) -> Value | None:
    """x.t().t(), x.mT.mT."""
    inner = node.inputs[0].node
    return inner.inputs[0] if inner.kind == node.kind else None


def _summed(node: Node, facts: ShapeFacts, b: Builder) -> Value | None:
    """A sum over what was not broadcast; the sum of a negation."""
    like = facts.size_of(node.inputs[1])
    if like is None:
        return None
    if facts.shape(like) == facts.shape(node.inputs[0]):
        return node.inputs[0]
    inner = node.inputs[0].node
    if inner.kind == "aten::neg" and node.inputs[0].use_count == 1:
        return b.op("aten::neg", b.op(node.kind, inner.inputs[0], node.inputs[1]))
    return None


def _reshaped(node: Node, facts: ShapeFacts, b: Builder) -> Value | None:
    """What already is of the shape that a reduction left, or of no dimension, which stands beside any."""
    size = node.inputs[1].node
    shape = facts.shape(node.inputs[0])
    if size.kind != "gs::kept_size":
        return None
    if not shape:
        return node.inputs[0]
    (atom, *others) = shape
    if others or atom not in facts.reduced:
        return None
    like = facts.size_of(size.inputs[0])
    reduced = facts.reduced[atom]
    same = like is not None and (facts.shape(like), constants_text(size.inputs[1])) == reduced
    return node.inputs[0] if same else None


def _expanded(node: Node, facts: ShapeFacts, b: Builder) -> Value | None:
    """What is of the shape, or is going to be in all that it is used for."""
    like = facts.size_of(node.inputs[1])
    if like is None:
        return None
    value = node.inputs[0]
    if facts.shape(like) == facts.shape(value):
        return value
    for use in node.output.uses:
        op = OPS.of(use.user.schema)
        others = [facts.shape(v) for v in use.user.inputs if is_tensor(v.type) and v is not node.output]
        if op is None or not op.has(Trait.POINTWISE) or not others:
            return None
        if facts.broadcast([facts.shape(value), *others]) != facts.broadcast([facts.shape(like), *others]):
            return None
    return value


def _cast(node: Node, facts: ShapeFacts, b: Builder) -> Value | None:
    """x.to(y.dtype) where y is one of what x was promoted from: as the formulas of products leave it."""
    dtype = node.inputs[1].node
    known = dtype.kind == "prim::dtype" and facts.dtype(dtype.inputs[0]) <= facts.dtype(node.inputs[0])
    return node.inputs[0] if known else None


def _size(node: Node, facts: ShapeFacts, b: Builder) -> Value | None:
    """The size or dtype of an intermediate value that one parameter has as well, or a gradient."""
    value = node.inputs[0]
    if value.node.kind == "prim::Param":
        return None
    atoms = facts.shape(value) if node.kind == "aten::size" else facts.dtype(value)
    found = next((atom for atom in atoms if len(atoms) == 1), None)
    if node.kind == "aten::size" and (found is None or found.node.kind != "prim::Param"):
        found = next((gradient for gradient in facts.gradients if facts.shape(gradient) == atoms), found)
    return b.op(node.kind, found) if found is not None and found is not value else None


def _exp_of_log(node: Node, facts: ShapeFacts, b: Builder) -> Value | None:
    """exp(-log(x)) and exp(log(x))."""
    inner = node.inputs[0].node
    if inner.kind == "aten::log":
        return inner.inputs[0]
    if inner.kind == "aten::neg" and inner.inputs[0].node.kind == "aten::log":
        return b.op("aten::reciprocal", inner.inputs[0].node.inputs[0])
    return None


def _larger(node: Node, facts: ShapeFacts, b: Builder) -> Value | None:
    """max(count, 1), where the count of what was reduced divides: where it is 0, nothing is divided; max(0, len(xs)).

    Nor is max(0, n) but n how often a loop runs, and inside of it.
    """
    numbers = [_number(value) for value in node.inputs]
    counts = [value for value in node.inputs if value.node.kind in ("gs::reduced_count", "aten::numel")]
    if counts and 1 in numbers:
        return counts[0]
    others = [value for value, number in zip(node.inputs, numbers, strict=True) if number != 0]
    if len(others) != 1:
        return None
    is_length = others[0].node.kind in ("aten::len.t", "aten::numel")
    return others[0] if is_length or all(_is_of_rounds(use.user, node) for use in node.output.uses) else None


def _is_of_rounds(user: Node, count: Node) -> bool:
    """Whether a node is a loop that runs so often, or inside of one."""
    inside: Node | None = user
    while inside is not None:
        if is_loop(inside) and inside.inputs[0] is count.output and count.output not in inside.inputs[1:]:
            return True
        inside = inside.holder
    return False


def _count(node: Node, facts: ShapeFacts, b: Builder) -> Value | None:
    """How many elements were reduced to one: all of a tensor."""
    like = facts.size_of(node.inputs[0])
    return b.op("aten::numel", like) if like is not None and constant_of(node.inputs[1]) is None else None


RULES: dict[str, AlgebraRule] = {
    "aten::mul.Scalar": _scaled,
    "aten::mul.Tensor": _multiplied,
    "aten::div.Scalar": _divided,
    "aten::div.Tensor": _divided,
    "aten::neg": _negated,
    "aten::pow.Tensor_Scalar": _power,
    "aten::add.Tensor": _added,
    "aten::sub.Tensor": _added,
    "aten::add.Scalar": _added,
    "aten::sub.Scalar": _added,
    **dict.fromkeys(_SUMS, _summed),
    "aten::t": _transposed,
    "aten::mT": _transposed,
    "aten::reshape": _reshaped,
    "aten::expand": _expanded,
    "aten::to.dtype": _cast,
    "aten::size": _size,
    "prim::dtype": _size,
    "aten::exp": _exp_of_log,
    "prim::max.int": _larger,
    "gs::reduced_count": _count,
}
"""What each kind of node may be written as instead."""
