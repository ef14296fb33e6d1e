"""Kernels on a GPU: the suite beside float64, streams, CUDA graphs, devices, threads. Skipped without one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import gradscript as gs
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests" / "kernels" / "models")]
import data_programs  # noqa: E402
import whole_models  # noqa: E402
from peers.kernel_peers import TORCH  # noqa: E402
from program_running import CASES, TOLERANCES  # noqa: E402

DEVICE = "cuda"
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")

SUITE = gs.CompilationUnit((ROOT / "benchmarks" / "suite.grad").read_text(encoding="utf-8"), "suite.grad")
RANDOM = ("dropout_add_layer_norm",)
NO_BACKWARD = ("adamw",)
DIFFERENTIABLE = ("bias_gelu", "swiglu", "rms_norm", "layer_norm", "softmax", "rope", "lstm_cell", "chain")


def draw(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


def is_floating(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def placed(values: list[Any], dtype: Any, device: str = DEVICE) -> list[Any]:
    """On the device, with the strides that they have; floats of the dtype, with gradients."""
    return [_placed(value, dtype, device) for value in values]


def _placed(value: Any, dtype: Any, device: str) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    if not value.is_floating_point():
        return value.to(device)
    if 0 in value.stride() or not value.numel():
        return value[:1].to(device, dtype).expand(value.shape).requires_grad_()
    moved = torch.empty_strided(value.shape, value.stride(), dtype=dtype, device=device)
    return moved.copy_(value).requires_grad_()


def reference(name: str) -> Callable[..., Any]:
    """Torch's own; what is random in float64 by our plans for arrays, which draw the same numbers."""
    return SUITE[name] if name in RANDOM else TORCH[name]


