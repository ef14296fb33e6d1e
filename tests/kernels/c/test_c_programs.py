"""Functions by kernels in C: results and gradients of the suite, on arrays and tensors, beside float64."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gradscript as gs
import numpy as np
import pytest
from gradscript.runtime.kernels import notices
from gradscript.runtime.kernels.c import compiler as compilers
from gradscript.runtime.kernels.c import library

pytest.importorskip("torch")
import torch
from program_running import CASES, ROOT, TOLERANCES, _as, _close

HAS_COMPILER = compilers.compiler() is not None
UNIT = gs.CompilationUnit((ROOT / "benchmarks" / "suite.grad").read_text(encoding="utf-8"), "suite.grad")


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADSCRIPT_CACHE", str(tmp_path_factory.mktemp("kernels")))
        yield


SOME = [
    *((case, "float32") for case in CASES if "7×13" in case),
    *(("layer_norm 7×13", dtype) for dtype in ("float16", "bfloat16", "float64")),
    *((case, "float32") for case in ("bias_gelu transposed", "swiglu expanded", "layer_norm of every second row")),
    *((case, "float32") for case in ("swiglu without elements", "swiglu of one number", "softmax of long rows")),
]
"""Those of other sizes and dtypes run as kernels on their own."""


@pytest.mark.parametrize(("case", "dtype"), SOME)
def test_results_and_gradients_are_those_of_float64(case: str, dtype: str) -> None:
    """Without a compiler too, op by op."""
    name, make = CASES[case]
    tolerance = TOLERANCES[dtype]
    narrow = [_array(_as(value, getattr(torch, dtype))) for value in make()]
    wide = [v.astype(np.float64) if isinstance(v, np.ndarray) and v.dtype.kind in "fV" else v for v in narrow]
    wanted, pull_back = _vjp(name, wide)
    with gs.settings.backend("c"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        found, by_kernels = _vjp(name, narrow)
        called = UNIT[name](*narrow) if "dropout" not in name else None
        seeds = [np.random.default_rng(3).standard_normal(w.shape).astype(f.dtype) for w, f in _each(wanted, found)]
        gradients = by_kernels(seeds[0] if len(seeds) == 1 else tuple(seeds)) if name != "adamw" else ()
    for want, have in _each(wanted, found):
        assert have.dtype == narrow[0].dtype and have.shape == want.shape
        _check(have, want, tolerance)
    if called is not None:
        for have, again in _each(found, called):
            np.testing.assert_array_equal(have, again)
    wide_seeds = [seed.astype(np.float64) for seed in seeds]
    expected = pull_back(wide_seeds[0] if len(seeds) == 1 else tuple(wide_seeds)) if name != "adamw" else ()
    for value, have, want in zip(narrow, gradients, expected, strict=False):
        assert (have is None) == (want is None)
        if have is not None:
            assert have.dtype == value.dtype and have.shape == value.shape
            _check(have, want, 4 * tolerance)


def _vjp(name: str, values: list[Any]) -> Any:
    gs.random.manual_seed(7)
    return gs.vjp(UNIT[name], *values)


def _array(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    if value.dtype is torch.bfloat16:
        import ml_dtypes

        return value.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return value.numpy()


def _each(first: Any, second: Any) -> list[tuple[Any, Any]]:
    return list(zip(first, second, strict=True)) if isinstance(first, tuple) else [(first, second)]


def _check(have: Any, want: Any, tolerance: float) -> None:
    _close(torch.from_numpy(have.astype(np.float64)), torch.from_numpy(np.asarray(want, np.float64)), tolerance)


@pytest.mark.parametrize("case", ["bias_gelu 7×13", "layer_norm 7×13", "lstm_cell 7×13", "swiglu expanded"])
def test_tensors_join_autograd_to_second_order(case: str) -> None:
    name, make = CASES[case]
    values = make()
    eager = _derivatives(name, values, "numpy")
    for have, want in zip(_derivatives(name, [v.float() for v in values], "c"), eager, strict=True):
        _close(have, want, 1e-4)


def _derivatives(name: str, values: list[Any], backend: str) -> list[Any]:
    leaves = [value.detach().requires_grad_() for value in values]
    with gs.settings.backend(backend):
        results = UNIT[name](*leaves)
        results = results if isinstance(results, tuple) else (results,)
        first = torch.autograd.grad([r.square().sum() for r in results], leaves, create_graph=True)
        second = torch.autograd.grad([g.square().sum() for g in first], leaves)
    return [value.detach() for value in (*results, *first, *second)]


OFFSETS: dict[str, Callable[[Any], Any]] = {
    "reversed": lambda x: x[::-1, ::-1],
    "every other": lambda x: x[::2, 1::3],
    "transposed": lambda x: x.T,
    "one element": lambda x: x[:1, :1],
    "unaligned": lambda x: np.frombuffer(b"\0" + x.tobytes(), x.dtype, x.size, 1).reshape(x.shape),
    "read-only": lambda x: np.broadcast_to(x[0], x.shape),
}


@pytest.mark.parametrize("layout", OFFSETS)
def test_arrays_are_taken_as_they_lie(layout: str) -> None:
    unit = gs.CompilationUnit(
        "def f(x, y):\n    return torch.tanh(x[:, 0:1] * 2) + (x * y).sum(1, True) - y.t().sum()\n"
    )
    x = OFFSETS[layout](np.arange(120, dtype=np.float32).reshape(10, 12) / 60 - 1)
    y = x * np.float32(0.5) + 1
    wanted = unit.f(x.astype(np.float64), y.astype(np.float64))
    with gs.settings.backend("c"):
        found = unit.f(x, y)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_an_index_out_of_range_is_the_error_that_it_is_otherwise() -> None:
    unit = gs.CompilationUnit("def f(w, i):\n    return F.embedding(i, w) * 2\n")
    weight = np.ones((5, 4), np.float32)
    with gs.settings.backend("c"):
        np.testing.assert_array_equal(unit.f(weight, np.array([4, 0])), np.full((2, 4), 2, np.float32))
        for index in (5, -1):
            with pytest.raises(gs.RuntimeFailure, match="index out of range"):
                unit.f(weight, np.array([0, index]))


def test_integers_divided_by_zero_are_the_error_that_they_are_otherwise() -> None:
    unit = gs.CompilationUnit("def f(x, y):\n    return x // y + 1\n")
    with gs.settings.backend("c"), pytest.raises(gs.RuntimeFailure, match="zero"):
        unit.f(np.array([1, 2]), np.array([1, 0]))


def test_without_a_compiler_functions_run_op_by_op_and_one_notice_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilers, "compiler", lambda: None)
    monkeypatch.setattr(notices, "TOLD", set())
    unit = gs.CompilationUnit("def f(x):\n    return torch.exp(x) * 2\n\ndef g(x):\n    return x + 1\n")
    x = np.zeros(3, np.float32)
    with gs.settings.backend("c"):
        with pytest.warns(RuntimeWarning, match="there is no compiler of C.*ziglang"):
            np.testing.assert_array_equal(unit.f(x), np.full(3, 2, np.float32))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            np.testing.assert_array_equal(unit.g(x), np.ones(3, np.float32))


def test_a_compiler_that_fails_is_named_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "cc"
    script.write_text("#!/bin/sh\necho 'no such flag' >&2\nexit 1\n")
    script.chmod(0o700)
    monkeypatch.setenv("CC", str(script))
    monkeypatch.setenv("GRADSCRIPT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(notices, "TOLD", set())
    unit = gs.CompilationUnit("def f(x):\n    return torch.exp(x) * 21\n")
    with gs.settings.backend("c"), pytest.warns(RuntimeWarning, match="no such flag"):
        np.testing.assert_array_equal(unit.f(np.zeros(3, np.float32)), np.full(3, 21, np.float32))


@pytest.mark.parametrize("damage", [lambda b: b[:100], lambda b: b[:50] + b"x" + b[51:], lambda b: b""])
def test_a_library_that_was_damaged_is_built_again(
    damage: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GRADSCRIPT_CACHE", str(tmp_path))
    monkeypatch.setattr(library, "_LOADED", {})
    text = "int answer(void)\n{\n    return 42;\n}\n"
    if not HAS_COMPILER:
        with pytest.raises(Exception, match="there is no compiler of C"):
            library.load_module(text, ["answer"])
        return
    assert library.load_module(text, ["answer"]).answer() == 42
    (path,) = (tmp_path / "c").iterdir()
    stored = path.read_bytes()
    path.write_bytes(damage(stored))
    library._LOADED.clear()
    assert library.load_module(text, ["answer"]).answer() == 42
    assert path.read_bytes()[32:] == stored[32:] or len(path.read_bytes()) > 1000


def test_what_a_backend_is_called_is_checked() -> None:
    with pytest.raises(ValueError, match="backend is one of auto, numpy, c, not 'cuda'"):
        gs.settings.backend = "cuda"
    with pytest.raises(TypeError, match="backend is one of auto, numpy, c, not True"):
        gs.settings.backend(True)
    assert gs.settings.backend == "numpy" or gs.settings.backend == "c"


def test_what_a_straight_function_does_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    """Kernels are made of what results are made of: a print gives none."""
    text = 'def f(x):\n    print("f of", x.size(0))\n    return x * x\n'
    stop = "def g(x):\n    if x.size(0) > 2:\n        raise ValueError('too many')\n    return x * x\n"
    unit = gs.CompilationUnit(text + stop)
    x = np.ones(3, np.float32)
    with gs.settings.backend("c"):
        for run in (
            lambda: unit.f(x),
            lambda: gs.vjp(unit.f, x),
            lambda: gs.grad(gs.CompilationUnit(text + _SUM).s)(x),
        ):
            for _ in range(4):
                run()
                assert capsys.readouterr().out == "f of 3\n"
        unit.g(x[:2])
        for _ in range(4):
            with pytest.raises(gs.RuntimeFailure, match="too many"):
                unit.g(x)


_SUM = "def s(x):\n    return f(x).sum()\n"


def test_kernels_of_a_lone_op_have_a_name_that_c_takes() -> None:
    """What the tape differentiates by itself is called as its op is, `aten::mul.Tensor`."""
    unit = gs.CompilationUnit("def f(x, w):\n    l = [x, None, w]\n    for v in l:\n        if v is not None:\n"
                              "            x = x * v\n    return x\n")  # fmt: skip
    with gs.settings.backend("c"), warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        x = gs.tape.Variable(np.arange(3.0))
        unit.f(x, gs.tape.Variable(np.arange(3.0))).sum().backward()
    np.testing.assert_array_equal(x.grad.data, 2 * np.arange(3.0) ** 2)


X = np.arange(3.0) + 1
WORDS = "double int inline register tanh exp memcpy printf main NAN errno y0 int64_t gs_least gs_exp_f32 gs_number"


@pytest.mark.parametrize("name", WORDS.split() if compilers.compiler() else [])
def test_functions_may_be_called_what_c_calls_something_else(name: str) -> None:
    function = gs.CompilationUnit(f"def {name}(x):\n    return torch.tanh(x) * 2 + x.exp()\n")[name]
    x = np.linspace(0, 1, 9)
    with gs.settings.backend("c"), warnings.catch_warnings():
        warnings.simplefilter("error")
        value, pull_back = gs.vjp(function, x)
        (gradient,) = pull_back(np.ones(9))
        taped = gs.tape.Variable(x)
        function(taped).backward(np.ones(9))
    np.testing.assert_allclose(value, np.tanh(x) * 2 + np.exp(x), rtol=1e-13)
    np.testing.assert_allclose(gradient, 2 - 2 * np.tanh(x) ** 2 + np.exp(x), rtol=1e-13)
    np.testing.assert_array_equal(taped.grad, gradient)


@pytest.mark.filterwarnings("ignore:.*kernels take no tuple where None may stand")
@pytest.mark.parametrize(
    ("types", "body", "given"),
    [
        ("t: Tuple[Tensor, float]", "t[0] * t[1] * x", ((X, 2.0),)),
        ("t: Tuple[int, float]", "x * t[0] + t[1]", ((2, 3.5),)),
        ("t: Tuple[Tensor, Tuple[Tensor, int]]", "x * t[0] + t[1][0] * t[1][1]", ((X, (X + 1, 3)),)),
        ("l: List[float], t: Optional[Tuple[Tensor, float]] = None", "x * l[0]", ([2.0, 1.0], (X, 1.0))),
        ("l: List[Tensor]", "x * l[0] + l[1]", ([X, X + 1],)),
        ("t: Tuple[List[Tensor], int]", "x * t[0][0] * t[1]", (([X, X + 1], 3),)),
    ],
)
def test_tuples_and_lists_are_taken_call_after_call(types: str, body: str, given: tuple[Any, ...]) -> None:
    function = gs.CompilationUnit(f"def f(x, {types}):\n    return {body}\n").f
    expected, expected_pull = gs.vjp(function, X, *given)
    for _ in range(4):
        with gs.settings.backend("c"):
            np.testing.assert_allclose(function(X, *given), expected)
            value, pull_back = gs.vjp(function, X, *given)
            np.testing.assert_allclose(value, expected)
            np.testing.assert_allclose(pull_back(X)[0], expected_pull(X)[0])


@pytest.mark.parametrize("spread", ["var", "std"])
def test_a_mean_beside_a_variance_without_freedom_is_a_number(spread: str) -> None:
    f = gs.CompilationUnit(f"def f(x):\n    return torch.{spread}_mean(x, -1, correction=3)\n").f
    x = np.array([[1.0, 2.0, 6.0], [1.0, np.inf, 3.0]])
    with gs.settings.backend("c"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = getattr(torch, f"{spread}_mean")(torch.from_numpy(x), -1, correction=3)
        for found, want in zip(f(x), wanted, strict=True):
            np.testing.assert_allclose(found, want.numpy())
