"""`gradscript run`: one function on arguments that the command line gives."""

from __future__ import annotations

import json

import click

from ....runtime.settings.modes import by_ops_unless_asked
from ..console import emit
from ..loading import find_function, load_unit
from ..options import FILE, JSON
from ..values import describe_results, parse_arguments, results_as_data, run_function, save


@click.command(context_settings={"ignore_unknown_options": True})
@FILE
@click.argument("name", metavar="NAME")
@click.option("--arg", "-a", "texts", multiple=True, metavar="VALUE", help="An argument: VALUE, or PARAMETER=VALUE.")
@click.option("--grad", is_flag=True, help="Print the gradients too, for output gradients of ones.")
@click.option("--out", metavar="FILE.npy", help="Write the result, one array, to a file.")
@JSON
@click.pass_context
def run(
    ctx: click.Context, file: str, name: str, texts: tuple[str, ...], grad: bool, out: str | None, as_json: bool
) -> None:
    """Run one function on arguments and print what it returns.

    A VALUE is a .npy file, a number, True, False, None, a quoted string, or a list. Where a tensor is taken, numbers
    and nested lists become float64 arrays (bool for True and False); `[0, 2]:int64` names another dtype.
    """
    ctx.meta["gradscript.json"] = as_json
    function = find_function(load_unit(file), name)
    args, named = parse_arguments(function.schema, texts)
    # It runs once.
    with by_ops_unless_asked():
        outputs, gradients = run_function(function, args, named, grad=grad)
    if out is not None:
        save(out, outputs)
    names = [argument.name for argument in function.schema.arguments]
    if as_json:
        click.echo(json.dumps(results_as_data(outputs, gradients, names), indent=2))
    else:
        emit(describe_results(outputs, gradients, names))