def outputs_of(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


def close(found: Any, wanted: Any, tolerance: float, least: float = 1e-3) -> None:
    """`least` is the size from which on what is wanted is told from nothing."""
    assert found.shape == wanted.shape
    scale = max(float(wanted.abs().max()) if wanted.numel() else 1.0, least)
    torch.testing.assert_close(found.detach().cpu().double(), wanted.double(), rtol=tolerance, atol=tolerance * scale)


def both_passes(function: Callable[..., Any], values: list[Any], seeds: list[Any]) -> tuple[list[Any], list[Any]]:
    """Outputs, and the gradient of each floating argument."""
    gs.random.manual_seed(7)
    outputs = outputs_of(function(*values))
    inputs = [value for value in values if is_floating(value)]
    own = [seed.to(output) for seed, output in zip(seeds, outputs, strict=True)]
    return outputs, list(torch.autograd.grad(outputs, inputs, own, allow_unused=True))


# --- results and gradients ---


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("case", CASES)
def test_the_suite_is_that_of_float64(case: str, dtype: str) -> None:
    name, make = CASES[case]
    tolerance, kind = TOLERANCES[dtype], getattr(torch, dtype)
    narrow = placed(make(), kind)
    wide = [v.detach().cpu().double().requires_grad_() if is_floating(v) else _on_cpu(v) for v in narrow]
    if name in NO_BACKWARD:
        with torch.no_grad():
            for found, wanted in zip(SUITE[name](*narrow), TORCH[name](*wide), strict=True):
                close(found, wanted, tolerance)
        return
    gs.random.manual_seed(7)
    wanted = outputs_of(reference(name)(*wide))
    seeds = [draw(*output.shape).to(kind).double() if output.dim() else draw(1)[0] for output in wanted]
    wanted, expected = both_passes(reference(name), wide, seeds)
    outputs, gradients = both_passes(SUITE[name], narrow, seeds)
    for output, want in zip(outputs, wanted, strict=True):
        assert output.device.type == DEVICE and output.dtype == kind
        close(output, want.detach(), tolerance)
    inputs = [value for value in narrow if is_floating(value)]
    for value, gradient, want in zip(inputs, gradients, expected, strict=True):
        if name == "rope" and want is not None and gradient is None:
            continue  # the angles are detached in ours
        assert gradient.dtype == kind and gradient.shape == value.shape
        # A row of one element has no variance: what a fused product and sum leave of nothing is divided by sqrt(1e-5).
        close(gradient, want, 4 * tolerance, least=0.3 if "norm 1×1" in case else 1e-3)


def _on_cpu(value: Any) -> Any:
    return value.cpu() if isinstance(value, torch.Tensor) else value


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_to_second_order(name: str) -> None:
    _, make = CASES[f"{name} 7×13"]
    values = [value[:3] if i == 0 and name not in ("rope", "lstm_cell") else value for i, value in enumerate(make())]
    if name in ("swiglu", "chain"):
        values = [value[:3] for value in values]
    inputs = placed(values, torch.float64)
    if name == "rope":
        inputs[1:] = [value.detach() for value in inputs[1:]]
    assert torch.autograd.gradcheck(SUITE[name], inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(SUITE[name], inputs, fast_mode=True)


def test_products_go_to_the_library_and_branches_are_taken() -> None:
    unit = gs.CompilationUnit(
        "def layer(x, w, b):\n    return F.gelu(torch.tanh(x) @ w + b).sum(0)\n\n\n"
        "def clipped(x, w):\n    if (x * w).sum() > 0:\n        x = x * 2\n    return x * w\n"
    )
    values = [draw(33, 20), draw(20, 17), draw(17)]
    x, w, b = placed(values, torch.float64)
    wide = [value.clone().requires_grad_() for value in values]
    wanted = torch.nn.functional.gelu(torch.tanh(wide[0]) @ wide[1] + wide[2]).sum(0)
    found = unit.layer(x, w, b)
    close(found, wanted.detach(), 1e-10)
    for gradient, want in zip(
        torch.autograd.grad(found.sum(), (x, w, b)), torch.autograd.grad(wanted.sum(), wide), strict=True
    ):
        close(gradient, want, 1e-10)
    for sign in (1.0, -1.0):
        a, c = placed([draw(5).abs(), sign * draw(5).abs()], torch.float64)
        close(unit.clipped(a, c), ((a * 2 if sign > 0 else a) * c).detach().cpu(), 1e-12)


def test_results_are_the_same_to_the_bit() -> None:
    values = placed([draw(3000, 200), draw(200), draw(200)], torch.float32)
    seeds = [draw(3000, 200)]
    first, again = (both_passes(SUITE.layer_norm, values, seeds) for _ in range(2))
    for one, other in zip([*first[0], *first[1]], [*again[0], *again[1]], strict=True):
        assert torch.equal(one, other)


def test_one_function_serves_batches_of_any_size() -> None:
    weight, bias = placed([draw(100), draw(100)], torch.float32)
    for rows in (1, 2, 7, 64, 1000, 4097):
        (x,) = placed([draw(rows, 100)], torch.float32)
        want = torch.nn.functional.layer_norm(x.double(), [100], weight.double(), bias.double())
        close(SUITE.layer_norm(x, weight, bias), want.detach().cpu(), 3e-5)


def test_pointers_need_no_alignment() -> None:
    """After a call on aligned ones, for which other code was made."""
    for offset in (0, 1, 2, 4):
        x, g = (torch.randn(64 * 32 + offset, device=DEVICE)[offset:].view(64, 32) for _ in range(2))
        close(SUITE.swiglu(x, g), (torch.nn.functional.silu(x.double()) * g.double()).cpu(), 1e-5)


def test_what_works_on_values() -> None:
    """Pullbacks, the gradients' own functions, traces and checks take tensors that are there."""
    x, g, seed = (value.detach() for value in placed([draw(5, 7), draw(5, 7), draw(5, 7)], torch.float64))
    wide = [value.cpu().requires_grad_() for value in (x, g)]
    wanted = torch.nn.functional.silu(wide[0]) * wide[1]
    expected = torch.autograd.grad(wanted, wide, seed.cpu())
    value, pull_back = gs.vjp(SUITE.swiglu, x, g)
    close(value, wanted.detach(), 1e-12)
    for gradient, want in zip(pull_back(seed), expected, strict=True):
        close(gradient, want, 1e-12)
    unit = gs.CompilationUnit(
        "def scaled(x, g):\n    def backward(grad):\n        return grad * g, grad * x\n"
        "    return x * g, backward\n\n\n"
        "def loss(x, g):\n    return scaled(x, g).sum()\n"
    )
    out, context = unit.scaled.forward(x, g)
    close(out, (x * g).cpu(), 1e-12)
    for gradient, want in zip(unit.scaled.backward(context, seed), (seed * g, seed * x), strict=True):
        close(gradient, want.cpu(), 1e-12)
    loss, gradient = gs.value_and_grad(unit.loss)(x, g)
    close(loss, (x * g).sum().cpu(), 1e-12)
    close(gradient, g.cpu(), 1e-12)
    traced = gs.trace(lambda a, b: (a * b).tanh().sum(1), x, g)
    close(traced(x, g), (x * g).tanh().sum(1).cpu(), 1e-12)
    assert gs.check(unit.scaled, x, g)


def test_calls_of_one_kind_are_prepared_once() -> None:
    """Elements, floats, and what requires a gradient are those of each call."""
    unit = gs.CompilationUnit("def f(x, w, factor: float):\n    return torch.tanh(x * w) * factor\n")
    for seed in range(3):
        for factor in (0.5, 2.0):
            x, w = placed([draw(3, 40) + seed, draw(40)], torch.float64)
            found = unit.f(x, w if seed else w.detach(), factor)
            want = torch.tanh(x * w) * factor
            close(found, want.detach().cpu(), 1e-12)
            inputs = (x, w) if seed else (x,)
            for gradient, expected in zip(
                torch.autograd.grad(found.sum(), inputs), torch.autograd.grad(want.sum(), inputs), strict=True
            ):
                close(gradient, expected.cpu(), 1e-12)


# --- how they are launched ---


def test_work_is_on_the_current_stream() -> None:
    """What a stream computes before is there: it is slow, and nothing waits for it."""
    a = torch.randn(4096, 4096, device=DEVICE) / 64
    bias = torch.randn(4096, device=DEVICE)
    SUITE.bias_gelu(a, bias)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x = a
        for _ in range(8):
            x = x @ a
        found = SUITE.bias_gelu(x, bias)
    stream.synchronize()
    close(found, torch.nn.functional.gelu(x.double() + bias.double()).cpu(), 1e-5)


def test_a_call_waits_for_nothing() -> None:
    x, g = (torch.randn(64, 64, device=DEVICE) for _ in range(2))
    SUITE.swiglu(x, g)
    slow = torch.randn(8192, 8192, device=DEVICE)
    torch.cuda.synchronize()
    done = torch.cuda.Event()
    for _ in range(10):
        slow = slow @ slow
    done.record()
    SUITE.swiglu(x, g)
    assert not done.query()
    torch.cuda.synchronize()


def test_calls_are_captured_in_cuda_graphs() -> None:
    x, weight, bias = placed([draw(256, 128), draw(128), draw(128)], torch.float32)
    seed = torch.randn(256, 128, device=DEVICE)

    def step() -> tuple[Any, ...]:
        result = SUITE.layer_norm(x, weight, bias)
        return result.detach(), *torch.autograd.grad(result, (x, weight, bias), seed)

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    with torch.no_grad():
        x.copy_(torch.randn(256, 128, device=DEVICE))
    graph.replay()
    torch.cuda.synchronize()
    for found, want in zip(captured, step(), strict=True):
        assert torch.equal(found, want)


def test_a_first_call_may_be_captured() -> None:
    """Kernels are loaded and constants copied beside the graph; the tensors of the graph are new in each replay."""
    unit = gs.CompilationUnit(
        "def f(x, w):\n    return F.softmax(x, -1) @ torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]) * w\n"
    )
    constant = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], device=DEVICE)
    x, graph = torch.randn(40, 3, device=DEVICE), torch.cuda.CUDAGraph()
    torch.softmax(x, -1) @ constant
    with torch.no_grad(), torch.cuda.graph(graph):
        found = unit.f(x, torch.tensor(3.0))
    x.copy_(torch.randn(40, 3, device=DEVICE))
    graph.replay()
    torch.cuda.synchronize()
    close(found, (torch.softmax(x.double(), -1) @ constant.double() * 3).cpu(), 1e-5)


