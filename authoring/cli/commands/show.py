"""`gradscript show`: the stages of compilation, and kernels, as text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ....lang.light_dataclasses import asdict
from ..console import emit
from ..loading import CliError, find_function, load_unit
from ..options import DTYPE, FILE, JSON, NAME, SHAPES, TEXTS

if TYPE_CHECKING:
    from ....runtime.face.function import Function

KERNEL_STAGES = ("kernels", "triton", "c", "ptx")
DEFAULT_TARGET = "sm_90"
STAGES = ("source", "ast", "ir", "closure", "lifted", "gradient", "optimized", *KERNEL_STAGES)
LANGUAGES = {"source": "python", "closure": "python", "lifted": "python", "triton": "python", "c": "c"}


class _Target(click.types.StringParamType):
    """A GPU that Triton compiles for; the names are loaded when one is given."""

    name = "target"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value != DEFAULT_TARGET:
            from ....runtime.kernels.triton.compile import TARGETS

            if value not in TARGETS:
                self.fail(f"{value!r} is not one of {', '.join(TARGETS)}", param, ctx)
        return value


@click.command(context_settings={"ignore_unknown_options": True})
@FILE
@NAME
@click.option("--stage", type=click.Choice(STAGES), help="Default: lifted, or source where there is no backward.")
@SHAPES
@TEXTS
@DTYPE
@click.option("--target", type=_Target(), default=DEFAULT_TARGET, show_default=True, help="What ptx is for.")
@click.option("--dump-passes", is_flag=True, help="Print the graph after each pass that changes it.")
@click.option("--time-passes", is_flag=True, help="Print how long each pass takes.")
@JSON
@click.pass_context
def show(
    ctx: click.Context,
    file: str,
    name: str | None,
    stage: str | None,
    shapes: tuple[str, ...],
    texts: tuple[str, ...],
    dtype: str,
    target: str,
    dump_passes: bool,
    time_passes: bool,
    as_json: bool,
) -> None:
    """Print one stage of compilation, of one function or of all in FILE (- is standard input).

    Kernels are those of both passes for arguments of the shapes that are given; arguments that are not given are
    searched for, as `check` does, or taken from NAME_examples. Only ptx needs Triton, and none a GPU.
    """
    ctx.meta["gradscript.json"] = as_json
    unit = load_unit(file)
    functions = [find_function(unit, name)] if name is not None else list(unit.functions.values())
    if dump_passes or time_passes:
        shown = list(_pass_texts(functions, stage, dump_passes, time_passes))
    elif stage in KERNEL_STAGES:
        if name is None and (shapes or texts):
            raise CliError("--shape and --arg are of one function: name it")
        shown = list(_kernel_texts(functions, stage, shapes, texts, dtype, target))
    else:
        shown = [_Shown(*item, {}) for item in _texts(functions, stage, alone=name is not None)]
    if as_json:
        found = [{"name": s.name, "stage": s.stage, "text": s.text, **s.data} for s in shown]
        click.echo(json.dumps({"file": file, "functions": found}, indent=2))
        return
    for i, s in enumerate(shown):
        heading = (
            f"# {s.name}\n"
            if len(shown) > 1 and s.stage in ("closure", "lifted", "optimized", "passes", *KERNEL_STAGES)
            else ""
        )
        emit(("\n" if i else "") + heading + s.text.rstrip("\n"), LANGUAGES.get(s.stage))


class _Shown(NamedTuple):
    name: str
    stage: str
    text: str
    data: dict[str, Any]


def _texts(functions: Iterable[Function], stage: str | None, *, alone: bool) -> Iterable[tuple[str, str, str]]:
    """(name, stage, text) of each function that has the stage."""
    reasons = []
    found = 0
    for function in functions:
        wanted = stage or ("lifted" if function.pair is not None else "source")
        try:
            text = function.show(wanted)
        except ValueError as error:
            reasons.append(str(error))
            continue
        found += 1
        yield function.name, wanted, text
    if reasons and not found:
        raise CliError(reasons[0] if alone else f"no function has the stage '{stage}': {reasons[0]}")


def _pass_texts(functions: Iterable[Function], stage: str | None, dumps: bool, times: bool) -> Iterable[_Shown]:
    """What passes did while that stage of each function was made; by default, the one for which all of them run."""
    from .. import passes

    if stage in KERNEL_STAGES:
        raise CliError(f"--dump-passes and --time-passes are of stages up to {passes.STAGE}")
    for function in functions:
        try:
            log = passes.log_passes(function, stage or passes.STAGE)
        except ValueError as error:
            raise CliError(str(error)) from None
        parts = [*(log.graphs if dumps else []), *([log.table()] if times else [])]
        data = {"passes": [{"recipe": r, "pass": p, **asdict(t)} for (r, p), t in log.times.items()]}
        yield _Shown(function.name, "passes", "\n".join(parts), data)


def _kernel_texts(
    functions: Sequence[Function], stage: str, shapes: Sequence[str], texts: Sequence[str], dtype: str, target: str
) -> Iterable[_Shown]:
    """That stage of each function that has kernels; of one alone, the reason why it has none."""
    from ....runtime.failures.failure import RuntimeFailure
    from ..kernels import kernel_text, kernels_of

    failures: list[CliError | RuntimeFailure] = []
    for function in functions:
        try:
            listing = kernels_of(function, shapes, texts, dtype)
        except (CliError, RuntimeFailure) as failure:
            failures.append(failure)
            continue
        found = kernel_text(listing, stage, target)
        yield _Shown(function.name, stage, found.text, found.data)
    if failures and len(failures) == len(functions):
        raise failures[0]
