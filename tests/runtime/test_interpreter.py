"""Depth, freeing, undefined gradients, threads: what the interpreter promises beside results."""

from __future__ import annotations

import threading
import weakref
from typing import Any

import gradscript as gs
import numpy as np
import pytest
from gradscript.compiler.ir.builder import Builder
from gradscript.compiler.ir.graph import Callee, Graph
from gradscript.compiler.ir.node import Value
from gradscript.compiler.parse_ir import parse_ir
from gradscript.compiler.types.schema import parse_schema
from gradscript.compiler.types.types import TENSOR
from gradscript.runtime.execution import groups
from gradscript.runtime.plans.build import PlanCache, build_plan
from gradscript.runtime.plans.interpreter import run_plan

X = np.arange(6.0).reshape(2, 3)


def run(text: str, *arguments: Any) -> list[Any]:
    return run_plan(build_plan(parse_ir(text)), arguments)


# --- depth ---


def test_a_chain_of_ten_thousand_ops() -> None:
    body = "    x = x + 1.0\n" * 10_000
    function = gs.CompilationUnit(f"def f(x):\n{body}    return x\n").f
    np.testing.assert_array_equal(function(X), X + 10_000)


def test_a_chain_of_five_thousand_calls() -> None:
    functions: dict[str, Callee] = {}
    for i in range(5000):
        graph = Graph(f"f{i}", functions)
        builder, x = Builder(graph), graph.body.add_input(TENSOR, "x")
        inner = x if i == 0 else call(builder, f"f{i - 1}", x)
        builder.returns(builder.op("aten::add.Scalar", inner, 1.0))
        functions[f"f{i}"] = Callee(parse_schema(f"f{i}(Tensor x) -> Tensor"), graph)
    np.testing.assert_array_equal(run_plan(build_plan(functions["f4999"].graph), [X])[0], X + 5000)


def call(builder: Builder, name: str, value: Value) -> Value:
    return builder.node("prim::CallFunction", [value], [TENSOR], attrs={"callee": name}).output


def test_deep_branches() -> None:
    depth = 3000
    graph = parse_ir("graph f(%x : Tensor, %c : bool):\n  return (%x)\n")
    x, c = graph.inputs
    builder = Builder(graph)
    outer = builder.node("prim::If", [c], [TENSOR], blocks=2)
    node = outer
    for _ in range(depth):
        with builder.at(node.blocks[1]):
            builder.returns(builder.op("aten::mul.Scalar", x, 2.0))
        with builder.at(node.blocks[0]):
            inner = builder.node("prim::If", [c], [TENSOR], blocks=2)
            builder.returns(inner.output)
        node = inner
    for block in node.blocks:
        with builder.at(block):
            builder.returns(builder.op("aten::add.Scalar", x, 1.0))
    graph.body.ret.replace_inputs([outer.output])
    plan = build_plan(graph)
    np.testing.assert_array_equal(run_plan(plan, [X, True])[0], X + 1)
    np.testing.assert_array_equal(run_plan(plan, [X, False])[0], X * 2)


# --- freeing ---


class Tracked(np.ndarray):  # type: ignore[type-arg]
    """An array that a weak set can hold."""

    __hash__ = object.__hash__  # type: ignore[assignment]
    __eq__ = object.__eq__  # type: ignore[assignment]


def peak(source: str, *arguments: Any) -> int:
    """The most arrays made by the ops of a function that are alive at once."""
    alive: weakref.WeakSet[Tracked] = weakref.WeakSet()
    most = 0

    def tracked(function: Any) -> Any:
        def evaluate(*operands: Any) -> Any:
            nonlocal most
            result = function(*operands)
            if isinstance(result, np.ndarray):
                result = result.copy().view(Tracked)
                alive.add(result)
                most = max(most, len(alive))
            return result

        return evaluate

    function = gs.CompilationUnit(source).f
    plan = build_plan(function.graph)
    code = tuple([(k, tracked(f) if callable(f) else f, *rest) for k, f, *rest in plan.code])
    object.__setattr__(plan, "code", code)
    run_plan(plan, arguments)
    return most


@pytest.mark.parametrize("length", [3, 50])
def test_a_chain_keeps_one_value_and_its_successor(length: int) -> None:
    chain = "    x = x * 2.0\n" * length
    assert peak(f"def f(x):\n{chain}    return x\n", X) == 2


def test_a_loop_keeps_what_it_carries() -> None:
    source = "def f(x, n: int):\n    for i in range(n):\n        y = x * 2.0\n        x = y + 1.0\n    return x\n"
    assert peak(source, X, 20) == 2


def test_a_value_used_in_one_branch_is_freed_in_the_other() -> None:
    source = """
def f(x, c: bool):
    y = x * 2.0
    if c:
        x = x + y
    else:
        x = x * 2.0
        x = x * 3.0
    return x
"""
    assert peak(source, X, False) == 2
    assert peak(source, X, True) == 2


def test_a_value_from_outside_lives_through_a_loop() -> None:
    source = "def f(x, n: int):\n    y = x * 2.0\n    for i in range(n):\n        x = x + y\n    return x * 1.0\n"
    np.testing.assert_array_equal(gs.CompilationUnit(source).f(X, 4), X * 9)


