"""Declaring pointwise ops: from a schema and one scalar expression to evaluation on arrays and a result type.

    pointwise("aten::mul.Tensor(Tensor self, Tensor other) -> Tensor", lambda x, y: x * y, traits=COMMUTATIVE)

Some arguments are static: their values choose the expression instead of being computed with. These are strings,
bools and ints, the absence of an optional argument, and any argument that has its default value. So `add` with
`alpha=1` is one primitive, and `clamp` without a maximum has no `minimum` in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..types.dtypes import BOOL as BOOL_DTYPE
from ..types.dtypes import FLOAT32, FLOAT64, INT64, DType
from ..types.lazy_numpy import np
from ..types.schema import FunctionSchema, parse_schema
from ..types.types import (
    BOOL,
    INT,
    NONE,
    NUMBER,
    STR,
    TensorType,
    Type,
    may_be_none,
    strip_optional,
)
from .arrays import Array, as_half, compute_dtype, dtype_of, element, numpy_dtype, plain_floats, result_dtype
from .program import LinearProgram
from .promotion import RULES, DtypeRule, may_be_tensor, promoted_dtype
from .registry import OPS, Op, Trait
from .scalar import EVALUATED, PARAMETER, OperandKind, Scalar, ScalarStep, linearize, parameter


class Symbolic:
    """The type of SYMBOLIC, which stands for an argument whose value the expression does not depend on."""

    def __repr__(self) -> str:
        return "SYMBOLIC"


SYMBOLIC = Symbolic()


_CATEGORIES = ("bool", "integer", "floating-point")
_MAX_SPECIALIZATIONS = 256


class SpecializedOp:
    """A pointwise op with its static arguments decided: the expression, the dtype rule, the programs."""

    __slots__ = (
        *(
            "_programs",
            "_steps",
            "decided",
            "expression",
            "keeps_floats",
            "name",
            "promoting",
            "promoting_tensors",
            "rounded",
            "rule",
            "supported",
            "tensors",
        ),
    )

    def __init__(
        self,
        name: str,
        expression: Scalar,
        rule: DtypeRule,
        tensors: Sequence[int],
        promoting: Sequence[int],
        rounded: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.expression = expression
        self.rule = rule
        self.tensors = tuple(tensors)
        self.promoting = tuple(promoting[:1] if rule.only_first else promoting)
        self.promoting_tensors = tuple(i for i in self.promoting if i in self.tensors)
        self.keeps_floats = rule.compute(FLOAT32) == FLOAT32 and 2 not in rule.rejects
        self.rounded = frozenset(rounded)
        """The arguments that take part as elements of the common dtype, also where that is a half."""
        self._steps: list[ScalarStep] | None = None
        self._programs: dict[tuple[DType, DType], LinearProgram] = {}
        self.decided: dict[tuple[Any, ...], tuple[DType, DType]] = {}
        """`dtypes` of what stood for arguments, by what is known of these."""
        self.supported: dict[tuple[DType, Any], bool] = {}
        """Whether all of its steps are there for a dtype, by who was asked."""

    @property
    def steps(self) -> list[ScalarStep]:
        """The expression as a linear program, made when first asked for."""
        if self._steps is None:
            self._steps = linearize(self.expression)
        return self._steps

    def run(self, arguments: Sequence[Any]) -> Array:
        """Evaluate on one value per schema argument."""
        compute, result = self.dtypes(arguments)
        program = self._programs.get((compute, result))
        if program is None:
            program = LinearProgram(self.steps, numpy_dtype(compute), numpy_dtype(result))
            self._programs[compute, result] = program
        if self.rounded and compute == FLOAT32:
            half = self.common_half(arguments)
            if half is not None:
                arguments = [as_half(a, half) if i in self.rounded else a for i, a in enumerate(arguments)]
        return program.run(arguments)

    def common_half(self, arguments: Sequence[Any]) -> DType | None:
        """The half that the arguments are promoted to, if it is one, with which is computed in float32."""
        if not any(isinstance(a, np.ndarray) and dtype_of(a).is_half for a in arguments):
            return None
        promoted = result_dtype(*[arguments[i] for i in self.promoting])
        return promoted if promoted.is_half else None

    def dtypes(self, arguments: Sequence[Any]) -> tuple[DType, DType]:
        """The dtype to compute in and that of the result."""
        rule = self.rule
        dtype = self._common_float(arguments)
        if dtype is not None:
            return dtype, rule.result(dtype)
        promoted = result_dtype(*[arguments[i] for i in self.promoting])
        if rule.rejects or rule.uniform:
            self._reject(arguments, promoted)
        compute = rule.compute(promoted)
        result = rule.result(compute)
        return (compute if rule.exact else compute_dtype(compute)), result

    def _common_float(self, arguments: Sequence[Any]) -> DType | None:
        """float32 or float64 where all arrays are of it and the rule has nothing to add: the usual case, made quick."""
        if not self.promoting_tensors or not self.keeps_floats:
            return None
        found = arguments[self.promoting_tensors[0]]
        dtype = plain_floats().get(found.dtype) if isinstance(found, np.ndarray) else None
        if dtype is None:
            return None
        for index in self.promoting_tensors[1:]:
            if not isinstance(arguments[index], np.ndarray) or arguments[index].dtype is not found.dtype:
                return None
        return dtype

    def _reject(self, arguments: Sequence[Any], promoted: DType) -> None:
        arrays = [(i, arguments[i]) for i in self.promoting if isinstance(arguments[i], np.ndarray)]
        dtypes = {dtype_of(array) for i, array in arrays if i != self.rule.loose or array.ndim}
        if self.rule.uniform and len(dtypes) > 1:
            raise TypeError(f"{self.name} takes tensors of one dtype, not of {' and '.join(sorted(map(str, dtypes)))}")
        categories = {promoted.category} | ({dtype.category for dtype in dtypes} if self.rule.rejects_each else set())
        for category in categories.intersection(self.rule.rejects):
            raise TypeError(f"{self.name} is not defined for {_CATEGORIES[category]} tensors")


class Pointwise:
    """What `Op.scalar` holds: the formula of a pointwise op, and how its arguments take part."""

    def __init__(
        self,
        schema: FunctionSchema,
        formula: Callable[..., Scalar],
        dtype: str | Callable[..., str],
        conditions: Sequence[str],
        coefficients: Sequence[str],
        check: Callable[..., None] | None,
        elements: Sequence[str] = (),
        widened: Sequence[str] = (),
        rounded: Sequence[str] = (),
    ) -> None:
        self.schema = schema
        self._check = check
        places = {argument.name: i for i, argument in enumerate(schema.arguments)}
        self._rounded = [places[name] for name in rounded]
        self._elements = [
            (places[name.lstrip("-")], name.startswith("-"), name in widened) for name in (*elements, *widened)
        ]
        self.formula = formula
        self.dtype = dtype
        self.conditions = frozenset(conditions)
        self.coefficients = frozenset(coefficients)
        self.defaults = tuple(argument.default for argument in schema.arguments)
        self.static = tuple(i for i, a in enumerate(schema.arguments) if _is_static(a.type) or not a.required)
        self._specializations: dict[tuple[Any, ...], SpecializedOp] = {}

    def specialize(self, arguments: Sequence[Any]) -> SpecializedOp:
        """The specialization for a call; SYMBOLIC stands for any argument that is not known, or not static."""
        key = tuple(self._static_value(i, arguments[i]) for i in self.static)
        found = self._specializations.get(key)
        if found is None:
            if len(self._specializations) >= _MAX_SPECIALIZATIONS:
                self._specializations.clear()
            found = self._specializations[key] = self._make(key)
        return found

    def expression(self, arguments: Sequence[Any]) -> Scalar:
        """The expression for a call, as `specialize`; a parameter's value is the index of its argument."""
        return self.specialize(arguments).expression

    def _static_value(self, index: int, value: Any) -> Any:
        if value is None or value is SYMBOLIC or isinstance(value, str):
            return value
        if _is_static(self.schema.arguments[index].type):
            return value
        is_default = not isinstance(value, np.ndarray) and value == self.defaults[index]
        return self.defaults[index] if is_default else SYMBOLIC

    def _make(self, key: tuple[Any, ...]) -> SpecializedOp:
        values: list[Any] = [SYMBOLIC] * len(self.schema.arguments)
        for index, value in zip(self.static, key, strict=True):
            values[index] = value
        operands = [parameter(i, self._kind(i)) if value is SYMBOLIC else value for i, value in enumerate(values)]
        rule = RULES[self.dtype if isinstance(self.dtype, str) else self.dtype(*values)]
        arguments = self.schema.arguments
        tensors = [i for i, a in enumerate(arguments) if may_be_tensor(a.type) and values[i] is not None]
        return SpecializedOp(
            self.schema.full_name,
            self.formula(*operands),
            rule,
            tensors,
            [i for i, value in enumerate(values) if self._promotes(i) and value is not None],
            self._rounded,
        )

    def _kind(self, index: int) -> OperandKind:
        return "bool" if self.schema.arguments[index].name in self.conditions else "number"

    def _promotes(self, index: int) -> bool:
        argument = self.schema.arguments[index]
        type = strip_optional(argument.type)
        return (
            (isinstance(type, TensorType) or type == NUMBER)
            and not argument.keyword_only
            and argument.name not in self.conditions | self.coefficients
        )

    # --- evaluation ---

    def evaluate(self, *arguments: Any) -> Array:
        """The value of the op; trailing arguments may be left out."""
        if len(arguments) < len(self.defaults):
            arguments = (*arguments, *self.defaults[len(arguments) :])
        self.require(arguments)
        return self.specialize(arguments).run(arguments)

    def require(self, arguments: Sequence[Any]) -> None:
        """Raise what the op has against its arguments, for other reasons than dtypes."""
        if self._check is not None:
            self._check(*arguments)
        if self._elements:
            self._require_elements(arguments)

    def _require_elements(self, arguments: Sequence[Any]) -> None:
        compute, result = self.specialize(arguments).dtypes(arguments)
        for index, is_negated, is_widened in self._elements:
            value = arguments[index]
            if isinstance(value, bool | int | float):
                element(-value if is_negated else value, compute if is_widened else result)

    def evaluator(self) -> Callable[..., Array]:
        """`evaluate`, with a shortcut where the whole op is one primitive: its NumPy function is called at once."""
        kernel = self._single_primitive()
        if kernel is None:
            first, *rest = self.schema.arguments
            is_unary = may_be_tensor(first.type) and first.required and not any(a.required for a in rest)
            is_free = self._check is None and not self._elements
            return _expression_shortcut(self) if is_unary and is_free else self.evaluate
        if isinstance(kernel, np.ufunc) and kernel.nin == 1:
            return _unary_shortcut(kernel, self)
        is_number = self.schema.arguments[1].type == NUMBER
        return (_number_shortcut if is_number else _binary_shortcut)(kernel, self)

    def _single_primitive(self) -> Callable[..., Any] | None:
        """What does all there is to do for float arrays of one dtype and default arguments: a ufunc at once."""
        if any(_is_static(a.type) or may_be_none(a.type) for a in self.schema.arguments):
            return None
        special = self.specialize([SYMBOLIC if a.required else a.default for a in self.schema.arguments])
        root = special.expression
        leaves = [(arg.op, arg.value, arg.kind) for arg in root.args]
        parameters = [(PARAMETER, i, "number") for i in range(len(leaves))]
        is_plain = bool(leaves) and special.tensors in ((0,), (0, 1)) and special.keeps_floats
        is_plain = is_plain and not any(self.schema.arguments[i].required for i, _, _ in self._elements)
        function = EVALUATED[root.op].evaluate if is_plain and leaves in (parameters, parameters[::-1]) else None
        if not isinstance(function, np.ufunc):
            return None
        return function if leaves == parameters else _reversed(function)

    # --- types ---

    def result_type(self, types: Sequence[Type]) -> TensorType:
        """What is known of the result, given the types of the arguments."""
        values = [None if type == NONE else SYMBOLIC for type in types]
        rule = RULES[self.dtype if isinstance(self.dtype, str) else self.dtype(*values)]
        tensors = [strip_optional(t) for t in types if may_be_tensor(t)]
        ranks = [t.rank if isinstance(t, TensorType) else None for t in tensors]
        rank = max((r for r in ranks if r is not None), default=None) if None not in ranks else None
        promoting = [type for i, type in enumerate(types) if self._promotes(i) and type != NONE]
        promoted = promoted_dtype(promoting[:1] if rule.only_first else promoting)
        if promoted is not None:
            return TensorType(rule.result(rule.compute(promoted)), rank)
        settled = {rule.result(rule.compute(dtype)) for dtype in (BOOL_DTYPE, INT64, FLOAT64)}
        return TensorType(settled.pop() if len(settled) == 1 else None, rank)


