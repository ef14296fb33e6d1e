"""Every op on all of torch's samples and reference inputs, on every road, to second order, beside eager torch.

    python tests/ops/op_roads.py --results build/roads.jsonl --dtypes float64,int64 --match "^clamp"

A road is a way that a call can take: arrays op by op, arrays by kernels in C, torch tensors that require gradients,
both ways, and tensors on a device whose kernels run by their meaning. Each gives values, gradients of a sum of
`r + atan(r)` over its floating results, and gradients of that of those. Beside what eager torch gives stands what it
gives for the same inputs in float64: a result may be no further from that than twice eager's own error and a few
units in the last place.

With `--errors` the calls are those that torch's database says fail, on arrays and on tensors, in their own dtypes.

What an entry came to is a line of the file of results; entries that stand there are not run again.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import gradscript as gs
import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from enumeration import DRAWN, NOT_UNIQUE, OTHER_NAMES
from kernel_device import kernel_device
from sample_changes import spread_out
from samples.arrays import to_numpy
from samples.torch_database import Case, Unspellable, all_samples, case, database, flat, name_of, replaced, tensors_of

DTYPES = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "uint8", "bool")
UNITS = {torch.float64: 1e-10, torch.float32: 8e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
"""Of what is compared with float64 beside eager's own error: some units in the last place."""
SECONDS = 60
"""What one call may take on one road, with the building of its kernels."""

LARGEST = 1 << 14
"""Elements of inputs; a handful of the reference inputs have a million, to no other end than a benchmark's."""

KEY = ("entry", "dtype", "roads", "limit", "draw")
"""By what an entry of the file of results is known."""

EQUAL, LACKING, REFUSED, TAKEN, DIFFERENT = "equal", "lacking", "refused", "taken", "different"
Array = np.ndarray[Any, Any]


class TooLong(Exception):
    """A call took more than SECONDS."""


# --- what torch gives ---


@dataclass
class Answer:
    """Results, gradients and second gradients of one call; what torch refuses is the exception, or None."""

    value: Any = None
    first: list[Any] | None = None
    second: list[Any] | None = None
    failure: Exception | None = None


def weighed(results: list[Any]) -> Any:
    """The sum of r + atan(r), whose slope is near no zero and no rounding turns, over what has a gradient."""
    total: Any = None
    for result in results:
        if isinstance(result, torch.Tensor) and result.requires_grad:
            term = (result + torch.atan(result)).sum()
            total = term if total is None else total + term
    return total


def differentiated(value: Any, wrt: list[Any], second: bool) -> tuple[list[Any] | None, list[Any] | None]:
    total = weighed(flat(value))
    if total is None or not wrt or total.is_complex():
        return None, None
    first = torch.autograd.grad(total, wrt, create_graph=second, allow_unused=True)
    if not second:
        return list(first), None
    try:
        total = weighed([g for g in first if g is not None])
        if total is None:
            return [g if g is None else g.detach() for g in first], None
        found = torch.autograd.grad(total, wrt, allow_unused=True)
    except (RuntimeError, NotImplementedError):
        return [g if g is None else g.detach() for g in first], None
    return [g if g is None else g.detach() for g in first], list(found)


def answer(op: Any, made: Case, convert: Callable[[Any], Any], *, orders: int) -> Answer:
    """torch's, of the sample's tensors as `convert` gives them."""
    leaves = {id(leaf): convert(leaf.detach()).clone() for leaf in flat(made.values)}
    wrt = [leaf.requires_grad_() for leaf in leaves.values() if orders and leaf.is_floating_point()]
    sample = replaced(made.sample, lambda tensor: leaves.get(id(tensor), tensor), lambda number: number)
    try:
        value = op.op(sample.input, *sample.args, **sample.kwargs)
    except Exception as error:
        return Answer(failure=error)
    plain = _detached(value)
    try:
        first, second = differentiated(value, wrt, orders > 1)
    except (RuntimeError, NotImplementedError):
        first, second = None, None
    return Answer(plain, first, second)


def _detached(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_detached(item) for item in value]
    return value.detach() if isinstance(value, torch.Tensor) else value


def _wide(tensor: Any) -> Any:
    return tensor.double() if tensor.is_floating_point() else tensor


# --- one call ---


