"""Pairs as users hold them: with their source."""

from __future__ import annotations

from typing import Self

from ...compiler.ir import graph
from ...lang.light_dataclasses import fields


class GradPair(graph.GradPair):
    """A function and its own backward, as two plain graphs: see `compiler/ir/graph.py`."""

    __slots__ = ()

    @classmethod
    def of(cls, pair: graph.GradPair) -> Self:
        """The pair, and the pair of its backward, and so on, as users hold them."""
        levels = [pair]
        while levels[-1].second is not None:
            levels.append(levels[-1].second)
        made: Self | None = None
        for level in reversed(levels):
            made = cls(**{field.name: getattr(level, field.name) for field in fields(level)} | {"second": made})
        assert made is not None
        return made

    @property
    def code(self) -> str:
        """The pair as two plain functions in source."""
        from ...compiler.unparse import unparse_pair

        return unparse_pair(self)
