"""Results by name: what torch's schemas name, for every op that has names there."""

from __future__ import annotations

import gradscript as gs
import numpy as np
import pytest
import torch
from eager_programs import check
from gradscript.compiler.ops.registry import OPS

NAMED = {
    op.schema.full_name: tuple(r.name for r in op.schema.returns)
    for op in OPS.all()
    if len(op.schema.returns) > 1 and op.schema.full_name.startswith("aten::")
}


@pytest.mark.parametrize("kind", NAMED)
def test_names_are_torchs(kind: str) -> None:
    base = kind.removeprefix("aten::").partition(".")[0]
    theirs = torch._C._jit_get_schemas_for_operator(f"aten::{base}")
    names = {tuple(r.name or f"result{i}" for i, r in enumerate(s.returns)) for s in theirs}
    assert NAMED[kind] in names


CALLS = {
    "torch.max(x, 0)": "values indices",
    "x.min(1, keepdim=True)": "values indices",
    "x.sort(0, True)": "values indices",
    "torch.sort(x, stable=True)": "values indices",
    "torch.topk(x, 2)": "values indices",
    "torch.kthvalue(x, 2)": "values indices",
    "x.mode(0)": "values indices",
    "x.median(1)": "values indices",
    "torch.nanmedian(x, 1)": "values indices",
    "torch.cummax(x, 0)": "values indices",
    "x.cummin(1)": "values indices",
    "torch.aminmax(x)": "min max",
    "torch.slogdet(x)": "sign logabsdet",
    "torch.linalg.slogdet(x)": "sign logabsdet",
    "torch.linalg.qr(x)": "Q R",
    "torch.qr(x)": "Q R",
    "torch.svd(x)": "U S V",
    "torch.linalg.svd(x)": "U S Vh",
    "torch.linalg.eigh(x @ x.T)": "eigenvalues eigenvectors",
}


@pytest.mark.parametrize("call", CALLS)
def test_results_by_name(call: str) -> None:
    names = CALLS[call].split()
    terms = " + ".join(f"((m.{name} * 1.0) ** 2).sum() * {i + 2}" for i, name in enumerate(names))
    check(f"def f(x):\n    m = {call}\n    return {terms}\n", "f", np.random.default_rng(3).normal(size=(3, 3)))


SOURCE = """
def best(x):
    return torch.max(x, 0)


def called(x):
    return best(x).values * best(x)[0]


def branched(x):
    if bool(x.sum() > 0):
        m = x.max(0)
    else:
        m = x.min(0)
    v, i = m
    return m.values * v


def in_a_loop(x):
    m = x.max(0)
    for i in range(2):
        m = (x * m.values).max(1)
    return m.values
"""


@pytest.mark.parametrize("name", ("called", "branched", "in_a_loop"))
def test_names_travel(name: str) -> None:
    check(SOURCE, name, np.random.default_rng(4).normal(size=(3, 3)))


@pytest.mark.parametrize(
    ("call", "note"),
    [("torch.max(x, 0).value", "did you mean 'values'?"), ("torch.qr(x).zzz", "its elements are Q, R")],
)
def test_unknown_names(call: str, note: str) -> None:
    with pytest.raises(gs.CompileError) as caught:
        gs.CompilationUnit(f"def f(x):\n    return {call}\n")
    assert caught.value.code == "E202"
    assert note in str(caught.value)


def test_without_names() -> None:
    with pytest.raises(gs.CompileError) as caught:
        gs.CompilationUnit("def f(x):\n    return torch.var_mean(x, 0).mean\n")
    assert caught.value.code == "E202"
