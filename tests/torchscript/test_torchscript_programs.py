"""Random programs give what torch.jit.script makes of them, errors included, and print as themselves."""

from __future__ import annotations

from pathlib import Path

import gradscript as gs
import pytest
import torch
from amounts import some
from scripted import copied, python_function, same
from torchscript_programs import generate

PROGRAMS = some(60)


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_as_torchscript(seed: int, tmp_path: Path) -> None:
    text, calls = generate(seed)
    unit = gs.CompilationUnit(text)
    assert gs.CompilationUnit(unit.code).code == unit.code
    scripted = torch.jit.script(python_function(tmp_path, text))
    for arguments in calls:
        try:
            expected = scripted(*copied(arguments))
        except (RuntimeError, torch.jit.Error):
            with pytest.raises(gs.RuntimeFailure):
                unit.f(*copied(arguments))
            continue
        found = unit.f(*copied(arguments))
        assert same(expected, found), (text, expected, found)
