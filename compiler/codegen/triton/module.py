"""From kernel IR and a schedule to the text of a Triton module.

    import triton
    import triton.language as tl

    @triton.jit
    def scale(x_ptr, result_ptr, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = i < 1000
        x = tl.load(x_ptr + i, mask=mask)
        tl.store(result_ptr + i, x * 0.5, mask=mask)

Parameters are the buffers' pointers, the sizes that are passed, the kernel's numbers, and the schedule's block sizes.
Sizes and strides of other axes are literals. Halves are computed in float32 and rounded where they are stored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from textwrap import dedent, indent
from typing import Any

from ....lang.light_dataclasses import dataclass
from ...kernel_ir.kernel import Axis, Kernel, Statement, Uniform
from ...kernel_ir.passed_sizes import passed_sizes, size_parameter
from ...scheduling.casts import without_round_trips
from ...scheduling.order import with_early_loads, with_late_loads
from ...scheduling.padding import choose_others
from ...scheduling.phases import phases_of
from ...scheduling.row_parts import RowParts
from ...scheduling.schedule import WARP, Flat, Row, Schedule, Tiled
from ...types.dtypes import (
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
    Number,
)
from ...types.open_sizes import is_open
from ..naming import Names
from ..text import Unsupported
from ..wrapping import WIDTH, in_docstring, wrapped_call
from .body import INDENT, TritonBody
from .expressions import OpenLines, is_sine
from .helpers import HELPERS, with_mentioned
from .layout import Dimension, TritonLayout, taken_in_parts, triton_layout
from .open_numbers import OpenNumbers
from .primitives import TYPES, supports

__all__ = [
    "Unsupported",
    "compile_options",
    "configuration",
    "constants",
    "divisible_sizes",
    "emit_for_open_sizes",
    "emit_triton",
    "function_name",
    "grid",
    "most_registers",
    "parameter_names",
    "portable_options",
    "supports",
    "triton_signature",
]

REGISTERS = 65_536
"""32-bit registers that the programs of a multiprocessor share, of compute capability 8.0 to 10.0."""
MAX_REGISTERS = 255
"""Of a thread."""
_NVIDIA_OPTIONS = ("maxnreg", "enable_reflect_ftz")
PORTABLE_WARPS = 8
"""Warps at most of a program on devices of which little is known but that their warps are larger."""

_KEEPING = frozenset(
    ("copysign", "exp", "fast_dividef", "isinf", "isnan", "log", "log10", "log2", "nearbyint", "signbit", "trunc")
)
"""Functions of libdevice that are the same where it takes subnormal numbers for 0."""
_FLUSHED = ("_float_floor_divide", "_float_remainder", "_log_ndtr")
"""Helpers that others are the results of; all that is not here was written for it."""
_RESERVED = {"tl", "triton", "libdevice", "float", "range", "start", "_", *HELPERS}
_TYPE_NAMES = {
    BOOL: "i1",
    UINT8: "u8",
    INT8: "i8",
    INT16: "i16",
    INT32: "i32",
    INT64: "i64",
    FLOAT16: "fp16",
    BFLOAT16: "bf16",
    FLOAT32: "fp32",
    FLOAT64: "fp64",
}


def grid(kernel: Kernel, schedule: Schedule) -> tuple[int, int, int]:
    """The programs to launch; a 0 among them says that there is nothing to do."""
    programs = [1, 1, 1]
    for dimension in triton_layout(kernel, schedule).dimensions:
        if dimension.kind == "program":
            programs[dimension.grid] = dimension.programs
    return programs[0], programs[1], programs[2]


def constants(kernel: Kernel, schedule: Schedule) -> dict[str, int]:
    """The block sizes by the names of their parameters."""
    return {d.label: d.block for d in _labelled(triton_layout(kernel, schedule))}


def most_registers(num_warps: int, wanted: int = MAX_REGISTERS) -> int:
    """The `maxnreg` with which a program of so many warps is compiled for NVIDIA's devices: all that it should have.

    Left to itself the assembler spills a few values where that lets one more program run beside, and elsewhere takes
    registers by which fewer do.
    """
    return min(wanted, MAX_REGISTERS, REGISTERS // (WARP * num_warps))


def configuration(schedule: Schedule) -> dict[str, int]:
    """The options of a launch that the schedule decides; `maxnreg` for NVIDIA's devices only."""
    warps = schedule.num_warps
    registers = most_registers(warps, schedule.most_registers)
    return {"num_warps": warps, "num_stages": schedule.num_stages, "maxnreg": registers}


