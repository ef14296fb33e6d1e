"""Kernels in C, built and run: odd, tiny, prime, long, broadcast, strided and empty shapes."""

from __future__ import annotations

import pytest
from c_kernel_running import CASES, assert_as_meant
from gradscript.runtime.kernels.c.compiler import compiler
from kernel_cases import Case


@pytest.mark.parametrize("case", CASES if compiler() else [], ids=lambda case: case.name)
@pytest.mark.parametrize("threads", [1, 3])
def test_kernels_compute_what_they_mean(case: Case, threads: int) -> None:
    assert_as_meant(case, threads)
