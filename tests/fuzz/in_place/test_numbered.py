"""The random programs of this room walked by numbers alone (`compiler/functionalize/numbered`), beside eager torch.

`PYTHONPATH=tests/support python tests/fuzz/in_place/test_numbered.py 0 1000 nested` runs more of them, values and
gradients to second order, with the options of `test_in_place.py` behind the numbers.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import gradscript as gs
import pytest
from amounts import some
from beside_torch import compare_gradients, outcome, written
from gradscript.compiler.emit import unit
from gradscript.compiler.functionalize import functionalize
from gradscript.compiler.functionalize.numbered import Unfit, numbered_graph
from gradscript.compiler.ir.graph import Graph
from gradscript.compiler.ir.verify import verify
from gradscript.lang.diagnostics import Diagnostics

KINDS = {
    (): 0.6,
    ("rebinds",): 0.6,
    ("nested",): 0.9,
    ("nested", "given"): 0.9,
    ("grown",): 0.9,
    ("optional",): 0.6,
    ("optional", "nested"): 0.9,
    ("arguments",): 0.6,
    ("arguments", "nested"): 0.9,
}
"""The options, and the least share of functions that have no views or modes of which numbers do not tell."""


@contextmanager
def by_numbers() -> Iterator[Counter[str]]:
    """Every function that writes is walked so, where it can be; how often it could."""
    found: Counter[str] = Counter()

    def numbered(graph: Graph, diagnostics: Diagnostics) -> Graph:
        try:
            made = numbered_graph(graph)
        except Unfit:
            found["unfit"] += 1
            return functionalize(graph, diagnostics)
        verify(made)
        found["numbered"] += 1
        return made

    unit.functionalize = numbered
    try:
        yield found
    finally:
        unit.functionalize = functionalize


def test_programs_walked_by_numbers_give_what_torch_gives() -> None:
    for options, share in KINDS.items():
        with by_numbers() as found:
            for seed in range(9000, 9000 + some(36)):
                text = written(seed, options)
                try:
                    outcome(text)
                except AssertionError as error:
                    raise AssertionError(f"{options}, program {seed}:\n{text}\n{error}") from error
        assert found["numbered"] >= share * sum(found.values())


@pytest.mark.parametrize("order", [1, 2])
def test_their_gradients_are_those_of_torch(order: int) -> None:
    for options in [kind for kind in KINDS if "arguments" not in kind and "given" not in kind]:
        with by_numbers():
            for seed in range(9500, 9500 + some(12 // order)):
                text = written(seed, options)
                try:
                    compare_gradients(text, order)
                except AssertionError as error:
                    raise AssertionError(f"{options}, program {seed}:\n{text}\n{error}") from error


WRITES = """
def f(x, w, given: List[List[Tensor]]):
    n = [[e * 1 for e in held] for held in given]
    {write}
    total = x * 0
    for held in n:
        for e in held:
            total = total * 0.5 + e * e
    return total