def _is_static(type: Type) -> bool:
    return strip_optional(type) in (STR, BOOL, INT)


def _reversed(function: np.ufunc) -> Callable[..., Any]:
    """The same of two operands in the other order."""
    return lambda left, right: function(right, left)


def _unary_shortcut(function: Callable[..., Any], op: Pointwise) -> Callable[..., Array]:
    fast, ndarray, evaluate = plain_floats(), np.ndarray, op.evaluate

    def shortcut(operand: Any, *rest: Any) -> Array:
        if type(operand) is ndarray and operand.dtype in fast and not rest:
            result = function(operand)
            return result if type(result) is ndarray else np.asarray(result)
        return evaluate(operand, *rest)

    return shortcut


def _expression_shortcut(op: Pointwise) -> Callable[..., Array]:
    """Of one tensor and defaults there is one specialization, which need not be looked for."""
    ndarray, evaluate = np.ndarray, op.evaluate
    arguments = [SYMBOLIC, *op.defaults[1:]]
    special: list[SpecializedOp] = []

    def shortcut(operand: Any, *rest: Any) -> Array:
        if type(operand) is ndarray and not rest:
            if not special:
                special.append(op.specialize(arguments))
            return special[0].run((operand, *arguments[1:]))
        return evaluate(operand, *rest)

    return shortcut


