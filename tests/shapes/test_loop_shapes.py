"""Loops on abstract values: what is said of a value holds in every round, and loops in loops do not multiply."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import gradscript as gs
import numpy as np
import pytest
from amounts import some
from gradscript.compiler.autodiff import differentiate
from gradscript.compiler.autodiff.gradient import residuals_of
from gradscript.compiler.ops.meta import UNKNOWN, Meta
from gradscript.compiler.passes.inline_functions import inline_functions
from gradscript.compiler.shapes import loops
from gradscript.compiler.shapes import propagate as shapes
from gradscript.compiler.shapes.loops import Remembered
from gradscript.compiler.shapes.propagate import propagate_shapes
from gradscript.compiler.types.dtypes import FLOAT32, FLOAT64
from test_propagation import compare, graph_of, result_of

VECTOR = Meta((3,), FLOAT64)
Steps = Callable[[Callable[[], object]], int]

ROUNDS: dict[str, tuple[str, Any]] = {
    # what a loop of ten rounds does to a number or a list, and what that is afterwards
    "grows by a constant": ("n = n + 3", 31),
    "shrinks": ("n = n - 2", -19),
    "grows by a size": ("n = n + x.size(0)", 31),
    "doubles": ("n = n * 2", 1024),
    "grows by the index": ("n = n + i", 46),
    "two at once": ("n, m = n + m, n", 144),
    "is set": ("n = i", 9),
    "turns": ("n = (n * 5 + i) % 7", 0),
    "grows in a loop": ("for j in range(4):\n            n = n + 2", 81),
    "grows in a loop in a loop": ("for j in range(4):\n            for k in range(2):\n                n = n + 1", 81),
    "grows in a branch": ("if i == 7:\n            n = n + 5", 6),
    "grows by what a loop counts": ("for j in range(i):\n            n = n + 1", 46),
    "is a list's length": ("items.append(x)\n        n = len(items)", 10),
    "is an element": ("n = sizes[i % 2] + n", 36),
}


@pytest.mark.parametrize("name", ROUNDS)
def test_a_number_that_is_carried(name: str) -> None:
    line, expected = ROUNDS[name]
    source = f"""
def f(x):
    items: List[Tensor] = []
    sizes = [3, 4]
    n, m = 1, 1
    for i in range(10):
        {line}
    return n, torch.zeros([n * n])
"""
    graph = graph_of(source)
    assert int(gs.CompilationUnit(source).f(np.zeros(3))[0]) == expected
    assert result_of(source, VECTOR) == (expected, Meta((expected * expected,), FLOAT32))
    assert compare(graph, [np.zeros(3)])


@pytest.mark.parametrize(
    ("start", "line", "expected"), [("[]", "n = n + y.dim()", 9), ("[1]", "n = n + y.size(n - n)", 28)]
)
def test_a_number_of_unlike_first_rounds(start: str, line: str, expected: int) -> None:
    source = f"""
def f(x):
    y, n = torch.zeros({start}), 0
    for i in range(10):
        {line}
        y = y + x
    return n, y
"""
    assert int(gs.CompilationUnit(source).f(np.zeros(3))[0]) == expected
    assert result_of(source, VECTOR) == (expected, VECTOR)


@pytest.mark.parametrize("condition", ["i == 4", "i % 5 == 4", "n == 12", "kept is None"])
def test_what_holds_in_one_round_only_is_not_known(condition: str) -> None:
    """The value in the first rounds, and in the last, is not taken for that of the others."""
    source = f"""
def f(x):
    n = 0
    kept: Optional[Tensor] = x
    y = x
    for i in range(10):
        y = y + float({condition})
        if {condition}:
            y = y * 2
        n = n + 3
        kept = y if i == 3 else None
    return y
"""
    x = np.arange(3.0)
    expected = gs.CompilationUnit(source).f(x)
    assert compare(graph_of(source), [x])
    with gs.settings.profiling(True):
        found = [gs.CompilationUnit(source).f(x) for _ in range(4)]
    for result in found:
        np.testing.assert_array_equal(result, expected)
    assert "kernel f" in gs.CompilationUnit(source).f.kernels(x).forward[0].ir


def test_a_branch_that_no_round_takes_says_nothing() -> None:
    """Also where the rounds turn out to differ, so that they are looked at again, one by one."""
    graph = graph_of("""
