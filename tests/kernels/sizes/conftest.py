"""What tests of plans for classes of sizes begin with: kernels in C, and a count of what is planned."""

from __future__ import annotations

from collections.abc import Iterator

import gradscript as gs
import pytest
from gradscript.runtime.kernels.c.planned import PlannedProgram


@pytest.fixture
def in_c(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("GRADSCRIPT_CACHE", str(tmp_path_factory.getbasetemp() / "sizes"))
    with gs.settings.backend("c"):
        yield


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """One for each program that is planned, whether its sizes are open or not."""
    found: list[object] = []
    init = PlannedProgram.__init__
    monkeypatch.setattr(PlannedProgram, "__init__", lambda self, *given: found.append(1) or init(self, *given))
    return found
