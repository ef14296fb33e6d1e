"""From kernels to the text of a module of C: a function for each, which goes through programs `begin` to `end`.

    int scale(void *const *buffers, const int64_t *sizes, const gs_number *numbers, void *scratch,
              int64_t begin, int64_t end)
    {
        const float *restrict x = buffers[0];
        float *restrict result = buffers[1];
        for (int64_t i_block = begin; i_block < end; ++i_block) {
            …
            #pragma omp simd
            for (int64_t i = i_first; i < i_end; ++i) {
                result[i] = x[i] * 0.5f;
            }
        }
        return 0;
    }

Any threads may share out the programs of a kernel. `buffers` hold a pointer for each buffer of the kernel, to its
element of index 0, `sizes` what is passed of them, `numbers` one for each parameter; `scratch` is memory of the
calling thread's own. The function gives 1 where an index that was computed lies out of range, else 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from operator import index

from ....lang.light_dataclasses import dataclass
from ...kernel_ir.in_place import shares_memory
from ...kernel_ir.kernel import Condition, Kernel
from ...kernel_ir.passed_sizes import passed_sizes, size_parameter
from ...scheduling.casts import without_round_trips
from ...scheduling.cpu import MOST_KEPT, CpuSchedule, bounded, choose_cpu_schedule, points_of_program, program_counts
from ...scheduling.nest import nest_of
from ...scheduling.shares import with_shares_multiplied
from ...types.dtypes import Number
from ...types.open_sizes import is_open
from ..naming import Names
from ..text import Unsupported
from .aligned import read_by_each_row
from .body import INDENT, CBody
from .functions import function_texts, of_math_h
from .helpers import HALVES, PRELUDE, mentioned, needs_halves, text_of
from .math import IN_STAGES
from .positions import CPositions
from .primitives import KEPT, STORED, TYPES, supports

__all__ = ["CFunction", "Unsupported", "emit_c", "emit_function", "program_count", "supports"]

STACK = 1 << 14
"""Bytes of arrays on the stack; more lie in `scratch`."""
ROOM = 1 << 16
"""Elements of arrays whose lengths are open, as long as these are no longer: other lengths would be other texts."""
ALIGNMENT = 64
FEW_ROWS = 2
"""Rows for which a copy of what they all read does not pay."""
_RESERVED = frozenset(
    (
        *("auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern"),
        *("float", "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return", "short", "signed"),
        *("sizeof", "static", "struct", "switch", "typedef", "union", "unsigned", "void", "volatile", "while"),
        *("bool", "true", "false", "main", "errno", "signbit", "isnan", "isinf", "asm", "typeof", "NAN", "INFINITY"),
        *("buffers", "sizes", "numbers", "scratch", "begin", "end", "program", "rest", "y0", "y1", "yn", "j0", "j1"),
        *("exp", "log", "pow", "sqrt", "sin", "cos", "tan", "tanh", "gamma", "erf", "floor", "ceil", "round", "trunc"),
        *("fmod", "fabs", "copysign", "nextafter", "rint", "index", "significand", "logb", "scalb", "remainder"),
    )
)
"""Words of C, macros, and functions that the compiler knows by name."""


@dataclass(frozen=True, slots=True)
class CFunction:
    """One kernel's function: its name, its text, the helpers that it needs, and bytes of scratch memory."""

    name: str
    text: str
    helpers: tuple[str, ...]
    scratch: int
    schedule: CpuSchedule
    points: int
    """Points of one program."""
    numbers: tuple[Number, ...] = ()
    """What is passed behind the sizes of the kernel."""
    is_in_stages: bool = False
    """Whether all its innermost loops are, each over as many points as there are in a piece."""


def program_count(kernel: Kernel, schedule: CpuSchedule) -> int:
    """The programs of a kernel; of none of its axes, one."""
    return prod(program_counts(kernel, schedule))


def emit_c(functions: Iterable[CFunction]) -> str:
    """The text of a module with some functions and what helpers they need."""
    functions = list(functions)
    helpers = _helper_texts(dict.fromkeys(h for f in functions for h in f.helpers))
    parts = [IN_STAGES] if functions and all(f.is_in_stages for f in functions) else []
    texts = [*helpers, *(f.text for f in functions)]
    parts += [PRELUDE, *of_math_h("\n".join(texts))]
    if needs_halves("\n".join(texts)):
        parts.append(HALVES)
    parts += texts
    return "\n\n".join(parts) + "\n"


def _helper_texts(names: Iterable[str]) -> list[str]:
    """The texts of helpers, each behind what it mentions."""
    found: dict[str, str] = {}
    mathematical: dict[str, None] = {}

    def add(name: str) -> None:
        text = text_of(name)
        if text is None:
            mathematical[name] = None
        elif name not in found:
            for other in mentioned(text):
                if other != name and text_of(other) is not None:
                    add(other)
            found[name] = text

    for name in names:
        add(name)
    return [*function_texts(mathematical), *found.values()]


