"""Text → tokens: words by one regular expression, brackets matched on the way, layout by `layout.py`."""

from __future__ import annotations

import re
import unicodedata
from itertools import islice

from ..diagnostics import MAX_DIAGNOSTICS, Diagnostics
from ..source import Source, Span
from .characters import describe_character, string_prefix_problem
from .fstrings import scan_fstring
from .layout import Indentation, UnreadableError
from .tokens import BRACKETS, END, ERROR, KEYWORDS, LAYOUT, STATEMENT_KEYWORDS, WORD, Token

MAX_BRACKETS = 50_000
"""Brackets open at once. Far beyond what people write; it bounds the work on hostile text."""

MAX_MISTAKES = 1_000
"""Mistakes in the tokens, reported or not, after which the text is taken for something else than source."""

_LEADING = re.compile(r"(?:[ \t\f]*+(?:#[^\r\n]*+)?(?:\r\n?|\n)|(?!))*+(?P<indentation>[ \t\f]*+)")
_WORD = re.compile(r"\w*+")
_ILLEGAL = re.compile("[\0\ud800-\udfff]")
_LINE_END = re.compile(r"[\r\n]|\Z")


def scan(source: Source, diagnostics: Diagnostics) -> list[Token]:
    """All tokens of the source, ending with END. What is no token is reported; nothing is raised."""
    return Scanner(source, diagnostics).run()


