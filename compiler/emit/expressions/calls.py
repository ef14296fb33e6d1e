"""Calls: ops by function, method or module path; functions of the unit; Python's builtins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from ....lang import ast
from ....lang.diagnostics import Abort, did_you_mean
from ....lang.light_dataclasses import replace
from ....lang.trampoline import Walk
from ...ir.graph import Callee
from ...ir.node import Value
from ...ops.registry import OPS
from ...spelling.advice import (
    for_attribute,
    for_function,
    for_function_elsewhere,
    for_member,
    for_module,
    for_name,
)
from ...spelling.functions import FUNCTIONS_ONLY
from ...spelling.in_place import writes
from ...spelling.names import BUILTINS, METHOD_ATTRIBUTES, MODULES, OWN, PLAIN_TOO, names_in_module, op_name
from ...spelling.overloads import Argued, takes_sizes
from ...types.types import (
    BOOL,
    FLOAT,
    INT,
    NUMBER,
    NUMBERS,
    STR,
    ListType,
    TupleType,
    Type,
    is_tensor,
    may_be_none,
)
from ..annotations import dotted_name, resolve_type
from ..emitter import Emitter, Evaluated, InnerCall, described
from ..outside import RecordType
from ..resolve import (
    emit_arguments,
    emit_function_call,
    emit_record,
    emit_replaced,
    emit_resolved,
    with_float_base,
)
from ..scopes import InnerFunction
from ..spellings import (
    SYMBOLS,
    asks_in_place,
    functional_arguments,
    indices_spelling,
    meaningful,
    order_of_labels,
    symbol_for,
    with_dropout,
    with_keywords,
    with_receiver,
)
from ..stores import LIST_MUTATIONS, emit_update, emit_write
from .comprehensions import emit_decision
from .conditions import emit_bool
from .generators import take_tuples_for_lists, through_elements, with_lists
from .keyed import KEYED, emit_keyed, without_key
from .lambdas import emit_lambda_call
from .mutation import emit_mutation
from .operators import emit_binary
from .outside import called_outside
from .strings import emit_format, emit_print, emit_warn

OVER_ROWS = {"sum": "sum_rows", "any": "_any_row", "all": "_all_rows"}
"""What they are of a tensor, over whose first dimension Python goes."""
OVER_TENSORS = {"sum": "sum_tensors"}
"""What they are of a list or a tuple of tensors."""

_OF_NUMBERS = {
    "max": "`torch.maximum(x, y)` of two tensors, `torch.max(x)` of one, `torch.clamp(x, min=…)` beside a number",
    "min": "`torch.minimum(x, y)` of two tensors, `torch.min(x)` of one, `torch.clamp(x, max=…)` beside a number",
}
"""Python's functions that choose by comparing, which tensors do not decide as a user means it, and torch's instead."""


def emit_call(e: Emitter, node: ast.Call) -> Walk:
    node = with_lists(e, node)
    record = e.outside(dotted_name(node.function))
    if isinstance(record, RecordType):
        return emit_record(e, node, record, (yield emit_arguments(e, node)))
    found = called_outside(e, node, dotted_name(node.function))
    if isinstance(found, Callee):
        arguments = yield emit_arguments(e, node)
        return emit_function_call(e, node, found.schema, arguments)
    node = found or node
    form = e.form(node)
    if form is not None:
        return (yield form(e, node))
    if e.test(node) is not None:
        return (yield emit_bool(e, node))
    function = node.function
    if isinstance(function, ast.Name):
        return (yield _call_name(e, node, function))
    if isinstance(function, ast.Lambda):
        return (yield emit_lambda_call(e, node, function))
    if not isinstance(function, ast.Attribute):
        called = function.function if isinstance(function, ast.Call) else function
        notes = for_module(dotted_name(called)) or ("only names and methods are called",)
        raise e.fail("E204", "this expression is not a function", function.span, *notes)
    module = dotted_name(function.value)
    root = module.partition(".")[0]
    if module and not e.is_value(root):
        return (yield _call_module(e, node, function, module, root))
    return (yield _call_method(e, node, function))


def _call_name(e: Emitter, node: ast.Call, function: ast.Name) -> Walk:
    name = function.id
    binding = e.frame.lookup(name)
    if isinstance(binding, InnerFunction):
        return (yield e.unit.handlers.expressions[InnerCall](e, InnerCall(node.span, node, binding)))
    if binding is not None:
        value = e.lookup(name, function.span)
        if value in e.calls.closures:
            return (
                yield e.unit.handlers.expressions[InnerCall](e, InnerCall(node.span, node, e.calls.closures[value]))
            )
        return _refuse_value(e, value, function)
    if e.is_open_closure(name):
        raise e.fail("E404", f"closure '{name}' calls itself", function.span, "write a loop instead")
    if name in e.unit.names and not (e.unit.builtins_first and name in BUILTINS):
        callee = yield e.unit.emit(name, function.span)
        arguments = yield emit_arguments(e, node)
        return emit_function_call(e, node, callee.schema, arguments)
    if name in ("range", "zip", "enumerate", "reversed"):
        note = f"write `for … in {name}(…)`, or `list({name}(…))`"
        raise e.fail("E102", f"{name}() outside a `for`", node.span, note)
    if name in ("any", "all") and len(node.args) == 1 and isinstance(node.args[0], ast.GeneratorExp):
        return (yield emit_decision(e, name, node.args[0]))
    if name in KEYED:
        key, node = without_key(node)
        if key is not None:
            return (yield emit_keyed(e, node, name, key))
    if name in BUILTINS:
        arguments = yield emit_arguments(e, node)
        if name in ("any", "all") and len(arguments) == 1 and _is_asked_one_by_one(arguments[0].value.type):
            return (yield emit_decision(e, name, through_elements(arguments[0])))
        if name in _OF_NUMBERS and len(arguments) == 1 and _needs_comparing(arguments[0].value.type):
            place = e.value("aten::_extreme_place", node, arguments[0].value, name == "max")
            return e.value("aten::__getitem__.t", node, arguments[0].value, place)
        if name == "print":
            return emit_print(e, node, arguments)
        if name in _OF_NUMBERS and any(is_tensor(argument.value.type) for argument in arguments):
            raise e.fail("E204", f"{name}() takes numbers, not a Tensor", node.span, f"write {_OF_NUMBERS[name]}")
        arguments = with_float_base(e, node, arguments) if name == "pow" else arguments
        if name in _OF_NUMBERS and len(arguments) > 1:
            return (yield _chosen(e, node, name, arguments))
        return emit_resolved(e, node, _op_of_builtin(name, arguments), arguments, f"{name}()")
    if name == "uninitialized" and len(node.args) == 1 and not node.keywords:
        # What no path reads: printed source has it where a branch leaves a variable unset.
        return e.at(node).uninitialized(resolve_type(node.args[0], e.diagnostics, e.unit.environment))
    if name in e.unit.ignored:
        note = "remove the decorator, so that the function is compiled too"
        raise e.fail("E102", f"'{name}' is not compiled: @{e.unit.ignored[name]}", function.span, note)
    if name in e.unit.broken:
        raise Abort(name)
    known = [*dict.fromkeys(e.frame.names()), *e.unit.names, *BUILTINS, "torch"]
    notes = for_name(name) or did_you_mean(name, known)
    if not notes and OPS.overloads(name):
        notes = (f"did you mean `torch.{name}`?",)
    raise e.fail("E201", f"undefined name '{name}'", function.span, *notes, *e.unit.hints)


def _chosen(e: Emitter, node: ast.Call, name: str, arguments: Sequence[Argued]) -> Walk:
    """`min(a, b, …)`, two at a time; of what is no number, the object that comparing chooses."""
    chosen, *others = arguments
    for other in others:
        if other.value.type == STR or isinstance(other.value.type, ListType | TupleType):
            left, right = (cast(ast.Expr, Evaluated(a.span, a.value)) for a in (other, chosen))
            test = ast.Compare(node.span, left, ("<" if name == "min" else ">",), (right,))
            value = yield e.expression(ast.Conditional(node.span, test, left, right))
        else:
            value = emit_resolved(e, node, name, [chosen, other], f"{name}()")
        chosen = Argued(value, node.span)
    return chosen.value


def _op_of_builtin(name: str, arguments: Sequence[Argued]) -> str:
    """What one of Python's functions is, by what it goes over."""
    type = arguments[0].value.type if arguments else None
    if type is not None and is_tensor(type):
        return OVER_ROWS.get(name, BUILTINS[name])
    return OVER_TENSORS.get(name, BUILTINS[name]) if type is not None and _are_tensors(type) else BUILTINS[name]


