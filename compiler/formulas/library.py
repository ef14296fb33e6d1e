"""The library of formulas: op schema → what differentiates it.

Formulas are functions in `stdlib_grads/`, named as the op they belong to; `_1`, `_2`, … tell overloads
apart, and the parameters' types say which overload. They load one by one: a file is scanned for its `def` lines,
and a function is compiled when its op is first differentiated. One without a backward is the op's definition in
terms of others: it is differentiated through.

A formula of a generic op of lists is written for a List[Tensor]. For lists of lists it is compiled again, with lists
where its parameters say Tensor, under a name with `[]` behind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from threading import RLock

from ...lang import ast
from ...lang.diagnostics import Abort, Diagnostics
from ...lang.parser import parse
from ...lang.source import Source
from ...lang.trampoline import run
from ...stdlib_grads import formula_files
from ..emit.statements.parameters import parameters_of
from ..emit.unit import SourceUnit
from ..ir.graph import Callee, GradPair, Graph
from ..ir.signature import bind
from ..passes.containers.lower_tuples import lower_tuples
from ..passes.inline_functions import inline_functions
from ..types.schema import Argument, FunctionSchema
from ..types.types import TENSOR, ListType, OptionalType, Type, VariableType, is_tensor, strip_optional
from .lists import of_lists

EXAMPLES = "_examples"
"""What the name of a function ends in that returns arguments for another, of which no op is differentiated."""
_COMPILING = RLock()
"""One unit compiles all formulas, one at a time."""
_DEF = re.compile(r"\ndef (\w+)\(")
"""Told by what it begins with, which is looked for four times as fast as the beginnings of lines are."""
_OF_LISTS = "[]"


@cache
def _index() -> dict[str, str]:
    """The file that each function stands in, in order."""
    entries: dict[str, str] = {}
    for filename, text in formula_files().items():
        for name in _DEF.findall(f"\n{text}"):
            if name in entries:
                raise ValueError(f"formula {name} stands in {entries[name]} and in {filename}")
            entries[name] = filename
    return entries


@cache
def _by_base_name() -> dict[str, list[str]]:
    """The functions whose names are one name, or that with a number behind."""
    found: dict[str, list[str]] = {}
    for name in _index():
        base, _, number = name.rpartition("_")
        found.setdefault(base if number.isdigit() and base else name, []).append(name)
    return found


@cache
def definition_of(name: str) -> ast.FunctionDef:
    """The syntax of one function. Lines before it are blanked, not cut, so that its spans point into the file."""
    filename = _index()[name]
    text = formula_files()[filename]
    # From its `def` to the next one.
    start = f"\n{text}".index(f"\ndef {name}(")
    end = text.find("\ndef ", start) + 1 or len(text)
    blank = "\n" * text.count("\n", 0, start)
    diagnostics = Diagnostics()
    module = parse(Source(blank + text[start:end], filename, is_library=True), diagnostics)
    diagnostics.raise_if_any()
    return module.functions[0]


class _Definitions(Mapping[str, ast.FunctionDef]):
    """Every function of the library by name, parsed when asked for."""

    def __getitem__(self, name: str) -> ast.FunctionDef:
        written = name.rstrip("[]")
        return of_lists(definition_of(written), name.count(_OF_LISTS))

    def __contains__(self, name: object) -> bool:
        return name in _index()

    def __iter__(self) -> Iterator[str]:
        return iter(_index())

    def __len__(self) -> int:
        return len(_index())


@cache
def _unit() -> SourceUnit:
    return SourceUnit(_Definitions(), Diagnostics(), builtins_first=True)


@cache
def compile_formula(name: str) -> Callee:
    """One function of the library, compiled, with the helpers it calls inlined. CompileError for a bad formula.

    With `[]` behind its name, once or several times, it is for lists, or lists of lists, in the place of tensors.
    """
    with _COMPILING:
        return _compile(name)


def _compile(name: str) -> Callee:
    unit = _unit()
    found = unit.diagnostics.found
    try:
        callee: Callee = run(unit.emit(name, unit.names[name].name_span))
    except Abort:
        # One bad formula is not to spoil the others: its findings leave with it.
        failed = Diagnostics(list(found))
        found.clear()
        failed.raise_if_any()
        raise
    return closed_callee(callee)


def closed_callee(callee: Callee) -> Callee:
    """The function with what it calls inlined, so that a graph of any unit may call it."""
    pair = _closed_pair(callee.pair) if callee.pair is not None else None
    return Callee(callee.schema, _closed(callee.graph), pair)


def _closed_pair(pair: GradPair) -> GradPair:
    second = _closed_pair(pair.second) if pair.second is not None else None
    forward, backward = _closed(pair.forward), _closed(pair.backward)
    return GradPair(pair.schema, forward, backward, pair.context, pair.grad_outputs, second)


def _closed(graph: Graph) -> Graph:
    """A copy that calls no function, so that it may be copied into any other graph."""
    closed = graph.copy()
    inline_functions(closed)
    lower_tuples(closed)
    closed.functions = {}
    return closed


def formula_names(filename: str = "") -> list[str]:
    """Every function of the library, or of one of its files, helpers included and examples left out."""
    entries = _index().items()
    return [n for n, found_in in entries if not n.endswith(EXAMPLES) and filename in ("", found_in)]


def examples_of(name: str) -> Callee | None:
    """What returns arguments for a function of the library, where there is such a one."""
    return compile_formula(name + EXAMPLES) if name + EXAMPLES in _index() else None


def formulas_named(base_name: str) -> list[str]:
    """The functions that may be formulas of an op: its name, and that with a number behind."""
    by_number = [base_name] if base_name in _index() else []
    return list(dict.fromkeys([*_by_base_name().get(base_name, ()), *by_number]))


@cache
def formula_name(schema: FunctionSchema, prefix: str = "") -> str | None:
    """The function named as an op, behind `prefix`, whose parameters are the op's arguments; None if there is none."""
    for name in formulas_named(prefix + schema.base_name):
        diagnostics = Diagnostics()
        if _accepts(parameters_of(definition_of(name), diagnostics), schema.arguments):
            return name
    return None


