"""Tokens: what they are, and the one regular expression that finds words. Why `| (?!)`: lang/patterns.py says it."""

from __future__ import annotations

import re
from keyword import kwlist

KEYWORDS = frozenset(kwlist)
"""Python's keywords. Those the grammar does not know are refused by the parser, which then says what to write."""

STATEMENT_KEYWORDS = KEYWORDS - {
    *("True", "False", "None", "and", "or", "not", "in", "is", "if", "else", "for"),
    *("lambda", "await", "async", "yield", "from", "as"),
}
"""Keywords that no bracket can contain: one of them at the start of a line means that a bracket was left open."""

WORD = re.compile(
    r"""
    [ \t\f]*+ (?: \\(?:\r\n?|\n) [ \t\f]*+ | (?!) )*+ (?: \#[^\r\n]*+ )?
    (?: (?P<string>
            (?: [rRuUbBfF] | [rR][bBfF] | [bBfF][rR] )?
            (?: '''   [^'\\]*+ (?: (?: \\. | '(?!'') ) [^'\\]*+ | (?!) )*+ '''
              | \"""  [^"\\]*+ (?: (?: \\. | "(?!"") ) [^"\\]*+ | (?!) )*+ \"""
              | '(?!'')  [^'\\\r\n]*+ (?: \\(?:\r\n|.) [^'\\\r\n]*+ | (?!) )*+ '
              | "(?!"")  [^"\\\r\n]*+ (?: \\(?:\r\n|.) [^"\\\r\n]*+ | (?!) )*+ "
            )
        )
      | (?P<word> [^\W\d]\w*+ )
      | (?P<number> 0[xX]\w*+ | \.?[0-9] (?: [eE][+-]?[0-9] | [\w.] | (?!) )*+ )
      | (?P<operator>
            \.\.\. | \*\*=? | //=? | >>=? | <<=? | -> | := | [-+*/%@&|^=!<>]= | [-+*/%@&|^~=<>,:;.]
        )
      | (?P<opening> [(\[{] )
      | (?P<closing> [)\]}] )
      | (?P<newline> (?: (?:\r\n?|\n) [ \t\f]*+ (?: \#[^\r\n]*+ )? | (?!) )++ )
      | (?P<unfinished> ''' | \""" | ['"] )
      | (?P<end> \Z )
      | (?P<other> [^\w\s'"()\[\]{}+\-*/%@&|^~=<>,:;.\\#]++ | . )
    )
    """,
    re.VERBOSE | re.DOTALL,
)

BRACKETS = {"(": ")", "[": "]", "{": "}"}


class Token:
    """A word of the text. `kind` is the text itself for keywords and punctuation, else a name in capitals.

    The kinds are those of the grammar's terminals, END for the end of the text and ERROR for what is no token.
    """

    __slots__ = ("end", "kind", "start", "text")

    def __init__(self, kind: str, text: str, start: int, end: int) -> None:
        self.kind = kind
        self.text = text
        self.start = start
        self.end = end

    def __repr__(self) -> str:
        return f"Token({self.kind!r}, {self.text!r}, {self.start}, {self.end})"


LAYOUT = frozenset(("NEWLINE", "INDENT", "DEDENT"))
"""Kinds of the tokens that stand for white space."""

END = "$END"
"""Kind of the last token; the name is Lark's."""

ERROR = "ERROR"
"""Kind of a token that has been reported and that the grammar never accepts."""