def _are_tensors(type: Type) -> bool:
    """Whether it is a list or a tuple of tensors."""
    items = type.elements if isinstance(type, TupleType) else (type.element,) if isinstance(type, ListType) else ()
    return bool(items) and all(map(is_tensor, items))


def _is_asked_one_by_one(type: Type) -> bool:
    """Whether what it holds are no numbers, of which there are ops."""
    return _are_tensors(type) or type == STR or _needs_comparing(type)


def _needs_comparing(type: Type) -> bool:
    """Whether it is a list of something else than numbers of one kind, for which there are ops."""
    return isinstance(type, ListType) and type.element not in (BOOL, INT, FLOAT)


def _refuse_value(e: Emitter, value: Value, function: ast.Name) -> Value:
    note = "functions are called by their names, and not passed: say which by a str, and write an `if`"
    raise e.fail("E204", f"'{function.id}' is {described(value.type)}, not a function", function.span, note)


def _call_module(e: Emitter, node: ast.Call, function: ast.Attribute, module: str, root: str) -> Walk:
    if module not in MODULES:
        if root not in {m.partition(".")[0] for m in MODULES}:
            e.lookup(root, _root(function).span, function.name)
        notes = for_module(f"{module}.{function.name}") or did_you_mean(module, MODULES)
        raise e.fail("E202", f"unknown module '{module}'", function.value.span, *notes)
    name = op_name(module, function.name)
    if name is None and function.name.endswith("_") and writes(module, function.name[:-1]):
        # `F.relu_(y)`: the object is the first argument, and what the call gives.
        name = op_name(module, function.name[:-1])
        return emit_in_place(e, node, name or "", (yield emit_arguments(e, node)), f"{module}.{function.name}")
    if name is None:
        notes = (
            for_module(f"{module}.{function.name}")
            or for_function_elsewhere(module, function.name)
            or did_you_mean(function.name, names_in_module(module))
        )
        raise e.fail("E202", f"unknown operator '{module}.{function.name}'", function.name_span, *notes)
    if module == "warnings":
        return (yield emit_warn(e, node))
    take_tuples_for_lists(e, node, name)
    arguments = yield emit_arguments(e, node, are_sizes=_takes_sizes(name, is_method=False))
    if MODULES[module] in PLAIN_TOO and not e.unit.builtins_first:
        arguments = functional_arguments(e, function.name, arguments)
        if asks_in_place(e, function.name, arguments):
            arguments = [a for a in arguments if a.keyword != "inplace"]
            return emit_in_place(e, node, name, arguments, f"{module}.{function.name}")
    if name == "tensor" and arguments and is_tensor(arguments[0].value.type):
        return _copied(e, node, arguments)
    if MODULES[module] in PLAIN_TOO:
        name = with_dropout(name, arguments)
    return emit_named(e, node, name, arguments, f"{module}.{function.name}")


