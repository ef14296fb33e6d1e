"""Text in, text out: each file in golden/ is named after a pass, lies in its room, and holds graphs before and after.

`REWRITE_GOLDENS=1 python -m pytest tests/passes` writes the results in place of what is expected.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from gradscript.compiler.ir.verify import verify
from gradscript.compiler.parse_ir import parse_ir
from gradscript.compiler.pipeline import PASSES

FOLDER = Path(__file__).parent / "golden"
PATHS = {path.stem: path for path in sorted(FOLDER.rglob("*.ir"))}
CASES = [(name, i) for name, path in PATHS.items() for i in range(path.read_text().count("\n## ") + 1)]


def _cases(path: Path) -> list[tuple[str, str, str]]:
    """Title, graph before and graph after; `unchanged` stands for the same graph."""
    found = []
    for section in path.read_text().removeprefix("## ").split("\n## "):
        title, _, body = section.partition("\n")
        before, _, after = body.partition("# after\n")
        found.append((title, before.strip("\n") + "\n", after.strip("\n") + "\n"))
    return found


def _write(path: Path, cases: list[tuple[str, str, str]]) -> None:
    path.write_text("\n".join(f"## {title}\n{before}# after\n{after}" for title, before, after in cases))


@pytest.mark.parametrize(("name", "index"), CASES)
def test_golden(name: str, index: int) -> None:
    path = PATHS[name]
    cases = _cases(path)
    title, before, after = cases[index]
    graph = parse_ir(before)
    changed = PASSES[name](graph)
    verify(graph)
    result = str(graph) if changed else "unchanged\n"
    assert changed or str(graph) == str(parse_ir(before))
    if os.environ.get("REWRITE_GOLDENS"):
        cases[index] = (title, str(parse_ir(before)), result)
        _write(path, cases)
    else:
        assert result == after, title


def test_every_pass_has_goldens() -> None:
    assert set(PATHS) == set(PASSES) - {"inline_functions"}
    rooms = {name: PASSES[name].__module__.split("passes.")[1].split(".")[:-1] for name in PATHS}
    assert all(list(path.relative_to(FOLDER).parts[:-1]) == rooms[name] for name, path in PATHS.items())
