"""Gradients that meet in one value: as one sum they are, bit for bit, what a chain of sums makes of them, in less."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import gradscript as gs
import ml_dtypes
import numpy as np
import pytest
from amounts import some
from gradscript.compiler.ops.registry import OPS
from gradscript.compiler.pipeline import EXECUTOR, RECIPES
from gradscript.runtime.execution.derivatives import derivatives_of
from gradscript.runtime.execution.differentiated import Differentiated
from gradscript.runtime.execution.gradients import settled, specialized
from gradscript.runtime.memory.ledger import Ledger, run_watched
from gradscript.runtime.plans.build import build_plan
from gradscript.runtime.plans.plan import ExecutionPlan

PROGRAMS = some(24)
TERMS = (
    "{}",
    "{} * y",
    "torch.exp({})",
    "torch.addcmul({}, {}, {})",
    "torch.addcmul(y, {}, {})",
    "torch.where(y > 0, {}, y)",
    "torch.lerp({}, {}, {})",
    "{}.sum() * y",
    "torch.maximum({}, y)",
    "torch.cat([{}, {}, {}]).sum() + y",
)
DTYPES = (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)


def source(seed: int, fan_in: int) -> str:
    """A function of x and y in which a temporary is used `fan_in` times at least."""
    random = Random(seed)
    terms: list[str] = []
    uses = 0
    while uses < fan_in:
        template = random.choice(TERMS)
        uses += template.count("{}")
        terms.append(template.format(*["a"] * template.count("{}")))
    lines = [f"    t{i} = {term}" for i, term in enumerate(terms)]
    total = random.choice((" + ", " * ")).join(f"t{i}" for i in range(len(terms)))
    return "\n".join(["def f(x, y):", "    a = torch.sin(x) * y", *lines, f"    return ({total}).sum()", ""])


def arrays(seed: int, dtype: Any, count: int = 2, shape: tuple[int, ...] = (4, 5)) -> list[Any]:
    generator = np.random.default_rng(seed)
    return [generator.normal(size=shape).astype(dtype) for _ in range(count)]


def assert_same_bits(found: Sequence[Any], expected: Sequence[Any]) -> None:
    for left, right in zip(found, expected, strict=True):
        assert left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()


def derivatives(text: str, values: list[Any]) -> list[Any]:
    """By vjp, by grad, by grad of grad and by the tape, from a unit of their own."""
    unit = gs.CompilationUnit(text)
    _, pull_back = gs.vjp(unit.f, *values)
    found = [*pull_back(np.ones((), values[0].dtype)), *gs.grad(unit.f, argnums=(0, 1))(*values)]
    variables = [gs.tape.Variable(value, requires_grad=True) for value in values]
    unit.f(*variables).backward()
    found += [variable.grad.numpy() for variable in variables]
    _, pull_back = gs.vjp(gs.grad(unit.f), *values)
    return [*found, *[second for second in pull_back(values[1]) if second is not None]]


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_sums_are_the_chains_to_the_bit(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = source(seed, 3 + seed % 6)
    values = arrays(seed, DTYPES[seed % 4])
    found = derivatives(text, values)
    monkeypatch.setitem(RECIPES, "aggregate", ())
    monkeypatch.setitem(EXECUTOR, "aggregate", ())
    assert_same_bits(found, derivatives(text, values))


# --- memory ---


def plans(text: str, values: list[Any]) -> tuple[Differentiated, ExecutionPlan, ExecutionPlan]:
    """A backward as it runs, and with chains."""
    found = derivatives_of(gs.CompilationUnit(text).f).differentiate(values)
    _, residuals = found.run(values)
    given = [np.ones((), values[0].dtype), *residuals]
    aggregated = found.backward_for(given[:1]).executor.plan(given)
    types = [value.type for value in aggregated.graph.inputs[:1]]
    return found, aggregated, build_plan(settled(specialized(found.gradient.df, types)))


def measured(differentiated: Differentiated, plan: ExecutionPlan, values: list[Any]) -> tuple[int, int]:
    """The most bytes that are live in a backward, and the bytes of all arrays that it makes."""
    _, residuals = differentiated.run(values)
    ledger = Ledger()
    run_watched(plan, [np.ones((), values[0].dtype), *residuals], ledger)
    ledger.finish()
    live = peak = made = 0
    for step in ledger.steps:
        born = sum(buffer.nbytes for buffer in step.born)
        live, made = live + born, made + born
        peak = max(peak, live)
        live -= sum(buffer.nbytes for buffer in step.died)
    return peak, made


def sums(plan: ExecutionPlan) -> int:
    return sum(node.kind == "gs::add_n" for node in plan.graph.all_nodes())


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_no_more_is_live_and_less_is_made(seed: int) -> None:
    values = arrays(seed, np.float64, shape=(8, 9))
    differentiated, aggregated, chained = plans(source(seed, 3 + seed % 6), values)
    assert sums(chained) == 0
    peak, made = measured(differentiated, aggregated, values)
    chained_peak, chained_made = measured(differentiated, chained, values)
    assert peak <= chained_peak
    assert made < chained_made if sums(aggregated) else made == chained_made


def test_the_programs_have_sums() -> None:
    found = [sums(plans(source(seed, 3 + seed % 6), arrays(seed, np.float64))[1]) for seed in range(PROGRAMS)]
    assert sum(map(bool, found)) >= PROGRAMS / 3


def many(count: int) -> str:
    """A function with a backward of its own, called with one value in the place of all its arguments."""
    names = [f"p{i}" for i in range(count)]
    gradients = ", ".join(f"grad * {name} * {i + 2}" for i, name in enumerate(names))
    return f"""
