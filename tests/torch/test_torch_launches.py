"""Ops as torch's compiler sees them on a GPU: launches of kernels, recorded by `wrap_triton` and run by their meaning.

The device is the CPU, of which the registration says here that its kernels are Triton's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import count
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from functorch.compile import make_boxed_func
from gradscript.compiler.kernel_ir.kernel import Kernel
from gradscript.runtime.kernels.triton.wrapped import WrappedKernel
from gradscript.runtime.torch.library import launches
from kernel_reference import run_kernel, run_written
from torch._functorch.aot_autograd import aot_function
from torch._higher_order_ops.triton_kernel_wrap import (
    kernel_side_table,
    triton_kernel_wrapper_functional,
)

driver = pytest.importorskip("triton.runtime").driver
SOURCE = """
def rms_norm(x, w, eps: float = 1e-6):
    r = torch.rsqrt((x * x).mean(-1, True) + eps)
    def backward(g):
        gn = g * w
        gw = (g * x * r).sum_to_size(w.size())
        return r * (gn - x * r * r * (gn * x).mean(-1, True)), gw, None
    return x * r * w, backward

def layer(x, w):
    y = torch.tanh(x @ w)
    return y + torch.tensor([1.0, -2.0, 0.5]) * y

def sorted_rows(x, w):
    return x.sort(-1)[0] * w

def returns_argument(x, w):
    return x, (x * w).t()

def summed(xs: List[Tensor], w: Optional[Tensor] = None):
    total = xs[0]
    for x in xs:
        total = total + x * x
    if w is not None:
        total = total * w
    return total

def repeated(x, w, times: int):
    for _ in range(times):
        x = torch.sin(x) * w
    return x

def decides(x, w):
    if x.sum() > 0:
        return x * w
    return x - w

def draws(x, w):
    return torch.dropout(x, 0.5, True) * w
