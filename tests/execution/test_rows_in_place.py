"""Rows that loops write are written where the others lie, and what is read of these before stays what it was."""

from __future__ import annotations

from functools import partial
from typing import Any

import gradscript as gs
import numpy as np
import pytest
from gradscript.compiler.analysis.ownership import WRITTEN_PARTS
from gradscript.compiler.fusion import groups
from gradscript.compiler.fusion.fuse import fuse_groups
from gradscript.compiler.kernel_ir.layout import Layout
from gradscript.compiler.ops.meta import Meta
from gradscript.compiler.scheduling.cpu import CHUNKS, split_for_cpu
from gradscript.compiler.types.dtypes import FLOAT32
from gradscript.lang.light_dataclasses import replace
from gradscript.runtime.kernels.c import planning
from gradscript.runtime.plans.build import build_plan
from gradscript.runtime.plans.interpreter import run_plan
from gradscript.runtime.plans.operations import WRITES

torch: Any = pytest.importorskip("torch")

SOURCE = """
def kept(x, w, n: int):
    out, rows = x * w, [w * 1]
    for i in range(n):
        out[i] = (out[i - 1] * w).tanh()
        rows.append(out[i])
    return out, torch.stack(rows)

def seen(x, w, n: int):
    out, last = x * w, w * 1
    for i in range(n):
        row = out[i]
        out[i] = last + row.sin()
        last = row * w
        row *= 0.5
    return out, last

def sliced(x, w, n: int):
    out = torch.zeros_like(x)
    for i in range(n):
        out[:, i % 3] = (x[:, 0] - out[:, (i + 1) % 3]).sin()
        for j in range(n):
            out[j : j + 2] = out[j : j + 2].cos() * w
            if j == i:
                out[j] += out.t()[:, i]
    return out, out.sum()

def turned(x, w, n: int):
    one, two = x * 1, x * w
    for i in range(n):
        one[i] = two[i - 1].sin()
        one, two = two, one
    k = 0
    while k < n:
        if two[k].sum() > 0:
            two[k] = one[k] + two[0]
        else:
            one[k] = two[k].tanh()
        k += 1
    return one, two

def held(x, w, n: int):
    out, before = x * w, [x * 1]
    for i in range(n):
        before.append(out * 1)
        out[i] = before[i][i] + before[-1].sum(0)
    return out, torch.stack(before).sum(0)
"""
NAMES = ("kept", "seen", "sliced", "turned", "held")


def eager(name: str, x: Any, w: Any, n: int) -> tuple[Any, Any]:
    """What writes makes new tensors of, for torch refuses gradients of what was written since."""

    def put(whole: Any, part: Any, i: int, dim: int = 0) -> Any:
        return torch.select_scatter(whole, part, dim, i)

    out = torch.zeros_like(x) if name == "sliced" else x * w
    last, rows, before = w * 1, [w * 1], [x * 1]
    one, two = x * 1, x * w
    for i in range(n):
        if name == "kept":
            out = put(out, (out[i - 1] * w).tanh(), i)
            rows.append(out[i])
        elif name == "seen":
            row = last + out[i].sin()
            out, last = put(out, row * 0.5, i), row * w
        elif name == "sliced":
            out = put(out, (x[:, 0] - out[:, (i + 1) % 3]).sin(), i % 3, 1)
            for j in range(n):
                out = torch.slice_scatter(out, out[j : j + 2].cos() * w, 0, j, j + 2)
                out = put(out, out[j] + out.t()[:, i], j) if j == i else out
        elif name == "turned":
            one, two = two, put(one, two[i - 1].sin(), i)
        else:
            before.append(out * 1)
            out = put(out, before[i][i] + before[-1].sum(0), i)
    for k in range(n) if name == "turned" else ():
        if two[k].sum() > 0:
            two = put(two, one[k] + two[0], k)
        else:
            one = put(one, two[k].tanh(), k)
    if name == "turned":
        return one, two
    others = {"kept": lambda: torch.stack(rows), "seen": lambda: last, "sliced": lambda: out.sum()}
    return out, others.get(name, lambda: torch.stack(before).sum(0))()


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("name", NAMES)
def test_rows_are_what_eager_torch_makes_them(name: str, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "split_for_cpu", partial(split_for_cpu, limits=replace(CHUNKS, large=1)))
    function = gs.CompilationUnit(SOURCE)[name]
    with gs.settings.backend(backend):
        for call in range(3 if backend == "numpy" else 2):
            x, w = np.random.default_rng(call).normal(size=(3, 3)), np.random.default_rng(call).normal(size=3)
            given = [torch.tensor(a, requires_grad=True) for a in (x, w)]
            expected = eager(name, *given, 3)
            gradients = torch.autograd.grad(sum(e.sin().sum() for e in expected), given, create_graph=True)
            seeds = tuple(np.asarray(e.detach().cos()) for e in expected)
            results, pullback = gs.vjp(function, x, w, 3)
            before = [result.copy() for result in results]
            for found, wanted in zip((*results, *pullback(seeds)[:2]), (*expected, *gradients), strict=True):
                np.testing.assert_allclose(found, wanted.detach().numpy(), rtol=1e-10, atol=1e-12)
            for found, wanted in zip((x, *results), (given[0].detach().numpy(), *before), strict=True):
                np.testing.assert_array_equal(found, wanted)
            if backend == "c":
                continue
            ours = [torch.tensor(a, requires_grad=True) for a in (x, w)]
            again = torch.autograd.grad(sum(e.sin().sum() for e in function(*ours, 3)), ours, create_graph=True)
            second = [torch.autograd.grad(g[0].sin().sum(), t) for g, t in ((again, ours), (gradients, given))]
            for found, wanted in zip((*again, *second[0]), (*gradients, *second[1]), strict=True):
                torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-11)


