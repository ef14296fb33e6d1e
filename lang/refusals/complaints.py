"""What to say of a token that the grammar refuses: the first rule that knows the case, or what was expected."""

from __future__ import annotations

from collections.abc import Callable

from ..scanning.tokens import Token
from ..source import Span
from . import constructs, mistakes
from .refusal import OPERANDS, Complaint, Refusal, found

_RULES: tuple[Callable[[Refusal], Complaint | None], ...] = (
    mistakes.keyword_as_name,
    mistakes.brace,
    constructs.unsupported_match,
    constructs.unsupported_keyword,
    constructs.unsupported_operator,
    constructs.unsupported_star,
    constructs.bare_generator,
    mistakes.else_if,
    mistakes.orphan_branch,
    mistakes.misspelled_keyword,
    mistakes.foreign_operator,
    mistakes.assignment_as_condition,
    mistakes.missing_colon,
    mistakes.missing_parameters,
    mistakes.missing_else,
    mistakes.missing_comma,
    mistakes.raise_with_comma,
)


def complain(refusal: Refusal) -> Complaint | None:
    """What to report, or None if nothing: the line has no effect, or goes on with what has been reported."""
    if constructs.is_idle_import(refusal) or constructs.is_rest_of_construct(refusal):
        return None
    for rule in _RULES:
        complaint = rule(refusal)
        if complaint is not None:
            return complaint
    return _expectation(refusal)


def _expectation(refusal: Refusal) -> Complaint:
    token = refusal.token
    after = f" after {found(refusal.previous)}" if refusal.previous is not None else ""
    if refusal.wants_operand:
        what = "a statement" if "return" in refusal.expected else "an expression"
        message = f"expected {what}{after}, found {found(token)}"
    elif refusal.expected <= {"NAME", "*", ")"} and "NAME" in refusal.expected:
        message = f"expected a name{after}, found {found(token)}"
    else:
        message = f"unexpected {found(token)}{after}, expected {_choices(refusal)}"
    return Complaint("E101", message, refusal.span(), _notes(refusal), refusal.first.kind)


def _choices(refusal: Refusal) -> str:
    """What would have fit, in words, after a complete expression or a keyword."""
    expected = refusal.expected
    if "in" in expected and "is" not in expected:
        return "'in'"
    choices = ["an operator"] if "+" in expected else []
    if "NEWLINE" in expected:
        choices.append("the end of the line")
    else:
        choices += [f"'{kind}'" for kind in (":", "else", ",", ")", "]") if kind in expected]
    choices = choices or [f"'{kind}'" for kind in sorted(expected)[:4]]
    return " or ".join([", ".join(choices[:-1]), choices[-1]] if len(choices) > 1 else choices)


def _notes(refusal: Refusal) -> tuple[str, ...]:
    if refusal.ends_line:
        return ("finish the line, or end it with '\\' or inside brackets to go on below",)
    if refusal.token.kind in OPERANDS and "NEWLINE" in refusal.expected:
        return ("put an operator between the two, or start a new line",)
    return ()


def unexpected_indent(span: Span) -> Complaint:
    note = "only the lines below a header, which ends with ':', are indented further"
    return Complaint("E002", "unexpected indentation", span, (note,))


def missing_block(span: Span, first: Token) -> Complaint:
    note = "a block has at least one statement, indented further than its header; 'pass' does nothing"
    return Complaint("E101", f"expected an indented block after '{first.text}'", span, (note,))
