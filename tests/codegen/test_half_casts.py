"""What becomes a half does so by way of float32, as torch converts; what has 8 bits is in a half what it is."""

from __future__ import annotations

import gradscript as gs
import ml_dtypes
import numpy as np
import pytest
from gradscript.compiler.codegen.triton.primitives import Text, cast, spelling
from gradscript.compiler.kernel_ir.interpret import run_kernel
from gradscript.compiler.types.dtypes import (
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT64,
    UINT8,
    DType,
)


@pytest.mark.parametrize("half", [FLOAT16, BFLOAT16])
@pytest.mark.parametrize("dtype", [BOOL, UINT8, INT64, FLOAT64])
def test_texts_of_casts(dtype: DType, half: DType) -> None:
    assert cast(Text("x"), dtype, half).text == f"x.to(tl.float32).to(tl.{half.name})"
    assert cast(Text("x"), FLOAT32, half).text == f"x.to(tl.{half.name})"


def test_a_double_is_rounded_twice() -> None:
    # Just above a tie of bfloat16, and just that tie in float32: it rounds to the even one, as in torch.
    x = np.array([1 + 2.0**-8 + 2.0**-40])
    function = gs.CompilationUnit("def f(x):\n    return x.to(torch.bfloat16)\n").f
    (info,) = function.kernels(x).forward
    (found,) = run_kernel(info.kernel, {"x": x}).values()
    assert found.dtype == ml_dtypes.bfloat16 and float(found[0]) == 1.0


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint8])
def test_eight_bits_are_not_rounded(dtype: type) -> None:
    function = gs.CompilationUnit("def f(x, m):\n    return x * m.to(x.dtype)\n").f
    x, m = np.ones(3, ml_dtypes.bfloat16), np.ones(3, dtype)
    (info,) = function.kernels(x, m).forward
    assert "m = tl.load(m_ptr + i, mask=mask).to(tl.float32)\n" in info.text and "bfloat16" not in info.text


def test_the_complement_of_bytes_is_one_that_the_interpreter_has() -> None:
    assert spelling("not", UINT8).apply([Text("x")]).text == "x ^ 255"
    assert spelling("not", INT64).apply([Text("x")]).text == "~x"
