"""gs.compiler_debug: what the compiler did, counted and shown, and passes of one's own in its pipeline."""

from __future__ import annotations

from ..execution.function_executor import choose_aggregation, register_pass
from ..execution.last_plan import last_executed_graph
from ..settings.counters import counters, reset_counters

__all__ = ["choose_aggregation", "counters", "last_executed_graph", "register_pass", "reset_counters"]
