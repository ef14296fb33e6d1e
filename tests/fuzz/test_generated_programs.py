"""Random whole programs with fixed seeds, each held to torch on one road: `make fuzz` takes others, on every road."""

from __future__ import annotations

from itertools import chain, repeat

import pytest
from amounts import some

pytest.importorskip("torch")

from eager import is_tame
from fuzzed_program import FuzzedProgram
from program_writer import ProgramWriter
from roads import POLICIES, ROADS
from running import failures
from subject import Subject

FAST, PROGRAMS = 500, 500 + some(1500)
"""As many `make test-fast` runs, and as many `make test`; CI runs 2,000."""
PER_TEST = 20
SIZES = (1, 1, 2, 2, 3)
SHARES = {
    **dict.fromkeys(("second kind", "by name", "profiled", "not optimized", "single precision", "traced"), 18),
    **dict.fromkeys(("IR text", "lifted code", "halves"), 18),
    "code": 8,
    "vjp": 12,
    "left in the middle": 4,
    "absent cotangents": 8,
    **dict.fromkeys(POLICIES, 2),
    "grad": 3,
    **dict.fromkeys(("value and grad", "grad of every kind", "sliced tape", "autograd"), 2),
    "grad of second kind": 1,
    "tape": 3,
    **dict.fromkeys(
        ("equal policies", "one by one", "second order", "second order recomputed", "kernels", "C kernels", "stages"), 1
    ),
    **dict.fromkeys(("gradient code", "derived halves", "written backwards", "forward mode", "batched"), 2),
}
"""How many of so many programs take a road: those that compile much are taken seldom."""
TURNS = list(chain.from_iterable(repeat(road, count) for road, count in SHARES.items()))


def road_of(seed: int) -> str:
    """The roads in turn, neighbours spread apart."""
    return TURNS[seed * 89 % len(TURNS)]


@pytest.mark.parametrize("first", range(0, FAST, PER_TEST))
def test_programs_give_what_torch_gives(first: int) -> None:
    _check(first)


@pytest.mark.parametrize("first", range(FAST, PROGRAMS, PER_TEST))
def test_more_programs_give_what_torch_gives(first: int) -> None:
    _check(first)


def _check(first: int) -> None:
    found = [str(f) for seed in range(first, first + PER_TEST) for f in failures_of(seed)]
    assert not found, "\n\n".join(found)


def failures_of(seed: int) -> list[object]:
    source = ProgramWriter(seed, SIZES).program().source
    subject = Subject(FuzzedProgram(source))
    if not all(is_tame(subject.expected(i, 0)) for i in range(len(subject.calls))):
        return []
    return list(failures(subject, [road_of(seed)]))


def test_every_road_is_taken() -> None:
    """The first calls are those of every road; to write the second order takes seconds a program: see `make fuzz`."""
    left_out = {"first call", "cached call", "written second order"}
    assert {road_of(seed) for seed in range(PROGRAMS)} == set(ROADS) - left_out


def test_most_programs_run() -> None:
    """Few are refused by torch, or make numbers too large to compare."""
    subjects = [Subject(ProgramWriter(seed, SIZES).program()) for seed in range(100)]
    ran = [s for s in subjects if s.expected(0, 0).failure is None and is_tame(s.expected(0, 0))]
    assert len(ran) >= 95
