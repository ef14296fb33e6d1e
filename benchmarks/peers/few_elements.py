"""What a call on few elements costs: formulas of ours beside a `torch.autograd.Function` of the same, written by hand.

python benchmarks/peers/few_elements.py                 all of inputs/few_elements.grad
python benchmarks/peers/few_elements.py soft ordered    some of them

Forward alone and both passes, by `f(x)`, by the op that `gs.torch_op` gives and by that op's name: processor time of a
call, the least of turns taken one after the other, as a multiple of the Function's, which `--limit` is to bound.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gradscript as gs
import torch
from hand_written import ARGUMENTS, HAND_WRITTEN

SOURCE = Path(__file__).parents[1] / "inputs" / "few_elements.grad"
TURNS, CALLS, WARM = 40, 40, 6
Work = Callable[[], object]


def _forward(function: Callable[..., Any], arguments: Sequence[Any]) -> Work:
    return lambda: function(*arguments)


def _both(function: Callable[..., Any], arguments: Sequence[Any]) -> Work | None:
    """Both passes; None of what has no gradient."""
    leaves = [value for value in arguments if isinstance(value, torch.Tensor) and value.requires_grad]
    results = function(*arguments)
    if not (results[0] if isinstance(results, tuple) else results).requires_grad:
        return None
    seeds = [torch.ones_like(result) for result in (results if isinstance(results, tuple) else (results,))]
    return lambda: torch.autograd.grad(function(*arguments), leaves, seeds, allow_unused=True)


def _microseconds(works: Mapping[str, Work], turns: int) -> dict[str, float]:
    taken: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        for _ in range(WARM):
            work()
    for _ in range(turns):
        for name, work in works.items():
            began = time.process_time_ns()
            for _ in range(CALLS):
                work()
            taken[name].append((time.process_time_ns() - began) / CALLS / 1e3)
    return {name: min(times) for name, times in taken.items()}


def _ratios(works: Mapping[str, Work | None], turns: int) -> tuple[float, dict[str, float]] | None:
    there = {name: work for name, work in works.items() if work is not None}
    if len(there) < len(works):
        return None
    taken = _microseconds(there, turns)
    hand = taken.pop("by hand")
    return hand, {name: time / hand for name, time in taken.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("names", nargs="*", default=[])
    parser.add_argument("--limit", type=float, default=1.2)
    parser.add_argument("--turns", type=int, default=TURNS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    unit = gs.CompilationUnit(SOURCE.read_text(encoding="utf-8"), SOURCE.name)
    over = []
    print(f"{'':18}{'by hand, µs':>12}{'f':>6}{'op':>6}{'name':>6}{'both, µs':>12}{'f':>6}{'op':>6}{'name':>6}")
    for name in given.names or HAND_WRITTEN:
        arguments, function = ARGUMENTS[name], unit[name]
        ways = {
            "by hand": HAND_WRITTEN[name].apply,
            "f": function,
            "op": gs.torch_op(function, f"few_elements::{name}"),
            "name": getattr(torch.ops.few_elements, name),
        }
        line, worst = f"{name:18}", 0.0
        for passes in (_forward, _both):
            found = _ratios({way: passes(call, arguments) for way, call in ways.items()}, given.turns)
            if found is not None:
                line += f"{found[0]:12.1f}" + "".join(f"{ratio:6.2f}" for ratio in found[1].values())
                worst = max(worst, *found[1].values())
        over += [name] if worst > given.limit else []
        print(f"{line}{'  over' if worst > given.limit else ''}", flush=True)
    count = len(given.names or HAND_WRITTEN)
    print(f"{count - len(over)} of {count} hold {given.limit}; over it: {', '.join(over) or 'none'}")


if __name__ == "__main__":
    main()
