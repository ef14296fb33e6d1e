"""Every road from a function to a value and its gradient, and which stages of the pipeline see the two on their way.

`python tests/execution/roads_through_stages.py` prints the table that docs/architecture.md shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import gradscript as gs
import numpy as np
from gradscript.compiler.ir.graph import Graph
from gradscript.compiler.pipeline import EXECUTOR

SOURCE = """
def wave(x, w):
    def backward(grad):
        slope = torch.cos(x * w)
        return grad * slope * w, grad * slope * x

    return torch.sin(x * w), backward

def f(x, w):
    y = wave(x, w) * x
    y = y + w
    y = y * w + x
    return (y * y).sum()
"""
"""Its forward has a sine and its backward a cosine, by which they are known in whatever graph they stand."""
FORWARD, GRADIENT = "aten::sin", "aten::cos"
CALL = "prim::CallFunction"
"""The forward before it is inlined."""


def arrays() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    return np.linspace(0.1, 1.2, 6).reshape(2, 3), np.linspace(-1.0, 0.7, 6).reshape(2, 3)


def reference() -> tuple[float, list[np.ndarray[Any, Any]], np.ndarray[Any, Any]]:
    """The value, both gradients, and the derivative of the sum of the first by x, of torch in float64."""
    import torch

    x, w = (torch.tensor(array, requires_grad=True) for array in arrays())
    y = torch.sin(x * w) * x
    y = (y + w) * w + x
    value = (y * y).sum()
    first = torch.autograd.grad(value, (x, w), create_graph=True)
    (second,) = torch.autograd.grad(first[0].sum(), (x,))
    return float(value.detach()), [g.detach().numpy() for g in first], second.numpy()


def unit() -> Any:
    return gs.CompilationUnit(SOURCE)


# --- the roads: each gives the two gradients, or the value alone ---


def call(function: Any) -> Any:
    return function(*arrays())


def vjp(function: Any) -> Any:
    _, pullback = gs.vjp(function, *arrays())
    return pullback(np.ones(()))


def grad(function: Any) -> Any:
    return gs.grad(function, (0, 1))(*arrays())


def value_and_grad(function: Any) -> Any:
    return gs.value_and_grad(function, (0, 1))(*arrays())[1]


def vjp_under(policy: Any) -> Callable[[Any], Any]:
    def road(function: Any) -> Any:
        return gs.vjp(function, *arrays(), policy=policy)[1](np.ones(()))

    return road


def grad_under(policy: Any) -> Callable[[Any], Any]:
    return lambda function: gs.grad(function, (0, 1), policy=policy)(*arrays())


def tape(function: Any) -> Any:
    variables = [gs.tape.Variable(array) for array in arrays()]
    function(*variables).backward()
    return [variable.grad.data for variable in variables]


def torch_call(function: Any) -> Any:
    import torch

    tensors = [torch.tensor(array, requires_grad=True) for array in arrays()]
    function(*tensors).backward()
    return [tensor.grad.numpy() for tensor in tensors]


def halves(function: Any) -> Any:
    """The two halves of the pair, with the chain around them by hand."""
    x, w = arrays()
    wave = function.of_unit.wave
    out, context = wave.forward(x, w)
    y = (out * x + w) * w + x
    above = 2 * y * w
    through = wave.backward(context, above * x)
    return [through[0] + above * out + 2 * y, through[1] + above + 2 * y * (out * x + w)]


def second_order(function: Any) -> Any:
    """The derivative of the sum of the first gradient by x."""
    total = gs.CompilationUnit("def total(g):\n    return g.sum()\n").total
    x, w = arrays()
    first = gs.grad(function, 0)
    _, pullback = gs.vjp(first, x, w)
    assert float(total(first(x, w))) == float(first(x, w).sum())
    return pullback(np.ones_like(x))[0]


def second_on_tape(function: Any) -> Any:
    x, w = (gs.tape.Variable(array) for array in arrays())
    (first,) = gs.tape.grad(function(x, w), [x], create_graph=True)
    return gs.tape.grad(first.sum(), [x])[0].data


def traced(function: Any) -> Any:
    recorded = gs.trace(lambda x, w: function(x, w), *arrays())
    return gs.vjp(recorded, *arrays())[1](np.ones(()))


def profiled(function: Any) -> Any:
    with gs.settings.profiling(True):
        for _ in range(4):
            found = vjp(function)
    return found


ROADS: dict[str, Callable[[Any], Any]] = {
    "call": call,
    "gs.vjp": vjp,
    "gs.grad": grad,
    "gs.value_and_grad": value_and_grad,
    **{f"gs.vjp, {name}": vjp_under(name) for name in ("save_all", "mirror", "min_cut", "recompute_all")},
    "gs.vjp, budget": vjp_under(100),
    "gs.grad, min_cut": grad_under("min_cut"),
    "gs.grad, budget": grad_under(100),
    "tape": tape,
    "torch, CPU": torch_call,
    "halves by hand": halves,
    "second order": second_order,
    "second, tape": second_on_tape,
    "traced": traced,
    "profiled": profiled,
}
ON_DEVICE = {"torch, device": torch_call, "gs.vjp, device": lambda function: torch_vjp(function)}
"""Roads that need a device, or something in its place."""


def torch_vjp(function: Any) -> Any:
    import torch

    _, pullback = gs.vjp(function, *[torch.tensor(array) for array in arrays()])
    return [gradient.numpy() for gradient in pullback(torch.ones((), dtype=torch.float64))]


def function() -> Any:
    """A new function, which nothing has compiled yet."""
    made = unit()
    made.f.of_unit = made
    return made.f


# --- what the stages see ---


@contextmanager
def registered(stage: str, pass_: Callable[[Graph], bool]) -> Iterator[None]:
    remove = gs.compiler_debug.register_pass(stage, pass_)
    try:
        yield
    finally:
        remove()


def kinds(graph: Graph) -> set[str]:
    return {node.kind for node in graph.all_nodes()}


def seen_on(road: Callable[[Any], Any], stages: Sequence[str] = EXECUTOR) -> dict[str, str]:
    """Whether passes at stages see the forward ("f") and the gradient ("df") on a road; they change nothing."""
    seen: dict[str, set[str]] = {stage: set() for stage in stages}

    def spy(stage: str) -> Callable[[Graph], bool]:
        return lambda graph: bool(seen[stage].update(kinds(graph)))

    with ExitStack() as spies:
        for stage in stages:
            spies.enter_context(registered(stage, spy(stage)))
        road(function())
    return {stage: _said(found) for stage, found in seen.items()}


def _said(seen: set[str]) -> str:
    forward = FORWARD in seen or CALL in seen
    return " ".join(["f"] * forward + ["df"] * (GRADIENT in seen))


def table(roads: dict[str, Callable[[Any], Any]]) -> dict[str, dict[str, str]]:
    return {name: seen_on(road) for name, road in roads.items()}


def text(found: dict[str, dict[str, str]]) -> str:
    """Stages are rows; roads that are alike share a column."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for name, row in found.items():
        alike.setdefault(tuple(row.values()), []).append(name)
    lines = []
    for number, names in enumerate(alike.values(), 1):
        lines.append(f"{number}  {'; '.join(names)}")
    lines.append("")
    lines.append(f"{'stage':<22}" + "".join(f"{n:<8}" for n in range(1, len(alike) + 1)).rstrip())
    for place, stage in enumerate(EXECUTOR):
        lines.append(f"{stage:<22}" + "".join(f"{row[place] or '-':<8}" for row in alike).rstrip())
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(text(table(ROADS)))
