"""Every op, on torch's own samples and on changed ones, beside eager torch: values, dtypes, shapes, types, gradients.

    python tests/ops/enumeration.py --change special --dtypes float32,float64 --match "^clamp" --limit 20

A change puts special values into the tensors, mixes their dtypes, empties a dimension, takes dimensions away, lays
them out otherwise, puts other numbers where numbers stand, or gives ours the same values in arrays of other strides or
bytes (sample_changes.py). What differs from torch is printed: other values or types, a bare exception, an error where
torch has a value. What torch refuses may be refused, or be a value; where torch gives another answer for the same
values laid out with gaps, its loops disagree with each other, and nothing is compared.

What is found is printed as each entry ends. Calls whose results have more than `LARGEST` elements are left out: among
other numbers are such as ask for gigabytes, and torch and ours would both give them.

`--reasons` prints instead why entries do not pass: each entry once, under the first thing that keeps it from passing.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradscript as gs
import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from sample_changes import CHANGES, as_given, spread_out
from samples.arrays import to_numpy
from samples.torch_database import (
    DTYPES,
    Case,
    Unspellable,
    case,
    database,
    flat,
    name_of,
    replaced,
    samples,
    tensors_of,
)

TOLERANCE = {
    torch.float64: (1e-7, 1e-9),
    torch.float32: (2e-4, 2e-5),
    torch.float16: (8e-3, 8e-3),
    torch.bfloat16: (6e-2, 6e-2),
}
"""Relative and absolute: as many digits as sums and products of a few dozen elements leave."""

LARGEST = 1 << 20
"""Elements of results that are compared."""

OTHER_NAMES = re.compile(
    r"^(max_pool2d_with_indices_backward|torch\.ops|fft|__getitem__|linalg\.pinv\.singular|tensor_split"
    r"|masked\.|(linspace|logspace)\.tensor_overload)"
)
"""Entries whose samples are not arguments of one of torch's own functions, or tensors where numbers are meant."""
DRAWN = re.compile(
    r"^(rand|bernoulli|multinomial|normal|uniform|empty|new_empty|native_dropout|nn\.functional\.(\w*dropout\d?d?"
    r"|rrelu|scaled_dot_product_attention))"
)
"""Entries of random numbers, and of memory as it was found."""
NOT_UNIQUE = re.compile(
    r"^(svd|pca|linalg\.(svd|eig|eigh|pinv\.hermitian|qr)|cholesky_solve|native_layer_norm|kthvalue|topk|mode)"
)
"""Entries whose results are one of several, and those of docs/conventions.md, "Where torch's own is not taken"."""


def is_compared(op: Any) -> bool:
    return not any(pattern.search(name_of(op)) for pattern in (OTHER_NAMES, DRAWN, NOT_UNIQUE))


# --- comparison ---


@dataclass(frozen=True)
class Measure:
    """How near numbers have to be. `scale` is the size of what was summed; `again` is torch's answer once more."""

    scale: float = 0.0
    again: Any = None

    def difference(self, ours: Any, theirs: Any) -> str | None:
        """How a result differs from torch's, in type, dtype, shape or value; None where it does not."""
        mine, wanted = flat(ours), flat(theirs)
        if len(mine) != len(wanted):
            return f"{len(mine)} results, not {len(wanted)}"
        again = flat(self.again) if self.again is not None else wanted
        found = (self._of_leaf(*leaves) for leaves in zip(mine, wanted, again, strict=True))
        return next((text for text in found if text), None)

    def _of_leaf(self, mine: Any, wanted: Any, again: Any) -> str | None:
        if not isinstance(wanted, torch.Tensor):
            same = type(mine) is type(wanted) and (mine == wanted or (mine != mine and wanted != wanted))
            return None if same else f"{mine!r} of {type(mine).__name__}, not {wanted!r}"
        if type(mine) is not np.ndarray:
            return f"a {type(mine).__name__}, not a tensor"
        expected = to_numpy(wanted)
        if (mine.dtype, mine.shape) != (expected.dtype, expected.shape):
            return f"{mine.dtype}{list(mine.shape)}, not {expected.dtype}{list(expected.shape)}"
        settled = self._near(to_numpy(again), expected, wanted.dtype)
        different = ~self._near(mine, expected, wanted.dtype) & settled
        if not different.any():
            return None
        place = tuple(int(i) for i in np.argwhere(different)[0])
        return f"{mine[place]!s} at {list(place)}, not {expected[place]!s}"

    def _near(self, mine: Any, wanted: Any, dtype: torch.dtype) -> Any:
        relative, absolute = TOLERANCE.get(dtype, (0.0, 0.0))
        with np.errstate(all="ignore"):
            a, b = (array.astype(np.float64) if dtype.is_floating_point else array for array in (mine, wanted))
            same = (a == b) | ((a != a) & (b != b))
            if dtype.is_floating_point:
                same |= np.abs(a - b) <= absolute + relative * (np.abs(b) + self.scale)
        return same


