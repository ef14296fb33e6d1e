"""Graphs on the memory of CPU tensors, for values of one signature: no question of what the values are.

ArrayRun    tensors and numbers, by what an executor has for arrays
ListedRun   lists of tensors as well, by the list of what a plan does
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch.autograd.function import _SingleLevelFunction

from ...compiler.ops.arrays import Array
from ..execution.last_plan import LAST
from ..execution.numbered import Executor
from ..failures.failure import RuntimeFailure
from ..kernels.by_torch.bindings import binding
from ..kernels.c.entry import Calls, new_calls
from ..kernels.c.memory.listed import ArrayList
from ..kernels.c.memory.native import takes_tensors
from ..kernels.c.tensors import Kinds, tensor_types
from ..kernels.lists.slots import flat_values
from ..plans.interpreter import execute
from ..settings.counters import HITS
from ..settings.modes import runs_c, usual_backend
from ..values.float_errors import ignoring_float_errors
from ..values.tensor_memory import memory_of
from ..values.torch_dtypes import tensor_of
from .places import each
from .routines.products import blas, on_tensors
from .tensors import TensorMemory
from .tracing import leave_to_python

_packed: Callable[[Any], Any] = torch._C._to_dlpack
_array_of_packed: Callable[[Any], Array] = np.from_dlpack


MOST_WAYS = 8
"""Through branches that data decides, of one kind of values; beyond, they are run as they stand."""


class Lent:
    """A tensor as `np.from_dlpack` takes it: an array of its memory, to be read. Quicker than torch's own methods."""

    __slots__ = ("_tensor",)

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor

    def __dlpack__(self, **_: Any) -> Any:
        return _packed(self._tensor)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class ArrayRun:
    """A FixedRun by what an executor has for such values: a plan, or kernels in C.

    The first of the results, as many as are `owned`, share no memory with any other value; the others may be views, by
    torch's own means. With `passes_on`, a value that is returned as it came is the very tensor; with `in_order`, those
    that are owned are contiguous. Those at places in `unwanted` are None. `by_torch` says whether ops of the library
    may be torch's own: where none of the values is recorded.
    """

    def __init__(
        self,
        executor: Executor,
        values: Sequence[Any],
        *,
        owned: int,
        passes_on: bool = False,
        in_order: bool = False,
        unwanted: Collection[int] = (),
        by_torch: bool = True,
    ) -> None:
        self.is_new = [True] * len(executor.graph.outputs)
        self.is_settled = False
        self._executor = executor
        self._owned = owned
        self._passes_on = passes_on
        self._in_order = in_order
        self._unwanted = unwanted
        self._tensors = [i for i, value in enumerate(values) if isinstance(value, torch.Tensor)]
        # NumPy has no bfloat16 that DLPack could name.
        self._lend = Lent if all(values[i].dtype != torch.bfloat16 for i in self._tensors) else None
        self._plan = None if runs_c() else executor.plan_of_last(self.arrays(values))
        template = () if self._plan is None else self._plan.template
        self._constants = tuple([constant for constant in template if isinstance(constant, np.ndarray)])
        self._entry: Calls | None = None
        self._has_run = False
        self._library = binding if by_torch else None
        self.is_torchs = False
        """Whether it calls ops of torch's, or decides by data: bits may be others than those of its executor."""
        self._ways = 0
        found = tensor_types()
        self._new_tensors = None if found is None or unwanted else found.new_tensors
        self.quick = None if found is None else found.run(self.run, self._constants, owned, passes_on, in_order)

    def run(self, values: Sequence[Any], arrays: list[Any] | None = None, results: Any = None) -> list[Any]:
        """The results for values, or for these with arrays of their memory for the tensors; of `results`, where kernels
        have given them and they may share memory, as tensors."""
        if arrays is None:
            arrays = self.arrays(values)
        if results is not None:
            results = results if type(results) is tuple else (results,)
            return self._told_apart(values, arrays, self._as_promised(results))
        found = self._by_torch(values, arrays)
        if found is not None:
            return found
        results = None if self._entry is None else self._entry(*arrays)
        if results is None:
            known = (self.is_torchs, self._ways)
            results = self._computed(arrays)
            found = self._by_torch(values, arrays) if (self.is_torchs, self._ways) != known else None
            if found is not None:
                return found
        elif type(results) is not tuple:
            results = (results,)
        results = self._as_promised(results)
        if self._new_tensors is not None:
            row = self._new_tensors(results, self._constants)
        else:
            row = None if self._shares(results) else self._as_tensors(results)
        return row if row is not None else self._told_apart(values, arrays, results)

    def _as_promised(self, results: Sequence[Any]) -> Sequence[Any]:
        """Results, contiguous where they are to be."""
        if not self._in_order:
            return results
        return tuple([_in_order(result) if i < self._owned else result for i, result in enumerate(results)])

    def _by_torch(self, values: Sequence[Any], arrays: list[Any]) -> list[Any] | None:
        """The results where ops of torch's are called in it; None where they are not to be had so."""
        if not self.is_torchs or self.quick is None:
            return None
        found: list[Any] | None = self.quick.again(tuple(values), arrays)
        return found

    def meet(self, values: Sequence[Any]) -> bool:
        """Whether values, for which the graph has just run, are from now on run with ops of torch's.

        These may add up in another order, and what calls give is to be the same from the first on.
        """
        if self._plan is None and not self._has_run and self._executor.has_kernels:
            on_tensors(self._enter, self.arrays(values))
        return self.is_torchs

    def _shares(self, results: Sequence[Any]) -> bool:
        """Whether a result is none of the arrays that own their memory, or is there twice, or a constant."""
        seen = set(map(id, self._constants))
        for i, array in enumerate(results):
            if i in self._unwanted:
                continue
            if type(array) is not np.ndarray or array.base is not None or id(array) in seen:
                return True
            seen.add(id(array))
        return False

    def _as_tensors(self, results: Sequence[Any]) -> list[Any]:
        unwanted = self._unwanted
        return [None if i in unwanted else tensor_of(array) for i, array in enumerate(results)]

    def arrays(self, values: Sequence[Any]) -> list[Any]:
        """The values, with arrays of their memory for tensors, to be read."""
        arrays = [*values]
        lend = self._lend
        for i in self._tensors:
            arrays[i] = memory_of(values[i].detach()) if lend is None else _array_of_packed(lend(values[i]))
        return arrays

    def _computed(self, arrays: list[Any]) -> Sequence[Any]:
        plan = self._plan
        if plan is None:
            return on_tensors(self._by_kernels, arrays)
        HITS.add()
        LAST.plan = plan
        try:
            return on_tensors(execute, plan, [*arrays, *self._executor.numbers, *plan.template])
        except RuntimeFailure as failure:
            raise self._executor.explain(failure, arrays) from failure.__cause__

    def _by_kernels(self, arrays: list[Any]) -> list[Any]:
        results = self._executor.run(arrays)
        if not self._has_run:
            self._enter(arrays)
        elif self._ways and self._ways < MOST_WAYS:
            self._add_way(arrays)
        return results

    def _enter(self, arrays: list[Any]) -> None:
        self._has_run = True
        self._entry = self._entered(arrays)
        if self._entry is not None and self.quick is not None and self._new_tensors is not None:
            self.quick.enter(self._entry)

    def _entered(self, arrays: list[Any]) -> Calls | None:
        """What runs the kernels without Python in between; None where nothing does."""
        entry = self._executor.kernel_entry(arrays, len(arrays), at_once=True, library=self._library)
        if entry is None:
            return None
        self.is_torchs = (entry.calls or entry.checks) and self.quick is not None and self._new_tensors is not None
        self._ways = int(entry.checks)
        calls = new_calls()
        calls.add(entry)
        return calls

    def _add_way(self, arrays: list[Any]) -> None:
        """Have the way that these went found from now on: through branches that data decides."""
        entry = self._executor.kernel_entry(arrays, len(arrays), at_once=True, library=self._library)
        self._ways += 1
        if entry is not None and self._entry is not None:
            self._entry.add(entry)

    def _told_apart(self, values: Sequence[Any], arrays: Sequence[Any], results: Sequence[Any]) -> list[Any]:
        """Results of which some may be views, of each other or of values."""
        memory = TensorMemory()
        for array, value in zip(arrays, values, strict=True):
            if array is not value:
                memory.knows(array, value)
        for constant in self._constants:
            memory.keeps(constant)
        results = [None if i in self._unwanted else result for i, result in enumerate(results)]
        own = memory.passed_on if self._passes_on else memory.owned
        return each(results[: self._owned], own) + each(results[self._owned :], memory.shared)


