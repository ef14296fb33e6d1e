"""Floats among the arguments of ops that change from call to call: every op of the registry that takes one is planned
for a few of them, and then no more; what it gives is what NumPy's backend does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from amounts import some_of
from gradscript.compiler.ir.builder import Builder
from gradscript.compiler.ir.graph import Graph
from gradscript.compiler.ops.registry import OPS, Op, Trait
from gradscript.compiler.types.dtypes import FLOAT64
from gradscript.compiler.types.types import FLOAT, NUMBER, TENSOR, strip_optional
from gradscript.runtime.kernels.c import compiler as compilers
from gradscript.runtime.kernels.c.planned import PlannedProgram
from gradscript.runtime.kernels.c.planning import CPlan
from gradscript.runtime.kernels.runner import KernelGraph
from gradscript.runtime.kernels.triton.kernel import TritonKernel
from kernel_device import kernel_device
from samples import op_calls
from samples.arrays import LAYOUTS

pytestmark = [pytest.mark.filterwarnings("ignore")]
needs_compiler = pytest.mark.skipif(compilers.compiler() is None, reason="needs a compiler of C")
SHAPED = frozenset(
    (
        *("aten::interpolate.number", "aten::upsample_nearest1d.vec"),
        *("gs::upsample_nearest.number", "gs::upsample_bilinear.number"),
    )
)
"""Of which a number decides on the shape of the result."""
DRAWN = frozenset(("aten::normal.Tensor_float",))
"""What makes numbers with each backend's own cosines of float32, whatever the dtype of the result."""
FACTORS = (1.0, 0.93, 1.04, 0.97, 1.01, 0.99, 1.02)
FEW = 2
"""Calls by which what varies is known, and planned for."""


def _is_float(argument: Any, value: Any) -> bool:
    return type(value) is float and strip_optional(argument.type) in (FLOAT, NUMBER)


def _sample(op: Op) -> list[Any] | None:
    """The first call of an op with a tensor and a float among its arguments."""
    for call in op_calls.calls_of(op)[:3]:
        try:
            given = call.arguments(op, FLOAT64, 1, LAYOUTS["contiguous"])
        except Exception:
            return None
        has_float = any(_is_float(argument, v) for argument, v in zip(op.schema.arguments, given, strict=True))
        if has_float and any(isinstance(value, np.ndarray) for value in given):
            return given
    return None


OPS.load()
TAKING = {
    op.schema.full_name: op
    for op in OPS.all()
    if not op.has(Trait.SIDE_EFFECT) and op.schema.full_name not in SHAPED | DRAWN and len(op.schema.returns) == 1
}
NAMES = [name for name, op in TAKING.items() if _sample(op) is not None]


def function_of(op: Op, given: list[Any]) -> tuple[gs.Function, list[Any], list[int]]:
    """The op as a function of its tensors and floats, arguments for it, and which of these are floats."""
    graph = Graph("f")
    builder = Builder(graph)
    inputs: list[Any] = []
    values: list[Any] = []
    floats: list[int] = []
    for argument, value in zip(op.schema.arguments, given, strict=True):
        if isinstance(value, np.ndarray):
            inputs.append(graph.body.add_input(TENSOR, argument.name))
            values.append(value)
        elif _is_float(argument, value):
            inputs.append(graph.body.add_input(FLOAT, argument.name))
            floats.append(len(values))
            # What is nothing, or a whole number, may mean something of its own.
            values.append(value if value % 1 else value + 0.0625)
        else:
            inputs.append(value)
    builder.returns(builder.op(op, *inputs))
    return gs.Function.of_graph(graph), values, floats


def results_of(function: gs.Function, given: list[Any]) -> list[Any]:
    """What a function gives, and its gradients; the error where there is none."""
    gs.random.manual_seed(3)
    try:
        y = function(*given)
        gs.random.manual_seed(3)
        _, pull_back = gs.vjp(function, *given)
        return [y, *pull_back(np.ones_like(y))]
    except (gs.RuntimeFailure, gs.CompileError, TypeError) as error:
        return [type(error).__name__]


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[object]]:
    """One for each program that is planned in C."""
    monkeypatch.setenv("GRADSCRIPT_CACHE", str(tmp_path_factory.getbasetemp() / "numbers"))
    found: list[object] = []
    for kind in (PlannedProgram, CPlan):
        init = kind.__init__
        monkeypatch.setattr(kind, "__init__", lambda self, *given, init=init: found.append(1) or init(self, *given))
    yield found