def f(x):
    total = x.sum()
    for i in range(3):
        y = x[: i + 1]
        if y.dim() == 1:
            total = total + y.sum()
        else:
            total = total + y.relu().mean()
    return total
""")
    known = propagate_shapes(graph, [VECTOR])
    kinds = {value.node.kind for value in known}
    assert "aten::sum" in kinds and not kinds & {"aten::relu", "aten::mean"}
    assert known[graph.outputs[0]] == Meta((), FLOAT64)


def test_a_list_that_grows() -> None:
    source = """
def f(x, n: int):
    kept: List[Tensor] = []
    for i in range(n):
        kept.append(x[i % 2])
        x = x + kept[0].sum()
    return x, kept
"""
    assert result_of(source, VECTOR, 500) == (VECTOR, [Meta((), FLOAT64)] * 500)


def test_a_list_whose_length_has_a_say() -> None:
    source = """
def f(x):
    kept = [x]
    for i in range(6):
        kept.append(x)
        x = x[: max(5 - len(kept), 1)]
    return x, kept
"""
    expected = gs.CompilationUnit(source).f(np.zeros(5))
    found = result_of(source, Meta((5,), FLOAT64))
    assert found == (Meta(expected[0].shape, FLOAT64), [Meta(item.shape, FLOAT64) for item in expected[1]])


# --- random nests ---

LINES = (
    "n = n + 1",
    "n = n + i{0}",
    "n = n * 2 % 50",
    "m = n",
    "n, m = m, n",
    "y = y * float(n + i{0})",
    "y = y + x",
    "y = x[: 1 + n % 3] * i{0}",
    "kept.append(y)",
    "y = kept[0]",
    "y = kept[len(kept) // 2] + n",
    "y = torch.cat([y, x])",
    "y = y + float(i{0} == 2)",
    "y = y + i0",
    "n = len(kept)",
)
CONDITIONS = ("i{0} == 2", "n > 4", "m % 2 == 0", "len(kept) > 3", "y.size(0) > 3", "float(y.sum()) > 0")


def program(seed: int) -> str:
    """Loops and branches in one another, on tensors, numbers and a list."""
    choice = random.Random(seed)
    lines = ["def f(x, w):", "    y, n, m, kept = x, choose, 1, [w]".replace("choose", str(choice.randrange(3)))]
    depth = choice.randrange(1, 4)
    for level in range(depth):
        indent = "    " * (level + 1)
        trips = choice.choice(["2", "3", "5", "7", "n % 4", "x.size(0)", "int(x.sum()) % 3"])
        lines.append(f"{indent}for i{level} in range({trips}):")
        for _ in range(choice.randrange(1, 4)):
            line = choice.choice(LINES).format(level)
            if choice.random() < 0.3:
                lines.append(f"{indent}    if {choice.choice(CONDITIONS).format(level)}:")
                line = f"    {line}"
            lines.append(f"{indent}    {line}")
        if choice.random() < 0.1:
            lines += [f"{indent}    if n > 9:", f"{indent}        break"]
    return "\n".join([*lines, "    return y, n, m, kept"])


@pytest.mark.parametrize("seed", range(some(150)))
def test_what_is_said_of_a_random_nest_holds(seed: int) -> None:
    source = program(seed)
    rng = np.random.default_rng(seed)
    values = [rng.normal(size=3), rng.normal(size=3)]
    try:
        graph = graph_of(source)
        gs.CompilationUnit(source).f(*values)
    except (gs.CompileError, gs.RuntimeFailure):
        pytest.skip("its shapes do not fit")
    compare(graph, values)


# --- how work grows ---


def nest(depth: int, first: str, line: str, trips: str = "3") -> str:
    """A function of as many loops in one another: `first` at the start of each body, `line` in the innermost."""
    lines = ["def f(x, n: int):", "    y, k = x, 0"]
    for level in range(depth):
        lines.append(f"{'    ' * (level + 1)}for i{level} in range({trips}):")
        lines.append(f"{'    ' * (level + 2)}{first.format(level)}")
    lines.append(f"{'    ' * (depth + 1)}{line}")
    return "\n".join([*lines, "    return y, k"])


NESTS: dict[str, tuple[str, str, str]] = {
    "nothing changes": ("z{0} = x", "y = torch.tanh(y)", "3"),
    "indices": ("z{0} = y * i{0}", "y = y + z0[i0 % 3]", "3"),
    "many rounds": ("z{0} = y * i{0}", "y = y + z0[i0 % 3]", "1000"),
    "a counter": ("k = k + 1", "y = y * k", "3"),
    "a shape of the first round": ("z{0} = torch.zeros([])", "y = y + 1", "3"),
    "uncounted": ("k = k + 1", "y = y * k", "n"),
    "uncounted, with shapes": ("y = torch.cat([y, x])", "k = k + y.size(0)", "n"),
}


@pytest.mark.parametrize("name", NESTS)
def test_loops_in_loops_do_not_multiply(name: str, steps: Steps) -> None:
    """Going one loop deeper costs a few more bodies, not a multiple: of eight loops less than the cube of two's."""
    first, line, trips = NESTS[name]
    taken = []
    for depth in (2, 4, 6, 8):
        graph = graph_of(nest(depth, first, line, trips))
        taken.append(steps(lambda graph=graph: propagate_shapes(graph, [VECTOR, UNKNOWN])))
    for (fewer, less), (more, greater) in pairwise(zip((2, 4, 6, 8), taken, strict=True)):
        assert greater < less * (more / fewer) ** 3, taken


