"""Loops in stages: the same numbers to the last bit, and nothing read again that a store may have overwritten."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import gradscript as gs
import numpy as np
import pytest
from amounts import some_of
from c_kernel_running import CASES, assert_as_meant, with_text
from gradscript.compiler.codegen.c import stages
from gradscript.compiler.codegen.c.math import IN_STAGES
from gradscript.compiler.codegen.c.module import emit_function
from gradscript.compiler.kernel_ir.kernel import Kernel
from gradscript.compiler.scheduling.collapse import collapse_axes
from gradscript.compiler.scheduling.cpu import split_for_cpu
from gradscript.runtime.kernels.c.compiler import Compiler, compiler
from gradscript.runtime.kernels.failure import KernelFailure
from kernel_cases import Case

SOURCE = """
def f(x, y):
    a = torch.tanh(x) * y
    b = torch.exp(-a * a)
    c = torch.sigmoid(b + x)
    d = torch.log1p(c * c)
    return d * a, b - x, torch.exp(d) + y
"""
NAMES = ("x", "y")


def _text(kernel: Kernel) -> str:
    parts = [collapse_axes(part) for part in split_for_cpu(collapse_axes(kernel))]
    return "\n".join(emit_function(part, part.name).text for part in parts)


@pytest.fixture
def many_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("DEEPEST", 0.0), ("LEAST", 0.0), ("TOGETHER", 24)):
        monkeypatch.setattr(stages, name, value)
    monkeypatch.setattr(stages, "WEIGHTS", dict.fromkeys(("mul", "div", "sqrt", "where", "maximum"), 1.0))


@pytest.mark.usefixtures("many_stages")
@pytest.mark.parametrize("case", some_of(CASES) if compiler() else [], ids=lambda case: case.name)
def test_results_in_stages_are_the_same(case: Case) -> None:
    assert_as_meant(case, 3)


@pytest.mark.usefixtures("many_stages")
def test_several_kernels_have_stages() -> None:
    """So that the test above is about them."""
    assert sum("_strip[" in _text(with_text(case.kernel)) for case in CASES) > len(CASES) // 8


def _passes(x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    function = gs.CompilationUnit(SOURCE).f
    with gs.settings.backend("c"):
        results, pull_back = gs.vjp(function, x, y)
        return [*results, *pull_back(tuple(results))]


@pytest.mark.parametrize("size", [1, 15, 17, 64, 255, 256, 257, 10_000] if compiler() else [])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_no_bit_depends_on_stages(size: int, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = np.random.default_rng(size).standard_normal((2, size)).astype(dtype)
    found = _passes(x, y)
    monkeypatch.setattr(stages, "DEEPEST", 1e9)
    for staged, plain in zip(found, _passes(x, y), strict=True):
        np.testing.assert_array_equal(staged, plain)


@pytest.mark.skipif(compiler() is None, reason="no compiler of C")
@pytest.mark.parametrize("dtypes", some_of([("float32",), ("float64",), ("float16",), ("uint8", "bool", "float32")]))
def test_no_point_depends_on_how_many_there_are(dtypes: tuple[str, ...]) -> None:
    """What ends within a vector is computed with points behind it: of rows that lie apart, each row."""
    unit = gs.CompilationUnit("""
def f(x, y, m):
    a = torch.where(m > 0, torch.tanh(x), torch.sin(y)) * y
    b = torch.exp(-a * a) / (x - 1.0)
    return torch.sigmoid(b) + a, torch.cos(b) > a, torch.log(x * x) * m
