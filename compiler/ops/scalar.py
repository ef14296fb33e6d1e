"""The scalar expression of a pointwise op: a small frozen DAG over a fixed set of kernel primitives.

    parameter 0 ─┐                     lambda x, y, alpha: x + alpha * y
    parameter 2 ─┤                     called once with symbolic parameters
    parameter 1 ─┴ mul ─ add

The array evaluation (`elementwise`), the Triton text and the C text all follow from the same expression. A
primitive has one meaning for each kind of number: `add` of two bools is `or`, of two integers exact.

A node is of one of two kinds: a "number", in the dtype in which the op computes, or a "bool", the result of a
comparison. A bool where a number is wanted turns into 0 or 1, a number where a bool is wanted into `x != 0`.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Literal, NamedTuple

from ...lang.light_dataclasses import dataclass, field
from ..types.dtypes import Number
from ..types.lazy_numpy import ml_dtypes, np
from . import evaluations

OperandKind = Literal["number", "bool", "same"]


@dataclass(frozen=True, eq=False, slots=True)
class Scalar:
    """One node: a primitive with its operands, a parameter (`value` is its index), or a constant.

    Operators build nodes, comparisons too, so a Scalar has no truth value; `where` is the conditional.
    """

    op: str
    args: tuple[Scalar, ...] = ()
    value: Any = None
    kind: OperandKind = "number"

    def __bool__(self) -> bool:
        raise TypeError("a scalar expression has no truth value; write where(condition, a, b)")

    def __add__(self, other: ScalarOperand) -> Scalar:
        return add(self, other)

    def __radd__(self, other: ScalarOperand) -> Scalar:
        return add(other, self)

    def __sub__(self, other: ScalarOperand) -> Scalar:
        return sub(self, other)

    def __rsub__(self, other: ScalarOperand) -> Scalar:
        return sub(other, self)

    def __mul__(self, other: ScalarOperand) -> Scalar:
        return self if _is_one(other) else mul(self, other)

    def __rmul__(self, other: ScalarOperand) -> Scalar:
        return self if _is_one(other) else mul(other, self)

    def __truediv__(self, other: ScalarOperand) -> Scalar:
        return self if _is_one(other) else div(self, other)

    def __rtruediv__(self, other: ScalarOperand) -> Scalar:
        return div(other, self)

    def __floordiv__(self, other: ScalarOperand) -> Scalar:
        return floordiv(self, other)

    def __mod__(self, other: ScalarOperand) -> Scalar:
        return remainder(self, other)

    def __pow__(self, other: ScalarOperand) -> Scalar:
        return power(self, other)

    def __rpow__(self, other: ScalarOperand) -> Scalar:
        return power(other, self)

    def __neg__(self) -> Scalar:
        return neg(self)

    def __abs__(self) -> Scalar:
        return absolute(self)

    def __and__(self, other: ScalarOperand) -> Scalar:
        return bit_and(self, other)

    def __or__(self, other: ScalarOperand) -> Scalar:
        return bit_or(self, other)

    def __xor__(self, other: ScalarOperand) -> Scalar:
        return bit_xor(self, other)

    def __invert__(self) -> Scalar:
        return bit_not(self)

    def __lshift__(self, other: ScalarOperand) -> Scalar:
        return shift_left(self, other)

    def __rshift__(self, other: ScalarOperand) -> Scalar:
        return shift_right(self, other)

    def __eq__(self, other: ScalarOperand) -> Scalar:  # type: ignore[override]
        return eq(self, other)

    def __ne__(self, other: ScalarOperand) -> Scalar:  # type: ignore[override]
        return ne(self, other)

    def __lt__(self, other: ScalarOperand) -> Scalar:
        return lt(self, other)

    def __le__(self, other: ScalarOperand) -> Scalar:
        return le(self, other)

    def __gt__(self, other: ScalarOperand) -> Scalar:
        return gt(self, other)

    def __ge__(self, other: ScalarOperand) -> Scalar:
        return ge(self, other)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"<Scalar {self.op}{'' if self.value is None else f' {self.value}'}>"


ScalarOperand = Scalar | Number

PARAMETER = "parameter"
CONSTANT = "constant"


def parameter(index: int, kind: OperandKind = "number") -> Scalar:
    """Argument number `index` of the op's schema."""
    return Scalar(PARAMETER, (), index, kind)


def scalar_constant(value: Number) -> Scalar:
    """A literal; it takes the dtype in which the op computes."""
    return Scalar(CONSTANT, (), value)


