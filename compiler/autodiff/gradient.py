"""The result of differentiating a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from ...lang.light_dataclasses import dataclass
from ..ir.graph import Graph

Each = TypeVar("Each")


class GradientPlaces(Protocol):
    """What of a Gradient says where its halves take and give what."""

    @property
    def num_real_outputs(self) -> int: ...

    @property
    def input_vjps(self) -> Sequence[int]: ...

    @property
    def output_vjps(self) -> Sequence[int]: ...

    @property
    def captured_inputs(self) -> Sequence[int]: ...

    @property
    def captured_outputs(self) -> Sequence[int]: ...


def residuals_of(
    gradient: GradientPlaces, inputs: Mapping[int, Each] | Sequence[Each], outputs: Mapping[int, Each] | Sequence[Each]
) -> list[Each]:
    """What `df` takes behind its vjps, by what stands for the inputs and outputs of `f`."""
    return [*(inputs[i] for i in gradient.captured_inputs), *(outputs[i] for i in gradient.captured_outputs)]


@dataclass(frozen=True, eq=False, slots=True)
class Gradient:
    """A graph `f` that also returns what its backward needs, and that backward, `df`.

    f:   inputs → real outputs, then captured temporaries
    df:  vjps, captured inputs, captured outputs → gradients

    `input_vjps[i]` is the output of f whose gradient is input i of df: first those of real outputs, then those of
    captured temporaries, through which second derivatives flow. `captured_inputs` and `captured_outputs` are the
    inputs and outputs of f that df takes after them. Output j of df is the gradient of input `output_vjps[j]` of f.
    An undefined gradient (prim::AutogradZero, None at run time) may stand for any vjp.
    """

    f: Graph
    df: Graph
    num_real_outputs: int
    input_vjps: tuple[int, ...]
    output_vjps: tuple[int, ...]
    captured_inputs: tuple[int, ...]
    captured_outputs: tuple[int, ...]
    active_outputs: tuple[bool, ...]
    """Per real output: whether it depends, differentiably, on an input that requires a gradient."""
