"""What editors and type checkers read of a unit: a stub with a signature for each function.

def rms_norm(x: _Tensor, weight: _Tensor, eps: float = 1e-06) -> _Tensor: ...
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping

from ...compiler.codegen.wrapping import in_docstring
from ...compiler.types.types import ListType, OptionalType, TupleType, Type, is_tensor
from ...runtime.face.function import Function
from ...runtime.face.units.unit import CompilationUnit

_NAMES = {"int": "int", "float": "float", "bool": "bool", "str": "str", "None": "None", "number": "int | float"}
_BUILTINS = ("int", "float", "bool", "str", "list", "tuple")
_HEAD = """\
# The functions of {title}. Written by `gradscript stubs`.

{imports}

_Tensor = {any}  # a torch.Tensor, a numpy.ndarray, or whatever the arguments are
"""
_WORD = re.compile(r"[A-Za-z_]\w*")


def stubs_of(unit: CompilationUnit | Mapping[str, Function], title: str) -> str:
    """The text of a stub, in which each function of a unit, or of those by name, has its parameters and types."""
    functions = unit.functions if isinstance(unit, CompilationUnit) else unit
    called = _names_beside(functions)
    imports = ["import builtins as _builtins"] if any("." in name for name in called.values()) else []
    imports.append("from typing import Any" if called["Any"] == "Any" else f"from typing import Any as {called['Any']}")
    head = _HEAD.format(title=title, imports="\n".join(imports), any=called["Any"])
    parts = [head.replace("_Tensor =", f"{called['_Tensor']} =")]
    parts += [stub_of(function, called) for function in functions.values()]
    return "\n".join(parts)


def _names_beside(functions: Iterable[str]) -> dict[str, str]:
    """What types are called in a stub beside functions of these names, which may be those of types themselves."""
    taken = set(functions)
    called = {name: f"_builtins.{name}" if name in taken else name for name in _BUILTINS}
    for name in ("Any", "_Tensor"):
        free = name
        while free in taken:
            free = f"_{free}"
        called[name] = free
    return called


def stub_of(function: Function, called: Mapping[str, str]) -> str:
    """One function: what `inspect.signature` gives of it, in types of Python, as they are called in its stub."""

    def written(type: Type) -> str:
        return _WORD.sub(lambda word: called.get(word[0], word[0]), python_name(type))

    arguments = {a.name: a for a in function.schema.arguments}
    texts: list[str] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in texts:
            texts.append("*")
        default = "" if parameter.default is parameter.empty else f" = {_literal(parameter.default)}"
        texts.append(f"{name}: {written(arguments[name].type)}{default}")
    returns = [written(result.type) for result in function.schema.returns]
    several = f"{called['tuple']}[{', '.join(returns)}]"
    returned = "None" if not returns else returns[0] if len(returns) == 1 else several
    head = f"def {function.name}({', '.join(texts)}) -> {returned}:"
    doc = function.__doc__
    if not doc:
        return f"{head} ...\n"
    return f'{head}\n    """{in_docstring(doc.strip())}"""\n'


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
