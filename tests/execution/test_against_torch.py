"""The same graphs and functions, asked of torch's own executor and autodiff."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gradscript.compiler.autodiff import differentiate  # noqa: E402
from gradscript.compiler.autodiff.subgraphs import create_autodiff_subgraphs  # noqa: E402
from gradscript.compiler.ir.node import walk  # noqa: E402
from gradscript.compiler.parse_ir import parse_ir  # noqa: E402
from gradscript.compiler.passes.gradients.specialize_autograd_zero import specialize_autograd_zero  # noqa: E402
from gradscript.runtime.execution.groups import plan_with_groups  # noqa: E402
from gradscript.runtime.plans.interpreter import run_plan  # noqa: E402
from group_graphs import GRAPHS  # noqa: E402
from torch_graphs import both, count, legacy_executor  # noqa: E402

STRAIGHT = [name for name, text in GRAPHS.items() if "block" not in text]
"""A branch or a loop goes into a group of ours whole, and into none of torch's."""


@pytest.mark.parametrize("threshold", [1, 2, 3])
@pytest.mark.parametrize("name", STRAIGHT)
def test_as_many_groups(name: str, threshold: int) -> None:
    graph, theirs = both(GRAPHS[name])
    torch._C._jit_pass_create_autodiff_subgraphs(theirs, threshold)
    assert len(create_autodiff_subgraphs(graph, threshold)) == count(theirs), f"{graph}\n{theirs}"


@pytest.mark.parametrize("threshold", [1, 2, 3])
@pytest.mark.parametrize("name", [name for name in GRAPHS if name not in STRAIGHT])
def test_groups_with_blocks_hold_all_that_torchs_hold(name: str, threshold: int) -> None:
    graph, theirs = both(GRAPHS[name])
    torch._C._jit_pass_create_autodiff_subgraphs(theirs, threshold)
    groups = create_autodiff_subgraphs(graph, threshold)
    held = [node.kind for group in groups for node in walk(group.blocks[0].nodes) if node.schema is not None]
    _, *outlined = str(theirs).split("with prim::DifferentiableGraph")
    used = [group for group in groups if any(value.use_count for value in group.outputs)]
    assert len(used) <= max(count(theirs), 1), f"{graph}\n{theirs}"
    assert len(held) >= sum(text.count(" = aten::") for text in outlined), f"{graph}\n{theirs}"


DIFFERENTIATED = [
    *("a chain", "one node", "unrelated chains", "chains that meet", "two users of one", "a dense square"),
    *("independent nodes of one consumer", "results that repeat"),
]
"""Of views and inputs that are results we capture otherwise: those take gradients themselves, and the input is one."""


@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_the_same_vjps_and_captures(name: str) -> None:
    """Sizes aside, which torch keeps among the tensors."""
    graph, theirs = both(GRAPHS[name])
    ours, reference = differentiate(graph), torch._C._jit_differentiate(theirs)
    our_rank = _ranks([str(value.type) for value in ours.f.outputs])
    rank = _ranks([str(value.type()) for value in reference.f.outputs()])
    assert [our_rank[i] for i in ours.input_vjps] == [rank[i] for i in reference.df_input_vjps]
    assert list(ours.output_vjps) == list(reference.df_output_vjps)
    assert list(ours.captured_inputs) == list(reference.df_input_captured_inputs)
    assert ours.num_real_outputs == reference.f_real_outputs
    tensors = [rank[i] for i in reference.df_input_captured_outputs if i in rank]
    assert [our_rank[i] for i in ours.captured_outputs if i in our_rank] == tensors


def _ranks(types: list[str]) -> dict[int, int]:
    """From the number of an output that is a tensor to its number among those."""
    tensors = [i for i, type in enumerate(types) if type.startswith("Tensor")]
    return {index: rank for rank, index in enumerate(tensors)}


SOURCES = {
    "f": "def f(a, b):\n    return a * b * a + b\n",
    "g": "def g(a, b):\n    return torch.tanh(a * b) * torch.sigmoid(a * b + b)\n",
    "h": "def h(a, b):\n    c = torch.exp(-(a * b)) + b\n    return torch.relu(c) * c + a * torch.tanh(c - b) * b\n",
}


