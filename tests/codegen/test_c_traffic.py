"""What kernels in C do for memory's sake: results that go past the caches, rows that are asked for beforehand."""

from __future__ import annotations

import numpy as np
import pytest
from amounts import some_of
from c_kernel_running import CASES, assert_as_meant, with_text
from gradscript.compiler.codegen.c import traffic
from gradscript.compiler.codegen.c.module import emit_function
from gradscript.compiler.kernel_ir.index import axis, constant
from gradscript.compiler.kernel_ir.kernel import Kernel
from gradscript.compiler.scheduling.collapse import collapse_axes
from gradscript.compiler.scheduling.cpu import split_for_cpu
from gradscript.compiler.types.dtypes import FLOAT32
from gradscript.runtime.kernels.c.compiler import compiler
from gradscript.runtime.kernels.c.kernel import Kernels, module_of
from kernel_building import KernelBuilder
from kernel_cases import Case, broadcast, dynamic, layer_norm_backward, softmax


def _text(kernel: Kernel) -> str:
    parts = [collapse_axes(part) for part in split_for_cpu(collapse_axes(kernel))]
    return "\n".join(emit_function(part, part.name).text for part in parts)


def _total_of(operands: int, function: str) -> Kernel:
    """The sum of a function of each of some operands."""
    size = 1 << 22
    k = KernelBuilder("total", i=size)
    for number in range(operands):
        k.input(f"x{number}", FLOAT32, (size,))
    k.output("result", FLOAT32, (size,))
    total: str | float = 0.0
    for number in range(operands):
        total = k.compute("add", total, k.compute(function, k.load(f"x{number}", "i")))
    k.store("result", "i", total)
    return k.build()


@pytest.fixture
def small_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("LARGE", 1), ("STRIP", 24), ("SHORTEST", 16), ("FUNCTIONS", 99)):
        monkeypatch.setattr(traffic, name, value)


@pytest.mark.usefixtures("small_is_large")
@pytest.mark.parametrize("case", some_of(CASES) if compiler() else [], ids=lambda case: case.name)
def test_results_past_the_caches_are_the_same(case: Case) -> None:
    assert_as_meant(case, 3)


@pytest.mark.usefixtures("small_is_large")
def test_most_kernels_have_results_that_may_go_past_the_caches() -> None:
    """So that the test above is about them."""
    assert sum("gs_stream(" in _text(with_text(case.kernel)) for case in CASES) > len(CASES) // 3


def test_small_results_have_plain_stores() -> None:
    assert "gs_stream" not in _text(broadcast(64, 128))


def test_results_in_parts_are_as_large_as_all_of_them() -> None:
    """Two halves of rows, of 2 MB each."""
    k = KernelBuilder("both", i=1024, j=512)
    k.input("x", FLOAT32, (1024, 512))
    k.output("result", FLOAT32, (1024, 2, 512))
    x = k.load("x", "ij")
    for half in range(2):
        k.store("result", [axis("i"), constant(half), axis("j")], k.compute("mul", x, half + 2.0))
    assert "4194304 >= 4194304" in _text(k.build())


def test_of_sizes_that_are_passed_the_text_asks() -> None:
    assert "512 * size_i >= 4194304" in _text(dynamic(broadcast(37, 128), "i"))


def test_sums_over_what_was_read_stay_in_the_caches() -> None:
    text = _text(layer_norm_backward(4096, 768))
    assert "gs_put(grad_x_ptr" in text and "(partial" not in text.replace("gs_put(grad_x_ptr", "")


def test_rows_that_are_read_twice_are_asked_for() -> None:
    assert "gs_fetch(x_ptr + 1000 * i_next, 4000)" in _text(softmax(256, 1000))
    assert "gs_fetch" not in _text(softmax(16, 50_000))


def test_loops_share_what_they_ask_for() -> None:
    """Each asks for one of the two rows."""
    first, second = _text(layer_norm_backward(4096, 768)).split("const float total = ")[:2]
    assert (first.count("gs_fetch(x_ptr"), first.count("gs_fetch(grad")) == (0, 1)
    assert (second.count("gs_fetch(x_ptr"), second.count("gs_fetch(grad")) == (1, 0)


@pytest.mark.parametrize(("operands", "ahead"), [(3, 512), (4, 256)])
def test_of_many_operands_less_is_asked_for(operands: int, ahead: int) -> None:
    assert f"gs_fetch(x0_ptr + i_block_1 + {ahead}, 256)" in _text(_total_of(operands, "neg"))


def test_blocks_of_many_functions_are_a_register() -> None:
    text = _text(_total_of(3, "sigmoid"))
    assert "i_lane < 16;" in text and "gs_put(" in text and "gs_fetch(x2_ptr + i_block_1 + 512, 64)" in text


@pytest.mark.parametrize("offset", range(0, 17, 3) if compiler() else [])
def test_results_lie_anywhere(offset: int) -> None:
    """A large one whose first line is a part of one, and nothing beside it is written."""
    rows, columns = 1031, 1025
    kernel = broadcast(rows, columns)
    rng = np.random.default_rng(0)
    x, bias, scale = (rng.standard_normal(n, np.float32) for n in (rows * columns * 2, columns, rows))
    memory = np.full(rows * columns + 32, 7, np.float32)
    assert "gs_stream(" in _text(kernel)
    Kernels(module_of([kernel])).run([x, bias, scale, memory[offset:]], [], 2)
    found = memory[offset : offset + rows * columns].reshape(rows, columns)
    np.testing.assert_array_equal(found, x.reshape(rows, columns, 2)[..., 0] * scale[:, None] + bias)
    assert (memory[:offset] == 7).all() and (memory[offset + rows * columns :] == 7).all()


def test_rows_whose_length_is_passed_begin_anywhere() -> None:
    """The text of 128 columns serves 61, whose rows begin in the middle of lines."""
    kernel = dynamic(broadcast(37, 128), "j")
    text = _text(kernel)
    assert "* size_j" in text and "gs_put" not in text and "gs_stream(" in text
    assert "gs_put(" in _text(dynamic(broadcast(37, 128), "i"))
