"""When a kernel may write a result into the memory of what it reads.

    kernel lower(%x : float32[4, 8] in, %result : float32[4, 8] out at %x)
      axes i < 4 parallel, j < 8 reduction
      %x : float32 [i, j] = load %x[8*i + j]              each point reads an element, and writes it
      %m : float32 [i] = reduce max %x over j             once all is read that it waits for
      %d : float32 [i, j] = sub(%x, %m)
      store %result[8*i + j], %d

However the points are cut into programs, an element is then read by the one that writes it, before it does.
"""

from __future__ import annotations

from .kernel import Buffer, Definition, Kernel, Load, Reduce, Store
from .statements import used_names


def may_take_place(kernel: Kernel, output: Buffer, source: Buffer) -> bool:
    """Whether a kernel computes the same where an output lies in the memory of an input."""
    if source.is_output or not output.is_output or (output.dtype, output.nbytes) != (source.dtype, source.nbytes):
        return False
    loads = [s for s in kernel.body if isinstance(s, Load) and s.buffer == source.name]
    stores = [s for s in kernel.body if isinstance(s, Store) and s.buffer == output.name]
    if not (source.is_contiguous and output.is_contiguous) or len(loads) != 1 or len(stores) != 1:
        return False
    (load,), (store,) = loads, stores
    if load.index != store.index or load.conditions != store.conditions:
        return False
    if load.index.values or load.index.axes != {axis.name for axis in kernel.axes}:
        return False
    return _is_last(kernel, store, load)


def shares_memory(kernel: Kernel, buffer: Buffer) -> bool:
    """Whether another buffer of the kernel lies where this one does."""
    return bool(buffer.place_of) or any(other.place_of == buffer.name for other in kernel.buffers)


def _is_last(kernel: Kernel, store: Store, load: Load) -> bool:
    """Whether what is stored follows from the element that is loaded, and waits for every reduction that anything else
    waits for which does: what a kernel goes through several times, it stores the last time."""
    along = {load.name}
    waits: dict[str, frozenset[str]] = {}
    readers: list[frozenset[str]] = []
    for statement in kernel.body:
        used = used_names(statement)
        needed = frozenset[str]().union(*(waits.get(name, frozenset()) for name in used))
        is_along = not along.isdisjoint(used)
        if isinstance(statement, Definition):
            waits[statement.name] = needed | {statement.name} if isinstance(statement, Reduce) else needed
            if is_along and not isinstance(statement, Reduce):
                along.add(statement.name)
        if is_along and isinstance(statement, Reduce | Store):
            readers.append(needed)
    if store.operand not in along:
        return False
    last = waits.get(str(store.operand), frozenset())
    return all(needed <= last for needed in readers)
