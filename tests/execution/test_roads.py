"""Every road runs by executors: passes of users see the forward and the gradient on each, and counters count them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gradscript as gs
import numpy as np
import pytest
from amounts import some_of
from gradscript.compiler.ir.builder import Builder
from gradscript.compiler.ir.graph import Graph
from gradscript.compiler.pipeline import EXECUTOR, InvalidPass
from kernel_device import kernel_device
from roads_through_stages import (
    CALL,
    FORWARD,
    GRADIENT,
    ON_DEVICE,
    ROADS,
    arrays,
    function,
    kinds,
    reference,
    registered,
    seen_on,
    table,
    text,
)

pytestmark = pytest.mark.usefixtures("op_by_op")
"""What the interpreter's plans are made of and count, on whichever backend the suite runs."""

Road = Callable[[Any], Any]
DOCUMENT = Path(__file__).parents[2] / "docs" / "architecture.md"
BEFORE, AFTER = "<!-- roads -->\n\n```text\n", "```\n\n<!-- end of roads -->"
SECOND = ("second order", "second, tape")


@pytest.fixture
def road(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Road]:
    """A road by its name, with something in the place of the device that it needs."""
    if request.param in ROADS:
        yield ROADS[request.param]
        return
    with kernel_device(monkeypatch):
        yield ON_DEVICE[request.param]


every_road = pytest.mark.parametrize("road", [*ROADS, *ON_DEVICE], indirect=True)


@every_road
def test_a_road_gives_torchs_numbers(road: Road, request: pytest.FixtureRequest) -> None:
    value, gradients, second = reference()
    found = road(function())
    if road is ROADS["call"]:
        np.testing.assert_allclose(found, value, rtol=1e-12)
    elif isinstance(found, np.ndarray):
        np.testing.assert_allclose(found, second, rtol=1e-10)
    else:
        for mine, theirs in zip(found, gradients, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-10)


def test_the_document_shows_what_the_stages_see(monkeypatch: pytest.MonkeyPatch) -> None:
    found = table(ROADS)
    with kernel_device(monkeypatch):
        found |= table(ON_DEVICE)
    document = DOCUMENT.read_text()
    head, rest = document.split(BEFORE)
    shown, tail = rest.split(AFTER)
    if os.environ.get("REWRITE_GOLDENS"):
        DOCUMENT.write_text(head + BEFORE + text(found) + AFTER + tail)
    else:
        assert shown == text(found)
    for name, row in found.items():
        plain = [row[stage] for stage in EXECUTOR if stage not in ("inline_keeping_pairs", "autodiff")]
        assert plain == ["f" if name == "call" else "f df"] * len(plain), name


def _breaks(of: set[str]) -> Callable[[Graph], bool]:
    """A pass that uses a value before it is there, in graphs with such an op, and says that it changed nothing."""

    def use_before_definition(graph: Graph) -> bool:
        if of & kinds(graph):
            node = next(node for node in graph.nodes if node.inputs and node.outputs)
            node.set_input(0, Builder(graph).op("aten::exp", graph.inputs[0]))
        return False

    return use_before_definition


@pytest.mark.parametrize("road", some_of([*ROADS, *ON_DEVICE]), indirect=True)
def test_a_pass_that_breaks_a_graph_is_named(road: Road) -> None:
    """In the gradient where there is one, else in the forward."""
    for stage, seen in seen_on(road).items():
        if seen:
            broken = _breaks({GRADIENT} if "df" in seen else {FORWARD, CALL})
            with registered(stage, broken), pytest.raises(InvalidPass, match="use_before_definition"):
                road(function())


COUNTED = {"call": 1, "gs.vjp": 2, "gs.vjp, min_cut": 2, "gs.vjp, budget": 2, "tape": 3, "torch, CPU": 2}
"""Runs of executors on a road: of f and df, and on the tape of the plan around them."""


@pytest.mark.parametrize("name", COUNTED)
def test_counters_add_up(name: str) -> None:
    subject = function()
    for misses in (True, False):
        gs.compiler_debug.reset_counters()
        ROADS[name](subject)
        found = gs.compiler_debug.counters()
        assert found["graph_executor_invocations"] == COUNTED[name]
        assert found["plan_cache_misses"] == COUNTED[name] * misses
        assert found["plan_cache_hits"] == COUNTED[name] * (not misses)
        assert found["graph_executors_constructed"] == COUNTED[name] * misses


@every_road
def test_every_road_is_counted(road: Road) -> None:
    gs.compiler_debug.reset_counters()
    road(function())
    found = gs.compiler_debug.counters()
    assert 0 < found["graph_executors_constructed"] <= found["plan_cache_misses"]
    assert found["graph_executor_invocations"] == found["plan_cache_hits"] + found["plan_cache_misses"]


def test_the_last_graph_is_the_threads_own() -> None:
    unit = gs.CompilationUnit("def f(x):\n    return torch.sin(x)\n\ndef g(x):\n    return torch.cos(x)\n")
    x, _ = arrays()
    unit.f(x)
    seen: list[Graph | None] = []

    def work() -> None:
        seen.append(gs.compiler_debug.last_executed_graph())
        unit.g(x)
        seen.append(gs.compiler_debug.last_executed_graph())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    before, after = seen
    assert before is None and after is not None and after.name == "g"
    last = gs.compiler_debug.last_executed_graph()
    assert last is not None and last.name == "f"


@pytest.mark.parametrize("name", ["call", "gs.grad", "halves by hand"])
def test_kernels_in_c_are_planned_from_what_the_stages_leave(name: str) -> None:
    def road(function: Any) -> Any:
        with gs.settings.backend("c"):
            return ROADS[name](function)

    plain = [stage for stage in EXECUTOR if stage not in ("inline_keeping_pairs", "autodiff")]
    both = "f" if name == "call" else "f df"
    assert seen_on(road, plain) == dict.fromkeys(plain, both)


def test_pullbacks_in_c_are_made_of_what_the_stages_before_autodiff_leave() -> None:
    def road(function: Any) -> Any:
        with gs.settings.backend("c"):
            return ROADS["gs.vjp"](function)

    stages = ("inline_keeping_pairs", "autodiff")
    assert seen_on(road, stages) == dict.fromkeys(stages, "f")
