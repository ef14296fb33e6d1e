"""The formulas: one `.grad` file per family, in the language itself. There is no Python here but this reader."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path


@cache
def formula_files() -> dict[str, str]:
    """File name → text of every formula file, in name order."""
    found = sorted((f for f in files(__package__).iterdir() if f.name.endswith(".grad")), key=lambda f: f.name)
    return {f.name: f.read_text(encoding="utf-8") for f in found}


def path_of(filename: str) -> Path:
    """Where one of them stands."""
    return Path(__file__).parent / filename