@pytest.mark.usefixtures("op_by_op")
def test_no_round_copies_all_rows() -> None:
    function = gs.CompilationUnit(SOURCE)["seen"]
    x, w = np.ones((40, 3)), np.ones(3)
    _, pullback = gs.vjp(function, x, w, 40)
    graphs = [gs.compiler_debug.last_executed_graph()]
    pullback((np.ones((40, 3)), None))
    graphs.append(gs.compiler_debug.last_executed_graph())
    for graph in graphs:
        plan = build_plan(graph)
        steps = zip(plan.code, plan.nodes, strict=True)
        rounds = [step[1] for step, node in steps if node.kind in WRITTEN_PARTS and inside_loop(node)]
        assert rounds and all(function in WRITES.values() for function in rounds)


def inside_loop(node: Any) -> bool:
    while node is not None and node.kind != "prim::Loop":
        node = node.holder
    return node is not None


IR = """
graph f(%n : int, %x : Tensor, %row : Tensor):
  %always : bool = prim::Constant[value=True]()
  %0 : int = prim::Constant[value=0]()
  %none : List[Tensor] = prim::ListConstruct()
  %out : Tensor, %all : List[Tensor] = prim::Loop(%n, %always, %x, %none)
    block(%i : int, %rows : Tensor, %list : List[Tensor]):
      {}
      return (%always, %new, %more)
  return (%out, %all, %x)
"""
READ = "%old : Tensor = aten::select.int(%rows, %0, %i)"
WRITE = "%new : Tensor = aten::select_scatter(%rows, %row, %0, %i)"


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ((READ, WRITE, "%more : List[Tensor] = aten::append.t(%list, %old)"), 2),
        ((WRITE, READ, "%more : List[Tensor] = aten::append.t(%list, %old)"), 1),
        ((WRITE, "%more : List[Tensor] = aten::append.t(%list, %rows)"), 1),
        ((WRITE, "%more : List[Tensor] = aten::append.t(%list, %new)"), 1),
        (("%old : Tensor = aten::t(%rows)", WRITE, "%more : List[Tensor] = aten::append.t(%list, %old)"), 2),
    ],
    ids=["read before", "read after", "held", "the new one held", "turned before"],
)
def test_only_what_nobody_sees_is_written_into(body: tuple[str, ...], count: int) -> None:
    x, row = np.arange(4.0).reshape(2, 2), np.array([7.0, 8.0])
    plan = build_plan(gs.parse_ir(IR.format("\n      ".join(body))))
    assert sum(step[1] in WRITES.values() for step in plan.code) == count
    out, found, given = run_plan(plan, [2, x, row])
    np.testing.assert_array_equal(out, [row, row])
    np.testing.assert_array_equal(given, np.arange(4.0).reshape(2, 2))
    states = [x, np.stack([row, x[1]]), np.stack([row, row])]
    reads = {"select": lambda i: states[i][i], "rows)": lambda i: states[i], "new)": lambda i: states[i + 1]}
    read = lambda i: states[i].T  # noqa: E731 - the last of them
    for key, value in reads.items():
        read = value if any(key in line for line in body if "append" in line or "select.int" in line) else read
    for i, value in enumerate(found):
        np.testing.assert_array_equal(value, read(i))


@pytest.mark.parametrize(("rows", "is_grouped"), [(4096, False), (2, True)])
def test_kernels_leave_large_tensors_where_they_are(rows: int, is_grouped: bool) -> None:
    """Of small ones a kernel makes another in each round, which takes no longer than to write a row."""
    body = ("%a : Tensor = aten::tanh(%row)", "%b : Tensor = aten::mul.Tensor(%a, %a)", WRITE.replace("%row,", "%b,"))
    text = IR.format("\n      ".join((*body, "%more : List[Tensor] = aten::append.t(%list, %b)")))
    sizes = ((rows, 2), (2,))
    given = [2000, *[Layout.contiguous(Meta(size, FLOAT32)) for size in sizes]]
    parts = fuse_groups(gs.parse_ir(text), given, split=split_for_cpu)
    assert parts is not None
    holders = [node.holder for node in parts.graph.all_nodes() if node.kind in WRITTEN_PARTS]
    assert holders and all(holder is not None for holder in holders)
    assert {holder.kind == groups.KIND for holder in holders if holder is not None} == {is_grouped}


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_what_does_not_fit_is_told_as_ever(library: str) -> None:
    function = gs.CompilationUnit("""
def f(x, row, n: int):
    out = x * 1
    for i in range(n):
        out[i] = row
    return out
""").f
    x, row = np.ones((2, 3)), np.arange(3.0)
    given = (x, row) if library == "numpy" else (torch.tensor(x), torch.tensor(row))
    np.testing.assert_array_equal(function(*given, 2), [row, row])
    with pytest.raises(gs.RuntimeFailure, match="out of range"):
        function(*given, 3)
    mixed = function(given[0], given[1] if library == "torch" else row.astype(np.float32), 2)
    np.testing.assert_array_equal(mixed, [row, row])
