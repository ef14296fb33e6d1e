"""donate_argnums: gradients lie in the memory of their arguments where kernels run, and nowhere that is still used."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from amounts import WHOLE
from gradscript.compiler.fusion.refusals import Unsettled
from gradscript.compiler.kernel_ir.interpret import run_kernel
from gradscript.compiler.kernel_ir.kernel import Kernel
from gradscript.runtime.kernels import program as device_program
from gradscript.runtime.kernels.donation import DonatingGraph
from gradscript.runtime.values import arena

F = torch.nn.functional
LOSSES = {
    "cross_entropy": "F.cross_entropy(x, labels)",
    "smoothed": "F.cross_entropy(x, labels, label_smoothing=0.1)",
    "with z-loss": "F.cross_entropy(x, labels) + 1e-4 * x.logsumexp(-1).square().mean()",
    "softcapped": "F.cross_entropy(torch.tanh(x / 30.0) * 30.0, labels)",
    "pointwise": "(x.sigmoid() * x).sum()",
    "of rows": "F.rms_norm(x, [x.size(-1)]).square().sum() + x.amax()",
}
SHAPES = ((2, 3), (7, 33), (64, 5000), *([(300, 20_000)] if WHOLE else []), (5, 100_003))


@pytest.fixture(autouse=True)
def in_c(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("GRADSCRIPT_CACHE", str(tmp_path_factory.getbasetemp() / "donated"))
    with gs.settings.backend("c"):
        yield


def _unit(text: str) -> Any:
    return gs.CompilationUnit(f"def f(x, labels):\n    return {text}\n").f


def _given(shape: tuple[int, int]) -> tuple[Any, Any]:
    generator = np.random.default_rng(shape[0])
    return generator.normal(size=shape), generator.integers(0, shape[1], shape[0])


def _wanted(text: str, x: Any, labels: Any) -> tuple[Any, Any]:
    tensor = torch.tensor(x, requires_grad=True)
    value = eval(text, {"x": tensor, "labels": torch.tensor(labels), "torch": torch, "F": F})
    value.backward()
    return value.item(), tensor.grad.numpy()


def _require_equal(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-11 * float(np.abs(wanted).max()))


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_lie_where_arguments_did(name: str) -> None:
    function = _unit(LOSSES[name])
    both = gs.value_and_grad(function, donate_argnums=0)
    assert both is gs.value_and_grad(function, donate_argnums=0)
    for shape in SHAPES:
        x, labels = _given(shape)
        value, gradient = _wanted(LOSSES[name], x, labels)
        for way in ("value_and_grad", "vjp"):
            given = x.copy()
            if way == "vjp":
                found, pullback = gs.vjp(function, given, labels, donate_argnums=0)
                found_gradient, _ = pullback(1.0)
            else:
                found, found_gradient = both(given, labels)
            assert np.shares_memory(found_gradient, given), (way, shape)
            _require_equal(found, value)
            _require_equal(found_gradient, gradient)
            _require_equal(given, gradient)
        left = x.copy()
        _require_equal(gs.grad(function)(left, labels), gradient)
        assert np.array_equal(left, x)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_other_dtypes(dtype: str) -> None:
    x, labels = _given((40, 700))
    x = x.astype(dtype)
    _, gradient = _wanted(LOSSES["cross_entropy"], x.astype(np.float64), labels)
    found = gs.grad(_unit(LOSSES["cross_entropy"]), donate_argnums=(0,))(x, labels)
    assert np.shares_memory(found, x) and x.dtype == dtype
    eps = float(np.finfo(dtype).eps)
    np.testing.assert_allclose(found, gradient, rtol=4 * eps, atol=eps * float(np.abs(gradient).max()))


def test_cross_entropy_needs_its_scores_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their bytes and nothing to speak of beside them, as Python's trace of allocations says; else twice them."""
    monkeypatch.setattr(arena, "LEAST", 1 << 62)
    function = _unit(LOSSES["cross_entropy"])
    x, labels = _given((256, 4096))
    most = {}
    for donated in ((), (0,)):
        both = gs.value_and_grad(function, donate_argnums=donated)
        for _ in range(2):
            # What the first calls import is no array.
            both(x.copy(), labels)
        given = x.copy()
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            result = both(given, labels)
            most[donated] = (tracemalloc.get_traced_memory()[1] - before) / given.nbytes
        finally:
            tracemalloc.stop()
        assert len(result) == 2
    assert most[0,] < 0.05
    assert 1 <= most[()] < 1.05


REFUSED = {
    "its own memory": ("x.square().sum()", lambda x: [x[:, ::2]], "one behind the other"),
    "memory that is written to": ("x.square().sum()", lambda x: [_read_only(x)], "may be written to"),
    "other rows": ("(x * x.flip([0])).sum()", lambda x: [x], "element by element"),
    "a product": ("(x @ x.t()).square().sum()", lambda x: [x], "an op of the library"),
    "nothing read": ("(x * 2).sum()", lambda x: [x], "does not follow from it|nothing reads it"),
}


def _read_only(x: Any) -> Any:
    x.flags.writeable = False
    return x


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_still_used_is_refused(name: str) -> None:
    text, given, why = REFUSED[name]
    function = gs.CompilationUnit(f"def f(x):\n    return {text}\n").f
    x = np.random.default_rng(0).normal(size=(6, 8))
    before = x.copy()
    with pytest.raises(gs.RuntimeFailure, match=f"(?s)R002.*'x' cannot be donated: .*({why})"):
        gs.grad(function, donate_argnums=0)(*given(x))
    assert np.array_equal(x, before)


