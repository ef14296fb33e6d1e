"""What `text/memory.c` is told of a program, from a run of it: where everything lay, and what shared memory with what.

All of it follows from the layouts of what the program is given, so it holds for whatever comes in these.
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .....compiler.fusion.unasked import is_unasked
from .....compiler.ops.arrays import Array, numpy_dtype
from .....compiler.ops.libraries import current_library
from .....compiler.ops.registry import Trait
from .....compiler.shapes.infer import moves_values
from .....compiler.types.dtypes import BFLOAT16
from ..launched import thread_count
from ..launcher import launcher_address
from ..program import CProgram, Extern, Slot, Stretch, slots_among
from .bare import Product, factors_of, is_factor, product_layout, product_shape
from .evaluated import ListedEvaluation

ARRAY, REAL, INTEGER, SAME = range(4)
INPUT, MADE, VIEW, CALLED, AGAIN = range(5)
KERNELS, PRODUCT, GEMM, COPY, SUM, CALL = range(6)
CONSTANT, OBJECT, SHOWN, ROW = range(4)
"""Kinds of inputs, of results, of acts and of arguments, as `text/memory.c` has them."""
_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
"""DLPack's, by the kinds of dtypes; that of bfloat16 is _BFLOAT."""
_BFLOAT = 4
_IN_ORDER = frozenset(("aten::reshape", "aten::contiguous", "aten::clone", "aten::flatten", "aten::view"))
"""What gives the same elements in the same order."""
Described = tuple[Any, ...]
"""As the text takes it."""


class Unseen(Exception):
    """A run shows too little of what others would do."""


class MemoryRoot(NamedTuple):
    """Whose memory something lies in: the slot of what came so, was made, or was called for."""

    kind: int
    slot: int


