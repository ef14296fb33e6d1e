"""Products of few elements run without Python from the second call on, and give the very bits that they gave before."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import gradscript as gs
import pytest
import torch
from gradscript.runtime.kernels.c import entry
from gradscript.runtime.kernels.c.memory import bare
from gradscript.runtime.torch.array_runs import has_quick_calls
from gradscript.runtime.torch.calls import forget_calls

UNIT = gs.CompilationUnit("""
def product(x, y):
    return x @ y

def own(x, y):
    def backward(g):
        return g @ y.transpose(-1, -2), x.transpose(-1, -2) @ g
    return x @ y, backward

def with_bias(x, y, b):
    return x @ y + b

def layer(x, y, b):
    return F.linear(x, y, b)

def added(x, y, b):
    return torch.addmm(b, x, y)

def attention(x, y, b):
    return (x @ y.transpose(-1, -2) * 0.5).softmax(-1) @ b

def squares(x):
    return (x @ x.t()).relu() @ x
""")
QUICK = pytest.mark.skipif(not has_quick_calls(), reason="nothing runs without Python here")


def laid_out(chance: random.Random, *shape: int, dtype: torch.dtype) -> Any:
    """A tensor of this shape: as it comes, transposed, with gaps, or with rows that are the same."""
    kind = chance.randrange(4)
    if kind == 1 and len(shape) > 1:
        return torch.randn(*shape[:-2], shape[-1], shape[-2], dtype=dtype).transpose(-1, -2)
    if kind == 2 and shape:
        return torch.randn(*shape[:-1], 2 * shape[-1], dtype=dtype)[..., ::2]
    if kind == 3 and len(shape) > 1:
        return torch.randn(*shape[:-2], 1, shape[-1], dtype=dtype).expand(shape)
    return torch.randn(shape, dtype=dtype)


def factors(chance: random.Random, name: str) -> list[Any]:
    dtype = chance.choice([torch.float32, torch.float64])
    m, k, n = (chance.choice([1, 2, 3, 4, 5, 8, 17]) for _ in range(3))
    draw = lambda *shape: laid_out(chance, *shape, dtype=dtype)  # noqa: E731
    if name == "squares":
        return [draw(m, k)]
    if name == "attention":
        batches = chance.choice([(), (2,), (3, 2)])
        return [draw(*batches, m, k), draw(*batches, n, k), draw(*batches, n, m)]
    if name == "layer":
        return [draw(*chance.choice([(), (2,), (3, 2)]), m, k), draw(n, k), draw(n)]
    if name == "added":
        return [draw(m, k), draw(k, n), draw(*chance.choice([(n,), (1, n), (m, n), (m, 1)]))]
    if name == "own":
        left, right = draw(m, k), draw(k, n)
    else:
        left = draw(*chance.choice([(k,), (m, k), (2, m, k), (3, 1, m, k)]))
        right = draw(*chance.choice([(k,), (k, n), (2, k, n), (1, 2, k, n)]))
    result = left @ right
    return [left, right, *([draw(*result.shape)] if name == "with_bias" else [])]


def both_passes(function: Callable[..., Any], given: list[Any]) -> list[Any]:
    inputs = [value.detach().requires_grad_() for value in given]
    out = function(*inputs)
    return [out.detach(), *torch.autograd.grad((out * out).sum(), inputs)]


@pytest.mark.parametrize("name", list(UNIT))
def test_every_call_has_the_bits_of_the_first(name: str) -> None:
    chance = random.Random(name)
    torch.manual_seed(0)
    with gs.settings.backend("c"):
        for _ in range(12):
            given = factors(chance, name)
            first, *others = [both_passes(UNIT[name], given) for _ in range(4)]
            for other in others:
                for left, right in zip(first, other, strict=True):
                    assert torch.equal(left, right), [(t.shape, t.stride(), t.dtype) for t in given]
            eager = {"layer": torch.nn.functional.linear, "added": lambda x, y, b: torch.addmm(b, x, y)}
            eager |= {"with_bias": lambda x, y, b: x @ y + b, "squares": lambda x: (x @ x.t()).relu() @ x}
            eager["attention"] = lambda q, k, v: (q @ k.transpose(-1, -2) * 0.5).softmax(-1) @ v
            for ours, theirs in zip(first, both_passes(eager.get(name, torch.matmul), given), strict=True):
                digits = 1e-4 if ours.dtype == torch.float32 else 1e-10
                torch.testing.assert_close(ours, theirs, rtol=digits, atol=digits)
    forget_calls()


@QUICK
@pytest.mark.parametrize("name", list(UNIT))
def test_they_need_no_python(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Any] = []

    def noted(*args: Any, **kwargs: Any) -> Any:
        found.append(bare.bare_of(*args, **kwargs))
        return found[-1]

    monkeypatch.setattr(entry, "bare_of", noted)
    with gs.settings.backend("c"):
        forget_calls()
        shapes = {"squares": [(4, 4)], "with_bias": [(4, 4), (4, 4), (4,)], "added": [(4, 4), (4, 4), (4,)]}
        shapes |= {"layer": [(4, 4), (4, 4), (4,)], "attention": [(4, 4)] * 3}
        given = [torch.randn(shape) for shape in shapes.get(name, [(4, 4)] * 2)]
        for _ in range(3):
            both_passes(UNIT[name], given)
    forget_calls()
    assert len(found) >= 2 and None not in found


def test_what_is_beyond_floats_is_infinite_without_a_word() -> None:
    x = torch.full((2, 2), 3e38).requires_grad_()
    with gs.settings.backend("c"), warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(4):
            assert UNIT.product(x, x).isinf().all()
    forget_calls()