def _is_one(operand: ScalarOperand) -> bool:
    return not isinstance(operand, Scalar) and operand == 1


@dataclass(frozen=True, eq=False)
class Primitive:
    """An operation that every backend implements. `function` takes and returns NumPy arrays or NumPy scalars; a text is
    the name of one of NumPy's, which is loaded when `evaluate` is first asked for.

    `operands` holds the kind that each operand must have; `result` the kind of the result. "same" asks that all
    operands be of one kind and gives that kind. `floating` primitives are defined on floats only.
    """

    name: str
    operands: tuple[OperandKind, ...]
    result: OperandKind
    function: Callable[..., Any] | str
    meaning: str
    floating: bool = False

    @cached_property
    def evaluate(self) -> Callable[..., Any]:
        """What computes it: of NumPy's functions the very one, for a ufunc takes the place of more than a call."""
        function = self.function
        found: Callable[..., Any] = getattr(np, function) if isinstance(function, str) else function
        return found

    @property
    def arity(self) -> int:
        return len(self.operands)

    def __call__(self, *operands: ScalarOperand) -> Scalar:
        """The node that applies this primitive."""
        assert len(operands) == self.arity, f"{self.name} takes {self.arity} operands"
        nodes = [operand if isinstance(operand, Scalar) else scalar_constant(operand) for operand in operands]
        if self.result != "same":
            return Scalar(self.name, tuple(map(_as_kind, nodes, self.operands)), None, self.result)
        kind: OperandKind = "bool" if all(node.kind == "bool" for node in nodes) else "number"
        return Scalar(self.name, tuple(_as_kind(node, kind) for node in nodes), None, kind)


def _as_kind(node: Scalar, kind: OperandKind) -> Scalar:
    if node.kind == kind:
        return node
    return to_number(node) if kind == "number" else ne(node, 0)


PRIMITIVES: dict[str, Primitive] = {}
"""Every primitive by name: what an emitter has to have a text for."""
WIDE_MOMENTS = "wide moments"
"""Not a primitive, but asked of a target in their place: whether it is to add up squares of float32 in float64, as
torch does on processors. On a GPU torch does not, and there float64 may cost 64 times as much."""


def _primitive(
    name: str,
    arity: int,
    function: Callable[..., Any] | str,
    meaning: str,
    result: OperandKind = "number",
    floating: bool = False,
) -> Primitive:
    operand: OperandKind = "same" if result == "same" else "number"
    PRIMITIVES[name] = Primitive(name, (operand,) * arity, result, function, meaning, floating)
    return PRIMITIVES[name]


def _floating(name: str, arity: int, function: Callable[..., Any] | str, meaning: str) -> Primitive:
    return _primitive(name, arity, function, meaning, floating=True)


# --- the table ---

add = _primitive("add", 2, "add", "sum; `or` of bools")
sub = _primitive("sub", 2, "subtract", "difference")
mul = _primitive("mul", 2, "multiply", "product; `and` of bools")
div = _floating("div", 2, "true_divide", "quotient")
floordiv = _primitive(
    "floordiv", 2, evaluations.refusing_zero(evaluations.numpy("floor_divide")), "quotient rounded down"
)
truncdiv = _primitive(
    "truncdiv", 2, evaluations.refusing_zero(evaluations.truncated_quotient), "quotient rounded towards zero"
)
remainder = _primitive(
    "remainder", 2, evaluations.refusing_zero(evaluations.remainder), "remainder with the sign of the divisor"
)
fmod = _primitive(
    "fmod", 2, evaluations.refusing_zero(evaluations.numpy("fmod")), "remainder with the sign of the dividend"
)
power = _primitive("pow", 2, evaluations.integer_power, "power")
neg = _primitive("neg", 1, "negative", "negation")
absolute = _primitive("abs", 1, "abs", "absolute value")
sign = _primitive("sign", 1, evaluations.sign, "-1, 0 or 1; 0 for NaN")
maximum = _primitive("maximum", 2, "maximum", "the larger, the second of equals; NaN if either is NaN")
minimum = _primitive("minimum", 2, "minimum", "the smaller, the second of equals; NaN if either is NaN")
fmax = _primitive(
    "fmax",
    2,
    evaluations.preferring_numbers(evaluations.numpy("maximum"), evaluations.numpy("fmax")),
    "the larger, the first of equals; the other where one is NaN",
)
fmin = _primitive(
    "fmin",
    2,
    evaluations.preferring_numbers(evaluations.numpy("minimum"), evaluations.numpy("fmin")),
    "the smaller, the first of equals; the other where one is NaN",
)

