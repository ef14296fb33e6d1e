"""The parse tables as data, made by Lark from grammar.lark: `make tables` writes them to tables.json.

Lark takes longer to make them than most programs take to compile, so the package carries them. They say which grammar
they are of (`fingerprint`), and are made anew where that is not the one beside them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from lark import Lark
from lark.common import LexerConf
from lark.grammar import Rule
from lark.lexer import Lexer, Token

from ..scanning.tokens import END
from .files import KEPT, TableData, fingerprint, grammar_text

TableRow = tuple[int, ...]
TableEntry = tuple[str, int | Rule, bool]
"""A symbol, the state that it leads to or the rule to apply, and whether rules make it."""


def make_tables(grammar: str) -> TableData:
    """The tables of a grammar, the same each time. Rows that are equal are written once; `Tables` reads them."""
    lark = Lark(grammar, parser="lalr", lexer=_Terminals, start="module", strict=True)
    conf = lark.parse_interactive("").parser_state.parse_conf
    kinds = {terminal.name: terminal.pattern.value for terminal in lark.terminals}
    entries = {state: _sorted(row, kinds) for state, row in conf.states.items()}
    entries[conf.end_state].append((END, conf.end_state, False))
    numbers = _numbered(conf.start_state, entries)
    symbols: dict[str, int] = {}
    rules: dict[Rule, int] = {}
    actions: dict[TableRow, int] = {}
    gotos: dict[TableRow, int] = {}
    states: list[tuple[int, int]] = []
    for state in numbers:
        taken: list[int] = []
        gone: list[int] = []
        for name, target, is_made in entries[state]:
            symbol = symbols.setdefault(name, len(symbols))
            if isinstance(target, Rule):
                taken += (symbol, ~rules.setdefault(target, len(rules)))
            else:
                (gone if is_made else taken).extend((symbol, numbers[target]))
        states.append((_place(actions, taken), _place(gotos, gone)))
    return {
        "grammar": fingerprint(grammar),
        "start": numbers[conf.start_state],
        "symbols": list(symbols),
        "rules": [_rule(rule) for rule in rules],
        "states": states,
        "actions": list(actions),
        "gotos": list(gotos),
    }


def _sorted(row: dict[str, tuple[Any, Any]], kinds: dict[str, str]) -> list[TableEntry]:
    """A row of Lark's by its symbols, whose terminals are told by what they stand for."""
    found = [(kinds.get(name, name), target, name.islower()) for name, (_, target) in row.items()]
    return sorted(found, key=lambda entry: (entry[0], entry[2]))


def _numbered(start: int, entries: dict[int, list[TableEntry]]) -> dict[int, int]:
    """The states in the order in which they are met from the first: Lark's own numbers vary from run to run."""
    numbers = {start: 0}
    pending = [start]
    for state in pending:
        for _, target, _ in entries[state]:
            if isinstance(target, int) and target not in numbers:
                numbers[target] = len(numbers)
                pending.append(target)
    return numbers


def _place(rows: dict[TableRow, int], row: list[int]) -> int:
    return rows.setdefault(tuple(row), len(rows))


def _rule(rule: Rule) -> tuple[str, int, str | None]:
    """What it makes, of how many symbols, and by which method of the builder; none where it passes its symbol on."""
    passes_on = rule.options.expand1 and len(rule.expansion) == 1 and not rule.alias
    return rule.origin.name, len(rule.expansion), None if passes_on else rule.alias or rule.origin.name


class _Terminals(Lexer):
    """Stands where Lark wants a lexer. The tokens come from `tokens.scan`; Lark only makes the tables."""

    def __init__(self, lexer_conf: LexerConf) -> None:
        pass

    def lex(self, lexer_state: Any, parser_state: Any) -> Iterator[Token]:
        return iter(())


def tables_text(grammar: str) -> str:
    """The tables as JSON, a line for each part and each row."""
    parts = []
    for name, part in make_tables(grammar).items():
        rows = name in ("rules", "actions", "gotos")
        text = "[\n" + ",\n".join(map(_compact, part)) + "\n]" if rows else _compact(part)
        parts.append(f'"{name}": {text}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


if __name__ == "__main__":
    KEPT.write_text(tables_text(grammar_text()), encoding="utf-8")
