"""The rules of placements, op by op, held to what comes out: each sample in parts, joined, is to be the whole.

    python tests/shapes/sharding_samples.py [OP ...]     prints what is right and no rule says

Arguments are those of the other tests of ops, cut in all ways that are possible; random numbers are left out.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
from gradscript.compiler.ops.meta import Meta
from gradscript.compiler.ops.registry import Op, Trait
from gradscript.compiler.shapes.infer import infer
from gradscript.compiler.sharding.derive import _longer as longer
from gradscript.compiler.sharding.placements import MEAN, REPLICATE, SUM, Forbidden, Placement, shard
from gradscript.compiler.sharding.rules import placed
from gradscript.compiler.sharding.site import Site
from gradscript.compiler.types import dtypes

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from samples.array_calls import CASES, OPS_BY_NAME

MOST = 300
"""Ways of one sample that are looked at."""
PARTS = 2


def is_tensor(value: Any) -> bool:
    return isinstance(value, np.ndarray)


def candidates(values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    choices: list[list[Any]] = []
    for value in values:
        if is_tensor(value):
            cuts = [shard(d) for d, size in enumerate(value.shape) if size >= PARTS]
            sums = [SUM] if value.dtype.kind == "f" else []
            choices.append([REPLICATE, *cuts, *sums])
        elif isinstance(value, list | tuple) and value and all(map(is_tensor, value)):
            ranks = {v.ndim for v in value}
            cuts = [shard(d) for d in range(min(ranks)) if all(v.shape[d] >= PARTS for v in value)]
            choices.append([[place] * len(value) for place in (REPLICATE, *cuts)])
        else:
            choices.append([None])
    yield from islice(product(*choices), MOST)


def cut(value: Any, place: Any, part: int) -> Any:
    if isinstance(place, list):
        return [cut(v, p, part) for v, p in zip(value, place, strict=True)]
    if place is None or place == REPLICATE:
        return value
    if place == SUM:
        noise = np.random.default_rng(5).normal(0, 1, value.shape).astype(value.dtype)
        return noise if part == 0 else (value - noise).astype(value.dtype)
    return np.array_split(value, PARTS, place.dim)[part]


def joined(parts: Sequence[Any], place: Placement) -> Any:
    if place == SUM:
        # NumPy knows halves of type bfloat16 for no floats.
        return sum(part.astype(np.int64 if part.dtype.kind in "biu" else np.float64) for part in parts)
    if place == MEAN:
        return sum(part.astype(np.float64) for part in parts) / PARTS
    return np.concatenate(parts, place.dim) if place.kind == "shard" else parts[0]


def is_whole(parts: Sequence[Any], place: Placement, whole: Any) -> bool:
    if isinstance(place, list | tuple):
        rows = zip(zip(*parts, strict=True), place, whole, strict=True)
        return all(is_whole(p, own, w) for p, own, w in rows)
    if not is_tensor(whole):
        return True
    if place == REPLICATE and not all(same(part, whole) for part in parts):
        return False
    try:
        return same(joined(parts, place), whole)
    except (ValueError, IndexError, np.exceptions.AxisError):
        return False


def same(found: Any, whole: Any) -> bool:
    if found.shape != whole.shape:
        return False
    if whole.dtype.kind in "biu":
        return bool((found == whole).all())
    digits = 1e-8 if whole.dtype == np.float64 else 0.1
    with np.errstate(all="ignore"):
        return bool(np.allclose(found.astype(np.float64), whole.astype(np.float64), digits, digits, equal_nan=True))


def as_list(result: Any, op: Op) -> list[Any]:
    return [result] if len(op.schema.returns) == 1 else list(result)


def metas_of(value: Any) -> Any:
    if is_tensor(value):
        return Meta.of(value)
    return [metas_of(v) for v in value] if isinstance(value, list | tuple) and any(map(is_tensor, value)) else value


def longer_of(value: Any, place: Any) -> Any:
    if isinstance(place, list):
        return [longer(v, p) for v, p in zip(value, place, strict=True)]
    return value if place is None else longer(value, place)


def said(op: Op, values: Sequence[Any], places: Sequence[Any], results: Sequence[Any]) -> Sequence[Any] | None:
    """Where the rule says that the results are, if their shapes fit; None where it says no."""
    metas = [metas_of(value) for value in values]
    try:
        found = placed(Site(op, metas, places, [metas_of(r) for r in results]))
        shapes = infer(op, [longer_of(meta, place) for meta, place in zip(metas, places, strict=True)])
    except (Forbidden, KeyError, ValueError, IndexError, TypeError, AttributeError, RuntimeError):
        return None
    for place, result, shape in zip(found, results, shapes, strict=True):
        if is_tensor(result) and (not isinstance(shape, Meta) or longer_of(Meta.of(result), place) != shape):
            return None
    return found


def runs(op: Op, values: Sequence[Any], places: Sequence[Any]) -> list[list[Any]] | None:
    """What each part gives; None where one cannot be run."""
    found = []
    for part in range(PARTS):
        given = [cut(value, place, part) for value, place in zip(values, places, strict=True)]
        try:
            with np.errstate(all="ignore"):
                found.append(as_list(op.evaluate(*given), op))
        except Exception:
            return None
    return found


def samples(name: str) -> Iterator[tuple[Op, list[Any], list[Any]]]:
    """The op with arguments and results, in float64."""
    op = OPS_BY_NAME[name]
    for call in CASES.get(name, ()):
        values = call.arguments(op, dtypes.FLOAT64, 3, lambda array: array)
        try:
            with np.errstate(all="ignore"):
                results = as_list(op.evaluate(*values), op)
        except Exception:
            continue
        if any(is_tensor(v) or (isinstance(v, list | tuple) and any(map(is_tensor, v))) for v in values):
            yield op, values, results


def wrong_ways(name: str) -> tuple[int, list[str]]:
    """How many ways a rule allows, and those that are none."""
    count, wrong = 0, []
    for op, values, results in samples(name):
        for places in candidates(values):
            if all(place in (None, REPLICATE) or place == [REPLICATE] * 9 for place in places):
                continue
            found = said(op, values, places, results)
            if found is None:
                continue
            if MEAN in found and any(
                p is not None and not isinstance(p, list) and p.kind == "shard" and v.shape[p.dim] % PARTS
                for v, p in zip(values, places, strict=True)
            ):
                continue
            count += 1
            parts = runs(op, values, places)
            columns = None if parts is None else list(zip(*parts, strict=True))
            right = columns is not None and all(map(is_whole, columns, found, results))
            if not right:
                wrong.append(f"{op.schema.full_name} {shown(values)}: {[*map(text, places)]} -> {[*map(text, found)]}")
    return count, wrong


def missed(name: str) -> list[str]:
    """Ways that are right of all samples of a shape, and that no rule allows: one tensor cut, or several, at least."""
    found = []
    for op, values, results in samples(name):
        for places in candidates(values):
            if all(place in (None, REPLICATE) for place in places) or said(op, values, places, results) is not None:
                continue
            parts = runs(op, values, places)
            if parts is None or not all(map(is_tensor, results)):
                continue
            for outs in product(*[[SUM, *map(shard, range(r.ndim))] for r in results]):
                if all(map(is_whole, list(zip(*parts, strict=True)), outs, results)):
                    found.append(
                        f"{op.schema.full_name} {shown(values)}: {[*map(text, places)]} -> {[*map(text, outs)]}"
                    )
                    break
    return found


def shown(value: Any) -> Any:
    if is_tensor(value):
        return value.shape
    return [*map(shown, value)] if isinstance(value, list | tuple) else value


def text(place: Any) -> str:
    return "[" + ", ".join(map(str, place)) + "]" if isinstance(place, list | tuple) else str(place)


NAMES = [name for name, op in OPS_BY_NAME.items() if CASES.get(name) and not op.has(Trait.RANDOM)]

if __name__ == "__main__":
    for asked in sys.argv[1:] or NAMES:
        count, wrong = wrong_ways(asked)
        print(f"{asked}: {count} ways, {len(wrong)} wrong", *wrong[:5], sep="\n   ", flush=True)
        print(*[f"   missed {way}" for way in missed(asked)[:4]], sep="\n")
