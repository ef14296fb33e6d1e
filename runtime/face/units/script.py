"""`gs.script`: compiling a Python function from its own source."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable
from types import FrameType, FunctionType, MethodType
from typing import Any, cast

from ....lang.light_dataclasses import dataclass
from ....lang.source import Source
from ..function import Function
from .scope import Scopes
from .scripted_method import CompiledMethod, ScriptedMethod
from .sources import functions_of
from .typed_source import source_lines


@dataclass(frozen=True, eq=False)
class Excerpt(Source):
    """A definition cut out of a file: blank lines before it, its indentation taken away; columns are the file's."""

    lines: tuple[str, ...] = ()
    """The file's lines from the definition on, as they are."""
    first_line: int = 1
    margin: int = 0

    def position(self, offset: int) -> tuple[int, int]:
        line, column = super().position(offset)
        return line, column + _indentation(self._original(line), self.margin)

    def line(self, number: int) -> str:
        return self._original(number)

    def _original(self, number: int) -> str:
        index = number - self.first_line
        return self.lines[index] if 0 <= index < len(self.lines) else ""


def script(function: Callable[..., Any]) -> Function:
    """Compile a Python function from its source: a decorator.

        @gs.script
        def double(x):
            return x + x

    The source is read, never run. Names from around it mean what they mean to Python where it is compiled: functions of
    a CompilationUnit or compiled by this, functions written in Python, which are compiled too, and constants (numbers,
    strings, bools, None and tuples of them). A method is compiled of its object, `gs.script(x.scaled)`, whose numbers
    and other methods are what they are then; tensors are parameters. Where it decorates a method in a class, each
    object's is compiled when it is first asked for, and again when a number that it reads has changed. Decorators
    below this one are read too, if they wrap the function: `@torch.no_grad()`; an unknown one is an error.

    CompileError points into the file. TypeError for what is no function, ValueError where there is no source to read.
    """
    if isinstance(function, FunctionType) and _is_method(function) and _is_body_of(sys._getframe(1), function):
        return cast(Function, ScriptedMethod(function, _script_method))
    return Scopes(script_in).compiled(function)


def _script_method(method: MethodType) -> CompiledMethod:
    scopes = Scopes(script_in)
    function, owner = scopes.compiled(method), method.__self__
    return CompiledMethod(function, [(None if of is owner else of, name, found) for of, name, found in scopes.reads])


def script_in(function: Callable[..., Any], scopes: Scopes) -> Function:
    """As `script`, for a function that others around it may use."""
    if isinstance(function, staticmethod):
        function = function.__func__
    is_method = inspect.ismethod(function) and inspect.isfunction(function.__func__)
    if not (inspect.isfunction(function) or is_method) or function.__name__ == "<lambda>":
        raise TypeError(
            f"gs.script compiles functions written with `def`, not {_described(function)}{_instead(function)}"
        )
    if isinstance(function, FunctionType) and _is_method(function):
        raise TypeError(
            f"gs.script compiles functions, and '{function.__qualname__}' is a method: compile it of an object, "
            f"`gs.script(x.{function.__name__})`, or decorate it where it is defined"
        )
    try:
        lines, first_line = source_lines(function)
    except (OSError, TypeError) as error:
        raise ValueError(
            f"Python keeps no source of '{function.__name__}': it has none of what `exec` and magics of notebooks run. "
            'Put it into a file or a cell, or pass its text: `gs.CompilationUnit("def f(x): …").f`'
        ) from error
    written = inspect.unwrap(function)
    is_wrapped = written is not function and not is_method
    source = _cut_out(lines, first_line, inspect.getsourcefile(written) or "<script>", is_wrapped, is_method)
    return functions_of(source, scopes.around(function), (_WHEN,))[function.__name__]


_WHEN = "names from around a function are looked up where it is compiled: define them above"


def _is_method(function: FunctionType) -> bool:
    """Whether a function stands in a class and takes an object of it first, by what such a parameter is called."""
    holder = function.__qualname__.rpartition(".")[0]
    parameters = function.__code__.co_varnames[: function.__code__.co_argcount]
    in_class = bool(holder) and not holder.endswith("<locals>")
    return in_class and parameters[:1] == ("self",)


def _is_body_of(frame: FrameType, function: FunctionType) -> bool:
    """Whether the class of a function is being defined there."""
    return frame.f_locals.get("__qualname__") == function.__qualname__.rpartition(".")[0]


def _described(function: object) -> str:
    return "a lambda" if inspect.isfunction(function) else f"a {type(function).__name__}"


def _instead(value: object) -> str:
    """What to compile of a module or a class."""
    if hasattr(value, "forward"):
        return ": of a module, compile a method of an object, `gs.script(module.forward)`"
    return ": compile its methods one by one, of an object, `gs.script(x.method)`" if isinstance(value, type) else ""


def _cut_out(lines: list[str], first_line: int, filename: str, is_wrapped: bool, is_method: bool) -> Excerpt:
    """The definition, without the indentation of the place it stands in, and with the decorators that wrapped it.

    In the place of a method's first parameter stand blanks.
    """
    whole = [line.rstrip("\r\n") for line in lines]
    margin = len(whole[0]) - len(whole[0].lstrip())
    skipped = _skipped_lines(_without_margin(whole, margin), is_wrapped)
    kept = whole[skipped:]
    first_line += skipped
    shown = _without_margin(kept, margin)
    text = "\n" * (first_line - 1) + "\n".join(_without_first(shown) if is_method else shown) + "\n"
    return Excerpt(text, filename, tuple(kept), first_line, margin)


def _without_first(lines: list[str]) -> list[str]:
    """A definition without its first parameter, everything else where it was."""
    (definition,) = ast.parse("\n".join(lines) + "\n").body
    assert isinstance(definition, ast.FunctionDef)
    arguments = definition.args
    first, *others = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    end = (others[0].lineno, others[0].col_offset) if others else (first.end_lineno or 0, first.end_col_offset or 0)
    made = list(lines)
    for number in range(first.lineno, end[0] + 1):
        data = made[number - 1].encode()
        start = first.col_offset if number == first.lineno else 0
        stop = end[1] if number == end[0] else len(data)
        made[number - 1] = (data[:start] + b" " * (stop - start) + data[stop:]).decode()
    return made


def _without_margin(lines: list[str], margin: int) -> list[str]:
    return [line[_indentation(line, margin) :] for line in lines]


def _indentation(line: str, most: int) -> int:
    """How many characters of the line are indentation, and at most `most`."""
    return min(most, len(line) - len(line.lstrip(" \t")))


def _skipped_lines(lines: list[str], is_wrapped: bool) -> int:
    """How many lines stand before the `def`, or before the decorators that wrapped it before it came here.

    Python has compiled the text before, so it parses.
    """
    (definition,) = ast.parse("\n".join(lines) + "\n").body
    assert isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef)
    below = _below_script(definition.decorator_list) if is_wrapped else []
    return (below[0].lineno if below else definition.lineno) - 1


def _below_script(decorators: list[ast.expr]) -> list[ast.expr]:
    """The decorators below `@gs.script`, or all where it does not stand: the function was passed to it then."""
    ours = [i for i, decorator in enumerate(decorators) if ast.unparse(decorator).rpartition(".")[2] == "script"]
    return decorators[ours[-1] + 1 :] if ours else decorators
