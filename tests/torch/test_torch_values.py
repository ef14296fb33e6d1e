"""What works on values, on a device with kernels: halves of pairs and pullbacks give what they give on arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Optional

import gradscript as gs
import numpy as np
import pytest
import torch
from gradscript.runtime.torch.tensors import tensors_in
from gradscript.runtime.values.arrays import any_on_device, on_host
from kernel_device import KernelRuns, kernel_device

UNIT = gs.CompilationUnit("""
def swish(x, beta, scale: float = 1.0):
    s = torch.sigmoid(beta * x)
    def backward(grad):
        grad_x = grad * s * (1 + beta * x * (1 - s)) * scale
        return grad_x, (grad * x * x * s * (1 - s) * scale).sum_to_size(beta.size()), None
    return x * s * scale, backward

def several(x, w, pair: Tuple[Tensor, int]):
    y = torch.tanh(x @ w) * pair[0]
    return y, y.sum(0), y.argmax(1)

def listed(parts: List[Tensor], w):
    return [part * w for part in parts], w
""")


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[KernelRuns]:
    with kernel_device(monkeypatch) as runs:
        yield runs


def draw(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def tensors(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)([tensors(item) for item in value])
    return torch.from_numpy(value.copy()) if isinstance(value, np.ndarray) else value


def alike(have: Any, want: Any) -> None:
    if isinstance(want, list | tuple):
        assert type(have) is type(want) and len(have) == len(want)
        for one, other in zip(have, want, strict=True):
            alike(one, other)
    elif isinstance(want, np.ndarray):
        assert isinstance(have, torch.Tensor) and not have.requires_grad
        np.testing.assert_allclose(have.numpy(), want, rtol=1e-12, atol=1e-14, strict=True)
    else:
        assert have == want


def test_halves_of_a_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    args, grad = (draw(3, 4), draw(1, 4), 2.0), draw(3, 4, seed=1)
    out, context = UNIT.swish.forward(*args)
    gradients = UNIT.swish.backward(context, grad)
    with kernel_device(monkeypatch) as runs:
        found, kept = UNIT.swish.forward(*tensors(args))
        alike(found, out)
        alike(UNIT.swish.backward(kept, tensors(grad)), gradients)
        recorded = [t.requires_grad_() if isinstance(t, torch.Tensor) else t for t in tensors(args)]
        alike(UNIT.swish.forward(*recorded)[0], out)
    assert runs.kernels and -1 not in runs.kernels


CASES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "one output": ((draw(3, 4), draw(4), 0.5), (draw(3, 4, seed=2),)),
    "no gradient": ((draw(3, 4), draw(4)), (None,)),
    "several": (
        (draw(5, 3), draw(3, 4), (draw(4), 2)),
        ((draw(5, 4, seed=3), None, None),),
    ),
    "lists": (([draw(3), draw(3, seed=1)], draw(3, seed=2)), (([draw(3), None], draw(3, seed=4)),)),
    "unreached": (([draw(3), draw(3, seed=1)], draw(3, seed=2)), ((None, draw(3, seed=4)),)),
}
NAMES = {"several": "several", "lists": "listed", "unreached": "listed"}


@pytest.mark.parametrize("case", CASES)
def test_pullbacks(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    args, cotangents = CASES[case]
    function = UNIT[NAMES.get(case, "swish")]
    value, pull_back = gs.vjp(function, *args)
    gradients = pull_back(*cotangents)
    with kernel_device(monkeypatch):
        found, pulled = gs.vjp(function, *tensors(args))
        alike(found, value)
        for _ in range(2):
            alike(pulled(*tensors(cotangents)), gradients)
        # Arrays and other dtypes are taken too.
        alike(pulled(*cotangents), gradients)


def test_a_pullback_leaves_the_arguments_alone(runs: KernelRuns) -> None:
    x, beta = (tensors(draw(4)).requires_grad_() for _ in range(2))
    out, pull_back = gs.vjp(UNIT.swish, x, beta)
    pull_back(torch.ones_like(out))
    assert x.grad is None and not out.requires_grad


def test_what_does_not_fit(runs: KernelRuns) -> None:
    x, beta = tensors(draw(3)), tensors(draw(3))
    out, pull_back = gs.vjp(UNIT.swish, x, beta)
    with pytest.raises(gs.RuntimeFailure, match=r"gradient of output 0 has shape \[2\], the output \[3\]"):
        pull_back(torch.ones(2))
    with pytest.raises(gs.RuntimeFailure, match="2 gradients for 1 output"):
        pull_back(out, out)
    with pytest.raises(gs.RuntimeFailure, match="a Tensor is needed"):
        pull_back("one")
    with pytest.raises(gs.RuntimeFailure, match="policy of recomputation"):
        gs.vjp(UNIT.swish, x, beta, policy="mirror")
    with pytest.raises(ValueError, match="polic"):
        gs.vjp(UNIT.swish, x, beta, policy="no such")
    with pytest.raises(gs.RuntimeFailure, match="missing"):
        UNIT.swish.forward(x)
    with pytest.raises(gs.RuntimeFailure, match="several devices"):
        UNIT.swish.forward(x, torch.ones(3, device="meta"))


def test_tensors_elsewhere() -> None:
    there, here = torch.ones(2, device="meta"), torch.ones(2)
    assert any_on_device([here, [there]]) and any_on_device([(1, there)])
    assert not any_on_device([here, [here, 2.0], np.ones(2), None])
    assert on_host(here) is here and on_host([here, (1, "a")]) == [here, (1, "a")]
    assert on_host(there) is there, "meta tensors hold nothing to copy"


def test_a_distance_that_counts_has_the_gradient_0() -> None:
    """As in torch, whose result requires one: `loss.backward()` of it is no error."""
    f = gs.CompilationUnit("def f(x, y):\n    return torch.cdist(x, y, 0.0)\n").f
    x, y = torch.tensor([[1.0, 2.0], [torch.nan, 3.0]], requires_grad=True), torch.tensor([[1.0, 3.0]])
    counted = f(x, y)
    assert torch.equal(counted.nan_to_num(-1), torch.cdist(x, y, 0.0).nan_to_num(-1))
    counted.sum().backward()
    assert x.grad is not None and not x.grad.any()


MISSING = """
def returned(x, y):
    for row in x:
        if bool(row.sum() > 0):
            return y, [row, y.detach()]
    return y, [x]

