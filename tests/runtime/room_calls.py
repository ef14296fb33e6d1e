"""Calls at random of what the rooms of the public face hold, and of what units and functions offer besides calls."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gradscript as gs
from face_calls import TORCH, UNIT, Caller, array
from gradscript.runtime.face.torch_op import TorchOp

NAMES: list[Any] = ["aten::sigmoid", "aten::mul.Tensor", "sigmoid", "aten::nothing", "", "::", "aten::add", 1, None]
DENSE = TORCH[:7]
WORDS = ["x", "y", "grad", "grad_output", "args", "self", "cotangents", "function", "policy", "name", "é"]


def _keywords(caller: Caller, likely: float = 0.3) -> dict[str, Any]:
    return {caller.chosen(WORDS): caller.value()} if caller.random.random() < likely else {}


def _unless(meant: type[Exception], call: Callable[[], Any]) -> Any:
    """What a call gives; None where it ends in what it documents."""
    try:
        return call()
    except meant:
        return None


def _some(caller: Caller, most: int = 3) -> list[Any]:
    return [caller.value() for _ in range(caller.random.randrange(most))]


def pulled(caller: Caller) -> Any:
    """A pullback, of all arrays and with what entries keep, called with anything."""
    name = caller.chosen(["mul", "two", "pair_of_two", "listed", "pieces", "energy"])
    values = [[array(2, 3), array(2, 3)]] if name == "listed" else [array(2, 3)]
    values += [array(2, 3)] * (name in ("mul", "two", "pair_of_two"))
    with gs.settings.backend(caller.chosen(["numpy", "c"])):
        for _ in range(caller.random.choice([1, 3])):
            out, pullback = gs.vjp(UNIT[name], *values)
        if caller.random.random() < 0.3:
            pullback(out)
        return pullback(*_some(caller), **_keywords(caller, 0.5))


def registered(caller: Caller) -> Any:
    op, function = caller.chosen(NAMES), caller.chosen([UNIT.mul, UNIT.energy, UNIT.two, UNIT.mul.pair])
    return gs.register_formula(op, function if caller.random.random() < 0.7 else caller.value())


def as_op(caller: Caller) -> Any:
    name = caller.chosen(["face::mul", "face", "", "::", "a::b::c", "1::2", "face::class", "aten::mul", 3, None])
    options: dict[str, Any] = {}
    if caller.random.random() < 0.4:
        options["autocast"] = caller.chosen(["fp32", "promote", "nothing", 1, None, float, object()])
    if caller.random.random() < 0.3:
        options["sharding"] = caller.chosen(["derive", None, "no", 0])
    given = caller.chosen([UNIT.nested, UNIT.texts, UNIT, lambda x: x, None, UNIT.maybe])
    return gs.torch_op(given if caller.random.random() < 0.7 else caller.value(), name, **options)


_OP: list[TorchOp] = []


def op_called(caller: Caller) -> Any:
    if not _OP:
        _OP.append(gs.torch_op(UNIT.scale, "face_calls::scale"))
    (op,) = _OP
    found = caller.chosen([op, op.op, op.forward])
    options = {"factor": caller.chosen([2, 0.5, float("nan")])} if caller.random.random() < 0.3 else {}
    return found(caller.chosen(DENSE)(), **options)


def set_by_name(caller: Caller) -> Any:
    name = caller.chosen(["optimize", "profiling", "autotuning", "backend", "capture_checking", "autodiff_debugging"])
    likely = caller.random.random() < 0.5
    value = caller.chosen([True, False, "c", "numpy", "cuda", 1, None]) if likely else caller.value()
    do = caller.random.randrange(4)
    if do == 0:
        with getattr(gs.settings, name)(value):
            return UNIT.energy(array(2))
    if do == 1:
        return getattr(gs.settings, name) == value, bool(getattr(gs.settings, name)), repr(gs.settings)
    if do == 2:
        block = getattr(gs.settings, name)(value)
        with block:
            pass
        with block:
            return None
    kept = getattr(gs.settings, name)
    before = str(kept) if name == "backend" else bool(kept)
    try:
        setattr(gs.settings, name, value)
    finally:
        setattr(gs.settings, name, before)
    return None


def in_rooms(caller: Caller) -> Any:
    """What the rooms hold, with arguments that few would pass."""
    value = caller.value
    return caller.random.choice(
        [
            lambda: gs.random.manual_seed(value()),
            lambda: gs.compiler_debug.choose_aggregation(value())(),
            lambda: gs.compiler_debug.register_pass("optimize", value())(),
            lambda: gs.compiler_debug.register_pass(value(), lambda graph: False)(),
            lambda: str(gs.compiler_debug.last_executed_graph()),
            lambda: gs.compiler_debug.counters(),
            lambda: gs.memory.stats(),
            lambda: gs.memory.empty_cache(),
            lambda: gs.derive(value()),
            lambda: _unless(OSError, lambda: gs.load(value())),
            lambda: _unless(OSError, lambda: gs.load("nowhere.grad", scope=value())),
            lambda: gs.parse_ir(value()),
            lambda: gs.Function.of_graph(value()),
            lambda: gs.Function.of_graph(gs.parse_ir(str(UNIT.energy.graph)))(*_some(caller)),
            lambda: UNIT.define(value()),
            lambda: UNIT.define("def again(x):\n    return x\n", value()),
            lambda: gs.CompilationUnit("def f(x):\n    return g(x)\n", scope={"g": value()}),
            lambda: gs.CompilationUnit("def f(x):\n    return x * g\n", scope={"g": value()}).f(array(2)),
            lambda: _unless(KeyError, lambda: UNIT[value()]),
            lambda: value() in UNIT,
            lambda: getattr(gs.ops, caller.chosen(["mul", "softmax", "conv2d", "norm", "pad"]))(*_some(caller, 5)),
            lambda: copy.deepcopy(UNIT.mul)(array(2), array(2)),
            lambda: copy.copy(UNIT),
        ]
    )()


def on_tape(caller: Caller) -> Any:
    leaf = gs.tape.Variable(array(2, 3), True)
    other = gs.tape.Variable(array(3), caller.random.random() < 0.5)
    value = caller.value

    class Doubled(gs.tape.Function):
        @staticmethod
        def forward(context: Any, *given: Any) -> Any:
            context.save_for_backward(*(given if caller.random.random() < 0.7 else [value()]))
            return value() if caller.random.random() < 0.3 or not given else given[0]

        @staticmethod
        def backward(context: Any, *grads: Any) -> Any:
            return grads[0] if caller.random.random() < 0.5 else value()

    def backward() -> None:
        out = leaf * other
        out.sum().backward(*_some(caller, 2), **({"retain_graph": value()} if caller.random.random() < 0.5 else {}))
        out.sum().backward()

    return caller.random.choice(
        [
            lambda: gs.ops.sum(Doubled.apply(leaf)).backward(),
            lambda: Doubled.apply(leaf, value()),
            lambda: Doubled.apply(),
            lambda: Doubled.apply(value()),
            lambda: gs.tape.Function.apply(leaf),
            lambda: gs.tape.grad(leaf.sum(), [leaf, other]),
            lambda: gs.tape.grad([leaf.sum(), value()], leaf),
            lambda: gs.tape.grad((leaf * other).sum(), [leaf, value()]),
            lambda: gs.tape.grad((leaf * other), leaf, value(), create_graph=value()),
            lambda: leaf.register_hook(value()),
            lambda: (leaf.register_hook(lambda g: value()), (leaf * 2).sum().backward()),
            lambda: gs.tape.Variable(value(), requires_grad=value()),
            lambda: leaf[value()],
            lambda: leaf.__setitem__(value(), value()),
            lambda: leaf.sum(value()),
            lambda: leaf.reshape(value()),
            lambda: (len(leaf), bool(leaf), float(leaf), int(leaf)),
            lambda: bool(leaf),
            lambda: float(leaf),
            lambda: leaf @ other,
            lambda: leaf ** value(),
            lambda: leaf == value(),
            backward,
        ]
    )()


def from_files(caller: Caller) -> Any:
    """Files that are none, with odd imports."""
    first = "def f(x):\n    return x * 2\n"
    lines = ["from .b import f", "from . import b", "from .b import g", "from ..c import f", "import b"]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "b.grad").write_text(caller.chosen([first, first[:-9], "", "\0", "from .a import f\n" + first]))
        (Path(folder) / "a.grad").write_text(caller.chosen(lines) + "\n\ndef h(x):\n    return f(x)\n")
        return gs.load(Path(folder) / caller.chosen(["a.grad", "b.grad"]))


def shown(caller: Caller) -> Any:
    function = caller.function()
    return caller.random.choice(
        [
            lambda: str(function.kernels(*caller.values(function), **caller.named())),
            lambda: str(function.memory(*caller.values(function), **_keywords(caller))),
            lambda: gs.derive(function),
            lambda: gs.derive(UNIT[caller.chosen([*UNIT])]),
            lambda: function.debug_state(),
            lambda: gs.grad(function, allow_unused=caller.value()),
            lambda: gs.grad(function).show(caller.chosen([*gs.Function.stages])),
            lambda: gs.value_and_grad(gs.value_and_grad(function)),
            lambda: function.pair.code if function.pair else None,
            lambda: gs.vjp(gs.grad(function), *caller.values(function)),
        ]
    )()


ROOM_KINDS: dict[str, tuple[Callable[[Caller], Any], int]] = {
    "pulled": (pulled, 4),
    "registered": (registered, 1),
    "as op": (as_op, 2 if TORCH else 0),
    "op called": (op_called, 2 if TORCH else 0),
    "set by name": (set_by_name, 2),
    "in rooms": (in_rooms, 6),
    "on tape": (on_tape, 5),
    "from files": (from_files, 2),
    "shown": (shown, 3),
}
"""As KINDS of `face_calls`."""