def emit_named(e: Emitter, node: ast.Call, name: str, arguments: Sequence[Argued], what: str) -> Value:
    """A call of an op as torch's Python function."""
    symbol = symbol_for(name, arguments)
    if symbol is not None:
        return emit_binary(e, node, symbol, *arguments)
    if name in SYMBOLS and arguments and all(a.value.type in NUMBERS for a in arguments[:2]):
        # Torch gives a tensor of two numbers, too.
        first = arguments[0]
        arguments = [Argued(_as_tensor(e, node, first.value), first.span, first.keyword), *arguments[1:]]
    if arguments and arguments[0].value.type in NUMBERS and _takes_tensors_only(name):
        # `torch.erf(2.0)` is `math.erf(2.0)`, as in TorchScript.
        name = f"math_{name}" if OPS.overloads(f"math_{name}") else name
    order = order_of_labels(arguments) if name == "einsum" else None
    if order is not None:
        # As torch has it, that is a view; so is what it means when it runs.
        return e.at(node).op("aten::permute", *order)
    arguments = with_keywords(name, arguments)
    name = indices_spelling(name, arguments)
    return emit_resolved(e, node, name, meaningful(name, arguments), what)


def _copied(e: Emitter, node: ast.Call, arguments: Sequence[Argued]) -> Value:
    """`torch.tensor(x)` of a tensor: a copy without its gradient."""
    source, *options = meaningful("tensor", arguments)
    made = emit_resolved(e, node, "detach", [source], "torch.tensor")
    if options:
        made = emit_resolved(e, node, "to", [Argued(made, source.span), *options], "torch.tensor")
    return emit_resolved(e, node, "clone", [Argued(made, source.span)], "torch.tensor")


def emit_in_place(e: Emitter, node: ast.Call, name: str, arguments: Sequence[Argued], what: str) -> Value:
    """A call that writes what it computes into its first argument, and gives that."""
    given = [a for a in arguments if a.keyword in (None, "input", "self")]
    if not given or not is_tensor(given[0].value.type):
        raise e.fail("E203", f"{what} writes into a tensor, which is its first argument", node.span)
    emit_update(e, node, given[0].value, emit_named(e, node, name, arguments, what), f"`{what}`")
    return given[0].value