def compile_options(text: str) -> dict[str, bool]:
    """The options of a launch that a module's text decides, whatever Triton's defaults are.

    A product and a sum may become one fused operation, rounded once, as nvcc does by default for torch's own kernels.
    Triton has libdevice take subnormal numbers for 0, by which `atan2(1e-40, 1e-40)` is 0 and `rsqrt(1e-40)` infinite:
    only what comes out the same may be compiled so, on NVIDIA's devices.
    """
    function = text[text.rindex("@triton.jit") :]
    is_same = _KEEPING.issuperset(re.findall(r"libdevice\.(\w+)", function))
    is_same = is_same and not any(f"def {helper}(" in text for helper in _FLUSHED)
    return {"enable_fp_fusion": True, "enable_reflect_ftz": is_same}


def portable_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a launch that devices which are not NVIDIA's know, and the interpreter.

    A warp of AMD's has twice the threads: of the most that there may be, each would have half the registers.
    """
    known = {name: given for name, given in options.items() if name not in _NVIDIA_OPTIONS}
    return {**known, "num_warps": min(known["num_warps"], PORTABLE_WARPS)} if "num_warps" in known else known


def divisible_sizes(kernel: Kernel) -> list[str]:
    """The sizes of dynamic axes that are multiples of 16, which Triton compiles a launch for apart."""
    return [size_parameter(axis.name) for axis in kernel.axes if axis.dynamic and axis.size % 16 == 0]


def function_name(kernel: Kernel) -> str:
    """The name of the kernel's function in its module."""
    return Names(_RESERVED).take(kernel.name)


def parameter_names(kernel: Kernel) -> list[str]:
    """The parameters before the block sizes: pointers, sizes, numbers."""
    passed = _passed(kernel)
    return [
        *(passed[buffer.name] for buffer in kernel.buffers),
        *map(size_parameter, passed_sizes(kernel)),
        *(passed[parameter.name] for parameter in kernel.parameters),
    ]


def triton_signature(kernel: Kernel, schedule: Schedule) -> dict[str, str | int]:
    """Every parameter in order → Triton's name of its type, or the number that a block size is."""
    types = [f"*{_TYPE_NAMES[buffer.dtype]}" for buffer in kernel.buffers]
    types += ["i32" for _ in passed_sizes(kernel)]
    types += [_TYPE_NAMES[parameter.dtype] for parameter in kernel.parameters]
    return {**dict(zip(parameter_names(kernel), types, strict=True)), **constants(kernel, schedule)}


def _passed(kernel: Kernel) -> dict[str, str]:
    """The parameters of buffers and numbers, by the name of either."""
    names = Names(_RESERVED)
    found = {buffer.name: names.take(f"{buffer.name}_ptr") for buffer in kernel.buffers}
    return {**found, **{parameter.name: names.take(parameter.name) for parameter in kernel.parameters}}


def emit_triton(kernel: Kernel, schedule: Schedule, width: int = WIDTH) -> str:
    """The text of a module with one kernel of `kernel.name`, in lines of so many characters.

    Raises: Unsupported, for a primitive without a text, or a reduction that the schedule does not reach.
    """
    return emit_for_open_sizes(kernel, schedule, width)[0]


def emit_for_open_sizes(kernel: Kernel, schedule: Schedule, width: int = WIDTH) -> tuple[str, list[Number]]:
    """The text, and the numbers that follow from open sizes and are passed behind those of `passed_sizes`.

    Raises: as `emit_triton`.
    """
    parts = taken_in_parts(without_round_trips(kernel), schedule)
    kernel = parts.kernel
    if isinstance(schedule, Row):
        row = frozenset(axis.name for axis in kernel.with_role("reduction"))
        kernel = kernel.with_body(with_late_loads(kernel.body, row))
    if isinstance(schedule, Flat | Tiled) and any(map(is_sine, kernel.body)):
        # Threads wait for each other to ask for large angles; what is loaded is on its way by then.
        kernel = kernel.with_body(with_early_loads(kernel.body))
    layout = triton_layout(kernel, schedule)
    padded = [d.names for d in layout.dimensions if d.is_masked and d.kind != "program"]
    if padded:
        kernel = kernel.with_body(choose_others(kernel.body, padded))
        layout = TritonLayout(kernel, layout.dimensions)
    module = _TritonModule(kernel, layout, schedule.num_stages, width, parts)
    return module.text(), module.body.numbers.passed


def _labelled(layout: TritonLayout) -> list[Dimension]:
    return [d for d in layout.tile if d.label]


