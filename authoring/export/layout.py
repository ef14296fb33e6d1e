"""A module of Python laid out as formatters lay it out (Black's style, 88 columns), whatever lines it came in.

A statement that fits stands on one line. One that does not is broken at its last brackets whose head fits, and what is
in them at its loosest operators or at its commas, again and again:

    x = tl.load(x_ptr + columns * i + j, mask=mask, other=-float("inf")).to(tl.float32)
      ─▶
    x = tl.load(x_ptr + columns * i + j, mask=mask, other=-float("inf")).to(
        tl.float32
    )
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Sequence

from ...lang.light_dataclasses import dataclass
from .python_text import WIDTH

_OPENING, _CLOSING = ("(", "[", "{"), (")", "]", "}")
_LEVELS = {
    ",": 18,
    **dict.fromkeys(("and", "or"), 14),
    **dict.fromkeys(("<", ">", "<=", ">=", "==", "!=", "in", "is", "not"), 10),
    "|": 9,
    "^": 8,
    "&": 7,
    **dict.fromkeys(("<<", ">>"), 6),
    **dict.fromkeys(("+", "-"), 5),
    **dict.fromkeys(("*", "/", "//", "%", "@"), 4),
    "**": 3,
}
_LAYOUT = (tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.COMMENT)
_SINGLE_QUOTED = re.compile(r"'[^'\"\\]*'")
_SMALL = re.compile(r"-?[\w.]+")


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A token, and the white space before it on one line."""

    text: str
    before: str
    is_word: bool = False


def laid_out(text: str) -> str:
    """The text with its statements broken anew; statements with comments or texts of several lines in them stay."""
    lines = text.split("\n")
    made: list[str] = []
    done = 0
    for tokens in _statements(text):
        first, last = tokens[0].start[0] - 1, tokens[-1].end[0] - 1
        made += lines[done:first]
        margin = lines[first][: tokens[0].start[1]]
        made += _broken(_leaves(tokens), margin) if _may_be_broken(tokens) else lines[first : last + 1]
        done = last + 1
    found = "\n".join([*made, *lines[done:]])
    return found if ast.dump(ast.parse(found)) == ast.dump(ast.parse(text)) else text


