"""Around the bridge to torch: torch.compile, checkpoints, modules, devices, what is refused, the rest of the face."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from gradscript.compiler.ir.graph import Graph
from gradscript.runtime.plans.build import build_plan
from gradscript.runtime.plans.interpreter import run_plan
from torch._dynamo import compiled_autograd
from torch._dynamo.utils import counters
from torch.utils.checkpoint import checkpoint
from torch_programs import CASES, UNIT, draw
from torch_versions import AREAS

# --- torch around a call ---


def test_a_module_with_parameters() -> None:
    torch.manual_seed(0)
    layer = torch.nn.Linear(3, 4, dtype=torch.float64)
    x = draw(2, 3)
    out = UNIT.mlp(x, layer.weight.t(), layer.bias)
    out[:, 0].sum().backward()
    expected = torch.softmax(torch.tanh(layer(x.detach())), 1)
    torch.testing.assert_close(out, expected)
    assert type(out) is torch.Tensor
    assert layer.weight.grad.shape == (4, 3)
    direct = UNIT.own(layer.bias, layer.bias)
    (gradient,) = torch.autograd.grad(direct.sum(), layer.bias)
    torch.testing.assert_close(gradient, 2 * layer.bias.detach())


def test_a_subclass_without_behaviour_of_its_own() -> None:
    class Tagged(torch.Tensor):
        pass

    x = draw(3, grad=False).as_subclass(Tagged).requires_grad_()
    out = UNIT.own(x, x)
    assert type(out) is torch.Tensor
    out.sum().backward()
    torch.testing.assert_close(x.grad.as_subclass(torch.Tensor), 2 * x.detach().as_subclass(torch.Tensor))


DEFAULTS = {
    "made": "def f(x):\n    return x + torch.full([3], 0.1)\n",
    "a number": "def f(x):\n    return x * torch.tensor(0.1)\n",
    "a mask in a helper": "def part(x):\n    return (x > 0) * 0.1\n\ndef f(x):\n    return x * part(x)\n",
    "a branch": "def f(x):\n    if x.sum() > 0:\n        x = x + torch.arange(3) / 3\n    return x\n",
    "of sizes that rounds change": (
        "def f(x):\n    y = x > 0\n    for _ in range(3):\n        y = torch.cat([y, y])\n"
        "        x = x + (y * 0.1).sum()\n    return x\n"
    ),
    "of a size that elements decide": "def f(x):\n    return x * ((x > 0)[x > 0.5] * 0.1).sum()\n",
    "a backward": (
        "def part(x):\n    def backward(g):\n        return g * torch.full([3], 0.1)\n    return x * 0.1, backward\n\n"
        "def f(x):\n    return part(x) + x\n"
    ),
}
"""Functions of what has the default dtype."""
EXPLICIT = {
    "like another": "def f(x):\n    return x + torch.full([3], 0.1, dtype=x.dtype) + x.new_zeros([3])\n",
    "of sizes that rounds change": (
        "def f(x):\n    for _ in range(3):\n        x = torch.cat([x, x]) * 0.1\n    return x\n"
    ),
    "named": "def f(x):\n    return x.float() * (x > 0).float()\n",
    "of the library": "def f(x):\n    return F.layer_norm(x, [3]) + x.std() * F.mse_loss(x, x * 0.5) + 1\n",
}


@pytest.fixture
def _float64_by_default() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("name", DEFAULTS)
@pytest.mark.usefixtures("_float64_by_default")
def test_another_default_dtype_of_torch_is_told_of(name: str) -> None:
    f = gs.CompilationUnit(DEFAULTS[name]).f
    for _ in range(3):
        with pytest.raises(gs.RuntimeFailure, match="torch's default dtype is float64"):
            f(torch.ones(3, requires_grad=True))
    torch.set_default_dtype(torch.float32)
    assert f(torch.ones(3)).dtype is torch.float32


@pytest.mark.parametrize("recording", [torch.enable_grad, torch.no_grad])
@pytest.mark.parametrize("name", DEFAULTS)
def test_it_is_told_of_what_ran_before_under_another(name: str, recording: Any) -> None:
    f, x = gs.CompilationUnit(DEFAULTS[name]).f, torch.ones(3, requires_grad=True)
    with recording():
        for _ in range(4):
            f(x)
        torch.set_default_dtype(torch.bfloat16)
        # What runs no backward has none that would be another.
        is_told = name != "a backward" or torch.is_grad_enabled()
        wanted = pytest.raises(gs.RuntimeFailure, match="torch's default dtype is bfloat16")
        try:
            with wanted if is_told else contextlib.nullcontext():
                f(x)
        finally:
            torch.set_default_dtype(torch.float32)
        assert f(x).dtype is torch.float32


@pytest.mark.parametrize("name", EXPLICIT)
@pytest.mark.usefixtures("_float64_by_default")
def test_what_makes_nothing_of_the_default_dtype_runs(name: str) -> None:
    scope: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
    exec(EXPLICIT[name], scope)
    x = torch.tensor([0.5, -1.25, 2.0])
    for _ in range(3):
        torch.testing.assert_close(gs.CompilationUnit(EXPLICIT[name]).f(x), scope["f"](x))


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_checkpoint(use_reentrant: bool) -> None:
    x, w = draw(2, 3), draw(2, 3, seed=1)
    plain = torch.autograd.grad(UNIT.loops(x, w, 3).sum(), [x, w])
    checkpoint(lambda a, b: UNIT.loops(a, b, 3), x, w, use_reentrant=use_reentrant).sum().backward()
    torch.testing.assert_close((x.grad, w.grad), plain)


@pytest.mark.parametrize("backend", ["c", "numpy"])
def test_the_first_call_in_a_checkpoint_saves_what_the_next_ones_do(backend: str) -> None:
    """Where data decides a branch, kernels in C are told by the first call how the next ones run."""
    unit = gs.CompilationUnit("""
