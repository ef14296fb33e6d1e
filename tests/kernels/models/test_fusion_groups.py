"""Groups of straight stretches: where their borders are, what is written out, and what equal layers share."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from field_programs import UNIT as PROGRAMS
from gradscript.compiler.fusion.groups import create_fusion_groups
from whole_models import UNIT, arguments

X, W = np.zeros((4, 8), np.float32), np.zeros((8, 8), np.float32)


def unit(text: str) -> gs.CompilationUnit:
    return gs.CompilationUnit(text, "groups.grad")


def texts(listing: Any) -> set[str]:
    return {kernel.text for kernel in (*listing.forward, *listing.backward)}


def test_groups_are_listed_where_they_stand() -> None:
    cu = unit("""
def f(x, w, n: int):
    y = x * w
    for i in range(n):
        z = torch.tanh(y @ w) * i
        if float(z.sum()) > 0.0:
            y = torch.exp(z) * 2.0 + x
        else:
            y = y - z * x
    return torch.softmax(y, -1)
""")
    listing = cu.f.kernels(W, W, 20)
    assert [kernel.name for kernel in listing.forward] == ["f_1", "f_2", "f_3", "f_4"]
    assert listing.library[0] == "aten::matmul"
    # What a round keeps for the backward is another matter.
    lines = [line for line in listing.outline if "aten::append" not in line]
    assert lines[: len(OUTLINE)] == OUTLINE
    assert lines[len(OUTLINE)] == "backward"
    assert str(listing).endswith("\n".join(listing.outline))


def test_the_gradient_of_a_slice_is_a_part_of_a_group_wherever_a_round_cuts() -> None:
    cu = unit("""
def f(x, taps: List[Tensor]):
    step = 1
    for i in range(len(taps)):
        past = torch.cat([torch.zeros_like(x[:, :step]), x[:, :-step]], 1)
        x = torch.tanh(past @ taps[i]) + x
        step = step * 2
    return x.sum()
""")
    x, taps = np.zeros((2, 9, 4)), [np.zeros((4, 4))] * 3
    outline = cu.f.kernels(x, taps).outline
    backward = outline[outline.index("backward") :]
    assert not any("slice_scatter" in line or "add.Tensor" in line for line in backward)
    assert sum("planned for the shapes" in line for line in backward) == 1


def test_what_is_put_in_order_is_a_part_of_the_group_that_reads_it() -> None:
    cu = unit("""
def f(x, y):
    both = torch.cat([x, y], 0)
    first = torch.tanh(x) * 2.0
    if float(first.sum()) > 0.0:
        first = first * 3.0
    return (torch.exp(both) * 2.0 + first.sum()).detach()
""")
    listing = cu.f.kernels(X, X)
    assert [kernel.name for kernel in listing.forward] == ["f_1", "f_2_1", "f_2_2"]
    assert listing.forward[0].bytes_written == X.nbytes + 4


OUTLINE = [
    "forward",
    "  line 4: between: prim::ListConstruct (a list)",
    "  line 4: a loop of 20 rounds",
    "    line 5: f_1: 1 kernel, 1 op of the library",
    "    line 6: between: aten::Float.Tensor (a number that is in a tensor), aten::gt.float (numbers)",
    "    line 6: a branch",
    "      line 7: f_2: 1 kernel",
    "      line 9: f_3: 1 kernel",
    "  line 10: f_4: 1 kernel",
]


@pytest.mark.parametrize("name", ["chain", "transformer", "truncated", "early_exit"])
def test_equal_rounds_are_compiled_once_however_many_there_are(name: str) -> None:
    few, more, many = (UNIT[name].kernels(*arguments(name, layers)) for layers in (6, 24, 96))
    assert few.outline
    assert texts(few) == texts(more) == texts(many)
    assert [k.name for k in few.forward] == [k.name for k in more.forward] == [k.name for k in many.forward]


def _drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape) / 2


def _each(count: int, *shape: int) -> list[np.ndarray]:
    return [_drawn(*shape) for _ in range(count)]


FIELDS: dict[str, Callable[[int], list[Any]]] = {
    "highway": lambda rounds: [_drawn(4, 6), _each(rounds, 6, 6), _each(rounds, 6, 6), True],
    "kalman": lambda rounds: [_drawn(rounds, 2), _drawn(3, 3), _drawn(2, 3), _drawn(3, 3), _drawn(2, 2)],
    "early": lambda rounds: [_drawn(4, 6), _each(rounds, 6, 6), _each(rounds, 6, 3), 0.8],
    "pointer": lambda rounds: [_drawn(6, 5), _drawn(5), _drawn(5, 5), _drawn(5, 5), rounds],
    "neural_gpu": lambda rounds: [_drawn(2, 4, 6), *(_drawn(4, 4, 3) for _ in range(3)), rounds],
    "viterbi": lambda rounds: [_drawn(rounds + 18, 4), _drawn(4, 4), _drawn(4)],
}


@pytest.mark.parametrize("name", FIELDS)
def test_rounds_of_programs_of_many_fields_are_compiled_once(name: str) -> None:
    few, more, many = (texts(PROGRAMS[name].kernels(*FIELDS[name](rounds))) for rounds in (6, 24, 96))
    assert few == more == many


def test_text_grows_with_what_is_computed_and_not_with_its_square() -> None:
    """Each round reads one element, so that the gradient of the whole has a case for each, and all need one chain."""
    cu = unit("""
