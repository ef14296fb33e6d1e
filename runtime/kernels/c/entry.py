"""Calls of programs without Python in between: `text/entry.c`, which has its own address for each function, with what
is built before and behind it.

It needs the headers of Python, beside a compiler. Where there are none, calls go the longer way, to the same results.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, Protocol
from weakref import WeakSet

import numpy as np

from ....compiler.fusion.unasked import is_unasked
from ....compiler.ops.arrays import numpy_dtype
from ....compiler.ops.libraries import computing_as_now
from ....compiler.types.dtypes import BFLOAT16
from ....compiler.types.types import NONE, UNDEFINED, TupleType, Type, is_tensor
from ...execution.function_executor import FORGETTING
from ...values.arena import ARENA, BlockCounts
from .launched import thread_count
from .launcher import launcher_address
from .library import extension
from .memory.bare import (
    CHECKED,
    Bare,
    BareAct,
    LibraryBinder,
    LibraryCall,
    MemoryView,
    Order,
    Product,
    bare_of,
    product_layout,
)
from .program import Act, CProgram, OutOfRange, Slot, Straight, Stretch


class Calls(Protocol):
    """Programs of a function, called: None for arguments that none of them is for."""

    def __call__(self, *args: Any) -> Any: ...

    def __len__(self) -> int: ...

    def add(self, item: Any) -> None:
        """Have what `entry_of` or `pair_of` gives tried first; of too many the oldest is dropped."""

    def clear(self) -> None:
        """Drop all."""


_CALLS: WeakSet[Any] = WeakSet()
_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
"""DLPack's, by the kinds of dtypes; that of bfloat16 is _BFLOAT."""
_BFLOAT = 4


class _NativeBlocks:
    """What `text/blocks.c` has for the results on bare memory, by the addresses of its functions."""

    def __init__(self, shrink: int, count: int) -> None:
        self._shrink = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int)(shrink)
        self._count = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_int64))(count)

    def counts(self) -> BlockCounts:
        found = (ctypes.c_int64 * 4)()
        self._count(found)
        return BlockCounts(*found)

    def shrink(self, most: int, *, stays: bool) -> None:
        self._shrink(most, stays)


class Types(NamedTuple):
    """What `text/passes.c` has: programs, pairs of them, and several of either, called; where its function is that runs
    them on bare memory, whether that has products, and in which blocks it puts large results."""

    entry: Callable[..., Any]
    pair: Callable[..., Any]
    calls: Callable[[], Calls]
    bare: int
    has_products: bool
    blocks: _NativeBlocks


TEXTS = ("dlpack.c", "blocks.c", "products.c", "library.c", "entry.c", "bare_entry.c", "passes.c")
"""Parts of one module."""


@cache
def types() -> Types | None:
    """The types; None where they cannot be built."""
    made = extension(TEXTS, "gs_types")
    if made is None:
        return None
    entry, pair, calls, bare, has_products, *functions = made[0](np.matmul)
    blocks = _NativeBlocks(*functions)
    ARENA.counts_with(blocks)
    return Types(entry, pair, calls, bare, bool(has_products), blocks)


def new_calls() -> Calls:
    """Calls of nothing yet, where there are `types`. They forget what was compiled when all is forgotten."""
    found = types()
    assert found is not None
    calls: Calls = found.calls()
    _CALLS.add(calls)
    return calls


class KnownValue:
    """Stands for an argument that is what the program was planned for, whatever it is."""


KNOWN = KnownValue()


def widths_of(types: Sequence[Type]) -> list[int | None]:
    """Of each result how many tensors it is, if it is a tuple; -1 for a tensor, or None; None for what is neither."""
    return [_width(type) for type in types]