sqrt = _floating("sqrt", 1, "sqrt", "square root")
rsqrt = _floating("rsqrt", 1, evaluations.rsqrt, "1 over the square root")
exp = _floating("exp", 1, "exp", "e to the x")
exp2 = _floating("exp2", 1, "exp2", "2 to the x")
expm1 = _floating("expm1", 1, "expm1", "exp(x) - 1 without cancellation")
log = _floating("log", 1, "log", "natural logarithm")
log2 = _floating("log2", 1, "log2", "logarithm to base 2")
log10 = _floating("log10", 1, "log10", "logarithm to base 10")
log1p = _floating("log1p", 1, "log1p", "log(1 + x) without cancellation")
sin = _floating("sin", 1, "sin", "sine")
cos = _floating("cos", 1, "cos", "cosine")
tan = _floating("tan", 1, "tan", "tangent")
asin = _floating("asin", 1, "arcsin", "inverse sine")
acos = _floating("acos", 1, "arccos", "inverse cosine")
atan = _floating("atan", 1, "arctan", "inverse tangent")
atan2 = _floating("atan2", 2, "arctan2", "angle of the point (second, first)")
sinh = _floating("sinh", 1, "sinh", "hyperbolic sine")
cosh = _floating("cosh", 1, "cosh", "hyperbolic cosine")
tanh = _floating("tanh", 1, "tanh", "hyperbolic tangent")
asinh = _floating("asinh", 1, "arcsinh", "inverse hyperbolic sine")
acosh = _floating("acosh", 1, "arccosh", "inverse hyperbolic cosine")
atanh = _floating("atanh", 1, "arctanh", "inverse hyperbolic tangent")
sigmoid = _floating("sigmoid", 1, evaluations.sigmoid, "1 / (1 + exp(-x))")
hypot = _floating("hypot", 2, "hypot", "sqrt(x*x + y*y) without overflow")
erf = _floating("erf", 1, evaluations.scipy("erf"), "error function")
erfc = _floating("erfc", 1, evaluations.scipy("erfc"), "1 - erf(x) without cancellation")
erfinv = _floating("erfinv", 1, evaluations.erfinv, "inverse of erf")
erfcx = _floating("erfcx", 1, evaluations.scipy("erfcx"), "exp(x*x) * erfc(x)")
ndtr = _floating("ndtr", 1, evaluations.scipy("ndtr"), "normal distribution function")
ndtri = _floating("ndtri", 1, evaluations.scipy("ndtri"), "inverse of the normal distribution function")
log_ndtr = _floating("log_ndtr", 1, evaluations.scipy("log_ndtr"), "logarithm of the normal distribution function")
lgamma = _floating("lgamma", 1, evaluations.lgamma, "logarithm of the absolute gamma function")
digamma = _floating("digamma", 1, evaluations.scipy("digamma"), "derivative of lgamma")
zeta = _floating("zeta", 2, evaluations.zeta, "Hurwitz zeta function")
bessel_i0 = _floating("bessel_i0", 1, evaluations.scipy("i0"), "modified Bessel function of order 0")
bessel_i0e = _floating("bessel_i0e", 1, evaluations.scipy("i0e"), "exp(-|x|) times bessel_i0")
bessel_i1 = _floating("bessel_i1", 1, evaluations.scipy("i1"), "modified Bessel function of order 1")
bessel_i1e = _floating("bessel_i1e", 1, evaluations.scipy("i1e"), "exp(-|x|) times bessel_i1")

floor = _primitive("floor", 1, evaluations.of_floats(evaluations.numpy("floor")), "largest integer not above")
ceil = _primitive("ceil", 1, evaluations.of_floats(evaluations.numpy("ceil")), "smallest integer not below")
round_even = _primitive("round", 1, evaluations.of_floats(evaluations.numpy("rint")), "nearest integer, ties to even")
trunc = _primitive("trunc", 1, evaluations.of_floats(evaluations.numpy("trunc")), "integer part")
copysign = _floating("copysign", 2, "copysign", "magnitude of the first with the sign bit of the second")
nextafter = _floating("nextafter", 2, evaluations.next_representable, "next representable number towards the second")

