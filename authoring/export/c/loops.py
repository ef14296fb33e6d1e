"""Tensors of any strides in C, loops over them, and views, whose sizes are written in terms of those of arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

from ....compiler.fusion.program import ExternStep, KernelStep, Program, Ref
from ....compiler.kernel_ir.layout import Layout, StridedView, views_of
from ....compiler.ops.open_arrays import contiguous_strides
from ....compiler.ops.registry import OPS
from ....lang.light_dataclasses import dataclass, replace
from ..sizes import NotASize, Sizes, operand_text

OWN_NAMES = re.compile(r"i\d+|at\d*|total")
"""What loops call their variables."""


class NoLoops(Exception):
    """A step that no loops are written for."""


@dataclass(frozen=True, slots=True)
class Strided:
    """A tensor: a pointer, and for each dimension its size and its stride in each sample."""

    name: str
    shape: tuple[tuple[int, ...], ...]
    strides: tuple[tuple[int, ...], ...]
    type: str

    @classmethod
    def of(cls, name: str, layouts: Sequence[Layout], type: str) -> Strided:
        if len({len(layout.shape) for layout in layouts}) != 1:
            raise NotASize("numbers of dimensions differ")
        shape, strides = ([getattr(layout, part) for layout in layouts] for part in ("shape", "strides"))
        return cls(name, tuple(zip(*shape, strict=True)), tuple(zip(*strides, strict=True)), type)

    @property
    def rank(self) -> int:
        return len(self.shape)

    def part(self, dims: Sequence[int]) -> Strided:
        """Some of its dimensions."""
        return replace(self, shape=tuple(self.shape[d] for d in dims), strides=tuple(self.strides[d] for d in dims))

    def reshaped(self, shape: Sequence[tuple[int, ...]], samples: int) -> Strided:
        """The memory as a contiguous tensor of another shape."""
        sizes = zip(*shape, strict=True) if shape else [()] * samples
        return replace(self, shape=tuple(shape), strides=tuple(zip(*map(contiguous_strides, sizes), strict=True)))

    def widened(self, rank: int, samples: int) -> Strided:
        """With dimensions of one element in front."""
        more = max(0, rank - self.rank) * ((1,) * samples,)
        return replace(self, shape=(*more, *self.shape), strides=(*more, *self.strides))


@dataclass(frozen=True)
class LoopWriter:
    """Writes loops for the samples of a program; `name` gives a value's variable, `type_of` the type of a dtype."""

    programs: Sequence[Program]
    sizes: Sizes
    name: Callable[[str], str]
    type_of: Callable[[Any], str]

    @property
    def samples(self) -> int:
        return len(self.programs)

    @cached_property
    def layouts(self) -> dict[str, list[Layout]]:
        """By the names of the first program, the layout in each."""
        found: dict[str, list[Layout]] = {}
        for names in zip(*map(_names_of, self.programs), strict=True):
            if all(name in program.layouts for name, program in zip(names, self.programs, strict=True)):
                layouts = [program.layouts[name] for name, program in zip(names, self.programs, strict=True)]
                found.setdefault(names[0], layouts)
        return found

    def tensor(self, name: str) -> Strided:
        layouts = self.layouts[name]
        return Strided.of(self.name(name), layouts, self.type_of(layouts[0].dtype))

    def is_contiguous(self, tensor: Strided) -> bool:
        return tensor == tensor.reshaped(tensor.shape, self.samples)

    # --- views ---

    def views(self, steps: Sequence[ExternStep]) -> Iterator[str]:
        """The declarations of a view's results: pointers into what it is of. NoLoops where one is no such pointer."""
        step = steps[0]
        found = [_views_in(*pair) for pair in zip(self.programs, steps, strict=True)]
        whole = self.tensor(next(a.name for a in step.arguments if isinstance(a, Ref)))
        for number, result in enumerate(step.results):
            offset = self.sizes.of([views[number].offset for views in found])
            place = whole.name if offset.text == "0" else f"{whole.name} + {operand_text(offset, 1)}"
            yield f"const {whole.type} *{self.name(result)} = {place};"

    # --- loops ---

    def size(self, values: Sequence[int], level: int = 1) -> str:
        return operand_text(self.sizes.of(values), level)

    def place(self, tensor: Strided, names: Sequence[str]) -> str:
        """Where the element of these indices lies; a dimension of one element is the same for all."""
        terms = []
        for name, size, stride in zip(names, tensor.shape, tensor.strides, strict=True):
            if any(stride) and any(one != 1 for one in size):
                factor = self.size(stride)
                terms.append(name if factor == "1" else f"{name} * {factor}")
        return " + ".join(terms) or "0"

    def element(self, tensor: Strided, names: Sequence[str]) -> str:
        return f"{tensor.name}[{self.place(tensor, names)}]"

    def loops(self, names: Sequence[str], shape: Sequence[Sequence[int]], body: Sequence[str]) -> Iterator[str]:
        """The body for every index; an index that it does not name has no loop where there is one of it."""
        depth = 0
        for name, size in zip(names, shape, strict=True):
            if any(one != 1 for one in size) or any(re.search(rf"\b{name}\b", line) for line in body):
                yield f"{'    ' * depth}for (int64_t {name} = 0; {name} < {self.size(size)}; ++{name}) {{"
                depth += 1
        yield from (f"{'    ' * depth}{line}" for line in body)
        yield from (f"{'    ' * outer}}}" for outer in reversed(range(depth)))

    def copied(self, source: Strided, target: Strided) -> Iterator[str]:
        """Each element of one in its place in another, along which it may be broadcast."""
        source = source.widened(target.rank, self.samples)
        names = [f"i{d}" for d in range(target.rank)]
        if source.shape == target.shape and self.is_contiguous(source) and self.is_contiguous(target):
            yield f"memcpy({target.name}, {source.name}, {self.bytes(target)});"
        else:
            line = f"{self.element(target, names)} = {self.element(source, names)};"
            yield from self.loops(names, target.shape, [line])

    def zeroed(self, target: Strided) -> str:
        return f"memset({target.name}, 0, {self.bytes(target)});"

    def bytes(self, tensor: Strided) -> str:
        """How many bytes a contiguous tensor has."""
        sizes = [size for size in tensor.shape if any(one != 1 for one in size)]
        return " * ".join([f"sizeof({tensor.type})", *(f"(size_t)({self.size(size, 3)})" for size in sizes)])


def _names_of(program: Program) -> list[str]:
    """The values in the order in which inputs and steps name them, which all samples have in common."""
    found = program.input_names
    for step in program.steps:
        if isinstance(step, KernelStep):
            found += [step.arguments[buffer.name] for buffer in step.kernel.buffers]
        else:
            found += step.results
    return found


def _views_in(program: Program, step: ExternStep) -> list[StridedView]:
    op = OPS.of(step.node.schema)
    position, source = next(((i, a) for i, a in enumerate(step.arguments) if isinstance(a, Ref)), (0, None))
    if op is None or source is None:
        raise NoLoops
    given = [program.layouts[a.name].meta if isinstance(a, Ref) else a for a in step.arguments]
    found = views_of(op, given, position, program.layouts[source.name])
    if found is None or [view.strides for view in found] != [program.layouts[name].strides for name in step.results]:
        raise NoLoops
    return found