""")
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((7, 400)).astype(dtypes[-1]) for _ in range(2))
    m = rng.integers(0, 2, (7, 400)).astype(dtypes[0])
    with gs.settings.backend("c"):
        wanted = unit.f(x, y, m)
        for columns in (1, 15, 16, 61, 255, 257, 333):
            for found, whole in zip(unit.f(x[:, :columns], y[:, :columns], m[:, :columns]), wanted, strict=True):
                np.testing.assert_array_equal(found, whole[:, :columns])


def test_nothing_is_left_behind_the_last_vector() -> None:
    """It would have a text of its own in each loop; where sizes are of whole vectors nothing is laid aside."""
    unit = gs.CompilationUnit(SOURCE)
    for shape, is_laid_aside in (((10_000,), True), ((64, 333), True), ((64, 1024), False)):
        x = np.empty((shape[0], 2 * shape[-1]), np.float32)[:, : shape[-1]] if len(shape) > 1 else np.empty(*shape, "f")
        for info in unit.f.kernels(x, x).forward:
            ends = re.findall(r"#pragma omp simd\n *for \(.*; \w+ < (\w+);", _text(info.kernel))
            assert len(ends) > 1
            assert {end.endswith("_whole") for end in ends} == {is_laid_aside}


def test_what_lies_apart_is_brought_together_once() -> None:
    """Each stage would go through its gaps anew, and what is written apart is no vector."""
    unit = gs.CompilationUnit(SOURCE)
    x = np.empty((64, 2048), np.float32)
    text = _text_of_view(unit, x[:, ::2])
    moving = [loop for loop in (loop.split("}")[0] for loop in text.split("for (")[1:]) if "_ptr[" in loop]
    assert moving and not any("gs_" in loop for loop in moving)
    assert len(moving) == len(set(re.findall(r"\w+_ptr\[", "".join(moving))))
    text = _text_of_view(unit, x.T)
    # Results lie as the first operand does, and the second is turned over.
    assert text.count("gs_turn_over_32(y_tile, ") == 1 and "y_ptr[" not in text


def _text_of_view(unit: gs.CompilationUnit, view: Any) -> str:
    (info,) = unit.f.kernels(view, np.empty(view.shape, np.float32)).forward
    return _text(info.kernel)


@pytest.mark.skipif(compiler() is None, reason="no compiler of C")
def test_views_have_the_numbers_of_what_they_show() -> None:
    unit = gs.CompilationUnit(SOURCE)
    x, y = np.random.default_rng(0).standard_normal((2, 130, 333)).astype(np.float32)
    wide = np.zeros((130, 999), np.float32)
    with gs.settings.backend("c"):
        wanted, pull_back = gs.vjp(unit.f, x, y)
        wanted = [*wanted, *pull_back(tuple(wanted))]
        for view in (
            wide[:, ::3],
            wide[:, 332::-1],
            wide[::-1, :333],
            np.zeros((333, 130), np.float32).T,
            wide[:, 1:334],
        ):
            view[...] = x
            results, pull_back = gs.vjp(unit.f, view, y)
            for found, expected in zip([*results, *pull_back(tuple(results))], wanted, strict=True):
                np.testing.assert_array_equal(found, expected)


@pytest.mark.skipif(compiler() is None, reason="no compiler of C")
def test_nobody_divides_by_what_is_behind_the_last_point() -> None:
    unit = gs.CompilationUnit("""
def f(x, n):
    a = torch.exp(torch.sin(x) * x)
    return torch.tanh(torch.exp(-a)) + 100 // n % n
""")
    x, n = np.linspace(-1, 1, 300, dtype=np.float32), np.arange(1, 301)
    with gs.settings.backend("c"):
        np.testing.assert_array_equal(unit.f(x, n)[:7], unit.f(x[:7], n[:7]))


def test_gcc_is_told_of_loops_in_stages_alone(tmp_path: Path) -> None:
    """What it would write of short loops is what rows are quick by."""
    recorder = tmp_path / "cc"
    recorder.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" > {tmp_path}/options\nexit 1\n")
    recorder.chmod(0o755)
    unit = gs.CompilationUnit(SOURCE + "\ndef g(x, y):\n    return torch.softmax(torch.tanh(x) * y, -1)\n")
    x = np.ones((64, 1000), np.float32)
    for function, is_told in ((unit.f, True), (unit.g, False)):
        text = function.kernels(x, x).c.forward
        assert text.startswith(IN_STAGES) == is_told
        with pytest.raises(KernelFailure):
            Compiler((str(recorder),), "").build(text)
        assert ("--param=vect-epilogues-nomask=0" in (tmp_path / "options").read_text().split()) == is_told


@pytest.mark.parametrize("deepest", [0.0, 1.2])
def test_what_a_store_may_have_overwritten_is_not_read_again(deepest: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "DEEPEST", deepest)
    functions = gs.CompilationUnit(SOURCE).f.kernels(np.ones(1000, np.float32), np.ones(1000, np.float32)).c.functions
    assert len(functions) == 2
    for function in functions:
        loops = [piece.split("}")[0] for piece in function.split("#pragma omp simd")[1:]]
        assert len(loops) > 1
        stored = False
        for loop in loops:
            assert not (stored and any(f"= {name}_{word}[" in loop for word in ("ptr", "here") for name in NAMES)), (
                function
            )
            stored = stored or "_ptr[i] =" in loop or "_here[i - i_start] =" in loop


ANGLES = """
def f(x, y):
    a = torch.exp(torch.sin(x) * y)
    b = torch.tanh(a) * torch.exp(-a)
    return torch.sigmoid(b) * torch.cos(x) + torch.sin(b)
"""


def test_sine_and_cosine_of_an_angle_are_in_one_stage() -> None:
    """Each has the polynomials of both."""
    listing = gs.CompilationUnit(ANGLES).f.kernels(*np.zeros((2, 10_000), np.float32))
    text = _text(listing.forward[0].kernel)
    first = text[text.index("gs_turned_sin_f32(x") :]
    assert "for (" in text and "gs_turned_cos_f32(x" in first[: first.index("for (")]
