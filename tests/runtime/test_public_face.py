"""Whatever the public face is given, what comes out is a result, a diagnostic, or an exception raised on purpose."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from typing import IO, Any

import gradscript as gs
import numpy as np
import pytest
import torch
from face_calls import KINDS, UNIT, complaint
from room_calls import ROOM_KINDS

BATCH = 40
CALLS = 1600
KINDS.update(ROOM_KINDS)


@pytest.mark.parametrize("first", range(0, CALLS, BATCH))
def test_calls_at_random(first: int) -> None:
    found = [told for told in map(complaint, range(first, first + BATCH)) if told is not None]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("kind", [name for name, (_, weight) in KINDS.items() if weight])
def test_each_kind_of_call(kind: str) -> None:
    found = [told for told in (complaint(seed, kind) for seed in range(12)) if told is not None]
    assert not found, "\n".join(found)


def test_the_judge_sees_what_is_not_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    def judged(call: Callable[[], object]) -> str:
        monkeypatch.setitem(KINDS, "call", (lambda caller: call(), 1))
        return complaint(0, "call") or "all is well"

    assert judged(lambda: UNIT.mul(1.0)) == "all is well"
    assert "an exception of Python's own: AttributeError" in judged(lambda: UNIT.mul.graph.nothing)  # type: ignore[attr-defined]
    assert "not raised on purpose: TypeError" in judged(lambda: np.zeros(2).reshape("3"))  # type: ignore[call-overload]
    assert "not raised on purpose: ValueError" in judged(lambda: np.zeros(2).reshape(3))


class Size(enum.IntEnum):
    LARGE = 3


@pytest.mark.parametrize("number", [Size.LARGE, np.int64(3), True])
def test_ints_of_a_subclass(number: int) -> None:
    """None of them is searched for in all that int64 holds."""
    assert float(UNIT.energy(number)) == float(number) ** 4
    with pytest.raises(gs.RuntimeFailure, match="does not fit int64"):
        UNIT.energy(type("Huge", (int,), {})(2**63))


def test_lists_that_hold_themselves() -> None:
    circle: list[object] = [np.ones(3)]
    circle.append(circle)
    with pytest.raises(gs.RuntimeFailure, match="a Tensor is needed, not a list"):
        UNIT.energy(circle)
    with pytest.raises(gs.RuntimeFailure, match="element 1: a Tensor is needed, not a list"):
        UNIT.listed(circle)
    for call in (lambda: gs.trace(lambda x: x[0] * 2, circle), lambda: gs.ops.relu(circle)):
        with pytest.raises(TypeError, match="30 levels deep, and not in themselves"):
            call()


def test_what_argnums_are() -> None:
    for argnums in (None, 0.5, "0", b"0", np.array(0), object()):
        with pytest.raises(TypeError, match="argnums is an int or a sequence of them, not "):
            gs.grad(UNIT.mul, argnums)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="there is no argnum 'x'"):
        gs.grad(UNIT.mul, ["x"])  # type: ignore[list-item]


def _failing() -> Iterator[int]:
    yield 0
    raise OSError("no more")


def _closed() -> IO[str]:
    with open(__file__) as file:
        return file


@pytest.mark.parametrize("made", [_failing, _closed, lambda: np.array(0), lambda: torch.tensor(0)])
def test_what_fails_while_it_is_gone_through(made: Callable[[], Any]) -> None:
    x = gs.tape.Variable(np.ones(3), True)
    for call in (
        lambda given: gs.grad(UNIT.mul, given),
        lambda given: gs.value_and_grad(UNIT.energy, donate_argnums=given),
        lambda given: gs.vjp(UNIT.energy, np.ones(3), donate_argnums=given),
        lambda given: gs.tape.grad(given, x),
        lambda given: gs.tape.grad((x * 2).sum(), given),
    ):
        with pytest.raises(TypeError, match=r"(is an int or a sequence of them|are Variables), not "):
            call(made())
    if made is _closed:
        with pytest.raises(gs.RuntimeFailure, match="a Tensor is needed, not a value of type "):
            gs.export(UNIT.energy, made())


@pytest.mark.parametrize("given", [np.ones(2), torch.ones(2), 1, "yes", None, []])
def test_flags_are_bools(given: Any) -> None:
    x = gs.tape.Variable(np.ones(3), True)
    for flag in ("retain_graph", "create_graph", "allow_unused"):
        with pytest.raises(TypeError, match=f"{flag} is True or False, not "):
            gs.tape.grad((x * 2).sum(), x, **{flag: given})
    for flag in ("retain_graph", "create_graph"):
        with pytest.raises(TypeError, match=f"{flag} is True or False, not "):
            (x * 2).sum().backward(**{flag: given})


def test_texts_that_are_none() -> None:
    for take in (gs.parse_ir, gs.CompilationUnit, UNIT.mul.show):
        with pytest.raises(TypeError, match="is a str, not "):
            take(b"graph")  # type: ignore[operator]


def test_requires_grad_is_a_bool() -> None:
    for flag in (1, "yes", np.ones(2)):
        with pytest.raises(TypeError, match="requires_grad is True or False, not "):
            gs.tape.Variable(np.ones(2), flag)  # type: ignore[arg-type]


def test_a_variable_in_a_half() -> None:
    _, context = UNIT.mul.forward(np.ones(2), np.ones(2))
    with pytest.raises(gs.RuntimeFailure, match="a Variable stands where an array is needed"):
        UNIT.mul.backward(context, gs.tape.Variable(np.ones(2)))
    with pytest.raises(gs.RuntimeFailure, match="a Variable stands where an array is needed"):
        UNIT.mul.kernels(gs.tape.Variable(np.ones(2)), np.ones(2))


def test_parameters_may_have_any_name() -> None:
    unit = gs.CompilationUnit("def mul(self, function):\n    return (self * function).sum()\n")
    x = np.ones(3)
    assert unit.mul(self=x, function=x) == 3.0
    assert gs.grad(unit.mul)(self=x, function=x).tolist() == [1.0, 1.0, 1.0]
    assert gs.vjp(unit.mul, self=x, function=x)[0] == 3.0
    assert gs.check(unit.mul, self=x, function=x).ok
    assert "mul" in str(unit.mul.memory(self=x, function=x))
    assert unit.mul(self=gs.tape.Variable(x, True), function=x).requires_grad


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_gradients_are_passed_by_position(backend: str) -> None:
    unit = gs.CompilationUnit("def mul(x, y):\n    return x * y\n")
    x = np.ones(3)
    with gs.settings.backend(backend):
        for _ in range(4):
            _, pullback = gs.vjp(unit.mul, x, x)
            with pytest.raises(gs.RuntimeFailure, match="a gradient has no name, such as 'grad_output'"):
                pullback(grad_output=x)


def test_a_variable_is_one_number_or_none() -> None:
    several = gs.tape.Variable(np.ones((2, 1)), True)
    for take in (bool, float, int, lambda v: v.item()):
        with pytest.raises(ValueError, match=r"a Variable of shape \[2, 1\] is no single number"):
            take(several)
    assert float(several[0]) == 1.0
    with pytest.raises(TypeError, match="of float64 is no index"):
        [1, 2][several[0]]  # type: ignore[call-overload]