def f(x, y):
    if x.sum() > 0:
        x = x * y
    return x.sin()
""")
    x, y = draw(4).detach().abs().requires_grad_(), draw(4, seed=1)
    with gs.settings.backend(backend):
        for _ in range(3):
            found = torch.autograd.grad(checkpoint(unit.f, x, y, use_reentrant=False).sum(), [x, y])
            torch.testing.assert_close(found, torch.autograd.grad((x * y).sin().sum(), [x, y]))


def test_save_on_cpu() -> None:
    x, w = draw(2, 3), draw(2, 3, seed=1)
    with torch.autograd.graph.save_on_cpu():
        out = UNIT.loops(x, w, 3)
    found = torch.autograd.grad(out.sum(), [x, w])
    torch.testing.assert_close(found, torch.autograd.grad(UNIT.loops(x, w, 3).sum(), [x, w]))


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")
def test_torch_compile_has_a_call_in_its_graph() -> None:
    graphs: list[list[str]] = []

    def backend(module: Any, _: Any) -> Any:
        graphs.append([node.name for node in module.graph.nodes if node.op == "call_function"])
        return module.forward

    def around(x: Any, w: Any) -> Any:
        return UNIT.own(x * 2, w) + 1

    torch._dynamo.reset()
    compiled = torch.compile(around, backend=backend)
    x, w = draw(3), draw(3, seed=1)
    for _ in range(2):
        torch.testing.assert_close(compiled(x, w), around(x, w))
    assert graphs == [["mul", "own", "add"]]
    found = torch.autograd.grad(compiled(x, w).sum(), [x, w])
    torch.testing.assert_close(found, torch.autograd.grad(around(x, w).sum(), [x, w]))


# --- arguments ---


def test_arrays_and_numbers_among_tensors() -> None:
    x = draw(3)
    out = UNIT.arithmetic(x, np.ones(3))
    torch.testing.assert_close(out, UNIT.arithmetic(x, torch.ones(3, dtype=torch.float64)))
    out = UNIT.own(x, 3.0)
    out.sum().backward()
    assert x.grad.tolist() == [3, 3, 3]


def test_keyword_arguments() -> None:
    x, b = draw(3), draw(3, seed=1)
    out = UNIT.optional(x, w=x, b=b)
    torch.testing.assert_close(out, x * x + torch.exp(b))
    assert out.requires_grad
    with pytest.raises(gs.RuntimeFailure, match="argument 'w' missing"):
        UNIT.optional(x)


@pytest.mark.parametrize(
    ("make", "message", "advice"),
    [
        (lambda: torch.eye(2).to_sparse(), "layout torch.sparse_coo is not supported", "to_dense"),
        (lambda: torch.ones(2, dtype=torch.complex64), "dtype complex64 is not supported", r"x\.to"),
        (lambda: torch.ones(2).to(torch.float8_e5m2), "dtype float8_e5m2 is not supported", r"x\.to"),
        (lambda: torch.nested.nested_tensor([torch.ones(2)]), "a nested tensor is not supported", "unbind"),
    ],
    ids=["sparse", "complex", "float8", "nested"],
)
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_tensors_that_are_refused(make: Any, message: str, advice: str) -> None:
    with pytest.raises(gs.RuntimeFailure, match=message) as caught:
        UNIT.own(make(), draw(2))
    assert caught.value.code == "R003"
    assert caught.value.argument == "x"
    assert any(note for note in caught.value.notes if advice.replace("\\", "") in note)


def test_a_tensor_where_a_number_is_needed() -> None:
    with pytest.raises(gs.RuntimeFailure, match=r"an int is needed, not a torch tensor of int64\[\]") as caught:
        UNIT.loops(draw(2), draw(2), torch.tensor(3))
    assert "x.item()" in str(caught.value)


def test_what_carries_no_gradient_is_not_asked_for_one() -> None:
    x, fixed = draw(3), draw(3, grad=False)
    out = UNIT.opaque([(fixed, fixed)], x)
    (gradient,) = torch.autograd.grad(out.sum(), x)
    torch.testing.assert_close(gradient, fixed * fixed)
    message = r"argument 'ps': no gradient flows through a List\[Tuple\[Tensor, Tensor\]\]"
    with pytest.raises(gs.RuntimeFailure, match=message):
        UNIT.opaque([(x, x)], x)
    with torch.no_grad():
        torch.testing.assert_close(UNIT.opaque([(x, x)], x), x**3)


def test_among_variables_a_tensor_is_a_constant() -> None:
    x, variable = draw(3), gs.tape.Variable(np.ones(3))
    out = UNIT.own(variable, x)
    assert isinstance(out, gs.tape.Variable)
    out.sum().backward()
    assert variable.grad.tolist() == x.tolist()
    assert x.grad is None


# --- other devices ---


class _OnMeta:
    """Computes with ones in the place of what has no data, and keeps shapes and dtypes."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def __call__(self, values: Sequence[Any]) -> list[Any]:
        return [_shown(result) for result in run_plan(build_plan(self._graph), [_real(value) for value in values])]

    def fixed(self, values: Sequence[Any]) -> None:
        return None