def product({", ".join(names)}):
    def backward(grad):
        return {gradients}

    return {" * ".join(names)}, backward


def f(x, y):
    a = torch.sin(x) * y
    return product({", ".join(["a"] * count)}).sum()
"""


def test_one_array_for_a_sum_below_the_cap() -> None:
    """Each gradient of `many` is an array; their sum is one more, where a chain makes one less than there are."""
    x = y = np.ones((6, 7))
    for count in (3, 7):
        differentiated, aggregated, chained = plans(many(count), [x, y])
        (node,) = [node for node in aggregated.graph.all_nodes() if node.kind == "gs::add_n"]
        assert len(node.inputs[0].node.inputs) == count
        peak, made = measured(differentiated, aggregated, [x, y])
        chained_peak, chained_made = measured(differentiated, chained, [x, y])
        assert peak <= chained_peak and made == chained_made - (count - 2) * x.nbytes


def test_an_error_in_a_sum_names_the_sum_of_two_that_failed() -> None:
    unit = gs.CompilationUnit("def f(x, y):\n    return x + x + y + x\n")
    assert_same_bits([unit.f(np.ones(3), np.ones(1))], [np.full(3, 4.0)])
    graph = gs.compiler_debug.last_executed_graph()
    assert graph is not None and any(node.kind == "gs::add_n" for node in graph.nodes)
    with pytest.raises(gs.RuntimeFailure, match=r"aten::add.Tensor: the shapes \[3\] and \[4\]"):
        unit.f(np.ones(3), np.ones(4))


# --- second derivatives of the op itself ---


def test_the_op_is_differentiated_twice_as_a_chain_is() -> None:
    terms = ("x * y", "torch.exp(x)", "x", "torch.sin(x) * x")
    chain, one = (
        gs.CompilationUnit(f"def f(x, y):\n    s = {total}\n    return (s * s * y).sum()\n").f
        for total in (" + ".join(terms), f"torch.add_n([{', '.join(terms)}])")
    )
    values = arrays(1, np.float64)
    for function, other in ((chain, one), (gs.grad(chain, argnums=(0, 1)), gs.grad(one, argnums=(0, 1)))):
        (expected, pull), (found, pull_other) = gs.vjp(function, *values), gs.vjp(other, *values)
        results = expected if isinstance(expected, tuple) else (expected,)
        seeds = tuple(np.ones_like(result) for result in results)
        seed = seeds if len(seeds) > 1 else seeds[0]
        for left, right in zip(pull(seed), pull_other(seed), strict=True):
            np.testing.assert_allclose(right, left, rtol=1e-12, atol=1e-12)
        for left, right in zip(results, found if len(seeds) > 1 else (found,), strict=True):
            np.testing.assert_allclose(right, left, rtol=1e-12, atol=1e-12)


# --- the op ---


@pytest.mark.parametrize("dtype", [*DTYPES, np.int32, np.uint8, np.bool_])
def test_the_op_adds_from_the_left(dtype: Any) -> None:
    add, add_n = (OPS.named(name).evaluate for name in ("aten::add.Tensor", "gs::add_n"))
    generator = np.random.default_rng(0)
    for shapes in ([(3, 4)] * 6, [(4,), (3, 1), (3, 4), (), (1, 4)], [(), (), ()], [(0, 2), (2,), (1, 2)]):
        terms = [np.asarray(generator.normal(size=shape) * 100).astype(dtype) for shape in shapes]
        if np.dtype(dtype).kind not in "iub":
            terms[0] = np.where(np.abs(terms[0]) > 150, np.asarray(np.inf, dtype), terms[0]).astype(dtype)
            terms[-1] = np.where(np.abs(terms[-1]) > 150, np.asarray(np.nan, dtype), terms[-1]).astype(dtype)
        before = [term.copy() for term in terms]
        expected = terms[0]
        for term in terms[1:]:
            expected = add(expected, term)
        with np.errstate(all="ignore"):
            assert_same_bits([add_n(terms)], [expected])
        assert_same_bits(terms, before)


def test_the_op_promotes_as_a_chain_does() -> None:
    add, add_n = (OPS.named(name).evaluate for name in ("aten::add.Tensor", "gs::add_n"))
    terms = [np.ones(3, np.int32), np.ones((2, 3), np.float16), np.ones((), np.float64), np.ones(3, np.float32)]
    assert_same_bits([add_n(terms)], [add(add(add(terms[0], terms[1]), terms[2]), terms[3])])


def test_a_single_term_is_copied_and_none_is_an_error() -> None:
    add_n = OPS.named("gs::add_n").evaluate
    (x,) = arrays(0, np.float64, 1)
    found = add_n([x])
    assert_same_bits([found], [x])
    assert not np.shares_memory(found, x)
    with pytest.raises(RuntimeError, match="non-empty list"):
        add_n([])
