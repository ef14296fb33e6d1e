"""Which results share memory with which arguments: in torch, seen when it runs, and as the compiler believes.

Every op of the registry that torch has, on the samples of its own tests and on changed ones: other layouts and ranks,
lists of one tensor, the target's own size and dtype, nothing dropped, nothing moved.

    python tests/ops/aliasing.py 500
"""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "closures"))
sys.path.insert(0, str(Path(__file__).parents[1] / "formulas"))

from captured_ops import calls_of
from gradscript.compiler.functionalize.calls import Returned, returned_by
from gradscript.compiler.functionalize.driver import walk_function
from gradscript.compiler.ops.registry import OPS, Op
from gradscript.compiler.types import dtypes
from gradscript.compiler.types.types import (
    BOOL,
    DEVICE,
    FLOAT,
    INT,
    NUMBER,
    STR,
    ListType,
    Type,
    is_tensor,
    strip_optional,
)
from gradscript.lang.diagnostics import Diagnostics
from samples.array_derivatives import op_function
from samples.arrays import LAYOUTS, TORCH, to_torch

SAMPLES = 4
"""How many samples of an op's own are the start of changed ones."""
_NAMESPACES = (torch.nn.functional, torch, torch.linalg, torch.special, torch.Tensor)
_SIMPLE = (BOOL, DEVICE, FLOAT, INT, NUMBER, STR)


def ops() -> list[Op]:
    """Every op on tensors that torch has under its name, and whose arguments have literals."""
    return [op for op in OPS.all() if is_on_tensors(op) and torchs(op) is not None]


def is_on_tensors(op: Op) -> bool:
    kinds = [_innermost(a.type) for a in op.schema.arguments]
    results = [_innermost(r.type) for r in op.schema.returns]
    has_tensors = any(map(is_tensor, kinds)) and any(map(is_tensor, results))
    return has_tensors and all(is_tensor(kind) or kind in _SIMPLE for kind in (*kinds, *results))


def _innermost(type: Type) -> Type:
    type = strip_optional(type)
    while isinstance(type, ListType):
        type = strip_optional(type.element)
    return type


def _subscript(tensor: torch.Tensor, indices: Sequence[torch.Tensor | None]) -> torch.Tensor:
    return tensor[tuple(slice(None) if index is None else index for index in indices)]


def torchs(op: Op) -> Callable[..., Any] | None:
    """torch's own function of the op, or what stands for it in source."""
    if op.schema.full_name == "aten::index.Tensor":
        return _subscript
    packet = getattr(torch.ops.aten, op.schema.base_name, None)
    # An overload of TorchScript's own is not to be called from Python.
    if packet is not None and op.schema.name.startswith("aten::") and not op.schema.overload.startswith("prim"):
        found = getattr(packet, op.schema.overload or "default", None)
        if found is not None:
            return found
    names = [name for name in OPS.spellings(op) if not name.startswith("_")]
    found = (getattr(space, name, None) for name in names for space in _NAMESPACES)
    return next((function for function in found if callable(function)), None)


# --- calls ---


def is_inner(op: Op) -> bool:
    """Whether only formulas call it: torch's is not held to be robust."""
    return op.schema.base_name.startswith("_") or "backward" in op.schema.base_name


def calls(op: Op, count: int) -> Iterator[list[Any]]:
    """Arguments of torch's: samples as they are, with one argument changed, and `count` times with several."""
    chance = random.Random(op.schema.full_name)
    samples = list(_samples(op, chance))
    yield from samples
    if is_inner(op) or not samples:
        return
    for values in samples[:: len(TORCH) - 1][:2]:
        for i, others in enumerate(_options_of(op, values)):
            yield from ([*values[:i], other, *values[i + 1 :]] for other in others)
    for k in range(count):
        values = samples[k % len(samples)]
        options = _options_of(op, values)
        yield [chance.choice(o) if o and chance.random() < 0.4 else v for v, o in zip(values, options, strict=True)]


def _samples(op: Op, chance: random.Random) -> Iterator[list[Any]]:
    for k, call in enumerate(calls_of(op)[:SAMPLES]):
        for dtype in TORCH if k == 0 else (dtypes.FLOAT64, dtypes.INT64):
            layout = chance.choice(sorted(LAYOUTS)) if k else "contiguous"
            try:
                given = call.arguments(op, dtype, k, LAYOUTS[layout])
            except (ValueError, TypeError, IndexError):
                continue
            yield [_as_torch(a.is_dtype, value) for a, value in zip(op.schema.arguments, given, strict=True)]


def _as_torch(is_dtype: bool, value: Any) -> Any:
    return TORCH[dtypes.BY_CODE[value]] if is_dtype and value is not None else to_torch(value, False)


def _options_of(op: Op, values: Sequence[Any]) -> list[Sequence[Any]]:
    """For each argument, values that may leave the op nothing to do."""
    first = next((leaf for leaf in _flat(values) if isinstance(leaf, torch.Tensor)), None)
    if first is None:
        return [()] * len(values)
    return [_options(a.type, a.is_dtype, v, first) for a, v in zip(op.schema.arguments, values, strict=True)]