def entry_of(
    program: CProgram,
    values: Sequence[Any],
    given: int,
    widths: Sequence[int | None],
    open_inputs: Collection[int] = (),
    *,
    computes_as_now: bool = False,
    library: LibraryBinder | None = None,
    answers: Sequence[bool] = (),
) -> Any:
    """What runs a program on arguments like these; None where it takes or gives lists.

    The first of the values, as many as are `given`, are asked for, the others are what they are; those of
    `open_inputs` may be any ints. Results are tensors and tuples of tensors, as `widths_of` says; what the program
    gives beyond them is left. Where it `computes_as_now`, that library does in each call which does now. `library`
    stands for the library's ops on bare memory. Where there are `answers`, it runs there alone, and where the last of
    what the program gives, as many tensors, say so; there alone too where numbers are among the results.
    """
    found = types()
    if found is None or any(isinstance(v, list | tuple) for v in values):
        return None
    if None in widths and library is None:
        return None
    if answers or None in widths:
        bare = bare_of(program, values, open_inputs, has_products=found.has_products, library=library)
        memory = None if bare is None else _on_memory(bare, program, len(values), len(widths), answers)
        if memory is None:
            return None
        return found.entry(
            guards=_guards(values[:given], open_inputs),
            outputs=tuple(range(len(widths))),
            widths=(-1,) * len(widths),
            defaults=tuple(values[given:]),
            owner=program,
            steps=_nowhere,
            **memory,
        )
    straight = program.straight
    count = sum(abs(width) for width in widths if width is not None)
    if straight is None:
        if program.takes_lists or len(program.outputs) < count:
            return None
        run = _with_entries(found, program).run
        run = computing_as_now(run) if computes_as_now else run
        bare = None
        if set(widths) == {-1}:
            bare = bare_of(program, values, open_inputs, has_products=found.has_products, library=library)
        return entry_of_steps(
            lambda inputs: run(inputs, thread_count()), program, values, given, widths, open_inputs, bare
        )
    slots = _places(straight, len(values))
    if slots is None or any(result not in slots for result in straight.results if result is not None):
        return None
    # Behind all constants there is None.
    outputs = tuple([len(slots) if number is None else slots[number] for number in straight.results[:count]])
    return found.entry(
        guards=_guards(values[:given], open_inputs),
        outputs=outputs,
        views=(),
        acts=(),
        bare=outputs if set(widths) == {-1} else (),
        widths=tuple(widths),
        defaults=tuple(values[given:]),
        constants=(*straight.constants, None),
        owner=program,
        steps=None,
        **_launched(straight.stretch, slots),
    )


def _launched(stretch: Stretch, slots: Mapping[int, int]) -> dict[str, Any]:
    """What an entry is told of kernels, whose values are at these places."""
    kernels = stretch.kernels
    return {
        "made": tuple([(slots[number], dtype, tuple(shape), _code(dtype)) for number, shape, dtype in stretch.made]),
        "buffers": tuple([slots[number] for number in stretch.buffers]),
        "parameters": tuple(
            [(slots[n], integer) for n, integer in zip(stretch.numbers, kernels.integers, strict=True)]
        ),
        "run": launcher_address(),
        "launches": ctypes.addressof(kernels.launches),
        "count": len(kernels.launches),
        "sizes": ctypes.addressof(kernels.sizes),
        "is_long": kernels.shares,
        "threads": thread_count,
        "allocate": ARENA.empty,
    }


def _code(dtype: np.dtype[Any]) -> int:
    """DLPack's code of a dtype; -1 of one that it does not have."""
    return _BFLOAT if dtype == numpy_dtype(BFLOAT16) else _CODES.get(dtype.kind, -1)


def _with_entries(found: Types, program: CProgram) -> CProgram:
    """The program with its kernels run by entries, which ask nothing."""
    steps = [(_step(found, step), free) for step, free in program.steps]
    return CProgram(program.constants, program.widths, program.made, steps, program.outputs, program.layouts)


