"""What exported modules say of the language is there in torch, or refused: never a name that torch has not."""

from __future__ import annotations

import ast

import pytest
import torch
from gradscript.authoring.export.torch_words import ATEN, FUNCTIONAL, HELPERS, METHODS, NoWords, in_torch_words
from gradscript.compiler.ops.registry import OPS
from gradscript.compiler.spelling.names import DEVICE_ATTRIBUTES, LIMITS, METHOD_ATTRIBUTES, MODULES

UNSAID = frozenset(
    (
        *DEVICE_ATTRIBUTES.values(),
        *(f"{kind}_{name}" for kind, names in LIMITS.items() for name in names),
        *(
            "Bool",
            "Delete",
            "Float",
            "FloatImplicit",
            "Int",
            "IntImplicit",
            "Print",
            "RaiseException",
            "ScalarImplicit",
        ),
        *(
            "ascii",
            "constant",
            "count",
            "floordiv",
            "format",
            "len",
            "list",
            "pop",
            "range_list",
            "recompute",
            "remove",
        ),
        *("repr", "sorted", "str", "surrogate", "unchecked_unwrap_optional", "warnings_warn"),
        *("bin", "chr", "hex", "oct", "ord", "tolist"),
        *METHOD_ATTRIBUTES,
        *(name for name in OPS.names() if name.startswith(MODULES["str"])),
    )
)
"""What source says in other words than `torch.NAME(…)`: builtins, statements, attributes."""


def test_every_op_is_said_in_words_that_torch_has() -> None:
    strange = []
    for name in sorted(set(OPS.names()) - UNSAID):
        if name.startswith(("__", "special_", "linalg_", "fft_")):
            continue
        call = ast.parse(f"torch.{name}(a, b)", mode="eval").body
        assert isinstance(call, ast.Call)
        try:
            made, helper = in_torch_words(call)
        except NoWords:
            continue
        assert not helper or helper in HELPERS
        if made is call and not hasattr(torch, name):
            strange.append(name)
    assert strange == []


def test_the_tables_are_right() -> None:
    assert all(hasattr(torch.Tensor, name) and not hasattr(torch, name) for name in METHODS)
    assert all(hasattr(torch.nn.functional, name) for name in FUNCTIONAL)
    assert all(hasattr(torch.ops.aten, name) for name in ATEN)


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        ("torch.append(ys, x + 1)", "[*ys, x + 1]"),
        ("torch._set_item(a + b, 0, x)", "_with_item(a + b, 0, x)"),
        ("torch.slice(ys, 1, None, 1)", "ys[1::1]"),
        ("torch.expand_as(x, y)", "x.expand_as(y)"),
        ("torch._updated(x * 2, y)", "(x * 2).to(y.dtype)"),
        ("torch.silu(x)", "F.silu(x)"),
        ("torch.tensordot(x, y, a, b)", "torch.tensordot(x, y, (a, b))"),
        ("rangelist(3)", "list(range(3))"),
    ],
)
def test_words(call: str, wanted: str) -> None:
    node = ast.parse(call, mode="eval").body
    assert isinstance(node, ast.Call)
    assert ast.unparse(in_torch_words(node)[0]) == wanted
