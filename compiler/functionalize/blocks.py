"""The nodes that hold other nodes: branches, loops, closures, and calls."""

from __future__ import annotations

from collections.abc import Callable

from ...lang.trampoline import Walk
from ..ir.node import Node
from .branches import walk_branch
from .calls import walk_call
from .joins import inside
from .loops import walk_loop
from .places import Cell, Plain
from .scopes import Scope
from .walker import Walker


def _closure(f: Walker, node: Node) -> Walk:
    """A closure sees what is there when it is defined; from then on nobody may write into that."""
    made = f.builder.node("prim::Function", (), [v.type for v in node.outputs], attrs=dict(node.attrs), blocks=1)
    made.output.name_hint = node.output.name_hint
    name = node.attrs["name"]
    read: dict[Cell, None] = {}
    f.memory.closures.append((f.memory.scope.level, name, read))
    (old,), (new,) = node.blocks, made.blocks
    with inside(f, Scope(f.memory.scope.level + 1), new):
        f.parameters(old, new)
        yield f.block(old)
        f.builder.returns(*(f.read(value) for value in old.outputs))
    f.memory.closures.pop()
    f.memory.captured.update(dict.fromkeys(read, name))
    f.places[node.output] = Plain(made.output)


BLOCKS: dict[str, Callable[[Walker, Node], Walk]] = {
    "prim::If": walk_branch,
    "prim::Loop": walk_loop,
    "prim::CallFunction": walk_call,
    "prim::Function": _closure,
}
