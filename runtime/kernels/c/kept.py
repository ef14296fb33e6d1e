"""What was planned, from one process to the next: programs as plain data, in the cache beside the libraries they run.

A plan is found by all that it follows from: the text of the graph, what calls depend on of their arguments, the files
of this package, the compiler and the processor. It holds numbers and names alone: slots, sizes, what kernels are
launched with, the names of libraries and of ops. Where one of the libraries is gone, so is the plan.

Where a process has formulas, passes or sums of its own, what it plans is not kept, and what was kept is not for it.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ....compiler.ops.arrays import numpy_dtype
from ....compiler.ops.registry import OPS, Trait
from ....compiler.types.dtypes import BY_NAME
from ...execution.function_executor import FORGETTING
from ..cache.private_files import UnsafeFolder
from ..cache.store import KernelStore
from .compiler import compiler
from .launched import LaunchedKernels, Launches
from .library import kept_library
from .program import Act, CProgram, Extern, Slot, Stretch

MOST_KEPT = 32
"""Plans of one graph that a process keeps."""
MOST_MISSED = 16
"""Of one graph, after which a process looks for no more."""
MOST_BYTES = 1 << 16
"""Of the constants of a plan that is kept."""
_FOLDERS = ("lang", "compiler", "runtime", "stdlib_grads")
_STORE = KernelStore("plans")
_PLAIN = (int, bool, str, type(None))
Data = Any
"""What JSON has."""


class Unkept(Exception):
    """There is something in a plan that is not kept."""


class KeptPlans:
    """The plans of one graph, of which `text` says all; `kind` says what they are of it."""

    stopped = False
    """Whether this process plans by what others do not have."""

    def __init__(self, kind: str, text: Callable[[], str], *, keeps: bool = True) -> None:
        self._kind = kind
        self._text = text
        self._name = ""
        self._left = MOST_KEPT if keeps else 0
        self._missed = 0 if keeps else MOST_MISSED

    def get(self, key: Hashable) -> Data | None:
        """What is kept for what `described` gives; None where nothing is."""
        if self._missed >= MOST_MISSED or KeptPlans.stopped or not _is_plain(key):
            return None
        name = self._named(key)
        try:
            found = None if name is None else _STORE.get(name)
        except UnsafeFolder:
            found = None
        self._missed += found is None
        return None if found is None else json.loads(found)

    def put(self, key: Hashable, data: Callable[[], Data]) -> None:
        """Keep what `data` gives, which may raise Unkept."""
        if not self._left or KeptPlans.stopped or not _is_plain(key):
            return
        self._left -= 1
        name = self._named(key)
        try:
            if name is not None:
                _STORE.put(name, json.dumps(data(), separators=(",", ":")).encode())
        except (Unkept, UnsafeFolder):
            return

    def _named(self, key: Hashable) -> str | None:
        made_by = compiler()
        if made_by is None:
            return None
        if not self._name:
            parts = (package_state(), sys.version, np.__version__, self._kind, self._text())
            self._name = hashlib.sha256("\0".join(parts).encode()).hexdigest()
        return f"{self._name}\0{made_by.identity}\0{key!r}"


def _stop() -> None:
    KeptPlans.stopped = True


FORGETTING.add(_stop)


def _is_plain(key: Any) -> bool:
    """Whether a key says by its text what it is."""
    if isinstance(key, tuple):
        return all(map(_is_plain, key))
    return isinstance(key, (*_PLAIN, np.dtype, type))


@cache
def package_state() -> str:
    """What changes when a file of this package does."""
    root = Path(__file__).parents[3]
    try:
        found = sorted(entry for folder in _FOLDERS for entry in _files(str(root / folder)))
    except OSError:
        # It lies in a file itself, such as a zip.
        archive = next((path for path in root.parents if path.is_file()), None)
        stat = archive.stat() if archive is not None else None
        found = [(str(root), 0, 0) if stat is None else (str(archive), stat.st_size, stat.st_mtime_ns)]
    return hashlib.sha256(repr(found).encode()).hexdigest()


def _files(folder: str) -> Iterator[tuple[str, int, int]]:
    """The files in a folder and in those in it: path, size, and when it was written last."""
    pending = [folder]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending += [entry.path] if entry.name != "__pycache__" else []
                else:
                    stat = entry.stat()
                    yield entry.path, stat.st_size, stat.st_mtime_ns


# --- programs ---


def program_data(program: CProgram) -> Data:
    """A program as plain data. Raises: Unkept."""
    if sum(getattr(constant, "nbytes", MOST_BYTES + 1) for constant in program.constants) > MOST_BYTES:
        raise Unkept
    return {
        "constants": [[*_layout(c), b64encode(np.ascontiguousarray(c).tobytes()).decode()] for c in program.constants],
        "widths": list(program.widths),
        "made": program.made,
        "steps": [[_step(step), list(free)] for step, free in program.steps],
        "outputs": [_argument(output) for output in program.outputs],
        "layouts": [layout and [[*map(int, layout[0])], layout[1].name] for layout in program.layouts],
    }


def program_of(data: Data) -> CProgram | None:
    """The program that was made data; None where a library of it, or an op, is gone."""
    steps: list[tuple[Stretch | Extern, Sequence[int]]] = []
    for kept, free in data["steps"]:
        step = _extern_of(kept) if "op" in kept else _stretch_of(kept)
        if step is None:
            return None
        steps.append((step, free))
    return CProgram(
        [_array(*constant) for constant in data["constants"]],
        data["widths"],
        data["made"],
        steps,
        [_argument_of(output) for output in data["outputs"]],
        [layout and (tuple(layout[0]), _dtype(layout[1])) for layout in data["layouts"]],
    )


def _step(step: Act) -> Data:
    if isinstance(step, Extern):
        name = step.op.schema.full_name
        if step.op.has(Trait.SIDE_EFFECT) or OPS.named(name) is not step.op:
            raise Unkept
        return {
            "op": name,
            "arguments": [_argument(argument) for argument in step.arguments],
            "results": list(step.results),
            "tensors": list(step.tensors),
            "is_view": step.is_view,
            "is_single": step.is_single,
        }
    assert isinstance(step, Stretch)
    plan = step.kernels.plan
    return {
        "library": step.kernels.library.name,
        "functions": list(plan.functions),
        "fields": [[*map(int, fields)] for fields in plan.fields],
        "sizes": [*map(int, plan.sizes)],
        "integers": list(plan.integers),
        "count": plan.buffers,
        "made": [[number, [*map(int, shape)], dtype.name] for number, shape, dtype in step.made],
        "moved": [[number, source, [*map(int, shape)]] for number, source, shape in step.moved],
        "buffers": list(step.buffers),
        "numbers": list(step.numbers),
    }


def _stretch_of(data: Mapping[str, Any]) -> Stretch | None:
    library = kept_library(data["library"], data["functions"])
    if library is None:
        return None
    fields = tuple([tuple(each) for each in data["fields"]])
    plan = Launches(tuple(data["functions"]), fields, tuple(data["sizes"]), tuple(data["integers"]), data["count"])
    made = [(number, tuple(shape), _dtype(name)) for number, shape, name in data["made"]]
    moved = [(number, source, tuple(shape)) for number, source, shape in data["moved"]]
    return Stretch(LaunchedKernels(library, plan), made, moved, data["buffers"], data["numbers"])


def _extern_of(data: Mapping[str, Any]) -> Extern | None:
    try:
        op = OPS.named(data["op"])
    except KeyError:
        return None
    arguments = [_argument_of(argument) for argument in data["arguments"]]
    is_view, is_single = data["is_view"], data["is_single"]
    return Extern(op, arguments, data["results"], data["tensors"], is_view=is_view, is_single=is_single)


def _argument(argument: Any) -> Data:
    match argument:
        case Slot():
            return {"slot": argument.number}
        case tuple():
            return {"tuple": [_argument(item) for item in argument]}
        case list():
            return [_argument(item) for item in argument]
        case float() if type(argument) is float:
            return {"float": argument.hex()}
    if type(argument) not in _PLAIN:
        raise Unkept
    return argument


def _argument_of(data: Data) -> Any:
    if isinstance(data, list):
        return [_argument_of(item) for item in data]
    if not isinstance(data, dict):
        return data
    if "slot" in data:
        return Slot(data["slot"])
    return float.fromhex(data["float"]) if "float" in data else tuple([_argument_of(item) for item in data["tuple"]])


def _layout(array: np.ndarray[Any, Any]) -> tuple[list[int], str]:
    return list(array.shape), array.dtype.name


def _array(shape: Sequence[int], dtype: str, elements: str) -> np.ndarray[Any, Any]:
    array = np.frombuffer(b64decode(elements), _dtype(dtype)).reshape(tuple(shape))
    return array


def _dtype(name: str) -> np.dtype[Any]:
    return numpy_dtype(BY_NAME[name])


__all__ = ["KeptPlans", "Unkept", "package_state", "program_data", "program_of"]