def _real(value: Any) -> Any:
    if isinstance(value, list):
        return [_real(item) for item in value]
    if not isinstance(value, torch.Tensor):
        return value
    return torch.ones(value.shape, dtype=value.dtype).numpy() if value.is_meta else value.numpy()


def _shown(value: Any) -> Any:
    if isinstance(value, list):
        return [_shown(item) for item in value]
    return torch.from_numpy(np.array(value)).to("meta") if isinstance(value, np.ndarray) else value


def _meta(*shape: int) -> Any:
    return torch.ones(shape, dtype=torch.float64, device="meta").requires_grad_()


@pytest.mark.parametrize("name", ["mlp", "loops", "lists", "own backward", "several outputs", "tuples and lists"])
def test_a_device_with_a_runner(name: str) -> None:
    """What the runner is given and gives: graphs and tensors of the device, forward and backward, to second order."""
    from gradscript.runtime.torch.devices import register_runner

    remove = register_runner("meta", _OnMeta)
    try:
        case = CASES[name]
        inputs = [_meta(*shape) for shape in case.shapes]
        outputs = [t for t in _flat(case.ours(*inputs, *case.extra)) if t.requires_grad]
        expected = [t for t in _flat(case.eager(*inputs, *case.extra)) if t.requires_grad]
        assert [(t.shape, t.dtype, t.device) for t in outputs] == [(t.shape, t.dtype, t.device) for t in expected]
        found = torch.autograd.grad(sum((t * t).sum() for t in outputs), inputs, create_graph=True)
        assert [(t.shape, t.device) for t in found] == [(t.shape, t.device) for t in inputs]
        seconds = torch.autograd.grad(sum((t * t).sum() for t in found), inputs)
        assert all(t.is_meta for t in seconds)
        with torch.no_grad():
            assert all(t.is_meta for t in _flat(case.ours(*inputs, *case.extra)))
    finally:
        remove()


def _flat(result: Any) -> list[Any]:
    return [leaf for item in result for leaf in _flat(item)] if isinstance(result, list | tuple) else [result]


def test_views_that_a_runner_gives() -> None:
    """What it hands back of its arguments is a tensor of its own, once it is recorded."""
    from gradscript.runtime.torch.devices import register_runner

    class Views(_OnMeta):
        def __call__(self, values: Sequence[Any]) -> list[Any]:
            return [values[0], values[0].view(-1)][: len(self._graph.outputs)]

    remove = register_runner("meta", Views)
    try:
        x = _meta(3)
        out = UNIT.same(x)
        out.add_(1)
        assert x._version == 0
        (gradient,) = torch.autograd.grad(out.sum(), x)
        assert gradient.is_meta
    finally:
        remove()


def test_numbers_beside_tensors_of_a_device() -> None:
    from gradscript.runtime.torch.devices import register_runner

    remove = register_runner("meta", _OnMeta)
    try:
        assert UNIT.own(_meta(3), 2.0).is_meta
        assert UNIT.own(_meta(3), torch.tensor(2.0)).is_meta
        with pytest.raises(gs.RuntimeFailure, match="several devices: 'x' on meta and 'w' on cpu") as caught:
            UNIT.own(_meta(3), draw(3))
        assert caught.value.code == "R003"
    finally:
        remove()
    assert UNIT.own(_meta(3), 2.0).is_meta, "without a runner, torch's own ops tell shapes"