def _in_order(result: Any) -> Any:
    """A result with its elements in order; by torch, which turns them over in tiles."""
    is_so = not isinstance(result, np.ndarray) or result.flags.c_contiguous
    return result if is_so else memory_of(tensor_of(result).contiguous())


_is_below_autograd = partial(torch._C._dispatch_tls_is_dispatch_key_excluded, torch._C.DispatchKey.AutogradOther)
"""Whether torch's dispatcher passes by what records gradients: in what an op does itself."""


class _Nothing:
    """Kinds where such cannot be built: nothing is found."""

    def __call__(self, values: Sequence[Any]) -> Any:
        return NotImplemented

    def add(self, kind: Any) -> None:
        return None

    def clear(self) -> None:
        return None


def new_kinds() -> Kinds:
    """What finds what is prepared for calls on tensors, without Python where that can be built."""
    types = tensor_types()
    return _Nothing() if types is None else types.kinds()


def has_quick_calls() -> bool:
    """Whether calls can be run without Python."""
    return tensor_types() is not None


def quick_call(run: Any, python: Any, rest: Sequence[Any], results: Sequence[int] | None, **places: Any) -> Any:
    """A call without Python; None where there is no such thing.

    It is told what runs it, what does the same in Python, the values that it leaves out, which outputs are its results,
    None for all, and where in rows stands what, as `text/calls.c` says.
    """
    types = tensor_types()
    if types is None or not isinstance(run, ArrayRun) or run.quick is None:
        return None
    none: dict[str, Any] = dict.fromkeys(
        (
            *("tensors", "row", "saved_inputs", "saved_outputs", "vjps", "places", "shapes"),
            *("numbers", "number_sources", "marked", "marks"),
        ),
        (),
    )
    given = {"apply": None, "arguments": None, "backwards": types.kinds(), **none, **places}
    return types.prepared(python=python, rest=tuple(rest), run=run.quick, results=results, **given)