@pytest.mark.parametrize("name", SOURCES)
def test_as_many_plans(name: str) -> None:
    rng = np.random.default_rng(0)
    shapes = [(2,), (3,), (2, 2), (3, 2, 2)]
    calls = [(rng.standard_normal(s).astype(d), m) for s in shapes for d in ("f4", "f8") for m in (0, 1, 2, 3)]
    function = gs.CompilationUnit(SOURCES[name])[name]
    with legacy_executor():
        scripted = torch.jit.CompilationUnit(SOURCES[name])
        reference = getattr(scripted, name)
        for array, mask in calls:
            for enabled in (False, True):
                flags = [bool(mask & 1), bool(mask & 2)]
                tensors = [torch.tensor(array, requires_grad=flag) for flag in flags]
                with torch.set_grad_enabled(enabled):
                    expected = reference(*tensors)
                spec = function.executor.signature.spec([array, array], flags, grad_mode=enabled)
                (result,) = run_plan(function.executor.plan_for(spec), [array, array])
                np.testing.assert_allclose(result, expected.detach().numpy(), rtol=1e-5)
        plans = reference.get_debug_state().execution_plans
    assert len(function.debug_state().plans) == len(plans)


_A, _B, _ROW = np.ones((2, 3), np.float32), np.ones((2, 3)), np.ones(3, np.float32)
CALLS: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    "numbers": (
        "def f(x, k: float, n: int, flag: bool):\n    return x * k + n if flag else x * n\n",
        [(_A, 1.0, 1, True), (_A, 2.0, 1, True), (_A, 1.0, 5, False), (_B, 1.0, 1, True)],
    ),
    "optional tensors": (
        "def f(x, b: Optional[Tensor]):\n    if b is not None:\n        x = x + b\n    return x * 2\n",
        [(_A, None), (_A, _A), (_A, _ROW), (_B, None), (_A, None)],
    ),
    "optional numbers": (
        "def f(x, n: Optional[int], m: Optional[int]):\n    if n is not None:\n        x = x * n\n"
        "    if m is not None:\n        x = x + m\n    return x\n",
        [(_A, None, None), (_A, 1, None), (_A, 2, None), (_A, None, 3), (_A, 4, 5)],
    ),
    "tuples": (
        "def f(p: Tuple[Tensor, Tensor], q: Tuple[int, float]):\n    return p[0] * p[1] + q[0]\n",
        [((_A, _A), (1, 2.0)), ((_A, _ROW), (1, 2.0)), ((_A, _A), (3, 2.0)), ((_B, _A), (1, 2.0))],
    ),
    "lists": (
        "def f(xs: List[Tensor], sizes: List[int]):\n    return xs[0] * 2 + sizes[0]\n",
        [([_A], [1]), ([_A, _A], [1, 2]), ([_B], [1]), ([_ROW], [3])],
    ),
    "sizes and strides": (
        "def f(x, y):\n    return x * y + x.size(0)\n",
        [(_A, _A), (_A[:1], _A), (_A[:, ::2], _A[:, ::2]), (_A[:0], _A[:0]), (_A.T, _A.T)],
    ),
}


@pytest.mark.usefixtures("op_by_op")
@pytest.mark.parametrize("name", CALLS)
def test_as_many_plans_for_arguments_of_every_kind(name: str) -> None:
    source, calls = CALLS[name]
    function = gs.CompilationUnit(source).f
    with legacy_executor(), torch.no_grad():
        reference = torch.jit.CompilationUnit(source).f
        for arguments in calls:
            expected = reference(*_tensors(arguments)).numpy()
            np.testing.assert_array_equal(function(*arguments), expected)
        plans = reference.get_debug_state().execution_plans
    assert len(function.debug_state().plans) == len(plans)


def _tensors(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value)
    return type(value)(map(_tensors, value)) if isinstance(value, list | tuple) else value


TORCHS_BACKWARD = """\
graph(%g : Tensor, %u : Tensor, %y : Tensor):
  %zero : Tensor = prim::AutogradZero()
  %c1 : bool = prim::AutogradAnyNonZero(%zero)
  %a : Tensor = prim::If(%c1)
    block0():
      %m1 : Tensor = aten::mul(%zero, %y)
      -> (%m1)
    block1():
      %z1 : Tensor = prim::AutogradZero()
      -> (%z1)
  %c2 : bool = prim::AutogradAnyNonZero(%g)
  %b : Tensor = prim::If(%c2)
    block0():
      %m2 : Tensor = aten::mul(%g, %y)
      -> (%m2)
    block1():
      %z2 : Tensor = prim::AutogradZero()
      -> (%z2)
  %c3 : bool = prim::AutogradAnyNonZero(%u)
  %d : Tensor = prim::If(%c3)
    block0():
      %m3 : Tensor = aten::mul(%u, %y)
      -> (%m3)
    block1():
      %z3 : Tensor = prim::AutogradZero()
      -> (%z3)
  %c : Tensor = prim::AutogradAdd(%a, %b)
  %e : Tensor = prim::AutogradAdd(%c, %d)
  return (%e)
"""
"""As torch lowers GradOf: asking at each, when it runs, whether there is a gradient."""


