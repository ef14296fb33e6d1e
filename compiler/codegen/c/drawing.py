"""Random numbers of loops in C: of successive places, so that four are made of one block of the generator.

for (int64_t j_start = 0; j_start < 5000; j_start += 1024) {
    const int64_t j_stop = gs_least(j_start + 1024, 5000);
    float uniforms_room[1058];
    const float *const uniforms = gs_uniforms(uniforms_room, seed, 5000 * i + j_start, j_stop - j_start);
    for (int64_t j = j_start; j < j_stop; ++j) … uniforms[j - j_start] …
}
"""

from __future__ import annotations

from collections.abc import Collection

from ...kernel_ir.index import AxisAtom, Index
from ...kernel_ir.kernel import Uniform
from ...scheduling.nest import AxisLoop, Evaluate

TOGETHER = 1024
"""Numbers that a loop has made before it goes on."""
SPARE = 34
"""Numbers more that the blocks at both ends may give, and those of a register that is not full."""


def successive(loop: AxisLoop, known: Collection[str]) -> list[Uniform]:
    """What a loop draws at successive places, of seeds that are known before it."""
    found = [item.statement for item in loop.body if isinstance(item, Evaluate)]
    return [s for s in found if isinstance(s, Uniform) and _is_successive(s, loop.axis, known)]


def _is_successive(statement: Uniform, axis: str, known: Collection[str]) -> bool:
    if statement.counter.values or (isinstance(statement.seed, str) and statement.seed not in known):
        return False
    return [(c, atom) for c, atom in statement.counter.terms if axis in Index(((c, atom),)).axes] == [
        (1, AxisAtom(axis))
    ]
