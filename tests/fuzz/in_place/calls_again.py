"""A random program called again and again on torch tensors, each time in another way, beside Python with torch.

`python tests/fuzz/in_place/calls_again.py 0 300` (with tests/support on the path) runs programs for 300 seconds, from
seed 0 on, by kernels in C and op by op in turn, prints what differs, and in the end what became of how many.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Optional

import gradscript as gs
import numpy as np
import torch
from beside_torch import arguments_of, flat, written
from torch.utils import _pytree as pytree

KINDS = (["modes"], ["rebinds"], [], ["arguments"], ["nested"], ["optional"], ["grown"], ["modes", "rebinds"])
CALLS = 8
TOLERANCE = {torch.float64: 1e-8, torch.float32: 2e-4}

Program = Callable[..., Any]


class VariedCall:
    """How one call is made: the same data and choices for both sides."""

    def __init__(self, text: str, seed: int) -> None:
        self.seed = seed
        rng = np.random.RandomState(seed)
        self.way = WAYS[rng.randint(len(WAYS))]
        self.dtype = torch.float32 if rng.rand() < 0.15 else torch.float64
        size = int(rng.choice([2, 4, 5])) if rng.rand() < 0.2 else 3
        self.data = pytree.tree_map(
            lambda v: np.resize(v, (size, size)) + 0.05 * rng.randn(size, size), arguments_of(text)
        )
        count = len(flat(self.data))
        some = rng.rand() < 0.4
        self.requires = [not some or rng.rand() < 0.6 for _ in range(count)]
        self.layouts = [rng.randint(4) if rng.rand() < 0.3 else 0 for _ in range(count)]

    def made(self) -> tuple[list[Any], list[torch.Tensor]]:
        """The arguments, and the leaves that they are or are views of."""
        leaves: list[torch.Tensor] = []

        def tensor(values: Any) -> Any:
            i = len(leaves)
            leaf, argument = LAYOUTS[self.layouts[i]](torch.tensor(values, dtype=self.dtype), self.requires[i])
            leaves.append(leaf)
            return argument

        return pytree.tree_map(tensor, self.data), leaves


def _plain(values: torch.Tensor, requires: bool) -> tuple[torch.Tensor, torch.Tensor]:
    leaf = values.requires_grad_(requires)
    return leaf, leaf


def _transposed_leaf(values: torch.Tensor, requires: bool) -> tuple[torch.Tensor, torch.Tensor]:
    leaf = values.t().contiguous().t().requires_grad_(requires)
    return leaf, leaf


def _every_other(values: torch.Tensor, requires: bool) -> tuple[torch.Tensor, torch.Tensor]:
    leaf = values.repeat_interleave(2, 1).requires_grad_(requires)
    return leaf, leaf[:, ::2]


def _computed(values: torch.Tensor, requires: bool) -> tuple[torch.Tensor, torch.Tensor]:
    leaf = values.requires_grad_(requires)
    return leaf, (leaf + 0.0).t().t()


LAYOUTS = (_plain, _transposed_leaf, _every_other, _computed)


def _tensors(results: Any) -> list[torch.Tensor]:
    return [value for value in flat(results) if isinstance(value, torch.Tensor)]


def _total(results: Sequence[torch.Tensor]) -> torch.Tensor | None:
    terms = [(v * v).sum() for v in results if v.requires_grad]
    return sum(terms[1:], terms[0]) if terms else None


def _values(results: Any) -> list[Any]:
    return [v.detach().clone() if isinstance(v, torch.Tensor) else v for v in flat(results)]


def _wanted(leaves: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [leaf for leaf in leaves if leaf.requires_grad]


def _gradients(total: torch.Tensor | None, leaves: Sequence[torch.Tensor], **options: Any) -> list[Any]:
    if not _wanted(leaves):
        return []
    if total is None:
        # A constant: of gradients torch records some that are constants, by how writes into views are undone.
        return [torch.zeros_like(v) for v in _wanted(leaves)]
    found = torch.autograd.grad(total, _wanted(leaves), allow_unused=True, **options)
    return [torch.zeros_like(v) if g is None else g for g, v in zip(found, _wanted(leaves), strict=True)]


def first_order(function: Program, call: VariedCall) -> list[Any]:
    arguments, leaves = call.made()
    results = function(*arguments)
    tensors = _tensors(results)
    return [_values(results), [v.requires_grad for v in tensors], _gradients(_total(tensors), leaves)]


def second_order(function: Program, call: VariedCall) -> list[Any]:
    arguments, leaves = call.made()
    results = function(*arguments)
    first = _gradients(_total(_tensors(results)), leaves, create_graph=True)
    return [_values(results), _values(first), _gradients(_total(first), leaves)]


def fed_back(function: Program, call: VariedCall) -> list[Any]:
    arguments, leaves = call.made()
    for _ in range(2):
        results = function(*arguments)
        first = next((v for v in _tensors(results) if v.shape == arguments[0].shape and v.dtype == call.dtype), None)
        if first is not None:
            arguments = [torch.tanh(first), *arguments[1:]] if call.seed % 2 else [first, *arguments[1:]]
    tensors = _tensors(results)
    return [_values(results), _gradients(_total(tensors), leaves)]


def accumulated(function: Program, call: VariedCall) -> list[Any]:
    arguments, leaves = call.made()
    for retained in (True, False):
        total = _total(_tensors(function(*arguments)))
        if total is not None:
            total.backward(retain_graph=retained)
            if retained:
                total.backward()
    return [[None if leaf.grad is None else leaf.grad for leaf in leaves]]


def unrecorded(function: Program, call: VariedCall) -> list[Any]:
    with (torch.no_grad, torch.inference_mode)[call.seed % 2]():
        results = function(*call.made()[0])
    return [_values(results), [v.requires_grad for v in _tensors(results)]]


def arguments_written(function: Program, call: VariedCall) -> list[Any]:
    return _written_between(function, call, lambda leaves, results: leaves)


def results_written(function: Program, call: VariedCall) -> list[Any]:
    return _written_between(function, call, lambda leaves, results: results)


def _written_between(function: Program, call: VariedCall, chosen: Callable[..., Sequence[torch.Tensor]]) -> list[Any]:
    """Gradients after a write, which are those of what was there before, or an error."""
    arguments, leaves = call.made()
    results = [v for v in _tensors(function(*arguments)) if v.requires_grad]
    seeds = [torch.full_like(v, 0.5) for v in results]
    if WRITES[0]:
        with torch.no_grad():
            for tensor in chosen(leaves, results)[:2]:
                tensor.add_(1.0)
    wanted = _wanted(leaves)
    found = torch.autograd.grad(results, wanted, seeds, allow_unused=True) if results and wanted else []
    return [[torch.zeros_like(v) if g is None else g for g, v in zip(found, wanted, strict=False)]]


WRITES = [True]
"""Whether tensors are written into between a call and its backward: not on the side that tells what holds."""
WAYS = (
    *(first_order, first_order, first_order, second_order, fed_back, accumulated, unrecorded),
    *(arguments_written, results_written),
)
RAISES = frozenset({arguments_written, results_written})


def outcome_of_calls(seed: int, calls: int = CALLS, *, backend: str = "numpy") -> str:
    """`equal`, or why the program does not count; AssertionError where a call gives something else than torch."""
    text = written(seed, KINDS[seed % len(KINDS)])
    names = {"List": list, "Tensor": torch.Tensor, "Optional": Optional}
    scope: dict[str, Any] = {"torch": torch, "F": torch.nn.functional, **names}
    exec(compile(text, "<program>", "exec"), scope)
    with gs.settings.backend(backend):
        try:
            function = gs.CompilationUnit(text).f
        except gs.CompileError:
            return "refused"
        ran = 0
        for i in range(calls):
            call = VariedCall(text, 1000 * seed + i)
            told = _compared(scope["f"], function, call)
            if told == "refused":
                return "refused"
            ran += told == "equal"
    return "equal" if ran else "torch refuses it"


def _compared(eager: Program, function: Program, call: VariedCall) -> str:
    WRITES[0] = False
    try:
        expected = call.way(eager, call)
    except (RuntimeError, IndexError, ValueError, TypeError):
        return "torch refuses it"
    finally:
        WRITES[0] = True
    try:
        found = call.way(function, call)
    except gs.CompileError:
        return "refused"
    except gs.RuntimeFailure as error:
        if error.code == "R003":
            return "refused"
        raise AssertionError(f"call {call.seed}, {call.way.__name__}: {error}") from error
    except RuntimeError as error:
        if call.way in RAISES and "modified by an inplace operation" in str(error):
            return "equal"
        raise AssertionError(f"call {call.seed}, {call.way.__name__}: {str(error)[:300]}") from error
    except Exception as error:
        raise AssertionError(f"call {call.seed}, {call.way.__name__}: {type(error).__name__}: {error}") from error
    for place, (e, f) in enumerate(zip(expected, found, strict=True)):
        message = f"call {call.seed}, {call.way.__name__}, part {place}: {f} for {e}"
        assert len(e) == len(f) and all(map(_close, e, f)), message
    return "equal"


def _close(expected: Any, found: Any) -> bool:
    if not isinstance(expected, torch.Tensor) or not isinstance(found, torch.Tensor):
        return (
            bool(expected == found)
            if type(expected) is not float
            else bool(np.isclose(expected, found, equal_nan=True))
        )
    tolerance = TOLERANCE.get(expected.dtype, 0.0)
    if expected.dtype != found.dtype or expected.shape != found.shape:
        return False
    return torch.allclose(found, expected, rtol=tolerance, atol=tolerance, equal_nan=True)


def main(first: int, seconds: float) -> None:
    found: Counter[str] = Counter()
    seed, end = first, time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            found[outcome_of_calls(seed, backend="numpy" if seed % 3 else "c")] += 1
        except AssertionError as error:
            found["different"] += 1
            print(f"program {seed}, {KINDS[seed % len(KINDS)]}: {str(error)[:700]}", flush=True)
        seed += 1
    print(f"seeds {first} to {seed - 1}: {dict(found)}")


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
