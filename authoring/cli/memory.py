"""`gradscript memory`: the report for arguments that the command line describes."""

from __future__ import annotations

from collections.abc import Sequence

from ...runtime.face.function import Function
from ...runtime.memory.report import Report
from .arguments import arguments_for
from .loading import Problem


def report_on(
    function: Function, shapes: Sequence[str], texts: Sequence[str], dtype: str, policy: str, seed: int = 0
) -> Report:
    """The memory report for arguments as `arguments_for` reads them. Problem for what does not read."""
    args, kwargs = arguments_for(function, shapes, texts, dtype, seed)
    try:
        return function.memory(*args, policy=policy, **kwargs)
    except ValueError as error:
        raise Problem(str(error)) from error
