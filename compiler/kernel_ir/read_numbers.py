"""Kernels that read numbers from memory, where they would be passed them: a graph passes the same at each replay."""

from __future__ import annotations

from collections.abc import Collection

from ...lang.light_dataclasses import replace
from ..types.dtypes import BOOL, FLOAT32, DType
from .index import constant
from .kernel import Buffer, Cast, Compute, Definition, Kernel, KernelParameter, Load, Reduce, Statement, Store
from .queries import fresh, names_of
from .statements import operands, with_operands


def with_numbers_read(kernel: Kernel, numbers: Collection[str]) -> Kernel:
    """The kernel with a buffer of one element, behind the others, in the place of each of these parameters.

    Before: kernel dropped(%x : float32[64] in, %result : float32[64] out, %seed : int64)
              axes i < 64 parallel
              %x : float32 [i] = load %x[i]
              %uniform : float32 [i] = uniform %seed at i
    After:  kernel dropped(%x : float32[64] in, %result : float32[64] out, %seed : int64[] in)
              axes i < 64 parallel
              %seed : int64 [] = load %seed[0]
              %x : float32 [i] = load %x[i]
              %uniform : float32 [i] = uniform %seed at i
    """
    read = [parameter for parameter in kernel.parameters if parameter.name in numbers]
    buffers = tuple([Buffer(p.name, p.dtype, (), ()) for p in read])
    kept = tuple([parameter for parameter in kernel.parameters if parameter.name not in numbers])
    return replace(kernel, buffers=(*kernel.buffers, *buffers), parameters=kept, body=_with_loads(kernel, read))


def _with_loads(kernel: Kernel, read: Collection[KernelParameter]) -> tuple[Statement, ...]:
    """The body behind the loads. What takes a parameter in its own dtype takes a value that was cast to it."""
    dtypes = {s.name: s.dtype for s in kernel.body if isinstance(s, Definition)}
    body: list[Statement] = [Load(p.name, p.dtype, frozenset(), p.name, constant(0)) for p in read]
    taken, casts = names_of(kernel), dict[tuple[str, DType], str]()
    for statement in kernel.body:
        wanted, names = _dtype_of_operands(kernel, statement, dtypes), {}
        for parameter in read:
            if wanted is None or wanted == parameter.dtype or parameter.name not in operands(statement):
                continue
            key = (parameter.name, wanted)
            if key not in casts:
                casts[key] = fresh(parameter.name, taken)
                body.append(Cast(casts[key], wanted, frozenset(), parameter.name))
            names[parameter.name] = casts[key]
        body.append(with_operands(statement, names) if names else statement)
    return tuple(body)


def _dtype_of_operands(kernel: Kernel, statement: Statement, dtypes: dict[str, DType]) -> DType | None:
    """The dtype in which a statement takes a parameter; None for one that takes it as it is."""
    if isinstance(statement, Store):
        dtype = kernel.buffer(statement.buffer).dtype
        return FLOAT32 if dtype.is_half else dtype
    if isinstance(statement, Reduce):
        return statement.dtype
    if not isinstance(statement, Compute):
        return None
    if statement.dtype != BOOL:
        return statement.dtype
    others = [dtypes[operand] for operand in statement.operands if isinstance(operand, str) and operand in dtypes]
    return next((dtype for dtype in others if dtype != BOOL), None)
