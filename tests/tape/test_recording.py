"""Compiled functions on Variables: their optimised plans run, and record a node for each group and each op outside."""

from __future__ import annotations

import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gradscript as gs
import numpy as np
import pytest
from gradscript.compiler.autodiff.subgraphs import KIND
from gradscript.runtime.execution import compilation
from gradscript.runtime.tape.captures import ListCapture, OtherCapture, TensorCapture
from gradscript.runtime.tape.node import TapeNode

torch = pytest.importorskip("torch")

UNIT = gs.CompilationUnit(
    """
def chain(x, w):
    y = torch.tanh(x * w)
    z = y * x + w
    return torch.exp(-z) * y

def around_a_branch(x, w, c: bool):
    y = torch.tanh(x * w) + x
    z = y * w - x
    if c:
        r = torch.exp(z) * y
        s = r * r + y * z
    else:
        s = z * z
    t = s * y + z
    return torch.sin(t) * t - s

def rounds(x, w, n: int):
    for i in range(n):
        y = torch.tanh(x * w) + x
        x = y * w - torch.sin(y) * x
    return x

def two(x, w):
    y = torch.tanh(x) * x
    z = torch.exp(w) * w + w
    return y * y - x, z

def few(x, w):
    return torch.tanh(x * w)

def straight(x):
    def backward(grad):
        return grad * 100
    return torch.round(x), backward

def calls(x, w):
    y = torch.tanh(x * w) * w
    return straight(y) * y + x

def calls_in_a_branch(x, n: int):
    for i in range(n):
        if i > 0:
            x = straight(x) * 2
    return x

def of_a_list(xs: List[Tensor]):
    return straight(xs[0]) * xs[1]

def same(x, w):
    return x, x * w, x

def kept(xs: List[Tensor], n: int):
    def backward(grad):
        return [grad * n for x in xs], None
    return xs[0] + xs[1], backward

def shapes(x, w):
    y = x.t() @ w.permute([1, 0])
    z = (y * y).transpose(0, 1).reshape(-1)
    return (z.view(2, -1).t() * 2).sum(0) + torch.tanh(z[0]) + x.expand([3, 2]).sum()

def index_too(x, w):
    y = torch.tanh(x * w) + x
    z = y * w - x
    return z.argmax(), z * y, (z > 0), z.detach() * y

def dropped(x, w):
    y = F.dropout(torch.tanh(x) * w, 0.5, True)
    return torch.exp(y) * w + y * x, y

def masked(x):
    keep = torch.rand(x.size()) > 0.5
    def backward(grad):
        return grad * keep * 2
    return x * keep * 2, backward

def calls_masked(x):
    return masked(x * 3) + 0.0

def needs(x, w):
    if x.requires_grad:
        return x * w
    return w
"""
)
X, W = np.array([0.5, -1.0, 2.0]), np.array([1.5, 0.3, -0.7])


def _variables(*arrays: Any) -> list[gs.tape.Variable]:
    return [gs.tape.Variable(array) for array in arrays]


def _kinds() -> list[str]:
    graph = gs.compiler_debug.last_executed_graph()
    assert graph is not None
    return [node.kind for node in graph.all_nodes()]


def _names(variable: gs.tape.Variable) -> list[str]:
    """The nodes that a Variable depends on, latest first, leaves aside."""
    found: set[TapeNode] = set()
    pending = [variable.grad_fn]
    while pending:
        node = pending.pop()
        if node is not None and node not in found:
            found.add(node)
            pending += [edge.node for edge in node.edges if edge is not None]
    ordered = sorted(found, key=lambda node: -node.sequence)
    return [node.name for node in ordered if node.name != "AccumulateGrad"]


# --- what runs, and what it leaves on the tape ---


@pytest.mark.usefixtures("op_by_op")
def test_a_group_is_one_node() -> None:
    x, w = _variables(X, W)
    y = UNIT.chain(x, w)
    assert _kinds().count(KIND) == 1
    assert _names(y) == ["chain"]
    assert [edge.node.name for edge in y.grad_fn.edges] == ["AccumulateGrad"] * 2
    plain = UNIT.chain(X, W)
    assert KIND not in _kinds()
    np.testing.assert_array_equal(y.data, plain)


def test_a_branch_is_in_the_group_around_it() -> None:
    x, w = _variables(X, W)
    for condition in (True, False):
        taken = UNIT.around_a_branch(x, w, condition)
        assert _kinds().count(KIND) == 1
        assert _names(taken) == ["around_a_branch"]


