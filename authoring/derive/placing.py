"""Texts of functions in the place of those that stand in a file."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from ...compiler.ir.graph import GradPair
from ...lang.diagnostics import CompileError, Diagnostics
from ...lang.parser import parse
from ...lang.source import Source
from ...runtime.face.function import Function
from ...runtime.face.stages import source_text
from ...runtime.face.units.sources import functions_of
from .meaning import same_meaning


def with_functions(source: Source, texts: Mapping[str, str]) -> str:
    """The source with the functions of these names written as the texts say; all else stays to the letter.

    Lines end as the first one of the source does.
    """
    diagnostics = Diagnostics()
    module = parse(source, diagnostics)
    diagnostics.raise_if_any()
    text = source.text
    definitions = [node for node in module.functions if node.name in texts]
    for definition in sorted(definitions, key=lambda node: -node.span.start):
        start = definition.span.start
        end = start + len(source_text(definition).rstrip("\n"))
        made = texts[definition.name].rstrip("\n").replace("\r\n", "\n").replace("\n", source.line_end)
        text = text[:start] + made + text[end:]
    return text


def stands_for(made: str, function: Function, text: str) -> bool:
    """Whether a text in the place of a function, in its file, compiles to what another text does."""
    definition = function.definition
    assert definition is not None
    whole = definition.span.source.text
    old = source_text(definition)
    start = definition.span.start
    return stands_alone(whole[:start] + made + whole[start + len(old) :], function.name, text)


def stands_alone(whole: str, name: str, text: str) -> bool:
    """Whether a function with a backward is the same in two texts."""
    try:
        mine, other = functions_of(Source(whole))[name].pair, _pair_of(text, name)
    except CompileError:
        return False
    return mine is not None and other is not None and same_meaning(mine, other)


@lru_cache(maxsize=2)
def _pair_of(text: str, name: str) -> GradPair | None:
    """Kept, for one text is compared with many."""
    return functions_of(Source(text))[name].pair