@dataclass
class Asked:
    """One call, and what torch makes of it."""

    op: Any
    made: Case
    dtype: str
    orders: int
    is_unique: bool = True
    units: dict[str, gs.CompilationUnit] = field(default_factory=dict)

    @cached_property
    def eager(self) -> Answer:
        return answer(self.op, self.made, lambda t: t, orders=self.orders)

    @cached_property
    def exact(self) -> Answer:
        """In float64; where torch has none, eager's own."""
        if self.dtype == "float64":
            return self.eager
        found = answer(self.op, self.made, _wide, orders=self.orders)
        return self.eager if found.failure else found

    @cached_property
    def again(self) -> Answer:
        """Of the same values with gaps between them, for which torch takes other loops."""
        made = Case(self.made.source, self.made.values, spread_out(self.made.sample))
        leaves = iter(flat(self.made.values))
        return answer(self.op, made, lambda t: t, orders=0) if next(leaves, None) is not None else self.eager

    @cached_property
    def scale(self) -> float:
        if type(self.op).__name__ in ("UnaryUfuncInfo", "BinaryUfuncInfo"):
            return 0.0
        finite = [
            t.detach().double().abs().nan_to_num(posinf=0).max() for t in tensors_of(self.made.sample) if t.numel()
        ]
        return max((float(most) for most in finite), default=0.0)

    @cached_property
    def coarsest(self) -> float:
        """Units in the last place of the least precise floating input: what is computed on the way may be of it."""
        return max((UNITS.get(leaf.dtype, 0.0) for leaf in flat(self.made.values)), default=0.0)

    @property
    def function(self) -> gs.Function:
        if self.made.source not in self.units:
            self.units[self.made.source] = gs.CompilationUnit(self.made.source)
        return self.units[self.made.source]["f"]

    # --- comparison ---

    def check(self, ours: Any, name: str) -> str | None:
        """How values, or gradients of an order, differ from torch's."""
        theirs, exact = getattr(self.eager, name), getattr(self.exact, name)
        if theirs is None:
            return None
        mine, wanted = flat(ours), flat(theirs)
        near = flat(exact) if exact is not None and len(flat(exact)) == len(wanted) else wanted
        if len(mine) != len(wanted):
            return f"{len(mine)} results, not {len(wanted)}"
        for i, leaves in enumerate(zip(mine, wanted, near, strict=True)):
            text = self._leaf(*leaves, slack={"value": 1.0, "first": 4.0, "second": 16.0}[name])
            if text and name == "value" and self.again.failure is None:
                text = self._leaf(leaves[0], flat(self.again.value)[i], leaves[2], 1.0) and text
            if text:
                return f"{name} {i}: {text}"
        return None

    def _leaf(self, mine: Any, wanted: Any, exact: Any, slack: float) -> str | None:
        if wanted is None or mine is None:
            there = mine if wanted is None else wanted
            zero = there is None or not np.any(_array(there))
            return None if zero else f"{'none' if mine is None else 'a gradient'} where torch has another"
        if not isinstance(wanted, torch.Tensor):
            same = type(mine) is type(wanted) and (mine == wanted or (mine != mine and wanted != wanted))
            return None if same else f"{mine!r} of {type(mine).__name__}, not {wanted!r}"
        if not isinstance(mine, np.ndarray | torch.Tensor):
            return f"a {type(mine).__name__}, not a tensor"
        a, b = _array(mine), _array(wanted)
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            return f"{a.dtype}{list(a.shape)}, not {b.dtype}{list(b.shape)}"
        if not self.is_unique or wanted.is_complex():
            return None
        c = _array(exact) if isinstance(exact, torch.Tensor) and exact.shape == wanted.shape else b
        different = ~self._near(a, b, c, wanted.dtype, slack)
        if not different.any():
            return None
        place = tuple(int(i) for i in np.argwhere(different)[0])
        return f"{a[place]!s} at {list(place)}, not {b[place]!s} (exactly {c[place]!s})"

    def _near(self, a: Array, b: Array, c: Array, dtype: torch.dtype, slack: float) -> Any:
        if dtype not in UNITS:
            return a == b
        with np.errstate(all="ignore"):
            rounded = c.astype(a.dtype).astype(np.float64)
            a, b, c = (array.astype(np.float64) for array in (a, b, c))
            same = (a == b) | ((a != a) & (b != b)) | (a == rounded)
            finite = np.abs(c[np.isfinite(c)])
            # A gradient is a sum wherever an operand was broadcast.
            is_sum = self.scale or slack > 1
            most = max(self.scale, float(finite.max()) if finite.size and is_sum else 0.0, float(slack > 1))
            own = np.abs(b - c)
            allowed = 2 * np.where(np.isfinite(own), own, 0) + slack * max(UNITS[dtype], self.coarsest) * (
                np.abs(c) + most
            )
            tiny = float(torch.finfo(dtype).tiny) if dtype in UNITS else 0.0
            return same | (np.abs(a - c) <= allowed + tiny * slack)


def _array(value: Any) -> Array:
    if isinstance(value, torch.Tensor) and value._is_zerotensor():
        value = torch.zeros(value.shape, dtype=value.dtype)
    return to_numpy(value.detach()) if isinstance(value, torch.Tensor) else np.asarray(value)


