"""Texts of functions in the place of those that stand in a file."""

from __future__ import annotations

from collections.abc import Mapping

from ...lang.diagnostics import Diagnostics
from ...lang.parser import parse
from ...lang.source import Source
from ...runtime.face.stages import source_text


def replaced(source: Source, texts: Mapping[str, str]) -> str:
    """The source with the functions of these names written as the texts say; all else stays to the letter."""
    diagnostics = Diagnostics()
    module = parse(source, diagnostics)
    diagnostics.raise_if_any()
    text = source.text
    definitions = [node for node in module.functions if node.name in texts]
    for definition in sorted(definitions, key=lambda node: -node.span.start):
        start = definition.span.start
        end = start + len(source_text(definition).rstrip("\n"))
        text = text[:start] + texts[definition.name].rstrip("\n") + text[end:]
    return text