def test_numbers_of_the_cpu_come_along_without_a_wait() -> None:
    x = torch.randn(33, 20, device=DEVICE, requires_grad=True)
    unit = gs.CompilationUnit("def f(x, w):\n    return torch.tanh(x * w)\n")
    w = torch.tensor(0.75, requires_grad=True)
    unit.f(x, w)
    torch.cuda.set_sync_debug_mode("error")
    try:
        found = unit.f(x, w)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    close(found, torch.tanh(x.double() * 0.75).detach().cpu(), 1e-6)
    gradient = torch.autograd.grad(found.sum(), w)[0]
    assert gradient.device.type == "cpu"
    close(gradient, (x.double() * (1 - torch.tanh(x.double() * 0.75) ** 2)).sum().detach().cpu(), 1e-5)


def test_autocast_changes_nothing() -> None:
    """Neither in a kernel nor in a product, whether or not it ran before."""
    unit = gs.CompilationUnit("def f(x, w):\n    return F.gelu(torch.tanh(x) @ w) * w.sum()\n")
    x, w = placed([draw(33, 20), draw(20, 17)], torch.float32)
    want = [unit.f(x, w), *torch.autograd.grad(unit.f(x, w).sum(), (x, w))]
    with torch.autocast(DEVICE, torch.bfloat16):
        found = [unit.f(x, w), *torch.autograd.grad(unit.f(x, w).sum(), (x, w))]
    assert all(map(torch.equal, found, want))


