"""Random functions of rows at sizes that vary: plans for classes of sizes give what exact plans do, by few texts."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest
from amounts import some

pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parents[2] / "fusion" / "rows"))
from gradscript.runtime.kernels.c import compiler as compilers
from size_programs import calls_in_c, differences_by_meaning, sized_program

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
SPREAD = 20_011
"""Seeds lie apart from those that a campaign begins with."""
TILES = (55, 65)
"""Seeds at which softmaxes over rows and over columns take turns: rows that vary were held whole or not."""
BY_PARTS = (60_004,)
"""Seeds at which exponentials of columns are summed by parts, as many as there are rows for."""
SHORT = (0, 18, 36)
"""Seeds at which rows that vary are added up, and kept: of few points and of many."""


@pytest.mark.parametrize("seed", [*TILES, *BY_PARTS, *range(SPREAD, SPREAD + some(12))])
def test_open_plans_are_exact_ones_with_sizes_put_in(seed: int) -> None:
    counts = Counter[str]()
    assert not [*differences_by_meaning(sized_program(seed), seed, counts)]
    assert counts["the same kernel"] or counts["no kernels"]


@pytest.mark.skipif(compilers.compiler() is None, reason="needs a compiler of C")
@pytest.mark.parametrize("seed", [*SHORT, *range(SPREAD, SPREAD + some(4))])
def test_calls_in_c_give_the_bits_of_exact_plans(
    seed: int, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADSCRIPT_CACHE", str(tmp_path_factory.getbasetemp() / "sizes"))
    counts = Counter[str]()
    assert not [*calls_in_c(sized_program(seed), seed, counts)]
    assert counts["calls"]
