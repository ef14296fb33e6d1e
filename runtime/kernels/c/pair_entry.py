"""Both passes of a function without Python in between, with a pullback: see `entry`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....compiler.autodiff.gradient import Gradient
from ....compiler.fusion.program import Ref
from ....compiler.ops.arrays import numpy_dtype
from .entry import KNOWN, entry_of, types
from .pairs import CPair
from .program import CProgram


def pair_of(
    pair: CPair, values: Sequence[Any], given: int, general: Callable[[tuple[Any, ...]], Callable[..., Any]]
) -> Any:
    """What runs both passes on arguments like these, with a pullback; None where there is no such thing.

    Of the values as many as are `given` are asked for. `general` makes a pullback of the arguments and the results of
    the forward, for gradients of another kind.
    """
    found, gradient = types(), pair.gradient
    seeds = pair.usual_seeds()
    program = pair.backward(seeds)
    forward = entry_of(pair.forward, values, given, [value.type for value in gradient.f.outputs])
    if found is None or program is None or forward is None or not _gives_gradients(gradient, program, values):
        return None
    results, count = gradient.num_real_outputs, len(values)
    sources = [i if i < results and seeds[i] is not None else -1 for i in gradient.input_vjps]
    taken = [KNOWN if source < 0 else seeds[source] for source in sources]
    sources += [results + i for i in gradient.captured_inputs]
    sources += [results + count + i for i in gradient.captured_outputs]
    taken += [KNOWN] * (len(sources) - len(taken))
    backward = entry_of(program, taken, len(taken), [value.type for value in gradient.df.outputs])
    if backward is None or any(place >= given for place in gradient.output_vjps):
        return None
    return found.pair(
        forward=forward,
        backward=backward,
        result_count=results,
        sources=tuple(sources),
        places=tuple(gradient.output_vjps),
        general=general,
    )


def _gives_gradients(gradient: Gradient, program: CProgram, values: Sequence[Any]) -> bool:
    """Whether what a backward returns are the gradients as they are: arrays like the arguments, no two the same."""
    outputs, layouts = program.program.outputs, program.program.layouts
    if not all(isinstance(output, Ref) for output in outputs):
        return False
    found = [layouts[output.name] for output in outputs]
    places = zip(found, gradient.output_vjps, strict=True)
    is_like = all(f.shape == values[i].shape and numpy_dtype(f.dtype) == values[i].dtype for f, i in places)
    return is_like and len({output.name for output in outputs}) == len(outputs)