def test_the_backwards_of_loops_in_loops_do_not_multiply(steps: Steps) -> None:
    taken = []
    for depth in (1, 2, 4):
        unit = gs.CompilationUnit(nest(depth, "y = torch.tanh(y)", "y = y * x"))
        gradient = differentiate(unit.f.graph)
        f = gradient.f.copy()
        inline_functions(f)
        taken.append(steps(lambda f=f: propagate_shapes(f, [VECTOR, 3])))
        assert propagate_shapes(f, [VECTOR, 3])[f.outputs[0]] == VECTOR
    assert taken[2] < taken[1] * 2**4, taken


def test_rounds_that_all_differ_are_looked_at_up_to_a_bound(steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    def rounds(depth: int, bound: int) -> tuple[int, Any]:
        monkeypatch.setattr(shapes, "Remembered", partial(Remembered, rounds=bound))
        graph = graph_of(nest(depth, "y = y[: 40 - i{0}]", "k = k + y.size(0)", "6"))
        found: list[Any] = []
        taken = steps(lambda: found.append(propagate_shapes(graph, [Meta((40,), FLOAT64), 0])[graph.outputs[0]]))
        return taken, found[0]

    assert rounds(2, 60)[1] == Meta((35,), FLOAT64)
    (less, shallow), (more, deep) = rounds(3, 60), rounds(6, 60)
    assert (shallow, deep) == (UNKNOWN, UNKNOWN)
    assert more < 4 * less


def test_functions_that_call_functions_twice_do_not_multiply(steps: Steps) -> None:
    def source(count: int) -> str:
        calls = "\n".join(f"def g{i}(x):\n    return g{i + 1}(x) + g{i + 1}(x * 2)" for i in range(count))
        return f"def f(x):\n    return g0(x)\n{calls}\ndef g{count}(x):\n    return x.t()"

    taken = [steps(lambda n=n: result_of(source(n), VECTOR)) for n in (8, 16)]
    assert taken[1] < 4 * taken[0], taken


def test_lists_that_rounds_carry_do_not_multiply_with_what_is_in_them(steps: Steps) -> None:
    """A loop that is differentiated carries a list for what each of its nodes keeps."""

    def source(count: int) -> str:
        lists = "".join(f"    l{i}: List[Tensor] = []\n" for i in range(count))
        rounds = "".join(f"        x = torch.sin(x)\n        l{i}.append(x)\n" for i in range(count))
        picked = ", ".join(f"l{i}[7]" for i in range(count))
        return f"def f(x):\n{lists}    for i in range(1000):\n{rounds}    return {picked}"

    graphs = [graph_of(source(count)) for count in (20, 80)]
    taken = [steps(lambda graph=graph: propagate_shapes(graph, [VECTOR])) for graph in graphs]
    assert taken[1] < 6 * taken[0], taken


FILLS = {
    "the gradients of a list": ("x = w\n    for i in range(len(xs)):\n        x = torch.tanh(x @ xs[i])", "x.sum()"),
    "the gradients of what is appended": (
        "ys: List[Tensor] = []\n    for i in range(len(xs)):\n        ys.append(torch.tanh(xs[i] * w))",
        "torch.stack(ys).sum()",
    ),
    "of two elements in each round": (
        "x = w\n    for i in range(len(xs)):\n        x = torch.tanh(x @ xs[i]) * xs[i - 1]",
        "x.sum()",
    ),
    "from both ends": (
        "x = w\n    for i in range(len(xs)):\n        x = torch.tanh(x @ xs[i]) * xs[len(xs) - 1 - i]",
        "x.sum()",
    ),
    "and of one that all rounds take": (
        "x = w\n    for i in range(len(xs)):\n        x = torch.tanh(x @ xs[i]) * xs[2]",
        "x.sum()",
    ),
}


@pytest.mark.parametrize("name", FILLS)
@pytest.mark.filterwarnings("error")
def test_kernels_of_lists_take_no_longer_to_plan_for_more_rounds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lines, result = FILLS[name]
    looked: list[int] = []
    visit = loops._Loop._visit
    monkeypatch.setattr(loops._Loop, "_visit", lambda *given: looked.append(1) or visit(*given))
    taken = []
    for count in (70, 140):
        unit = gs.CompilationUnit(f"def f(xs: List[Tensor], w):\n    {lines}\n    return {result}")
        looked.clear()
        with gs.settings.backend("c"):
            gs.grad(unit.f)([np.full((4, 4), 0.1)] * count, np.ones((4, 4)))
        taken.append(len(looked))
    assert taken[1] <= taken[0] < 140, taken


@pytest.mark.parametrize("name", FILLS)
def test_as_many_rounds_as_elements_take_no_longer_to_look_at(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list that is filled, or cut, is not gone through round by round: neither forward nor backward."""
    lines, result = FILLS[name]
    unit = gs.CompilationUnit(f"def f(xs: List[Tensor], w):\n    {lines}\n    return {result}")
    square = Meta((4, 4), FLOAT64)
    gradient = differentiate(unit.f.graph, temporaries=False)
    looked: list[int] = []
    visit = loops._Loop._visit
    monkeypatch.setattr(loops._Loop, "_visit", lambda *given: looked.append(1) or visit(*given))
    taken = []
    for count in (5, 50):
        looked.clear()
        given: list[Any] = [[square] * count, square]
        known = propagate_shapes(gradient.f, given)
        outputs = [known.get(value, UNKNOWN) for value in gradient.f.outputs]
        inputs = [outputs[i] for i in gradient.input_vjps]
        inputs += residuals_of(gradient, given, outputs)
        back = propagate_shapes(gradient.df, inputs)
        assert [back.get(value) for value in gradient.df.outputs] == [[square] * count, square]
        taken.append(len(looked))
    assert taken[0] == taken[1] < 10, taken


SECONDS = {
    "a recurrence": ("x, n: int", "y = torch.sin(y) * x"),
    "numbers of the index": ("x, n: int", "y = torch.sin(y * (0.5 * i + n)) * x"),
}


@pytest.mark.parametrize("name", SECONDS)
def test_second_derivatives_take_no_longer_for_more_rounds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows from the number of a round is not kept in a list, which would have to be gone through."""
    parameters, line = SECONDS[name]
    source = f"def f({parameters}):\n    y = x\n    for i in range(n):\n        {line}\n    return y.sum()"
    first = differentiate(gs.CompilationUnit(source).f.graph)
    second = differentiate(first.df, temporaries=False)
    looked: list[int] = []
    visit = loops._Loop._visit
    monkeypatch.setattr(loops._Loop, "_visit", lambda *given: looked.append(1) or visit(*given))
    taken = []
    for count in (5, 1000):
        looked.clear()
        given: list[Any] = [VECTOR, count]
        known = propagate_shapes(first.f, given)
        outputs = [known.get(value, UNKNOWN) for value in first.f.outputs]
        inputs = [outputs[i] for i in first.input_vjps] + residuals_of(first, given, outputs)
        back = propagate_shapes(second.f, inputs)
        outputs = [back.get(value, UNKNOWN) for value in second.f.outputs]
        propagate_shapes(second.df, [outputs[i] for i in second.input_vjps] + residuals_of(second, inputs, outputs))
        taken.append(len(looked))
    assert taken[0] == taken[1], taken
