"""gs.random: the seeds that calls draw, for the process or for a block of one thread or task."""

from __future__ import annotations

from ..settings.random import local_seed, manual_seed

__all__ = ["local_seed", "manual_seed"]
