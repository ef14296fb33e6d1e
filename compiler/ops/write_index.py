"""The index of the families, written: `make tables`, which is due when a family declares another name."""

from __future__ import annotations

import json

from .index import KEPT, file_of
from .registry import OPS


def index_text() -> str:
    """The index of what the families declare now."""
    names: dict[str, list[str]] = {}
    sizes: dict[str, int] = {}
    ops: list[str] = []
    for family, declared, spellings in OPS.by_family():
        sizes[family] = file_of(family).stat().st_size
        ops += declared
        for name in spellings:
            names.setdefault(name, []).append(family)
    return json.dumps({"sizes": sizes, "names": names, "ops": ops}, separators=(",", ":"))


if __name__ == "__main__":
    KEPT.write_text(index_text(), encoding="utf-8")
