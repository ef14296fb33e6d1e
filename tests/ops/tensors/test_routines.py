"""Ops for which torch has routines, on the memory of tensors: these give what the definitions on arrays give."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from gradscript.compiler.ops.registry import OPS, Op, Trait
from gradscript.compiler.types import dtypes
from samples.array_calls import CASES
from samples.arrays import LAYOUTS, Call

torch = pytest.importorskip("torch")
import gradscript as gs  # noqa: E402
from gradscript.runtime.torch.routines import loops  # noqa: E402

DTYPES = [dtypes.FLOAT32, dtypes.FLOAT64, dtypes.FLOAT16, dtypes.BFLOAT16, dtypes.INT64, dtypes.BOOL]
TOLERANCES = {"float64": 1e-12, "float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}
"""Relative, to the largest element: what additions in another order come to, and what one rounding more does."""


@pytest.fixture(autouse=True)
def _of_few_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "_LEAST", 0)


def _difference(op: Op, call: Call, dtype: dtypes.DType, layout: str) -> str | None:
    arguments = call.arguments(op, dtype, 7, LAYOUTS[layout])
    found = loops.routine_result(op, arguments)
    if found is NotImplemented:
        return None
    with np.errstate(all="ignore"):
        wanted = op.evaluate(*arguments)
    rows = [(found, wanted)] if isinstance(wanted, np.ndarray) else zip(found, wanted, strict=True)
    for mine, theirs in rows:
        if mine.dtype != theirs.dtype or mine.shape != theirs.shape:
            return f"{mine.dtype} {mine.shape}, not {theirs.dtype} {theirs.shape}"
        tolerance = TOLERANCES.get(mine.dtype.name, 0)
        mine, theirs = mine.astype(np.float64), theirs.astype(np.float64)
        scale = np.abs(theirs[np.isfinite(theirs)]).max(initial=0)
        if not np.allclose(mine, theirs, rtol=tolerance, atol=tolerance * scale, equal_nan=True):
            return f"off by {np.nanmax(np.abs(mine - theirs))} of {scale}"
    return None


@pytest.mark.parametrize("op", [op for op in OPS.all() if op.has(Trait.LIBRARY)], ids=lambda op: op.schema.full_name)
def test_a_routine_gives_what_the_definition_gives(op: Op) -> None:
    failed = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, call in enumerate(CASES[op.schema.full_name.partition("::")[2]]):
            for dtype in DTYPES:
                for layout in LAYOUTS:
                    try:
                        difference = _difference(op, call, dtype, layout)
                    except (RuntimeError, ValueError, IndexError) as error:
                        difference = f"the definition refuses it: {error}"
                    if difference is not None:
                        failed.append(f"{number}, {dtype.name}, {layout}: {difference}")
    assert not failed, "\n".join(failed)


def test_a_routine_is_asked_for_tensors_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(
        "gradscript.runtime.torch.routines.products.routine_result",
        lambda op, arguments: asked.append(op.schema.base_name) or NotImplemented,
    )
    f = gs.CompilationUnit("def f(x):\n    return x.cumsum(0).cummax(0).values\n").f
    x = torch.randn(300, 20)
    f(x.numpy())
    assert not asked
    f(x)
    assert asked == ["cumsum", "cummax"]


@pytest.mark.parametrize(
    "text", ["y[i] = v", "y = y.index_copy(0, i, v)", "y = y.scatter(0, i[:, None].expand(-1, 40), v)"]
)
def test_of_what_is_written_to_one_place_the_last_stays(text: str) -> None:
    """However many threads there are."""
    f = gs.CompilationUnit(f"def f(y, i, v):\n    y = y.clone()\n    {text}\n    return y\n").f
    i, v, y = torch.randint(0, 5, (3000,)), torch.randn(3000, 40), torch.zeros(5, 40)
    last = [int((i == row).nonzero().max()) for row in range(5)]
    threads = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        with gs.settings.backend("c"):
            assert all(torch.equal(f(y, i, v), v[last]) for _ in range(5))
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_what_adds_up_at_indices_repeats_bit_for_bit(backend: str) -> None:
    f = gs.CompilationUnit("def f(x, i):\n    return (x[i] ** 2).sum()\n").f
    i = torch.randint(0, 40, (4000,))
    x = torch.randn(40, 30, requires_grad=True)
    with gs.settings.backend(backend):
        first = torch.autograd.grad(f(x, i), x)[0]
        for _ in range(5):
            assert torch.equal(torch.autograd.grad(f(x, i), x)[0], first)
    expected = torch.autograd.grad((x.double()[i] ** 2).sum(), x)[0]
    assert torch.allclose(first, expected, rtol=1e-5)


def test_modes_of_torchs_see_no_routine() -> None:
    """Nor does autocast have a say in it, or a transform."""
    from torch.utils.flop_counter import FlopCounterMode

    f = gs.CompilationUnit("def f(x):\n    return x.cumsum(0)[-1].sum()\n").f
    x = torch.randn(200, 40)
    wanted = x.double().cumsum(0)[-1].sum().float()
    with FlopCounterMode(display=False), gs.settings.backend("c"):
        assert torch.allclose(f(x), wanted, rtol=1e-5)
    with torch.autocast("cpu"), gs.settings.backend("c"):
        assert torch.allclose(f(x), wanted, rtol=1e-5)
    assert torch.allclose(torch.func.vmap(f)(torch.stack([x, x])), wanted.expand(2), rtol=1e-5)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("kind", ["apart", "equal", "nan"])
def test_of_equal_elements_the_first_is_found(kind: str, largest: bool) -> None:
    op = OPS.named("aten::topk")
    generator = np.random.default_rng(0)
    x = generator.permutation(6 * 40).reshape(6, 40).astype(np.float32)
    if kind == "equal":
        x = x // 60
    elif kind == "nan":
        x[generator.random(x.shape) < 0.2] = np.nan
    given = [x, 5, 1, largest, True]
    found = loops.routine_result(op, given)
    if kind != "nan":
        assert (found is NotImplemented) is (kind == "equal")
    if found is NotImplemented:
        found = op.evaluate(*given)
    for mine, theirs in zip(found, _sorted(x, largest), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def _sorted(x: np.ndarray, largest: bool) -> tuple[np.ndarray, np.ndarray]:
    """The first five of each row, NaN as the largest of all."""
    keys = np.where(np.isnan(x), np.inf, x)
    places = np.argsort(-keys if largest else keys, 1, kind="stable")[:, :5]
    return np.take_along_axis(x, places, 1), places
