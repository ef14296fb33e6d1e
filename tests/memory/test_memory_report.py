"""f.memory: what a report says, on functions whose memory is counted by hand."""

from __future__ import annotations

import gradscript as gs
import numpy as np
import pytest
from gradscript.runtime.memory.report import KeptValue, changes

SOURCE = """def gate(x, w, v):
    gate = x @ w
    up = x @ v
    return (gate * torch.sigmoid(gate) * up).sum()


def views(x):
    y = torch.exp(x)
    flat = y.view(-1)
    return (flat * y.t().reshape(-1)).sum(), y


def steps(x, w, n: int):
    for i in range(n):
        x = torch.tanh(x @ w)
    return x.sum()


def no_gradient(x):
    return torch.floor_divide(x, 2).to(torch.int64)
"""
UNIT = gs.CompilationUnit(SOURCE, "memory.grad")
X, W, V = np.ones((8, 4)), np.ones((4, 16)), np.full((4, 16), 0.5)
ONE = 8 * 16 * 8
"""Bytes of gate, and of all that has its shape."""


def test_save_all_keeps_gate_sigmoid_their_product_and_up() -> None:
    report = UNIT.gate.memory(X, W, V, policy="save_all")
    assert report.saved_bytes == 4 * ONE
    assert sorted(kept.bytes for kept in report.saved if kept.bytes) == [ONE] * 4
    assert report.recomputed == []
    assert report.kept_inputs == ["x", "w", "v"]
    assert report.input_bytes == X.nbytes + W.nbytes + V.nbytes


def test_min_cut_keeps_the_products() -> None:
    report = UNIT.gate.memory(X, W, V)
    assert (report.policy, report.in_force) == ("min_cut", "min_cut")
    assert report.saved_bytes == 2 * ONE
    costly = [kept for kept in report.saved if kept.bytes]
    assert [(kept.name, kept.bytes) for kept in costly] == [("gate", ONE), ("up", ONE)]
    assert [kept.span.line for kept in costly if kept.span] == [2, 3]
    assert [kept.place for kept in costly] == ["2: gate = x @ w", "3: up = x @ v"]
    assert all(kept.reason for kept in (*report.saved, *report.recomputed))
    assert {kept.name for kept in report.recomputed} == {"sigmoid", "mul"}


def test_totals_compare_the_policies() -> None:
    totals = {total.policy: total for total in UNIT.gate.memory(X, W, V, policy=ONE).totals}
    assert list(totals) == ["save_all", "mirror", "min_cut", "recompute_all", f"budget={ONE}"]
    assert totals["save_all"].saved_bytes == 4 * ONE
    assert totals["recompute_all"].saved_bytes == 0
    assert totals[f"budget={ONE}"].saved_bytes <= ONE
    for total in totals.values():
        assert total.peak_bytes >= total.saved_bytes + X.nbytes + W.nbytes + V.nbytes


def test_the_timeline_by_hand() -> None:
    unit = gs.CompilationUnit("def f(x):\n    return torch.exp(torch.sin(x)).sum()\n")
    x = np.ones(1000)
    report = unit.f.memory(x, policy="save_all")
    by_name = {instant.name: instant for instant in report.timeline if instant.phase == "forward"}
    size = x.nbytes
    # sin's result dies when exp has run, whose own is what its backward needs.
    assert (by_name["aten::sin"].saved, by_name["aten::sin"].temporaries) == (0, size)
    assert (by_name["aten::exp"].saved, by_name["aten::exp"].temporaries) == (size, size)
    assert (by_name["aten::sum"].saved, by_name["aten::sum"].temporaries) == (size, 0)
    assert by_name["aten::sum"].outputs == 8
    assert all(instant.inputs == size for instant in report.timeline)
    assert report.saved_bytes == size
    assert report.timeline[-1].gradients == size
    assert report.peak_bytes == max(instant.live for instant in report.timeline)
    backward = [instant for instant in report.timeline if instant.phase == "backward"]
    assert backward[0].saved == size
    assert backward[-1].saved == 0, "freed after its last use"
    assert [instant.index for instant in report.timeline] == list(range(len(report.timeline)))


def test_views_and_outputs_cost_nothing_more() -> None:
    report = UNIT.views.memory(np.ones((6, 5)), policy="save_all")
    # y is an output; `flat` is a view of it. The transposed copy is all that is kept besides.
    assert report.saved_bytes == 6 * 5 * 8
    assert report.timeline[-1].outputs == 6 * 5 * 8 + 8


def test_a_loop_keeps_a_state_per_round() -> None:
    x, w = np.ones((4, 8)), np.full((8, 8), 0.1)
    report = UNIT.steps.memory(x, w, 6, policy="save_all")
    assert report.saved_bytes == 6 * x.nbytes
    assert "x × 6" in str(report)


@pytest.mark.parametrize("count", [36, 300])
def test_a_budget_checkpoints_a_long_loop(count: int) -> None:
    x, w = np.ones((4, 8)), np.full((8, 8), 0.1)
    everything = UNIT.steps.memory(x, w, count, policy="save_all")
    budget = 2 * int(count**0.5) * x.nbytes
    report = UNIT.steps.memory(x, w, count, policy=f"budget={budget}")
    assert everything.saved_bytes == count * x.nbytes
    assert report.saved_bytes <= budget
    # What is kept, and one stretch at a time, beside arguments and their gradients.
    assert report.peak_bytes - report.input_bytes < 4 * int(count**0.5) * x.nbytes


def test_text() -> None:
    text = str(UNIT.gate.memory(X, W, V))
    assert text.startswith("gate: min_cut saves 2.00 KiB, peak ")
    assert "  gate   1.00 KiB  2: gate = x @ w" in text
    assert "  min_cut *      2.00 KiB  50%" in text


def test_nothing_to_gain_says_so() -> None:
    unit = gs.CompilationUnit("def f(x):\n    return (x * 2).sum()\n")
    report = unit.f.memory(X)
    assert report.saved_bytes == 0
    assert report.in_force == "save_all"
    assert str(report).startswith("f: min_cut (as save_all) saves 0 B")


def test_data_for_json() -> None:
    report = UNIT.gate.memory(X, W, V)
    data = report.to_dict()
    assert data["saved"][0]["span"] | {"file": ""} == {
        "file": "", "line": 2, "column": 12, "end_line": 2, "end_column": 17, "text": "x @ w",
    }  # fmt: skip
    assert len(data["timeline"]) == len(changes(report.timeline)) < len(report.timeline)
    assert max(sum(row[kind] for kind in ("inputs", "outputs", "saved", "gradients", "temporaries"))
               for row in data["timeline"]) == report.peak_bytes  # fmt: skip


def test_what_no_source_stands_behind() -> None:
    assert KeptValue("x", 0, None, "").place == ""
    assert KeptValue("x", 0, None, "").to_dict()["span"] is None


def test_bad_calls() -> None:
    with pytest.raises(ValueError, match="there is no policy 'best'"):
        UNIT.gate.memory(X, W, V, policy="best")
    with pytest.raises(gs.RuntimeFailure):
        UNIT.gate.memory(X, W)
    with pytest.raises(gs.RuntimeFailure):
        UNIT.gate.memory(X, W, np.ones((3, 3)))


def test_a_function_without_gradients() -> None:
    report = UNIT.no_gradient.memory(X)
    assert report.saved_bytes == 0
    assert report.saved == []
