"""Mistakes that people make often, each recognised by the token that the grammar refuses."""

from __future__ import annotations

from ..scanning.tokens import STATEMENT_KEYWORDS
from .refusal import OPERANDS, Complaint, Refusal, found, is_keyword

BRACE = "a block does not start with '{'"

_HEADER_PARTS = {
    "if": "the condition of 'if'",
    "elif": "the condition of 'elif'",
    "else": "'else'",
    "while": "the condition of 'while'",
    "for": "the sequence of 'for'",
    "with": "the context of 'with'",
    "def": "the signature of 'def'",
}
"""What the colon of each header comes after."""

_STATEMENTS = ("if", "elif", "else", "while", "for", "def", "return", "pass", "break", "continue", "assert", "raise")

_OTHER_LANGUAGES: dict[str, tuple[str, str]] = {
    "function": ("def", "a function starts with 'def'"),
    "func": ("def", "a function starts with 'def'"),
    "fun": ("def", "a function starts with 'def'"),
    "fn": ("def", "a function starts with 'def'"),
    "elseif": ("elif", "'else if' is written 'elif'"),
    "elsif": ("elif", "'else if' is written 'elif'"),
    "foreach": ("for", "write 'for x in xs:'"),
    "throw": ("raise", "an error is raised with 'raise'"),
    "let": ("", "a name needs no declaration; write 'name = value'"),
    "var": ("", "a name needs no declaration; write 'name = value'"),
    "const": ("", "a name needs no declaration; write 'name = value'"),
    "print": ("", "call it with parentheses: print(…)"),
}

_OPERATORS: dict[tuple[str, str], str] = {
    ("&", "&"): "'&&' is written 'and'",
    ("|", "|"): "'||' is written 'or'",
    ("<", ">"): "'<>' is written '!='",
    ("==", "="): "'===' is written '=='",
    ("!=", "="): "'!==' is written '!='",
    ("=", "<"): "'=<' is written '<='",
    ("=", ">"): "'=>' is written '>=' or, after a signature, '->'",
}
"""Pairs of tokens, written without a space, that are one operator elsewhere."""


def brace(refusal: Refusal) -> Complaint | None:
    """A block in braces, as other languages have."""
    token = refusal.token
    if token.kind == "}":
        return Complaint("E101", "'}' closes nothing", refusal.span(), ("remove it; blocks are only indented",))
    if token.kind != "{" or refusal.wants_operand:
        return None
    note = "write ':' at the end of the header and indent the lines of the block"
    return Complaint("E101", BRACE, refusal.span(), (note,), refusal.first.kind)


def else_if(refusal: Refusal) -> Complaint | None:
    if refusal.at != 1 or refusal.first.kind != "else" or refusal.token.kind != "if":
        return None
    span = refusal.span(refusal.first, refusal.token)
    return Complaint("E101", "'else if' is not a statement", span, ("write 'elif'",), "elif")


def orphan_branch(refusal: Refusal) -> Complaint | None:
    if refusal.at or refusal.token.kind not in ("else", "elif"):
        return None
    note = "it stands right below the block of its 'if', at the same indentation"
    return Complaint("E101", f"'{refusal.token.kind}' without an 'if'", refusal.span(), (note,))


def keyword_as_name(refusal: Refusal) -> Complaint | None:
    """A keyword where a name stands: `lambda = 3`, `def in(x)`, `f(lambda=0.5)`, `x.class`, `pass = 3`."""
    for word, after in ((refusal.token, refusal.following), (refusal.previous, refusal.token)):
        if word is None or not is_keyword(word) or after is None:
            continue
        assigned = after.kind == "=" and (word is refusal.first or refusal.in_call or refusal.in_signature)
        named = word is refusal.token and refusal.expected <= {"NAME", "*", ")"} and "NAME" in refusal.expected
        if not assigned and not named:
            continue
        code = "E103" if assigned and word is refusal.first else "E101"
        note = f"choose another name, such as '{word.text.lower()}_'"
        return Complaint(code, f"'{word.text}' is a keyword and cannot be a name", refusal.span(word), (note,))
    return None


def misspelled_keyword(refusal: Refusal) -> Complaint | None:
    """A line that starts with a name where only a keyword makes sense: `retrun x`, `whlie x:`, `esle:`, `let x = 1`."""
    first = refusal.first
    lone = refusal.at == 2 and refusal.ends_line and refusal.line[1].kind == ":"
    if first.kind != "NAME" or not (lone or (refusal.at == 1 and not refusal.ends_line)):
        return None
    keyword, note = _OTHER_LANGUAGES.get(first.text, ("", ""))
    if not note:
        keyword = _nearest_keyword(first.text)
        note = f"did you mean '{keyword}'?"
    if not keyword and first.text not in _OTHER_LANGUAGES:
        return None
    message = f"'{first.text}' does not start a statement"
    return Complaint("E101", message, refusal.span(first), (note,), keyword)


