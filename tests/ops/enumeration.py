"""Every op, on torch's own samples and on changed ones, beside eager torch: values, dtypes, shapes, types, gradients.

    python tests/ops/enumeration.py --change special --dtypes float32,float64 --match "^clamp" --limit 20

A change puts special values into the tensors, mixes their dtypes, empties a dimension, takes dimensions away, lays
them out otherwise, or puts other numbers where numbers stand. What differs from torch is printed: other values or
types, a bare exception, an error where torch has a value. What torch refuses may be refused, or be a value.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gradscript as gs
import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from array_samples import to_numpy
from torch_samples import DTYPES, Case, Unspellable, case, database, flat, name_of, replaced, samples, tensors_of

TOLERANCE = {
    torch.float64: (1e-7, 1e-9),
    torch.float32: (2e-4, 2e-5),
    torch.float16: (8e-3, 8e-3),
    torch.bfloat16: (6e-2, 6e-2),
}
"""Relative and absolute: as many digits as sums and products of a few dozen elements leave."""
SPECIAL_VALUES = (0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1.0, -1.0, "max", "lowest", "tiny", "subnormal")
NUMBERS = (True, False, 0, 1, 2, -1, -3, 300, 2**31, 10**10, 0.5, -1.5, 0.0, float("inf"), float("nan"), 1e300)

OTHER_NAMES = re.compile(
    r"^(where|polygamma|special\.polygamma|einsum|nn\.functional\.embedding|max_pool2d_with_indices_backward"
    r"|gelu_backward|masked|signal|torch\.ops|fft|__getitem__|linalg\.pinv\.singular|tensor_split"
    r"|(linspace|logspace)\.tensor_overload)"
)
"""Entries whose samples are not arguments in the order of torch's own function, or tensors where numbers are meant."""
DRAWN = re.compile(
    r"^(rand|bernoulli|multinomial|normal|uniform|empty|new_empty|native_dropout|nn\.functional\.(\w*dropout\d?d?"
    r"|rrelu|scaled_dot_product_attention))"
)
"""Entries of random numbers, and of memory as it was found."""
NOT_UNIQUE = re.compile(
    r"^(svd|pca|linalg\.(svd|eig|eigh|pinv\.hermitian|qr)|cholesky_solve|native_layer_norm|sort|argsort|msort|topk"
    r"|kthvalue|mode|matrix_exp)"
)
"""Entries whose results are one of several, and those of docs/conventions.md, "Where torch's own is not taken"."""


def is_compared(op: Any) -> bool:
    return not any(pattern.search(name_of(op)) for pattern in (OTHER_NAMES, DRAWN, NOT_UNIQUE))


# --- changes ---

Change = Callable[[Any, random.Random], Any]


