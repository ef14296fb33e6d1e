"""Random functions at random sizes, by plans for classes of sizes and by exact ones: `make sizes ARGS="--minutes=10"`.

Of each random function of rows (fusion/rows/row_programs.py), with the number of rows and other outer sizes varying:

    by meaning    plans for open sizes, closed for others for which their guards hold, beside exact plans, for GPUs and
                  processors: the same kernels, or the same numbers to the bit where these are run by their meaning
    in C          values and gradients to the bit, texts of each kernel, and plans made for sizes that came later

What differs is printed, the first two of a kind, and counted.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parents[1] / "support"), str(HERE.parents[1] / "fusion" / "rows"), str(HERE)]

from size_programs import calls_in_c, differences_by_meaning, sized_program  # noqa: E402

TOLD = 2


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="make sizes", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--programs", type=int, default=10**9, help="stop after so many")
    parser.add_argument("--seed", type=int, default=0, help="the first program's")
    parser.add_argument("--roads", default="meaning,c", help="one of the two, or both")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", RuntimeWarning)
    end, seed, kinds, counts = time.monotonic() + 60 * options.minutes, options.seed, Counter[str](), Counter[str]()
    while time.monotonic() < end and seed < options.seed + options.programs:
        for what, source in _faults(seed, options.roads.split(","), counts):
            kind = re.sub(r"%\S+", "%", re.sub(r"\d[\d.e+-]*", "#", what.splitlines()[0]))[:100]
            kinds[kind] += 1
            if kinds[kind] <= TOLD:
                print(f"=== seed {seed}: {what}\n{source}", flush=True)
        seed += 1
    print(f"{seed - options.seed} programs, seeds {options.seed} to {seed - 1}: {dict(counts)}")
    for kind, count in kinds.most_common():
        print(f"{count:6}  {kind}")
    return min(len(kinds), 1)


def _faults(seed: int, roads: Sequence[str], counts: Counter[str]) -> Iterator[tuple[str, str]]:
    program = sized_program(seed)
    for name, road in (("meaning", differences_by_meaning), ("c", calls_in_c)):
        if name not in roads:
            continue
        try:
            for found in road(program, seed, counts):
                yield f"{name}: {found}", program.source
        except Exception as error:
            yield f"{name}: {type(error).__name__}: {error}", program.source


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