def test_a_call_hands_its_operands_over() -> None:
    source = "def g(x):\n    x = x * 2.0\n    return x\ndef f(x):\n    y = x * 3.0\n    return g(y)\n"
    assert "CALL" in str(gs.CompilationUnit(source).f.executor.fallback())
    np.testing.assert_array_equal(gs.CompilationUnit(source).f(X), X * 6)


# --- undefined gradients ---

GRAD_OF = """graph f(%x : Tensor, %g : Tensor):
  %a : Tensor = prim::GradOf[name="aten::mul.Tensor"](%g)
    block():
      %1 : Tensor = aten::mul.Tensor(%g, %x)
      return (%1)
  %b : Tensor = prim::AutogradAdd(%a, %g)
  %2 : List[int] = aten::size(%x)
  %3 : int = prim::dtype(%x)
  %c : Tensor = prim::MaterializeGrad(%b, %2, %3)
  return (%a, %b, %c)
"""


def test_an_undefined_gradient_computes_nothing() -> None:
    a, b, c = run(GRAD_OF, X, None)
    assert a is None
    assert b is None
    np.testing.assert_array_equal(c, np.zeros_like(X))


def test_a_defined_gradient_flows() -> None:
    a, b, c = run(GRAD_OF, X, X + 1)
    np.testing.assert_array_equal(a, X * (X + 1))
    np.testing.assert_array_equal(b, a + X + 1)
    assert c is b


def test_autograd_zero_is_none() -> None:
    text = """graph f(%x : Tensor):
  %z : Undefined = prim::AutogradZero()
  %y : Tensor = prim::AutogradAdd(%z, %x)
  return (%z, %y)
"""
    z, y = run(text, X)
    assert z is None
    assert y is X


def test_gradients_of_lists_add_up_by_elements() -> None:
    text = """graph f(%a : List[Tensor], %b : List[Tensor]):
  %c : List[Tensor] = prim::AutogradAdd(%a, %b)
  return (%c)
"""
    (result,) = run(text, [X, None, None], [X, X, None])
    np.testing.assert_array_equal(result[0], X + X)
    assert result[1] is X
    assert result[2] is None
    assert run(text, None, [X]) == [[X]]
    with pytest.raises(gs.RuntimeFailure, match="a gradient of 1 tensors is added to one of 2"):
        run(text, [X], [X, X])


# --- lists and tuples ---


def test_unpacking_checks_the_length_of_a_list() -> None:
    text = """graph f(%xs : List[Tensor]):
  %a : Tensor, %b : Tensor = prim::ListUnpack(%xs)
  return (%b, %a)
"""
    assert run(text, [1, 2]) == [2, 1]
    with pytest.raises(gs.RuntimeFailure, match="2 values are needed to unpack, and the list has 3"):
        run(text, [1, 2, 3])


def test_unpacking_one_element() -> None:
    text = """graph f(%xs : List[Tensor], %p : Tuple[int]):
  %a : Tensor = prim::ListUnpack(%xs)
  %b : int = prim::TupleUnpack(%p)
  return (%a, %b)
"""
    assert run(text, [X], (3,)) == [X, 3]


# --- plans ---


@pytest.mark.usefixtures("op_by_op")
def test_a_plan_is_built_once_for_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[Graph] = []

    class Counting(groups.GroupPlanner):
        def __init__(self, graph: Graph, callees: PlanCache) -> None:
            built.append(graph)
            super().__init__(graph, callees)

    monkeypatch.setattr(groups, "GroupPlanner", Counting)
    source = "def g(x):\n    return x * 2.0\ndef f(x):\n    return g(x) + g(x + 1.0)\n"
    function = gs.CompilationUnit(source).f
    results: list[Any] = []
    threads = [threading.Thread(target=lambda: results.extend(function(X) for _ in range(50))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 400
    for result in results:
        np.testing.assert_array_equal(result, 4 * X + 2)
    # The call is inlined, so there is one plan in all.
    assert len(built) == 1


def test_a_plan_prints() -> None:
    text = str(gs.CompilationUnit("def f(x, y):\n    z = x * y\n    return z * 2.0\n").f.executor.fallback())
    assert text == (
        "   0 BINARY   1 ← aten::mul.Tensor(0, 1)  free 0\n"
        "   1 BINARY   1 ← aten::mul.Scalar(1, 2)\n"
        "   2 RETURN   prim::Return(1,)\n"
    )


def test_warnings_of_numpy_stay_silent() -> None:
    function = gs.CompilationUnit("def f(x):\n    return torch.log(x) / x\n").f
    with np.errstate(all="raise"):
        np.testing.assert_array_equal(function(np.zeros(2)), [-np.inf, -np.inf])
        assert np.geterr()["divide"] == "raise"


def test_interrupts_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    plan = build_plan(gs.CompilationUnit("def f(x):\n    return x * x\n").f.graph)
    step = (plan.code[0][0], interrupted, *plan.code[0][2:])
    object.__setattr__(plan, "code", (step, *plan.code[1:]))
    with pytest.raises(KeyboardInterrupt):
        run_plan(plan, [X])


def test_the_number_of_values_is_checked() -> None:
    plan = build_plan(gs.CompilationUnit("def f(x):\n    return x\n").f.graph)
    with pytest.raises(TypeError, match="f takes 1 values, not 2"):
        run_plan(plan, [X, X])