"""


@pytest.mark.parametrize(
    "write",
    [
        "n[0][0] += x",
        "n[1][0][0] = w[0]\n    n[0][1] = n[1][0]\n    n[0][1].mul_(x)",
        "a = n[0].pop()\n    a.add_(w)\n    n[1].insert(0, a)\n    n[1][0].t()[0].mul_(x[0])",
        "o: Optional[Tensor] = None\n    for h in n:\n        o = o if o is not None else h[-1]\n        o[1:] *= 2",
        "for a, b in zip(n[0], n[1]):\n        a += b\n        b.copy_(a)",
        "n[0], n[-1] = n[-1], n[0]\n    n[0][0].diagonal().add_(x[0])",
        "n[0], n[-1] = n[-1], n[0]\n    n[0][1].copy_(n[1][0][0])\n    n[0][0][1:].copy_(n[0][1][2])",
        "n[0].reverse()\n    e = n[0][-1]\n    n[1][0] += e[0].expand(3, 3) + w\n    e.mul_(x)",
        "y = x * 1\n    m = n[0]\n    for i, (a, j) in enumerate(zip(m, [1, 0])):\n        y[j] += a[0] * i\n"
        "        a.copy_(y[i])\n    m[0], m[1] = m[1], m[0]\n    m[0][0] = -1",
        "for i in range(3):\n        n[1][0][i].mul_(x[i])\n    n.append([n[1][0].view(9)[3:]])\n    n.pop()[0].sin_()",
    ],
)
@pytest.mark.parametrize("lengths", [(2, 2), (3, 2)])
def test_writes_into_what_lists_of_unknown_lengths_hold(write: str, lengths: tuple[int, int]) -> None:
    """One graph for lists of all lengths, whose gradients flow to what they were given."""
    import numpy as np
    import torch

    text = WRITES.format(write=write)
    rng = np.random.default_rng(7)
    x, w = rng.uniform(0.5, 2, (2, 3, 3))
    given = [[rng.uniform(0.5, 2, (3, 3)) for _ in range(n)] for n in lengths]
    scope: dict = {"torch": torch, "List": list, "Tensor": torch.Tensor, "Optional": lambda t: t}
    exec(text.replace("o: Optional[Tensor] = None", "o = None"), scope)
    tensors = [torch.tensor(a, requires_grad=True) for a in (x, w)]
    lists = [[torch.tensor(a, requires_grad=True) for a in held] for held in given]
    leaves = [*tensors, *(t for held in lists for t in held)]
    wanted = torch.autograd.grad(scope["f"](*tensors, lists).sin().sum(), leaves, allow_unused=True)
    f = gs.CompilationUnit(text).f
    with gs.settings.backend("c"):
        ours = [torch.tensor(a, requires_grad=True) for a in (x, w)]
        our_lists = [[torch.tensor(a, requires_grad=True) for a in held] for held in given]
        our_leaves = [*ours, *(t for held in our_lists for t in held)]
        found = torch.autograd.grad(f(*ours, our_lists).sin().sum(), our_leaves, allow_unused=True)
    out, pullback = gs.vjp(f, x, w, given)
    gx, gw, glists = pullback(np.cos(out))
    for one, other, of_arrays in zip(wanted, found, [gx, gw, *(g for held in glists for g in held)], strict=True):
        expected = np.zeros((3, 3)) if one is None else one.numpy()
        np.testing.assert_allclose(np.zeros((3, 3)) if other is None else other.numpy(), expected, atol=1e-12)
        np.testing.assert_allclose(np.zeros((3, 3)) if of_arrays is None else of_arrays, expected, atol=1e-12)


def test_a_write_into_what_may_be_an_argument_ends_where_it_is_one() -> None:
    text = """
def f(x, n: int):
    l = [x * 1]
    for i in range(n):
        l.insert(0, x)
    l[-1 - n // 2] += 1
    return l[0] + l[-1]
"""
    f = gs.CompilationUnit(text).f
    import numpy as np

    x = np.ones(3)
    np.testing.assert_array_equal(f(x, 1), [3.0, 3.0, 3.0])
    with pytest.raises(gs.RuntimeFailure, match="a write into an argument: write into a copy"):
        f(x, 2)
    np.testing.assert_array_equal(x, np.ones(3))


def main(start: int, stop: int, *options: str) -> None:
    for kind in [tuple(options)] if options else KINDS:
        with by_numbers() as found:
            _run(range(start, stop), kind, found)
        print(" ".join(kind) or "plain", dict(found), flush=True)


def _run(seeds: Iterable[int], kind: tuple[str, ...], found: Counter[str]) -> None:
    for seed in seeds:
        text = written(seed, kind)
        try:
            found[outcome(text).partition(":")[0]] += 1
            found["gradients"] += compare_gradients(text, 2)
        except Exception as error:
            found["DIFFERENT"] += 1
            print(f"program {seed} of {kind} differs: {type(error).__name__} {error}\n{text}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
