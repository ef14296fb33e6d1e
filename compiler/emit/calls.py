"""Calls: ops by function, method or module path; functions of the unit; Python's builtins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...lang import ast
from ...lang.diagnostics import Abort, did_you_mean
from ...lang.trampoline import Walk
from ..ir.node import Value
from ..ir.signature import result_types
from ..ops.registry import OPS
from ..types.schema import FunctionSchema
from ..types.types import (
    BOOL,
    CLOSURE,
    FLOAT,
    INT,
    NUMBER,
    NUMBERS,
    STR,
    TENSOR,
    ListType,
    OptionalType,
    TupleType,
    Type,
    is_tensor,
    may_be_none,
    strip_optional,
)
from .annotations import dotted_name, resolve_type
from .emitter import EXPRESSIONS, FORMS, TESTS, Emitter, constant_of, described, emits, is_constant
from .mutation import LIST_MUTATIONS, emit_mutation, is_written
from .overloads import Argued, Conversion, Default, Given, Match, Mismatch, Packed, element_type
from .spellings import (
    MODULES,
    PLAIN_TOO,
    SYMBOLS,
    meaningful,
    names_of,
    op_name,
    symbol_for,
    with_dropout,
    with_indices,
    with_keywords,
    with_receiver,
)

BUILTINS = {
    "len": "len",
    "abs": "abs",
    "min": "min",
    "max": "max",
    "sum": "sum",
    "round": "round",
    "pow": "pow",
    "sorted": "sorted",
    "any": "any",
    "all": "all",
    "int": "Int",
    "float": "Float",
    "bool": "Bool",
    "list": "list",
    "str": "str",
    "repr": "repr",
    "ascii": "ascii",
    "format": "format",
    "print": "Print",
    "rangelist": "rangelist",
}
"""Python's functions, and the ops that they are."""

OVER_ROWS = {"sum": "sum_rows", "any": "_any_row", "all": "_all_rows"}
"""What they are of a tensor, over whose first dimension Python goes."""

_OF_NUMBERS = {
    "max": "`torch.maximum(x, y)` of two tensors, `torch.max(x)` of one, `torch.clamp(x, min=…)` beside a number",
    "min": "`torch.minimum(x, y)` of two tensors, `torch.min(x)` of one, `torch.clamp(x, max=…)` beside a number",
}
"""Python's functions that choose by comparing, which tensors do not decide as a user means it, and torch's instead."""

METHOD_ATTRIBUTES = {
    "shape": "size",
    "dtype": "dtype",
    "device": "device",
    "ndim": "dim",
    "T": "numpy_T",
    "mT": "mT",
    "data": "detach",
    "requires_grad": "requires_grad",
    "is_cuda": "is_cuda",
}
"""Attributes of a tensor, and the ops that they are."""

_FROM_TENSOR: dict[Type, str] = {INT: "aten::IntImplicit", FLOAT: "aten::FloatImplicit", NUMBER: "aten::ScalarImplicit"}
MAX_CANDIDATES = 6


@emits(EXPRESSIONS, ast.Call)
def _call(e: Emitter, node: ast.Call) -> Walk:
    form = e.form(FORMS, node)
    if form is not None:
        return (yield form(e, node))
    if e.form(TESTS, node) is not None:
        from .conditions import emit_bool

        return (yield emit_bool(e, node))
    function = node.function
    if isinstance(function, ast.Name):
        return (yield _call_name(e, node, function))
    if not isinstance(function, ast.Attribute):
        raise e.fail("E204", "this expression is not a function", function.span, "only names and methods are called")
    module = dotted_name(function.value)
    root = module.partition(".")[0]
    if module and e.frame.lookup(root) is None:
        return (yield _call_module(e, node, function, module, root))
    return (yield _call_method(e, node, function))