@needs_compiler
@pytest.mark.parametrize("name", some_of(NAMES))
def test_a_float_that_changes_makes_nothing_anew(name: str, planned: list[object]) -> None:
    function, values, floats = function_of(TAKING[name], _sample(TAKING[name]) or [])
    counts = []
    for factor in FACTORS:
        given = [value * factor if place in floats else value for place, value in enumerate(values)]
        wanted = results_of(function, given)
        with gs.settings.backend("c"):
            found = results_of(function, given)
        for have, want in zip(found, wanted, strict=True):
            if isinstance(want, np.ndarray | float):
                np.testing.assert_allclose(have, want, rtol=1e-9, atol=1e-11)
            else:
                assert have == want
        counts.append(len(planned))
    assert len(set(counts[FEW:])) == 1, counts


TEXT = """
def powered(x, a: float):
    return x ** a

def huber(x, a: float):
    return F.huber_loss(x, x * 2.0, delta=a)

def dropped(x, a: float):
    return F.dropout(x, a / 10.0)

def filled(x, a: float):
    return x * torch.full([6], a) + torch.full_like(x, a)

def bounded(x, a: float):
    return F.hardtanh(x, -a, a)

def normed(x, a: float):
    return torch.linalg.vector_norm(x, a, [-1])

def in_rounds(x, n: int):
    for i in range(n):
        x = torch.sin(x) + i
    return x

def while_it_goes(x, n: int):
    i = 0
    while i < n:
        x = torch.tanh(x) * 2.0
        i = i + 1
    return x

def collected(x, n: int):
    parts: List[Tensor] = []
    for i in range(n):
        parts.append(torch.sin(x) * i)
    return torch.stack(parts).sum(0)

def flagged(x, on: bool):
    return torch.sin(x) if on else x * 2.0
"""
UNIT = gs.CompilationUnit(TEXT)
X = np.linspace(0.5, 2.0, 12).reshape(2, 6)
ROUNDS = ("in_rounds", "while_it_goes", "collected")
KINDS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(ROUNDS, (2, 3, 5, 9, 4, 7, 6, 11)),
    "flagged": (True, False, True, False),
}


@pytest.mark.parametrize("backend", ["c", "numpy", "device"])
@pytest.mark.parametrize("name", some_of(UNIT.functions))
def test_numbers_and_rounds_that_change_make_nothing_anew(
    name: str, backend: str, planned: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    if backend == "c" and compilers.compiler() is None:
        pytest.skip("needs a compiler of C")
    if backend != "numpy" and name in ROUNDS:
        pytest.skip("kernels are planned for the number of rounds")
    function, counts = gs.CompilationUnit(TEXT)[name], []
    init = TritonKernel.__init__
    monkeypatch.setattr(TritonKernel, "__init__", lambda self, *a, **k: planned.append(1) or init(self, *a, **k))
    monkeypatch.setattr(TritonKernel, "launch", lambda *given: None)
    gs.compiler_debug.reset_counters()
    for value in KINDS.get(name, (2.25, 1.75, 2.5, 3.125, 2.75, 1.5)):
        if backend == "device":
            with kernel_device(monkeypatch, KernelGraph):
                x = torch.tensor(X, requires_grad=True)
                y = function(x, value)
                torch.autograd.grad(y, x, torch.ones_like(y))
            counts.append(len(planned))
            continue
        wanted = results_of(function, [X, value])
        with gs.settings.backend(backend):
            found = results_of(function, [X, value])
        for have, want in zip(found, wanted, strict=True):
            np.testing.assert_allclose(have, want, rtol=1e-9) if want is not None else None
        misses = gs.compiler_debug.counters()["plan_cache_misses"]
        counts.append(len(planned) if backend == "c" else misses)
    assert len(set(counts[FEW + 1 :])) == 1, counts


@needs_compiler
def test_what_a_float_decides_is_decided_anew(planned: list[object]) -> None:
    """On either side of what is asked of a number there is a plan of its own, and zeros differ in their signs."""
    unit = gs.CompilationUnit("""
def by_sign(x, a: float):
    return x * a if a >= 0.0 else x - a

def copied(x, a: float):
    return torch.copysign(x, torch.full([6], a))
""")
    for a in (0.5, 0.75, -0.5, 0.25, -1.0, 0.0, -0.0, float("inf"), float("nan"), 0.5, 1e300):
        for function in (unit.by_sign, unit.copied, UNIT.bounded, UNIT.huber):
            if function is unit.copied and abs(a) == 1e300:
                continue
            wanted = results_of(function, [X, a])
            with gs.settings.backend("c"):
                found = results_of(function, [X, a])
            for have, want in zip(found, wanted, strict=True):
                if want is not None and not isinstance(want, str):
                    np.testing.assert_allclose(have, want, rtol=1e-12)
                else:
                    assert have == want