def emit_function(
    kernel: Kernel, name: str, schedule: CpuSchedule | None = None, has_any_size: bool = False
) -> CFunction:
    """The function of one kernel; with `has_any_size` no size decides more than numbers in its text.

    Raises: Unsupported, for a primitive without a text.
    """
    passed = passed_sizes(kernel)
    short = bounded(with_shares_multiplied(without_round_trips(kernel)))
    schedule = schedule or choose_cpu_schedule(short.kernel)
    return _Function(short.kernel, name, schedule, short.ends, passed, has_any_size).emit()


def _room(points: int) -> int:
    """Elements of an array for so many points."""
    return ROOM if is_open(points) and points <= ROOM else index(points)


class _Function:
    def __init__(
        self,
        kernel: Kernel,
        name: str,
        schedule: CpuSchedule,
        ends: dict[str, Condition],
        passed: Iterable[str],
        has_any_size: bool,
    ) -> None:
        self.kernel = kernel
        self.name = name
        self.schedule = schedule
        self.names = names = Names({*_RESERVED, name})
        self.passed = {b.name: names.take(f"{b.name}_ptr") for b in kernel.buffers}
        self.passed |= {p.name: names.take(p.name) for p in kernel.parameters}
        self.sizes = {axis: names.take(size_parameter(axis)) for axis in passed}
        axes = {a.name: names.take(a.name) for a in kernel.axes}
        for program in schedule.programs:
            for word in ("first", "end", "block"):
                names.take(f"{axes[program.axis]}_{word}")
        self.positions = CPositions(kernel, schedule, ends, axes, self.sizes, names, has_any_size)
        extents = {a.name: self.positions.extent_of(a.name) for a in kernel.axes}
        nest = nest_of(kernel, schedule.loops, extents, MOST_KEPT)
        self.items = nest.items
        self.body = CBody(kernel, nest, names, self.positions, self.passed)
        self.read_by_each_row = read_by_each_row(kernel, schedule, self.positions)

    def emit(self) -> CFunction:
        programs = self.schedule.programs
        turn = programs[-1].axis if programs and not programs[-1].block else ""
        before, behind = self.body.tiled
        if turn:
            begins = f"{self._counter()} == begin || "
            before += self.body.gathers.rows(self.items, turn, self.positions.size_of(turn), begins)
            before += self.body.traffic.ahead(self.items, turn, self.body.blocks)
        inner = [*before, *self.body.lines(self.items), *behind]
        arrays, scratch = self._arrays()
        outside = self.body.outside
        traffic = self.body.traffic
        rest = [
            *self._numbers(),
            *self._alone(),
            *arrays,
            *traffic.declared(),
            *([f"int {outside} = 0;"] if outside else []),
        ]
        rest += [*self._programs(inner), *traffic.ended(), f"return {outside or 0};"]
        lines = [*self._buffers(), *self._sizes(rest), *rest]
        text = "\n".join([*self._comment(), *self._signature(), "{", *(INDENT + line for line in lines), "}"])
        helpers = {**self.body.helpers, **self.positions.helpers, **traffic.helpers, **self.body.gathers.helpers}
        if any(p.block for p in self.schedule.programs):
            helpers["gs_least"] = None
        helpers |= dict.fromkeys(name for name in ("gs_aligned", "gs_noalias") if f"{name}(" in text)
        return CFunction(
            self.name,
            text,
            tuple(helpers),
            scratch,
            self.schedule,
            points_of_program(self.kernel, self.schedule),
            tuple(self.positions.numbers),
            self.body.is_in_stages,
        )

    def _comment(self) -> list[str]:
        sizes = [(a.name, "size" if a.dynamic or is_open(a.size) else a.size) for a in self.kernel.axes]
        shown = " × ".join(f"{name} < {size}" for name, size in sizes) or "a single point"
        lines = [f"/* {self.name} over {shown}."]
        sources = dict.fromkeys(
            f"{span.source.filename}:{span.line}: {span.source.line(span.line).strip()}" for span in self.kernel.sources
        )
        if sources:
            lines += [" *", *(f" * {_plain(source)}" for source in sources)]
            return [*lines, " */"]
        return [f"{lines[0]} */"]

    def _signature(self) -> list[str]:
        return [
            f"int {self.name}(",
            f"{INDENT}void *const *buffers, const int64_t *sizes, const gs_number *numbers, void *scratch, "
            "int64_t begin, int64_t end)",
        ]

    def _buffers(self) -> list[str]:
        lines = []
        for number, buffer in enumerate(self.kernel.buffers):
            type, pointer = STORED[buffer.dtype], self.passed[buffer.name]
            constant = "" if buffer.is_output else "const "
            alone = "" if shares_memory(self.kernel, buffer) else "restrict "
            place = f"buffers[{number}]"
            points = self.read_by_each_row.get(buffer.name)
            if points:
                line, nbytes = self.names.take(f"{buffer.name}_line"), points * buffer.dtype.itemsize
                lines.append(f"{type} {line}[{points}] __attribute__((aligned({ALIGNMENT})));")
                rows = "true" if len(self.schedule.loops) > 1 else f"end - begin > {FEW_ROWS}"
                place = f"gs_aligned({place}, {line}, {nbytes}, {rows})"
            lines.append(f"{constant}{type} *{alone}{pointer} = {place};")
        return lines

    def _alone(self) -> list[str]:
        if self.body.alone:
            self.body.helpers["gs_alone"] = None
        types = {b.name: STORED[b.dtype] for b in self.kernel.buffers}
        return [
            f"const {types[buffer]} *const {name} = gs_alone({self.passed[buffer]});"
            for name, buffer in self.body.alone.items()
        ]

    def _sizes(self, lines: Sequence[str]) -> list[str]:
        """Those that the lines mention."""
        used = [(n, size) for n, size in enumerate(self.sizes.values()) if any(size in line for line in lines)]
        return [f"const int64_t {size} = sizes[{n}];" for n, size in used]

    def _numbers(self) -> list[str]:
        places = {p.name: (n, p.dtype) for n, p in enumerate(self.kernel.parameters)}
        lines = []
        for (name, dtype), variable in self.body.parameters.items():
            number, given = places[name]
            member = f"numbers[{number}].{'real' if given.is_floating else 'integer'}"
            type = TYPES[dtype]
            lines.append(f"const {type} {variable} = {'' if type in ('double', 'int64_t') else f'({type})'}{member};")
        return lines

    def _arrays(self) -> tuple[list[str], int]:
        """Arrays on the stack, and those that are too large for it in scratch memory; bytes of that."""
        lines: list[str] = []
        on_stack = scratch = 0
        is_unaliased = self.body.has_lanes
        for name, dtype, points, text in self.body.arrays:
            count = _room(points)
            size = -(-count * (4 if dtype.is_half else dtype.itemsize) // ALIGNMENT) * ALIGNMENT
            type = KEPT[dtype]
            if on_stack + size <= STACK:
                on_stack += size
                room = self.names.take(f"{name}_room") if is_unaliased else name
                lines.append(f"{type} {room}[{text or count}] __attribute__((aligned({ALIGNMENT})));")
                lines += [f"{type} *restrict {name} = gs_noalias({room});"] if is_unaliased else []
            else:
                lines.append(f"{type} *restrict {name} = ({type} *)((char *)scratch + {scratch});")
                scratch += size
        for type, name, size in self.body.gathers.arrays:
            lines.append(f"{type} *restrict {name} = ({type} *)((char *)scratch + {scratch});")
            scratch += -(-size // ALIGNMENT) * ALIGNMENT
        return lines, scratch

    # --- programs ---

    def _programs(self, inner: Sequence[str]) -> list[str]:
        programs = self.schedule.programs
        if not programs:
            return list(inner)
        counter = self._counter()
        lines: list[str] = []
        for number, program in enumerate(programs):
            lines += self._decoded(number, counter, program.axis, program.block)
        head = f"for (int64_t {counter} = begin; {counter} < end; ++{counter}) {{"
        return [head, *(INDENT + line for line in [*lines, *inner]), "}"]

    def _counter(self) -> str:
        """The variable that counts programs."""
        programs = self.schedule.programs
        if len(programs) > 1:
            return "program"
        axis = self.positions.axes[programs[0].axis]
        return f"{axis}_block" if programs[0].block else axis

    def _decoded(self, number: int, counter: str, axis: str, block: int) -> list[str]:
        """The position of a program along an axis, or its block there."""
        programs = self.schedule.programs
        text, is_product = counter, False
        for later in programs[number + 1 :]:
            text, is_product = f"{text} / {self._count(later.axis, later.block)}", True
        if number:
            text, is_product = f"{text} % {self._count(axis, block)}", True
        name = self.positions.axes[axis]
        if not block:
            return [] if text == name else [f"const int64_t {name} = {text};"]
        first, end = f"{name}_first", f"{name}_end"
        at = f"({text})" if is_product else text
        points = self.positions.number(block)
        return [
            f"const int64_t {first} = {points} * {at};",
            f"const int64_t {end} = gs_least({first} + {points}, {self.positions.size_of(axis)});",
        ]

    def _count(self, axis: str, block: int) -> str:
        size = self.positions.size_of(axis)
        if not block:
            return size
        if size.isdigit():
            return self.positions.number(-(-int(size) // block))
        return f"(({size} + {self.positions.number(block - 1)}) / {self.positions.number(block)})"


def _plain(text: str) -> str:
    """Text that may stand in a comment."""
    return " ".join(text.splitlines()).replace("*/", "* /").replace("/*", "/ *").rstrip("\\")