def test_threads_share_functions() -> None:
    values = [placed([draw(rows, 64), draw(rows, 64)], torch.float32) for rows in range(20, 36)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda pair: SUITE.geglu(*pair), values))
    for result, (x, g) in zip(found, values, strict=True):
        want = torch.nn.functional.gelu(x.double(), approximate="tanh") * g.double()
        close(result, want.detach().cpu(), 3e-5)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there is one device")
def test_each_device_runs_its_own_tensors() -> None:
    for index in (1, 0, 1):
        x, g = placed([draw(40, 64), draw(40, 64)], torch.float32, f"{DEVICE}:{index}")
        found = SUITE.swiglu(x, g)
        assert found.device.index == index and torch.cuda.current_device() == 0
        found.sum().backward()
        assert x.grad.device.index == index
        close(found, (torch.nn.functional.silu(x.double()) * g.double()).detach().cpu(), 1e-5)


def test_tuned_kernels_compute_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADSCRIPT_CACHE", str(tmp_path))
    unit = gs.CompilationUnit("def f(x, w):\n    return F.softmax(x * w, -1)\n")
    x, w = placed([draw(500, 300), draw(300)], torch.float32)
    with gs.settings.autotuning(True):
        found = unit.f(x, w)
    close(found, torch.softmax((x * w).double(), -1).detach().cpu(), 3e-5)


# --- gs.graphed ---

STEPS = gs.CompilationUnit("""
def loss(w, b, x, target, rounds: int):
    for i in range(rounds):
        x = F.layer_norm(F.gelu(x @ w + b), [x.size(-1)]) * (i + 1) + x
    return (x - target).pow(2).mean()


def until(x, w):
    while float((x * x).sum()) > 1e-3:
        x = torch.tanh(x @ w) * 0.5
    return x.sum()


def chosen(x):
    return x[x > 0].sum()


def dropped(x):
    return F.dropout(x, 0.5, True).sum()
""")


def eager_loss(w: Any, b: Any, x: Any, target: Any, rounds: int) -> Any:
    for i in range(rounds):
        x = torch.nn.functional.layer_norm(torch.nn.functional.gelu(x @ w + b), [x.size(-1)]) * (i + 1) + x
    return (x - target).pow(2).mean()


def of_a_step(seed: int) -> list[Any]:
    return [value + 0.1 * seed for value in (draw(32, 32) / 6, draw(32), draw(16, 32), draw(16, 32))]


def test_a_whole_step_is_one_graph() -> None:
    step = gs.graphed(gs.value_and_grad(STEPS.loss, (0, 1)), *[v.to(DEVICE) for v in of_a_step(0)], 4)
    for seed in range(3):
        value, gradients = step(*[v.to(DEVICE) for v in of_a_step(seed)], 4)
        wide = [v.requires_grad_() for v in of_a_step(seed)]
        want = eager_loss(*wide, 4)
        close(value, want.detach(), 1e-11)
        for found, expected in zip(gradients, torch.autograd.grad(want, wide[:2]), strict=True):
            close(found, expected, 1e-11)
    assert step.count == 1


def test_both_passes_are_graphs_in_a_node() -> None:
    w, b, x, target = placed(of_a_step(0), torch.float64)
    w, b = torch.nn.Parameter(w.detach()), torch.nn.Parameter(b.detach())
    step = gs.graphed(STEPS.loss, w, b, x, target.detach(), 4)
    optimizer = torch.optim.SGD([w, b], 0.05)
    wide = [w.detach().cpu().requires_grad_(), b.detach().cpu().requires_grad_()]
    peer = torch.optim.SGD(wide, 0.05)
    for seed in range(4):
        *_, x, target = of_a_step(seed)
        own = x.to(DEVICE).requires_grad_()
        optimizer.zero_grad()
        peer.zero_grad()
        found, want = step(w, b, own, target.to(DEVICE), 4), eager_loss(*wide, x.requires_grad_(), target, 4)
        found.backward()
        want.backward()
        optimizer.step()
        peer.step()
        close(found, want.detach(), 1e-10)
        for have, expected in ((own.grad, x.grad), (w, wide[0].detach()), (b, wide[1].detach())):
            close(have, expected, 1e-10)
    assert step.count == 1
    held = step(w, b, own, target.to(DEVICE), 4)
    step(w, b, own, target.to(DEVICE), 4)
    with pytest.raises(gs.RuntimeFailure, match="the graph has run since"):
        held.backward()