class Scanner:
    def __init__(self, source: Source, diagnostics: Diagnostics) -> None:
        self.source = source
        self.diagnostics = diagnostics
        self.tokens: list[Token] = []
        self.open: list[int] = []
        """Indices of the tokens of the brackets open here."""
        self.unclosed: set[int] = set()
        """Offsets of the brackets that are known never to close. They are read as if they did not open."""
        self.reported_lines: set[int] = set()
        self.mistakes = 0

    def run(self) -> list[Token]:
        text = self.source.text
        leading = _LEADING.match(text, 1 if text.startswith("\ufeff") else 0)
        assert leading is not None
        position = leading.end()
        self.layout = Indentation(self.source, self.diagnostics, leading["indentation"].rpartition("\f")[2])
        try:
            for illegal in islice(_ILLEGAL.finditer(text), MAX_DIAGNOSTICS):
                self.report("E001", *describe_character(illegal[0]), start=illegal.start(), end=illegal.end())
            position = self.words(position)
        except UnreadableError:
            read = self.tokens[-1].end if self.tokens else position
            position = max(read, self.diagnostics.found[-1].span.start)
        kinds = list(self.layout.finish()) if self.tokens else []
        if kinds and self.tokens[-1].kind in LAYOUT:
            del kinds[0]
        self.tokens += [Token(kind, "", position, position) for kind in [*kinds, END]]
        return self.tokens

    def words(self, position: int) -> int:
        """Append the tokens from `position` to the end of the text."""
        text, match = self.source.text, WORD.match
        while True:
            found = match(text, position)
            assert found is not None
            group = found.lastgroup
            assert group is not None
            word = found[group]
            start, position = found.span(group)
            if group == "word":
                if word in KEYWORDS:
                    self.tokens.append(Token(word, word, start, position))
                elif word.isascii():
                    self.tokens.append(Token("NAME", word, start, position))
                else:
                    self.foreign_word(word, start)
            elif group == "operator":
                self.tokens.append(Token(word, word, start, position))
            elif group == "number":
                self.tokens.append(Token("NUMBER", word, start, position))
            elif group == "end":
                if not self.open:
                    self.check_end(found.start(), position)
                    return position
                position = self.reopen()
            else:
                position = getattr(self, group)(word, start, position)

    def string(self, word: str, start: int, end: int) -> int:
        problem = string_prefix_problem(word)
        if problem is not None:
            self.report("E102", *problem, start=start, end=end)
        if "f" in word[:2].lower().partition("'")[0].partition('"')[0]:
            scan_fstring(self, word, start, end)
        else:
            self.tokens.append(Token("STRING", word, start, end))
        return end

    def opening(self, word: str, start: int, end: int) -> int:
        if start not in self.unclosed:
            if len(self.open) >= MAX_BRACKETS:
                span, note = Span(self.source, start, end), "give the inner parts names in statements of their own"
                self.diagnostics.report("E004", f"more than {MAX_BRACKETS} brackets are open", span, note)
                raise UnreadableError
            self.open.append(len(self.tokens))
        self.tokens.append(Token(word, word, start, end))
        return end

    def closing(self, word: str, start: int, end: int) -> int:
        self.tokens.append(Token(word, word, start, end))
        if self.open and BRACKETS[self.tokens[self.open[-1]].kind] == word:
            self.open.pop()
        elif self.open:
            self.close_another(word, start, end)
        elif word != "}":
            # Where braces stand for blocks, the parser has more to say.
            self.report("E101", f"'{word}' closes nothing", "remove it, or add what it closes", start=start, end=end)
        return end

    def close_another(self, word: str, start: int, end: int) -> None:
        """The innermost bracket closes otherwise: a bracket around it ends here, or this one was mistyped."""
        nearest = self.open[-20:]
        pairs = [index for index in nearest if BRACKETS[self.tokens[index].kind] == word]
        if pairs:
            for index in reversed(nearest[nearest.index(pairs[-1]) + 1 :]):
                self.never_closed(self.tokens[index])
            del self.open[nearest.index(pairs[-1]) - len(nearest) :]
            return
        opened = self.tokens[self.open.pop()]
        line, _ = self.source.position(opened.start)
        note = f"'{opened.text}' on line {line} closes with '{BRACKETS[opened.text]}'"
        self.report("E003", f"'{word}' does not match '{opened.text}'", note, start=start, end=end)

    def newline(self, word: str, start: int, end: int) -> int:
        if self.open:
            following = _WORD.match(self.source.text, end)
            assert following is not None
            return self.reopen() if following[0] in STATEMENT_KEYWORDS else end
        if end == len(self.source.text) or not self.tokens or self.tokens[-1].kind in LAYOUT:
            return end
        for kind in self.layout.line(end, self.indentation(end)):
            self.tokens.append(Token(kind, "", start, start))
        return end

    def reopen(self) -> int:
        """Every open bracket was left open: report them, and go back to read the lines that they swallowed."""
        first = self.open[0]
        for index in reversed(self.open):
            self.never_closed(self.tokens[index])
            self.unclosed.add(self.tokens[index].start)
        position = self.tokens[first].start
        del self.tokens[first:]
        self.open.clear()
        return position

    def never_closed(self, bracket: Token) -> None:
        if bracket.text == "{":
            return
        note = f"add '{BRACKETS[bracket.text]}' where it should end"
        self.report("E003", f"'{bracket.text}' was never closed", note, start=bracket.start, end=bracket.end)

    def unfinished(self, word: str, start: int, end: int) -> int:
        if len(word) == 3:
            end, note = len(self.source.text), f"it ends at the next {word}"
        else:
            end, note = self.line_end(start), f'add {word} at its end; a string over several lines starts with """'
        self.report("E003", "this string is never closed", note, start=start, end=end)
        self.tokens.append(Token(ERROR, word, start, end))
        return end

    def foreign_word(self, word: str, start: int) -> None:
        """A name with letters beyond ASCII; it is the same name in any of its Unicode spellings, as in Python."""
        name = unicodedata.normalize("NFKC", word)
        if word.isidentifier() and name not in KEYWORDS:
            self.tokens.append(Token("NAME", name, start, start + len(word)))
            return
        self.tokens.append(Token(ERROR, word, start, start + len(word)))
        bad = next((i for i, c in enumerate(word) if not c.isascii() and not ("a" + c).isidentifier()), 0)
        self.report("E001", *describe_character(word[bad]), start=start + bad, end=start + bad + 1)

    def other(self, word: str, start: int, end: int) -> int:
        self.tokens.append(Token(ERROR, word, start, end))
        if word == "\\":
            note = "remove what follows it on the line, spaces included"
            self.report("E101", "a line continuation ends its line", note, start=start, end=end)
        else:
            self.report("E001", *describe_character(word[0]), start=start, end=start + 1)
        return end

    def check_end(self, start: int, end: int) -> None:
        """A continuation needs a line to continue on."""
        blank = self.source.text[start:end].partition("#")[0]
        if "\\" in blank:
            offset = start + blank.index("\\")
            self.report("E101", "nothing follows this line continuation", "remove it", start=offset, end=offset + 1)

    def report(self, code: str, message: str, *notes: str, start: int, end: int) -> None:
        """Report a finding, unless the line has one: what follows a mistake on its line is rarely a second one."""
        self.mistakes += 1
        if self.mistakes > MAX_MISTAKES or len(self.diagnostics.found) >= MAX_DIAGNOSTICS:
            raise UnreadableError
        line, _ = self.source.position(start)
        if line not in self.reported_lines:
            self.reported_lines.add(line)
            self.diagnostics.report(code, message, Span(self.source, start, end), *notes)

    def indentation(self, position: int) -> str:
        """The white space that ends at the offset and begins its line."""
        start = position
        while start and self.source.text[start - 1] in " \t\f":
            start -= 1
        return self.source.text[start:position].rpartition("\f")[2]

    def line_end(self, position: int) -> int:
        found = _LINE_END.search(self.source.text, position)
        assert found is not None
        return found.start()
