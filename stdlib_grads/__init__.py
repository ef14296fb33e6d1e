"""The formulas: one `.grad` file per family, in the language itself. There is no Python here but this reader."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

_HERE = os.path.dirname(__file__)
"""The package is installed as files: `importlib.resources` would load what unpacks archives, which takes a while."""


@cache
def formula_files() -> dict[str, str]:
    """File name → text of every formula file, in name order."""
    return {name: _read(name) for name in sorted(os.listdir(_HERE)) if name.endswith(".grad")}


def path_of(filename: str) -> Path:
    """Where one of them stands."""
    return Path(_HERE) / filename


def _read(name: str) -> str:
    with open(os.path.join(_HERE, name), encoding="utf-8") as file:
        return file.read()
