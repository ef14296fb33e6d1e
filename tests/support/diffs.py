"""Unified diffs in documents: which files they change, and what becomes of a tree that they are applied to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(r"^```diff\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Hunk:
    """Lines of one file, as they are and as they become."""

    path: str
    before: str
    after: str

    def reversed(self) -> Hunk:
        return Hunk(self.path, self.after, self.before)


def diffs_of(document: Path) -> list[list[Hunk]]:
    """The hunks of each diff that a document shows."""
    return [_hunks(text) for text in _BLOCK.findall(document.read_text())]


def _hunks(text: str) -> list[Hunk]:
    found: list[Hunk] = []
    for part in re.split(r"^--- .*\n\+\+\+ ", text, flags=re.MULTILINE)[1:]:
        path, _, rest = part.partition("\n")
        for hunk in re.split(r"^@@.*\n", rest, flags=re.MULTILINE)[1:]:
            lines = [line or " " for line in hunk.splitlines()]
            before = "".join(f"{line[1:]}\n" for line in lines if line[0] != "+")
            after = "".join(f"{line[1:]}\n" for line in lines if line[0] != "-")
            found.append(Hunk(path, before, after))
    return found


def apply(hunks: list[Hunk], root: Path) -> None:
    """Change the files of a tree; AssertionError where a hunk does not fit at one place."""
    for hunk in hunks:
        file = root / hunk.path
        text = file.read_text()
        assert text.count(hunk.before) == 1, (
            f"{hunk.path} has these lines {text.count(hunk.before)} times:\n{hunk.before}"
        )
        file.write_text(text.replace(hunk.before, hunk.after))
