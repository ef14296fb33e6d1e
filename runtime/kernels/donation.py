"""Gradients that lie where their arguments did, on tensors of a device: `gs.grad` where arguments are donated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ...compiler.autodiff.flatten import flatten_signature, rebuilt
from ...compiler.codegen.triton.module import supports
from ...compiler.fusion.fuse import Unfusable, fuse
from ...compiler.fusion.in_place import StillUsed, donating
from ...compiler.fusion.refusals import Unsettled
from ...compiler.ir.graph import Graph
from ...compiler.types.open_sizes import Symbols
from .c.donation import refused
from .program import DeviceProgram
from .runner import KernelGraph, common_device


class DonatingGraph(KernelGraph):
    """A graph whose result number `donated[i]` lies where its input i did."""

    def __init__(self, graph: Graph, donated: Mapping[int, int]) -> None:
        super().__init__(flatten_signature(graph))
        self._donated = donated
        self._output_types = [value.type for value in graph.outputs]

    def run(self, values: Sequence[Any]) -> list[Any]:
        """The results. RuntimeFailure where what is donated is still used."""
        self._require_own(values)
        with torch.no_grad():
            return rebuilt(iter(self(values)), self._output_types)

    def _require_own(self, values: Sequence[Any]) -> None:
        for i in self._donated:
            tensor = values[i]
            if not isinstance(tensor, torch.Tensor) or not tensor.is_contiguous():
                raise refused(self._graph, i, "it is no tensor whose elements lie one behind the other")
            others = [other for n, other in enumerate(values) if n != i for other in _tensors(other)]
            if any(_memory(other) == _memory(tensor) for other in others):
                raise refused(self._graph, i, "another argument lies in its memory")

    def _planned(self, known: Sequence[Any], values: Sequence[Any], symbols: Symbols | None = None) -> DeviceProgram:
        try:
            program = donating(fuse(self._graph, known, supports, tiled=False), self._donated)
        except Unsettled:
            raise
        except (Unfusable, StillUsed) as error:
            raise refused(self._graph, next(iter(self._donated)), str(error)) from error
        return DeviceProgram(program, values, common_device(values), symbols)


def _tensors(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in _tensors(item)]
    return [value] if isinstance(value, torch.Tensor) else []


def _memory(tensor: Any) -> int:
    return int(tensor.untyped_storage().data_ptr())
