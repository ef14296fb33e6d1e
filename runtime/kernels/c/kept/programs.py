"""Programs as plain data: slots, sizes, what kernels are launched with, the names of libraries and of ops.

Where one of the libraries is gone, so is the program.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .....compiler.ops.arrays import numpy_dtype
from .....compiler.ops.registry import OPS, Trait
from .....compiler.types.dtypes import BY_NAME
from ..launched import LaunchedKernels, Launches
from ..library import kept_library
from ..program import Act, CProgram, Extern, Slot, Stretch
from .plans import JsonValue, Unkept

MOST_BYTES = 1 << 16
"""Of the constants of a program that is kept."""
_PLAIN = (int, bool, str, type(None))


def program_data(program: CProgram) -> JsonValue:
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


def program_from_data(data: JsonValue) -> CProgram | None:
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


def _step(step: Act) -> JsonValue:
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


def _argument(argument: Any) -> JsonValue:
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


def _argument_of(data: JsonValue) -> Any:
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
