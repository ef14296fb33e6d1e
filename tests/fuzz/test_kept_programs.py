"""Programs that failed once, made small, on every road."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from fuzzed_program import FuzzedProgram
from gradscript.compiler.pipeline import observed
from roads import ROADS
from running import failures
from subject import Subject

KEPT = sorted((Path(__file__).parent / "kept").glob("*.grad"))


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_kept_programs_give_what_torch_gives(path: Path) -> None:
    subject = Subject(FuzzedProgram(path.read_text(encoding="utf-8")))
    found = [str(failure) for failure in failures(subject, list(ROADS))]
    assert not found, "\n\n".join(found)


# Loops in loops, results taken out of tuples, lists of which a gradient is missing.
@pytest.mark.parametrize("name", ["loops_state_is_differentiated", "assigned_where_not_left", "gradients_of_rows_meet"])
def test_what_passes_leave_is_valid_on_the_way_to_kernels_too(name: str) -> None:
    subject = Subject(FuzzedProgram((KEPT[0].parent / f"{name}.grad").read_text(encoding="utf-8")))
    for road in ("C kernels", "kernels", "second order recomputed", "left in the middle"):
        with observed(lambda step: None):
            ROADS[road](subject)
