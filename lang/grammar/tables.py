"""The parse tables, in the form that the parser's loop reads. `lalr.py` makes them."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

from .builder import TreeBuilder
from .files import KEPT, TableData, fingerprint, grammar_text

Build: TypeAlias = Callable[[TreeBuilder, list[Any], int, int], Any]
"""Makes a rule's value from the values of its symbols and the offsets where it starts and ends."""


class ReduceAction:
    """A rule, as the parser applies it: take `size` symbols off the stack and put `symbol` there."""

    __slots__ = ("build", "size", "symbol")

    def __init__(self, symbol: str, size: int, build: Build | None) -> None:
        self.symbol = symbol
        self.size = size
        self.build = build
        """None when the rule passes its only symbol's value on."""


class Tables:
    """What to do in each state. A state is a number.

    `actions[state][kind]` is the state to go to after taking a token of that kind in, or the ReduceAction to apply
    first; a kind that is missing is an error. `gotos[state][symbol]` is the state after a reduction.
    """

    def __init__(self, data: TableData) -> None:
        """Of tables as data: a row holds symbols, each with a state, or with the complement of a rule's number."""
        symbols = data["symbols"]
        rules = [ReduceAction(name, size, make and getattr(TreeBuilder, make)) for name, size, make in data["rules"]]
        actions = [_row(row, symbols, rules) for row in data["actions"]]
        gotos: list[dict[str, int]] = [dict(zip(_named(row, symbols), row[1::2], strict=True)) for row in data["gotos"]]
        self.start: int = data["start"]
        self.actions: list[dict[str, int | ReduceAction]] = [actions[row] for row, _ in data["states"]]
        self.gotos: list[dict[str, int]] = [gotos[row] for _, row in data["states"]]
        self.jumps: dict[tuple[int, int, str], int] = {}

    def jump(self, below: int, top: int, kind: str) -> int:
        """The state in place of `top` once every rule that only renames it is applied.

        Between a name and a statement lie some fifteen levels of precedence. `jumps` remembers where each climb
        ends; there are no more of them than the tables have entries.
        """
        state = top
        while True:
            action = self.actions[state].get(kind)
            if not isinstance(action, ReduceAction) or action.build is not None:
                break
            state = self.gotos[below][action.symbol]
        self.jumps[below, top, kind] = state
        return state


def _named(row: list[int], symbols: list[str]) -> list[str]:
    return [symbols[number] for number in row[::2]]


def _row(row: list[int], symbols: list[str], rules: list[ReduceAction]) -> dict[str, int | ReduceAction]:
    targets: list[int | ReduceAction] = [target if target >= 0 else rules[~target] for target in row[1::2]]
    return dict(zip(_named(row, symbols), targets, strict=True))


@cache
def tables() -> Tables:
    """The tables of the language: those that the package carries, made anew for another grammar than theirs."""
    grammar = grammar_text()
    data = json.loads(KEPT.read_bytes()) if KEPT.exists() else {}
    if data.get("grammar") != fingerprint(grammar):
        # Lark is loaded where it has work alone.
        from .lalr import make_tables

        data = make_tables(grammar)
    return Tables(data)