def f(x):
    total = x[0, 0]
    for i in range(1, x.size(0)):
        total = torch.logaddexp(total * x[i, 1], x[i, 0])
    return total
""")
    few, many = (max(map(len, texts(cu.f.kernels(_drawn(rounds, 2))))) for rounds in (8, 16))
    assert many < 2.2 * few


def test_words_that_are_translated_are_rounds_and_those_that_are_read_are_a_size() -> None:
    """Each round looks at all that was read, so that what sums over it follows from how many these are."""
    found = []
    for words in (6, 96):
        values = arguments("translation", 6)
        values[1] = _drawn(words, 2, 4)
        found.append(texts(UNIT.translation.kernels(*values)))
    assert found[0] == found[1]


@pytest.mark.parametrize("calls", [False, True])
def test_equal_layers_written_one_by_one_share_a_text(calls: bool) -> None:
    layer = "torch.tanh(x @ w{0}) * 2.0 + x" if not calls else "layer(x, w{0})"
    lines = "\n".join(f"    x = {layer.format(i)}" for i in range(6))
    names = ", ".join(f"w{i}" for i in range(6))
    cu = unit(
        f"def layer(a, b):\n    return torch.tanh(a @ b) * 2.0 + a\n\n\ndef f(x, {names}):\n{lines}\n    return x\n"
    )
    listing = cu.f.kernels(X, *[W] * 6)
    assert len(listing.forward) == 6
    # The first, and all behind it: none writes more than its result.
    assert len({kernel.text for kernel in listing.forward}) == 2
    assert len({kernel.name for kernel in listing.forward[1:]}) == 1


@pytest.mark.parametrize("ops", [3, 32, 33, 60])
def test_what_stays_in_registers_is_written_out_whatever_the_body_has(ops: int) -> None:
    body = "\n".join("        x = torch.sin(x) + 0.5" for _ in range(ops // 2))
    cu = unit(f"def f(x):\n    for i in range(4):\n{body}\n    return x.detach()\n")
    listing = cu.f.kernels(X)
    assert len(listing.forward) == 1 and not listing.outline


@pytest.mark.parametrize("ops", [3, 40])
def test_rounds_between_which_there_is_memory_stay(ops: int) -> None:
    body = "\n".join("        x = torch.sin(x) + 0.5" for _ in range(ops // 2))
    cu = unit(f"def f(x, w):\n    for i in range(4):\n        x = x @ w\n{body}\n    return x.detach()\n")
    listing = cu.f.kernels(X, W)
    assert len(listing.forward) == 1
    assert any("a loop of 4 rounds" in line for line in listing.outline)


@pytest.mark.parametrize(
    "line",
    [
        "torch.cumsum(x, 1) * 0.1",
        "torch.conv1d(x[None], k, padding=1)[0]",
        "torch.inner(x, x) @ x",
        "torch.tensordot(x, k[:, :, 0], dims=1)",
        "x - torch.logsumexp(x, 0)",
        "x * x.amax(0)",
    ],
)
def test_rounds_that_the_library_parts_have_the_kernels_of_one(line: str) -> None:
    """An op that is made of one of the library's, or is no kernel's reduction; one along which nothing else is read."""
    cu = unit(f"def f(x, k, n: int):\n    for i in range(n):\n        x = torch.tanh({line})\n    return x.sum()\n")
    square, window = _drawn(8, 8), _drawn(8, 8, 3)
    few, many = (texts(cu.f.kernels(square, window, rounds)) for rounds in (12, 96))
    assert few == many


def test_what_fails_in_a_group_is_told_as_the_interpreter_tells_it() -> None:
    cu = unit("""
def f(x, w, n: int):
    for i in range(n):
        if float(x.sum()) > -1.0:
            x = torch.tanh(x) * 2.0 + w[:, : 4 + i]
    return x
""")
    told = []
    for backend in ("numpy", "c"):
        with gs.settings.backend(backend), pytest.raises(gs.RuntimeFailure) as caught:
            cu.f(np.ones((4, 4), np.float32), W[:4], 3)
        told.append(str(caught.value))
    assert told[0] == told[1]


def test_draws_between_groups_are_those_of_the_interpreter() -> None:
    cu = unit("""
def f(x, n: int):
    for i in range(n):
        x = F.dropout(torch.sin(x) + 1.0, 0.5, True)
        if float(x.sum()) > 3.0:
            x = x * F.dropout(x, 0.25, True) * 0.1
    return x