# --- roads ---


def arrays(asked: Asked) -> str | None:
    """Values, `gs.vjp`, and `gs.vjp` of `gs.grad`."""
    given = [_as_arrays(value) for value in asked.made.values]
    value = asked.function(*given)
    wrong = asked.check(value, "value")
    if wrong or asked.eager.first is None:
        return wrong
    text = _loss(asked.made.source, asked.eager.value)
    if text is None:
        return None
    if text not in asked.units:
        asked.units[text] = gs.CompilationUnit(text)
    loss = asked.units[text]["loss"]
    places = [i for i, v in enumerate(asked.made.values) if any(t.is_floating_point() for t in flat([v]))]
    derived = gs.grad(loss, places, allow_unused=True)
    found = derived(*given)
    wrong = asked.check(_of_floats(asked, places, found), "first")
    if wrong or asked.eager.second is None:
        return wrong
    second = f"{text}\n#{places}"
    if second not in asked.units:
        asked.units[second] = derived
    value, pullback = gs.vjp(asked.units[second], *given)
    slopes = [_slope(g) for g in value]
    found = pullback(tuple(slopes))
    return asked.check(_of_floats(asked, places, [found[place] for place in places]), "second")


def _slope(gradient: Any) -> Any:
    if gradient is None:
        return None
    if isinstance(gradient, list):
        return [_slope(item) for item in gradient]
    t = torch.from_numpy(np.array(gradient)) if gradient.dtype.name != "bfloat16" else _tensor(gradient)
    return to_numpy(1 + 1 / (1 + t * t))


def _tensor(array: Any) -> Any:
    return torch.tensor(array.astype(np.float32)).to(torch.bfloat16)


def _of_floats(asked: Asked, places: list[int], found: Any) -> list[Any]:
    by_place = dict(zip(places, found, strict=True))
    kept: list[Any] = []
    for i, value in enumerate(asked.made.values):
        items = value if isinstance(value, list) else [value]
        mine = by_place.get(i)
        given = mine if isinstance(mine, list) else [mine] * len(items)
        kept += [g for leaf, g in zip(items, given, strict=True) if leaf.is_floating_point()]
    return kept


def _loss(source: str, value: Any) -> str | None:
    head, _, _ = source.partition("\n")
    names = ", ".join(p.partition(":")[0] for p in re.findall(r"a\d+: \w+(?:\[\w+\])?", head))
    is_several = isinstance(value, list)
    items = value if is_several else [value]
    terms = []
    for i, item in enumerate(items):
        if isinstance(item, list):
            return None
        if isinstance(item, torch.Tensor) and item.is_floating_point():
            of = f"r[{i}]" if is_several else "r"
            terms.append(f"({of} + torch.atan({of})).sum()")
    if not terms:
        return None
    return f"{source}\n\n{head.replace('def f', 'def loss')}\n    r = f({names})\n    return {' + '.join(terms)}\n"


def tensors(asked: Asked) -> str | None:
    """Torch's autograd through a call on tensors that require gradients."""

    def given(value: Any) -> Any:
        if isinstance(value, list):
            return [given(item) for item in value]
        return value.detach().clone().requires_grad_(bool(asked.orders) and value.is_floating_point())

    values = [given(value) for value in asked.made.values]
    wrt = [leaf for leaf in flat(values) if leaf.requires_grad]
    value = asked.function(*values)
    wrong = asked.check(_detached(value), "value")
    if wrong or asked.eager.first is None:
        return wrong
    try:
        first, second = differentiated(value, wrt, asked.eager.second is not None)
    except RuntimeError as error:
        return f"no gradient of tensors: {str(error).splitlines()[0]}"
    if first is None:
        return "the results require no gradient"
    return asked.check(first, "first") or (second is not None and asked.check(second, "second")) or None


def _as_arrays(value: Any) -> Any:
    return [to_numpy(item) for item in value] if isinstance(value, list) else to_numpy(value)


def by(backend: str, road: Callable[[Asked], str | None]) -> Callable[[Asked], str | None]:
    def run(asked: Asked) -> str | None:
        with gs.settings.backend(backend):
            warnings.filterwarnings("error", message="kernels in C")
            return road(asked)

    return run


def kernels(asked: Asked) -> str | None:
    return tensors(asked)


ROADS: dict[str, Callable[[Asked], str | None]] = {
    "arrays": by("numpy", arrays),
    "tensors": by("numpy", tensors),
    "arrays in C": by("c", arrays),
    "tensors in C": by("c", tensors),
    "kernels": kernels,
}


