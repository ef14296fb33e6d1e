"""Arguments → a node: the overload that fits them, conversions and defaults applied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...lang import ast
from ...lang.light_dataclasses import replace
from ...lang.patterns import pattern
from ...lang.trampoline import Walk
from ..ir.node import Value
from ..ir.signature import Bindings, matches, result_types
from ..ops.registry import OPS, Op
from ..spelling.overloads import Argued, Default, Fitting, FromArgument, Match, Mismatch, Packed, element_type
from ..types.schema import FunctionSchema
from ..types.types import (
    BOOL,
    FLOAT,
    INT,
    INT_LIST,
    NONE,
    NUMBER,
    NUMBERS,
    TENSOR,
    UNDEFINED,
    ListType,
    OptionalType,
    TupleType,
    Type,
    VariableType,
    is_tensor,
    strip_optional,
)
from .emitter import Emitter, described, is_constant, known_constant
from .outside import RecordType
from .spellings import asks_in_vain
from .stars import STAR, as_sizes, emit_elements, require_known
from .stores import is_written

_FROM_TENSOR: dict[Type, str] = {INT: "aten::IntImplicit", FLOAT: "aten::FloatImplicit", NUMBER: "aten::ScalarImplicit"}
_DISPLAYS = ("prim::ListConstruct", "prim::TupleConstruct")
MAX_CANDIDATES = 6


def emit_arguments(e: Emitter, node: ast.Call, *, are_sizes: bool = False) -> Walk:
    """The arguments of a call, in order; `are_sizes` where those without a name are ints that stand for a list."""
    arguments: list[Argued] = yield emit_elements(e, node.args)
    if are_sizes and any(argument.keyword == STAR for argument in arguments):
        arguments = as_sizes(e, node, arguments)
    require_known(e, arguments, "arguments")
    for keyword in node.keywords:
        arguments.append(Argued((yield e.expression(keyword.value)), keyword.value.span, keyword.name))
    return arguments


def emit_resolved(e: Emitter, node: ast.Syntax, name: str, arguments: Sequence[Argued], what: str) -> Value:
    """A call of the op `name`, overloads resolved; several results come as one tuple."""
    ops = OPS.overloads(name)
    match = e.unit.resolver.resolve([op.schema for op in ops], arguments)
    if not isinstance(match, Match):
        if any(argument.value.type == UNDEFINED for argument in arguments) and _asks_first(e):
            # A part of a list of gradients that is not there is not there: a loop may carry one in its later rounds.
            return e.at(node).undefined()
        raise _no_match(e, node, what, [op.schema for op in ops], arguments, match)
    op = OPS.of(match.schema)
    assert op is not None
    _refuse_in_vain(e, match, arguments)
    _refuse_undefined(e, op, match, arguments)
    _refuse_dtypes(e, op, match, arguments)
    inputs = convert_arguments(e, node, match, arguments)
    types = result_types(op, [value.type for value in inputs])
    made = e.at(node).node(op.schema.full_name, inputs, types, schema=op.schema)
    return _as_value(e, made.outputs, op.schema)


def _refuse_in_vain(e: Emitter, match: Match, arguments: Sequence[Argued]) -> None:
    """CompileError for an argument that asks for what no tensor here has, and would be left out of account."""
    for argument, source in zip(match.schema.arguments, match.sources, strict=True):
        if isinstance(source, FromArgument) and asks_in_vain(argument.name, arguments[source.index].value):
            given = arguments[source.index]
            message = f"'{argument.name}' has no effect here but at its default"
            raise e.fail("E204", message, given.span, "leave it out: tensors here are dense, contiguous and not pinned")


def _refuse_undefined(e: Emitter, op: Op, match: Match, arguments: Sequence[Argued]) -> None:
    """CompileError for a gradient that is none where an op computes with a tensor."""
    if op.schema.full_name.startswith("prim::"):
        return
    given = [arguments[source.index] for source in match.sources if isinstance(source, FromArgument)]
    absent = next((argument for argument in given if argument.value.type == UNDEFINED), None)
    if absent is not None and not _asks_first(e):
        note = "`gs.autograd_add(a, b)` adds what may be none"
        raise e.fail("E301", "a gradient that nobody computes is no operand", absent.span, note)


def _refuse_dtypes(e: Emitter, op: Op, match: Match, arguments: Sequence[Argued]) -> None:
    """CompileError for a dtype, which is a number, where a tensor is computed with a number or has it for a size."""
    if not any(is_tensor(result.type) for result in op.schema.returns):
        return
    for argument, source in zip(op.schema.arguments, match.sources, strict=True):
        if argument.name.endswith("dtype") or isinstance(source, Default):
            continue
        taken = range(source.start, source.stop) if isinstance(source, Packed) else (source.index,)
        for given in (arguments[index] for index in taken):
            if given.value in e.dtypes or given.value.node.kind == "prim::dtype":
                message = f"'{argument.name}' of {op.schema.base_name} takes no dtype"
                raise e.fail("E204", message, given.span, "`y.to(dtype)` converts, `torch.zeros(2, dtype=…)` makes")


def _asks_first(e: Emitter) -> bool:
    """Whether a branch that asks `torch.grad_defined(…)` stands around: what has no gradient is not computed then."""
    node = e.builder.block.node
    while node is not None:
        if node.kind == "prim::If" and _is_of_gradients(node.inputs[0]):
            return True
        node = node.holder
    return False


def _is_of_gradients(test: Value) -> bool:
    """Whether a test is made of whether gradients are there."""
    waiting = [test]
    while waiting:
        node = waiting.pop().node
        if node.kind == "prim::grad_defined":
            return True
        if node.kind in ("prim::If", "aten::__or__.bool", "aten::__and__.bool", "aten::__not__.bool"):
            waiting += [*node.inputs, *(value for block in node.blocks for value in block.outputs)]
    return False


def matched_arguments(e: Emitter, node: ast.Call, schema: FunctionSchema, arguments: Sequence[Argued]) -> list[Value]:
    """What a function is given, one value for each of its parameters."""
    match = e.unit.resolver.resolve([schema], arguments)
    if not isinstance(match, Match):
        raise _no_match(e, node, f"function '{schema.name}'", [schema], arguments, match)
    return convert_arguments(e, node, match, arguments)


def emit_function_call(e: Emitter, node: ast.Call, schema: FunctionSchema, arguments: Sequence[Argued]) -> Value:
    inputs = matched_arguments(e, node, schema, arguments)
    types = [result.type for result in schema.returns]
    made = e.at(node).node("prim::CallFunction", inputs, types, attrs={"callee": schema.name})
    return _as_value(e, made.outputs, schema)


def emit_record(e: Emitter, node: ast.Call, record: RecordType, arguments: Sequence[Argued]) -> Value:
    """A named tuple, made of its fields."""
    places = zip(record.schema.arguments, arguments, strict=False)
    given = {field.name: argument.value.type for field, argument in places if argument.keyword is None}
    given |= {argument.keyword: argument.value.type for argument in arguments if argument.keyword is not None}
    fields = [
        replace(field, type=given[field.name]) if field.name in record.untyped and field.name in given else field
        for field in record.schema.arguments
    ]
    schema = FunctionSchema(record.schema.name, "", tuple(fields), record.schema.returns)
    match = e.unit.resolver.resolve([schema], arguments)
    if not isinstance(match, Match):
        raise _no_match(e, node, f"named tuple '{schema.name}'", [schema], arguments, match)
    values = convert_arguments(e, node, match, arguments)
    made = e.at(node).tuple(values)
    made.type = TupleType(tuple(value.type for value in values), tuple(field.name for field in fields))
    return made


def emit_replaced(e: Emitter, node: ast.Call, subject: Argued, arguments: Sequence[Argued]) -> Value:
    """`p._replace(x=y)`: the named tuple with other values for some of its fields."""
    type = subject.value.type
    assert isinstance(type, TupleType)
    made_here = subject.value.node.kind == "prim::TupleConstruct"
    elements = subject.value.node.inputs if made_here else e.at(node).unpack(subject.value)
    values = dict(zip(type.names, elements, strict=True))
    for argument in arguments:
        if argument.keyword is None or argument.keyword not in values:
            what = "a value without a name" if argument.keyword is None else f"'{argument.keyword}'"
            note = f"its fields are {', '.join(type.names)}"
            raise e.fail("E204", f"_replace() takes fields by their names, not {what}", argument.span, note)
        values[argument.keyword] = argument.value
    made = e.at(node).tuple(list(values.values()))
    made.type = TupleType(tuple(value.type for value in values.values()), type.names)
    return made


def _as_value(e: Emitter, outputs: Sequence[Value], schema: FunctionSchema) -> Value:
    """What a call gives: several results are a tuple, whose elements have the names that the schema gives them."""
    if len(outputs) == 1:
        return outputs[0]
    if not outputs:
        return e.builder.constant(None)
    made = e.builder.tuple(outputs)
    if all(result.name != f"result{i}" for i, result in enumerate(schema.returns)):
        made.type = TupleType(tuple(v.type for v in outputs), tuple(result.name for result in schema.returns))
    return made


def element_named(e: Emitter, node: ast.Attribute, value: Value) -> Value | None:
    """`torch.max(x, 0).values`: the element of a tuple by its name; None where the tuple has no such name."""
    if not isinstance(value.type, TupleType) or node.name not in value.type.names:
        return None
    index = value.type.names.index(node.name)
    if value.node.kind == "prim::TupleConstruct":
        return value.node.inputs[index]
    return e.at(node).tuple_index(value, index)


def convert_arguments(e: Emitter, node: ast.Syntax, match: Match, arguments: Sequence[Argued]) -> list[Value]:
    """One value per argument of the matched schema, defaults and conversions applied."""
    e.at(node)
    inputs: list[Value] = []
    for argument, source in zip(match.schema.arguments, match.sources, strict=True):
        match source:
            case FromArgument(index, conversion):
                inputs.append(_convert(e, arguments[index].value, conversion, argument.type, argument.fixed_size))
            case Packed(start, stop):
                packed = [as_int(e, node, a) if argument.type == INT_LIST else a for a in arguments[start:stop]]
                inputs.append(e.builder.list([a.value for a in packed]))
            case Default():
                default = argument.default
                known = argument.type if isinstance(default, tuple) else None
                inputs.append(e.builder.constant(default, known))  # type: ignore[arg-type]
    return inputs


def _convert(e: Emitter, value: Value, conversion: Fitting, formal: Type, size: int | None) -> Value:
    builder = e.builder
    match conversion:
        case Fitting.AS_IS:
            return _adapted(value, formal)
        case Fitting.TO_FLOAT | Fitting.TO_INT:
            to_float = conversion is Fitting.TO_FLOAT
            if is_constant(value):
                constant = known_constant(value)
                return builder.constant(float(constant) if to_float else int(constant))
            op = "aten::Float.Scalar" if value.type in (NUMBER, FLOAT) else "aten::Float.int"
            return builder.op(OPS.named(op if to_float else "aten::Int.bool"), value)
        case Fitting.FROM_TENSOR:
            return builder.op(OPS.named(_FROM_TENSOR[strip_optional(formal)]), value)
        case Fitting.FROM_TENSORS:
            items = value.node.inputs if value.node.kind in _DISPLAYS else builder.unpack(value)
            ints = [_convert(e, v, Fitting.FROM_TENSOR, INT, None) if is_tensor(v.type) else v for v in items]
            return builder.list(ints, INT)
        case Fitting.TO_DEVICE:
            return builder.op(OPS.named("aten::device"), value)
        case Fitting.REPEAT:
            if is_tensor(value.type) and element_type(formal) in _FROM_TENSOR:
                value = _convert(e, value, Fitting.FROM_TENSOR, element_type(formal), None)
            if element_type(formal) == FLOAT and value.type != FLOAT:
                value = _convert(e, value, Fitting.TO_FLOAT, FLOAT, None)
            return builder.list([value] * (size or 1), element_type(formal))
        case Fitting.TO_LIST:
            elements = value.node.inputs if value.node.kind == "prim::TupleConstruct" else builder.unpack(value)
            element = element_type(formal)
            if isinstance(element, VariableType):
                # What any list may hold, it holds what the tuple does.
                bound: Bindings = {}
                fits = all(matches(value.type, element, bound) for value in elements)
                assert fits, "the overload takes the tuple"
                element = bound[element.name]
            return builder.list(elements, element)
        case Fitting.EMPTY_LIST:
            return builder.node("prim::ListConstruct", (), [ListType(element_type(formal))]).output
        case Fitting.TO_FLOAT_LIST:
            if value.node.kind == "prim::ListConstruct" and value.node.owner is builder.block and not is_written(value):
                floats = [_convert(e, v, Fitting.TO_FLOAT, FLOAT, None) for v in value.node.inputs]
                return builder.list(floats, FLOAT)
            return builder.op(OPS.named("aten::_float_list"), value)


def with_float_base(e: Emitter, node: ast.Syntax, arguments: Sequence[Argued]) -> Sequence[Argued]:
    """The base and the exponent: an int to a literal negative power is a float, as in Python."""
    if [a.value.type for a in arguments] != [INT, INT] or any(a.keyword for a in arguments):
        return arguments
    base, exponent = arguments
    if not is_constant(exponent.value) or known_constant(exponent.value) >= 0:
        return arguments
    e.at(node)
    return [Argued(_convert(e, base.value, Fitting.TO_FLOAT, FLOAT, None), base.span), exponent]


def as_int(e: Emitter, node: ast.Syntax, argument: Argued) -> Argued:
    """An argument that is to be an int: of a tensor, the number that it holds."""
    if not is_tensor(argument.value.type):
        return argument
    return replace(argument, value=e.at(node).op("aten::IntImplicit", argument.value))


def _adapted(value: Value, formal: Type) -> Value:
    """A list display takes the type that the schema asks for: `[index]` is a list of optionals."""
    formal = strip_optional(formal)
    is_display = value.node.kind == "prim::ListConstruct" and value.node.inputs and not value.name_hint
    if is_display and not value.use_count and formal == ListType(OptionalType(TENSOR)):
        value.type = formal
    return value


def _no_match(
    e: Emitter,
    node: ast.Syntax,
    what: str,
    schemas: Sequence[FunctionSchema],
    arguments: Sequence[Argued],
    mismatches: list[Mismatch],
) -> Exception:
    if len(mismatches) == 1:
        mismatch = mismatches[0]
        span = node.span
        if mismatch.index is not None and mismatch.index < len(arguments):
            span = arguments[mismatch.index].span
        signature = f"its signature is {schemas[0]}"
        return e.fail("E204", f"{what}: {mismatch.reason}", span, *_instead(what, arguments), signature)
    absent = _only_optional(e, schemas, arguments)
    if absent is not None:
        text = absent.span.text
        note = f"test it first: `if {text} is not None:`"
        return e.fail("E303", f"{what}: '{text}' may be None, it is {described(absent.value.type)}", absent.span, note)
    given = ", ".join(f"{a.keyword}={a.value.type}" if a.keyword else str(a.value.type) for a in arguments)
    # Candidates that take the first argument as it is are the ones that may have been meant.
    of_tensors = bool(arguments) and is_tensor(arguments[0].value.type)
    near = [
        (s, m)
        for s, m in zip(schemas, mismatches, strict=True)
        if m.index != 0 and not (of_tensors and s.arguments and s.arguments[0].type in NUMBERS)
    ]
    candidates = near or list(zip(schemas, mismatches, strict=True))
    notes = [f"{schema}: {mismatch.reason}" for schema, mismatch in candidates][:MAX_CANDIDATES]
    if any(isinstance(a.value.type, TupleType) for a in arguments):
        notes.append("a tuple is not a tensor: unpack it first")
    notes = [*_instead(what, arguments), *notes]
    return e.fail("E203", f"{what} does not take ({given})", node.span, *notes)


def _instead(what: str, arguments: Sequence[Argued]) -> Iterator[str]:
    """What people bring from torch that no overload takes, and what to write."""
    types = [argument.value.type for argument in arguments]
    if any(argument.keyword == "out" for argument in arguments):
        yield "there is no 'out': use what the call gives"
    if any(argument.keyword == "requires_grad" for argument in arguments):
        yield "leave it out: gradients are taken from outside, and flow to every argument"
    if what == "operator 'in'" and types and is_tensor(types[0]):
        yield "of a tensor: `bool((x == value).any())`"
    if what in ("operator '=='", "operator '!='") and NONE in types:
        yield "ask `x is None`, or `x is not None`"
    made_one = [a for a in arguments if a.value.type == BOOL and _ONE_BOOL.search(a.span.text)]
    if made_one and any(map(is_tensor, types)):
        yield "`not`, `and`, `or` and `0 < x < 1` make one bool; element by element: `~a`, `a & b`, `(0 < x) & (x < 1)`"


_ONE_BOOL = pattern(r"\b(not|and|or)\b|[<>]=?[^<>]*[<>]=?")


def _only_optional(e: Emitter, schemas: Sequence[FunctionSchema], arguments: Sequence[Argued]) -> Argued | None:
    """The first argument that may be None, if being so is all that is wrong with the call."""
    optional = [a for a in arguments if isinstance(a.value.type, OptionalType)]
    if not optional:
        return None
    present = [Argued(Value(strip_optional(a.value.type), a.value.node), a.span, a.keyword) for a in arguments]
    return optional[0] if isinstance(e.unit.resolver.resolve(schemas, present), Match) else None