def _nearest_keyword(word: str) -> str:
    from difflib import get_close_matches

    lowered = word.lower()
    for keyword in _STATEMENTS:
        if sorted(keyword) == sorted(lowered):
            return keyword
    near = get_close_matches(lowered, _STATEMENTS, n=1, cutoff=0.75)
    return near[0] if near else ""


def foreign_operator(refusal: Refusal) -> Complaint | None:
    """`&&`, `||`, `x++` and other operators of other languages."""
    token, previous = refusal.token, refusal.previous
    if previous is None:
        return None
    note = _OPERATORS.get((previous.kind, token.kind))
    if note and refusal.touches(previous.kind):
        span = refusal.span(previous, token)
        return Complaint("E101", f"'{previous.text}{token.text}' is not an operator", span, (note,))
    if refusal.at >= 2 and previous.kind in ("+", "-") and refusal.wants_operand:
        before = refusal.line[refusal.at - 2]
        if before.kind == previous.kind and before.end == previous.start:
            span = refusal.span(before, previous)
            note = f"write 'x {previous.kind}= 1' as a statement of its own"
            return Complaint("E101", f"'{previous.kind * 2}' is not an operator", span, (note,))
    return None


def assignment_as_condition(refusal: Refusal) -> Complaint | None:
    if refusal.token.kind != "=" or refusal.wants_operand:
        return None
    if refusal.in_call:
        note = "only a plain name can stand before '='; to compare, write '=='"
        return Complaint("E101", "'=' after an expression in a call", refusal.span(), (note,))
    if refusal.bracket is None and refusal.first.kind not in ("if", "elif", "while", "assert", "return", "for"):
        return None
    return Complaint("E101", "'=' cannot stand in an expression", refusal.span(), ("did you mean '=='?",))


def missing_colon(refusal: Refusal) -> Complaint | None:
    """A header without its colon."""
    header = refusal.first.kind
    if ":" not in refusal.expected or header not in _HEADER_PARTS or refusal.bracket is not None:
        return None
    after, token = _HEADER_PARTS[header], refusal.token
    if header == "def" and refusal.previous is not None and refusal.previous.kind not in (")", "NAME", "]", "None"):
        return None
    if refusal.ends_line:
        note = "add it at the end of the line"
        return Complaint("E101", f"expected ':' after {after}", refusal.span(), (note,), header)
    if token.kind in STATEMENT_KEYWORDS:
        note = f"put ':' before {found(token)}"
        return Complaint("E101", f"expected ':' after {after}, found {found(token)}", refusal.span(), (note,), header)
    return None


def missing_else(refusal: Refusal) -> Complaint | None:
    if "else" not in refusal.expected or refusal.wants_operand or refusal.token.kind in OPERANDS:
        return None
    start = max((i for i, token in enumerate(refusal.line[: refusal.at]) if token.kind == "if"), default=None)
    if start is None:
        return None
    note = "a conditional expression has both values: a if condition else b"
    message = f"expected 'else', found {found(refusal.token)}"
    return Complaint("E101", message, refusal.span(), (note,))


def missing_comma(refusal: Refusal) -> Complaint | None:
    """Two expressions side by side inside brackets."""
    if refusal.bracket is None or "," not in refusal.expected or refusal.token.kind not in OPERANDS:
        return None
    message = f"expected ',' or an operator before {found(refusal.token)}"
    return Complaint("E101", message, refusal.span(), ("did you forget a comma?",))


def raise_with_comma(refusal: Refusal) -> Complaint | None:
    if refusal.first.kind != "raise" or refusal.token.kind != "," or refusal.bracket is not None:
        return None
    return Complaint("E101", "unexpected ',' in 'raise'", refusal.span(), ("write raise Name(message)",))


def missing_parameters(refusal: Refusal) -> Complaint | None:
    if refusal.first.kind != "def" or refusal.at != 2 or refusal.token.kind == "(":
        return None
    note = f"a function without parameters is written 'def {refusal.line[1].text}():'"
    message = f"expected '(' after the function's name, found {found(refusal.token)}"
    return Complaint("E101", message, refusal.span(), (note,), "def")