def _statements(text: str) -> Iterator[list[tokenize.TokenInfo]]:
    """The tokens of each line of Python, which may be several of the text; those of comments alone are none."""
    found: list[tokenize.TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NEWLINE:
            yield found
            found = []
        elif token.type not in _LAYOUT or (token.type == tokenize.COMMENT and found):
            found.append(token)


def _may_be_broken(tokens: Sequence[tokenize.TokenInfo]) -> bool:
    return not any(t.type == tokenize.COMMENT or (t.type == tokenize.STRING and "\n" in t.string) for t in tokens)


def _leaves(tokens: Sequence[tokenize.TokenInfo]) -> list[_Leaf]:
    """The tokens as on one line: no commas before closing brackets, no parentheses around all of a value."""
    found: list[_Leaf] = []
    for i, token in enumerate(tokens):
        before = ""
        if i and tokens[i - 1].end[0] == token.start[0]:
            before = " " * (token.start[1] - tokens[i - 1].end[1])
        elif i and tokens[i - 1].string not in (*_OPENING, ".") and token.string not in (*_CLOSING, ".", ","):
            before = " "
        text = re.sub(r"e\+(?=\d)", "e", token.string) if token.type == tokenize.NUMBER else token.string
        if token.type == tokenize.STRING and _SINGLE_QUOTED.fullmatch(text):
            text = f'"{text[1:-1]}"'
        if token.string in _CLOSING and found[-1].text == "," and not _is_single(found):
            found.pop()
        found.append(_Leaf(text, before, token.type == tokenize.NAME))
    return _hugged(_with_parentheses(_without_parentheses(found)))


def _is_single(leaves: Sequence[_Leaf]) -> bool:
    """Whether the comma at the end makes a tuple of what stands before it."""
    start = _opening_of([*leaves, _Leaf(")", "")], len(leaves))
    commas = sum(leaf.text == "," for leaf, depth in _with_depth(leaves[start + 1 :]) if not depth)
    called = start and (leaves[start - 1].is_word or leaves[start - 1].text in _CLOSING)
    return commas == 1 and leaves[start].text == "(" and not (called and leaves[start - 1].text not in _KEYWORDS)


_KEYWORDS = ("return", "in", "and", "or", "not", "if", "else", "is")


def _without_parentheses(leaves: list[_Leaf]) -> list[_Leaf]:
    start = _value_at(leaves)
    inside = leaves[start:]
    if start and len(inside) > 2 and inside[0].text == "(" and _closing_of(inside, 0) == len(inside) - 1:
        inner = inside[1:-1]
        if not any(leaf.text in (",", "for", "yield", ":=") for leaf, depth in _with_depth(inner) if not depth):
            first = _Leaf(inner[0].text, inside[0].before, inner[0].is_word)
            return [*leaves[:start], first, *inner[1:]]
    return leaves


def _with_parentheses(leaves: list[_Leaf]) -> list[_Leaf]:
    """`(x,) = found` of `x, = found`."""
    ends = [i for i, (leaf, depth) in enumerate(_with_depth(leaves)) if not depth and leaf.text == "="]
    if not ends or leaves[ends[0] - 1].text != ",":
        return leaves
    return [_Leaf("(", ""), *leaves[: ends[0]], _Leaf(")", ""), *leaves[ends[0] :]]


def _hugged(leaves: list[_Leaf]) -> list[_Leaf]:
    """Powers of what is small without spaces."""
    made = list(leaves)
    for i, leaf in enumerate(leaves):
        if leaf.text != "**" or not (0 < i < len(leaves) - 1):
            continue
        base, power = leaves[i - 1], leaves[i + 1]
        after = leaves[i + 2].text if i + 2 < len(leaves) else ""
        is_plain = _SMALL.fullmatch(base.text) and after not in ("(", "[", ".")
        if is_plain and (_SMALL.fullmatch(power.text) or power.text == "-"):
            made[i] = _Leaf("**", "")
            made[i + 1] = _Leaf(power.text, "", power.is_word)
    return made


def _value_at(leaves: Sequence[_Leaf]) -> int:
    """Where the value of a `return`, an assignment or the like begins; 0 where there is none."""
    if leaves[0].text in ("return", "assert"):
        return 1
    assigns = [i for i, (leaf, depth) in enumerate(_with_depth(leaves)) if not depth and leaf.text in _ASSIGNS]
    return assigns[-1] + 1 if assigns else 0


_ASSIGNS = ("=", "+=", "-=", "*=", "/=", "|=", "&=")

# --- lines ---


def _shown(leaves: Sequence[_Leaf]) -> str:
    return "".join([leaves[0].text, *(leaf.before + leaf.text for leaf in leaves[1:])]) if leaves else ""


def _fits(leaves: Sequence[_Leaf], margin: str) -> bool:
    return len(margin) + len(_shown(leaves)) <= WIDTH


def _broken(leaves: Sequence[_Leaf], margin: str, *, inside: bool = False) -> list[str]:
    if _fits(leaves, margin):
        return [margin + _shown(leaves)]
    if leaves[0].text in ("def", "class"):
        return _parted(leaves, next(i for i, leaf in enumerate(leaves) if leaf.text == "("), margin)
    if inside:
        lines = _by_delimiters(leaves, margin) or _by_calls(leaves, margin)
        if lines:
            return lines
    return _by_brackets(leaves, margin)


def _by_brackets(leaves: Sequence[_Leaf], margin: str) -> list[str]:
    """The line broken at its last brackets, or at earlier ones until what stands before them fits."""
    value = _value_at(leaves) if leaves[0].text not in ("if", "while", "elif") else 1
    rest = leaves[value:]
    if leaves[-1].text in (":", ","):
        rest = rest[:-1]
    tail = leaves[value + len(rest) :]
    if value and _chain(rest):
        return _in_parentheses(leaves[:value], rest, tail, margin)
    at_brackets = any(leaf.text in _OPENING for leaf in rest) and (not value or _splits_at_its_brackets(rest, margin))
    if not at_brackets:
        return _in_parentheses(leaves[:value], rest, tail, margin)
    for start in _last_brackets(leaves):
        if _closing_of(leaves, start) == start + 1:
            continue
        if _fits(leaves[: start + 1], margin):
            made = _parted(leaves, start, margin)
            if value and len(made[-1]) > WIDTH:
                continue
            return made
    return _in_parentheses(leaves[:value], rest, tail, margin)


def _chain(leaves: Sequence[_Leaf]) -> list[int]:
    """Where the calls of a chain begin, `(x + y).sum(0).sqrt()`, each on what another or parentheses give; none
    where there are fewer than two of them, or what they stand in is no chain."""
    found: list[int] = []
    for i, (leaf, depth) in enumerate(_with_depth(leaves)):
        if depth or leaf.text in (*_OPENING, *_CLOSING) or leaf.is_word:
            continue
        if leaf.text != ".":
            return []
        found += [i] if leaves[i - 1].text in _CLOSING else []
    return found if len(found) > 1 and leaves[-1].text in _CLOSING else []


def _splits_at_its_brackets(rest: Sequence[_Leaf], margin: str) -> bool:
    """Whether a value may be broken at its own brackets, rather than stand in parentheses of its own."""
    levels = [_level(rest, i) for i, (_, depth) in enumerate(_with_depth(rest)) if not depth]
    loosest = max(levels, default=0)
    if loosest and levels.count(loosest) > 1:
        return False
    if not loosest:
        return any(leaf.text in _OPENING for leaf in rest)
    if rest[0].text in _OPENING and _closing_of(rest, 0) > 1:
        return True
    if rest[-1].text not in _CLOSING:
        return False
    start = _opening_of(rest, len(rest) - 1)
    if start == len(rest) - 2:
        return False
    before = rest[:start]
    length = len(margin) + len(_shown(rest[: start + 1]))
    return length <= WIDTH or any(leaf.text in _OPENING for leaf in before)


def _in_parentheses(head: Sequence[_Leaf], value: Sequence[_Leaf], tail: Sequence[_Leaf], margin: str) -> list[str]:
    """A value that has parentheses only where it is broken."""
    if not head or not value:
        return [margin + _shown([*head, *value, *tail])]
    inner = f"{margin}    "
    return [
        f"{margin}{_shown(head)}{value[0].before}(",
        *(_broken([_Leaf(value[0].text, "", value[0].is_word), *value[1:]], inner, inside=True)),
        f"{margin}){_shown(tail)}",
    ]


def _parted(leaves: Sequence[_Leaf], start: int, margin: str) -> list[str]:
    """Head, what is in the brackets that open at `start`, and tail."""
    end = _closing_of(leaves, start)
    head, body, tail = leaves[: start + 1], leaves[start + 1 : end], leaves[end:]
    inner = f"{margin}    "
    is_single = any(leaf.text == "," for leaf in body[-1:])
    one = [inner + _shown(body)]
    commas = any(leaf.text == "," for leaf, depth in _with_depth(body) if not depth)
    is_list = commas or head[-1].text in ("[", "{") or (start > 0 and (leaves[start - 1].is_word))
    is_display = commas and not _is_call(leaves, start)
    if is_display:
        lines = _by_delimiters(body, inner)
    else:
        lines = one if len(one[0]) <= WIDTH and not is_single else _broken(body, inner, inside=True)
    if len(lines) > 1 and is_list and not commas and not lines[-1].endswith(","):
        lines = lines if head[-1].text == "(" and not _is_call(leaves, start) else [*lines[:-1], f"{lines[-1]},"]
    return [margin + _shown(head), *lines, *_broken(tail, margin)]


def _is_call(leaves: Sequence[_Leaf], start: int) -> bool:
    """Whether brackets are those of a call or a subscript, and no display of their own."""
    before = leaves[start - 1] if start else None
    return before is not None and (before.text in _CLOSING or (before.is_word and before.text not in _KEYWORDS))


def _by_delimiters(leaves: Sequence[_Leaf], margin: str) -> list[str]:
    """A line for each part between the loosest operators; none where there is none."""
    levels = [_level(leaves, i) if not depth else 0 for i, (_, depth) in enumerate(_with_depth(leaves))]
    loosest = max(levels, default=0)
    if not loosest:
        return []
    parts: list[list[_Leaf]] = [[]]
    for leaf, level in zip(leaves, levels, strict=True):
        if level == loosest and loosest != _LEVELS[","] and parts[-1]:
            parts.append([])
        parts[-1].append(leaf)
        if level == loosest == _LEVELS[","]:
            parts.append([])
    parts = [part for part in parts if part]
    if loosest == _LEVELS[","] and parts[-1][-1].text != ",":
        parts[-1].append(_Leaf(",", ""))
    made: list[str] = []
    for part in parts:
        made += _part(part, margin)
    return made


def _by_calls(leaves: Sequence[_Leaf], margin: str) -> list[str]:
    """A line for what a chain begins with, and one for each call; none where it is no chain."""
    ends = _chain(leaves)
    parts = [leaves[start:end] for start, end in zip([0, *ends], [*ends, len(leaves)], strict=True)] if ends else []
    return [line for part in parts for line in _broken(part, margin)]


def _part(leaves: list[_Leaf], margin: str) -> list[str]:
    """One argument, with the comma behind it."""
    if leaves[-1].text != "," or _fits(leaves, margin):
        return _broken(leaves, margin, inside=True)
    lines = _by_delimiters(leaves[:-1], margin) or _by_calls(leaves[:-1], margin)
    return [*lines[:-1], f"{lines[-1]},"] if lines else _by_brackets(leaves, margin)


def _level(leaves: Sequence[_Leaf], i: int) -> int:
    """How loosely an operator binds; 0 for what is none, and for signs."""
    leaf = leaves[i]
    if leaf.text == "if" and i and any(x.text == "else" for x in leaves[i:]):
        return 16
    if leaf.text == "else":
        return 16
    if leaf.text == "for":
        return 20
    if i and leaf.text.startswith('"') and leaves[i - 1].text.startswith('"'):
        return 12
    if leaf.text not in _LEVELS or not i:
        return 0
    if leaf.text in ("+", "-", "*", "**") and (leaves[i - 1].text in (*_LEVELS, *_OPENING, *_KEYWORDS, "=")):
        return 0
    if leaf.text == "not":
        return 10 if i + 1 < len(leaves) and leaves[i + 1].text == "in" else 0
    if leaf.text == "in" and leaves[i - 1].text == "not":
        return 0
    return _LEVELS[leaf.text]


# --- brackets ---


def _with_depth(leaves: Sequence[_Leaf]) -> Iterator[tuple[_Leaf, int]]:
    """Each leaf with the number of brackets around it, those that it is itself aside."""
    depth = 0
    for leaf in leaves:
        depth -= leaf.text in _CLOSING
        yield leaf, depth
        depth += leaf.text in _OPENING


def _closing_of(leaves: Sequence[_Leaf], start: int) -> int:
    depth = 0
    for i in range(start, len(leaves)):
        depth += (leaves[i].text in _OPENING) - (leaves[i].text in _CLOSING)
        if not depth:
            return i
    return len(leaves) - 1


def _opening_of(leaves: Sequence[_Leaf], end: int) -> int:
    depth = 0
    for i in range(end, -1, -1):
        depth += (leaves[i].text in _CLOSING) - (leaves[i].text in _OPENING)
        if not depth:
            return i
    return 0


def _last_brackets(leaves: Sequence[_Leaf]) -> Iterator[int]:
    """Where the brackets of the outermost level open, from the last to the first."""
    found = [i for i, (leaf, depth) in enumerate(_with_depth(leaves)) if leaf.text in _OPENING and not depth]
    yield from reversed(found)
