"""The partial results of a reduction in chunks: one kernel stores them, and one loads and finishes them."""

from __future__ import annotations

from functools import cached_property

from ...lang.light_dataclasses import dataclass, replace
from ..kernel_ir.index import AxisAtom, Index, axis, value
from ..kernel_ir.kernel import (
    POSITIONS,
    Axis,
    Buffer,
    Cast,
    Definition,
    Kernel,
    Load,
    Position,
    Reduce,
    Statement,
    Store,
)
from ..kernel_ir.layout import contiguous_strides
from ..kernel_ir.queries import defined, fresh, inputs_first, mentions, names_of, reduced_dtype, uses_buffer
from ..kernel_ir.statements import indices, slice_of, used_names
from ..types.dtypes import FLOAT32, FLOAT64, INT64, DType


class Unsplittable(Exception):
    """A kernel that reduces over parallel axes what it uses along them: it needs a kernel before.

    `sources` are the kernel's.
    """

    def __init__(self, message: str, kernel: Kernel) -> None:
        super().__init__(message)
        self.sources = kernel.sources


@dataclass(frozen=True)
class Partials:
    """The partial results of the final reductions: where the first kernel stores them and the second one loads them."""

    kernel: Kernel
    chunks: Axis
    finals: list[Reduce]
    wide: bool
    """Whether sums of float32 are added up in float64."""

    def _axes(self, final: Reduce) -> list[Axis]:
        return [self.chunks, *(a for a in self.kernel.axes if a.name in final.axes)]

    def _buffer(self, final: Reduce, suffix: str = "", dtype: DType | None = None) -> Buffer:
        shape = tuple(a.size for a in self._axes(final))
        strides = contiguous_strides(shape)
        name = f"{self._bases[final.name]}{suffix}"
        return Buffer(name, dtype or final.dtype, shape, strides, True)

    @cached_property
    def _bases(self) -> dict[str, str]:
        """What buffers of partial results are called, by the name of the reduction."""
        taken = {buffer.name for buffer in self.kernel.buffers} | names_of(self.kernel)
        found: dict[str, str] = {}
        for final in self.finals:
            base = f"partial_{self._stored_name(final)}"
            while not taken.isdisjoint((base, f"{base}_at")):
                base = f"partial_{base}"
            taken |= {base, f"{base}_at"}
            found[final.name] = base
        return found

    def _stored_name(self, final: Reduce) -> str:
        """That of the output which the reduction alone goes into, rounded or not, else its own."""
        same = {final.name}
        for statement in self.kernel.body:
            if isinstance(statement, Cast) and statement.operand in same:
                same.add(statement.name)
            elif isinstance(statement, Store) and statement.operand in same:
                return statement.buffer
        return final.name

    def _index(self, final: Reduce) -> Index:
        total = Index()
        for a, stride in zip(self._axes(final), self._buffer(final).strides, strict=True):
            total = total + axis(a.name) * stride
        return total

    def stored_by(self, kernel: Kernel, position: Index, step: str) -> Kernel:
        """The kernel of the chunks, with stores of the partial results."""
        body = list(kernel.body)
        buffers = [b for b in kernel.buffers if uses_buffer(body, b.name)]
        for final in self.finals:
            buffers.append(self._buffer(final, dtype=self._value_dtype(final)))
            if final.combine in POSITIONS:
                body += self._position_of(kernel, final, position, step)
                buffers.append(self._buffer(final, "_at"))
            else:
                body.append(Store(buffers[-1].name, self._index(final), final.name))
        return replace(
            kernel,
            name=f"{kernel.name}_partial",
            buffers=inputs_first(buffers),
            parameters=tuple(p for p in kernel.parameters if mentions(body, p.name)),
            body=tuple(body),
        )

    def _value_dtype(self, final: Reduce) -> DType:
        return reduced_dtype(self.kernel, final) if final.combine in POSITIONS else final.dtype

    def _position_of(self, kernel: Kernel, final: Reduce, position: Index, step: str) -> list[Statement]:
        """Where in the whole axis the best of a chunk is, and how good it is."""
        found = defined(kernel, final.name)
        assert isinstance(found, Reduce)
        moved = position.substitute(lambda a: value(final.name) if a == AxisAtom(step) else None, kernel.sizes)
        taken = names_of(kernel)
        best = replace(
            found,
            name=fresh(f"{final.name}_best", taken),
            combine="max" if final.combine == "argmax" else "min",
            dtype=self._value_dtype(final),
        )
        at = Position(fresh(f"{final.name}_at", taken), INT64, found.axes, moved)
        index = self._index(final)
        return [
            best,
            at,
            Store(self._buffer(final).name, index, best.name),
            Store(self._buffer(final, "_at").name, index, at.name),
        ]

    def finished(self, rest: list[Statement]) -> Kernel:
        """The kernel that reduces the partial results and does what follows."""
        kernel = self.kernel
        body, buffers = self._loaded()
        known = {s.name for s in [*body, *rest] if isinstance(s, Definition)}
        needed = [name for s in rest for name in used_names(s) if name not in known]
        body = [*slice_of(kernel.body, needed), *body, *rest]
        varying = {name for s in body if isinstance(s, Definition) for name in s.axes}
        varying |= {name for s in body for index in indices(s) for name in index.axes}
        if any(a.name in varying and self._is_reduced(a) for a in kernel.axes):
            raise Unsplittable(f"{kernel.name} uses what it reduces over a parallel axis along that axis", kernel)
        kept = [replace(a, role="parallel") for a in kernel.axes if a.name in varying]
        return Kernel(
            f"{kernel.name}_finish",
            (*kept, replace(self.chunks, role="reduction")),
            inputs_first([*buffers, *(b for b in kernel.buffers if uses_buffer(body, b.name))]),
            tuple(p for p in kernel.parameters if mentions(body, p.name)),
            tuple(body),
            kernel.sources,
        )

    def _loaded(self) -> tuple[list[Statement], list[Buffer]]:
        """The final reductions of what is loaded, and the buffers that it is loaded from."""
        body: list[Statement] = []
        buffers: list[Buffer] = []
        over, taken = frozenset({self.chunks.name}), names_of(self.kernel)
        for final in self.finals:
            buffer = replace(self._buffer(final, dtype=self._value_dtype(final)), is_output=False)
            load = Load(buffer.name, buffer.dtype, final.axes | over, buffer.name, self._index(final))
            buffers.append(buffer)
            if self.wide and final.combine == "sum" and final.dtype == FLOAT32:
                wide, total = (fresh(f"{final.name}_{part}", taken) for part in ("wide", "total"))
                body += [load, Cast(wide, FLOAT64, load.axes, load.name)]
                body.append(replace(final, name=total, dtype=FLOAT64, operand=wide, over=over))
                body.append(Cast(final.name, FLOAT32, final.axes, total))
                continue
            if final.combine not in POSITIONS:
                body += [load, replace(final, operand=load.name, over=over)]
                continue
            where = replace(self._buffer(final, "_at"), is_output=False)
            buffers.append(where)
            chosen = replace(final, name=fresh(f"{final.name}_chunk", taken), operand=load.name, over=over)
            body += [load, chosen, self._chosen(final, where, chosen.name)]
        return body, buffers

    def _is_reduced(self, a: Axis) -> bool:
        return a.role == "serial" or any(a.name in final.over for final in self.finals)

    def _chosen(self, final: Reduce, where: Buffer, chunk: str) -> Statement:
        index = self._index(final).substitute(
            lambda a: value(chunk) if a == AxisAtom(self.chunks.name) else None, self.kernel.sizes
        )
        return Load(final.name, INT64, final.axes, where.name, index)