def _call_name(e: Emitter, node: ast.Call, function: ast.Name) -> Walk:
    name = function.id
    if e.frame.lookup(name) is not None:
        return _call_value(e, e.lookup(name, function.span), function)
    if e.is_open_closure(name):
        raise e.fail("E404", f"closure '{name}' calls itself", function.span, "write a loop instead")
    if name in e.unit.names and not (e.unit.builtins_first and name in BUILTINS):
        callee = yield e.unit.emit(name, function.span)
        arguments = yield emit_arguments(e, node)
        return _emit_function_call(e, node, callee.schema, arguments)
    if name in ("range", "zip", "enumerate", "reversed"):
        note = f"write `for … in {name}(…)`, or `list({name}(…))`"
        raise e.fail("E102", f"{name}() outside a `for`", node.span, note)
    if name in BUILTINS:
        arguments = yield emit_arguments(e, node)
        if name == "print":
            from .strings import emit_print

            return emit_print(e, node, arguments)
        if name in _OF_NUMBERS and any(is_tensor(argument.value.type) for argument in arguments):
            raise e.fail("E204", f"{name}() takes numbers, not a Tensor", node.span, f"write {_OF_NUMBERS[name]}")
        over_rows = bool(arguments) and is_tensor(arguments[0].value.type) and name in OVER_ROWS
        arguments = with_float_base(e, node, arguments) if name == "pow" else arguments
        return emit_resolved(e, node, OVER_ROWS[name] if over_rows else BUILTINS[name], arguments, f"{name}()")
    if name == "uninitialized" and len(node.args) == 1 and not node.keywords:
        # What no path reads: printed source has it where a branch leaves a variable unset.
        return e.at(node).uninitialized(resolve_type(node.args[0], e.diagnostics))
    if name in e.unit.ignored:
        note = "remove the decorator, so that the function is compiled too"
        raise e.fail("E102", f"'{name}' is not compiled: @{e.unit.ignored[name]}", function.span, note)
    if name in e.unit.broken:
        raise Abort(name)
    known = [*dict.fromkeys(e.frame.names()), *e.unit.names, *BUILTINS, "torch"]
    notes = did_you_mean(name, known)
    if not notes and OPS.overloads(name):
        notes = (f"did you mean `torch.{name}`?",)
    raise e.fail("E201", f"undefined name '{name}'", function.span, *notes)


def _call_value(e: Emitter, value: Value, function: ast.Name) -> Value:
    if value.type == CLOSURE:
        raise e.fail(
            "E401",
            f"closure '{function.id}' is called",
            function.span,
            "a closure is only returned; put shared code into a function of its own",
        )
    raise e.fail("E204", f"'{function.id}' is {described(value.type)}, not a function", function.span)


def _call_module(e: Emitter, node: ast.Call, function: ast.Attribute, module: str, root: str) -> Walk:
    if module not in MODULES:
        if root not in {m.partition(".")[0] for m in MODULES}:
            e.lookup(root, _root(function).span)
        raise e.fail("E202", f"unknown module '{module}'", function.value.span, *did_you_mean(module, MODULES))
    name = op_name(module, function.name)
    if name is None:
        notes = did_you_mean(function.name, names_of(module))
        raise e.fail("E202", f"unknown operator '{module}.{function.name}'", function.name_span, *notes)
    if module == "warnings":
        from .strings import emit_warn

        return (yield emit_warn(e, node))
    arguments = yield emit_arguments(e, node)
    if MODULES[module] in PLAIN_TOO:
        name = with_dropout(name, arguments)
    return emit_named(e, node, name, arguments, f"{module}.{function.name}")


def emit_named(e: Emitter, node: ast.Call, name: str, arguments: Sequence[Argued], what: str) -> Value:
    """A call of an op as torch's Python function."""
    symbol = symbol_for(name, arguments)
    if symbol is not None:
        from .expressions import emit_binary

        return emit_binary(e, node, symbol, *arguments)
    if name in SYMBOLS and arguments and all(a.value.type in NUMBERS for a in arguments[:2]):
        # Torch gives a tensor of two numbers, too.
        first = arguments[0]
        arguments = [Argued(_as_tensor(e, node, first.value), first.span, first.keyword), *arguments[1:]]
    if arguments and arguments[0].value.type in NUMBERS and _takes_tensors_only(name):
        # `torch.erf(2.0)` is `math.erf(2.0)`, as in TorchScript.
        name = f"math_{name}" if OPS.overloads(f"math_{name}") else name
    arguments = with_keywords(name, arguments)
    name = with_indices(name, arguments)
    return emit_resolved(e, node, name, meaningful(name, arguments), what)