class LayoutObserver:
    """A program on some values, of which those at places in `own` may be any ints; `run` runs it once."""

    def __init__(self, program: CProgram, values: Sequence[Any], own: Collection[int]) -> None:
        first = len(program.constants)
        self.program = program
        self.slot_count = first + len(values) + program.made
        self.has_seen_all = True
        self.made: dict[int, tuple[int, Described]] = {}
        """Slots, each with its number among all that is made, and its layout."""
        self.views: list[Described] = []
        self.acts: list[tuple[int, Described]] = []
        self.uses: dict[int, list[int]] = {}
        """The acts that use what is made, or called for, by its slot."""
        self.called: list[int] = []
        self.inputs: list[Described] = []
        self.outputs: list[Described] = []
        self.roots_of_outputs: list[MemoryRoot] = []
        self.owners: list[Any] = []
        self._layouts_of_outputs: list[Described] = []
        self._slots: list[Any] = [*program.constants, *values, *[None] * program.made]
        self._roots = {i: MemoryRoot(INPUT, i) for i, value in enumerate(self._slots) if isinstance(value, np.ndarray)}
        self._starts = {i: _address(self._slots[i]) for i in self._roots}
        self._objects = {i for i, value in enumerate(self._slots) if type(value) in (float, int)}
        self._seeing(lambda: self.inputs.extend([_input(value, i in own) for i, value in enumerate(values)]))

    def run(self) -> list[Any]:
        """The outputs."""
        threads = thread_count()
        for step, free in self.program.steps:
            step(self._slots, threads)
            self._seeing(partial(self._see, step))
            for number in free:
                self._slots[number] = None
        slots, outputs = self._slots, self.program.outputs
        self._seeing(lambda: self._see_outputs(slots_among(outputs)))
        results = self.program.outputs_of(slots)
        # What is kept of a run are numbers.
        self._slots = []
        return results

    def can_return(self, *, for_tensors: bool) -> bool:
        """Whether outputs can be had, as tensors or as arrays."""
        if not for_tensors:
            return True
        layouts = [item[1] for item in self.inputs if item[0] == ARRAY] + self._layouts_of_outputs
        pairs = zip(self._layouts_of_outputs, self.outputs, strict=True)
        shown = [layout for layout, output in pairs if output[0] == CALLED or self._is_of_input(output)]
        views = [self.views[index] for kind, _, index in self.outputs if kind == VIEW]
        is_between = any(offset % layout[0].itemsize for _, _, offset, layout in views)
        return all(layout[1] >= 0 for layout in layouts) and all(map(_has_strides_of_torch, shown)) and not is_between

    @property
    def calls_ops(self) -> bool:
        """Whether ops of the library are called."""
        return any(kind == CALL for kind, _ in self.acts)

    def kinds_of_outputs(self) -> list[tuple[int, bool]]:
        """Of each a number of its own, and whether a tensor of it has memory of its own."""
        first = [output[2] if output[0] == AGAIN else i for i, output in enumerate(self.outputs)]
        outputs = [self.outputs[i] for i in first]
        return [(i, o[0] != INPUT and not self._is_of_input(o)) for i, o in zip(first, outputs, strict=True)]

    def _is_of_input(self, output: Described) -> bool:
        """Whether an output is a view of an input."""
        return bool(output[0] == VIEW and self._roots[output[1]].kind == INPUT)

    def _seeing(self, see: Any) -> None:
        if self.has_seen_all:
            try:
                see()
            except Unseen:
                self.has_seen_all = False

    # --- steps ---

    def _see(self, step: Any) -> None:
        if isinstance(step, Stretch):
            self._see_kernels(step)
        elif isinstance(step, Extern):
            self._see_op(step)
        elif isinstance(step, ListedEvaluation):
            if any(self._shared(number, step.numbers) for number in _numbers(step.results)):
                raise Unseen
            self._call(step.function, step.arguments, step.results, writes=step.writes)
        else:
            raise Unseen

    def _see_kernels(self, step: Stretch) -> None:
        for number, _, _ in step.made:
            self._make(number)
        for number, source, _ in step.moved:
            if self._roots[source].kind == INPUT:
                raise Unseen
            self._view(number, self._roots[source])
        kernels = step.kernels
        if not self._objects.issuperset(step.numbers):
            raise Unseen
        self.owners.append(kernels)
        parameters = tuple([(n, integer) for n, integer in zip(step.numbers, kernels.integers, strict=True)])
        launches = (launcher_address(), ctypes.addressof(kernels.launches), len(kernels.launches))
        told = (tuple(step.buffers), parameters, *launches, ctypes.addressof(kernels.sizes), kernels.shares)
        self._act(KERNELS, told, (*step.read, *step.written))

    def _see_op(self, step: Extern) -> None:
        numbers = step.read
        shared = [self._shared(number, numbers) for number in step.results]
        if any(shared):
            if not (step.op.has(Trait.VIEW) or step.op.has(Trait.MAY_ALIAS) or moves_values(step.op)):
                raise Unseen
            for number, root in zip(step.results, shared, strict=True):
                if root is None:
                    raise Unseen
                self._view(number, root)
        elif not (self._see_product(step) or self._see_copy(step) or self._see_sum(step)):
            self._call(step.found, step.arguments, [Slot(number) for number in step.results])

    def _see_product(self, step: Extern) -> bool:
        factors = factors_of(step)
        if factors is None or len(step.results) != 1 or factors[2] is not None:
            return False
        left, right = (self._slots[slot.number] for slot in factors[:2])
        if step.op.schema.name == "aten::linear" and isinstance(right, np.ndarray):
            right = right.T
        (result,), array = step.results, self._slots[step.results[0]]
        if not is_factor(left) or not is_factor(right) or left.dtype != right.dtype or not is_factor(array):
            return False
        shape, library = product_shape(left, right), current_library()
        if shape is None or shape != array.shape or not array.flags.c_contiguous or array.dtype != left.dtype:
            return False
        places = (factors[0].number, factors[1].number)
        if library is not None and library.multiplies(left, right):
            call = library.call_of(left, right, array)
            if call is None:
                return False
            self._make(result)
            told = (call.address, call.is_double, False, *places, result, *call.forms, call.numbers, *call.places)
            self._act(GEMM, told, (*places, result))
            return True
        # Which way NumPy goes through batches, it decides, and bits hang on it.
        if any(size > 1 for size in shape[: max(left.ndim, right.ndim) - 2]):
            return False
        self._make(result)
        product = Product((places[0], left), (places[1], right), None, result)
        self._act(PRODUCT, (*places, result, -1, *product_layout(product, array)), (*places, result))
        return True

    def _see_copy(self, step: Extern) -> bool:
        tensors = [number for number in step.read if number in self._roots]
        if step.op.schema.name not in _IN_ORDER or len(tensors) != 1 or len(step.results) != 1:
            return False
        source, (result,) = self._slots[tensors[0]], step.results
        array = self._slots[result]
        if array.dtype != source.dtype or array.size != source.size or not array.flags.c_contiguous or not array.size:
            return False
        self._make(result)
        self._act(COPY, (tensors[0], result, _layout(source)), (tensors[0], result))
        return True

    def _see_sum(self, step: Extern) -> bool:
        pair, rest = step.arguments[:2], step.arguments[2:]
        if step.op.schema.full_name != "aten::add.Tensor" or not all(isinstance(slot, Slot) for slot in pair):
            return False
        places = (*[slot.number for slot in pair], *step.results)
        arrays = [self._slots[number] for number in places]
        is_plain = all(isinstance(array, np.ndarray) and array.flags.carray for array in arrays)
        if not is_plain or len(arrays) != 3 or any(type(factor) is not int or factor != 1 for factor in rest):
            return False
        like = arrays[2]
        if like.dtype.char not in "fd" or any(a.dtype != like.dtype or a.shape != like.shape for a in arrays):
            return False
        self._make(places[2])
        self._act(SUM, (*places, like.size, like.dtype.char == "d"), places)
        return True

    def _call(self, function: Any, arguments: Sequence[Any], results: Any, *, writes: bool = False) -> None:
        used: list[int] = []
        given = (ROW, True, tuple([self._argument(argument, writes, used) for argument in arguments]))
        filled = self._filled(results, used)
        self._act(CALL, (function, given, filled), used)

    def _argument(self, argument: Any, writes: bool, used: list[int]) -> Described:
        if isinstance(argument, Slot):
            number = argument.number
            used.append(number)
            value = self._slots[number]
            if isinstance(value, np.ndarray):
                return (SHOWN, number, _layout(value), writes and self._roots[number].kind != INPUT)
            if number not in self._objects:
                raise Unseen
            return (OBJECT, number)
        if isinstance(argument, list | tuple) and slots_among(argument):
            if type(argument) not in (list, tuple):
                raise Unseen
            return (ROW, type(argument) is tuple, tuple([self._argument(a, writes, used) for a in argument]))
        return (CONSTANT, argument)

    def _filled(self, pattern: Any, used: list[int]) -> Described:
        if isinstance(pattern, list | tuple):
            return (ROW, False, tuple([self._filled(item, used) for item in pattern]))
        if not isinstance(pattern, Slot):
            return (CONSTANT, None)
        number = pattern.number
        used.append(number)
        value = self._slots[number]
        if isinstance(value, np.ndarray):
            self._start(number, CALLED)
            self.called.append(number)
            return (SHOWN, number, _layout(value), False)
        if type(value) not in (float, int):
            raise Unseen
        self._objects.add(number)
        return (OBJECT, number)

    # --- memory ---

    def _act(self, kind: int, told: Described, used: Sequence[int]) -> None:
        for number in used:
            if number in self._roots:
                self.uses.setdefault(self._roots[number].slot, []).append(len(self.acts))
        self.acts.append((kind, told))

    def _start(self, number: int, kind: int) -> None:
        self._roots[number] = MemoryRoot(kind, number)
        self._starts[number] = _address(self._slots[number])

    def _make(self, number: int) -> None:
        self._start(number, MADE)
        self.made[number] = (len(self.made), _layout(self._slots[number]))

    def _view(self, number: int, root: MemoryRoot) -> None:
        array = self._slots[number]
        self._roots[number] = root
        self.views.append((number, root.slot, _address(array) - self._starts[root.slot], _layout(array)))

    def _shared(self, number: int, numbers: Sequence[int]) -> MemoryRoot | None:
        """Whose memory a result has, of what is in some slots; None where it has its own. Raises: Unseen."""
        value = self._slots[number]
        if not isinstance(value, np.ndarray):
            return None
        given = [(self._slots[n], self._roots[n]) for n in numbers if n in self._roots]
        found = {root for array, root in given if np.may_share_memory(value, array)}
        if len(found) > 1:
            raise Unseen
        return next(iter(found), None)

    def _see_outputs(self, slots: Sequence[Slot]) -> None:
        for slot in slots:
            self._output(slot.number)

    def _output(self, number: int) -> None:
        value = self._slots[number]
        if not isinstance(value, np.ndarray):
            if number not in self._objects:
                raise Unseen
            self.outputs.append((INPUT, number, 0))
            self._layouts_of_outputs.append((None, 0, (), ()))
            return
        root, layout = self._roots[number], _layout(value)
        self.roots_of_outputs.append(root)
        self._layouts_of_outputs.append(layout)
        is_whole = number == root.slot or (root.kind == MADE and layout == self.made[root.slot][1])
        if root.slot < len(self.program.constants):
            raise Unseen
        output: Described = (VIEW, number, [view[0] for view in self.views].index(number) if not is_whole else 0)
        if is_whole:
            index = {INPUT: 0, MADE: self.made.get(root.slot, (0,))[0], CALLED: layout[1]}[root.kind]
            output = (root.kind, root.slot, index)
            if root.kind != INPUT and output in self.outputs:
                output = (AGAIN, number, self.outputs.index(output))
        self.outputs.append(output)


def _input(value: Any, is_own: bool) -> Described:
    """What an input is to be."""
    if isinstance(value, np.ndarray):
        return (ARRAY, _layout(value))
    if is_own:
        return (INTEGER, None)
    if type(value) is float and is_unasked(value, settled=False):
        return (REAL, None)
    if value is not None and type(value) not in (bool, int, float, str):
        raise Unseen
    return (SAME, value)


def _layout(array: Array) -> Described:
    """Dtype, DLPack's code of it or -1, sizes, and strides in bytes."""
    dtype = array.dtype
    code = _BFLOAT if dtype == numpy_dtype(BFLOAT16) else _CODES.get(dtype.kind, -1)
    return (dtype, code, array.shape, array.strides)


def _has_strides_of_torch(layout: Described) -> bool:
    dtype, _, _, strides = layout
    return all(stride >= 0 and not stride % dtype.itemsize for stride in strides)


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def _numbers(results: Any) -> list[int]:
    return [slot.number for slot in slots_among([results])]