def _step(found: Types, step: Act) -> Act:
    if not isinstance(step, Stretch):
        return step
    made = [number for number, _, _ in step.made]
    given = [*dict.fromkeys(n for n in (*step.buffers, *step.numbers) if n not in made)]
    slots = {number: place for place, number in enumerate((*given, *made))}
    entry = found.entry(
        guards=(_guard(KNOWN),) * len(given),
        outputs=tuple([slots[number] for number in made]),
        widths=(-1,) * len(made),
        defaults=(),
        constants=(),
        owner=step,
        steps=None,
        views=(),
        bare=(),
        acts=(),
        **_launched(step, slots),
    )
    calls = found.calls()
    calls.add(entry)

    def run(slots: list[Any], threads: int) -> None:
        step.move(slots)
        results = calls(*[slots[number] for number in given])
        if results is None:
            raise OutOfRange
        for number, result in zip(made, (results,) if len(made) == 1 else results, strict=True):
            slots[number] = result

    return run


def entry_of_steps(
    steps: Callable[[list[Any]], list[Any]],
    owner: object,
    values: Sequence[Any],
    given: int,
    widths: Sequence[int | None],
    open_inputs: Collection[int] = (),
    bare: Bare | None = None,
) -> Any:
    """As `entry_of`, of what runs in Python, with nothing left to be asked. What it refuses goes the longer way.

    `owner`, a program where it is run on `bare` memory otherwise, lives as long.
    """
    found = types()
    if found is None or None in widths or any(isinstance(value, list | tuple) for value in values):
        return None
    count = sum(abs(width) for width in widths if width is not None)
    memory = None if bare is None else _on_memory(bare, owner, len(values), count)
    return found.entry(
        guards=_guards(values[:given], open_inputs),
        outputs=tuple(range(count)),
        widths=tuple(widths),
        defaults=tuple(values[given:]),
        owner=owner,
        steps=steps,
        **(memory if memory is not None else {**_NO_KERNELS, "constants": (), "views": (), "bare": (), "acts": ()}),
    )


_NO_KERNELS: dict[str, Any] = {
    "made": (),
    "buffers": (),
    "parameters": (),
    "run": 0,
    "launches": 0,
    "count": 0,
    "sizes": 0,
    "is_long": False,
    "threads": thread_count,
    "allocate": ARENA.empty,
}


def _nowhere(inputs: list[Any]) -> None:
    """What arrays are run by that have to be on memory: nothing."""


def _on_memory(
    bare: Bare, program: Any, inputs: int, count: int, answers: Sequence[bool] = ()
) -> dict[str, Any] | None:
    """What an entry is told of a program of so many results that runs on bare memory; None where slots are shared, or
    where what is to give `answers` is no element that is read."""
    first = len(program.constants)
    known = [result for result in bare.results[:count] if not isinstance(result, Slot)]
    constants = [*program.constants, *known]
    made = [number for number, _, _ in bare.made]
    names = [*range(first), *[-1 - i for i in range(len(known))]]
    order = [*range(first, first + inputs), *made, *names, *(view.slot for view in bare.views)]
    slots = {number: place for place, number in enumerate(order)}
    if len(slots) < len(order):
        return None
    slots |= {number: slots[owner] for number, owner in bare.same.items()}
    acts = [_act(act, bare, slots) for act in bare.acts]
    for result, answer in zip(bare.results[count:], answers, strict=False):
        if not isinstance(result, Slot) or not _add_check(acts, bare, slots, result.number, answer):
            return None
    places = iter(names[first:])
    results = [slots[r.number if isinstance(r, Slot) else next(places)] for r in bare.results[:count]]
    return {
        **_NO_KERNELS,
        "made": tuple([(slots[number], dtype, tuple(shape), _code(dtype)) for number, shape, dtype in bare.made]),
        "constants": tuple(constants),
        "views": tuple([_view(view, slots) for view in bare.views]),
        "bare": tuple(results),
        "acts": tuple(acts),
    }


