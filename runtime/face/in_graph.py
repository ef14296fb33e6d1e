"""torch.compile told of our functions: it puts a call of one into its graph, and traces the ops that it is made of.

torch.compile keeps a table of such callables in a module that takes seconds to import, and is imported when something
is compiled. So functions are entered when that happens, and those that are made later when they are made.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any
from weakref import WeakSet

_COMPILER = "torch._dynamo"
_WAITING: WeakSet[Callable[..., Any]] = WeakSet()


def allow_in_graph(function: Callable[..., Any]) -> None:
    """Have torch.compile put calls of a function into its graphs, now or once it is there. Imports nothing."""
    compiler = sys.modules.get(_COMPILER)
    if hasattr(compiler, "allow_in_graph"):
        compiler.allow_in_graph(function)  # type: ignore[union-attr]
    else:
        _WAITING.add(function)
        _watch()


class _Watch:
    """Sees the import of torch.compile's module, and is gone after that."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != _COMPILER:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            _then(spec.loader, _enter_waiting)
        return spec


def _then(loader: Any, follow: Callable[[], None]) -> None:
    load = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        load(module)
        follow()

    loader.exec_module = exec_module


def _enter_waiting() -> None:
    waiting = list(_WAITING)
    _WAITING.clear()
    for function in waiting:
        allow_in_graph(function)


def _watch() -> None:
    if not any(isinstance(finder, _Watch) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Watch())
