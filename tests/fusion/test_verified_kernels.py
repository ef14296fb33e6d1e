"""Every kernel is verified before it is used: what a mistake of the compiler made runs op by op, and is told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gradscript as gs
import numpy as np
import pytest
from array_programs import check_fused
from gradscript.compiler.kernel_ir.index import constant
from gradscript.compiler.kernel_ir.kernel import Kernel, Load
from gradscript.compiler.scheduling.split import split_reductions
from gradscript.lang.light_dataclasses import replace
from gradscript.runtime.kernels import listing

UNIT = gs.CompilationUnit("def f(x):\n    return x[1:].exp()\n")


@pytest.fixture
def shifted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Kernels that read one row too far."""

    def split(kernel: Kernel) -> Any:
        for made in split_reductions(kernel):
            body = [replace(s, index=s.index + constant(8)) if isinstance(s, Load) else s for s in made.body]
            yield made.with_body(body)

    planned_pair = listing.planned_pair
    monkeypatch.setattr(listing, "planned_pair", lambda *planned: planned_pair(*planned[:3], split))
    monkeypatch.setattr(listing, "split_reductions", split)
    yield


def test_a_kernel_that_reads_too_far_is_not_made(shifted: None) -> None:
    with pytest.raises(gs.RuntimeFailure, match=r"no kernels: f\w*: elements 16 to 39 of 0 to 31"):
        UNIT.f.kernels(np.zeros((4, 8), np.float32))


def test_it_is_made_where_it_reads_what_is_there() -> None:
    (info,) = UNIT.f.kernels(np.zeros((4, 8), np.float32)).forward
    assert info.bytes_read == 3 * 8 * 4


EMPTY = gs.CompilationUnit("""
def layer_norm(x, w):
    return F.layer_norm(x * 2, [x.size(-1)], w)

def columns(x, w):
    return (x * w).exp().sum(0), x.sum()

def rows(x, w):
    return (x * w).mean(-1), x.norm(2.0, [-1])
""")


@pytest.mark.parametrize("shape", [(0, 8), (64, 0), (3000, 0), (0, 0)])
@pytest.mark.parametrize("name", EMPTY.functions)
@pytest.mark.filterwarnings("ignore")
def test_kernels_without_elements_are_well_formed(name: str, shape: tuple[int, int]) -> None:
    values = [np.zeros(shape), np.ones(shape[1:])]
    check_fused(EMPTY[name], values)
    assert EMPTY[name].kernels(*values).forward