def _scale(op: Any, sample: Any) -> float:
    """The largest number of a sample, where its results are sums."""
    if type(op).__name__ in ("UnaryUfuncInfo", "BinaryUfuncInfo"):
        return 0.0
    finite = [t.detach().double().abs().nan_to_num(posinf=0).max() for t in tensors_of(sample) if t.numel()]
    return max((float(most) for most in finite), default=0.0)


# --- one call ---

EQUAL, LACKING, REFUSED, TAKEN, DIFFERENT = "equal", "lacking", "refused", "taken", "different"


@dataclass(frozen=True)
class Outcome:
    kind: str
    text: str = ""


def outcome(op: Any, made: Case, given: list[Any], *, gradients: bool) -> Outcome:
    """What ours makes of one call beside torch."""
    try:
        expected = _in_torch(op, made.sample)
    except Exception as error:
        expected = error
    is_refused = isinstance(expected, Exception)
    try:
        function = gs.CompilationUnit(made.source).f
        result = function(*given)
    except gs.CompileError as error:
        if error.code == "E202":
            return Outcome(LACKING, error.message)
        return Outcome(EQUAL if is_refused else REFUSED, error.message)
    except gs.RuntimeFailure as error:
        return Outcome(EQUAL if is_refused else REFUSED, str(error).splitlines()[0])
    except Exception as error:
        return Outcome(DIFFERENT, f"a bare {type(error).__name__}: {error}")
    if is_refused:
        return Outcome(TAKEN, f"torch refuses: {str(expected).splitlines()[0] if str(expected) else expected!r}")
    if any(isinstance(leaf, torch.Tensor) and leaf.is_complex() for leaf in flat(expected)):
        return Outcome(EQUAL)
    wrong = _value_difference(op, made, result, expected)
    if wrong is None and gradients:
        wrong = _gradient_difference(op, made, given, function)
    return Outcome(DIFFERENT, wrong) if wrong else Outcome(EQUAL)


def _in_torch(op: Any, sample: Any) -> Any:
    return op.op(sample.input, *sample.args, **sample.kwargs)


def is_large(op: Any, sample: Any) -> bool:
    """Whether the results are too large to be compared, by shapes alone; where torch cannot tell, they are not."""
    shapes = replaced(sample, lambda tensor: tensor.to("meta"), lambda number: number)
    shapes.kwargs.pop("device", None)
    try:
        with torch.device("meta"):
            results = flat(_in_torch(op, shapes))
    except Exception:
        return False
    return sum(leaf.numel() for leaf in results if isinstance(leaf, torch.Tensor)) > LARGEST


def _value_difference(op: Any, made: Case, result: Any, expected: Any) -> str | None:
    if Measure().difference(result, expected) is None:
        return None
    again = _in_torch(op, spread_out(made.sample))
    return Measure(_scale(op, made.sample), again).difference(result, expected)