def _as_tensor(e: Emitter, node: ast.Syntax, number: Value) -> Value:
    kind = number.type if number.type in (BOOL, INT, FLOAT) else NUMBER
    return e.at(node).op(f"aten::tensor.{kind}", number)


def with_float_base(e: Emitter, node: ast.Syntax, arguments: Sequence[Argued]) -> Sequence[Argued]:
    """The base and the exponent: an int to a literal negative power is a float, as in Python."""
    if [a.value.type for a in arguments] != [INT, INT] or any(a.keyword for a in arguments):
        return arguments
    base, exponent = arguments
    if not is_constant(exponent.value) or constant_of(exponent.value) >= 0:
        return arguments
    e.at(node)
    return [Argued(_convert(e, base.value, Conversion.TO_FLOAT, FLOAT, None), base.span), exponent]


def _takes_tensors_only(name: str) -> bool:
    return all(op.schema.arguments and is_tensor(op.schema.arguments[0].type) for op in OPS.overloads(name))


def _root(node: ast.Expr) -> ast.Expr:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node


def _call_method(e: Emitter, node: ast.Call, function: ast.Attribute) -> Walk:
    name = function.name
    receiver = yield e.expression(function.value)
    subject = Argued(receiver, function.value.span)
    if may_be_none(receiver.type):
        raise e.fail(
            "E303",
            f"'{function.value.span.text}' is {described(receiver.type)}: it may be None",
            function.value.span,
            f"test it first: `if {function.value.span.text} is not None:`",
        )
    arguments = yield emit_arguments(e, node)
    if is_tensor(receiver.type) and name.endswith("_") and not name.endswith("__") and not OPS.overloads(name):
        return emit_mutation(e, node, function, subject, arguments)
    if receiver.type == STR and name == "format":
        from .strings import emit_format

        return emit_format(e, node, subject, arguments)
    if isinstance(receiver.type, ListType) and name in LIST_MUTATIONS:
        return emit_mutation(e, node, function, subject, arguments)
    if not OPS.overloads(name):
        methods = OPS.names()
        raise e.fail(
            "E202",
            f"{described(receiver.type)} has no method '{name}'",
            function.name_span,
            *did_you_mean(name, methods),
        )
    name = with_indices(name, arguments)
    arguments = with_receiver(name, subject, meaningful(name, arguments))
    return emit_resolved(e, node, name, arguments, f"method '{name}'")


def emit_arguments(e: Emitter, node: ast.Call) -> Walk:
    """The arguments of a call, in order."""
    arguments: list[Argued] = []
    for argument in node.args:
        arguments.append(Argued((yield e.expression(argument)), argument.span))
    for keyword in node.keywords:
        arguments.append(Argued((yield e.expression(keyword.value)), keyword.value.span, keyword.name))
    return arguments


def emit_resolved(e: Emitter, node: ast.Syntax, name: str, arguments: Sequence[Argued], what: str) -> Value:
    """A call of the op `name`, overloads resolved; several results come as one tuple."""
    ops = OPS.overloads(name)
    match = e.unit.resolver.resolve([op.schema for op in ops], arguments)
    if not isinstance(match, Match):
        raise _no_match(e, node, what, [op.schema for op in ops], arguments, match)
    op = OPS.of(match.schema)
    assert op is not None
    inputs = convert_arguments(e, node, match, arguments)
    types = result_types(op, [value.type for value in inputs])
    made = e.at(node).node(op.schema.full_name, inputs, types, schema=op.schema)
    return _as_value(e, made.outputs, op.schema)


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


