"""Random functions of rows planned for as long as is asked: `make plans ARGS="--minutes=10 --seed=0"`.

Each is planned both ways, forward and backward, for GPUs and for processors, at sizes on both sides of the planner's
thresholds; and run, with thresholds that small arrays reach, beside torch in float64, unless it is to be planned only.
What has no kernels, or other numbers, is printed, the first two of a kind, and counted.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from gradscript.compiler.types.dtypes import BFLOAT16, FLOAT16, FLOAT32

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "support")]

from row_program_running import SPLITS, difference, few_elements, planned_by  # noqa: E402
from row_programs import SMALL, row_program  # noqa: E402

TOLD = 2
DTYPES = (FLOAT32, BFLOAT16, FLOAT32, FLOAT16)
"""Of floating arguments: of programs that are planned, in turn."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="make plans", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--programs", type=int, default=10**9, help="stop after so many")
    parser.add_argument("--seed", type=int, default=0, help="the first program's")
    parser.add_argument("--plan-only", action="store_true", help="run nothing, and try thrice as many")
    options = parser.parse_args(arguments)
    end, seed, kinds = time.monotonic() + 60 * options.minutes, options.seed, Counter[str]()
    while time.monotonic() < end and seed < options.seed + options.programs:
        for what, source in _faults(seed, options.plan_only):
            kind = re.sub(r"%\S+", "%", re.sub(r"\d[\d.e+-]*", "#", what.splitlines()[0]))[:120]
            kinds[kind] += 1
            if kinds[kind] <= TOLD:
                print(f"=== seed {seed}: {what}\n{source}", flush=True)
        seed += 1
    print(f"{seed - options.seed} programs, seeds {options.seed} to {seed - 1}")
    for kind, count in kinds.most_common():
        print(f"{count:6}  {kind}")
    return min(len(kinds), 1)


def _faults(seed: int, plan_only: bool) -> Iterator[tuple[str, str]]:
    program, dtype = row_program(seed), DTYPES[seed % len(DTYPES)]
    try:
        for _pair in planned_by(program, SPLITS.values(), dtype):
            pass
    except Exception as error:
        yield f"{program.shape} {dtype}: {type(error).__name__}: {error}", program.source
    if plan_only:
        return
    program = row_program(seed, SMALL)
    with few_elements() as split:
        try:
            found = difference(program, split, seed)
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
    if found:
        yield f"{program.shape} run: {found}", program.source


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