def perhaps(x, y):
    found: Optional[List[Tensor]] = None
    for i in range(x.size(0)):
        if bool(x[i].sum() > 0):
            found = [x * i, y.detach()]
    return found
"""


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("name", ["returned", "perhaps"])
def test_lists_that_are_not_there_when_a_loop_begins(name: str, sign: int) -> None:
    """Which of their tensors require a gradient is told of a list by its length, and None has none."""
    eager: dict[str, Any] = {"Optional": Optional, "List": list, "Tensor": torch.Tensor}
    exec(MISSING, eager)
    ours = gs.CompilationUnit(MISSING)[name]
    x, y = (sign * torch.ones(2, 3)).requires_grad_(), torch.ones(2)
    wanted = eager[name](x, y)
    for _ in range(3):
        found = ours(x, y)
        assert (found is None) == (wanted is None)
        for mine, other in zip(tensors_in(found or []), tensors_in(wanted or []), strict=True):
            assert torch.equal(mine, other) and mine.requires_grad == other.requires_grad


MARKED = {
    "lists in a list": "return [[x * 1, w * 2], [w * 3]], [[w], [x], [x * w]]",
    "lists of what ops list": "return [w.unbind(), x.split(1)[:2]], [x.chunk(2), w.unbind(1)]",
    "lists in a list, by a branch": """n = [[x * 1, w * 2], [w * 3]]
    if w.sum() > 0:
        n.insert(0, [w * 1, x * 5])
    n[1], n[-1] = n[-1], n[1]
    return n""",
    "lists in a list, by rounds": """n = [[x * 1], [w * 1]]
    for i in range(len(x)):
        n.append([w * i, n[0][0]])
        n.reverse()
    return n, n[-1]""",
    "lists from tuples in a list": """t = [(x * 1, [w * 1, x * 3], 5), (w * 1, [w * 3, x * 1], 7)]
    if w.sum() > 0:
        t.reverse()
    a, held, _ = t[0]
    return a, held, t[1][0], [held, t[1][1]]""",
    "arguments": """n = l[::-1]
    n[0] = [h * 2 for h in n[0]]
    return n""",
    "meshgrid": "return torch.meshgrid([x[0], w[0]], indexing='ij')",
    "broadcast_tensors": "return torch.broadcast_tensors(x, w[0], x[0])",
    "atleast_2d": "return torch.atleast_2d([x[0], w])",
}


@pytest.mark.parametrize("name", MARKED)
def test_what_lists_hold_requires_a_gradient_where_it_does_in_torch(name: str) -> None:
    text = f"def f(x, w, l: List[List[Tensor]]):\n    {MARKED[name]}\n"
    scope: dict[str, Any] = {"torch": torch, "List": list, "Tensor": torch.Tensor}
    exec(text, scope)
    compiled = gs.CompilationUnit(text).f
    for asked in ((True, False), (False, True), (True, True), (False, False)):
        x, w = (torch.ones(2, 2, dtype=torch.float64).requires_grad_(flag) for flag in asked)
        arguments = (x, w, [[x * 1, w], [w * 2, x, x * w]])
        expected, found = (_in_a_row(function(*arguments)) for function in (scope["f"], compiled))
        assert [v.requires_grad for v in found] == [v.requires_grad for v in expected]
        assert all(map(torch.equal, found, expected))


def _in_a_row(values: Any) -> list[torch.Tensor]:
    return [values] if isinstance(values, torch.Tensor) else [leaf for value in values for leaf in _in_a_row(value)]


def test_tuples_in_lists_are_of_tensors_where_nothing_is_recorded() -> None:
    f = gs.CompilationUnit("def f(x):\n    with torch.no_grad():\n        return [(x * 2, x), (x, x + 1)]\n").f
    g = gs.CompilationUnit("def f(x):\n    l = [(x * 2, x), (x, x + 1)]\n    return l if len(l) > 1 else l[::-1]\n").f
    with torch.no_grad():
        for function in (f, g):
            found = function(torch.ones(2, requires_grad=True))
            assert all(type(item) is torch.Tensor for held in found for item in held)


GIVEN = """
def branch(x, w, n: int):
    if n > 0:
        y = x.view(x.size())
    elif n < 0:
        y = x
    else:
        y = w * 2
    return y, x.view_as(x)

