"""Wiring: how the results and operands of f and df belong together, in numbers, for a node of a tape."""

from __future__ import annotations

from collections.abc import Sequence

from ...compiler.autodiff import Gradient


class Wiring:
    """What a node needs to know of a gradient.

    Places are positions, None where no gradient flows: of captured inputs in `gradient.output_vjps`, of captured and of
    real outputs in `gradient.input_vjps`, where an output that is the same value as an earlier one has that one's.
    `real_vjps` are the outputs at the first of these; those of temporaries come after, and `kept_temporaries` has their
    numbers among the captures, None for one that is not there.
    """

    def __init__(self, gradient: Gradient) -> None:
        self.real_vjps = [i for i in gradient.input_vjps if i < gradient.num_real_outputs]
        outputs = gradient.f.outputs
        first = {value: i for i, value in reversed(list(enumerate(outputs)))}
        position = {i: p for p, i in reversed(list(enumerate(gradient.input_vjps)))}
        places = [position.get(first[value]) for value in outputs]
        self.input_places = [_place(gradient.output_vjps, i) for i in gradient.captured_inputs]
        self.output_places = [places[i] for i in gradient.captured_outputs]
        self.real_places = [places[i] if active else None for i, active in enumerate(gradient.active_outputs)]
        kept = [None] * len(gradient.captured_inputs) + [*gradient.captured_outputs]
        self.kept_temporaries = [_place(kept, i) for i in gradient.input_vjps[len(self.real_vjps) :]]


def _place(numbers: Sequence[int | None], number: int) -> int | None:
    return numbers.index(number) if number in numbers else None
