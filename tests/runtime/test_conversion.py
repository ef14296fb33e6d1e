"""What may be passed for each type of parameter, and what arrives."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import gradscript as gs
import ml_dtypes
import numpy as np
import pytest
from gradscript.compiler.types.dtypes import FLOAT16

torch = pytest.importorskip("torch")
X = np.arange(6.0).reshape(2, 3)


class Subclass(np.ndarray):  # type: ignore[type-arg]
    pass


def identity(annotation: str) -> gs.Function:
    return gs.CompilationUnit(f"def f(x: {annotation}):\n    return x\n").f


def refusal(annotation: str, value: Any) -> gs.RuntimeFailure:
    with pytest.raises(gs.RuntimeFailure) as caught:
        identity(annotation)(value)
    assert caught.value.argument == "x"
    return caught.value


# --- tensors ---

DTYPES = [bool, np.uint8, np.int8, np.int16, np.int32, np.int64, np.float16, np.float32, np.float64, ml_dtypes.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES)
def test_native_arrays_pass_as_they_are(dtype: Any) -> None:
    array = np.ones(3, dtype)
    assert identity("Tensor")(array) is array


def test_other_arrays_are_normalised() -> None:
    f = identity("Tensor")
    for value, dtype in (
        (np.ones(2, ">f8"), np.float64),
        (np.ones(2, ">i4"), np.int32),
        (np.ones(2).view(Subclass), np.float64),
        (np.float32(2.0), np.float32),
        (np.bool_(True), np.bool_),
        (1.5, np.float32),
        (2, np.int64),
        (True, np.bool_),
    ):
        result = f(value)
        assert type(result) is np.ndarray
        assert result.dtype == dtype
        assert result.dtype.isnative
        np.testing.assert_array_equal(result, np.asarray(value))


@pytest.mark.parametrize(
    ("value", "message", "note"),
    [
        (np.ones(2, complex), "dtype complex128 is not supported", "x.real"),
        (np.array([None]), "dtype object is not supported", "astype(np.float64)"),
        (np.array(["a"]), "dtype <U1 is not supported", "pass numbers"),
        (np.ones(2, np.uint32), "dtype uint32 is not supported", "astype(np.int64)"),
        (np.ones(2, np.longdouble), "is not supported", "astype(np.float64)"),
        (np.zeros(2, "M8[s]"), "dtype datetime64[s] is not supported", "pass numbers"),
        (np.zeros(2, [("a", "f8")]), "is not supported", "pass numbers"),
        (np.ma.masked_array([1.0], [True]), "masked", "x.filled(0)"),
        ([1.0, 2.0], "not a list", "np.array"),
        ([[1.0], [2.0]], "not a list", "np.array"),
        (2**70, "does not fit int64", "float"),
        ("a", "a Tensor is needed, not the str 'a'", ""),
        (object(), "a Tensor is needed, not a value of type object", ""),
    ],
)
def test_what_is_no_tensor_is_refused_with_advice(value: Any, message: str, note: str) -> None:
    text = str(refusal("Tensor", value))
    assert message in text
    assert note in text


# --- torch ---


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "bfloat16"]
)
def test_torch_tensors_share_their_memory(dtype: str) -> None:
    tensor = torch.ones(2, 3, dtype=getattr(torch, dtype))
    result = identity("Tensor")(tensor)
    assert result.dtype == tensor.dtype
    assert result.shape == tensor.shape
    assert result.data_ptr() == tensor.data_ptr()


def test_torch_in_torch_out() -> None:
    f = gs.CompilationUnit("def f(x, ys: List[Tensor], n: int):\n    return x * ys[0], [x, ys[0]], n\n").f
    product, both, n = f(torch.ones(2, dtype=torch.bfloat16), [torch.ones(2)], 3)
    assert product.dtype == torch.float32
    assert [t.dtype for t in both] == [torch.bfloat16, torch.float32]
    assert n == 3
    mixed = f(np.ones(2), (torch.ones(2),), n=1)
    assert isinstance(mixed[0], torch.Tensor)
    assert isinstance(f(np.ones(2), [np.ones(2)], 1)[0], np.ndarray)


def test_torch_views_and_gradients() -> None:
    double = gs.CompilationUnit("def f(x):\n    return x + x\n").f
    base = torch.arange(6.0).reshape(2, 3)
    for tensor in (base.t(), base[:, ::2], base.requires_grad_(), torch.nn.Parameter(base), base[0, 0], base[:0]):
        result = double(tensor)
        assert result.requires_grad == tensor.requires_grad
        assert torch.equal(result, tensor.detach() * 2)


def test_results_that_torch_cannot_view_are_copied() -> None:
    views = gs.CompilationUnit("def f(x):\n    return x.expand(4, 3), x.flip(0)\n").f
    x = torch.arange(3.0)
    expanded, flipped = views(x)
    assert expanded.stride() == (0, 1)
    assert expanded.data_ptr() == x.data_ptr()
    x[0] = 7.0
    assert flipped.tolist() == [2.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: torch.eye(2).to_sparse(), "layout torch.sparse_coo"),
        (lambda: torch.ones(2, dtype=torch.complex64), "dtype complex64"),
    ],
)
def test_torch_tensors_that_cannot_be_used(make: Any, message: str) -> None:
    error = refusal("Tensor", make())
    assert error.code == "R003"
    assert message in str(error)


def test_running_on_arrays_never_imports_torch() -> None:
    program = """