def test_memory_that_others_use_is_refused() -> None:
    function = gs.CompilationUnit("def f(x, y):\n    return (x * y).exp().sum()\n").f
    x = np.ones((6, 8))
    with pytest.raises(gs.RuntimeFailure, match="another argument lies in its memory"):
        gs.grad(function, donate_argnums=0)(x, x)
    both = gs.grad(function, (0, 1), donate_argnums=(0, 1))
    with pytest.raises(gs.RuntimeFailure, match="another argument lies in its memory"):
        both(x, x[:])
    y = np.full((6, 8), 2.0)
    found = both(x, y)
    assert np.shares_memory(found[0], x) and np.shares_memory(found[1], y)
    assert np.allclose(x, 2 * np.exp(2)) and np.allclose(y, np.exp(2))


def test_a_result_in_its_memory_is_refused() -> None:
    function = gs.CompilationUnit("def f(x):\n    return x.exp(), x.t()\n").f
    with pytest.raises(gs.RuntimeFailure, match="'x' cannot be donated: a result lies in its memory"):
        gs.vjp(function, np.ones((2, 3)), donate_argnums=0)


def test_a_pullback_is_called_once() -> None:
    _, pullback = gs.vjp(_unit(LOSSES["cross_entropy"]), *_given((4, 5)), donate_argnums=0)
    pullback(1.0)
    with pytest.raises(gs.RuntimeFailure, match="since the pullback was called before"):
        pullback(1.0)


def test_a_class_that_is_none_is_told() -> None:
    """Where kernels have begun, ops cannot tell: what they would read may be written over."""
    x, labels = _given((64, 5000))
    labels[3] = 7000
    with pytest.raises(gs.RuntimeFailure, match=r"R101.*an index out of range.*what was donated may be lost"):
        gs.grad(_unit(LOSSES["cross_entropy"]), donate_argnums=0)(x, labels)


def test_control_flow_is_refused() -> None:
    function = gs.CompilationUnit("def f(x):\n    return (x if float(x.sum()) > 0 else x * 2).exp().sum()\n").f
    with pytest.raises(gs.RuntimeFailure, match="cannot be donated"):
        gs.grad(function, donate_argnums=0)(np.ones((2, 3)))


def test_op_by_op_nothing_is_donated() -> None:
    x, labels = _given((4, 5))
    before = x.copy()
    with gs.settings.backend("numpy"):
        found = gs.grad(_unit(LOSSES["cross_entropy"]), donate_argnums=0)(x, labels)
    assert np.array_equal(x, before)
    _require_equal(found, _wanted(LOSSES["cross_entropy"], x, labels)[1])


def test_what_is_asked_for_wrongly() -> None:
    function = _unit(LOSSES["cross_entropy"])
    with pytest.raises(ValueError, match="some of argnums"):
        gs.grad(gs.CompilationUnit("def f(x, y):\n    return (x * y).sum()\n").f, 0, donate_argnums=1)
    with pytest.raises(gs.RuntimeFailure, match="'labels' cannot be donated: it is no floating tensor"):
        gs.vjp(function, *_given((2, 3)), donate_argnums=1)
    with pytest.raises(ValueError, match="do not go together"):
        gs.grad(function, policy="min_cut", donate_argnums=0)


class MeantKernel:
    """A kernel of a device, launched by what kernel IR means."""

    def __init__(self, kernel: Kernel, device: torch.device, *, is_open: bool = False) -> None:
        self.kernel, self.device = kernel, device

    def closed(self, atoms: Any) -> MeantKernel:
        raise AssertionError("sizes are given")

    def launch(self, tensors: list[Any], numbers: list[Any], stream: Any) -> None:
        names = [buffer.name for buffer in self.kernel.buffers]
        arrays = dict(zip(names, (tensor.numpy() for tensor in tensors), strict=True))
        inputs = {buffer.name: arrays[buffer.name].copy() for buffer in self.kernel.inputs}
        given = dict(zip((p.name for p in self.kernel.parameters), numbers, strict=True))
        for name, result in run_kernel(self.kernel, inputs, given).items():
            np.copyto(arrays[name], result.reshape(arrays[name].shape))


def test_programs_of_devices_write_gradients_where_arguments_were(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_program, "TritonKernel", MeantKernel)
    monkeypatch.setattr(DonatingGraph, "_of_class", lambda self, values: _not_for_classes)
    function = _unit(LOSSES["cross_entropy"])
    graph = DonatingGraph(gs.value_and_grad(function).graph, {0: 1})
    x, labels = _given((6, 40))
    value, gradient = _wanted(LOSSES["cross_entropy"], x, labels)
    given = torch.tensor(x)
    found, found_gradient = graph.run([given, torch.tensor(labels)])
    assert found_gradient.data_ptr() == given.data_ptr() and found_gradient.shape == given.shape
    _require_equal(found.item(), value)
    _require_equal(given.numpy(), gradient)
    with pytest.raises(gs.RuntimeFailure, match="one behind the other"):
        graph.run([torch.tensor(x).t().contiguous().t(), torch.tensor(labels)])
    product = DonatingGraph(gs.grad(gs.CompilationUnit("def f(x):\n    return (x @ x).sum()\n").f).graph, {0: 0})
    with pytest.raises(gs.RuntimeFailure, match="'x' cannot be donated"):
        product.run([torch.ones(3, 3)])


def _not_for_classes(known: Any, symbols: Any) -> Any:
    raise Unsettled("what kernels mean is asked of given sizes")
