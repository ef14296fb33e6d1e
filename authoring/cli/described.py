"""Commands on one function of a file, and on arguments that the command line describes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import cleandoc
from typing import Any

import click

from ...lang.light_dataclasses import dataclass
from ...runtime.face.function import Function
from .arguments import arguments_for
from .loading import find_function, load_unit
from .options import DTYPE, FILE, JSON, SHAPES, TEXTS

NAME = click.argument("name", metavar="NAME")


@dataclass(frozen=True)
class DescribedCall:
    """A function, and what the command line says of its arguments."""

    function: Function
    shapes: Sequence[str]
    texts: Sequence[str]
    dtype: str

    def arguments(self, *, only_shapes: bool = False) -> tuple[list[Any], dict[str, Any]]:
        """The arguments, positional and by name, as `arguments_for` finds them. CliError for what does not read."""
        return arguments_for(self.function, self.shapes, self.texts, self.dtype, only_shapes=only_shapes)


def on_described_call(run: Callable[..., None]) -> click.Command:
    """The command by the name of a function, which is given the call, whether to print JSON, and options of its own."""

    def command(file: str, name: str, shapes: Sequence[str], texts: Sequence[str], dtype: str, **options: Any) -> None:
        click.get_current_context().meta["gradscript.json"] = options["as_json"]
        run(DescribedCall(find_function(load_unit(file), name), shapes, texts, dtype), **options)

    own = _parameters_of(run)
    common = [_parameters_of(mark(lambda: None))[0] for mark in (FILE, NAME, SHAPES, TEXTS, DTYPE, JSON)]
    return click.Command(
        run.__name__,
        params=[*common[:-1], *own, common[-1]],
        callback=command,
        help=cleandoc(run.__doc__ or ""),
        context_settings={"ignore_unknown_options": True},
    )


def _parameters_of(marked: Any) -> list[click.Parameter]:
    """What click's decorators have put on a function, the uppermost first."""
    return list(reversed(getattr(marked, "__click_params__", ())))
