"""torch's tracers, collectives and random state around a call: what they see of it, and what it leaves of theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from gradscript.compiler.ops.composite import is_composite
from gradscript.compiler.ops.registry import OPS, Trait
from gradscript.compiler.parse_ir import parse_ir
from gradscript.compiler.types.dtypes import FLOAT64
from gradscript.runtime.kernels.by_torch.ops import is_of_torch
from gradscript.runtime.torch.symbolic import OpsRun
from samples.arrays import LAYOUTS
from samples.composites import CASES
from torch._subclasses import FakeTensorMode
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.export import Dim
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.checkpoint import checkpoint

# Twice the derivative by x: what comes out tells whose backward ran.
UNIT = gs.CompilationUnit(
    """
def mul(x, y):
    return x * y

def pair(x, y):
    s = torch.sigmoid(x)

    def backward(grad):
        return 2 * grad * y * s * (1 - s), (grad * s).sum_to_size(y.size())

    return s * y, backward

def net(x, w, rounds: int):
    y = x
    for i in range(rounds):
        y = torch.tanh(y @ w)
    if y.dim() == 2:
        y = y.sum(1)
    return pair(y, y) / x.size(0)

def lists(xs: List[Tensor], bias: Optional[Tensor] = None):
    y = torch.cat(xs)
    if bias is not None:
        y = y + bias
    return y, [y.float(), y.sum(0)]

def norm(x, w, b):
    return F.layer_norm(x, [x.size(1)], w, b)

def noisy(x):
    return F.dropout(x * 1.0, 0.5, True)

def by_data(x):
    if bool((x > 0).all()):
        return x * 2
    return x * 3
"""
)
X, Y = torch.linspace(-1, 2, 12, dtype=torch.float64).reshape(4, 3), torch.linspace(2, 1, 12).double().reshape(4, 3)
W = torch.linspace(-0.5, 0.5, 9, dtype=torch.float64).reshape(3, 3)
FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "mul": lambda x, y: UNIT.mul(x, y),
    "pair": lambda x, y: UNIT.pair(x, y),
    "broadcast": lambda x, y: UNIT.pair(x, y[:1]),
    "net": lambda x, y: UNIT.net(x, x.new_full((3, 3), 0.3), 2) + y.sum(),
    "lists": lambda x, y: UNIT.lists([x, y], bias=y[:1])[0],
    "norm": lambda x, y: UNIT.norm(x, y[0], y[1]),
}


def both(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The value and both gradients."""

    def run(x: Any, y: Any) -> Any:
        x, y = x.detach().requires_grad_(), y.detach().requires_grad_()
        out = function(x, y)
        return out.detach(), *torch.autograd.grad((out * out).sum(), (x, y))

    return run


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_make_fx_records_ops_of_both_passes(name: str, mode: str) -> None:
    run = both(FUNCTIONS[name])
    traced = make_fx(run, tracing_mode=mode)(X, Y)
    batch = torch.cat([X, Y]) if mode == "symbolic" else X.flip(0)
    torch.testing.assert_close(traced(batch, batch + 1), run(batch, batch + 1))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_tensors_without_data_have_the_shapes_of_those_with(name: str) -> None:
    run = both(FUNCTIONS[name])
    expected = [(tensor.shape, tensor.dtype) for tensor in run(X, Y)]
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        found = run(mode.from_tensor(X), mode.from_tensor(Y))
        assert [(tensor.shape, tensor.dtype) for tensor in found] == expected
    found = run(X.to("meta"), Y.to("meta"))
    assert [(tensor.shape, tensor.dtype) for tensor in found] == expected and all(t.is_meta for t in found)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.filterwarnings("ignore")
def test_torch_compile_has_both_passes_in_its_graph(name: str) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(FUNCTIONS[name], backend="aot_eager", fullgraph=True)
    for batch in (X, torch.cat([X, Y])):
        torch.testing.assert_close(both(compiled)(batch, batch + 1), both(FUNCTIONS[name])(batch, batch + 1))


