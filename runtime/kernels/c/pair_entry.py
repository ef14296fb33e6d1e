"""Both passes of a function without Python in between, with a pullback: see `entry`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....compiler.autodiff.gradient import GradientPlaces
from .entry import KNOWN, entry_of, types
from .pair import CPair
from .program import CProgram, Slot


def pair_of(
    pair: CPair, values: Sequence[Any], given: int, general: Callable[[tuple[Any, ...]], Callable[..., Any]]
) -> Any:
    """What runs both passes on arguments like these, with a pullback; None where there is no such thing.

    Of the values as many as are `given` are asked for. `general` makes a pullback of the arguments and the results of
    the forward, for gradients of another kind.
    """
    found, places = types(), pair.places
    results_of_forward, results_of_backward = pair.widths
    seeds = pair.usual_seeds()
    program = pair.backward(seeds)
    forward = entry_of(pair.forward, values, given, results_of_forward)
    if found is None or program is None or forward is None or not _gives_gradients(places, program, values):
        return None
    results, count = places.num_real_outputs, len(values)
    sources = [i if i < results and seeds[i] is not None else -1 for i in places.input_vjps]
    taken = [KNOWN if source < 0 else seeds[source] for source in sources]
    sources += [results + i for i in places.captured_inputs]
    sources += [results + count + i for i in places.captured_outputs]
    taken += [KNOWN] * (len(sources) - len(taken))
    backward = entry_of(program, taken, len(taken), results_of_backward)
    if backward is None or any(place >= given for place in places.output_vjps):
        return None
    return found.pair(
        forward=forward,
        backward=backward,
        result_count=results,
        sources=tuple(sources),
        places=tuple(places.output_vjps),
        general=general,
    )


def _gives_gradients(places: GradientPlaces, program: CProgram, values: Sequence[Any]) -> bool:
    """Whether what a backward returns are the gradients as they are: arrays like the arguments, no two the same."""
    found = zip(program.layouts, places.output_vjps, strict=True)
    is_like = all(layout == (values[i].shape, values[i].dtype) for layout, i in found)
    slots = {output.number for output in program.outputs if isinstance(output, Slot)}
    return is_like and len(slots) == len(program.outputs)
