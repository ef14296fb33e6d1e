"""`gradscript memory`: the report for arguments that the command line describes."""

from __future__ import annotations

import json

import click

from ....runtime.memory.report import Report
from ..console import emit
from ..described import DescribedCall, on_described_call
from ..loading import CliError


@on_described_call
@click.option("--policy", default="min_cut", show_default=True, help="One of those compared, or budget=BYTES.")
@click.option("--plot", metavar="FILE", help="Draw live memory over time to a .svg or .png file.")
def memory(call: DescribedCall, policy: str, plot: str | None, as_json: bool) -> None:
    """Run one function forward and backward, and print what it saves between the two, why, and its peak memory.

    Arrays are drawn in the shapes that are given; arguments that are not given are searched for, as `check` does, or
    taken from NAME_examples.
    """
    report = report_on(call, policy)
    if plot is not None:
        from ..timeline import save_plot

        save_plot(report, plot)
    click.echo(json.dumps(report.to_dict(), indent=2)) if as_json else emit(str(report))


def report_on(call: DescribedCall, policy: str) -> Report:
    """The memory report. CliError for arguments that do not read, and for a policy that is none."""
    args, kwargs = call.arguments()
    try:
        return call.function.memory(*args, policy=policy, **kwargs)
    except ValueError as error:
        raise CliError(str(error)) from error
