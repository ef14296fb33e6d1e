"""The ops of the language as a list: signature, and the file of the formula that differentiates it."""

from __future__ import annotations

import json
import re
from typing import Any

import click

from ....compiler.formulas.library import formulas_named
from ....compiler.ops.registry import OPS, Op, Trait
from ....lang.diagnostics import nearest
from ....stdlib_grads import formula_files
from ..console import emit
from ..loading import CliError
from ..options import JSON, NAME
from ..reference import describe_op


@click.command()
@NAME
@JSON
def ops(name: str | None, as_json: bool) -> None:
    """List the ops of the language with the file of each formula; with NAME, all about one."""
    if name is not None and not as_json:
        emit(describe_op(name), "python")
        return
    found = catalogue(name)
    if as_json:
        click.echo(json.dumps({"ops": found}, indent=2))
        return
    width = max(len(entry["formula"] or "-") for entry in found)
    emit("\n".join(f"{entry['formula'] or '-':<{width}}  {entry['signature']}" for entry in found))


def catalogue(name: str | None = None) -> list[dict[str, Any]]:
    """Every op of the language, or the overloads of one; CliError for an unknown name."""
    if name is None:
        found = sorted(OPS.all(), key=lambda op: op.schema.full_name)
    else:
        base = name.rpartition("::")[2].partition(".")[0].removeprefix("torch")
        found = list(OPS.overloads(base))
        if not found:
            hint = nearest(base, OPS.names())
            raise CliError(f"there is no op '{name}'{hint}")
    files = _files_by_formula()
    return [_entry(op, files) for op in found]


def _entry(op: Op, files: dict[str, str]) -> dict[str, Any]:
    names = formulas_named(op.schema.base_name)
    formula = files.get(names[0]) if names and not op.has(Trait.NONDIFFERENTIABLE) else None
    return {"name": op.schema.full_name, "signature": str(op.schema), "formula": formula}


def _files_by_formula() -> dict[str, str]:
    """The file of each formula."""
    pattern = re.compile(r"^def (\w+)\(", re.MULTILINE)
    return {match: file for file, text in formula_files().items() for match in pattern.findall(text)}
