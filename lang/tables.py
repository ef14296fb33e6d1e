"""The parse tables: made by Lark from grammar.lark, once, and put in the form that the parser's loop reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from typing import Any, TypeAlias

from lark import Lark
from lark.common import LexerConf
from lark.grammar import Rule
from lark.lexer import Lexer
from lark.lexer import Token as LarkToken
from lark.parsers.lalr_analysis import Shift

from .builder import Builder
from .tokens import END

Build: TypeAlias = Callable[[Builder, list[Any], int, int], Any]
"""Makes a rule's value from the values of its symbols and the offsets where it starts and ends."""


class Reduction:
    """A rule, as the parser applies it: take `size` symbols off the stack and put `symbol` there."""

    __slots__ = ("build", "size", "symbol")

    def __init__(self, symbol: str, size: int, build: Build | None) -> None:
        self.symbol = symbol
        self.size = size
        self.build = build
        """None when the rule passes its only symbol's value on."""


class Tables:
    """What to do in each state. A state is a number.

    `actions[state][kind]` is the state to go to after taking a token of that kind in, or the Reduction to apply
    first; a kind that is missing is an error. `gotos[state][symbol]` is the state after a reduction.
    """

    def __init__(self, start: int, actions: list[dict[str, int | Reduction]], gotos: list[dict[str, int]]) -> None:
        self.start = start
        self.actions = actions
        self.gotos = gotos
        self.jumps: dict[tuple[int, int, str], int] = {}

    def jump(self, below: int, top: int, kind: str) -> int:
        """The state in place of `top` once every rule that only renames it is applied.

        Between a name and a statement lie some fifteen levels of precedence. `jumps` remembers where each climb
        ends; there are no more of them than the tables have entries.
        """
        state = top
        while True:
            action = self.actions[state].get(kind)
            if not isinstance(action, Reduction) or action.build is not None:
                break
            state = self.gotos[below][action.symbol]
        self.jumps[below, top, kind] = state
        return state


@cache
def tables() -> Tables:
    """The tables of the language."""
    grammar = files(__package__).joinpath("grammar.lark").read_text(encoding="utf-8")
    lark = Lark(grammar, parser="lalr", lexer=_Terminals, start="module", strict=True)
    kinds = {terminal.name: terminal.pattern.value for terminal in lark.terminals}
    conf = lark.parse_interactive("").parser_state.parse_conf
    reductions: dict[Rule, Reduction] = {}
    actions: list[dict[str, int | Reduction]] = []
    gotos: list[dict[str, int]] = []
    for state in range(len(conf.states)):
        actions.append({})
        gotos.append({})
        for name, (action, target) in conf.states[state].items():
            if action is not Shift:
                actions[state][kinds.get(name, name)] = reductions.setdefault(target, _reduction(target))
            elif name.islower():
                gotos[state][name] = target
            else:
                actions[state][kinds.get(name, name)] = target
    actions[conf.end_state][END] = conf.end_state
    return Tables(conf.start_state, actions, gotos)


def _reduction(rule: Rule) -> Reduction:
    passes_on = rule.options.expand1 and len(rule.expansion) == 1 and not rule.alias
    build = None if passes_on else getattr(Builder, rule.alias or rule.origin.name)
    return Reduction(rule.origin.name, len(rule.expansion), build)


class _Terminals(Lexer):
    """Stands where Lark wants a lexer. The tokens come from `tokens.scan`; Lark only makes the tables."""

    def __init__(self, lexer_conf: LexerConf) -> None:
        pass

    def lex(self, lexer_state: Any, parser_state: Any) -> Iterator[LarkToken]:
        return iter(())
