"""Constructs of Python that the language does not have: how each is recognised, and what to write instead."""

from __future__ import annotations

from ..imports import RELATIVE_IMPORT
from ..patterns import pattern
from .mistakes import BRACE
from .refusal import Complaint, Refusal

_TOGETHER = "write functions; values that belong together travel in a tuple: Tuple[Tensor, int], and `x, n = t`"

_KEYWORDS: dict[str, tuple[str, str]] = {
    "class": ("classes are not supported", _TOGETHER),
    "import": ("this import is not supported", "remove it: torch, F and the types are known without one"),
    "from": ("this import is not supported", "remove it: torch, F and the types are known without one"),
    "as": ("'as' is not supported", "there is nothing to name: write `with torch.no_grad():`"),
    "try": ("'try' is not supported", "test the condition with 'if' before; an error ends the function"),
    "except": ("'except' is not supported", "test the condition with 'if' before; an error ends the function"),
    "finally": ("'finally' is not supported", "write its body plainly; an error ends the function"),
    "yield": ("generators are not supported", "collect the values in a list and return it"),
    "async": ("'async' is not supported", "write it without 'async'; everything runs in order"),
    "await": ("'await' is not supported", "write it without 'await'; everything runs in order"),
    "global": ("'global' is not supported", "pass the value as a parameter and return the new one"),
    "nonlocal": ("'nonlocal' is not supported", "an inner function reads outer names, and returns what it changes"),
}
"""Keywords that no rule of the grammar has."""

_DECORATORS = {
    "staticmethod": "remove it, and the class around it: functions stand at the outermost level",
    "classmethod": "remove it, and the class around it: functions stand at the outermost level",
    "property": "remove it, and the class around it: functions stand at the outermost level",
    "dataclass": "write `class P(NamedTuple):` with fields",
    "once_differentiable": "remove it: second derivatives are derived",
    "custom_fwd": "remove it: torch.autocast around the call is followed",
    "custom_bwd": "remove it: torch.autocast around the call is followed",
    "lru_cache": "remove it: what is computed once is for the caller to keep",
    "cache": "remove it: what is computed once is for the caller to keep",
    "triton": "remove it: kernels are generated of the formula",
    "overload": "remove it: a function has one signature; Optional and defaults say the rest",
}
"""What to write instead of decorators, by a word of them."""

_IMPORT = pattern(
    r"import torch( \. nn \. functional as F| \. nn as nn| \. jit)?|import (typing|math|warnings|collections)"
    r"|from torch import nn|from torch import (Tensor , nn|nn , Tensor)|import torch , math|import math , torch"
    r"|from collections import namedtuple"
    r"|from __future__ import annotations|from torch \. _jit_internal import BroadcastingList\d( , BroadcastingList\d)*"
    r"|from torch import Tensor|from torch \. nn import functional as F"
    r"|from typing import (\w+( , \w+)*|\( \w+( , \w+)* (, )?\))"
    rf"|{RELATIVE_IMPORT}"
)
"""Imports that Python needs around the same source, and that bind names to what they mean here anyway; and those of
files beside it, which whoever loads the file has followed."""

_TRY = _KEYWORDS["try"][0]
_MATCH = "'match' is not supported"
_DICT = "dicts and sets are not supported"


def is_idle_import(refusal: Refusal) -> bool:
    """Whether the line is an import that changes nothing here."""
    if refusal.at or not refusal.at_top or refusal.token.kind not in ("import", "from"):
        return False
    return _IMPORT.fullmatch(" ".join(token.text for token in refusal.line[:-1])) is not None


def is_rest_of_construct(refusal: Refusal) -> bool:
    """Whether the line goes on with a construct whose first line has been reported."""
    if refusal.first.kind in ("except", "finally"):
        return _TRY in refusal.messages
    if refusal.token.kind == "}":
        return not refusal.messages.isdisjoint((BRACE, _DICT))
    return refusal.first.text == "case" and _closes_with_colon(refusal) and _MATCH in refusal.messages