# --- the rest of the public face ---


def test_the_lifted_halves_by_hand() -> None:
    x, w = draw(3), draw(3, seed=1)
    out, context = UNIT.own.forward(x, w)
    assert all(isinstance(value, torch.Tensor) and not value.requires_grad for value in (out, *context))
    grads = UNIT.own.backward(context, torch.ones(3, dtype=torch.float64))
    torch.testing.assert_close(grads, (w.detach(), x.detach()))


def test_vjp() -> None:
    x, w = draw(2, 3), draw(2, 3, seed=1)
    out, pullback = gs.vjp(UNIT.loops, x, w, 2)
    seed = draw(2, 3, grad=False, seed=2)
    found = pullback(seed)
    expected = torch.autograd.grad(UNIT.loops(x, w, 2), [x, w], seed)
    torch.testing.assert_close(found[:2], expected)
    assert found[2] is None
    assert not out.requires_grad


def test_derived_functions_join_autograd_too() -> None:
    unit = gs.CompilationUnit("def f(x):\n    return (x * x * x).sum()\n")
    x = draw(3)
    gradient = gs.grad(unit.f)(x)
    torch.testing.assert_close(gradient, 3 * x * x)
    (second,) = torch.autograd.grad(gradient.sum(), x)
    torch.testing.assert_close(second, 6 * x.detach())
    value, again = gs.value_and_grad(unit.f)(x)
    torch.testing.assert_close(value, (x**3).sum())
    (second,) = torch.autograd.grad(again.sum() + value, x)
    torch.testing.assert_close(second, 6 * x.detach() + 3 * x.detach() ** 2)


def test_check_and_variables_take_tensors() -> None:
    assert gs.check(UNIT.own, draw(3), draw(3, seed=1)).ok
    assert not gs.check(UNIT.tripled, draw(3)).ok
    variable = gs.tape.Variable(draw(3, grad=False))
    UNIT.own(variable, variable).sum().backward()
    np.testing.assert_allclose(variable.grad.data, 2 * variable.data)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_half_and_bfloat16_without_gradients(dtype: Any) -> None:
    x = draw(2, 3, grad=False, dtype=dtype)
    out, context = UNIT.own.forward(x, x)
    assert out.dtype == context[0].dtype == UNIT.own(x, x).dtype == dtype
    torch.testing.assert_close(UNIT.own(x, x), x * x)
    (gradient, _) = gs.vjp(UNIT.own, x, x)[1](torch.ones(2, 3, dtype=dtype))
    assert torch.equal(gradient, x)


def test_each_file_of_tests_is_in_a_row_of_the_table_of_versions() -> None:
    named = [f"test_torch_{name}.py" for names in AREAS.values() for name in names]
    assert sorted(named) == sorted(path.name for path in Path(__file__).parent.rglob("test_torch_*.py"))


def test_importing_loads_neither_torch_nor_numpy() -> None:
    code = """
import sys, gradscript as gs
assert not {"torch", "numpy"} & set(sys.modules)
import numpy as np
f = gs.CompilationUnit("def f(x): return x * 2").f
f(np.ones(2)); gs.vjp(f, np.ones(2))
assert "torch" not in sys.modules
import torch
f(np.ones(2))
assert "gradscript.runtime.torch" not in sys.modules
f(torch.ones(2))
assert "gradscript.runtime.torch" in sys.modules
assert "torch._dynamo" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.parametrize("form", ["function", "op"])
@pytest.mark.filterwarnings("ignore")
def test_compiled_autograd_leaves_nodes_to_python(form: str) -> None:
    """Its graph ends before a node and another begins after it; no frame of what the node runs is compiled."""
    unit = gs.CompilationUnit(
        "def scaled(x, w):\n"
        "    s = torch.sigmoid(x)\n"
        "    def backward(grad):\n"
        "        return 2 * grad * w * s, (grad * s).sum(0)\n"
        "    return x * s * w, backward\n"
    )
    function = gs.torch_op(unit.scaled, "compiled_autograd::scaled") if form == "op" else unit.scaled
    torch._dynamo.reset()
    counters.clear()
    for rows in (3, 5, 6):
        pairs = []
        for context in (contextlib.nullcontext(), compiled_autograd._enable(torch.compile(backend="eager"))):
            x, w = (torch.linspace(-1, 2, n * 4).reshape(n, 4).requires_grad_() for n in (rows, 1))
            loss = (function(x, w[0]) ** 2).sum()
            with context:
                loss.backward()
            pairs.append((x.grad, w.grad))
        torch.testing.assert_close(*pairs)
    assert counters["stats"]["unique_graphs"] <= 4
