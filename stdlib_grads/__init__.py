"""The formulas: one `.grad` file per family, in the language itself; `nn/` has those of torch.nn.functional.

There is no Python here but this reader.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

_HERE = os.path.dirname(__file__)
"""The package is installed as files: `importlib.resources` would load what unpacks archives, which takes a while."""
_FOLDERS = (_HERE, os.path.join(_HERE, "nn"))


@cache
def formula_files() -> dict[str, str]:
    """File name → text of every formula file, in name order."""
    found = ((name, folder) for folder in _FOLDERS for name in os.listdir(folder) if name.endswith(".grad"))
    return {name: _read(os.path.join(folder, name)) for name, folder in sorted(found)}


def path_of(filename: str) -> Path:
    """Where one of them stands."""
    return next(path for folder in reversed(_FOLDERS) if (path := Path(folder) / filename).is_file())


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()