class SingleLevelFunction(_SingleLevelFunction):  # type: ignore[misc] # torch is not typed here
    """A node under no transform, which compiled autograd knows as it does a torch.autograd.Function."""

    _compiled_autograd_key = staticmethod(torch.autograd.Function._compiled_autograd_key)


@cache
def quick_node() -> Any:
    """torch's node of such a call: `apply((call, values, arrays), *tensors)` gives its row. Under no transform."""
    types = tensor_types()
    assert types is not None
    backward = types.backward

    def readable(ctx: Any, *given: Any) -> Any:
        return backward(ctx, *given)

    def key(ctx: Any) -> Any:
        # Compiled autograd asks for this, then reads the backward, which it cannot where that is no Python.
        node.backward = staticmethod(readable)
        return SingleLevelFunction._compiled_autograd_key(ctx)

    leave_to_python(readable)
    halves = {"forward": types.forward, "backward": backward, "_compiled_autograd_key": key}
    made_of: Any = type(SingleLevelFunction)
    node = made_of("QuickFunction", (SingleLevelFunction,), {name: staticmethod(half) for name, half in halves.items()})
    return node


def dispatch(kinds: Kinds, general: Callable[..., Any]) -> Callable[..., Any]:
    """What calls what was prepared for its arguments, without Python, or else `general`."""
    types = tensor_types()
    return general if types is None else types.dispatch(kinds, general, None)