def _special(sample: Any, chance: random.Random) -> Any:
    def changed(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point() or not tensor.numel():
            return tensor
        info = torch.finfo(tensor.dtype)
        named = {"max": info.max, "lowest": info.min, "tiny": info.tiny, "subnormal": info.tiny / 8}
        drawn = [named.get(v, v) if isinstance(v, str) else v for v in chance.choices(SPECIAL_VALUES, k=tensor.numel())]
        kept = torch.tensor([chance.random() < 0.6 for _ in drawn]).reshape(tensor.shape)
        values = torch.tensor(drawn, dtype=torch.float64).reshape(tensor.shape).to(tensor.dtype)
        return torch.where(kept, tensor, values)

    return replaced(sample, changed, lambda number: number)


def _mixed(sample: Any, chance: random.Random) -> Any:
    def changed(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(getattr(torch, chance.choice(DTYPES))) if chance.random() < 0.7 else tensor

    return replaced(sample, changed, lambda number: number)


def _part(tensor: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    count = int(np.prod(shape))
    return tensor.reshape(-1)[:count].reshape(shape) if tensor.numel() >= count else tensor.new_zeros(shape)


def _without_dimensions(sample: Any, chance: random.Random) -> Any:
    every = chance.random() < 0.5
    return replaced(
        sample, lambda tensor: _part(tensor, ()) if every or chance.random() < 0.5 else tensor, lambda number: number
    )


def _empty(sample: Any, chance: random.Random) -> Any:
    sizes = sorted({size for tensor in tensors_of(sample) for size in tensor.shape})
    gone = chance.choice(sizes) if sizes else 0
    return replaced(
        sample,
        lambda tensor: _part(tensor, tuple(0 if size == gone else size for size in tensor.shape)),
        lambda number: number,
    )


def _numbers(sample: Any, chance: random.Random) -> Any:
    return replaced(
        sample, lambda tensor: tensor, lambda number: chance.choice(NUMBERS) if chance.random() < 0.7 else number
    )


def _laid_out(sample: Any, chance: random.Random) -> Any:
    """The same shapes in other strides: columns first, every second element, or one element for a whole row."""

    def changed(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.numel() or not tensor.dim():
            return tensor
        if chance.random() < 0.3:
            return tensor.narrow(-1, 0, 1).expand(tensor.shape)
        return tensor.mT.contiguous().mT if tensor.dim() > 1 else tensor.repeat_interleave(2)[::2]

    return replaced(sample, changed, lambda number: number)


CHANGES: dict[str, Change] = {
    "none": lambda sample, chance: sample,
    "special": _special,
    "mixed": _mixed,
    "0-d": _without_dimensions,
    "empty": _empty,
    "numbers": _numbers,
    "layout": _laid_out,
}

# --- comparison ---


def difference(ours: Any, theirs: Any) -> str | None:
    """How a result differs from torch's, in type, dtype, shape or value; None where it does not."""
    mine, wanted = flat(ours), flat(theirs)
    if len(mine) != len(wanted):
        return f"{len(mine)} results, not {len(wanted)}"
    found = (_leaf_difference(one, other) for one, other in zip(mine, wanted, strict=True))
    return next((text for text in found if text), None)


def _leaf_difference(mine: Any, wanted: Any) -> str | None:
    if not isinstance(wanted, torch.Tensor):
        same = type(mine) is type(wanted) and (mine == wanted or (mine != mine and wanted != wanted))
        return None if same else f"{mine!r} of {type(mine).__name__}, not {wanted!r}"
    if type(mine) is not np.ndarray:
        return f"a {type(mine).__name__}, not a tensor"
    expected = to_numpy(wanted)
    if (mine.dtype, mine.shape) != (expected.dtype, expected.shape):
        return f"{mine.dtype}{list(mine.shape)}, not {expected.dtype}{list(expected.shape)}"
    relative, absolute = TOLERANCE.get(wanted.dtype, (0.0, 0.0))
    with np.errstate(all="ignore"):
        a, b = (array.astype(np.float64) if wanted.is_floating_point() else array for array in (mine, expected))
        same = (a == b) | ((a != a) & (b != b))
        if wanted.is_floating_point():
            same |= np.abs(a - b) <= absolute + relative * np.abs(b)
    if same.all():
        return None
    place = tuple(int(i) for i in np.argwhere(~same)[0])
    return f"{a[place]!r} at {list(place)}, not {b[place]!r}"


def _as_given(value: Any) -> Any:
    return [to_numpy(item) for item in value] if isinstance(value, list) else to_numpy(value)


def outcome(op: Any, made: Case, *, gradients: bool) -> str | None:
    """What is wrong with ours for one call; None for nothing, and where the language lacks the function."""
    try:
        expected = op.op(made.sample.input, *made.sample.args, **made.sample.kwargs)
    except Exception as error:
        expected = error
    try:
        function = gs.CompilationUnit(made.source).f
        result = function(*map(_as_given, made.values))
    except gs.CompileError as error:
        is_missing = error.code == "E202" or isinstance(expected, Exception)
        return None if is_missing else f"refused: {error.message}"
    except gs.RuntimeFailure as error:
        return None if isinstance(expected, Exception) else f"failed: {str(error).splitlines()[0]}"
    except Exception as error:
        return f"a bare {type(error).__name__}: {error}"
    if isinstance(expected, Exception):
        return None
    if any(isinstance(leaf, torch.Tensor) and leaf.is_complex() for leaf in flat(expected)):
        return None
    wrong = difference(result, expected)
    return wrong if wrong or not gradients else _gradient_difference(op, made, function)


def _gradient_difference(op: Any, made: Case, function: Any) -> str | None:
    """The first gradients of all floating results, each times a number of its own."""
    leaves = {id(leaf): leaf.detach().clone() for leaf in flat(made.values)}
    wrt = [leaf.requires_grad_() for leaf in leaves.values() if leaf.is_floating_point()]
    sample = replaced(made.sample, lambda tensor: leaves.get(id(tensor), tensor), lambda number: number)
    try:
        outputs = flat(op.op(sample.input, *sample.args, **sample.kwargs))
        floating = [
            (i, leaf) for i, leaf in enumerate(outputs) if isinstance(leaf, torch.Tensor) and leaf.requires_grad
        ]
        weights = {i: torch.full_like(leaf, 1.0 + 0.5 * i) for i, leaf in floating}
        wanted = torch.autograd.grad(
            [leaf for _, leaf in floating], wrt, list(weights.values()), allow_unused=True, materialize_grads=True
        )
    except Exception:
        return None  # Torch has no gradient of it.
    try:
        value, pullback = gs.vjp(function, *map(_as_given, made.values))
        found = pullback(_cotangent(value, iter([weights.get(i) for i in range(len(outputs))])))
    except (gs.RuntimeFailure, gs.CompileError) as error:
        return f"no gradient: {str(error).splitlines()[0]}"
    except Exception as error:
        return f"a bare {type(error).__name__} from the pullback: {error}"
    mine = [g for v, given in zip(made.values, found, strict=True) for g in _gradients(v, given)]
    zeros = [np.zeros_like(to_numpy(leaf)) if g is None else g for leaf, g in zip(wrt, mine, strict=True)]
    wrong = difference(zeros, list(wanted))
    return f"gradient: {wrong}" if wrong else None


def _cotangent(value: Any, weights: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)([_cotangent(item, weights) for item in value])
    weight = next(weights)
    return None if weight is None else to_numpy(weight)


def _gradients(value: Any, found: Any) -> list[Any]:
    """One gradient for each floating tensor of an argument."""
    values = value if isinstance(value, list) else [value]
    given = found if isinstance(found, list) else [found] * len(values)
    return [g for leaf, g in zip(values, given, strict=True) if leaf.is_floating_point()]


def differences(op: Any, dtype: str, change: str, limit: int, *, gradients: bool = True) -> tuple[int, list[str]]:
    """How many calls of one entry were compared, and what was wrong with any."""
    chance = random.Random(f"{name_of(op)} {dtype} {change}")
    wrong: list[str] = []
    count = 0
    for sample in samples(op, dtype, limit):
        try:
            made = case(op, CHANGES[change](sample, chance))
        except (Unspellable, RuntimeError, TypeError):
            continue
        count += 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = outcome(op, made, gradients=gradients and dtype == "float64")
        if found:
            kinds = [f"{leaf.dtype}{list(leaf.shape)}" for leaf in flat(made.values)]
            wrong.append(f"{found}\n    {made.source.partition('return ')[2].strip()}  {', '.join(kinds)}")
    return count, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--change", default=",".join(CHANGES))
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--match", default="")
    parser.add_argument("--limit", type=int, default=10, help="samples of each entry, dtype and change")
    options = parser.parse_args()
    totals: Counter[str] = Counter()
    for op in database():
        if not is_compared(op) or not re.search(options.match, name_of(op)):
            continue
        for change in options.change.split(","):
            for dtype in options.dtypes.split(","):
                count, wrong = differences(op, dtype, change, options.limit)
                totals += Counter(compared=count, different=len(wrong))
                for text in wrong:
                    print(f"{name_of(op)} [{dtype}, {change}]: {text}", flush=True)
    print(dict(totals))


if __name__ == "__main__":
    main()
