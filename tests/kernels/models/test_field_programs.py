"""Programs of many fields to second order, beside torch in float64, and texts that serve sizes that vary."""

from __future__ import annotations

import warnings

import gradscript as gs
import pytest
from amounts import some_of
from data_programs import compare, to_second_order
from field_programs import DECIDED_BY_THE_HOST, PROGRAMS, UNIT, eager_field, field_arguments
from gradscript.runtime.kernels.runner import KernelGraph
from gradscript.runtime.kernels.triton.kernel import TritonKernel
from kernel_device import kernel_device

SIZES = (2, 3, 5, 6, 7, 9)
"""The first two tell what varies, the next two begin classes, where no test before had others; further ones have their
texts."""


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("name", some_of(PROGRAMS))
def test_on_a_processor(name: str, backend: str) -> None:
    wanted = to_second_order(eager_field(name), field_arguments(name, 1))
    with gs.settings.backend(backend), warnings.catch_warnings():
        warnings.filterwarnings("error", message="kernels in C cannot be built", category=RuntimeWarning)
        compare(to_second_order(UNIT[name], field_arguments(name, 1)), wanted)


@pytest.mark.parametrize("name", some_of(PROGRAMS))
def test_by_the_reference_and_nothing_op_by_op(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = to_second_order(eager_field(name), field_arguments(name, 2))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*op by op", category=RuntimeWarning)
        with kernel_device(monkeypatch) as runs:
            compare(to_second_order(UNIT[name], field_arguments(name, 2)), wanted)
    assert runs.kernels


@pytest.mark.parametrize("name", some_of(DECIDED_BY_THE_HOST))
def test_further_sizes_have_the_texts_of_those_before(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of both passes; what kernels compute is asked elsewhere."""
    texts: set[str] = set()
    counts = []
    monkeypatch.setattr(TritonKernel, "launch", lambda kernel, *given: texts.add(kernel.text))
    with kernel_device(monkeypatch, KernelGraph):
        for n in SIZES:
            result = UNIT[name](*field_arguments(name, 0, n))
            result.backward()
            counts.append(len(texts))
    assert counts[0] > 0
    assert counts[-1] <= counts[3] + 2
    assert counts[-1] <= 4 * counts[0]
