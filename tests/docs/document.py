"""Markdown documents whose code runs.

    ```python               run; a ```text block right below it is what it prints
    ```python mul.grad      source in the language, kept as that file and compiled as `cu`; a ```text block right below
                            it is the error that compiling it gives
    ```console              `$ gradscript …` lines, run; below each stands what it prints, and `…` for lines left out
                            at the end. Other commands are shown only

The blocks of a document share their names and a folder.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gradscript as gs

_BLOCK = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_CUT = "…\n"
_ERROR = re.compile(r"\b\d\.\de[-+]\d\d\b")
"""A measured error, as a check prints it: one that differs is no difference."""


@dataclass(frozen=True)
class Block:
    """A fenced block: the words after the fence, its text, and where that stands in the document."""

    info: str
    body: str
    start: int
    end: int
    line: int

    @property
    def language(self) -> str:
        return self.info.partition(" ")[0]

    @property
    def filename(self) -> str:
        return self.info.partition(" ")[2]


def blocks_of(text: str) -> list[Block]:
    return [
        Block(m["info"].strip(), m["body"], m.start("body"), m.end("body"), text.count("\n", 0, m.start("body")) + 1)
        for m in _BLOCK.finditer(text)
    ]


@dataclass
class Run:
    """Running a document: what each block that shows output should show, by its place in the text."""

    text: str
    folder: Path
    names: dict[str, Any] = field(default_factory=dict)
    shown: list[tuple[Block, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.names |= {"__name__": "document", "gs": gs}
        blocks = blocks_of(self.text)
        for block, following in zip(blocks, [*blocks[1:], None], strict=False):
            self._run(block, self._output_of(block, following))

    def _output_of(self, block: Block, following: Block | None) -> Block | None:
        if following is None or following.info != "text":
            return None
        between = self.text[block.end : following.start].removeprefix("```")
        return following if between.strip() == "```text" else None

    def _run(self, block: Block, output: Block | None) -> None:
        if block.info == "python":
            self._show(output, self._python(block))
        elif block.language == "python":
            self._show(output, self._source(block, fails=output is not None))
        elif block.info == "console":
            self.shown.append((block, self._console(block)))

    def _show(self, output: Block | None, printed: str) -> None:
        if output is not None:
            self.shown.append((output, printed))

    def _python(self, block: Block) -> str:
        printed = io.StringIO()
        code = compile("\n" * block.line + block.body, "document", "exec")
        with contextlib.redirect_stdout(printed):
            exec(code, self.names)
        return printed.getvalue()

    def _source(self, block: Block, fails: bool) -> str:
        (self.folder / block.filename).write_text(block.body, encoding="utf-8")
        try:
            self.names["cu"] = gs.CompilationUnit(block.body, block.filename)
        except gs.CompileError as error:
            if not fails:
                raise
            return f"{error}\n"
        assert not fails, f"{block.filename} was expected not to compile"
        return ""

    def _console(self, block: Block) -> str:
        parts = re.split(r"^(\$ .*\n)", block.body, flags=re.MULTILINE)
        text = parts[0]
        for prompt, shown in zip(parts[1::2], parts[2::2], strict=True):
            text += prompt + self._command(prompt[2:].strip(), shown)
        return text

    def _command(self, command: str, shown: str) -> str:
        words = shlex.split(command)
        if words[0] != "gradscript":
            return shown
        environment = {**os.environ, "COLUMNS": "110", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}
        done = subprocess.run(
            [sys.executable, "-m", *words],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=300,
        )
        return _cut_like(shown, "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines()))


def _cut_like(shown: str, printed: str) -> str:
    """The output, cut after as many lines where the document leaves lines out."""
    if not shown.endswith(_CUT):
        return printed
    kept = shown.count("\n") - 1
    return "".join(printed.splitlines(keepends=True)[:kept]) + _CUT


def rewritten(run: Run) -> str:
    """The document with every shown output replaced by the real one."""
    text = run.text
    for block, output in sorted(run.shown, key=lambda shown: shown[0].start, reverse=True):
        if _ERROR.sub("", output) != _ERROR.sub("", block.body):
            text = text[: block.start] + output + text[block.end :]
    return text
