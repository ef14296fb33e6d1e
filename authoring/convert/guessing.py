"""The types of parameters that Python does not say: what the names, the uses and the gradients leave open is tried."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import islice, product

from .function_class import Converted

MOST = 200
"""Combinations that are tried."""
_BY_NAME = (
    (re.compile(r"mask|idx|index|indices|target|label|lengths|cu_seqlens|offsets"), ("Tensor",)),
    (re.compile(r"shape|sizes?$|dims$"), ("List[int]", "int")),
    (
        re.compile(r"dim|axis|^n$|num|count|group|stride|padding|dilation|kernel|steps|^k$|size|length|level"),
        ("int", "List[int]"),
    ),
    (re.compile(r"inplace|training|train|flag|^is_|^use_|keepdim|causal|normalize|^has_|affine|bias$"), ("bool",)),
    (re.compile(r"mode|reduction|reduce|activation|equation"), ("str",)),
)
_REST = ("float", "int", "bool", "List[int]", "str", "List[Tensor]")


def candidate_types(found: Converted, *, plain: bool = False) -> Iterator[dict[str, str]]:
    """Types for the parameters that have none, the likeliest first; nothing stands for a tensor.

    Of a plain function, which no Function is and nobody compiled, nothing says which of them have a gradient.
    """
    if found.definition.type_comment:
        # A comment says all of them.
        yield {}
        return
    arguments = found.definition.args
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [a.arg for a in positional[len(positional) - len(arguments.defaults) :]]
    defaults += [a.arg for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None]
    open_ = [a.arg for a in (*positional, *arguments.kwonlyargs) if a.annotation is None and a.arg not in defaults]
    choices = [list(_choices(found, name, plain)) for name in open_]
    for chosen in islice(product(*choices), MOST):
        yield {name: type for name, type in zip(open_, chosen, strict=True) if type != "Tensor"}


def _choices(found: Converted, name: str, plain: bool) -> Iterator[str]:
    optional = _is_asked_for_none(found.definition, name)
    whole = "Optional[Tensor]" if optional else "Tensor"
    if name in found.saved:
        yield whole
        return
    if name not in found.without_gradient:
        yield whole
        yield "List[Tensor]"
        yield from _REST[:-1] if plain else ()
        return
    known = _BY_NAME[0][0].search(name) is not None
    liked = next((types for pattern, types in _BY_NAME if pattern.search(name)), ())
    ordered = [whole, *_REST] if known or _is_used_as_tensor(found.definition, name) else [*liked, *_REST, whole]
    yield from dict.fromkeys(ordered)


def _is_asked_for_none(definition: ast.FunctionDef, name: str) -> bool:
    for node in ast.walk(definition):
        match node:
            case ast.Compare(left=ast.Name(id=asked), comparators=[ast.Constant(value=None)]) if asked == name:
                return True
    return False


def _is_used_as_tensor(definition: ast.FunctionDef, name: str) -> bool:
    """Whether something is asked of it that only a tensor has."""
    for node in ast.walk(definition):
        match node:
            case ast.Attribute(value=ast.Name(id=used)) if used == name:
                return True
    return False
