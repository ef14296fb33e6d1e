"""The signatures of torch's Python functions, read from the type stubs that torch installs.

for signature in signatures("_C/_VariableFunctions.pyi"):       # torch.…
    for arguments in signature.calls():                         # "x, dim=1, keepdim=True"
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch

ROOT = Path(torch.__file__).parent

VALUES: dict[str, tuple[str, ...]] = {
    "Tensor": ("x",),
    "None": ("None",),
    **dict.fromkeys(("_int", "SymInt", "int"), ("1",)),
    **dict.fromkeys(("_float", "float"), ("0.5",)),
    "Number": ("2", "0.5"),
    **dict.fromkeys(("_bool", "bool"), ("True",)),
    **dict.fromkeys(("_size", "list[int]", "Size", "Sequence[_int", "Sequence[_int]"), ("[1, 1]", "(1, 1)")),
    **dict.fromkeys(("_size_1_t", "_size_2_t", "_size_3_t"), ("1",)),
    **dict.fromkeys(("_dtype", "dtype"), ("torch.float64",)),
    "str": ('"none"',),
    **dict.fromkeys(("list[Tensor]", "tuple[Tensor, ...]", "Sequence[Tensor]"), ("[x, x]", "(x, x)")),
    **dict.fromkeys(("Sequence[_float]", "Sequence[float]", "list[float]"), ("[0.5, 0.5]",)),
    **dict.fromkeys(("_complex", "SymFloat", "SymInt]", "SymBool"), ()),
}
"""From a type of the stubs to arguments of it; nothing for a type that another one stands for."""

LEFT_OUT = frozenset(
    ("out", "generator", "memory_format", "layout", "device", "pin_memory", "requires_grad", "non_blocking", "names")
)
"""Parameters that are left at their default: no place for a result, no randomness, one device and layout."""


@dataclass(frozen=True)
class Parameter:
    name: str
    annotation: str
    required: bool
    kind: str
    """"positional", "variadic" or "keyword"."""

    def values(self) -> list[str]:
        """Arguments of each type that it may have; KeyError for a type that the language lacks."""
        parts = self.annotation.replace("builtins.", "").replace("torch.", "").split(" | ")
        if self.required and "list[Tensor]" in parts:
            # Some stubs are wider than torch, which takes no None there.
            parts = [part for part in parts if part != "None"]
        return list(dict.fromkeys(value for part in parts for value in VALUES[part]))


@dataclass(frozen=True)
class Signature:
    name: str
    parameters: tuple[Parameter, ...]

    def calls(self, is_method: bool = False) -> Iterator[str]:
        """Argument lists: by position, by name, the required ones alone, with each type that a parameter may have."""
        parameters = [p for p in self.parameters[int(is_method) :] if p.name not in LEFT_OUT]
        choices = [p.values() for p in parameters]
        first = [values[0] for values in choices]
        pairs = list(zip(parameters, first, strict=True))
        yield _arguments([(p, v) for p, v in pairs if p.required], by_name=False, is_method=is_method)
        for i, values in enumerate(choices):
            for value in values:
                chosen = [(p, value if p is parameters[i] else v) for p, v in pairs]
                yield _arguments(chosen, by_name=False, is_method=is_method)
                yield _arguments(chosen, by_name=True, is_method=is_method)


def _arguments(pairs: list[tuple[Parameter, str]], *, by_name: bool, is_method: bool) -> str:
    texts = []
    for i, (parameter, value) in enumerate(pairs):
        named = parameter.kind == "keyword" or (by_name and parameter.kind == "positional" and (i > 0 or is_method))
        texts.append(f"{parameter.name}={value}" if named else value)
    return ", ".join(texts)


@cache
def signatures(path: str, of_class: str | None = None) -> tuple[Signature, ...]:
    """Every signature of a stub file, or of one of its classes."""
    body = ast.parse((ROOT / path).read_text(encoding="utf-8")).body
    if of_class is not None:
        body = next(node for node in body if isinstance(node, ast.ClassDef) and node.name == of_class).body
    return tuple(_signature(node) for node in body if isinstance(node, ast.FunctionDef))


def _signature(node: ast.FunctionDef) -> Signature:
    arguments = node.args
    positional = arguments.posonlyargs + arguments.args
    required = len(positional) - len(arguments.defaults)
    found = [_parameter(a, i < required, "positional") for i, a in enumerate(positional)]
    if arguments.vararg is not None:
        found.append(_parameter(arguments.vararg, True, "variadic"))
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    found += [_parameter(a, default is None, "keyword") for a, default in pairs]
    return Signature(node.name, tuple(found))


def _parameter(argument: ast.arg, required: bool, kind: str) -> Parameter:
    annotation = ast.unparse(argument.annotation) if argument.annotation is not None else ""
    return Parameter(argument.arg, annotation, required, kind)