def _binary_shortcut(function: Callable[..., Any], op: Pointwise) -> Callable[..., Array]:
    fast, ndarray, evaluate = plain_floats(), np.ndarray, op.evaluate
    defaults = op.defaults[2:]

    def shortcut(left: Any, right: Any, *rest: Any) -> Array:
        if type(left) is ndarray and type(right) is ndarray and (not rest or _are(rest, defaults)):
            dtype = left.dtype
            if dtype is right.dtype and dtype in fast:
                result = function(left, right)
                return result if type(result) is ndarray else np.asarray(result)
        return evaluate(left, right, *rest)

    return shortcut


def _are(given: tuple[Any, ...], defaults: tuple[Any, ...]) -> bool:
    """Whether arguments are their defaults; True is not 1."""
    return given == defaults and not any(isinstance(value, bool) for value in given)


def _number_shortcut(function: Callable[..., Any], op: Pointwise) -> Callable[..., Array]:
    fast, ndarray, evaluate = plain_floats(), np.ndarray, op.evaluate
    defaults = op.defaults[2:]

    def shortcut(left: Any, right: Any, *rest: Any) -> Array:
        is_fast = type(left) is ndarray and left.dtype in fast and (not rest or _are(rest, defaults))
        if is_fast and (type(right) is float or type(right) is int):
            result = function(left, right)
            return result if type(result) is ndarray else np.asarray(result)
        return evaluate(left, right, *rest)

    return shortcut


