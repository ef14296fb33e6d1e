"""The search itself: it sees what is wrong, and makes it small."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from fuzzed_program import FuzzedProgram, Shape
from roads import ROADS
from running import Failure, failures, is_sound, shrunk
from shrinker import shrink
from subject import Subject

PAIR = """\
# arguments: T(2, 3), T(3), n=2
# arguments: T(4), T(4)
def h(x):
    y = torch.tanh(x)
    def backward(g):
        return g * (1 - y * y)FACTOR
    return y, backward

def f(x, w, n: int = 1):
    z = x * w
    for i in range(n):
        if i > 0:
            z = h(z) + w
        else:
            z = z.sin()
    return z, x.sum()
"""
WRONG, RIGHT = PAIR.replace("FACTOR", " * 1.000001"), PAIR.replace("FACTOR", "")
GRADIENTS = (
    "vjp",
    "absent cotangents",
    "save_all",
    "mirror",
    "min_cut",
    "recompute_all",
    "budget=24",
    "grad",
    "value and grad",
    "second order",
    "second order recomputed",
    "traced",
    "tape",
    "sliced tape",
    "autograd",
    "one by one",
    "kernels",
    "C kernels",
    "forward mode",
    "code",
)


def found(source: str, roads: list[str]) -> list[Failure]:
    return list(failures(Subject(FuzzedProgram(source)), roads))


def test_arguments() -> None:
    one, two = FuzzedProgram(RIGHT).calls
    assert one.args == (Shape((2, 3)), Shape((3,))) and one.kwargs == {"n": 2} and not two.kwargs
    assert [array.shape for array in one.arrays()] == [(2, 3), (3,)]
    assert one.arrays()[0].tolist() == one.arrays()[0].tolist()


def test_what_is_right_passes() -> None:
    assert not found(RIGHT, list(ROADS))


@pytest.mark.parametrize("road", GRADIENTS)
def test_every_road_of_gradients_sees_one_that_is_wrong(road: str) -> None:
    """By a millionth."""
    assert [failure.kind for failure in found(WRONG, [road])] == ["mismatch"]


def test_a_wrong_half_is_seen() -> None:
    source = (
        WRONG[: WRONG.index("def f")].replace("def h", "def f").replace(", T(3), n=2", "").replace(", T(4)\n", "\n")
    )
    assert [failure.kind for failure in found(source, ["halves"])] == ["mismatch"]


def test_pairs_are_asked_of_torch() -> None:
    assert is_sound(RIGHT) and not is_sound(WRONG)


def test_refusals_are_seen() -> None:
    (failure,) = found("# arguments: T(2)\ndef f(x):\n    return {0: x}[0]\n", ["vjp", "tape"])
    assert failure.kind == "refusal" and "E102" in failure.message


def test_what_torch_refuses_must_be_refused() -> None:
    assert not found("# arguments: T(2), T(3)\ndef f(x, y):\n    return x + y\n", ["vjp"])


def test_shrinking() -> None:
    small = shrink(RIGHT, lambda text: "torch.tanh" in text and "def f" in text)
    assert len(small) < len(RIGHT) / 2 and "for" not in small


def test_shrinking_keeps_the_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A road that dislikes sines."""

    def road(subject: Subject) -> None:
        if "sin" in str(subject.f.graph):
            raise ValueError("a sine")

    monkeypatch.setitem(ROADS, "no sines", road)
    (failure,) = found(RIGHT, ["no sines"])
    small = shrunk(failure)
    assert "sin" in small.source and "def h" not in small.source and len(small.source.splitlines()) <= 5