@pytest.mark.filterwarnings("ignore")
def test_the_authors_backward_is_that_of_func_grad_of_and_in_what_is_compiled() -> None:
    def gradient(x: Any, y: Any) -> Any:
        return torch.func.grad(lambda x: UNIT.pair(x, y).sum())(x)

    torch._dynamo.reset()
    expected = gradient(X, Y)
    torch.testing.assert_close(expected, 2 * Y * X.sigmoid() * (1 - X.sigmoid()))
    torch.testing.assert_close(torch.compile(gradient, backend="aot_eager", fullgraph=True)(X, Y), expected)
    compiled = torch.compile(lambda x: UNIT.pair(x, Y).sum(), backend="aot_eager")
    torch.testing.assert_close(torch.func.grad(compiled)(X), expected)


NUMBERS = gs.CompilationUnit(
    """
def scaled(x, a: float):
    return x * a + math.sqrt(a)

def chosen(x, a: float):
    if a > 0.5:
        return x * a
    return x / a

def filled(x, a: float):
    return torch.where(x > a, x, torch.full_like(x, a))

def absent(x, a: Optional[float] = None):
    return x if a is None else x ** a

def listed(x, a: List[float]):
    return (x * a[0]).clamp(-a[1], a[1])

def either(x, a: number):
    return F.leaky_relu(x, 0.1) * max(a, 1)

def own(x, a: float):
    def backward(grad):
        return 3 * a * grad, None
    return a * x, backward
"""
)


@pytest.mark.parametrize("name", ["scaled", "chosen", "filled", "absent", "listed", "either", "own"])
@pytest.mark.filterwarnings("ignore")
def test_floats_that_differ_from_call_to_call_are_left_open(name: str) -> None:
    """torch.compile has a symbol for a number from the second value on."""
    torch._dynamo.reset()
    function = getattr(NUMBERS, name)

    def run(x: Any, a: float) -> Any:
        return function(x, [a, a] if name == "listed" else a)

    for dynamic in (None, True):
        compiled = torch.compile(lambda x, a: run(x, a), backend="aot_eager", fullgraph=True, dynamic=dynamic)
        for number in (0.25, 0.75, 2.0, 0.3):
            x = X.abs().detach().requires_grad_()
            pairs = [(out, *torch.autograd.grad((out * Y).sum(), x)) for out in (compiled(x, number), run(x, number))]
            torch.testing.assert_close(*pairs)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.filterwarnings("ignore")
def test_export_with_a_batch_of_any_size(strict: bool) -> None:
    class Module(torch.nn.Module):
        def forward(self, x: Any, w: Any) -> Any:
            return UNIT.net(x, w, 2)

    exported = torch.export.export(Module(), (X, W), dynamic_shapes=({0: Dim("batch")}, None), strict=strict)
    batch = torch.cat([X, Y, X])
    torch.testing.assert_close(exported.module()(batch, W), UNIT.net(batch, W, 2))


@pytest.mark.parametrize(
    ("name", "reason"), [("noisy", "drawn once and for all"), ("by_data", "what is in a tensor decides")]
)
@pytest.mark.filterwarnings("ignore")
def test_what_cannot_be_traced_is_told_and_left_to_python(name: str, reason: str) -> None:
    function = UNIT[name]
    for mode in ("real", "fake"):
        with pytest.raises((gs.RuntimeFailure, RuntimeError), match=reason if mode == "fake" else ""):
            make_fx(function, tracing_mode=mode)(X)
    torch._dynamo.reset()
    with pytest.raises(RuntimeError, match=reason):
        torch.compile(lambda x: function(x), backend="eager", fullgraph=True)(X)
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: function(x + 1) * 2, backend="eager")
    with gs.random.local_seed(1):
        found = compiled(X)
    with gs.random.local_seed(1):
        torch.testing.assert_close(found, function(X + 1) * 2)


@pytest.mark.parametrize("trace", [lambda f: torch.jit.trace(f, (X, Y)), lambda f: torch.fx.symbolic_trace(f)])
@pytest.mark.filterwarnings("ignore")
def test_a_call_is_no_constant_of_other_traces(trace: Callable[[Any], Any]) -> None:
    with pytest.raises(gs.RuntimeFailure) as caught:
        trace(lambda x, y: UNIT.mul(x, y))
    assert caught.value.notes