eq = _primitive("eq", 2, "equal", "equal; False with NaN", "bool")
ne = _primitive("ne", 2, "not_equal", "not equal; True with NaN", "bool")
lt = _primitive("lt", 2, "less", "less; False with NaN", "bool")
le = _primitive("le", 2, "less_equal", "less or equal; False with NaN", "bool")
gt = _primitive("gt", 2, "greater", "greater; False with NaN", "bool")
ge = _primitive("ge", 2, "greater_equal", "greater or equal; False with NaN", "bool")
isnan = _primitive("isnan", 1, "isnan", "whether NaN", "bool")
isinf = _primitive("isinf", 1, "isinf", "whether infinite", "bool")
signbit = _primitive("signbit", 1, "signbit", "whether the sign bit is set", "bool")

bit_and = _primitive("and", 2, "bitwise_and", "bitwise and", "same")
bit_or = _primitive("or", 2, "bitwise_or", "bitwise or", "same")
bit_xor = _primitive("xor", 2, "bitwise_xor", "bitwise exclusive or", "same")
bit_not = _primitive("not", 1, "invert", "bitwise complement; logical of bools", "same")
shift_left = _primitive("shl", 2, "left_shift", "shift left; 0 by the width or more")
shift_right = _primitive("shr", 2, "right_shift", "arithmetic shift right")

PRIMITIVES["where"] = where = Primitive(
    "where", ("bool", "number", "number"), "number", "where", "the second where the first holds, else the third"
)
PRIMITIVES["number"] = to_number = Primitive(
    "number", ("bool",), "number", "asarray", "a bool as 0 or 1 in the dtype in which the op computes"
)
LIMITS: dict[str, Callable[[np.dtype[Any]], Any]] = {
    "largest": lambda dtype: _limits(dtype).max,
    "lowest": lambda dtype: _limits(dtype).min,
}
"""Primitives without operands: constants that depend on the dtype of the op's result."""

largest = _primitive("largest", 0, LIMITS["largest"], "the largest finite number of the op's result dtype")
lowest = _primitive("lowest", 0, LIMITS["lowest"], "the lowest finite number of the op's result dtype")


def _limits(dtype: np.dtype[Any]) -> Any:
    if dtype.kind in "fV":
        finfo: Any = ml_dtypes.finfo
        return finfo(dtype)
    return np.iinfo(np.uint8 if dtype.kind == "b" else dtype)


@dataclass(frozen=True, eq=False)
class ChosenPrimitive(Primitive):
    """Primitives among which the last operand chooses, a number. Kernels hold what was chosen."""

    cases: Mapping[float, str] = field(default_factory=dict)
    """What it is for which numbers, of floats."""
    otherwise: str = ""
    """What it is for all others, and where the result is rounded to float16 at once."""


CHOICES: dict[str, ChosenPrimitive] = {}
"""Every choice by name."""

CHOICES["number_pow"] = number_power = ChosenPrimitive(
    "number_pow",
    ("number",) * 2,
    "number",
    evaluations.power_by_number,
    "power by a number; torch takes the root for the power by a half, where -inf gives NaN and -0.0 its own sign",
    cases={0.5: "sqrt", -0.5: "rsqrt"},
    otherwise="pow",
)

EVALUATED: Mapping[str, Primitive] = ChainMap[str, Primitive](PRIMITIVES, CHOICES)  # type: ignore[arg-type]
"""What arrays are computed by."""


class ScalarStep(NamedTuple):
    """One value of a linear program: a parameter, a constant, or what is in EVALUATED on the values at `operands`."""

    op: str
    operands: tuple[int, ...]
    value: Any
    kind: OperandKind


def linearize(expression: Scalar) -> list[ScalarStep]:
    """The expression in postorder, equal nodes once; operands are positions in the list, the result stands last."""
    steps: list[ScalarStep] = []
    numbered: dict[tuple[Any, ...], int] = {}
    position: dict[int, int] = {}
    stack: list[Scalar] = [expression]
    while stack:
        node = stack[-1]
        pending = [arg for arg in node.args if id(arg) not in position]
        if pending:
            stack += reversed(pending)
            continue
        stack.pop()
        operands = tuple(position[id(arg)] for arg in node.args)
        # repr tells 0.0 from -0.0 and 1 from 1.0.
        key = (node.op, operands, repr(node.value))
        if key not in numbered:
            numbered[key] = len(steps)
            steps.append(ScalarStep(node.op, operands, node.value, node.kind))
        position[id(node)] = numbered[key]
    return steps
