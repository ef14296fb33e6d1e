"""One Triton function for a kernel of every sample: the sizes that its text names are parameters."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from ....compiler.codegen.triton.layout import Dimension, triton_layout
from ....compiler.codegen.triton.module import constants, emit_triton, parameter_names
from ....compiler.codegen.wrapping import in_docstring
from ....compiler.kernel_ir.index import Atom, AxisAtom, Index, Quotient, Remainder
from ....compiler.kernel_ir.kernel import Axis, Definition, Kernel, Reduce, Statement
from ....compiler.kernel_ir.passed_sizes import passed_sizes, size_parameter
from ....compiler.kernel_ir.statements import with_indices, with_sizes_of
from ....compiler.scheduling.choose import choose_schedule
from ....compiler.scheduling.schedule import LoopedRow, Row, Schedule, Serial
from ....compiler.scheduling.strides import is_across
from ....compiler.scheduling.tiles import held_points
from ....lang.light_dataclasses import dataclass, replace
from ..merging import merged_samples
from ..python_text import wrapped_line
from ..signature import ROWS
from ..sizes import NotASize, Sizes, SizeTerm, operand_text
from .interpretable import interpretable
from .math import without_library

_LANES = 32
"""Columns that a program sums side by side, and rows that it takes at once."""
_COUNT = re.compile(r"triton\.cdiv\(([^()]*)\)")
_ANYTHING = 10**9
"""Of characters in a line, before lines are wrapped."""


@dataclass(frozen=True, slots=True)
class TritonFunction:
    """The text of a kernel and of the helpers that it calls, and how it is launched.

    `arguments` are texts by parameter, of tensors and numbers the names that the kernel has for them.
    """

    name: str
    text: str
    helpers: tuple[str, ...]
    grid: tuple[str, ...]
    tensors: tuple[tuple[str, str], ...]
    """The parameters and, for each, the buffer or the number that is passed."""
    sizes: tuple[tuple[str, str], ...]
    options: str


def triton_function(kernels: Sequence[Kernel], name: str, sizes: Sizes, wide: Collection[str]) -> TritonFunction:
    """The function of one kernel, given for each sample. `wide` buffers hold numbers that are computed in float32.

    NotASize where the samples differ in more than sizes.
    """
    return _KernelFunction(kernels, name, sizes, wide).made()


class _KernelFunction:
    def __init__(self, kernels: Sequence[Kernel], name: str, sizes: Sizes, wide: Collection[str]) -> None:
        self.kernels = [renamed_like(kernel, kernels[0]) for kernel in kernels]
        self.name = name
        self.sizes = sizes
        self.wide = wide
        self.schedules = [_schedule(kernel) for kernel in self.kernels]
        self.passed: dict[str, str] = {}

    def made(self) -> TritonFunction:
        parts = [_functions(emit_triton(k, s, _ANYTHING)) for k, s in zip(self.kernels, self.schedules, strict=True)]
        helpers = parts[0][:-1]
        if any(part[:-1] != helpers for part in parts):
            raise NotASize("the samples need other helpers")
        found = merged_samples([self._inner(part[-1]) for part in parts], self.sizes)
        lines = [self._named_counts(line) for line in found.lines]
        sizes = [size_parameter(axis) for axis in passed_sizes(self.kernels[0])]
        lines = interpretable(lines, [ROWS, *sizes, *self.passed.values()])
        first = self.kernels[0]
        body = "\n".join(lines)
        pointers = self._parameters(first, body)
        given = [*pointers, *self._dynamic(body)]
        own = {name: name for name in found.names if name != ROWS and _mentions(body, name)}
        rows = {ROWS: ROWS} if _mentions(body, ROWS) else {}
        blocks = self._blocks()
        typed = _types(parts[0][-1])
        parameters = [f"{p}{typed.get(p, '')}" for p in given]
        parameters += [*rows, *self.passed.values()]
        parameters += [f"{p}: tl.constexpr" for p in (*own, *blocks)]
        numbers = [f'"{p}"' for p in pointers if p in typed]
        decorator = f"@triton.jit(do_not_specialize=[{', '.join(numbers)}])" if numbers else "@triton.jit"
        own_math: dict[str, None] = {}
        lines = [without_library(line, own_math) for line in lines]
        called = [without_library(helper, own_math) for helper in helpers]
        text = [*wrapped_line(decorator, ""), *wrapped_line(f"def {self.name}({', '.join(parameters)}):", "")]
        text += self._docstring()
        text += [part for line in lines for part in _wrapped(self._widened(line))]
        counts = {name: f"triton.cdiv({text})" for text, name in self.passed.items()}
        return TritonFunction(
            self.name,
            "\n".join(text),
            (*own_math, *called),
            self._grid(),
            tuple(pointers.items()),
            tuple({**self._dynamic(body), **rows, **counts, **own, **blocks}.items()),
            self._options(),
        )

    def _inner(self, text: str) -> list[str]:
        """The lines behind `def`, under the name that the module has for the function."""
        lines = text.split("\n")
        start = next(i for i, line in enumerate(lines) if line.startswith("def ")) + 1
        end = next(i for i in range(start, len(lines)) if lines[i].endswith('"""'))
        # What a kernel calls as a size will be called is another variable; sizes are numbers still.
        numbers = {number.name for number in self.kernels[0].parameters}
        taken = "|".join(sorted({*self.sizes.symbols, ROWS} - numbers))
        return [re.sub(rf"\b({taken})\b", r"\1_", line) for line in lines[end + 1 :]]

    def _docstring(self) -> list[str]:
        """Over how many points it runs, and the lines that it came from."""
        axes = zip(*(kernel.axes for kernel in self.kernels), strict=True)
        points = [f"{found[0].name} < {self._extent([[axis] for axis in found]).text}" for found in axes]
        shown = f"{' × '.join(points)}." if points else "a single point."
        # Triton takes the first line that begins a function for that of the kernel.
        found = (span.source.line(span.line).strip() for span in self.kernels[0].sources)
        lines = dict.fromkeys(line for line in found if not line.startswith("def "))
        if not lines:
            return [f'    """{shown}"""']
        return [f'    """{shown}', "", *(f"    {in_docstring(line)}" for line in lines), '    """']

    def _named_counts(self, line: str) -> str:
        """How many chunks there are is computed where the kernel is launched."""

        def name(found: re.Match[str]) -> str:
            count = len(self.passed)
            return self.passed.setdefault(found[1], "chunks" if not count else f"chunks_{count}")

        return _COUNT.sub(name, line)

    # --- parameters ---

    def _parameters(self, kernel: Kernel, body: str) -> dict[str, str]:
        """Those of buffers and numbers that the body mentions, and what each is of."""
        names = parameter_names(kernel)
        dynamic = len(passed_sizes(kernel))
        buffers = [buffer.name for buffer in kernel.buffers]
        numbers = [number.name for number in kernel.parameters]
        pairs = [
            *zip(names[: len(buffers)], buffers, strict=True),
            *zip(names[len(buffers) + dynamic :], numbers, strict=True),
        ]
        return {name: of for name, of in pairs if _mentions(body, name)}

    def _dynamic(self, body: str) -> dict[str, str]:
        """Sizes that the text has a parameter for."""
        samples = zip(*(passed_sizes(kernel).values() for kernel in self.kernels), strict=True)
        names = map(size_parameter, passed_sizes(self.kernels[0]))
        given = zip(names, samples, strict=True)
        return {name: self.sizes.of(found).text for name, found in given if _mentions(body, name)}

    def _extent(self, axes: Sequence[Sequence[Axis]]) -> SizeTerm:
        """The points along some axes, given for each sample."""
        terms = [self.sizes.of([axis.size for axis in found]) for found in zip(*axes, strict=True)]
        terms = [term for term in terms if term.text != "1"] or terms
        if len(terms) == 1:
            return terms[0]
        return SizeTerm((), " * ".join(operand_text(term, 1) for term in terms), frozenset(), 1)

    def _blocks(self) -> dict[str, str]:
        """Block sizes by name; of whole rows, the power of two that holds one."""
        found = [constants(k, s) for k, s in zip(self.kernels, self.schedules, strict=True)]
        blocks = {}
        for label in found[0]:
            if label == "COLUMNS" and _holds_rows(self.kernels[0], self.schedules[0]):
                reduced = [kernel.with_role("reduction") for kernel in self.kernels]
                blocks[label] = f"triton.next_power_of_2({self._extent(reduced).text})"
            elif len({one[label] for one in found}) == 1:
                blocks[label] = str(found[0][label])
            else:
                raise NotASize(f"{label} differs")
        return blocks

    def _options(self) -> str:
        if _holds_rows(self.kernels[0], self.schedules[0]):
            reduced = [kernel.with_role("reduction") for kernel in self.kernels]
            return f"num_warps=_warps({self._extent(reduced).text})"
        return f"num_warps={self.schedules[0].num_warps}"

    # --- the grid ---

    def _grid(self) -> tuple[str, ...]:
        layouts = [triton_layout(k, s).dimensions for k, s in zip(self.kernels, self.schedules, strict=True)]
        programs = ["1", "1", "1"]
        for dimensions in zip(*layouts, strict=True):
            if dimensions[0].kind == "program":
                programs[dimensions[0].grid] = self._programs(dimensions)
        while len(programs) > 1 and programs[-1] == "1":
            programs.pop()
        return tuple(programs)

    def _programs(self, dimensions: Sequence[Dimension]) -> str:
        extent = self._extent([dimension.axes for dimension in dimensions])
        block = dimensions[0].block
        return f"triton.cdiv({extent.text}, {block})" if block > 1 else extent.text

    def _widened(self, line: str) -> str:
        """The line with what is loaded of halves in float32."""
        names = "|".join(re.escape(f"{name}_ptr") for name in self.wide)
        if not names or "tl.load(" not in line:
            return line
        return "".join(_with_casts(line, re.compile(rf"tl\.load\((?:{names})\b")))


