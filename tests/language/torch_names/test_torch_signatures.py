"""Every signature that torch declares for a function or method of ours compiles; every public function of
torch.nn.functional is there, or stands in ABSENT with the reason."""

from __future__ import annotations

import inspect
import re

import gradscript as gs
import pytest
import torch
from gradscript.compiler.ops import OPS
from gradscript.compiler.spelling.names import op_name
from torch_stubs import Signature, signatures

TORCH = signatures("_C/_VariableFunctions.pyi")
METHODS = signatures("_C/__init__.pyi", "TensorBase")

_DEPRECATED = re.compile(
    r"torch\.add(\w*)\((x, )?(0\.5|2), (self=)?(x|mat|batch|vec)|torch\.(add|sub)\(x, (2|0\.5), x|"
    r"torch\.(add|badd)\w+\((0\.5|2), |torch\.addc\w+\(x, (0\.5|2), |"
    r"torch\.(lin|log)space\(2, (end=)?2(\)|, (steps=)?None)|"
    r"\((2|0\.5), \w+=x\)"
)
_LOSSES = ("cosine_embedding", "hinge_embedding", "margin_ranking", "poisson_nll", "triplet_margin")
NOT_TAKEN: dict[str, str] = {
    "out_dtype": "only on CUDA",
    "alpha=None": "the stub is wider than torch",
    **dict.fromkeys(
        ("linspace(x", "linspace(2, x", "linspace(2, end=x", "linspace(0.5, "), "a tensor as start or end: use .item()"
    ),
    **dict.fromkeys(("logspace(x", "logspace(2, x", "logspace(2, end=x", "logspace(0.5, "), "as linspace"),
    **dict.fromkeys(
        tuple(f"torch.{loss}_loss(" for loss in _LOSSES), "reduction by its code: torch.nn.functional has the name"
    ),
    **dict.fromkeys(("torch.alpha_dropout(", "torch.feature_alpha_dropout("), "as in torch.nn.functional"),
    "floor_divide(2, ": "write torch.full_like(x, number) // x",
    "floor_divide(0.5, ": "as above",
    "tensor_split(x, x": "a tensor of indices: use a list",
    "x.tensor_split(x": "as above",
    "tensor_split(tensor_indices": "as above",
    "tensor_indices_or_sections": "as above",
    "result_type(": "its parameters have no names",
    "new_ones([1, 1], ": "dtype is named",
    "new_ones((1, 1), ": "dtype is named",
    "randint_like(x, x": "a tensor as the end: use .item()",
    "randint_like(x, high=x": "as above",
    "size(None)": "write size()",
    "size(dim=None)": "write size()",
    "stride(None)": "write stride()",
    "stride(dim=None)": "write stride()",
    "(0.5, x, alpha=2)": "alpha scales a tensor",
    "(2, x, alpha=2)": "alpha scales a tensor",
    "(0.5, other=x, alpha=2)": "alpha scales a tensor",
    "(2, other=x, alpha=2)": "alpha scales a tensor",
    "(0.5, x, rounding_mode=": "write x.reciprocal() * number, rounded",
    "(2, x, rounding_mode=": "as above",
    "(0.5, other=x, rounding_mode=": "as above",
    "(2, other=x, rounding_mode=": "as above",
    "mm(x, x, torch.float64": "only on CUDA",
    "mm(x, x, x, torch.float64": "only on CUDA",
    "x.tolist()": "its type says what it gives: `values: List[float] = x.tolist()`",
    "torch.view_copy(x, dtype=torch.float64": "bits read as another dtype: no op of numbers",
    "torch.view_copy(x, torch.float64": "bits read as another dtype: no op of numbers",
    "x.view(torch.float64": "bits read as another dtype: no op of numbers",
}
"""Spellings of torch's that are refused, by a part of them, and what to do instead."""

_WEIGHTED_BY_CALLER = "takes a Python function"
_RANDOM = "random"
_MACHINERY = "no operation: machinery of the module"
ABSENT: dict[str, str] = {
    **dict.fromkeys(("fractional_max_pool2d", "fractional_max_pool3d", "gumbel_softmax"), _RANDOM),
    **dict.fromkeys(("fractional_max_pool2d_with_indices", "fractional_max_pool3d_with_indices"), _RANDOM),
    "triplet_margin_with_distance_loss": _WEIGHTED_BY_CALLER,
    "multi_head_attention_forward": "a module in disguise: linear and scaled_dot_product_attention",
    **dict.fromkeys(("grouped_mm", "scaled_mm", "scaled_grouped_mm"), "float8 and grouped matrices on CUDA"),
    "conv_tbc": "conv1d with the dimensions in another order",
    "native_channel_shuffle": "channel_shuffle for one backend",
    "assert_int_or_pair": _MACHINERY,
    "boolean_dispatch": _MACHINERY,
    **dict.fromkeys(("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic"), _MACHINERY),
    "handle_torch_function": _MACHINERY,
}
"""Functions of torch.nn.functional that are not here, and why."""


def _failures(name: str, texts: list[str]) -> list[str]:
    """The calls that do not compile, of one function; all in one unit."""
    source = "".join(f"def f{i}(x):\n    return {text}\n" for i, text in enumerate(texts))
    try:
        gs.CompilationUnit(source)
    except gs.CompileError as error:
        return [d.span.source.text.splitlines()[d.span.line - 1].strip() for d in error.diagnostics]
    return []


