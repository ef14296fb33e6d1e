"""Loops in segments: memory that grows with the square root of the rounds."""

from __future__ import annotations

import gradscript as gs
import pytest
from gradscript.compiler.autodiff import differentiate
from gradscript.compiler.ir.structure import SEGMENT
from gradscript.compiler.ir.verify import verify
from recompute_support import array, assert_same_bits, gradient_of, measured_peak, results, under

LOOPS = {
    "counted": """
def f(x, w, n: int):
    for i in range(n):
        x = torch.tanh(x * w) * w[0] + x * 0.5
    return (x * x).sum()
""",
    "conditional": """
def f(x, w, n: int):
    i = 0
    while float(x.abs().max()) > 0.001 and i < n:
        x = torch.tanh(x * w) * 0.9
        i = i + 1
    return (x * x).sum() + (w * i).sum()
""",
    "two carried, one branch": """
def f(x, w, n: int):
    y = w * 2
    for i in range(n):
        if i % 3 == 1:
            y = torch.sin(y * x)
        x = x * 0.9 + torch.cos(y) * w
    return (x * y).sum()
""",
    "nested": """
def f(x, w, n: int):
    for i in range(n):
        for j in range(3):
            x = torch.tanh(x * w)
        x = x + w
    return (x * x).sum()
""",
    "breaks": """
def f(x, w, n: int):
    for i in range(n):
        x = torch.tanh(x * w) * 1.01
        if i == 10:
            break
    return (x * x).sum()
""",
}


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("length", [1, 4, 7, 100])
def test_segments_have_the_same_bits(name: str, length: int) -> None:
    arguments = [array(6), array(6, seed=1), 19]
    plain = gradient_of(LOOPS[name], arguments)
    graph = gs.CompilationUnit(LOOPS[name]).f.graph.copy()
    loops = [node for node in graph.all_nodes() if node.kind == "prim::Loop"]
    for loop in loops:
        loop.attrs[SEGMENT] = length
    verify(graph)
    gradient = differentiate(graph, [True, True, False], temporaries=False)
    verify(gradient.f)
    verify(gradient.df)
    assert_same_bits(results(gradient, arguments), results(plain, arguments))


def test_no_rounds_at_all() -> None:
    arguments = [array(6), array(6, seed=1), 0]
    gradient = gradient_of(LOOPS["counted"], arguments)
    found = under(gradient, arguments, "budget=10")
    assert_same_bits(results(found.gradient, arguments), results(gradient, arguments))


def test_sublinear_memory() -> None:
    """Four times the rounds hold twice as much; all of a thousand rounds would hold ten times that."""
    peaks, saved = {}, {}
    for rounds in (64, 256, 1000):
        arguments = [array(1000), array(1000, seed=1), rounds]
        gradient = gradient_of(LOOPS["counted"], arguments)
        found = under(gradient, arguments, "budget=400000")
        assert found.policy == "budget" or rounds == 64
        found = under(gradient, arguments, "budget=100000") if rounds == 64 else found
        assert found.policy == "budget" and found.saved_bytes is not None
        peaks[rounds], saved[rounds] = measured_peak(found.gradient, arguments), found.saved_bytes
        if rounds == 1000:
            assert measured_peak(gradient, arguments) > 10 * peaks[rounds]
            assert_same_bits(results(found.gradient, arguments), results(gradient, arguments))
    # Beside what is kept, a segment's rounds are, which are as many.
    assert all(peaks[rounds] < 3 * saved[rounds] for rounds in peaks)
    assert saved[256] < 2.6 * saved[64] and saved[1000] < 2.6 * saved[256]


def test_segments_differentiate_again() -> None:
    """With gradients of temporaries, so that the backward can itself be differentiated."""
    graph = gs.CompilationUnit(LOOPS["counted"]).f.graph.copy()
    for node in graph.all_nodes():
        if node.kind == "prim::Loop":
            node.attrs[SEGMENT] = 4
    gradient = differentiate(graph, [True, True, False])
    verify(gradient.df)
    second = differentiate(gradient.df)
    verify(second.f)
    verify(second.df)


CHOOSY = """
def f(x, w, n: int):
    for i in range(n):
        x = torch.exp(torch.sin(torch.tanh(x * w) * w[0])) * 0.3 + x * 0.5
    return (x * x).sum()
"""


@pytest.mark.parametrize("spec", ["mirror", "min_cut"])
def test_rounds_keep_what_the_policy_says(spec: str) -> None:
    """Of each round the state is kept; the rest of it is pointwise, and computed again."""
    arguments = [array(200), array(200, seed=1), 40]
    gradient = gradient_of(CHOOSY, arguments)
    plain = under(gradient, arguments, "save_all")
    found = under(gradient, arguments, spec)
    assert plain.saved_bytes is not None and found.saved_bytes is not None and found.peak_after is not None
    assert found.policy == spec and found.saved_bytes < 0.3 * plain.saved_bytes
    assert plain.peak_after is not None and found.peak_after < 0.5 * plain.peak_after
    assert_same_bits(results(found.gradient, arguments), results(gradient, arguments))


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("spec", ["mirror", "min_cut", "recompute_all", "budget=100"])
def test_policies_have_the_same_bits(name: str, spec: str) -> None:
    arguments = [array(6), array(6, seed=1), 9]
    gradient = gradient_of(LOOPS[name], arguments)
    found = under(gradient, arguments, spec)
    assert_same_bits(results(found.gradient, arguments), results(gradient, arguments))