""")
    found = []
    for backend in ("numpy", "c"):
        gs.random.manual_seed(5)
        with gs.settings.backend(backend):
            found.append(cu.f(np.ones((4, 8)), 5))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)


def test_a_group_that_meets_ever_new_shapes_stops_compiling() -> None:
    cu = unit("""
def f(x, n: int):
    for i in range(n):
        x = torch.cat([torch.tanh(x) * 0.5 + 1.0, x[:1]])
        if float(x.sum()) < -1e9:
            x = x * 2.0
    return x
""")
    x = np.random.default_rng(0).standard_normal((2, 3))
    want = cu.f(x, 30)
    with gs.settings.backend("c"):
        np.testing.assert_allclose(cu.f(x, 30), want, rtol=1e-12)


def test_lists_of_numbers_beside_lists_of_tensors_are_no_tensors() -> None:
    """What nested loops keep is lists of lists, and lists of flags beside them."""
    cu = unit("""
def f(x, y, n: int):
    for i in range(n):
        w = 0
        while w < 2:
            w += 1
            if w == 1:
                continue
            y = torch.softmax(x * y, -1)
        x = y * -1.25
    return torch.softmax(x.sum(0), 0) + y
""")
    x, y = np.random.default_rng(0).standard_normal((2, 4, 3))
    found = []
    for backend in ("numpy", "c"):
        with gs.settings.backend(backend):
            result, pull_back = gs.vjp(cu.f, x, y, 2)
            found.append([result, *pull_back(np.cos(result))[:2]])
    for want, have in zip(*found, strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-11, atol=1e-13)


def test_groups_of_backward_loops_are_listed_before_a_run() -> None:
    """Also those that add to gradients which are missing in the first round."""
    unit = gs.CompilationUnit(
        "def f(x, mask, ws: List[Tensor]):\n"
        "    for w in ws:\n"
        "        x = torch.tanh(x @ w + mask)\n"
        "    return x.sum()\n"
    )
    listing = unit.f.kernels(np.zeros((8, 4), np.float32), np.zeros(4, np.float32), [np.zeros((4, 4), np.float32)] * 9)
    assert not [line for line in listing.outline if "planned" in line]
    backward = listing.outline[listing.outline.index("backward") :]
    loop = next(i for i, line in enumerate(backward) if "a loop of 9 rounds" in line)
    assert any("kernel, 2 ops of the library" in line for line in backward[loop:]), backward


def test_what_is_padded_by_a_number_of_the_round_is_a_part_of_its_group() -> None:
    cu = unit("""
def f(x, taps: List[Tensor]):
    for i in range(len(taps)):
        past = F.pad(x, [0, 0, 2 ** i, 0])[:, : x.size(1)]
        x = torch.tanh(past @ taps[i]) * 0.5 + x
    return (x * x).sum()
""")
    random = np.random.default_rng(0)
    x, taps = random.normal(size=(2, 9, 4)), list(random.normal(size=(5, 4, 4)))
    assert not any("pad" in line.split("between:")[-1] for line in cu.f.kernels(x, taps).outline if "between" in line)
    given = [torch.tensor(x, requires_grad=True), *(torch.tensor(tap, requires_grad=True) for tap in taps)]
    y = given[0]
    for i, tap in enumerate(given[1:]):
        past = torch.nn.functional.pad(y, [0, 0, 2**i, 0])[:, : y.size(1)]
        y = torch.tanh(past @ tap) * 0.5 + y
    wanted = torch.autograd.grad((y * y).sum(), given)
    with gs.settings.backend("c"), warnings.catch_warnings():
        # Negative paddings, of gradients, are counted from the rounds' where they are, and open as these.
        warnings.simplefilter("error")
        _, (grad_x, grad_taps) = gs.value_and_grad(cu.f, argnums=(0, 1))(x, taps)
    for have, want in zip((grad_x, *grad_taps), wanted, strict=True):
        np.testing.assert_allclose(have, want.numpy(), rtol=1e-9, atol=1e-10)


def test_a_gradient_is_added_where_it_is_made_whatever_branch_comes_after() -> None:
    graph = gs.parse_ir("""
graph f(%x : Tensor[float64, rank=1], %sum : Tensor[float64, rank=1], %c : bool):
  %y : Tensor[float64, rank=1] = aten::tanh(%x)
  %g : Tensor[float64, rank=1] = aten::mul.Tensor(%y, %y)
  %z : Tensor[float64, rank=1] = prim::If(%c)
    block():
      return (%y)
    block():
      return (%x)
  %t : Tensor[float64, rank=1] = prim::AutogradAdd(%sum, %g)
  return (%z, %t)
""")
    parts = create_fusion_groups(graph, {})
    assert parts is not None
    assert [node.kind for node in parts.graph.nodes] == ["prim::FusionGroup", "prim::If"]
