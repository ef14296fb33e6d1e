"""Expressions of the language, compiled for operands at hand: `x.sum(1)` on a Tensor and an int.

An operator, a method, a subscript or a function is spelled as source would spell it and compiled once for each
combination of types, so that it means what it means there: overloads, conversions, errors and all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from threading import RLock
from typing import Any

import numpy as np

from ...lang.diagnostics import CompileError
from ...lang.source import Source
from ..execution.compiled import Compiled, compile_source
from ..failures.failure import RuntimeFailure
from ..values.arrays import dtype_code, is_torch
from ..values.containers import MAX_DEPTH, is_too_deep
from ..values.recorded import Recorded, taker_of
from .python_source import PythonSource

MAX_SNIPPETS = 4096
"""Compiled expressions that are kept."""
SNIPPET = "snippet"
"""The name of each."""
_FILENAME = "<operation>"
_NUMBERS = {bool: "bool", int: "int", float: "float"}
_COMPILING = RLock()


def operate(template: str, *operands: Any) -> Any:
    """The value of an expression in which `{}` stands for each operand in turn."""
    return _run(template, operands)


def call_method(name: str, receiver: Any, *args: Any, **kwargs: Any) -> Any:
    """`receiver.name(…)`."""
    return _run(f"{{}}.{name}({_slots(len(args), kwargs)})", (receiver, *args, *kwargs.values()))


def call_operator(name: str, *args: Any, made: type[Compiled] = Compiled, **kwargs: Any) -> Any:
    """`torch.name(…)`, as a function of the class `made`, which says what a call may take."""
    return _run(f"torch.{name}({_slots(len(args), kwargs)})", (*args, *kwargs.values()), made)


def subscript(base: Any, index: Any) -> Any:
    """`base[index]`."""
    items = index if isinstance(index, tuple) else (index,)
    texts: list[str] = []
    operands: list[Any] = [base]
    for item in items:
        if item is Ellipsis:
            texts.append("...")
        elif isinstance(item, slice):
            bounds = (item.start, item.stop, item.step)
            texts.append(":".join("" if bound is None else "{}" for bound in bounds).removesuffix(":"))
            operands += [bound for bound in bounds if bound is not None]
        else:
            texts.append("{}")
            operands.append(_as_index(item) if isinstance(item, list) else item)
    return _run(f"{{}}[{', '.join(texts)}]", operands)


def _as_index(items: list[Any]) -> Any:
    """A list in a subscript as the array that it stands for."""
    try:
        found = np.asarray(items if items else np.zeros(0, np.int64))
    except (TypeError, ValueError, RuntimeError):
        found = None
    if found is None or found.dtype.kind not in "biu":
        raise TypeError("a list in a subscript holds ints or bools, as many in each: pass anything else as an array")
    return found


def _slots(count: int, kwargs: Mapping[str, Any]) -> str:
    return ", ".join(["{}"] * count + [f"{name}={{}}" for name in kwargs])


def _run(template: str, operands: Sequence[Any], made: type[Compiled] = Compiled) -> Any:
    spelled: list[str] = []
    values: list[Any] = []
    for operand in operands:
        spelled.append(_spell(operand, values))
    taker = taker_of(operands)
    try:
        function = _compiled(template, tuple(spelled), made)  # type: ignore[arg-type] # a class is hashable
        return function(*values) if taker is None else taker.call_operation(function, tuple(values))
    except RuntimeFailure as failure:
        raise _in_terms_of_the_caller(failure, template) from failure.__cause__


# --- operands ---


def _spell(operand: Any, values: list[Any]) -> str:
    """What stands for an operand: the type of the parameter that takes it (`values` gains it), or a text in quotes."""
    simple = _simple(operand)
    if simple is not None:
        kind, value = simple
        values.append(value)
        return kind
    if operand is None:
        return "'None"
    if isinstance(operand, list | tuple):
        if is_too_deep(operand):
            raise TypeError(f"lists are at most {MAX_DEPTH} levels deep, and not in themselves")
        return _spell_list(operand, values)
    code = dtype_code(operand)
    if code is None:
        kind = type(operand).__name__
        raise TypeError(f"a value of type {kind} is no operand: arrays, numbers, strings and lists of them are")
    values.append(code)
    return "int"


def _simple(operand: Any) -> tuple[str, Any] | None:
    """The type and value of what is neither a list nor a dtype nor None."""
    if isinstance(operand, Recorded):
        return operand.kind, operand
    kind = _NUMBERS.get(type(operand))
    if kind is not None:
        return kind, operand
    if isinstance(operand, np.ndarray) or is_torch(operand):
        return "Tensor", operand
    if isinstance(operand, str):
        return "str", str(operand)
    if isinstance(operand, np.generic):
        number = operand.item()
        kind = _NUMBERS.get(type(number))
        return None if kind is None else (kind, number)
    return None


def _spell_list(items: Sequence[Any], values: list[Any]) -> str:
    """A parameter for a list of numbers or of tensors, a list display for any other."""
    known = [_simple(item) for item in items]
    kinds = {"" if item is None else item[0] for item in known}
    if len(kinds) == 1 and "" not in kinds and (kinds == {"Tensor"} or taker_of(items) is None):
        values.append([item[1] for item in known if item is not None])
        return f"List[{kinds.pop()}]"
    return f"'[{', '.join(_nested(item, values) for item in items)}]"


def _nested(item: Any, values: list[Any]) -> str:
    """An element of a display: a text as it is, or a type in angle brackets."""
    spelled = _spell(item, values)
    return spelled[1:] if spelled.startswith("'") else f"<{spelled}>"


# --- compilation ---


@lru_cache(maxsize=MAX_SNIPPETS)
def _compiled(template: str, spelled: tuple[str, ...], made: Any) -> Compiled:
    """The function of the parameters that the operands make."""
    parameters: list[str] = []

    def parameter(type: str) -> str:
        parameters.append(f"a{len(parameters)}: {type}")
        return f"a{len(parameters) - 1}"

    texts = [_expanded(s[1:], parameter) if s.startswith("'") else parameter(s) for s in spelled]
    expression = template.format(*texts)
    text = f"def {SNIPPET}({', '.join(parameters)}):\n    return {expression}\n"
    try:
        with _COMPILING:
            callee, _ = compile_source(Source(text, _FILENAME))[SNIPPET]
            return made(callee)
    except CompileError as error:
        first = error.diagnostics[0]
        raise RuntimeFailure("R001", _operation(template), first.message, span=first.span, notes=first.notes) from None


def _in_terms_of_the_caller(failure: RuntimeFailure, template: str) -> RuntimeFailure:
    """The failure with the place in the user's code where there is one, and without the names that are only here."""
    if failure.span.source.filename != _FILENAME:
        return failure
    span = PythonSource().calling()
    op, message = failure.op, failure.message
    if op == SNIPPET:
        op = _operation(template)
        message = message.removeprefix(f"argument '{failure.argument}': ")
    return RuntimeFailure(failure.code, op, message, span=span if span.text else failure.span, notes=failure.notes)


def _expanded(text: str, parameter: Callable[[str], str]) -> str:
    """A list display with a parameter for each type in angle brackets."""
    head, *rest = text.split("<")
    for part in rest:
        type, _, tail = part.partition(">")
        head += parameter(type) + tail
    return head


def _operation(template: str) -> str:
    return template.removeprefix("torch.").replace("{}.", "").partition("(")[0].replace("{}", "_")
