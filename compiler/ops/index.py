"""Which families declare a name, so that only those are loaded which a program uses: `make tables` writes index.json.

A family whose file is not as it was then is no longer known by it: it is loaded with the first op, whatever that is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path

_HERE = Path(__file__).parent
KEPT = _HERE / "index.json"


class OpIndex:
    """What the families declare, as far as the package knows without loading them."""

    def __init__(self, families: Iterable[str], path: Path = KEPT) -> None:
        data = json.loads(path.read_bytes()) if path.exists() else {"sizes": {}, "names": {}, "ops": []}
        sizes: Mapping[str, int] = data["sizes"]
        self.families = tuple(families)
        self.names: Mapping[str, list[str]] = data["names"]
        """By name, the families that declare it, in the order in which they are loaded."""
        self.ops: list[str] = data["ops"]
        """The full name of every op in the order declared."""
        self.unknown = tuple(f for f in self.families if sizes.get(f) != file_of(f).stat().st_size)
        """Families that are not as the index says."""

    @cached_property
    def places(self) -> dict[str, int]:
        """By full name, the place of an op among all."""
        return {name: place for place, name in enumerate(self.ops)}


def file_of(family: str) -> Path:
    """The file of a family, such as `nn.losses`."""
    return _HERE / "families" / f"{family.replace('.', '/')}.py"