def rounds(x, w, n: int):
    y = x
    for i in range(n):
        y = y.expand(x.size())
    return y, w if n > 0 else w.squeeze(0)

def listed(x, w, n: int):
    l = [x, x.view_as(x), x * 2]
    if n > 0:
        l = [x[:], x, w]
    return l, (w.view_as(w), (x, w.t().t()))

def laid_out(x, w, n: int):
    y = x.t() if n > 0 else x
    return y.contiguous(), x.flatten(), x.flatten(n) if n > 0 else x.float(), x.detach()
"""


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_what_is_an_argument_where_nothing_is_recorded_and_what_a_view_of_it(backend: str) -> None:
    """A view of the same shape is a tensor of its own, whichever way a run goes, as in torch."""
    names: dict[str, Any] = {"torch": torch}
    exec(GIVEN, names)
    tensors = torch.ones(3, 4, requires_grad=True), torch.ones(3, 4)
    with gs.settings.backend(backend), torch.no_grad():
        unit = gs.CompilationUnit(GIVEN)
        for name in ("branch", "rounds", "listed", "laid_out"):
            for n in (0, 1, -1):
                found, expected = (_flat(f(*tensors, n)) for f in (getattr(unit, name), names[name]))
                assert [_kinship(t, tensors) for t in found] == [_kinship(t, tensors) for t in expected], (name, n)


def _flat(value: Any) -> list[Any]:
    return [leaf for item in value for leaf in _flat(item)] if isinstance(value, list | tuple) else [value]


def _kinship(tensor: Any, tensors: tuple[Any, ...]) -> tuple[Any, ...]:
    """Which of the tensors it is, whose memory it is in, and whether it requires a gradient."""
    given, held = [tensor is t for t in tensors], [tensor.data_ptr() == t.data_ptr() for t in tensors]
    return given, held, tensor.requires_grad
