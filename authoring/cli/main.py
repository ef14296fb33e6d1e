"""The `gradscript` command: show, export, check, run, memory, shard, ops, and those of BENCH.

Exit status 0 for success, 1 for bad source, a failed check or a failed run, 2 for a command that makes no sense: a
missing file, an unknown function, a literal that does not read.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ...lang.light_dataclasses import asdict
from .console import emit, emit_errors, installed_version, make_output_safe, progress_bar
from .loading import Problem, find_function, load_unit

if TYPE_CHECKING:
    from ...lang.diagnostics import CompileError
    from ...runtime.face.function import Function
    from .checking import CheckedFile

FILE = click.argument("file", metavar="FILE")
NAME = click.argument("name", metavar="[NAME]", required=False)
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
KERNEL_STAGES = ("kernels", "triton", "c", "ptx")
DEFAULT_TARGET = "sm_90"
FORMATS = ("text", "json", "sarif", "github")
STAGES = ("source", "ast", "ir", "closure", "lifted", "gradient", "optimized", *KERNEL_STAGES)
LANGUAGES = {"source": "python", "closure": "python", "lifted": "python", "triton": "python", "c": "c"}
SHAPES = click.option(
    "--shape", "-s", "shapes", multiple=True, metavar="PARAMETER=SIZES", help="As x=64,512 or y=64:int64."
)
TEXTS = click.option("--arg", "-a", "texts", multiple=True, metavar="VALUE", help="An argument, as `run` takes it.")
DTYPE = click.option("--dtype", default="float32", show_default=True, help="Of floating tensors.")


BENCH = {
    "pack": "packing",
    "stubs": "packing",
    "export": "exporting",
    "convert": "converting",
    "derive": "deriving",
    "explain": "linting",
    "fmt": "formatting",
    "lint": "linting",
}
"""Commands that stand in modules of their own, which are loaded when they are asked for."""


class Commands(click.Group):
    """A group that turns bad source and failed runs into messages; no user sees a traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *BENCH})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in BENCH:
            module = importlib.import_module(f"{__package__}.{BENCH[cmd_name]}")
            command: click.Command = getattr(module, cmd_name)
            return command
        return super().get_command(ctx, cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        make_output_safe()
        try:
            return super().invoke(ctx)
        except Exception as error:
            if not _is_told(error):
                raise
            ctx.exit(1)


def _is_told(error: Exception) -> bool:
    """Print what bad source or a failed run says. The modules that raise it are loaded then, and not before."""
    from ...lang.diagnostics import CompileError

    if isinstance(error, CompileError):
        _print_compile_error(error)
        return True
    from ...runtime.failures.failure import RuntimeFailure

    if isinstance(error, RuntimeFailure):
        emit_errors([str(error)])
        return True
    return False


def _print_compile_error(error: CompileError) -> None:
    if "--json" in sys.argv[1:] or click.get_current_context().meta.get("gradscript.json"):
        from .checking import diagnostic_dict

        found = [diagnostic_dict(d) for d in error.diagnostics]
        click.echo(json.dumps({"ok": False, "diagnostics": found}, indent=2, ensure_ascii=True))
    emit_errors([str(diagnostic) for diagnostic in error.diagnostics])


class _Target(click.types.StringParamType):
    """A GPU that Triton compiles for; the names are loaded when one is given."""

    name = "target"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value != DEFAULT_TARGET:
            from ...runtime.kernels.triton.compile import TARGETS

            if value not in TARGETS:
                self.fail(f"{value!r} is not one of {', '.join(TARGETS)}", param, ctx)
        return value


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(installed_version(), prog_name="gradscript")
def main() -> None:
    """Write a gradient as a closure; get a checked, differentiable, fused operator."""


# --- show ---


@main.command(context_settings={"ignore_unknown_options": True})
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
            raise Problem("--shape and --arg are of one function: name it")
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
        raise Problem(reasons[0] if alone else f"no function has the stage '{stage}': {reasons[0]}")


def _pass_texts(functions: Iterable[Function], stage: str | None, dumps: bool, times: bool) -> Iterable[_Shown]:
    """What passes did while that stage of each function was made; by default, the one for which all of them run."""
    from ..cli import passes

    if stage in KERNEL_STAGES:
        raise Problem(f"--dump-passes and --time-passes are of stages up to {passes.STAGE}")
    for function in functions:
        try:
            log = passes.log_passes(function, stage or passes.STAGE)
        except ValueError as error:
            raise Problem(str(error)) from None
        parts = [*(log.graphs if dumps else []), *([log.table()] if times else [])]
        data = {"passes": [{"recipe": r, "pass": p, **asdict(t)} for (r, p), t in log.times.items()]}
        yield _Shown(function.name, "passes", "\n".join(parts), data)


def _kernel_texts(
    functions: Sequence[Function], stage: str, shapes: Sequence[str], texts: Sequence[str], dtype: str, target: str
) -> Iterable[_Shown]:
    """That stage of each function that has kernels; of one alone, the reason why it has none."""
    from ...runtime.failures.failure import RuntimeFailure
    from .kernels import kernel_text, kernels_of

    failures: list[Problem | RuntimeFailure] = []
    for function in functions:
        try:
            listing = kernels_of(function, shapes, texts, dtype)
        except (Problem, RuntimeFailure) as failure:
            failures.append(failure)
            continue
        found = kernel_text(listing, stage, target)
        yield _Shown(function.name, stage, found.text, found.data)
    if failures and len(failures) == len(functions):
        raise failures[0]


# --- check ---


@main.command()
@click.argument("arguments", metavar="PATH... [NAME...]", nargs=-1, required=True)
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True)
@JSON
@click.option("--jobs", "-j", default=1, show_default=True, type=click.IntRange(1), help="Processes.")
@click.pass_context
def check(ctx: click.Context, arguments: tuple[str, ...], form: str, as_json: bool, jobs: int) -> None:
    """Hold the gradients of every function with a backward against finite differences, to second order.

    A PATH is a file, - for standard input, or a folder, in which every .grad and .gs file is checked. A function named
    behind is checked even if it has no backward of its own. Arguments are found by a search, or taken from a function
    NAME_examples in the same file. Exit status 0: all is right, 1: there are findings, 2: something could not be run.
    """
    from .checking import CheckedFile, check_files, exit_code, split_arguments
    from .formats import github, sarif

    form = "json" if as_json else form
    paths, names = split_arguments(arguments)
    try:
        with progress_bar(form == "text") as progress:
            files = check_files(paths, names, jobs, lambda total: progress("checking", total))
    except Problem as problem:
        files = [CheckedFile(paths[0], problem=problem.format_message())]
    if form == "json":
        found = [file.to_dict() for file in files]
        click.echo(json.dumps(found[0] if len(found) == 1 else {"ok": exit_code(files) == 0, "files": found}, indent=2))
    elif form == "sarif":
        click.echo(json.dumps(sarif(files, installed_version()), indent=2))
    elif form == "github":
        click.echo("".join(f"{line}\n" for line in github(files)), nl=False)
    else:
        _print_checked(files)
    if form in ("text", "json"):
        emit_errors([str(d) for file in files for d in file.diagnostics])
        emit_errors([f"error: {file.problem}" for file in files if file.problem])
    ctx.exit(exit_code(files))


