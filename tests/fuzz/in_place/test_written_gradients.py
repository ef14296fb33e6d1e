"""Gradients through writes, lists and optionals, beside autograd's, to second order.

`PYTHONPATH=tests/support python tests/fuzz/in_place/test_written_gradients.py 0 20000` runs more programs, with the
options of `test_in_place.py` behind the numbers.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable

import pytest
from amounts import some
from beside_torch import compare_gradients, written

SEEDS = range(5000, 5000 + some(60))


def compared(seeds: Iterable[int], options: Iterable[str], order: int) -> int:
    """How many of the programs of these seeds have gradients that could be compared."""
    count = 0
    for seed in seeds:
        text = written(seed, options)
        try:
            count += compare_gradients(text, order)
        except Exception as error:
            raise AssertionError(f"program {seed}:\n{text}\n{error}") from error
    return count


@pytest.mark.parametrize("options", [(), ("modes",), ("rebinds",), ("nested",), ("optional",), ("optional", "nested")])
@pytest.mark.parametrize("order", [1, 2])
def test_gradients_go_through_writes(options: tuple[str, ...], order: int) -> None:
    seeds = SEEDS[:: 2 * order - 1]
    assert compared(seeds, options, order) >= len(seeds) // 3


def main(start: int, stop: int, *options: str) -> None:
    found: Counter[str] = Counter()
    for seed in range(start, stop):
        text = written(seed, options)
        try:
            found["equal" if compare_gradients(text, 2) else "not compared"] += 1
        except Exception as error:
            found["DIFFERENT"] += 1
            print(f"program {seed} differs: {type(error).__name__} {error}\n{text}", flush=True)
    for name, count in found.most_common():
        print(f"{count:7d}  {name}")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