def pointwise(
    schema: str,
    formula: Callable[..., Scalar],
    *,
    dtype: str | Callable[..., str] = "promote",
    traits: Trait = Trait.NONE,
    aliases: tuple[str, ...] = (),
    conditions: tuple[str, ...] = (),
    coefficients: tuple[str, ...] = (),
    check: Callable[..., None] | None = None,
    elements: tuple[str, ...] = (),
    widened: tuple[str, ...] = (),
    rounded: tuple[str, ...] = (),
) -> Op:
    """Declare a pointwise op.

    `formula` takes one operand per schema argument, in order: a Scalar, or the value itself of a static argument.
    `dtype` is the name of a rule in RULES, or a function from the arguments (SYMBOLIC where not static) to one.
    `conditions` names the arguments that are read as bools; they take no part in promotion, nor do the numbers
    named by `coefficients` and keyword-only numbers. `check` is called with all arguments and raises where torch
    does for other reasons than dtypes. Arguments named by `rounded`, numbers for the most part, are rounded to the half
    that all are promoted to before anything is computed with them.
    """
    parsed = parse_schema(schema)
    scalar = Pointwise(parsed, formula, dtype, conditions, coefficients, check, elements, widened, rounded)
    op = Op(parsed, traits | Trait.POINTWISE, scalar.evaluate, scalar.result_type, scalar, aliases)
    OPS.add(op)
    return op
