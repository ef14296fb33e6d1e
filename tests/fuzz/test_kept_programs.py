"""Programs that failed once, made small, on every road."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from fuzzed_program import FuzzedProgram
from roads import ROADS
from running import failures
from subject import Subject

KEPT = sorted((Path(__file__).parent / "kept").glob("*.grad"))


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_kept_programs_give_what_torch_gives(path: Path) -> None:
    subject = Subject(FuzzedProgram(path.read_text(encoding="utf-8")))
    found = [str(failure) for failure in failures(subject, list(ROADS))]
    assert not found, "\n\n".join(found)
