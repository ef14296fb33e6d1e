"""`gradscript memory`: the report for arguments that the command line describes."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click

from ...runtime.face.function import Function
from ...runtime.memory.report import Report
from .arguments import arguments_for
from .console import emit
from .loading import CliError, find_function, load_unit
from .options import DTYPE, FILE, JSON, SHAPES, TEXTS


@click.command(context_settings={"ignore_unknown_options": True})
@FILE
@click.argument("name", metavar="NAME")
@SHAPES
@TEXTS
@DTYPE
@click.option("--policy", default="min_cut", show_default=True, help="One of those compared, or budget=BYTES.")
@click.option("--plot", metavar="FILE", help="Draw live memory over time to a .svg or .png file.")
@JSON
@click.pass_context
def memory(
    ctx: click.Context,
    file: str,
    name: str,
    shapes: tuple[str, ...],
    texts: tuple[str, ...],
    dtype: str,
    policy: str,
    plot: str | None,
    as_json: bool,
) -> None:
    """Run one function forward and backward, and print what it saves between the two, why, and its peak memory.

    Arrays are drawn in the shapes that are given; arguments that are not given are searched for, as `check` does, or
    taken from NAME_examples.
    """
    ctx.meta["gradscript.json"] = as_json
    report = report_on(find_function(load_unit(file), name), shapes, texts, dtype, policy)
    if plot is not None:
        from .timeline import save_plot

        save_plot(report, plot)
    click.echo(json.dumps(report.to_dict(), indent=2)) if as_json else emit(str(report))


def report_on(
    function: Function, shapes: Sequence[str], texts: Sequence[str], dtype: str, policy: str, seed: int = 0
) -> Report:
    """The memory report for arguments as `arguments_for` reads them. CliError for what does not read."""
    args, kwargs = arguments_for(function, shapes, texts, dtype, seed)
    try:
        return function.memory(*args, policy=policy, **kwargs)
    except ValueError as error:
        raise CliError(str(error)) from error
