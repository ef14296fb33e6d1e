"""What a check found, for machines: SARIF 2.1.0, and the lines that GitHub makes annotations of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from ...lang.light_dataclasses import dataclass
from ..trials.report import KINDS
from .checking import CheckedFile, diagnostic_dict

SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


@dataclass(frozen=True, slots=True)
class Found:
    """One finding of any sort, with its place."""

    level: str
    """ "error" or "warning"."""
    rule: str
    title: str
    message: str
    file: str
    place: dict[str, Any] | None
    """line, column, end_line, end_column."""


def findings(files: Sequence[CheckedFile]) -> Iterator[Found]:
    """Every failure and warning, every diagnostic, and what could not be read."""
    for file in files:
        if file.problem:
            yield Found("error", "unreadable", "cannot run", file.problem, file.path, None)
        for diagnostic in map(diagnostic_dict, file.diagnostics):
            message = "\n".join([diagnostic["message"], *diagnostic["notes"]])
            yield Found("error", diagnostic["code"], "does not compile", message, diagnostic["file"], diagnostic)
        for checked in file.checked:
            for level, group in (("error", "failures"), ("warning", "warnings")):
                for failure in checked.data[group]:
                    message = "\n".join([failure["message"], *failure["notes"]])
                    span = failure["span"]
                    where = span["file"] if span is not None else file.path
                    yield Found(level, failure["kind"], f"gradient of {checked.name}", message, where, span)


def github(files: Sequence[CheckedFile]) -> list[str]:
    """Workflow commands, a line for each finding."""
    lines = []
    for found in findings(files):
        properties = {"file": found.file}
        if found.place is not None:
            columns = {"line": "line", "endLine": "end_line", "col": "column", "endColumn": "end_column"}
            properties |= {name: str(found.place[key]) for name, key in columns.items()}
        properties["title"] = f"{found.title} ({found.rule})"
        shown = ",".join(f"{name}={_escaped(value, property=True)}" for name, value in properties.items())
        lines.append(f"::{found.level} {shown}::{_escaped(found.message)}")
    return lines


def _escaped(text: str, *, property: bool = False) -> str:
    for plain, escaped in (("%", "%25"), ("\r", "%0D"), ("\n", "%0A")):
        text = text.replace(plain, escaped)
    return text.replace(":", "%3A").replace(",", "%2C") if property else text


def sarif(files: Sequence[CheckedFile], version: str) -> dict[str, Any]:
    """A log of one run."""
    found = list(findings(files))
    rules = [
        {"id": rule, "shortDescription": {"text": KINDS.get(rule, rule)}} for rule in sorted({f.rule for f in found})
    ]
    driver = {"name": "gradscript", "version": version, "rules": rules}
    return {
        "$schema": SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "columnKind": "unicodeCodePoints",
                "invocations": [{"executionSuccessful": all(file.could_run for file in files)}],
                "results": [_sarif_result(one) for one in found],
            }
        ],
    }


def _sarif_result(found: Found) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": {"uri": quote(found.file.replace("\\", "/"))}}
    if found.place is not None:
        keys = {"startLine": "line", "startColumn": "column", "endLine": "end_line", "endColumn": "end_column"}
        physical["region"] = {name: found.place[key] for name, key in keys.items()}
    return {
        "ruleId": found.rule,
        "level": found.level,
        "message": {"text": found.message},
        "locations": [{"physicalLocation": physical}],
    }