def test_a_branch_that_tells_gives_three_groups_of_which_those_taken_are_recorded() -> None:
    x, w = _variables(X, W)
    source = UNIT.around_a_branch.code.replace("    if c:\n", "    if c:\n        print(end='')\n")
    assert source != UNIT.around_a_branch.code
    with gs.settings.autodiff_debugging(True):
        taken = gs.CompilationUnit(source).around_a_branch(x, w, True)
        assert _kinds().count(KIND) == 4
        assert _names(taken) == ["around_a_branch"] * 3


def test_a_loop_is_one_node_and_hands_on_what_it_was_given() -> None:
    x, w = _variables(X, W)
    for n in range(4):
        y = UNIT.rounds(x, w, n)
        assert (y is x) if n == 0 else (_names(y) == ["rounds"])


def test_ops_in_no_group_are_nodes_of_their_own() -> None:
    x, w = _variables(X, W)
    y = UNIT.few(x, w)
    assert KIND not in _kinds()
    assert _names(y) == ["aten::tanh", "aten::mul.Tensor"]
    with gs.settings.autodiff_debugging(True):
        sliced = gs.CompilationUnit(UNIT.few.code).few
        assert _names(sliced(x, w)) == ["few"]


@pytest.mark.usefixtures("op_by_op")
def test_plans_are_found_again() -> None:
    function = gs.CompilationUnit(UNIT.chain.code).chain
    x, w = _variables(X, W)
    frozen = gs.tape.Variable(W, requires_grad=False)
    gs.compiler_debug.reset_counters()
    for _ in range(3):
        function(x, w)
        function(x, frozen)
        function(x, W)
        with gs.tape.no_grad():
            function(x, w)
            function(x.data, W)
    # Both gradients, that of x only, none: an array is a Variable without one. The forwards of the first two count too.
    assert gs.compiler_debug.counters()["plan_cache_misses"] == 3 + 2
    assert gs.compiler_debug.counters()["plan_cache_hits"] == 12 + 7
    assert len(function.debug_state().plans) == 3


@pytest.mark.usefixtures("op_by_op")
def test_without_gradients_the_plain_plan_runs() -> None:
    x, w = _variables(X, W)
    with gs.tape.no_grad():
        y = UNIT.chain(x, w)
    assert KIND not in _kinds()
    assert isinstance(y, gs.tape.Variable) and y.grad_fn is None
    assert UNIT.chain(x.detach(), w.detach()).grad_fn is None


@pytest.mark.usefixtures("op_by_op")
def test_numbers_are_no_part_of_a_plan_but_their_types_are() -> None:
    function = gs.CompilationUnit(
        "def f(x, k: float, n: Optional[int] = None):\n"
        "    y = x * k + x.tanh() * x\n    return (y * y - x).exp() * (1 if n is None else n)\n"
    ).f
    (x,) = _variables(X)
    calls: list[tuple[Any, ...]] = [(2.0,), (3.0, None), (2, 5), (0.5, 3), (1.5,), (2, None), (3, 4)]
    gs.compiler_debug.reset_counters()
    for arguments in calls:
        k, n = arguments[0], arguments[1] if len(arguments) > 1 else None
        y = X * k + np.tanh(X) * X
        result = function(x, *arguments)
        np.testing.assert_allclose(result.data, np.exp(y * y - X) * (1 if n is None else n), rtol=1e-12)
        assert result.requires_grad
    # With the optional and without, and the forward that is differentiated of each.
    assert gs.compiler_debug.counters()["plan_cache_misses"] == 2 + 2
    with pytest.raises(gs.RuntimeFailure) as failure:
        function(x, "2.0")
    assert failure.value.argument == "k"


def test_captures_have_kinds() -> None:
    unit = gs.CompilationUnit(
        "def f(xs: List[Tensor], k: float):\n    def backward(grad):\n"
        "        return [grad * x * k for x in xs], None\n    return xs[0] * xs[1] * k, backward\n"
    )
    node = unit.f(_variables(X, W), 2.0).grad_fn
    kinds = {type(capture) for capture in node.captures}
    assert kinds == {ListCapture, OtherCapture}
    (group,) = [UNIT.chain(*_variables(X, W)).grad_fn]
    tensors = [capture for capture in group.captures if isinstance(capture, TensorCapture)]
    assert [t.edge is None for t in tensors].count(False) == 2
    assert any(t.slot is not None for t in tensors)