def _calls(signature: Signature, prefix: str, is_method: bool) -> list[str]:
    try:
        found = [f"{prefix}{signature.name}({arguments})" for arguments in signature.calls(is_method)]
    except KeyError:
        return []
    return [t for t in dict.fromkeys(found) if not _DEPRECATED.search(t) and not any(n in t for n in NOT_TAKEN)]


def _grouped(table: tuple[Signature, ...], prefix: str, is_method: bool) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for signature in table:
        if OPS.overloads(signature.name) and not signature.name.startswith("_"):
            grouped.setdefault(signature.name, []).extend(_calls(signature, prefix, is_method))
    return {name: list(dict.fromkeys(calls)) for name, calls in grouped.items() if calls}


FUNCTIONS = _grouped(TORCH, "torch.", False)
OF_TENSORS = _grouped(METHODS, "x.", True)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name: str) -> None:
    assert _failures(name, FUNCTIONS[name]) == []


@pytest.mark.parametrize("name", OF_TENSORS)
def test_method(name: str) -> None:
    assert _failures(name, OF_TENSORS[name]) == []


def test_signatures_are_found() -> None:
    assert len(FUNCTIONS) > 300
    assert len(OF_TENSORS) > 250
    assert sum(map(len, FUNCTIONS.values())) > 1200


def _public_functions() -> list[str]:
    module = torch.nn.functional
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and callable(value)
        and not inspect.isclass(value)
        and getattr(value, "__module__", None) != "typing"
    ]


def test_every_public_function_of_torch_nn_functional_is_there_or_says_why_not() -> None:
    names = _public_functions()
    absent = {name for name in names if op_name("F", name) is None and not name.endswith("_")}
    assert absent == {name for name in ABSENT if hasattr(torch.nn.functional, name)}
    assert len(names) - len(absent) > 100


@pytest.mark.parametrize("name", [name for name in _public_functions() if name.endswith("_")])
def test_functions_in_place_are_refused(name: str) -> None:
    with pytest.raises(gs.CompileError):
        gs.CompilationUnit(f"def f(x):\n    return F.{name}(x)\n")


def test_parameters_of_torch_nn_functional() -> None:
    """Every parameter of torch's is one of ours, but for those that only have their default."""
    missing: dict[str, set[str]] = {}
    for name in _public_functions():
        found = op_name("F", name)
        if found is None:
            continue
        try:
            theirs = set(inspect.signature(getattr(torch.nn.functional, name)).parameters)
        except ValueError:
            continue
        ours = {a.name for op in OPS.overloads(found) for a in op.schema.arguments} | {"input", "inplace"}
        absent = theirs - ours - {"size_average", "reduce", "_stacklevel", "return_indices", "out", "args", "kwargs"}
        if absent:
            missing[name] = absent
    assert missing == KNOWN_MISSING


KNOWN_MISSING = {name: {"weight"} for name in ("mse_loss", "l1_loss", "huber_loss")}
KNOWN_MISSING |= {"linear_cross_entropy": {"options"}}
"""Weights of elements: multiply the loss without reduction. How much is computed at a time changes no value."""


@pytest.mark.parametrize(
    "expression",
    [
        "torch.zeros([2], pin_memory=True)",
        "torch.zeros_like(x, pin_memory=True)",
        "torch.tensor([1.0], requires_grad=True)",
        "torch.tensor([1.0], requires_grad=x.requires_grad)",
        "x.contiguous(memory_format=torch.channels_last)",
        "x.clone(memory_format=torch.channels_last)",
        "x.to(torch.float32, memory_format=torch.channels_last)",
        "torch.empty_like(x, memory_format=torch.channels_last)",
    ],
)
def test_what_would_be_left_out_of_account_is_refused(expression: str) -> None:
    with pytest.raises(gs.CompileError, match="has no effect here but at its default") as caught:
        gs.CompilationUnit(f"def f(x):\n    return {expression}\n")
    assert caught.value.code == "E204"


@pytest.mark.parametrize(
    "expression",
    [
        "torch.zeros([2], pin_memory=False, layout=torch.strided)",
        "torch.zeros_like(x, layout=torch.strided, memory_format=torch.preserve_format)",
        "torch.tensor([1.0], requires_grad=False)",
        "x.contiguous(memory_format=torch.contiguous_format)",
        "x.to(torch.float32, False, True, memory_format=None)",
    ],
)
def test_defaults_may_be_said(expression: str) -> None:
    x = torch.ones(2, 3)
    found = gs.CompilationUnit(f"def f(x):\n    return {expression}\n").f(x)
    torch.testing.assert_close(found, eval(expression, {"torch": torch, "x": x}))


@pytest.mark.parametrize("expression", ["x.size(0).sum()", "torch.sum(x.dim())", "x.dim().max()", "max(x.dim())"])
def test_a_number_is_no_list(expression: str) -> None:
    with pytest.raises(gs.CompileError, match=r"does not take \(int\)|a int has no method"):
        gs.CompilationUnit(f"def f(x):\n    return {expression}\n")