def _with_casts(line: str, load: re.Pattern[str]) -> Iterator[str]:
    start = 0
    for found in load.finditer(line):
        depth, end = 1, found.start() + len("tl.load(")
        while depth:
            depth += {"(": 1, ")": -1}.get(line[end], 0)
            end += 1
        yield line[start:end]
        if not line.startswith(".to(", end):
            yield ".to(tl.float32)"
        start = end
    yield line[start:]


def _functions(module: str) -> list[str]:
    """The functions of a module: helpers, then the kernel."""
    return [part.rstrip("\n") for part in module.split("\n\n\n")[1:]]


def _mentions(text: str, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None


def _types(definition: str) -> dict[str, str]:
    """The annotations of parameters that are numbers."""
    return {name: f": {kind}" for name, kind in re.findall(r"(\w+): (tl\.(?!constexpr)\w+)[,)]", definition)}


def _wrapped(line: str) -> list[str]:
    margin = line[: len(line) - len(line.lstrip())]
    if not line.strip() or '"""' in line:
        return [line.rstrip()]
    return wrapped_line(line.lstrip(), margin)


def renamed_like(kernel: Kernel, first: Kernel) -> Kernel:
    """The kernel with its axes called as another sample's are: those of a batch of two dimensions have two letters."""
    if len(kernel.axes) != len(first.axes) or len(kernel.body) != len(first.body):
        raise NotASize("the samples have other kernels")
    names = {own.name: other.name for own, other in zip(kernel.axes, first.axes, strict=True)}
    passed, others = passed_sizes(kernel), passed_sizes(first)
    if len(passed) != len(others):
        raise NotASize("the samples have other sizes passed")
    names |= dict(zip(passed, others, strict=True))
    if all(own == other for own, other in names.items()):
        return kernel
    axes = tuple(replace(axis, name=names[axis.name]) for axis in kernel.axes)
    return replace(kernel, axes=axes, body=tuple(_renamed(statement, names) for statement in kernel.body))


def _renamed(statement: Statement, names: Mapping[str, str]) -> Statement:
    statement = with_sizes_of(with_indices(statement, lambda index: _renamed_index(index, names)), names)
    if isinstance(statement, Definition):
        statement = replace(statement, axes=frozenset(names[name] for name in statement.axes))
    if isinstance(statement, Reduce):
        statement = replace(statement, over=frozenset(names[name] for name in statement.over))
    return statement


def _renamed_index(index: Index, names: Mapping[str, str]) -> Index:
    """Indices nest as deep as reshapes were chained, so this recurses."""
    return Index(tuple((factor, _renamed_atom(atom, names)) for factor, atom in index.terms), index.constant)


def _renamed_atom(atom: Atom, names: Mapping[str, str]) -> Atom:
    match atom:
        case AxisAtom():
            return AxisAtom(names[atom.name])
        case Quotient() | Remainder():
            return replace(atom, index=_renamed_index(atom.index, names))
    return atom


def _schedule(kernel: Kernel) -> Schedule:
    """A schedule for any sizes of the kind of these: one row for each program, sums over chunks in a loop."""
    schedule = choose_schedule(kernel)
    match schedule:
        case Row() | LoopedRow() if _is_column(kernel):
            return LoopedRow(4, 1, _LANES, _LANES, schedule.outer)
        case Serial() if schedule.parts > 1:
            # Of another length there would be other parts.
            return replace(schedule, parts=1, columns=held_points(kernel))
        case Row() | Serial() if _holds_rows(kernel, schedule):
            return replace(schedule, rows=1)
    return schedule


def _is_column(kernel: Kernel) -> bool:
    return is_across(kernel, kernel.with_role("parallel"), kernel.with_role("reduction"))


def _holds_rows(kernel: Kernel, schedule: Schedule) -> bool:
    """Whether each program holds a whole row."""
    return isinstance(schedule, Row | Serial) and bool(kernel.with_role("reduction"))