def _print_checked(files: Sequence[CheckedFile]) -> None:
    checked = [one for file in files for one in file.checked]
    for file in files:
        if file.could_run and not file.checked and len(files) == 1:
            emit(f"{file.path}: no function has a backward to check")
    if not checked:
        return
    emit("\n\n".join(one.text for one in checked))
    wrong = [one.name for one in checked if not one.ok]
    said = f"{len(checked)} function{'s' if len(checked) != 1 else ''} checked"
    emit(f"\n{said}, {'wrong: ' + ', '.join(wrong) if wrong else 'all right'}", style="red" if wrong else "green")


# --- run ---


@main.command(context_settings={"ignore_unknown_options": True})
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
    from .values import describe_results, parse_arguments, results_as_data, run_function, save

    ctx.meta["gradscript.json"] = as_json
    function = find_function(load_unit(file), name)
    args, named = parse_arguments(function.schema, texts)
    outputs, gradients = run_function(function, args, named, grad=grad)
    if out is not None:
        save(out, outputs)
    names = [argument.name for argument in function.schema.arguments]
    if as_json:
        click.echo(json.dumps(results_as_data(outputs, gradients, names), indent=2))
    else:
        emit(describe_results(outputs, gradients, names))


# --- memory ---


@main.command(context_settings={"ignore_unknown_options": True})
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
    from .memory import report_on

    ctx.meta["gradscript.json"] = as_json
    report = report_on(find_function(load_unit(file), name), shapes, texts, dtype, policy)
    if plot is not None:
        from .timeline import save_plot

        save_plot(report, plot)
    click.echo(json.dumps(report.to_dict(), indent=2)) if as_json else emit(str(report))


# --- shard ---


@main.command(context_settings={"ignore_unknown_options": True})
@FILE
@click.argument("name", metavar="NAME")
@SHAPES
@TEXTS
@DTYPE
@JSON
@click.pass_context
def shard(
    ctx: click.Context,
    file: str,
    name: str,
    shapes: tuple[str, ...],
    texts: tuple[str, ...],
    dtype: str,
    as_json: bool,
) -> None:
    """Print how a function runs on parts of tensors (DTensor), as gs.torch_op registers it, and what forbids the rest.

    A row is one way along one dimension of a mesh: where arguments are, and where that leaves the results.
    """
    from .sharding import sharding_of

    ctx.meta["gradscript.json"] = as_json
    found = sharding_of(find_function(load_unit(file), name), shapes, texts, dtype)
    if as_json:
        click.echo(json.dumps({"ops": [rules.to_dict() for rules in found]}, indent=2))
    else:
        emit("\n\n".join(map(str, found)))


# --- ops ---


@main.command()
@NAME
@JSON
def ops(name: str | None, as_json: bool) -> None:
    """List the ops of the language with the file of each formula; with NAME, all about one."""
    from .catalogue import catalogue
    from .reference import describe_op

    if name is not None and not as_json:
        emit(describe_op(name), "python")
        return
    found = catalogue(name)
    if as_json:
        click.echo(json.dumps({"ops": found}, indent=2))
        return
    width = max(len(entry["formula"] or "-") for entry in found)
    emit("\n".join(f"{entry['formula'] or '-':<{width}}  {entry['signature']}" for entry in found))


# --- doctor ---


@main.command()
@JSON
def doctor(as_json: bool) -> None:
    """Say what runs kernels on this machine, what does not, and how to get it."""
    from .doctor import findings, shown

    found = findings()
    if as_json:
        click.echo(json.dumps({f.name: {"ok": f.is_there, "found": f.said} for f in found}, indent=2))
    else:
        emit(shown(found))