def test_a_step_with_its_optimizer_is_one_graph() -> None:
    w, b = (value.to(DEVICE).requires_grad_() for value in of_a_step(0)[:2])
    wide = [w.detach().cpu().requires_grad_(), b.detach().cpu().requires_grad_()]
    optimizer, peer = (torch.optim.SGD(leaves, 0.01, momentum=0.9) for leaves in ([w, b], wide))

    def train(x: Any, target: Any) -> Any:
        optimizer.zero_grad()
        loss = STEPS.loss(w, b, x, target, 3)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def both(seed: int) -> None:
        *_, x, target = of_a_step(seed)
        peer.zero_grad()
        want = eager_loss(*wide, x, target, 3)
        want.backward()
        peer.step()
        close(step(x.to(DEVICE), target.to(DEVICE)), want.detach(), 1e-8)
        for have, expected in zip((w, b), wide, strict=True):
            close(have, expected.detach(), 1e-8)

    *_, x, target = of_a_step(0)
    for _ in range(3):
        peer.zero_grad()
        eager_loss(*wide, x, target, 3).backward()
        peer.step()
    step = gs.graphed(train, x.to(DEVICE), target.to(DEVICE))
    for seed in range(3):
        both(seed)


def test_what_a_graph_cannot_hold_is_refused_and_the_device_goes_on() -> None:
    x, w = draw(8, 8).to(DEVICE), draw(8, 8).to(DEVICE) / 10
    for function, given, why in (
        (STEPS.until, (x, w), "waits for what is in a tensor"),
        (STEPS.chosen, (x,), "waits for what is in a tensor"),
        (lambda x: x * float(x.sum()), (x,), "waits for what is in a tensor"),
        (STEPS.dropped, (x,), "draws random numbers on the host"),
        (lambda x: x.add_(1), (x,), "writes to value 1"),
        (lambda x: x.cpu(), (x,), "waits for what is in a tensor|where a replay computes nothing"),
    ):
        with pytest.raises(gs.RuntimeFailure, match=why):
            gs.graphed(function, *given)
    close(gs.graphed(SUITE.swiglu, x, w)(w, x), (torch.nn.functional.silu(w) * x).cpu(), 1e-12)


def test_kinds_beyond_and_calls_inside_of_a_capture() -> None:
    x, w = draw(8, 8).to(DEVICE), draw(8, 8).to(DEVICE)
    step = gs.graphed(SUITE.swiglu, x, w)
    outer = gs.graphed(lambda a: step(a, w) + 1, x)
    close(outer(w), (torch.nn.functional.silu(w) * w + 1).cpu(), 1e-12)
    for rows in range(1, 8):
        close(step(x[:rows], w[:rows]), (torch.nn.functional.silu(x[:rows]) * w[:rows]).cpu(), 1e-12)
    with pytest.warns(RuntimeWarning, match="more than 8 kinds"):
        step(x[0], w[0])
    assert step.count == 8


# --- programs that go by their data ---


@pytest.mark.parametrize("name", data_programs.PROGRAMS)
def test_programs_that_go_by_their_data(name: str) -> None:
    for seed in (0, 1):
        wanted = data_programs.to_second_order(data_programs.eager(name), data_programs.arguments(name, seed))
        given = data_programs.arguments(name, seed, DEVICE)
        data_programs.compare(data_programs.to_second_order(data_programs.UNIT[name], given), wanted, 1e-8)


@pytest.mark.parametrize("name", whole_models.MODELS)
def test_whole_models(name: str) -> None:
    given = whole_models.tensors(whole_models.arguments(name))
    own = [_moved(value) for value in given]
    found, want = whole_models.UNIT[name](*own), whole_models.eager(name)(*given)
    close(found, want.detach(), 1e-9)
    gradients = torch.autograd.grad(found, _requiring(own), allow_unused=True)
    for have, expected in zip(gradients, torch.autograd.grad(want, _requiring(given), allow_unused=True), strict=True):
        if expected is not None:
            close(have, expected, 1e-9)


def _moved(value: Any) -> Any:
    if isinstance(value, list):
        return [_moved(item) for item in value]
    return value.detach().to(DEVICE).requires_grad_(value.requires_grad) if isinstance(value, torch.Tensor) else value


def _requiring(values: list[Any]) -> list[Any]:
    return [tensor for tensor in whole_models.flat(values) if tensor.requires_grad]