def test_what_works_on_values_is_no_constant_either() -> None:
    for run in (lambda x, y: gs.vjp(UNIT.mul, x, y)[0], lambda x, y: UNIT.pair.forward(x, y)[0]):
        for mode in ("real", "symbolic"):
            with pytest.raises(gs.RuntimeFailure):
                make_fx(run, tracing_mode=mode)(X, Y)


OWN = {"gs::uniform", "gs::random_bits", "gs::masked_dropout", "gs::cofactor"}


def test_most_ops_are_of_torch() -> None:
    """What runs by its definition on arrays can neither be traced nor stay on a device."""
    missing = {op.schema.full_name for op in OPS.all() if not is_of_torch(op) and not is_composite(op)}
    assert missing >= OWN and len(missing) < 40, sorted(missing)


OF_DATA = ("gs::seeded_", "gs::gaussian_nll_loss", "gs::functional_embedding_bag", "gs::functional_ctc_loss")
"""Prefixes of what draws, or looks whether a variance is negative, as torch's own does, or how long lists are."""
DEFINED = [op.schema.full_name for op in OPS.all() if is_composite(op) and not is_of_torch(op)]


@pytest.mark.parametrize(
    "name", [n for n in DEFINED if not n.startswith(OF_DATA) and not OPS.named(n).has(Trait.RANDOM)]
)
def test_what_the_library_defines_is_traced_where_nothing_is_recorded(name: str) -> None:
    op = OPS.named(name)
    taken = ", ".join(f"%{i} : {argument.type}" for i, argument in enumerate(op.schema.arguments))
    given = ", ".join(f"%{i}" for i in range(len(op.schema.arguments)))
    made = ", ".join(f"%r{i} : {result.type}" for i, result in enumerate(op.schema.returns))
    results = ", ".join(f"%r{i}" for i in range(len(op.schema.returns)))
    graph = parse_ir(f"graph f({taken}):\n  {made} = {name}({given})\n  return ({results})\n")
    for call in CASES[name.partition("::")[2]]:
        arguments = call.arguments(op, FLOAT64, 7, LAYOUTS["contiguous"])
        wanted = op.evaluate(*arguments)
        values = tree_map(lambda v: torch.from_numpy(v) if isinstance(v, np.ndarray) else v, list(arguments))
        found = make_fx(lambda *tensors: OpsRun(graph)(tensors), tracing_mode="fake")(*values)(*values)
        for mine, theirs in zip(tree_leaves(found), tree_leaves(wanted), strict=True):
            np.testing.assert_allclose(mine.numpy(), theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("strict", [False, True])
def test_what_is_exported_without_gradients_has_them_later(strict: bool) -> None:
    """Sample arguments that require no gradient close none: the program has torch's ops, in no mode of their own."""

    class Module(torch.nn.Module):
        def forward(self, x: Any, w: Any) -> Any:
            return UNIT.norm(x, w[0], w[1])

    program = torch.export.export(Module(), (X.detach(), W.detach()), strict=strict)
    assert "set_grad_enabled" not in str(program.graph)
    x, w = X.detach().requires_grad_(), W.detach().requires_grad_()
    found = torch.autograd.grad(program.module()(x, w).sum(), (x, w))
    torch.testing.assert_close(found, torch.autograd.grad(UNIT.norm(x, w[0], w[1]).sum(), (x, w)))


def test_a_lookup_is_exported_where_nothing_is_recorded() -> None:
    unit = gs.CompilationUnit("def f(ids, w):\n    return torch.tanh(F.embedding(ids, w))\n")
    ids, w = torch.tensor([0, 2, 1]), torch.linspace(-1, 1, 12).reshape(4, 3)
    for function in (unit.f, gs.torch_op(unit.f, "tracers_lookup::f")):

        class Net(torch.nn.Module):
            def forward(self, ids: torch.Tensor, w: torch.Tensor) -> Any:
                return function(ids, w)  # noqa: B023 - exported at once

        exported = torch.export.export(Net(), (ids, w), dynamic_shapes=({0: Dim("n", min=2)}, None))
        other = torch.tensor([3, 3, 0, 1, 2])
        torch.testing.assert_close(exported.module()(other, w), torch.tanh(w[other]))


# --- what a call leaves of torch's ---


def test_a_storage_can_be_resized_after_a_call() -> None:
    for dtype in (torch.float64, torch.bfloat16, torch.bool):
        x, y = torch.ones(3, dtype=dtype), torch.ones(3, dtype=dtype)
        UNIT.mul(x, y)
        gs.vjp(UNIT.mul, y, x)
        x.resize_(100)
        y.untyped_storage().resize_(0)
        assert x.shape == (100,) and y.untyped_storage().size() == 0


def test_what_a_collective_returns_is_waited_for() -> None:
    x = torch.arange(3.0, requires_grad=True)
    pending = AsyncCollectiveTensor(x * 2)
    pending.completed = True
    torch.testing.assert_close(UNIT.mul(pending, x.detach()), 2 * x.detach() ** 2)
    torch.testing.assert_close(gs.vjp(UNIT.mul, pending, x)[0], 2 * x.detach() ** 2)

    pending = AsyncCollectiveTensor(torch.ones(3))
    pending.completed = True
    pending.requires_grad_()
    (found,) = torch.autograd.grad(UNIT.mul(pending, x.detach()).sum(), pending)
    torch.testing.assert_close(found, x.detach())


def test_torch_seeds_what_is_drawn_on_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradscript.runtime.settings.random._seeded", False)
    x = torch.ones(64, requires_grad=True)
    torch.manual_seed(3)
    first, second = UNIT.noisy(x), UNIT.noisy(x)
    assert not torch.equal(first, second)
    torch.manual_seed(3)
    assert torch.equal(UNIT.noisy(x), first)
    kept = checkpoint(UNIT.noisy, x, use_reentrant=False)
    (gradient,) = torch.autograd.grad(kept.sum(), x)
    assert torch.equal(gradient, kept.detach())


def test_a_seed_of_ours_comes_before_that_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradscript.runtime.settings.random._seeded", False)
    x = torch.ones(64)
    found = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        with gs.random.local_seed(5):
            found.append(UNIT.noisy(x))
    assert torch.equal(*found)
    found = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        gs.random.manual_seed(5)
        found.append(UNIT.noisy(x))
    assert torch.equal(*found)


@pytest.mark.parametrize(
    "equation",
    [
        "ik,kj->ij",
        "bid,bjd->bij",
        "...ik,kj",
        "i,j->",
        "ii->i",
        "iij,j->i",
        "bij,ji",
        "abc->ca",
        "ij,jk,kl->il",
        "i...,i->...",
    ],
)
def test_gradients_of_einsum_are_traced_and_batched(equation: str) -> None:
    terms = equation.partition("->")[0].split(",")
    names = ["x", "y", "z"][: len(terms)]
    unit = gs.CompilationUnit(
        f"def f({', '.join(names)}):\n    return torch.einsum('{equation}', {', '.join(names)}).sin()"
    )
    sizes = {"i": 3, "j": 4, "k": 2, "l": 3, "b": 2, "d": 3, "a": 2, "c": 3}
    shapes = [
        [size for c in term.replace("...", ".") for size in ([2, 3] if c == "." else [sizes[c]])] for term in terms
    ]
    given = [torch.randn(shape, dtype=torch.float64) for shape in shapes]

    def eager(*values: Any) -> Any:
        return torch.einsum(equation, *values).sin()

    def gradients(function: Any, *values: Any) -> Any:
        inputs = [value.detach().requires_grad_() for value in values]
        return torch.autograd.grad(function(*inputs).sum(), inputs)

    def batched(function: Any) -> Any:
        inputs = [value.clone().requires_grad_() for value in given]
        out = function(*inputs)
        return torch.autograd.grad(out, inputs, torch.stack([torch.ones_like(out), out]), is_grads_batched=True)

    traced = make_fx(lambda *values: gradients(unit.f, *values), tracing_mode="symbolic")(*given)
    for found in (traced(*given), gradients(unit.f, *given)):
        torch.testing.assert_close(tuple(found), gradients(eager, *given))
    torch.testing.assert_close(batched(unit.f), batched(eager))
    compiled = torch.compile(unit.f, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(gradients(compiled, *given), gradients(eager, *given))
    assert torch.autograd.gradgradcheck(unit.f, [value.clone().requires_grad_() for value in given])
    torch._dynamo.reset()
