"""What torch's compiler keeps on disk, kept apart for formulas that differ.

Its caches know an op by its name. That its shapes, what it saves and its kernels follow from a text, which changes, is
told to `torch._inductor.config.unsafe_marked_cacheable_functions`, where names of functions have what keys are to hold.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from ....compiler.ir.graph import Graph
from ...kernels.c.kept.plans import package_state


class CompileKey:
    """What has to be as it was for what was compiled of an op to serve again: its graphs, and this package."""

    def __init__(self, name: str, graphs: Sequence[Graph]) -> None:
        self._name = f"torch.ops.{name.replace('::', '.')}"
        self._graphs = graphs

    def tell(self) -> None:
        """Have what is compiled from now on be kept under it. Who traces an op has its compiler loaded by then."""
        inductor: Any = sys.modules.get("torch._inductor.config")
        if inductor is None:
            return
        marked = inductor.unsafe_marked_cacheable_functions
        if marked.get(self._name) != self._digest:
            inductor.unsafe_marked_cacheable_functions = {**marked, self._name: self._digest}

    @cached_property
    def _digest(self) -> str:
        texts = [graph.text(with_spans=True) for graph in self._graphs]
        return hashlib.sha256("\0".join((package_state(), *texts)).encode()).hexdigest()
