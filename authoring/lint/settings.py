"""What a project wants to be told: `[tool.gradscript.lint]` in its pyproject.toml, with the keys that ruff has."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ...lang.diagnostics import nearest
from ...lang.light_dataclasses import dataclass, field
from .findings import CODES

KEYS = ("select", "ignore", "per-file-ignores", "exclude")
"""What the table may have; each also with `extend-` before it, which means the same here."""


@dataclass(frozen=True)
class LintSettings:
    """Which codes are told of which files.

    `select` and `ignore` are codes or what codes begin with; the longer one wins, `ignore` where they are as long.
    `per_file_ignores` has codes by patterns of files, `exclude` patterns of files and folders that are not gone into:
    globs of a name, or of a path from `folder`.
    """

    select: tuple[str, ...] = ("ALL",)
    ignore: tuple[str, ...] = ()
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    exclude: tuple[str, ...] = ()
    folder: Path = Path()

    def tells(self, code: str, path: str | Path = "") -> bool:
        """Whether a code is told of a file."""
        chosen = max((len(start) for start in map(_start, self.select) if code.startswith(start)), default=-1)
        left = max((len(start) for start in map(_start, self.ignore) if code.startswith(start)), default=-1)
        return chosen > left and not any(code.startswith(_start(name)) for name in self._ignored_in(path))

    def leaves_out(self, path: str | Path) -> bool:
        """Whether a file of a folder is not looked at: it, or a folder around it, is excluded."""
        whole = Path(os.path.abspath(path))
        places = [place for place in (whole, *whole.parents) if self.folder in place.parents] or [whole]
        return any(_fits(pattern, self.folder, place) for pattern in self.exclude for place in places)

    def _ignored_in(self, path: str | Path) -> Iterator[str]:
        for pattern, codes in self.per_file_ignores.items() if path else ():
            if _fits(pattern.removeprefix("!"), self.folder, Path(os.path.abspath(path))) != pattern.startswith("!"):
                yield from codes

    def with_options(self, select: Iterable[str], ignore: Iterable[str], exclude: Iterable[str]) -> LintSettings:
        """These, and what a command line says: what it selects takes the place of what the file selects and ignores."""
        chosen, left = named_codes(select, "--select"), named_codes(ignore, "--ignore")
        ignored = left if chosen else (*self.ignore, *left)
        return LintSettings(
            chosen or self.select, ignored, self.per_file_ignores, (*self.exclude, *exclude), self.folder
        )


def configured(folder: str | Path) -> LintSettings:
    """The settings of the nearest pyproject.toml with a table of ours, in a folder or above it.

    ValueError for a file or a table that does not read.
    """
    place = Path(os.path.abspath(folder))
    for parent in (place, *place.parents):
        file = parent / "pyproject.toml"
        if not file.is_file():
            continue
        try:
            tools = tomllib.loads(file.read_text(encoding="utf-8")).get("tool", {})
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
            raise ValueError(f"{file}: {error}") from None
        if isinstance(tools, dict) and "gradscript" in tools:
            return _read(tools["gradscript"], file)
    return LintSettings(folder=place)


def named_codes(codes: Iterable[str], where: str) -> tuple[str, ...]:
    """Codes and what they begin with, several to a text too; ValueError for what begins none."""
    found = tuple(name for text in codes for name in re.split(r"[\s,]+", text.strip()) if name)
    for name in found:
        if not any(code.startswith(_start(name)) for code in CODES):
            hint = nearest(name, CODES)
            raise ValueError(f"{where}: there is no code '{name}'{hint}")
    return found


def _read(tool: Any, file: Path) -> LintSettings:
    table = tool.get("lint", {}) if isinstance(tool, dict) else tool
    where = f"{file}: tool.gradscript.lint"
    if not isinstance(table, dict):
        raise ValueError(f"{where} is a table")
    found: dict[str, Any] = {}
    for key, value in table.items():
        own = key.removeprefix("extend-")
        if own not in KEYS:
            hint = nearest(key, KEYS) or f"; it has {', '.join(KEYS)}"
            raise ValueError(f"{where} has no key '{key}'{hint}")
        if own == "per-file-ignores":
            if not isinstance(value, dict):
                raise ValueError(f'{where}.{key} is a table of codes by pattern: {{ "*_test.grad" = ["L102"] }}')
            read = {
                pattern: named_codes(_texts(codes, f"{where}.{key}"), f"{where}.{key}")
                for pattern, codes in value.items()
            }
            found[own] = {**found.get(own, {}), **read}
        else:
            texts = _texts(value, f"{where}.{key}")
            read_codes = tuple(texts) if own == "exclude" else named_codes(texts, f"{where}.{key}")
            found[own] = (*found.get(own, ()), *read_codes)
    return LintSettings(
        found.get("select", ("ALL",)),
        found.get("ignore", ()),
        found.get("per-file-ignores", {}),
        found.get("exclude", ()),
        file.parent,
    )


def _texts(value: Any, where: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError(f"{where} is a list of strings")
    return value


def _start(name: str) -> str:
    return "" if name.upper() == "ALL" else name.upper()


def _fits(pattern: str, folder: Path, place: Path) -> bool:
    from_folder = os.path.normpath(folder / pattern)
    return bool(_glob(pattern).fullmatch(place.name) or _glob(from_folder).fullmatch(str(place)))


@cache
def _glob(pattern: str) -> re.Pattern[str]:
    """A pattern as a regular expression: `*` stays in its folder, `**` does not."""
    parts = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    pieces = re.split(r"(\*\*/|\*\*|\*|\?|\[[^\]]+\])", pattern)
    return re.compile("".join(parts.get(p, p if p[:1] == "[" else re.escape(p)) for p in pieces), re.DOTALL)