def _emit_function_call(e: Emitter, node: ast.Call, schema: FunctionSchema, arguments: Sequence[Argued]) -> Value:
    match = e.unit.resolver.resolve([schema], arguments)
    if not isinstance(match, Match):
        raise _no_match(e, node, f"function '{schema.name}'", [schema], arguments, match)
    inputs = convert_arguments(e, node, match, arguments)
    types = [result.type for result in schema.returns]
    made = e.at(node).node("prim::CallFunction", inputs, types, attrs={"callee": schema.name})
    return _as_value(e, made.outputs, schema)


def convert_arguments(e: Emitter, node: ast.Syntax, match: Match, arguments: Sequence[Argued]) -> list[Value]:
    """One value per argument of the matched schema, defaults and conversions applied."""
    e.at(node)
    inputs: list[Value] = []
    for argument, source in zip(match.schema.arguments, match.sources, strict=True):
        match source:
            case Given(index, conversion):
                inputs.append(_convert(e, arguments[index].value, conversion, argument.type, argument.fixed_size))
            case Packed(start, stop):
                inputs.append(e.builder.list([a.value for a in arguments[start:stop]]))
            case Default():
                default = argument.default
                known = argument.type if isinstance(default, tuple) else None
                inputs.append(e.builder.constant(default, known))  # type: ignore[arg-type]
    return inputs


def _convert(e: Emitter, value: Value, conversion: Conversion, formal: Type, size: int | None) -> Value:
    builder = e.builder
    match conversion:
        case Conversion.AS_IS:
            return _adapted(value, formal)
        case Conversion.TO_FLOAT | Conversion.TO_INT:
            to_float = conversion is Conversion.TO_FLOAT
            if is_constant(value):
                constant = constant_of(value)
                return builder.constant(float(constant) if to_float else int(constant))
            op = "aten::Float.Scalar" if value.type in (NUMBER, FLOAT) else "aten::Float.int"
            return builder.op(OPS.named(op if to_float else "aten::Int.bool"), value)
        case Conversion.FROM_TENSOR:
            return builder.op(OPS.named(_FROM_TENSOR[strip_optional(formal)]), value)
        case Conversion.TO_DEVICE:
            return builder.op(OPS.named("aten::device"), value)
        case Conversion.REPEAT:
            if is_tensor(value.type) and element_type(formal) in _FROM_TENSOR:
                value = _convert(e, value, Conversion.FROM_TENSOR, element_type(formal), None)
            if element_type(formal) == FLOAT and value.type != FLOAT:
                value = _convert(e, value, Conversion.TO_FLOAT, FLOAT, None)
            return builder.list([value] * (size or 1), element_type(formal))
        case Conversion.TO_LIST:
            elements = value.node.inputs if value.node.kind == "prim::TupleConstruct" else builder.unpack(value)
            return builder.list(elements, element_type(formal))
        case Conversion.EMPTY_LIST:
            return builder.node("prim::ListConstruct", (), [ListType(element_type(formal))]).output
        case Conversion.TO_FLOAT_LIST:
            if value.node.kind == "prim::ListConstruct" and value.node.owner is builder.block and not is_written(value):
                floats = [_convert(e, v, Conversion.TO_FLOAT, FLOAT, None) for v in value.node.inputs]
                return builder.list(floats, FLOAT)
            return builder.op(OPS.named("aten::_float_list"), value)


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
        return e.fail("E204", f"{what}: {mismatch.reason}", span, f"its signature is {schemas[0]}")
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
    return e.fail("E203", f"{what} does not take ({given})", node.span, *notes)


def _only_optional(e: Emitter, schemas: Sequence[FunctionSchema], arguments: Sequence[Argued]) -> Argued | None:
    """The first argument that may be None, if being so is all that is wrong with the call."""
    optional = [a for a in arguments if isinstance(a.value.type, OptionalType)]
    if not optional:
        return None
    present = [Argued(Value(strip_optional(a.value.type), a.value.node), a.span, a.keyword) for a in arguments]
    return optional[0] if isinstance(e.unit.resolver.resolve(schemas, present), Match) else None
