"""What fails is told in the user's words, whatever road the call takes."""

from __future__ import annotations

import re

import gradscript as gs
import pytest
from amounts import some_of
from failure_cases import CASES, EXPRESSIONS, Failing
from failure_roads import NO_ROAD, ROADS, failure_of

OURS = re.compile(r"_gradient|prim::|grad_f|grad_loss|grad_grad|\$|__|\bcontext\b|_differentiable|_backward\b")
"""Names that no user has written."""

ONE_OP = [failing.name for failing in EXPRESSIONS]


def _roads(failing: Failing) -> list[str]:
    """Every road; of the failures of one op, which take the same ways, each another fourth of them."""
    roads = [*ROADS[failing.when]]
    return roads[ONE_OP.index(failing.name) % 4 :: 4] if failing.name in ONE_OP else roads


@pytest.mark.parametrize("failing", some_of(CASES), ids=lambda failing: failing.name)
def test_a_failure_names_the_line_and_nothing_of_ours(failing: Failing, request: pytest.FixtureRequest) -> None:
    if failing.code == "R103":  # kernels make no array of what they sum up
        request.getfixturevalue("op_by_op")
    wrong = [
        f"{road}: {complaint}"
        for road in _roads(failing)
        for complaint in _complaints(failing, failure_of(failing, road))
    ]
    assert not wrong, "\n".join([failing.source, *wrong])


def _complaints(failing: Failing, error: BaseException | None) -> list[str]:
    if error is NO_ROAD:
        return []
    if error is None:
        return ["does not fail"]
    if not isinstance(error, gs.RuntimeFailure):
        return [f"ends in a {type(error).__name__}: {error}"]
    text = str(error)
    found = [f"tells {name!r}" for name in OURS.findall(text)]
    found += [f"does not tell {part!r}" for part in failing.tells if part not in text]
    if error.code != failing.code:
        found.append(f"has the code {error.code}")
    if error.span.line not in failing.lines:
        found.append(f"points at line {error.span.line}")
    return [f"{complaint}\n{text}" for complaint in found]