def _options(type: Type, is_dtype: bool, value: Any, first: torch.Tensor) -> Sequence[Any]:
    if is_dtype:
        return (first.dtype, None)
    kind = strip_optional(type)
    if is_tensor(kind):
        return _layouts(value if isinstance(value, torch.Tensor) else first, first)
    if isinstance(kind, ListType) and is_tensor(_innermost(kind)):
        return ([first.clone()], [first.clone()] * 2, [first.reshape(-1).clone()], [torch.tensor(0)])
    if isinstance(kind, ListType):
        rank = first.dim()
        return (list(first.shape), [], list(range(rank)), [0] * rank, [1] * rank, [-1], [0])
    return {BOOL: (False, True), INT: (0, 1, -1, 2), FLOAT: (0.0, 1.0), NUMBER: (0, 1, 1.0)}.get(kind, ())


def _layouts(tensor: torch.Tensor, first: torch.Tensor) -> list[torch.Tensor]:
    """A tensor in other ranks and strides, and one like the first argument in its place."""
    found = [first.clone(), tensor.reshape(-1)[:1].clone()]
    if tensor.numel():
        found.append(tensor.reshape(-1)[0].clone())
    return [*found, tensor.mT.clone().mT] if tensor.dim() > 1 else found


# --- sharing ---


@dataclass
class Found:
    """What was seen of an op. `lost`: sharing in torch that is unknown here; `unseen`: arguments that a result is
    believed to share memory with, and never did; `compared`: how many calls torch took."""

    lost: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    compared: int = 0


def believed(op: Op) -> tuple[Returned, ...]:
    """What the compiler holds of the results of an op."""
    graph = op_function(op).graph
    return returned_by(walk_function(graph, Diagnostics()), graph)


def compare(op: Op, count: int) -> Found:
    found = Found()
    function = torchs(op)
    assert function is not None
    beliefs = believed(op)
    unseen = {(k, i) for k, returned in enumerate(beliefs) for i in returned.shares}
    for values in calls(op, count):
        try:
            results = _called(function, op, values)
        except Exception:
            continue  # torch refuses it.
        found.compared += 1
        for k, (result, returned) in enumerate(zip(results, beliefs, strict=False)):
            shared = {i for i, value in enumerate(values) if _share(result, value)}
            unseen -= {(k, i) for i in shared}
            wrong = _wrong(returned, shared, result)
            if wrong:
                found.lost.append(f"{op.schema.full_name}({_shown(values)}): {wrong}")
    if not found.compared or is_inner(op):
        return found
    name = op.schema.full_name
    found.unseen = [f"{name}: result {k} is believed to share memory with argument {i}" for k, i in unseen]
    return found


def _called(function: Callable[..., Any], op: Op, values: Sequence[Any]) -> Sequence[Any]:
    # A function of Python has torch's names for its parameters, in an order of its own.
    by_name = not isinstance(function, torch._ops.OpOverload)
    plain: list[Any] = []
    named: dict[str, Any] = {}
    for argument, value in zip(op.schema.arguments, values, strict=True):
        if not argument.keyword_only and not (by_name and plain):
            plain.append(value)
        elif value is not None or argument.required:
            named[argument.name] = value
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = function(*plain, **named)
    return result if len(op.schema.returns) > 1 else [result]


def _wrong(returned: Returned, shared: set[int], result: Any) -> str | None:
    unknown = shared - set(returned.shares)
    if unknown:
        return f"a result shares memory with arguments {sorted(unknown)}"
    if returned.parameter is not None and returned.parameter not in shared and _memory(result):
        return f"a result is no view of argument {returned.parameter}"
    return None


def _share(result: Any, value: Any) -> bool:
    return bool(_memory(result) & _memory(value))


def _memory(value: Any) -> set[int]:
    """The storages of tensors that have elements."""
    leaves = [leaf for leaf in _flat(value) if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided]
    return {leaf.untyped_storage().data_ptr() for leaf in leaves if leaf.numel()}


def _flat(value: Any) -> list[Any]:
    return [leaf for item in value for leaf in _flat(item)] if isinstance(value, list | tuple) else [value]


def _shown(values: Sequence[Any]) -> str:
    return ", ".join(f"Tensor{list(v.shape)}" if isinstance(v, torch.Tensor) else str(v) for v in values)


def main(count: int) -> None:
    compared = 0
    for op in ops():
        found = compare(op, count)
        compared += found.compared
        for text in (*found.lost[:3], *found.unseen):
            print(text, flush=True)
        if not found.compared:
            print(f"{op.schema.full_name}: torch took no call", flush=True)
    print(f"{len(ops())} ops, {compared} calls")


if __name__ == "__main__":
    main(int(sys.argv[1]))
