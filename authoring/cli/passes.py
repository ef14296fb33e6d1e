"""What passes do while a stage of a function is made: `gradscript show --dump-passes` and `--time-passes`."""

from __future__ import annotations

from ...compiler.pipeline import Observation, observed
from ...lang.light_dataclasses import dataclass, field
from ...runtime.face.function import Function
from ...runtime.values.text_tables import table

STAGE = "optimized"
"""The stage for which all of them run."""


@dataclass(slots=True)
class _Times:
    runs: int = 0
    changes: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class PassLog:
    """The passes that ran: graphs after those that changed something, and times by recipe and pass."""

    graphs: list[str] = field(default_factory=list)
    times: dict[tuple[str, str], _Times] = field(default_factory=dict)

    def __call__(self, step: Observation) -> None:
        times = self.times.setdefault((step.recipe, step.pass_name), _Times())
        times.runs += 1
        times.changes += step.changed
        times.seconds += step.seconds
        if step.changed:
            self.graphs.append(f"# {step.recipe}: {step.pass_name}\n{step.graph}")

    def table(self) -> str:
        """Times of passes, in the order in which they first ran; the check between two of them is not counted."""
        rows = [
            [recipe, name, str(t.runs), str(t.changes), f"{t.seconds * 1e3:.3f}"]
            for (recipe, name), t in self.times.items()
        ]
        total = sum(t.seconds for t in self.times.values())
        rows.append(["", "", "", "", f"{total * 1e3:.3f}"])
        return table(["recipe", "pass", "runs", "changed", "ms"], rows)


def log_passes(function: Function, stage: str = STAGE) -> PassLog:
    """Make a stage of a function, and keep what each pass did. ValueError for a stage that it does not have."""
    log = PassLog()
    with observed(log):
        function.show(stage)
    return log
