"""Programs as plain data: slots, sizes, what kernels are launched with, the names of libraries and of ops.

Where one of the libraries is gone, so is the program.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from .....compiler.ops.arrays import numpy_dtype
from .....compiler.ops.registry import OPS, Trait
from .....compiler.types.dtypes import BY_NAME
from .....compiler.types.open_floats import Expression, OpenFloat
from .....compiler.types.open_sizes import OpenSize, Symbols
from .....compiler.types.polynomials import Polynomial
from ..launched import Launches
from ..library import kept_library
from ..program import CProgram, Extern, Slot
from .open_programs import OpenExtern, OpenProgram, OpenStretch
from .plans import JsonValue, Unkept

MOST_BYTES = 1 << 16
"""Of the constants of a program that is kept."""
NO_SYMBOLS = Symbols(())
_PLAIN = (int, bool, str, type(None))


def program_data(program: OpenProgram) -> JsonValue:
    """A program as plain data. Raises: Unkept."""
    if sum(getattr(constant, "nbytes", MOST_BYTES + 1) for constant in program.constants) > MOST_BYTES:
        raise Unkept
    return {
        "constants": [[*_layout(c), b64encode(np.ascontiguousarray(c).tobytes()).decode()] for c in program.constants],
        "widths": list(program.widths),
        "made": program.made,
        "steps": [[_step(step), list(free)] for step, free in program.steps],
        "outputs": [_argument(output) for output in program.outputs],
        "layouts": [layout and [sizes_data(layout[0]), layout[1].name] for layout in program.layouts],
    }


def program_from_data(data: JsonValue, symbols: Symbols = NO_SYMBOLS) -> OpenProgram | None:
    """The program that was made data, its open sizes those of `symbols`; None where a library of it, or an op, is
    gone."""
    steps: list[tuple[OpenStretch | OpenExtern, Sequence[int]]] = []
    for kept, free in data["steps"]:
        step = _extern_of(kept, symbols) if "op" in kept else _stretch_of(kept, symbols)
        if step is None:
            return None
        steps.append((step, free))
    return OpenProgram(
        [_array(*constant) for constant in data["constants"]],
        data["widths"],
        data["made"],
        steps,
        [_argument_of(output, symbols) for output in data["outputs"]],
        [layout and (sizes_from_data(layout[0], symbols), _dtype(layout[1])) for layout in data["layouts"]],
    )


class KeptOpenProgram:
    """A program for open sizes as it was kept, read once one for given sizes is asked for."""

    def __init__(self, data: JsonValue, symbols: Symbols) -> None:
        self._data = data
        self._symbols = symbols

    @cached_property
    def _program(self) -> OpenProgram | None:
        return program_from_data(self._data, self._symbols)

    def closed(self, atoms: Sequence[int]) -> CProgram | None:
        """The program for given sizes; None where it is gone."""
        return None if self._program is None else self._program.closed(atoms)

    def data(self) -> JsonValue:
        """What keeps it."""
        return self._data


def sizes_data(sizes: Sequence[Any]) -> JsonValue:
    """Numbers, some of them open sizes, as plain data."""
    return [{"size": size.polynomial} if type(size) is OpenSize else int(size) for size in sizes]


def sizes_from_data(data: JsonValue, symbols: Symbols) -> tuple[int, ...]:
    """The numbers that were made data."""
    return tuple([symbols.size(polynomial_of(size["size"])) if isinstance(size, dict) else size for size in data])


def polynomial_of(data: JsonValue) -> Polynomial:
    """A polynomial that was made data."""
    return tuple([(tuple(monomial), coefficient) for monomial, coefficient in data])


def expression_of(data: JsonValue) -> Expression:
    """An expression of floats that was made data."""
    return tuple([expression_of(part) if isinstance(part, list) else part for part in data])


def _step(step: OpenStretch | OpenExtern | Extern) -> JsonValue:
    if isinstance(step, OpenExtern | Extern):
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
    launches = step.launches
    return {
        "library": step.library.name,
        "functions": list(launches.functions),
        "fields": [sizes_data(fields) for fields in launches.fields],
        "sizes": sizes_data(launches.sizes),
        "integers": list(launches.integers),
        "count": launches.buffers,
        "made": [[number, sizes_data(shape), dtype.name] for number, shape, dtype in step.made],
        "moved": [[number, source, sizes_data(shape)] for number, source, shape in step.moved],
        "buffers": list(step.buffers),
        "numbers": list(step.numbers),
    }


def _stretch_of(data: Mapping[str, Any], symbols: Symbols) -> OpenStretch | None:
    library = kept_library(data["library"], data["functions"])
    if library is None:
        return None
    fields, sizes = (
        tuple([sizes_from_data(each, symbols) for each in data["fields"]]),
        sizes_from_data(data["sizes"], symbols),
    )
    launches = Launches(tuple(data["functions"]), fields, sizes, tuple(data["integers"]), data["count"])
    made = [(number, sizes_from_data(shape, symbols), _dtype(name)) for number, shape, name in data["made"]]
    moved = [(number, source, sizes_from_data(shape, symbols)) for number, source, shape in data["moved"]]
    return OpenStretch(library, launches, made, moved, data["buffers"], data["numbers"])


def _extern_of(data: Mapping[str, Any], symbols: Symbols) -> OpenExtern | None:
    try:
        op = OPS.named(data["op"])
    except KeyError:
        return None
    arguments = [_argument_of(argument, symbols) for argument in data["arguments"]]
    return OpenExtern(op, arguments, data["results"], data["tensors"], data["is_view"], data["is_single"])


def _argument(argument: Any) -> JsonValue:
    # Open sizes and floats count as numbers wherever they are asked.
    if type(argument) is OpenSize:
        return {"size": argument.polynomial}
    if type(argument) is OpenFloat:
        return {"open": argument.expression}
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


def _argument_of(data: JsonValue, symbols: Symbols) -> Any:
    if isinstance(data, list):
        return [_argument_of(item, symbols) for item in data]
    if not isinstance(data, dict):
        return data
    ((kind, of),) = data.items()
    match kind:
        case "slot":
            return Slot(of)
        case "size":
            return symbols.size(polynomial_of(of))
        case "open":
            return OpenFloat(symbols, expression_of(of))
        case "float":
            return float.fromhex(of)
    return tuple([_argument_of(item, symbols) for item in of])


def _layout(array: np.ndarray[Any, Any]) -> tuple[list[int], str]:
    return list(array.shape), array.dtype.name


def _array(shape: Sequence[int], dtype: str, elements: str) -> np.ndarray[Any, Any]:
    array = np.frombuffer(b64decode(elements), _dtype(dtype)).reshape(tuple(shape))
    return array


def _dtype(name: str) -> np.dtype[Any]:
    return numpy_dtype(BY_NAME[name])