def _torch_gradients(op: Any, made: Case, spread: bool) -> tuple[list[Any], list[Any], Any]:
    """Leaves, their gradients, and what they were made of: the first ones of all floating results, each times a
    number of its own."""
    leaves = {id(leaf): leaf.detach().clone() for leaf in flat(made.values)}
    wrt = [leaf.requires_grad_() for leaf in leaves.values() if leaf.is_floating_point()]
    sample = replaced(made.sample, lambda tensor: leaves.get(id(tensor), tensor), lambda number: number)
    if spread:
        sample = replaced(sample, lambda t: torch.stack([t, t], -1)[..., 0], lambda number: number)
    outputs = flat(_in_torch(op, sample))
    floating = [(i, leaf) for i, leaf in enumerate(outputs) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    weights = {i: torch.full_like(leaf, 1.0 + 0.5 * i) for i, leaf in floating}
    found = torch.autograd.grad(
        [leaf for _, leaf in floating], wrt, list(weights.values()), allow_unused=True, materialize_grads=True
    )
    return wrt, list(found), [weights.get(i) for i in range(len(outputs))]


def _gradient_difference(op: Any, made: Case, given: list[Any], function: Any) -> str | None:
    try:
        wrt, wanted, weights = _torch_gradients(op, made, spread=False)
    except Exception:
        return None  # Torch has no gradient of it.
    try:
        value, pullback = gs.vjp(function, *given)
        found = pullback(_cotangent(value, iter(weights)))
    except (gs.RuntimeFailure, gs.CompileError) as error:
        return f"no gradient: {str(error).splitlines()[0]}"
    except Exception as error:
        return f"a bare {type(error).__name__} from the pullback: {error}"
    mine = [g for v, by in zip(made.values, found, strict=True) for g in _gradients(v, by)]
    zeros = [np.zeros_like(to_numpy(leaf)) if g is None else g for leaf, g in zip(wrt, mine, strict=True)]
    if Measure().difference(zeros, wanted) is None:
        return None
    again = _torch_gradients(op, made, spread=True)[1]
    wrong = Measure(_scale(op, made.sample), again).difference(zeros, wanted)
    return f"gradient: {wrong}" if wrong else None


def _cotangent(value: Any, weights: Iterator[Any]) -> Any:
    if isinstance(value, list | tuple):
        return type(value)([_cotangent(item, weights) for item in value])
    weight = next(weights)
    return None if weight is None else to_numpy(weight)


def _gradients(value: Any, found: Any) -> list[Any]:
    """One gradient for each floating tensor of an argument."""
    values = value if isinstance(value, list) else [value]
    given = found if isinstance(found, list) else [found] * len(values)
    return [g for leaf, g in zip(values, given, strict=True) if leaf.is_floating_point()]


# --- entries ---


def outcomes(op: Any, dtype: str, change: str, limit: int, *, gradients: bool = True) -> Iterator[tuple[Case, Outcome]]:
    """What became of each call of an entry that the language can spell."""
    chance = random.Random(f"{name_of(op)} {dtype} {change}")
    for sample in samples(op, dtype, limit):
        try:
            made = case(op, CHANGES[change].sample(sample, chance))
        except (Unspellable, RuntimeError, TypeError):
            continue
        if is_large(op, made.sample):
            continue
        given = [as_given(value, CHANGES[change], chance) for value in made.values]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield made, outcome(op, made, given, gradients=gradients and dtype == "float64")


@dataclass(frozen=True)
class Found:
    """What became of the calls of one entry in one dtype under one change; what the language lacks is not counted."""

    compared: int
    refused: list[str]
    different: list[str]
    taken: list[str]


def differences(op: Any, dtype: str, change: str, limit: int, *, gradients: bool = True) -> Found:
    texts: dict[str, list[str]] = defaultdict(list)
    for made, found in outcomes(op, dtype, change, limit, gradients=gradients):
        kinds = [f"{leaf.dtype}{list(leaf.shape)}" for leaf in flat(made.values)]
        call = f"{made.source.partition('return ')[2].strip()}  {', '.join(kinds)}"
        texts[found.kind].append(f"{found.text}\n    {call}")
    compared = sum(len(told) for kind, told in texts.items() if kind != LACKING)
    return Found(compared, texts[REFUSED], texts[DIFFERENT], texts[TAKEN])


def reason(op: Any, limit: int) -> str:
    """The first thing that keeps an entry from passing, in its first floating dtype; nothing where it passes."""
    dtype = next((d for d in ("float64", "float32", *DTYPES) if getattr(torch, d) in op.supported_dtypes("cpu")), "")
    if not dtype:
        return "complex numbers alone"
    if not is_compared(op):
        return "random numbers, results of several, or no function of torch's own"
    found = [one for _, one in outcomes(op, dtype, "none", limit)]
    if not found:
        return "no sample that the language can spell"
    worst = next((one for one in found if one.kind != EQUAL), None)
    return f"{worst.kind}: {worst.text}" if worst else ""


def print_reasons(chosen: list[Any], limit: int) -> None:
    by_reason: dict[str, list[str]] = defaultdict(list)
    for op in chosen:
        by_reason[reason(op, limit)].append(name_of(op))
    passed = by_reason.pop("", [])
    print(f"{len(passed)} of {len(chosen)} entries pass")
    for text, names in sorted(by_reason.items(), key=lambda item: -len(item[1])):
        print(f"{len(names):4} {text}\n       {' '.join(names)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--change", default=",".join(CHANGES))
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--match", default="")
    parser.add_argument("--start", default="", help="the entry to begin with, in torch's order")
    parser.add_argument("--limit", type=int, default=10, help="samples of each entry, dtype and change")
    parser.add_argument("--reasons", action="store_true", help="print why entries do not pass")
    parser.add_argument("--taken", action="store_true", help="print what torch refuses and ours takes, too")
    options = parser.parse_args()
    every = database()
    first = next((i for i, op in enumerate(every) if name_of(op) == options.start), 0)
    chosen = [op for op in every[first:] if re.search(options.match, name_of(op))]
    if options.reasons:
        print_reasons(chosen, options.limit)
    else:
        print_differences(chosen, options)


def print_differences(chosen: list[Any], options: argparse.Namespace) -> None:
    totals: Counter[str] = Counter()
    for op in filter(is_compared, chosen):
        counted: Counter[str] = Counter()
        for change in options.change.split(","):
            for dtype in options.dtypes.split(","):
                found = differences(op, dtype, change, options.limit)
                told = {"different": found.different, "refused": found.refused}
                told |= {"taken": found.taken} if options.taken else {}
                counted.update(compared=found.compared, **{kind: len(texts) for kind, texts in told.items()})
                for kind, texts in told.items():
                    for text in texts:
                        print(f"{kind}: {name_of(op)} [{dtype}, {change}]: {text}", flush=True)
        totals += counted
        print(f"{name_of(op)}: {dict(counted)}", flush=True)
    print(dict(totals))


if __name__ == "__main__":
    main()
