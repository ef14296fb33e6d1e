"""What ops refuse, kernels refuse, and nothing else: samples are accepted, bad calls end as they do op by op."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import gradscript as gs
import numpy as np
import pytest
from gradscript.compiler.fusion import refusals
from gradscript.compiler.ops.meta import Meta
from gradscript.compiler.ops.registry import Trait
from gradscript.compiler.types.dtypes import FLOAT32
from samples.array_calls import CASES, OPS_BY_NAME
from samples.arrays import LAYOUTS

SKIPPED = Trait.RANDOM | Trait.SIDE_EFFECT | Trait.SHAPE_ONLY
SAMPLES = [(name, i) for name in sorted(set(CASES) & set(OPS_BY_NAME)) for i in range(len(CASES[name]))]


@pytest.fixture(autouse=True)
def in_c(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("GRADSCRIPT_CACHE", str(tmp_path_factory.getbasetemp() / "refusals"))
    with gs.settings.backend("c"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def _abstract(value: Any) -> Any:
    if isinstance(value, list):
        return [_abstract(item) for item in value]
    return Meta.of(value) if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize("name", sorted({name for name, _ in SAMPLES}))
def test_samples_are_accepted(name: str) -> None:
    op = OPS_BY_NAME[name]
    if op.has(SKIPPED):
        return
    for call in CASES[name]:
        arguments = call.arguments(op, FLOAT32, 0, LAYOUTS["contiguous"])
        kinds = tuple([refusals._kind(_abstract(value)) for value in arguments])
        if None not in kinds:
            assert refusals._refused(op, kinds, ()) is None, call


NUMBERS = {
    "F.huber_loss(x, x * 2, delta=k)": (1.0, 0.0, 2.0, -1.0),
    "F.softshrink(x, lambd=k)": (0.5, -0.5, 0.0),
    "F.hardtanh(x, min_val=k, max_val=0.5)": (-1.0, 1.0, 0.25),
    "F.smooth_l1_loss(x, x * 2, beta=k)": (1.0, -1.0, 0.0),
    "torch.softmax(x * k, 0)": (1.0, -1.0, 0.0),
}


@pytest.mark.parametrize("text", NUMBERS)
def test_numbers_that_are_refused_are_refused_when_they_come(text: str) -> None:
    function = gs.CompilationUnit(f"def f(x, k: float):\n    return {text}\n").f
    x = np.linspace(-2, 2, 7)
    for number in NUMBERS[text] * 2:
        with gs.settings.backend("numpy"):
            wanted = _outcome(function, x, number)
        assert _outcome(function, x, number) == wanted


def _outcome(function: gs.Function, *arguments: Any) -> Any:
    found: list[Any] = []
    for run in (lambda: function(*arguments), lambda: gs.vjp(function, *arguments)[0]):
        try:
            found.append(np.round(run(), 12).tolist())
        except gs.RuntimeFailure as failure:
            found.append(failure.message)
    return found


def test_sizes_are_made_small_in_order() -> None:
    kinds = tuple([refusals._kind(Meta(shape, FLOAT32)) for shape in ((700, 2), (700, 3), (0, 1, 4096))])
    assert refusals._sizes(kinds) == {700: 4, 4096: 5}


def test_no_op_is_asked_on_more_than_a_few_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def counted(shape: tuple[int, ...]) -> Any:
        made.append(int(np.prod(shape)))
        return np.ones(shape)

    monkeypatch.setattr(refusals, "FILLS", (counted,))
    unit = gs.CompilationUnit("""
def f(x, w):
    return F.layer_norm(x, [x.size(-1)], w).sum(0), (x * w).flatten().sum(), x[:, 700:].amax(-1)
""")
    listing = unit.f.kernels(np.zeros((1024, 4096), np.float32), np.zeros(4096, np.float32))
    assert listing.forward and max(made) <= 64