def test_undefined_gradients_leave_the_same() -> None:
    """A GradOf of zeros goes, one of known gradients is taken apart, and two known gradients are added."""
    text = """\
graph f(%g : Tensor[float32], %u : Tensor[float32], %y : Tensor):
  %zero : Undefined = prim::AutogradZero()
  %a : Tensor = prim::GradOf[name="aten::exp"](%zero)
    block():
      %1 : Tensor = aten::mul.Tensor(%zero, %y)
      return (%1)
  %b : Tensor = prim::GradOf[name="aten::mul"](%g)
    block():
      %2 : Tensor = aten::mul.Tensor(%g, %y)
      return (%2)
  %d : Tensor = prim::GradOf[name="aten::mul"](%u)
    block():
      %3 : Tensor = aten::mul.Tensor(%u, %y)
      return (%3)
  %c : Tensor = prim::AutogradAdd(%a, %b)
  %e : Tensor = prim::AutogradAdd(%c, %d)
  return (%e)
"""
    theirs = torch._C.parse_ir(TORCHS_BACKWARD)
    graph = parse_ir(text)
    specialize_autograd_zero(graph)
    with legacy_executor():
        torch._C._jit_pass_specialize_autogradzero(theirs)
    torch._C._jit_pass_constant_propagation(theirs)
    torch._C._jit_pass_dce(theirs)
    kinds = [node.kind for node in graph.all_nodes()]
    # torch asks whether a gradient is there where we have a GradOf. Both are known here, and the third is zero.
    assert kinds.count("prim::GradOf") == str(theirs).count("prim::AutogradAnyNonZero") == 0
    assert kinds.count("prim::AutogradAdd") == str(theirs).count("prim::AutogradAdd") == 0
    assert kinds.count("aten::add.Tensor") == str(theirs).count("aten::add(") == 1
    assert kinds.count("aten::mul.Tensor") == str(theirs).count("aten::mul(") == 2


@pytest.mark.parametrize("name", SOURCES)
def test_gradients_and_second_derivatives_are_eager_torchs(name: str) -> None:
    """Without gradients first, then with each mask."""
    function = gs.CompilationUnit(SOURCES[name])[name]
    namespace: dict[str, Any] = {"torch": torch}
    exec(SOURCES[name], namespace)
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal((2, 3)) for _ in range(2)]
    with gs.tape.no_grad():
        function(*arrays)
    for flags in ((True, False), (False, True), (True, True)):
        executor = function.executor
        with gs.settings.autodiff_debugging(True):
            executor.clear()
            plan = executor.plan_for(executor.signature.spec(arrays, flags))
        (group,) = plan.groups
        differentiated = group.differentiate(group.requires_grad)
        (out,), residuals = differentiated.run(arrays)
        tensors = [torch.tensor(a, requires_grad=f) for a, f in zip(arrays, flags, strict=True)]
        expected = namespace[name](*tensors)
        np.testing.assert_allclose(out, expected.detach().numpy(), rtol=1e-12)
        wanted = [t for t in tensors if t.requires_grad]
        grads = torch.autograd.grad(expected.sum(), wanted, create_graph=True)
        found = differentiated.pull_back(arrays, [np.ones((2, 3))], residuals)
        assert [g is not None for g in found] == list(flags)
        for mine, theirs in zip([g for g in found if g is not None], grads, strict=True):
            np.testing.assert_allclose(mine, theirs.detach().numpy(), rtol=1e-10)
        assert plan_with_groups(group.graph).input_count == 2
        _compare_second(function, arrays, flags, grads, tensors)


def _compare_second(function: gs.Function, arrays: list[Any], flags: Any, grads: Any, tensors: list[Any]) -> None:
    """The gradient of the sum of the first gradients' squares, on the tape, whose nodes are the plans' groups."""
    variables = [gs.tape.Variable(array, requires_grad=flag) for array, flag in zip(arrays, flags, strict=True)]
    wanted = [v for v, flag in zip(variables, flags, strict=True) if flag]
    first = gs.tape.grad(function(*variables).sum(), wanted, create_graph=True)
    squares, expected_squares = sum((g * g).sum() for g in first), sum((g * g).sum() for g in grads)
    assert squares.requires_grad is expected_squares.requires_grad
    if not squares.requires_grad:
        return
    mine = gs.tape.grad(squares, wanted)
    theirs = torch.autograd.grad(expected_squares, [t for t in tensors if t.requires_grad])
    for found, expected in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(np.asarray(found.data), expected.numpy(), rtol=1e-9)