def unsupported_keyword(refusal: Refusal) -> Complaint | None:
    kind = "class" if refusal.first.kind == "class" else refusal.token.kind
    if kind not in _KEYWORDS:
        return None
    message, note = _KEYWORDS[kind]
    if kind == "from" and refusal.first.kind == "raise":
        message, note = "'raise … from' is not supported", "write raise Name(message)"
    elif kind in ("import", "from") and {"numpy", "np"} & {token.text for token in refusal.line}:
        note = "remove it: write what torch calls it; `np.newaxis` is `None`, `np.pi` is `math.pi`"
    elif kind == "from" and {"*", "."} <= {token.text for token in refusal.line}:
        note = "name what is taken: `from .norms import rms_norm`"
    elif kind in ("import", "from") and not refusal.at_top:
        note = "remove it; inside a function torch and F are known"
    return Complaint("E102", message, refusal.span(), (note,), kind)


def unsupported_operator(refusal: Refusal) -> Complaint | None:
    kind = refusal.token.kind
    if kind == "@" and not refusal.at:
        note = "remove it; a function is compiled as it stands, but for @torch.no_grad() and what torch.jit ignores"
        words = {token.text for token in refusal.line}
        note = next((said for word, said in _DECORATORS.items() if word in words), note)
        return Complaint("E102", "decorators are not supported", refusal.span(), (note,))
    if kind == ":=":
        note = "assign in a statement of its own, before this one"
        return Complaint("E102", "assignment inside an expression is not supported", refusal.span(), (note,))
    if kind == "{" and refusal.wants_operand:
        note = "use a tuple or a list; what would be a key becomes a name"
        return Complaint("E102", _DICT, refusal.span(), (note,))
    if kind == "..." and refusal.wants_operand:
        note = "an empty body is written 'pass'"
        return Complaint("E102", "'...' can only stand in a subscript", refusal.span(), (note,))
    return None


def unsupported_star(refusal: Refusal) -> Complaint | None:
    """`*args` and its relatives, in a signature, in a call and elsewhere."""
    token, previous = refusal.token, refusal.previous
    if refusal.in_signature:
        if previous is not None and previous.kind == "*" and token.kind == "NAME":
            note = "name every parameter, or take a List[Tensor]"
            return Complaint("E102", f"'*{token.text}' is not supported", refusal.span(previous, token), (note,))
        if token.kind == "**":
            note = "name every parameter; those after '*' are keyword-only"
            return Complaint("E102", "'**' parameters are not supported", refusal.span(), (note,))
        if token.kind == "/" and previous is not None and previous.kind in ("(", ","):
            note = "remove it; every parameter before '*' can be given by position"
            return Complaint("E102", "positional-only parameters are not supported", refusal.span(), (note,))
    if token.kind not in ("*", "**") or not ("NAME" in refusal.expected or refusal.wants_operand):
        return None
    if refusal.in_call:
        message = f"'{token.kind}' arguments are not supported"
        note = "write the arguments out one by one; sizes are one list: `x.view(x.shape[:-1] + (2, 3))`"
        return Complaint("E102", message, refusal.span(), (note,))
    if previous is not None and previous.kind not in ("(", "[", ",", "=", "return", "for", "in"):
        return None
    note = "name every element; a slice such as x[1:] takes the rest"
    return Complaint("E102", "starred expressions are not supported", refusal.span(), (note,))


def bare_generator(refusal: Refusal) -> Complaint | None:
    """`sum(1, x for x in xs)`."""
    bracket = refusal.bracket
    if refusal.token.kind != "for" or bracket is None or refusal.line[bracket].kind != "(":
        return None
    note = "`f((g(x) for x in xs), y)`"
    return Complaint("E101", "a generator expression beside arguments stands in parentheses", refusal.span(), (note,))


def unsupported_match(refusal: Refusal) -> Complaint | None:
    if refusal.first.text != "match" or not _closes_with_colon(refusal):
        return None
    span = refusal.span(refusal.first)
    return Complaint("E102", _MATCH, span, ("write it with 'if', 'elif' and 'else'",), "if")


def _closes_with_colon(refusal: Refusal) -> bool:
    return len(refusal.line) > 2 and refusal.line[-2].kind == ":"