"""
UNIT = gs.CompilationUnit(SOURCE)
_NUMBERS = count()


class Target:
    """What Triton asks a driver for to compile; nothing is launched by it."""

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0


@cache
def ops() -> Any:
    return gs.torch_op(UNIT, f"launches{next(_NUMBERS)}")


class Recorded(torch.fx.Interpreter):
    """Runs a graph; kernels in it by what they mean."""

    def __init__(self, graph: Any, kernels: dict[str, Kernel], ran: list[str]) -> None:
        super().__init__(graph)
        self._kernels = kernels
        self._ran = ran

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target is not triton_kernel_wrapper_functional:
            return super().call_function(target, args, kwargs)
        function = kernel_side_table.get_kernel(kwargs["kernel_idx"]).fn
        kernel = self._kernels[function.src]
        outputs = {buffer.name for buffer in kernel.outputs}
        given = kwargs["kwargs"] | kernel_side_table.get_constant_args(kwargs["constant_args_idx"])
        parameters = dict(zip([buffer.name for buffer in kernel.buffers], function.arg_names, strict=False))
        assert {parameters[name] for name in outputs} == {*kwargs["tensors_to_clone"]}
        tensors = {name: given[parameters[name]].detach().clone() for name in parameters}
        arrays = {buffer.name: tensors[buffer.name].numpy() for buffer in kernel.inputs}
        results = run_kernel(kernel, arrays, {})
        for name in outputs:
            np.copyto(tensors[name].numpy(), results[name], where=run_written(kernel, name, arrays, {}))
        self._ran.append(function.__name__)
        return {parameters[name]: tensors[name] for name in outputs}


@pytest.fixture(autouse=True)
def kernels(monkeypatch: pytest.MonkeyPatch) -> dict[str, Kernel]:
    found: dict[str, Kernel] = {}
    launch = WrappedKernel.launch

    def noted(self: WrappedKernel, *args: Any) -> None:
        found[self._built.function.src] = self.kernel
        launch(self, *args)

    monkeypatch.setattr(WrappedKernel, "launch", noted)
    monkeypatch.setattr(launches, "SEEN_ON", {"cpu"})
    monkeypatch.setattr(driver, "_active", Target())
    return found


def compiled(function: Callable[..., Any], kernels: dict[str, Kernel], graphs: list[Any], ran: list[str]) -> Any:
    def compiler(graph: Any, examples: Any) -> Any:
        graphs.append(graph)

        def run(*args: Any) -> Any:
            with torch.no_grad():
                return Recorded(graph, kernels, ran).run(*args)

        return make_boxed_func(run)

    return aot_function(function, fw_compiler=compiler, bw_compiler=compiler)


def square_sum(result: Any) -> Any:
    return sum((t * t).sum() for t in (result if isinstance(result, tuple | list) else [result]))


def draw(*shape: int) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)), dtype=torch.float64)


CASES: dict[str, tuple[str, Callable[..., Any], list[Any], tuple[int, int]]] = {
    "a norm": ("rms_norm", lambda op, x, w: op(x, w), [draw(64, 256), draw(256)], (1, 2)),
    "another float": ("rms_norm", lambda op, x, w: op(x, w, 0.25), [draw(6, 5), draw(5)], (1, 1)),
    "a transposed argument": ("rms_norm", lambda op, x, w: op(x.t(), w), [draw(6, 5), draw(6)], (1, 1)),
    "constants": ("layer", lambda op, x, w: op(x, w), [draw(4, 8), draw(8, 3)], (1, 1)),
    "an op between": ("sorted_rows", lambda op, x, w: op(x, w), [draw(4, 6), draw(6)], (1, 1)),
    "an argument returned": ("returns_argument", lambda op, x, w: op(x, w), [draw(4, 4), draw(4)], (1, 1)),
    "a list": ("summed", lambda op, x, y: op([x, y]), [draw(4, 3), draw(4, 3)], (1, 1)),
    "an optional": ("summed", lambda op, x, y, w: op([x, y], w), [draw(4, 3), draw(4, 3), draw(3)], (1, 1)),
    "a loop": ("repeated", lambda op, x, w: op(x, w, 3), [draw(4, 3), draw(3)], (1, 1)),
    "no elements": ("rms_norm", lambda op, x, w: op(x, w), [draw(0, 5), draw(5)], (0, 1)),
}


@pytest.mark.parametrize("name", CASES)
def test_the_graph_holds_the_kernels(name: str, kernels: dict[str, Kernel]) -> None:
    op_name, call, arguments, counts = CASES[name]
    op, graphs, ran = ops()[op_name], [], []
    given, eager = ([a.clone().requires_grad_() for a in arguments] for _ in range(2))
    result = compiled(lambda *args: call(op, *args), kernels, graphs, ran)(*given)
    forward_kernels = len(ran)
    square_sum(result).backward()
    expected = call(UNIT[op_name], *eager)
    square_sum(expected).backward()
    pairs = zip([result, *(x.grad for x in given)], [expected, *(x.grad for x in eager)], strict=True)
    for have, want in pairs:
        torch.testing.assert_close(
            [*have] if isinstance(have, tuple | list) else [have],
            [*want] if isinstance(want, tuple | list) else [want],
            rtol=1e-10,
            atol=1e-10,
        )
    targets = [str(node.target) for graph in graphs for node in graph.graph.nodes if node.op == "call_function"]
    assert not any(op.name.partition("::")[0] in target for target in targets), targets
    assert forward_kernels >= counts[0] and len(ran) - forward_kernels >= counts[1], ran


@pytest.mark.parametrize("name", ["decides", "draws"])
def test_what_kernels_alone_cannot_say_stays_an_op(name: str, kernels: dict[str, Kernel]) -> None:
    graphs: list[Any] = []
    x, w = draw(4, 3).requires_grad_(), draw(3).requires_grad_()
    square_sum(compiled(ops()[name], kernels, graphs, [])(x, w)).backward()
    targets = [str(node.target) for graph in graphs for node in graph.graph.nodes if node.op == "call_function"]
    assert [target for target in targets if f"{name}_forward" in target or f"{name}_backward" in target], targets


def test_sizes_that_are_symbols_and_exports_keep_the_op(kernels: dict[str, Kernel]) -> None:
    from torch.export import Dim, export

    class Net(torch.nn.Module):
        def forward(self, x: Any, w: Any) -> Any:
            return ops()["rms_norm"](x, w)

    program = export(Net(), (draw(6, 5), draw(5)), dynamic_shapes={"x": {0: Dim("n")}, "w": None})
    assert ops()["rms_norm"].op in [node.target for node in program.graph.nodes]
    still = export(Net(), (draw(6, 5), draw(5)))
    assert ops()["rms_norm"].op in [node.target for node in still.graph.nodes]
    assert not kernels
    for exported in (program, still):
        decomposed = exported.run_decompositions()
        assert ops()["rms_norm"].op in [node.target for node in decomposed.graph.nodes]


def test_what_a_compiler_keeps_of_an_op_is_kept_for_its_text() -> None:
    """torch's caches on disk know an op by its name alone."""
    from torch._inductor import config
    from torch._subclasses.fake_tensor import FakeTensorMode

    texts = ["x * w", "w * x", "torch.sigmoid(x) * w"]
    found = []
    for text in texts:
        op = gs.torch_op(gs.CompilationUnit(f"def f(x, w):\n    return {text}\n").f, f"launches{next(_NUMBERS)}::f")
        name = f"torch.ops.{op.name.replace('::', '.')}"
        assert name not in config.unsafe_marked_cacheable_functions
        with FakeTensorMode():
            op(torch.ones(3, requires_grad=True), torch.ones(3))
        found.append(config.unsafe_marked_cacheable_functions[name])
    assert len(set(found)) == len(texts)