def quicken(packet: Any, kinds: Kinds) -> None:
    """Have a call of an op by its name, `torch.ops.ns.name`, come straight to what was prepared, where torch's
    dispatcher would come to it too."""
    types = tensor_types()
    if types is not None:
        call = types.dispatch(kinds, packet.op, _is_below_autograd)
        packet.__class__ = type("OpOverloadPacket", (type(packet),), {"__call__": call, "__slots__": ()})


def remember(
    kinds: Kinds, prepared: Any, values: Sequence[Any], run: ArrayRun, open_places: frozenset[int] = frozenset()
) -> None:
    """Have what was prepared for values, which takes them and arrays for them, called for such again: for any ints at
    places that are open."""
    types, backend = tensor_types(), usual_backend()
    if types is not None and backend is not None:
        dtypes = tuple([getattr(value, "dtype", None) for value in run.arrays(values)])
        kinds.add(types.kind(prepared, tuple(values), dtypes, torch.is_grad_enabled(), backend, open_places))


# --- lists ---


def lists_run() -> bool:
    """Whether there are such: kernels in C, and what runs them without Python."""
    return runs_c() and takes_tensors()


class ListedRun:
    """A FixedRun by what an executor has for values of one signature: the first calls go its own way, and once it has a
    list, and that has shown where everything lies, that runs on the memory of tensors."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._list: ArrayList | None = None
        self._listed: _Listed | None = None
        self.is_new = [False] * len(executor.graph.outputs)

    @property
    def is_settled(self) -> bool:
        """Whether there is a list."""
        return self._listed is not None

    def run(self, values: Sequence[Any]) -> list[Any]:
        """The results: new, one of the values, or a view of one by torch's own means."""
        return self.run_listed(values)[0]

    def run_listed(self, values: Sequence[Any]) -> tuple[list[Any], _Listed | None]:
        """The results, and what gave them, where it does the same each time; those are new, or one of the values."""
        listed = self._listed
        if listed is not None:
            found = listed.run(values)
            if found is not None:
                return found, listed
        memory = TensorMemory()
        arrays = memory.arrays(values)
        results = on_tensors(self._computed, arrays)
        return each(results, memory.shared), None

    def _computed(self, arrays: list[Any]) -> list[Any]:
        if self._listed is not None:
            return self._executor.run(arrays)
        self._list = self._list or self._executor.listed(arrays)
        if self._list is None:
            return self._executor.run(arrays)
        try:
            results = self._list.run([*arrays, *self._executor.numbers], None)
        except Exception:
            # The plan tells where it went wrong.
            return self._executor.run(arrays)
        native = self._list.on_tensors(blas())
        if native is not None:
            self._listed = _Listed(self._list, native, self._executor.numbers)
        return results


class _Listed:
    """A list on the memory of tensors. `memory` is as CallLayout takes it."""

    def __init__(self, found: ArrayList, native: Any, numbers: Sequence[Any]) -> None:
        self._list = found
        self._numbers = numbers
        self._native = ignoring_float_errors(native) if found.calls_ops else native
        self.memory = found.memory()

    def run(self, values: Sequence[Any]) -> list[Any] | None:
        """The results; None where it is not for these."""
        try:
            row = self._run(flat_values([*values, *self._numbers]))
        except Exception:
            return None
        return None if row is NotImplemented else self._list.nested(row)

    def _run(self, flat: list[Any]) -> Any:
        return on_tensors(self._native, flat) if self._list.calls_ops else self._native(flat)