# --- gradients ---


def _check(name: str, arrays: list[Any], *extra: Any, torchs: Any = None) -> None:
    """Gradients and second derivatives against torch's."""
    ours = _variables(*arrays)
    theirs = [torch.tensor(a, requires_grad=True) for a in arrays]
    value, expected = UNIT[name](*ours, *extra), torchs(*theirs, *extra)
    np.testing.assert_allclose(value.data, expected.detach().numpy(), rtol=1e-12)
    first = gs.tape.grad(value.sum(), ours, create_graph=True)
    known = torch.autograd.grad(expected.sum(), theirs, create_graph=True)
    for found, reference in zip(first, known, strict=True):
        np.testing.assert_allclose(found.data, reference.detach().numpy(), rtol=1e-10, atol=1e-12)
    total = sum([(g * g).sum() for g in first], start=gs.tape.Variable(np.zeros(())))
    second = gs.tape.grad(total, ours)
    reference = torch.autograd.grad(sum([(g * g).sum() for g in known]), theirs)
    for found, other in zip(second, reference, strict=True):
        np.testing.assert_allclose(found.data, other.numpy(), rtol=1e-9, atol=1e-12)


def _chain(x: Any, w: Any) -> Any:
    y = torch.tanh(x * w)
    return torch.exp(-(y * x + w)) * y


def _around(x: Any, w: Any, c: bool) -> Any:
    y = torch.tanh(x * w) + x
    z = y * w - x
    s = (torch.exp(z) * y) ** 2 + y * z if c else z * z
    t = s * y + z
    return torch.sin(t) * t - s


def _rounds(x: Any, w: Any, n: int) -> Any:
    for _ in range(n):
        y = torch.tanh(x * w) + x
        x = y * w - torch.sin(y) * x
    return x


def _shapes(x: Any, w: Any) -> Any:
    y = x.t() @ w.permute([1, 0])
    z = (y * y).transpose(0, 1).reshape(-1)
    return (z.view(2, -1).t() * 2).sum(0) + torch.tanh(z[0]) + x.expand([3, 2]).sum()


def test_second_derivatives_through_groups() -> None:
    _check("chain", [X, W], torchs=_chain)
    for condition in (True, False):
        _check("around_a_branch", [X, W], condition, torchs=_around)
    _check("rounds", [X, W], 3, torchs=_rounds)
    _check("shapes", [np.array([[0.3, -0.8], [1.2, 0.4], [0.7, 0.1]]), np.arange(6.0).reshape(2, 3)], torchs=_shapes)


def test_sums_over_what_was_broadcast_are_made_where_something_was() -> None:
    """One plan serves shapes that are equal, where nothing is to be summed, and shapes that are not."""
    shapes = [(3, 3), (3, 1), (1, 3), (1, 1), (3, 3)]
    rng = np.random.default_rng(4)
    for left in shapes:
        for right in shapes:
            arrays = [rng.normal(size=left), rng.normal(size=right)]
            _check("chain", arrays, torchs=_chain)
            _check("few", arrays, torchs=lambda x, w: torch.tanh(x * w))


def test_without_optimisation_the_gradients_are_the_same() -> None:
    results = []
    for optimize in (True, False):
        x, w = _variables(X, W)
        with gs.settings.optimize(optimize):
            y = UNIT.calls(x, w)
            assert (KIND in _kinds()) is optimize
        y.sum().backward()
        results.append((x.grad.data, w.grad.data))
    for found, expected in zip(*results, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_a_functions_own_backward_is_used_wherever_it_is_called() -> None:
    for function, arguments, scale in (
        (UNIT.straight, (), 100),
        (UNIT.calls_in_a_branch, (3,), 200**2),
    ):
        (x,) = _variables(X)
        function(x, *arguments).sum().backward()
        np.testing.assert_allclose(x.grad.data, np.full(3, scale))
    x, w = _variables(X, W)
    UNIT.calls(x, w).sum().backward()
    y = np.tanh(X * W) * W
    into = np.round(y) + 100 * y
    np.testing.assert_allclose(x.grad.data, 1 + into * W * W * (1 - np.tanh(X * W) ** 2), rtol=1e-12)
    # Only inside a list does a gradient start here: specs say nothing of lists.
    xs = _variables(X, W)
    UNIT.of_a_list(xs).sum().backward()
    np.testing.assert_allclose(xs[0].grad.data, 100 * W)


def test_calls_that_are_not_inlined_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation, "MAX_INLINED", 1)
    unit = gs.CompilationUnit("def g(x, w):\n    return torch.tanh(x) * w\n\ndef f(x, w):\n    return g(g(x, w), x)\n")
    x, w = _variables(X, W)
    y = unit.f(x, w)
    assert "prim::CallFunction" in _kinds()
    assert _names(y) == ["aten::mul.Tensor", "aten::tanh"] * 2
    y.sum().backward()
    tx = torch.tensor(X, requires_grad=True)
    (torch.tanh(torch.tanh(tx) * torch.tensor(W)) * tx).sum().backward()
    np.testing.assert_allclose(x.grad.data, tx.grad.numpy(), rtol=1e-12)