def has_own_backward(name: str) -> bool:
    """Whether a function of the library returns a backward. Its text tells: nothing is compiled to see it."""
    return any(isinstance(statement, ast.FunctionDef) for statement in definition_of(name).body)


def formula(schema: FunctionSchema, types: Sequence[Type] = (), prefix: str = "") -> Callee | None:
    """What differentiates an op, in a call with arguments of these types; None if the library has no formula for it."""
    name = formula_name(schema, prefix)
    return compile_formula(name + _OF_LISTS * _depth(schema, types)) if name is not None else None


def _depth(schema: FunctionSchema, types: Sequence[Type]) -> int:
    """How deep in lists the tensors are that a generic op moves about: 0 where they are what it moves."""
    bound = bind(schema, types) if any(_concrete(a.type) != a.type for a in schema.arguments) else None
    depths = [0]
    for type in (bound or {}).values():
        depth, element = 0, strip_optional(type)
        while isinstance(element, ListType):
            depth, element = depth + 1, strip_optional(element.element)
        depths.append(depth if is_tensor(element) else 0)
    return max(depths)


def _accepts(parameters: tuple[Argument, ...], arguments: tuple[Argument, ...]) -> bool:
    if len(parameters) != len(arguments):
        return False
    return all(
        p.name == a.name and p.type == _concrete(a.type) and p.keyword_only == a.keyword_only
        for p, a in zip(parameters, arguments, strict=True)
    )


def _concrete(type: Type) -> Type:
    """A generic list op is differentiated for tensors."""
    if isinstance(type, VariableType):
        return TENSOR
    if isinstance(type, ListType):
        return ListType(_concrete(type.element))
    return OptionalType(_concrete(type.element)) if isinstance(type, OptionalType) else type