import sys, gradscript as gs
assert not {"numpy", "lark", "torch", "scipy", "ml_dtypes", "array_api_compat"} & set(sys.modules)
import numpy as np
assert gs.CompilationUnit("def f(x):\\n    return x * 2.0\\n").f(np.ones(2)).sum() == 4
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


# --- the other types ---

ACCEPTED: list[tuple[str, Any, Any]] = [
    ("int", 3, 3),
    ("int", np.int32(3), 3),
    ("int", np.uint8(3), 3),
    ("int", np.float32, 6),
    ("int", np.dtype("float64"), 7),
    ("int", torch.float32, 6),
    ("int", torch.bfloat16, 15),
    ("int", ml_dtypes.bfloat16, 15),
    ("int", FLOAT16, 5),
    ("Optional[int]", torch.bool, 11),
    ("Optional[int]", None, None),
    ("float", 3, 3.0),
    ("float", 2.5, 2.5),
    ("float", np.float64(2.5), 2.5),
    ("float", np.int64(2), 2.0),
    ("number", 3, 3),
    ("number", np.float32(0.5), 0.5),
    ("bool", True, True),
    ("bool", np.bool_(False), False),
    ("str", "a", "a"),
    ("Device", "cpu", "cpu"),
    ("Device", torch.device("cpu"), "cpu"),
    ("List[int]", (1, 2), [1, 2]),
    ("List[int]", np.array([1, 2]), [1, 2]),
    ("List[int]", torch.Size([1, 2]), [1, 2]),
    ("List[float]", [1, 2.5], [1.0, 2.5]),
    ("List[float]", np.array([1.0, 2.5]), [1.0, 2.5]),
    ("List[int]", [], []),
    ("List[List[int]]", [(1,), []], [[1], []]),
    ("Tuple[int, float]", (1, 2), (1, 2.0)),
    ("Tuple[int, float]", [1, 2], (1, 2.0)),
    ("Optional[List[int]]", None, None),
    ("None", None, None),
]


@pytest.mark.parametrize(("annotation", "value", "expected"), ACCEPTED)
def test_accepted(annotation: str, value: Any, expected: Any) -> None:
    source = f"def f(x: {annotation}):\n    return x, 0\n"
    result = gs.CompilationUnit(source).f(value)[:-1]
    result = result[0] if len(result) == 1 else result
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("annotation", "value", "message"),
    [
        ("int", 1.0, "an int is needed, not the float 1.0"),
        ("int", True, "an int is needed, not the bool True"),
        ("int", np.array(1), "x.item()"),
        ("int", torch.complex64, "dtype complex64 is not supported"),
        ("int", np.complex64, "dtype complex64 is not supported"),
        ("int", None, "an int is needed, not None"),
        ("float", True, "a float is needed, not the bool True"),
        ("float", np.ones(1), "a float is needed"),
        ("float", 10**400, "too large"),
        ("number", True, "a number is needed"),
        ("bool", 1, "a bool is needed, not the int 1"),
        ("str", 1, "a str is needed"),
        ("Device", 1, "a Device is needed"),
        ("None", 1, "None is needed, not the int 1"),
        ("List[int]", 1, "a List[int] is needed"),
        ("List[int]", np.array([1.5]), "element 0: an int is needed, not the float 1.5"),
        ("List[int]", "ab", "a List[int] is needed, not the str 'ab'"),
        ("List[Tensor]", X, "put the tensor into a list"),
        ("List[Tensor]", [X, 1j], "element 1: a Tensor is needed"),
        ("Tuple[int, float]", (1,), "not a tuple of 1 elements"),
        ("Tuple[int, float]", 1, "a Tuple[int, float] is needed"),
    ],
)
def test_refused(annotation: str, value: Any, message: str) -> None:
    assert message in str(refusal(annotation, value))
