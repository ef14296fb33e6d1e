"""`gradscript export`: a function as a module that needs torch and triton alone, or as C."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ..arguments import arguments_for
from ..console import emit
from ..loading import CliError, find_function, load_unit
from ..options import JSON


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("file", metavar="FILE")
@click.argument("name", metavar="NAME")
@click.option("--policy", default="min_cut", show_default=True, help="What the backward keeps, as `memory` names it.")
@click.option("--shape", "-s", "shapes", multiple=True, metavar="PARAMETER=SIZES", help="As x=64,512 or y=64:int64.")
@click.option("--arg", "-a", "texts", multiple=True, metavar="VALUE", help="An argument, as `run` takes it.")
@click.option("--c", "as_c", is_flag=True, help="A header and a file of C instead.")
@click.option("--out", "-o", metavar="OUT", help="A file, or a folder that is there. Default: print it.")
@JSON
@click.pass_context
def export(
    ctx: click.Context,
    file: str,
    name: str,
    policy: str,
    shapes: tuple[str, ...],
    texts: tuple[str, ...],
    as_c: bool,
    out: str | None,
    as_json: bool,
) -> None:
    """Write one function as a module of its own: Triton kernels, plain torch, an op of torch.library, its test.

    Shapes say how many dimensions tensors have and which sizes are equal; sizes may be any afterwards. Without them
    arguments of likely shapes are found, or taken from NAME_examples. Exit status 0: written, 1: the function cannot be
    exported, 2: something could not be read or written.
    """
    from ...export.c.text import exported_c
    from ...export.exporter import exported
    from ...export.face import values_for

    ctx.meta["gradscript.json"] = as_json
    function = find_function(load_unit(file), name)
    try:
        args, kwargs = arguments_for(function, shapes, texts, "float32") if shapes or texts else ([], {})
        values = values_for(function, tuple(args), kwargs)
        made = exported_c(function, values, policy) if as_c else {f"{name}.py": exported(function, values, policy)}
    except ValueError as error:
        raise CliError(str(error)) from error
    written = [str(path) for path in _write(made, out)] if out is not None else []
    if as_json:
        click.echo(json.dumps({"files": written} if written else {"texts": made}, indent=2))
    elif written:
        emit("\n".join(written))
    else:
        click.echo("\n".join(made.values()), nl=False)


def _write(made: dict[str, str], out: str) -> list[Path]:
    """The files: in a folder under their names, else under that of OUT with their endings."""
    target = Path(out)
    try:
        if out.endswith("/"):
            target.mkdir(parents=True, exist_ok=True)
        found = []
        for own, text in made.items():
            path = (
                target / own if target.is_dir() else target.with_suffix(Path(own).suffix) if len(made) > 1 else target
            )
            path.write_text(text, encoding="utf-8")
            found.append(path)
    except OSError as error:
        raise CliError(f"cannot write to {out}: {error.strerror}") from error
    return found
