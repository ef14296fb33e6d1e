"""Random programs on every road for as long as is asked: `make fuzz ARGS="--minutes=10 --seed=0 --roads=tape,vjp"`.

Each failure is shrunk and printed: the program, the road, and what it gave beside torch's answer. One failure of a
road and kind is told; further ones that begin alike are counted. `--keep` writes what was shrunk to tests/fuzz/kept.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]

from fuzzed_program import FuzzedProgram  # noqa: E402
from program_writer import ProgramWriter  # noqa: E402
from roads import ROADS  # noqa: E402
from running import Failure, failures, gist, is_sound, shrunk  # noqa: E402
from subject import Subject  # noqa: E402

KEPT = HERE / "kept"


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    roads = options.roads or list(ROADS)
    end = time.monotonic() + 60 * options.minutes
    seed, told, ran, unsound = options.seed, Counter[str](), 0, 0
    while time.monotonic() < end and ran < options.programs:
        source = ProgramWriter(seed).program().source
        seed += 1
        if not is_sound(source):
            unsound += 1
            continue
        ran += 1
        for failure in failures(Subject(FuzzedProgram(source)), roads):
            key = f"{failure.road}: {failure.kind}: {gist(failure.message) if failure.kind != 'mismatch' else ''}"
            told[key] += 1
            if told[key] <= options.each:
                _tell(seed - 1, failure, options)
    print(f"{ran} programs on {len(roads)} roads, seeds {options.seed} to {seed - 1}; {unsound} left out")
    for key, count in told.most_common():
        print(f"{count:6}  {key}")
    return min(len(told), 1)


def _tell(seed: int, failure: Failure, options: argparse.Namespace) -> None:
    small = shrunk(failure, options.shrink) if options.shrink else failure
    print(f"=== seed {seed}\n{small}\n", flush=True)
    if options.keep:
        KEPT.mkdir(exist_ok=True)
        (KEPT / f"{failure.road.replace(' ', '_')}_{seed}.grad").write_text(small.source, encoding="utf-8")


def _roads(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in ROADS]
    if unknown:
        raise argparse.ArgumentTypeError(f"no road is called {', '.join(unknown)}; there are {', '.join(ROADS)}")
    return names


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--programs", type=int, default=10**9, help="stop after so many")
    parser.add_argument("--seed", type=int, default=0, help="the first program's")
    parser.add_argument("--roads", type=_roads, default="", help=f"some of: {', '.join(ROADS)}")
    parser.add_argument("--each", type=int, default=1, help="how many failures of a kind are told")
    parser.add_argument("--shrink", type=int, default=1500, help="how many smaller programs are tried")
    parser.add_argument("--keep", action="store_true", help="write what fails to tests/fuzz/kept")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