def outcome(asked: Asked, road: str) -> tuple[str, str]:
    """What a road makes of a call, and why."""
    failure = asked.eager.failure
    signal.alarm(SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wrong = ROADS[road](asked)
    except gs.CompileError as error:
        if error.code == "E202":
            return LACKING, error.message
        return (EQUAL if failure else REFUSED), error.message
    except gs.RuntimeFailure as error:
        return (EQUAL if failure else REFUSED), str(error).splitlines()[0]
    except TooLong:
        return DIFFERENT, f"took more than {SECONDS} s"
    except Exception as error:
        told = str(error).splitlines()
        return DIFFERENT, f"a bare {type(error).__name__}: {told[0] if told else ''}"
    finally:
        signal.alarm(0)
    if failure is not None:
        return TAKEN, f"torch refuses: {(str(failure).splitlines() or [repr(failure)])[0]}"
    return (DIFFERENT, wrong) if wrong else (EQUAL, "")


# --- entries ---


def failing(op: Any) -> Iterator[Asked]:
    """Calls that torch refuses."""
    if op.error_inputs_func is None:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = list(op.error_inputs("cpu"))
    for error in found:
        try:
            made = case(op, error.sample_input)
        except (Unspellable, RuntimeError, TypeError):
            continue
        yield Asked(op, made, "float64", 0)


def calls(op: Any, dtype: str, limit: int, draw: int) -> Iterator[Asked]:
    orders = 0 if not dtype.startswith(("float", "bfloat")) else 2 if op.supports_gradgrad else 1
    if not op.supports_autograd or getattr(torch, dtype) not in op.supported_backward_dtypes("cpu"):
        orders = 0
    unique = not DRAWN.search(name_of(op)) and not NOT_UNIQUE.search(name_of(op))
    units: dict[str, gs.CompilationUnit] = {}
    for sample in all_samples(op, dtype, limit, draw):
        if (
            sum(leaf.numel() for leaf in flat([sample.input, list(sample.args)]) if isinstance(leaf, torch.Tensor))
            > LARGEST
        ):
            continue
        try:
            made = case(op, sample)
        except (Unspellable, RuntimeError, TypeError):
            continue
        yield Asked(op, made, dtype, orders, unique, units)


def entry(op: Any, dtype: str, roads: list[str], asked_of: Iterator[Asked]) -> dict[str, Any]:
    """Counts by road and kind, and what of it is not equal."""
    counts: Counter[str] = Counter()
    told: dict[str, list[Any]] = {}
    for asked in asked_of:
        for road in roads:
            kind, text = outcome(asked, road)
            counts[f"{road}: {kind}"] += 1
            if kind == LACKING:
                break
            if kind != EQUAL:
                kinds = [f"{leaf.dtype}{list(leaf.shape)}" for leaf in flat(asked.made.values)]
                call = asked.made.source.partition("return ")[2].strip()
                key = re.sub(r"-?\d+(\.\d+)?(e[+-]?\d+)?", "N", f"{road}: {kind}: {text}")
                told.setdefault(key, [0, text, call, ", ".join(kinds)])[0] += 1
    return {"entry": name_of(op), "dtype": dtype, "counts": dict(counts), "told": told}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--roads", default=",".join(ROADS))
    parser.add_argument("--match", default="")
    parser.add_argument("--limit", type=int, default=1 << 30, help="calls of each entry and dtype")
    parser.add_argument("--draw", type=int, default=1, help="which calls, where there are more than the limit")
    parser.add_argument("--first", type=int, default=0, help="the first entry's number in torch's database")
    parser.add_argument("--errors", action="store_true", help="calls that torch's database says fail")
    options = parser.parse_args()
    if options.errors:
        options.dtypes, options.roads, options.limit = "error", "arrays,tensors", 0
    signal.signal(signal.SIGALRM, _too_long)
    roads = options.roads.split(",")
    done = set()
    if options.results.exists():
        lines = [json.loads(line) for line in options.results.read_text().splitlines()]
        done = {tuple(line[name] for name in KEY) for line in lines}
    with ExitStack() as stack:
        if roads == ["kernels"]:
            import pytest

            stack.enter_context(kernel_device(pytest.MonkeyPatch()))
        for dtype in options.dtypes.split(","):
            for op in database()[options.first :]:
                name = name_of(op)
                key = (name, dtype, options.roads, options.limit, options.draw)
                if key in done or OTHER_NAMES.search(name) or not re.search(options.match, name):
                    continue
                if not options.errors and getattr(torch, dtype) not in op.supported_dtypes("cpu"):
                    continue
                asked_of = failing(op) if options.errors else calls(op, dtype, options.limit, options.draw)
                found = entry(op, dtype, roads, asked_of) | dict(zip(KEY[2:], key[2:], strict=True))
                with options.results.open("a") as file:
                    file.write(json.dumps(found) + "\n")


def _too_long(*_: Any) -> None:
    raise TooLong


if __name__ == "__main__":
    main()
