"""gs.ops: every op as a Python function, of arrays, Variables and tracing values alike."""

from __future__ import annotations

from functools import partial
from typing import Any

from ...compiler.ops.registry import OPS
from ...lang.diagnostics import nearest
from ..operands.snippets import call_operator
from .function import Function


class Operators:
    """`gs.ops.softmax(x, dim=1)` is what `torch.softmax(x, dim=1)` is in source.

    Arrays give arrays. With a Variable among the arguments the op is recorded on the tape, with a tracing value in
    the graph.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not OPS.overloads(name):
            hints = nearest(name, OPS.names())
            raise AttributeError(f"there is no op '{name}'{hints}", name=name, obj=self)
        return partial(call_operator, name, made=Function)

    def __dir__(self) -> list[str]:
        return OPS.names()

    def __repr__(self) -> str:
        return "gs.ops"


ops = Operators()
