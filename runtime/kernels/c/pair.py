"""Both passes of a function by kernels in C, for the sizes at hand: planned now, or before and kept."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from threading import RLock
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ....compiler.autodiff.gradient import GradientPlaces
from ....compiler.ops.arrays import numpy_dtype
from ....compiler.types.dtypes import BY_NAME
from ....compiler.types.open_sizes import Symbols, closed
from ....lang.collection import collection_paused
from .entry import KNOWN, entry_of, types, widths_of
from .kept.open_programs import OpenProgram
from .kept.plans import JsonValue, Unkept
from .kept.programs import NO_SYMBOLS, KeptOpenProgram, program_data, sizes_data, sizes_from_data
from .layouts import program_key
from .program import CProgram, Slot

if TYPE_CHECKING:
    from ....compiler.autodiff.gradient import Gradient
    from ....compiler.ir.graph import Graph

PLANNING = RLock()
"""One pair is planned at a time."""


class Pair(Protocol):
    """Both passes for arguments of given layouts."""

    @property
    def gradient(self) -> Gradient:
        """What they compute; sizes in it may be open."""

    @property
    def places(self) -> GradientPlaces:
        """The same, as far as runs need it."""

    @property
    def exact_gradient(self) -> Gradient:
        """The same for the sizes at hand, to be run by ops."""

    @property
    def forward(self) -> PairRun:
        """What gives the results of `gradient.f`."""

    def backward(self, seeds: Sequence[Any]) -> PairRun | None:
        """What gives the gradients, for one per output; None where there are no kernels for these."""


class PairRun(Protocol):
    """One pass."""

    def run(self, values: Sequence[Any], threads: int) -> list[Any]:
        """The results, for one value per input. Raises: what is IN_VAIN."""


class CPair:
    """Both passes as straight lines: the forward, and a backward for each kind of gradients.

    `settled` says that it is for the very floats that it was planned for. `widths` are those of the results of both.
    """

    def __init__(self, places: GradientPlaces, widths: Sequence[Sequence[int | None]], *, settled: bool) -> None:
        self.places = places
        self.widths = widths
        self.settled = settled
        self._backward: dict[Hashable, CProgram | None] = {}
        # Takes the pair once its backward for the usual gradients is there.
        self.keep: Callable[[CPair, CProgram], None] | None = None

    @property
    def forward(self) -> CProgram:
        """The program of the results, and of what the backward takes of them."""
        raise NotImplementedError

    @property
    def planned(self) -> CPair:
        """The pair as it is planned in this process."""
        raise NotImplementedError

    @property
    def gradient(self) -> Gradient:
        """What it computes."""
        return self.planned.gradient

    @property
    def exact_gradient(self) -> Gradient:
        """The gradient for the sizes at hand, to be run by ops."""
        return self.planned.exact_gradient

    def data(self, backward: CProgram) -> JsonValue:
        """What keeps it, with its backward for the usual gradients. Raises: Unkept, as of one that a class keeps."""
        raise Unkept

    def usual_seeds(self) -> list[Any]:
        """Arrays like those that gradients of the outputs usually are; None for an output that has no gradient."""
        raise NotImplementedError

    def backward(self, seeds: Sequence[Any]) -> CProgram | None:
        """The program of the gradients, for one per output; None where none can be made."""
        key = program_key(seeds, True)
        if key not in self._backward:
            with PLANNING, collection_paused():
                if key not in self._backward:
                    found = self._backward[key] = self._made(seeds)
                    if found is not None and self.keep is not None and key == program_key(self.usual_seeds(), True):
                        self.keep(self, found)
        return self._backward[key]

    def donating(self, seeds: Sequence[Any], donated: Sequence[int]) -> CProgram | None:
        """The program in which gradients lie where the arguments did that are donated, by their numbers; None where
        none can be made. Raises: StillUsed."""
        return self.planned.donating(seeds, donated)

    def _made(self, seeds: Sequence[Any]) -> CProgram | None:
        """The program of a `backward`."""
        return self.planned.backward(seeds)


class RestoredPlaces:
    """Where halves take and give what, as it was kept."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.num_real_outputs: int = data["num_real_outputs"]
        self.input_vjps: tuple[int, ...] = tuple(data["input_vjps"])
        self.output_vjps: tuple[int, ...] = tuple(data["output_vjps"])
        self.captured_inputs: tuple[int, ...] = tuple(data["captured_inputs"])
        self.captured_outputs: tuple[int, ...] = tuple(data["captured_outputs"])


class KeptPair(CPair):
    """A pair that was kept, for sizes at which open ones have the values of `atoms`: planned, by `plan`, only where
    gradients are not as usual, or something is to be told."""

    def __init__(self, kept: KeptOpenPair, programs: tuple[CProgram, CProgram], atoms: Sequence[int]) -> None:
        data = kept.data()
        super().__init__(RestoredPlaces(data), data["result_widths"], settled=data["settled"])
        self._forward, backward = programs
        self._seeds = closed(kept.seeds, atoms)
        self.plan: Callable[[], CPair] | None = None
        self._backward[program_key(self.usual_seeds(), True)] = backward

    @property
    def forward(self) -> CProgram:
        return self._forward

    @cached_property
    def planned(self) -> CPair:
        assert self.plan is not None
        return self.plan().planned

    def usual_seeds(self) -> list[Any]:
        return [seed and np.empty(seed[0], numpy_dtype(BY_NAME[seed[1]])) for seed in self._seeds]


class KeptOpenPair:
    """A pair for open sizes as it was kept, or for given ones, of which none is open."""

    def __init__(self, data: JsonValue, symbols: Symbols = NO_SYMBOLS) -> None:
        self._data = data
        self.seeds = [seed and (sizes_from_data(seed[0], symbols), seed[1]) for seed in data["seeds"]]
        self._programs = [KeptOpenProgram(data[name], symbols) for name in ("forward", "backward")]

    def closed(self, atoms: Sequence[int]) -> KeptPair | None:
        """The pair for given sizes; None where it is gone."""
        forward, backward = [program.closed(atoms) for program in self._programs]
        return None if forward is None or backward is None else KeptPair(self, (forward, backward), atoms)

    def data(self) -> JsonValue:
        """What keeps it."""
        return self._data


def pair_data(
    pair: CPair, forward: OpenProgram, backward: OpenProgram, seeds: Sequence[tuple[Sequence[int], str] | None]
) -> JsonValue:
    """A pair as plain data, with its backward for the usual gradients, of which `seeds` has shape and dtype. Raises:
    Unkept."""
    return {
        **places_data(pair.places),
        "result_widths": [list(widths) for widths in pair.widths],
        "settled": pair.settled,
        "seeds": [seed and [sizes_data(seed[0]), seed[1]] for seed in seeds],
        "forward": program_data(forward),
        "backward": program_data(backward),
    }


def places_data(places: GradientPlaces) -> Any:
    """Where halves take and give what, as plain data."""
    return {
        "num_real_outputs": places.num_real_outputs,
        "input_vjps": list(places.input_vjps),
        "output_vjps": list(places.output_vjps),
        "captured_inputs": list(places.captured_inputs),
        "captured_outputs": list(places.captured_outputs),
    }


def widths_of_graphs(f: Graph, df: Graph) -> list[list[int | None]]:
    """Those of the results of both passes."""
    return [widths_of([value.type for value in graph.outputs]) for graph in (f, df)]


# --- without Python in between ---


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