@dataclass
class _TritonModule:
    kernel: Kernel
    layout: TritonLayout
    stages: int
    width: int
    parts: RowParts

    def __post_init__(self) -> None:
        self.passed = _passed(self.kernel)
        self.function = function_name(self.kernel)
        taken = {d.label for d in _labelled(self.layout)} | set(self.passed.values()) | {self.function}
        names = Names(_RESERVED | taken | set(map(size_parameter, passed_sizes(self.kernel))))
        self.positions = self._position_names(names)
        self.body = TritonBody(self.kernel, self.layout, names, self.positions, self.passed, self.parts)

    def _position_names(self, names: Names) -> dict[str, str]:
        """Variables for the positions along axes and flattened dimensions, and for masks."""
        found: dict[str, str] = {}
        masked = [d for d in self.layout.dimensions if d.is_masked]
        for dimension in self.layout.dimensions:
            for axis in dimension.axes:
                found[axis.name] = names.take(axis.name)
            if dimension.name not in found:
                found[dimension.name] = names.take(dimension.name)
            if dimension.is_masked:
                mask = "mask" if len(masked) == 1 else f"{found[dimension.name]}_mask"
                found[f"mask {dimension.name}"] = names.take(mask)
            if any(isinstance(statement, Uniform) for statement in self.kernel.body):
                found[f"fours {dimension.name}"] = names.take(f"{found[dimension.name]}_fours")
        return found

    # --- the module ---

    def text(self) -> str:
        lines = self._lines()
        imports = ["import triton", "import triton.language as tl"]
        helpers = [dedent(HELPERS[name]).strip() for name in with_mentioned(self.body.helpers)]
        definition = "\n".join([*self._signature(lines), *indent(self._docstring(), INDENT).splitlines(), *lines])
        functions = [*(f"@triton.jit\n{helper}" for helper in helpers), definition]
        if any("libdevice." in function for function in functions):
            imports.append("from triton.language.extra import libdevice")
        return "\n".join(imports) + "\n\n\n" + "\n\n\n".join(functions) + "\n"

    def _signature(self, lines: Sequence[str]) -> list[str]:
        numbers = [self.passed[p.name] for p in self.kernel.parameters]
        typed = {self.passed[p.name]: f": {TYPES[p.dtype]}" for p in self.kernel.parameters}
        sizes = [*map(size_parameter, passed_sizes(self.kernel)), *self.body.numbers.parameters]
        parameters = [self.passed[buffer.name] for buffer in self.kernel.buffers]
        parameters += [*sizes, *(name + typed[name] for name in numbers)]
        parameters += [f"{d.label}: tl.constexpr" for d in _labelled(self.layout)]
        quoted = ", ".join(f'"{name}"' for name in [*self._plain_sizes(lines), *numbers])
        decorator = f"@triton.jit(do_not_specialize=[{quoted}])" if quoted else "@triton.jit"
        return [decorator, *wrapped_call(f"def {self.function}({', '.join(parameters)}):", "", self.width)]

    def _plain_sizes(self, lines: Sequence[str]) -> list[str]:
        """Those of which nothing depends on whether 16 divides them: where last chunks end, and what is not used."""
        names = {axis: size_parameter(axis) for axis in passed_sizes(self.kernel)}
        used = {name for line in lines for name in re.findall(r"\w+", line)}
        return [name for axis, name in names.items() if axis not in self.kernel.sizes or name not in used]

    def _docstring(self) -> str:
        """What it computes over how many points, and the source lines that it came from."""
        # How many programs there are is no part of the text.
        counted = [d.axes[0] for d in self.layout.dimensions if d.kind == "program" and not d.is_vector]
        are_told = [a.dynamic or (a in counted and self.layout.of(a.name).axes == (a,)) for a in self.kernel.axes]
        pairs = zip(self.kernel.axes, are_told, strict=True)
        sizes = " × ".join(f"{a.name} < {'size' if told or is_open(a.size) else self._size(a)}" for a, told in pairs)
        lines = [f"{self.kernel.name} over {sizes}." if sizes else f"{self.kernel.name} of one point."]
        places: dict[str, None] = {}
        for span in self.kernel.sources:
            source = span.source.line(span.line).strip()
            places[f"{span.source.filename}:{span.line}: {source}"] = None
        if not places:
            return f'"""{in_docstring(lines[0])}"""'
        lines += ["", *(in_docstring(place) for place in places)]
        return '"""' + "\n".join(lines) + '\n"""'

    def _size(self, axis: Axis) -> int:
        return axis.size * self.parts.count if axis.role == "reduction" else axis.size

    # --- the body ---

    def _lines(self) -> list[str]:
        loop = self.layout.loop
        phases = phases_of(self.kernel.body, loop.names if loop is not None else frozenset())
        scope = OpenLines()
        for phase in phases:
            self.body.straight(phase.straight, scope)
            if phase.loop:
                self._loop(phase.loop, scope)
        header = [*self._casts(), *self._definitions(scope.used, loop, False)]
        lines = [part for line in [*header, *scope.lines] for part in wrapped_call(line, INDENT, self.width)]
        return lines or [f"{INDENT}pass"]

    def _loop(self, statements: list[Statement], scope: OpenLines) -> None:
        loop = self.layout.loop
        assert loop is not None
        before, inner, after = self.body.loop(statements)
        position = "start" if loop.is_vector else self.positions[loop.name]
        scope.used |= {name for name in inner.used if not self._is_along(name, loop)}
        scope.lines += before
        scope.lines.append(f"for {position} in {self._turns(loop)}:")
        definitions = self._definitions(inner.used, loop, True)
        scope.lines += [INDENT + line for line in [*definitions, *inner.lines]]
        scope.lines += after

    def _turns(self, loop: Dimension) -> str:
        """What the loop goes over; Triton fetches the loads of its next turns ahead only where it is told to."""
        bound = loop.bound(self.body.numbers).text
        bounds = f"0, {bound}, {loop.label}" if loop.is_vector else bound
        return f"tl.range({bounds}, num_stages={self.stages})" if self.stages > 1 else f"range({bounds})"

    def _is_along(self, name: str, loop: Dimension) -> bool:
        return name.removeprefix("mask ").removeprefix("fours ") in {loop.name, *loop.names}

    def _casts(self) -> list[str]:
        """Numbers in the dtypes that operations ask for; the one that takes the parameter's own name last."""
        declared = {(p.name, p.dtype) for p in self.kernel.parameters}
        return [
            f"{variable} = tl.cast({self.passed[name]}, {TYPES[dtype]})"
            for (name, dtype), variable in reversed(self.body.parameters.items())
            if variable != self.passed[name] or (name, dtype) not in declared
        ]

    def _definitions(self, used: set[str], loop: Dimension | None, in_loop: bool) -> list[str]:
        """Positions and masks that are used: those of the loop's dimension in it, others before."""
        lines: list[str] = []
        for dimension in self.layout.dimensions:
            if (dimension == loop) == in_loop:
                lines += self._dimension(dimension, used)
        return lines

    def _dimension(self, dimension: Dimension, used: set[str]) -> list[str]:
        flat = self.positions[dimension.name]
        axes = [axis for axis in dimension.axes if axis.name in used and axis.name != dimension.name]
        mask = f"mask {dimension.name}" in used
        lines: list[str] = []
        if dimension.name in used or axes or mask:
            lines += self._flat(dimension, flat)
        if f"fours {dimension.name}" in used:
            lines += self._flat(dimension, self.positions[f"fours {dimension.name}"], 4)
        if mask:
            lines.append(f"{self.positions[f'mask {dimension.name}']} = {flat} < {self._bound(dimension)}")
        return lines + [f"{self.positions[a.name]} = {_decoded(flat, dimension, a, self.body.numbers)}" for a in axes]

    def _bound(self, dimension: Dimension) -> str:
        """The number of points; a product that may be large in 64 bits."""
        first, times, others = dimension.bound(self.body.numbers).text.partition(" * ")
        return f"tl.cast({first}, tl.int64) * {others}" if self.layout.is_wide and times else first + times + others

    def _flat(self, dimension: Dimension, name: str, step: int = 1) -> list[str]:
        """The positions along a dimension, or every so many of them."""
        wide = ".to(tl.int64)" if self.layout.is_wide else ""
        program = f"tl.program_id({dimension.grid}){wide}"
        lanes = (
            f"tl.arange(0, {dimension.label})" if step == 1 else f"{step} * tl.arange(0, {dimension.label} // {step})"
        )
        suffix = self.layout.suffix(dimension)
        if dimension.kind == "program" and not dimension.is_vector:
            return [f"{name} = {program}"]
        if dimension.kind == "loop" and not dimension.is_vector:
            return []
        if dimension.kind == "whole":
            lanes = f"({lanes})" if step > 1 and suffix + wide else lanes
            return [f"{name} = {lanes}{suffix}{wide}"]
        start = f"{program} * {dimension.label}" if dimension.kind == "program" else "start"
        if dimension.kind == "loop" and wide:
            lanes = f"{lanes}{wide}" if step == 1 else f"({lanes}){wide}"
        return [f"{name} = ({start} + {lanes}){suffix}" if suffix else f"{name} = {start} + {lanes}"]


def _decoded(flat: str, dimension: Dimension, axis: Axis, numbers: OpenNumbers) -> str:
    """The position along an axis from that along the flattened ones."""
    position = dimension.axes.index(axis)
    inner = dimension.axes[position + 1 :]
    text = flat
    if inner:
        divisor = Dimension("", inner, "whole").bound(numbers)
        text = f"{flat} // {divisor.at(0)}"
    if position:
        text = f"{text} % {Dimension('', (axis,), 'whole').bound(numbers).at(0)}"
    return text
