"""What editors and type checkers read of a unit: a stub with a signature for each function.

def rms_norm(x: _Tensor, weight: _Tensor, eps: float = 1e-06) -> _Tensor: ...
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping

from ...compiler.types.types import ListType, OptionalType, TupleType, Type, is_tensor
from ...runtime.face.function import Function
from ...runtime.face.units.unit import CompilationUnit

_NAMES = {"int": "int", "float": "float", "bool": "bool", "str": "str", "None": "None", "number": "int | float | bool"}
_HEAD = """\
# The functions of {title}. Written by `gradscript stubs`.

from typing import Any

_Tensor = Any  # a torch.Tensor, a numpy.ndarray, or whatever the arguments are
"""


def stubs_of(unit: CompilationUnit | Mapping[str, Function], title: str) -> str:
    """The text of a stub, in which each function of a unit, or of those by name, has its parameters and types."""
    functions = unit.functions if isinstance(unit, CompilationUnit) else unit
    parts = [_HEAD.format(title=title)]
    parts += [stub_of(function) for function in functions.values()]
    return "\n".join(parts)


def stub_of(function: Function) -> str:
    """One function: what `inspect.signature` gives of it, in types of Python."""
    arguments = {a.name: a for a in function.schema.arguments}
    texts: list[str] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in texts:
            texts.append("*")
        default = "" if parameter.default is parameter.empty else f" = {_literal(parameter.default)}"
        texts.append(f"{name}: {python_name(arguments[name].type)}{default}")
    returns = [python_name(result.type) for result in function.schema.returns]
    returned = "None" if not returns else returns[0] if len(returns) == 1 else f"tuple[{', '.join(returns)}]"
    head = f"def {function.name}({', '.join(texts)}) -> {returned}:"
    doc = function.__doc__
    if not doc:
        return f"{head} ...\n"
    return f'{head}\n    """{_plain(doc.strip())}"""\n'


def python_name(type: Type) -> str:
    """A type as annotations have it. Types are shallow, so this recurses."""
    if is_tensor(type):
        return "_Tensor"
    if isinstance(type, OptionalType):
        return f"{python_name(type.element)} | None"
    if isinstance(type, ListType):
        return f"list[{python_name(type.element)}]"
    if isinstance(type, TupleType):
        inner = _joined(map(python_name, type.elements))
        return f"tuple[{inner or '()'}]"
    return _NAMES.get(str(type), "Any")


def _literal(value: object) -> str:
    """A default as source; what is no literal, such as an infinity, is left open."""
    text = repr(value)
    return "..." if "inf" in text or "nan" in text else text


def _joined(texts: Iterable[str]) -> str:
    return ", ".join(texts)


def _plain(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
