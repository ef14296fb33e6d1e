"""`l[a:b] = items` and `del l[a:b]` do what Python does, through every name of the list."""

from __future__ import annotations

import gradscript as gs
import numpy as np
import pytest
import torch

X = np.arange(4.0).reshape(2, 2)
CHANGES = (
    "l[1:2] = [x * 9, x * 8]",
    "l[:] = [e * 2 for e in l]",
    "l[i:] = []",
    "l[2:1] = [x * 7]",
    "l[-2:-1] = l",
    "l[:i] = l[1:]",
    "del l[1:]",
    "del l[:-7]",
    "del l[i:5]",
    "del l[0], l[:1]",
)


@pytest.mark.parametrize("change", CHANGES)
def test_a_slice_of_a_list_is_replaced_and_deleted(change: str) -> None:
    text = f"""
def f(x, i):
    l = [x * 1, x * 2, x * 3]
    k = l
    {change}
    l.append(x * 5)
    k[0].mul_(2)
    k[-1] += l[0]
    return k
"""
    scope: dict = {}
    exec(text, scope)
    f = gs.CompilationUnit(text.replace("x, i", "x, i: int")).f
    for i in (1, -1):
        wanted, found = scope["f"](torch.tensor(X), i), f(X, i)
        assert len(found) == len(wanted)
        for value, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(value, other.numpy())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("l[::2] = [x]", "an assignment to a slice of a list with a step"),
        ("l[1:] = x", "a slice of a list becomes a Tensor"),
        ("m = [1]\n    m[1:] = [1.5]", "a slice of a List"),
        ("l[1:] = [1]", "an assignment to a slice does not take"),
        ("del l[n:]", "deleting a slice whose bounds may be None"),
    ],
)
def test_what_no_slice_becomes_is_told(change: str, message: str) -> None:
    with pytest.raises(gs.CompileError, match=message):
        gs.CompilationUnit(f"def f(x, n: Optional[int]):\n    l = [x, x]\n    {change}\n    return l\n")