def _add_check(acts: list[Any], bare: Bare, slots: Mapping[int, int], number: int, answer: bool) -> bool:
    """Whether what a slot is to say can be asked: as soon as it is made. `acts` has what is asked before it, too."""
    view = next((view for view in bare.views if view.slot == number), None)
    dtypes = {**{made: dtype for made, _, dtype in bare.made}, **bare.given}
    dtype = view.array.dtype if view is not None else dtypes.get(number)
    if dtype is None or dtype.char not in CHECKED:
        return False
    owner = number if view is None else view.source
    makers = [i for i, act in enumerate(bare.acts) if owner in _made_by(act)]
    behind, place = (makers[-1] + 1 if makers else 0), 0
    for act in acts:
        if not behind:
            break
        behind -= len(act) != 3 if isinstance(act, tuple) else 1
        place += 1
    acts.insert(place, (slots[number], dtype.char.encode(), answer))
    return True


def _made_by(act: BareAct) -> Sequence[int]:
    if isinstance(act, Stretch):
        return [*(number for number, _, _ in act.made), *(number for number, _, _ in act.moved)]
    if isinstance(act, Order):
        return [act.values, act.indices]
    return act.results if isinstance(act, LibraryCall) else [act.result]


def _act(act: BareAct, bare: Bare, slots: Mapping[int, int]) -> Any:
    """Kernels, or what else an act is, with the slots of an entry."""
    if isinstance(act, LibraryCall):
        passed = [
            (given, None) if is_list is None else (tuple([slots.get(n, -1) for n in given]), is_list)
            for given, is_list in act.arguments
        ]
        names = tuple(act.names) or None
        return True, (act.function, names, tuple(passed), tuple([slots[number] for number in act.results]))
    if isinstance(act, Order):
        array, (values, indices) = act.array, [slots.get(number, -1) for number in (act.values, act.indices)]
        how = (array.dtype.char.encode(), act.descending, act.axis, act.taken)
        return False, (slots[act.source], values, indices, *how, array.shape, array.strides)
    if isinstance(act, Product):
        (result,) = [np.empty(shape, dtype) for number, shape, dtype in bare.made if number == act.result]
        added = -1 if act.added is None else slots[act.added[0]]
        return (slots[act.left[0]], slots[act.right[0]], slots[act.result], added, *product_layout(act, result))
    found = types()
    assert found is not None
    nothing: dict[str, Any] = dict.fromkeys(("guards", "outputs", "widths", "defaults", "views", "bare", "acts"), ())
    return found.entry(**nothing, constants=(), owner=act, steps=None, **_launched(act, slots))


def _view(view: MemoryView, slots: Mapping[int, int]) -> tuple[Any, ...]:
    array = view.array
    return (slots[view.source], view.offset, array.dtype, array.shape, array.strides, _code(array.dtype))


def _places(straight: Straight, inputs: int) -> dict[int, int] | None:
    """The slots of an entry by those of a program: inputs, what is made, then constants."""
    count = len(straight.constants)
    order = [*range(count, count + inputs), *(number for number, _, _ in straight.stretch.made), *range(count)]
    return {number: place for place, number in enumerate(order)} if len(set(order)) == len(order) else None


def _width(type: Type) -> int | None:
    if isinstance(type, TupleType):
        return len(type.elements) if all(map(is_tensor, type.elements)) else None
    return -1 if is_tensor(type) or type in (NONE, UNDEFINED) else None


def _guards(values: Sequence[Any], open_inputs: Collection[int]) -> tuple[Any, ...]:
    """What arguments have to be for a program that was planned for these."""
    any_int = ("integer", None, (), ())
    return tuple([any_int if i in open_inputs else _guard(value) for i, value in enumerate(values)])


def _guard(value: Any) -> tuple[str, Any, tuple[int, ...], tuple[int, ...]]:
    """What an argument has to be for a program that was planned for this one."""
    if value is KNOWN:
        return "known", None, (), ()
    if isinstance(value, np.ndarray):
        return "array", value.dtype, value.shape, value.strides
    is_any = isinstance(value, float) and is_unasked(value, settled=False)
    return ("real", None, (), ()) if is_any else ("same", value, (), ())


def _forget() -> None:
    for calls in list(_CALLS):
        calls.clear()


FORGETTING.add(_forget)