def test_an_argument_that_is_returned_is_the_same_variable() -> None:
    x, w = _variables(X, W)
    first, product, second = UNIT.same(x, w)
    assert first is x and second is x
    (first * product + second).sum().backward()
    np.testing.assert_allclose(x.grad.data, 2 * X * W + 1)


@pytest.mark.parametrize("takes_branch", [False, True])
def test_what_is_written_into_without_gradients_keeps_that_of_what_was_there(takes_branch: bool) -> None:
    """It has the array of what was written, which nobody goes back through."""
    function = gs.CompilationUnit("""
def f(x, y, c: bool):
    z = x * 0.5
    u = x
    for i in range(2):
        u = z
    with torch.no_grad():
        z.mul_(1.5)
    if c:
        with torch.no_grad():
            z.mul_(3.0)
    return u + y
""").f
    x, y = gs.tape.Variable(np.array([1.0, 2.0])), gs.tape.Variable(np.array([3.0, 4.0]))
    function(x, y, takes_branch).sum().backward()
    assert x.grad is not None and y.grad is not None
    np.testing.assert_array_equal(x.grad.data, [0.5, 0.5])
    np.testing.assert_array_equal(y.grad.data, [1.0, 1.0])


@pytest.mark.parametrize("second", [lambda x: x.data, lambda x: gs.tape.Variable(x.data)])
def test_arguments_that_share_an_array_are_told_apart(second: Any) -> None:
    function = gs.CompilationUnit("""
def f(x, k, c: bool):
    a = x * 2
    for i in range(3):
        if c:
            y = x
        else:
            y = k * 2
            a = a + y
        k = y
    return y, a
""").f
    x = gs.tape.Variable(np.array([1.0, 2.0]))
    y, _ = function(x, second(x), True)
    y.sum().backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.data, [1.0, 1.0])


def test_undefined_gradients_stay_undefined_in_a_group() -> None:
    with gs.settings.autodiff_debugging(True):
        function = gs.CompilationUnit(UNIT.two.code).two
        x, w = _variables(X, W)
        first, second = function(x, w)
    gs.tape.grad(second.sum(), w, retain_graph=True)
    second.sum().backward()
    assert x.grad is None
    np.testing.assert_allclose(w.grad.data, np.exp(W) * (W + 1) + 1)
    assert first.grad_fn is not None


@pytest.mark.parametrize("create_graph", [False, True])
def test_an_undefined_list_is_zeros_only_for_who_needs_it(create_graph: bool) -> None:
    unit = gs.CompilationUnit(
        "def f(xs: List[Tensor], w):\n"
        "    def backward(gs: List[Tensor], g):\n"
        "        return [gs[i] * w + g for i in range(len(gs))], g\n"
        "    return [x * w for x in xs], xs[0] + xs[1] + w, backward\n"
        "def split(x, w):\n    return torch.unbind(x), x.sum() * w\n"
    )
    xs, (w,) = _variables(X, W), _variables(X)
    products, total = unit.f(xs, w)
    seen: list[Any] = []
    total.grad_fn.register_prehook(seen.append)
    found = gs.tape.grad((total * total).sum(), [*xs, w], create_graph=create_graph)
    (gradients,) = seen
    assert [gradient is None for gradient in gradients] == [True, True, False]
    for gradient in found:
        np.testing.assert_allclose(gradient.data, 2 * total.data)
    assert len(products) == 2