def _as_tensor(e: Emitter, node: ast.Syntax, number: Value) -> Value:
    kind = number.type if number.type in (BOOL, INT, FLOAT) else NUMBER
    return e.at(node).op(f"aten::tensor.{kind}", number)


def _takes_tensors_only(name: str) -> bool:
    return all(op.schema.arguments and is_tensor(op.schema.arguments[0].type) for op in OPS.overloads(name))


def _takes_sizes(name: str, *, is_method: bool) -> bool:
    return any(takes_sizes(op.schema, is_method=is_method) for op in OPS.overloads(name))


def _root(node: ast.Expr) -> ast.Expr:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node


def _methods() -> list[str]:
    return [name for name in OPS.names() if name not in OWN | FUNCTIONS_ONLY.keys() and not name.startswith("_")]


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
    if is_tensor(receiver.type):
        take_tuples_for_lists(e, node, name)
    key, unkeyed = without_key(node) if name == "sort" and isinstance(receiver.type, ListType) else (None, node)
    if key is not None:
        listed = replace(unkeyed, args=(cast(ast.Expr, Evaluated(subject.span, receiver)), *unkeyed.args))
        emit_write(e, node.span, receiver, (yield emit_keyed(e, listed, "sorted", key)), "`sort`")
        return e.at(node).constant(None)
    node = unkeyed
    are_sizes = is_tensor(receiver.type) and _takes_sizes(name, is_method=True)
    arguments = yield emit_arguments(e, node, are_sizes=are_sizes)
    if is_tensor(receiver.type) and name.endswith("_") and not name.endswith("__") and not OPS.overloads(name):
        return emit_mutation(e, node, function, subject, arguments)
    if is_tensor(receiver.type) and name == "tolist" and not arguments:
        return _as_python(e, node, function, receiver)
    if receiver.type == STR and name == "format":
        return emit_format(e, node, subject, arguments)
    if receiver.type == STR:
        return _call_of_string(e, node, function, [subject, *arguments])
    if isinstance(receiver.type, ListType) and name in LIST_MUTATIONS:
        return emit_mutation(e, node, function, subject, arguments)
    fields = receiver.type.names if isinstance(receiver.type, TupleType) else ()
    if fields and name == "_replace":
        return emit_replaced(e, node, subject, arguments)
    is_attribute = is_tensor(receiver.type) and name in METHOD_ATTRIBUTES
    if not OPS.overloads(name) or name in OWN or name in FUNCTIONS_ONLY or is_attribute:
        notes = for_attribute(name) or for_function(name) or for_member(name) or did_you_mean(name, _methods())
        notes = (f"its elements are {', '.join(fields)}",) if fields else notes
        raise e.fail("E202", f"{described(receiver.type)} has no method '{name}'", function.name_span, *notes)
    if receiver.type in NUMBERS:
        kind = described(receiver.type)
        raise e.fail("E202", f"{kind} has no method '{name}'", function.name_span, f"write `torch.{name}(…)`")
    name = indices_spelling(name, arguments)
    arguments = with_receiver(name, subject, meaningful(name, arguments))
    return emit_resolved(e, node, name, arguments, f"method '{name}'")


def _as_python(e: Emitter, node: ast.Call, function: ast.Attribute, tensor: Value) -> Value:
    """`x.tolist()`: whether it is a number or lists of numbers, and of how many dimensions, its type says."""
    type, depth = e.wanted.get(id(node)), 0
    if type is None:
        note = "write its type: `values: List[float] = x.tolist()`, or `torch.jit.annotate(List[float], x.tolist())`"
        raise e.fail("E301", "what tolist() gives depends on the tensor", function.name_span, note)
    element = type
    while isinstance(element, ListType):
        element, depth = element.element, depth + 1
    op = f"aten::tolist.{element}_{depth}"
    if element not in (BOOL, INT, FLOAT) or not any(o.schema.full_name == op for o in OPS.overloads("tolist")):
        note = "it gives a float, int or bool, or lists of them, of up to six dimensions"
        raise e.fail("E301", f"tolist() does not give {described(type)}", function.name_span, note)
    return e.value(op, node, tensor)


def _call_of_string(e: Emitter, node: ast.Call, function: ast.Attribute, arguments: Sequence[Argued]) -> Value:
    prefix = MODULES["str"]
    if not OPS.overloads(f"{prefix}{function.name}"):
        notes = did_you_mean(function.name, [n.removeprefix(prefix) for n in OPS.names() if n.startswith(prefix)])
        raise e.fail("E202", f"a str has no method '{function.name}'", function.name_span, *notes)
    return emit_resolved(e, node, f"{prefix}{function.name}", arguments, f"method '{function.name}'")
