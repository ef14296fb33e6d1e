"""The `gradscript` command. Each of its commands stands in the module of its subject.

Exit status 0 for success, 1 for bad source, a failed check or a failed run, 2 for a command that makes no sense: a
missing file, an unknown function, a literal that does not read.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import sys
from typing import TYPE_CHECKING, Any

import click

from .console import emit_errors, installed_version, make_output_safe

if TYPE_CHECKING:
    from ...lang.diagnostics import CompileError

COMMANDS = (
    *("check", "convert", "derive", "doctor", "explain", "export", "fmt", "lint"),
    *("memory", "ops", "pack", "run", "shard", "show", "stubs"),
)
"""In `commands` a module of the name has each, which is loaded when that is asked for."""
WITH = {"explain": "lint", "stubs": "pack"}
"""Commands that stand in the module of another."""
OBJECTS_BETWEEN_COLLECTIONS = 500_000
"""Python's own 700 have the collector go through all that is loaded, again and again, while a command starts."""


@atexit.register
def leave_garbage() -> None:
    """A process that ends looks for garbage among all that it has loaded, which takes longer than to leave it.

    Triton counts what is left of its own.
    """
    if not {"torch", "triton"} & sys.modules.keys():
        gc.freeze()


class Commands(click.Group):
    """A group that turns bad source and failed runs into messages; no user sees a traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"{__package__}.commands.{WITH.get(cmd_name, cmd_name)}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        make_output_safe()
        usual = gc.get_threshold()
        gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS, *usual[1:])
        try:
            return super().invoke(ctx)
        except Exception as error:
            if isinstance(error, OSError) and error.filename is not None:
                emit_errors([f"error: {error.filename}: {error.strerror}"])
                ctx.exit(2)
            if not _is_told(error):
                raise
            ctx.exit(1)
        finally:
            gc.set_threshold(*usual)


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
        import json

        from .checking import diagnostic_dict

        found = [diagnostic_dict(d) for d in error.diagnostics]
        click.echo(json.dumps({"ok": False, "diagnostics": found}, indent=2, ensure_ascii=True))
    emit_errors([str(diagnostic) for diagnostic in error.diagnostics])


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(installed_version(), prog_name="gradscript")
def main() -> None:
    """Write a gradient as a closure; get a checked, differentiable, fused operator."""
