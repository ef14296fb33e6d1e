"""Calls with bools: torch's result or, where torch has none, an error; True is no int, and nothing is taken from it."""

from __future__ import annotations

import warnings

import gradscript as gs
import numpy as np
import pytest
import torch

GIVEN = {"x": np.array([1.0, 2.0, 3.0]), "m": np.array([True, False, True]), "i": np.array([1, 2, 3])}
CALLS = [
    *(f"torch.isin({a}, {b})" for a in "mxi" for b in ("m", "x", "i")),
    *(f"torch.isin({a}, 1)" for a in "mxi"),
    *(f"torch.{name}({a}, {b})" for name in ("trapezoid", "cumulative_trapezoid") for a in "mx" for b in "mx"),
    *(f"torch.{name}({a})" for name in ("trapezoid", "cumulative_trapezoid", "median", "nanmedian") for a in "mx"),
    *(f"F.threshold({a}, {b}, 0)" for a in "mxi" for b in ("1", "True")),
    *(f"{a} - {b}" for a in ("m", "x", "i", "True", "1") for b in ("m", "x", "i", "True")),
    *(f"torch.{op}({a}, {b}, alpha={n})" for op in ("add", "sub") for a in "mxi" for b in "mxi" for n in ("True", "1")),
    *(f"torch.{op}({a}, 1, alpha=True)" for op in ("add", "sub") for a in "mxi"),
    *(f"torch.rsub({a}, {b})" for a in "mxi" for b in ("m", "True", "1")),
    *(f"torch.{op}({a}, {a})" for op in ("dot", "inner", "outer", "matmul") for a in "mxi"),
    *(f"torch.trace(torch.outer({a}, {a}))" for a in "mx"),
    *(f"torch.take(x, {a})" for a in ("m", "i - 1")),
    *(f"torch.linspace(0, 1, {n})" for n in ("True", "2")),
    *(f"torch.eye({n})" for n in ("True", "2")),
    *(f"torch.repeat_interleave(x, {n})" for n in ("True", "2")),
    *(f"torch.{op}({a}, {b})" for op in ("dist", "linalg.cross", "tensordot") for a in "mx" for b in "mx"),
    *(f"torch.einsum('{equation}', {a}, {a})" for equation in ("i,i->", "i,i->i", "i,j->ij") for a in "mx"),
    *(f"torch.{op}({a})" for op in ("argmax", "argmin", "argsort") for a in "mx"),
    *(f"torch.topk({a}, 2)[0]" for a in "mx"),
    *(f"F.binary_cross_entropy({a} / 4, {b})" for a in "x" for b in ("m", "m.double()", "m.float()", "i")),
    *(f"F.binary_cross_entropy_with_logits(x, {b})" for b in ("m", "m.double()")),
    *(
        f"torch.{name}({a}, dx={n})"
        for name in ("trapezoid", "cumulative_trapezoid")
        for a in "xi"
        for n in ("True", "2")
    ),
    *(f"torch.chunk(x, {n})[0]" for n in ("True", "2")),
    *(f"torch.{op}(x, 1, {n})[0]" for op in ("chunk", "split") for n in ("False", "0")),
    *(f"x.unbind({n})[0]" for n in ("False", "0")),
    *(f"torch.stack([x, x], {n})" for n in ("False", "0")),
    *(f"F.softmin(x, {n})" for n in ("False", "0")),
    *(f"F.normalize(x, 2.0, {n})" for n in ("False", "0")),
    *(f"x.sum(dim={n})" for n in ("False", "0", "[False]", "[0]")),
    *(f"x.reshape({n})" for n in ("[True, 3]", "[1, 3]", "True, 3")),
    *(f"torch.where(m, {a}, {b})" for a in ("x", "True", "1") for b in ("i", "True", "0")),
]


@pytest.mark.parametrize("call", CALLS)
def test_what_torch_makes_of_bools(call: str) -> None:
    scope = {"torch": torch, "F": torch.nn.functional}
    scope |= {name: torch.tensor(value) for name, value in GIVEN.items()}
    text = f"def f(x, m, i):\n    y = {call}\n    return y\n"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            wanted = eval(call, scope)
        except (RuntimeError, TypeError):
            with pytest.raises((gs.CompileError, gs.RuntimeFailure)):
                gs.CompilationUnit(text).f(*GIVEN.values())
            return
    found = gs.CompilationUnit(text).f(*GIVEN.values())
    if isinstance(wanted, torch.Tensor):
        assert found.dtype == wanted.numpy().dtype
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
