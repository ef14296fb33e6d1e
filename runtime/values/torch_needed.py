"""torch, where something cannot do without it."""

from __future__ import annotations

import importlib.util


def require_torch(what: str) -> None:
    """ModuleNotFoundError, with what to do, where torch is not installed."""
    if importlib.util.find_spec("torch") is None:
        raise ModuleNotFoundError(f"{what} needs torch: `pip install 'gradscript[torch]'`", name="torch")