def test_results_without_gradient_have_no_past() -> None:
    x, w = _variables(X, W)
    index, product, positive, scaled = UNIT.index_too(x, w)
    assert [v.requires_grad for v in (index, product, positive, scaled)] == [False, True, False, True]
    assert index.dtype == np.int64 and positive.dtype == np.bool_
    tx, tw = (torch.tensor(a, requires_grad=True) for a in (X, W))
    y = torch.tanh(tx * tw) + tx
    z = y * tw - tx
    (z * y + z.detach() * y).sum().backward()
    (product + scaled).sum().backward()
    np.testing.assert_allclose(x.grad.data, tx.grad.numpy(), rtol=1e-12)
    np.testing.assert_allclose(w.grad.data, tw.grad.numpy(), rtol=1e-12)


def test_arguments_know_whether_they_require_a_gradient() -> None:
    x, w = _variables(X, W)
    assert UNIT.needs(x, w).grad_fn is not None
    assert UNIT.needs(x.detach(), w) is w


def test_an_op_without_derivative_is_refused_where_a_gradient_reaches_it() -> None:
    unit = gs.CompilationUnit("def f(x, y):\n    return torch.special.zeta(x, 2.0) * 0 + y\n")
    x, y = _variables(X + 4, W)
    result = unit.f(x, y)
    np.testing.assert_allclose(gs.tape.grad(result.sum(), y, retain_graph=True)[0].data, np.ones(3))
    with pytest.raises(gs.CompileError, match="has no gradient"):
        result.sum().backward()


@pytest.mark.parametrize("debugging", [False, True])
def test_what_is_drawn_at_random_is_the_same_in_the_backward(debugging: bool) -> None:
    x, w = _variables(np.linspace(-2, 2, 64), np.linspace(1, 2, 64))
    with gs.settings.autodiff_debugging(debugging):
        unit = gs.CompilationUnit(UNIT.code)
        _, y = unit.dropped(x, w)
        z = unit.calls_masked(x)
    (gradient,) = gs.tape.grad(y.sum(), x)
    kept = y.data != 0
    assert 0 < kept.sum() < 64
    np.testing.assert_allclose(gradient.data, np.where(kept, 2 * w.data * (1 - np.tanh(x.data) ** 2), 0), rtol=1e-12)
    (gradient,) = gs.tape.grad(z.sum(), x, create_graph=True)
    np.testing.assert_array_equal(gradient.data, 6 * (z.data != 0))


def test_failures_are_told_as_without_gradients() -> None:
    with pytest.raises(gs.RuntimeFailure) as plain:
        UNIT.chain(np.ones(2), np.ones(3))
    with pytest.raises(gs.RuntimeFailure) as recorded:
        UNIT.chain(*_variables(np.ones(2), np.ones(3)))
    assert str(recorded.value) == str(plain.value)


def test_threads_that_meet_at_the_first_call() -> None:
    function = gs.CompilationUnit(UNIT.rounds.code).rounds
    expected = gs.grad(gs.CompilationUnit(UNIT.rounds.code + "\ndef s(x, w):\n    return rounds(x, w, 2).sum()\n").s)(
        X, W
    )

    def work(_: int) -> Any:
        x = gs.tape.Variable(X)
        function(x, W, 2).sum().backward()
        return x.grad.data

    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(work, range(16)):
            np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_passes_of_users_change_what_is_recorded() -> None:
    function = gs.CompilationUnit(UNIT.chain.code).chain
    x, w = _variables(X, W)
    function(x, w)
    seen: list[str] = []
    remove = gs.compiler_debug.register_pass("finish", lambda graph: bool(seen.append(graph.name)))
    try:
        function(x, w)
    finally:
        remove()
    assert seen == ["chain", "chain_differentiable"]


@pytest.mark.usefixtures("op_by_op")
def test_captures_are_freed_inside_a_group() -> None:
    """Gradients of many weights come while what the forward captured goes: they are never all there together."""
    layers, size = 16, 1 << 14
    names = ", ".join(f"w{i}" for i in range(layers))
    lines = "".join(f"    x = torch.tanh(x * w{i})\n" for i in range(layers))
    function = gs.CompilationUnit(f"def f(x, {names}):\n{lines}    return x\n").f
    weights = [gs.tape.Variable(np.full(size, 1.1)) for _ in range(layers)]
    x, seed = np.full(size, 0.3), np.ones(size)
    function(x, *weights).backward(seed)
    for weight in weights:
        weight.grad = None
    gradients = layers * seed.nbytes
    tracemalloc.start()
    try:
        y = function(x, *weights)
        assert _names(y) == ["f"]
        captured, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        y.backward(seed)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert captured > gradients
    assert peak < captured + gradients / 2
