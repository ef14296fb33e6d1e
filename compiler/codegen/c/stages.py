"""Loops of many functions in stages, each a loop over the same few points: between them values wait in the first cache.

    float b_strip[256];
    for (…) b_strip[i - i_start] = gs_exp_f32(-a * a) + gs_tanh_f32(x);
    for (…) y[i] = gs_sigmoid_f32(sqrtf(1.0f + b_strip[i - i_start] * b_strip[i - i_start]));

A function is a chain of some twenty operations, each of which waits for the one before. A processor that looks some
hundred operations ahead finds few that wait for nothing where one function follows from another; in a short loop it
finds those of the next points.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

from ....lang.light_dataclasses import dataclass
from ...kernel_ir.kernel import Cast, Compute, Definition, Load, Position
from ...kernel_ir.statements import used_names
from ...scheduling.nest import CHEAP, AxisLoop, Evaluate, Put
from .traffic import QUICK
from .uses import is_of_computed_index

TOGETHER = 256
"""Points that go through all stages before the next do."""
LEAST, DEEPEST = 0.6, 1.2
"""Functions of a stage, and those that follow one from another; what does not, it finds side by side anyway."""
WEIGHTS = {"div": 0.3, "sqrt": 0.3, "rsqrt": 0.5, "sin": 0.6, "cos": 0.6, "tan": 0.9, "ndtr": 2.0, "pow": 2.0}
"""Of what is not one function."""
ROOM = 24
"""Values that wait at most: so many points of them lie in the first cache."""
AGAIN = 3
"""Statements, none of them a function, that are computed once more rather than kept."""

_Plain: TypeAlias = Evaluate | Put


@dataclass(frozen=True, slots=True)
class LoopStage:
    """Items of one of the loops: what it computes again, what it is for, and values that it keeps for later ones."""

    items: tuple[_Plain, ...]
    kept: tuple[Definition, ...]


def stages_of(loop: AxisLoop) -> list[LoopStage]:
    """Those of an innermost loop; none where it is left as it is."""
    plain = [item for item in loop.body if isinstance(item, Evaluate | Put) and _is_plain(item)]
    parts = _parts(_beside_kin(plain)) if len(plain) == len(loop.body) else []
    if len(parts) < 2:
        return []
    inside = {item.statement.name: item.statement for item in loop.body if isinstance(item, Evaluate)}
    kept = _kept(parts, inside)
    if len(kept) > ROOM or not all(d.dtype.is_floating for d in kept.values()):
        return []
    stages: list[LoopStage] = []
    for part in parts:
        own = {item.statement.name for item in part if isinstance(item, Evaluate)}
        wanted = {name for name in own if name in kept}
        wanted |= {name for item in part if isinstance(item, Put) for name in used_names(item.statement)}
        computed = _closure(wanted, inside, {name for name in kept if name not in own})
        items: list[_Plain] = [Evaluate(inside[name]) for name in inside if name in computed and name not in own]
        items += [item for item in part if isinstance(item, Put) or item.statement.name in computed]
        stages.append(LoopStage(tuple(items), tuple(kept[name] for name in inside if name in kept and name in own)))
    return stages


def _kept(parts: Sequence[Sequence[_Plain]], inside: Mapping[str, Definition]) -> dict[str, Definition]:
    """What waits for later stages: what they use, unless it follows from little else."""
    part_of = {item.statement.name: k for k, part in enumerate(parts) for item in part if isinstance(item, Evaluate)}
    last_use: dict[str, int] = {}
    for k, part in enumerate(parts):
        last_use |= dict.fromkeys(_used_by(part), k)
    # What a store may have overwritten is not read once more.
    first_store = next((k for k, part in enumerate(parts) if any(isinstance(i, Put) for i in part)), len(parts))
    found: dict[str, Definition] = {}
    for name, statement in inside.items():
        if last_use.get(name, 0) > part_of[name]:
            chain = _closure([name], inside, found, AGAIN + 1)
            is_read = any(isinstance(inside[n], Load) for n in chain) and last_use[name] > first_store
            if is_read or len(chain) > AGAIN or not all(_is_cheap(inside[n]) for n in chain):
                found[name] = statement
    return found


def _closure(
    names: Iterable[str], inside: Mapping[str, Definition], known: Collection[str], most: int | None = None
) -> set[str]:
    """Statements of a loop of which values follow, with what is known; no more of them than is asked for."""
    found: set[str] = set()
    pending = list(names)
    while pending and (most is None or len(found) < most):
        name = pending.pop()
        if name in inside and name not in known and name not in found:
            found.add(name)
            pending += used_names(inside[name])
    return found


def _beside_kin(items: Sequence[_Plain]) -> list[_Plain]:
    """The items with the sine and the cosine of one angle side by side: each has the polynomials of both."""
    kin: dict[str, list[_Plain]] = {}
    for item in items:
        angle = _angle_of(item)
        if angle:
            kin.setdefault(angle, []).append(item)
    found: list[_Plain] = []
    for item in items:
        angle = _angle_of(item)
        found += kin.pop(angle, []) if angle else [item]
    return found


def _angle_of(item: _Plain) -> str:
    """What a sine or a cosine is of."""
    statement = item.statement if isinstance(item, Evaluate) else None
    if not isinstance(statement, Compute) or statement.primitive not in ("sin", "cos"):
        return ""
    return str(statement.operands[0])


def _parts(items: Sequence[_Plain]) -> list[list[_Plain]]:
    """The items in their order, cut where too many functions would wait for each other."""
    parts: list[list[_Plain]] = [[]]
    depths: dict[str, float] = {}
    for item in items:
        more = _weight(item)
        depth = more + max((depths.get(name, 0.0) for name in used_names(item.statement)), default=0.0)
        if more and depth > max(DEEPEST, more):
            parts.append([])
            depths, depth = {}, more
        parts[-1].append(item)
        if isinstance(item, Evaluate):
            depths[item.statement.name] = depth
    # A loop of its own is worth a function.
    joined: list[list[_Plain]] = []
    for part in parts:
        if joined and sum(map(_weight, part)) < LEAST:
            joined[-1] += part
        else:
            joined.append(part)
    return joined


def _weight(item: _Plain) -> float:
    statement = item.statement if isinstance(item, Evaluate) else None
    if not isinstance(statement, Compute):
        return 0.0
    return WEIGHTS.get(statement.primitive, 0.0 if statement.primitive in QUICK else 1.0)


def _is_plain(item: _Plain) -> bool:
    return isinstance(item, Put) or not (item.is_kept or is_of_computed_index(item.statement))


def _used_by(part: Sequence[_Plain]) -> list[str]:
    return [name for item in part for name in used_names(item.statement)]


def _is_cheap(statement: Definition) -> bool:
    if isinstance(statement, Load):
        return statement.index.is_affine()
    return isinstance(statement, Position | Cast) or (isinstance(statement, Compute) and statement.primitive in CHEAP)
