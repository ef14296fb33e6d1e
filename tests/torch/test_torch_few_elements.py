"""Programs of few elements that call ops of the library: torch's own, on memory, prepared.

Beside eager torch, and each of these ops beside its definition on arrays.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from itertools import product
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from amounts import some_of
from gradscript.compiler.ops import OPS, Trait
from gradscript.compiler.types.dtypes import FLOAT32, FLOAT64
from gradscript.runtime.kernels.by_torch import bindings
from gradscript.runtime.kernels.by_torch.bindings import binding
from gradscript.runtime.settings import random as seeds
from gradscript.runtime.torch.calls import forget_calls
from samples.table import LAYOUTS, calls

UNIT = gs.CompilationUnit("""
def running(x):
    return torch.cumsum(x * 2, 0) * x

def largest(x):
    values, indices = torch.topk(x, 2)
    return values * values, indices

def ordered(x):
    values, indices = torch.sort(x, -1, True)
    return values, indices

def contracted(x, w):
    return torch.einsum("ij,kj->ik", x, w), torch.einsum("ij,kj->k", x, w)

def convolved(x, w):
    return torch.nn.functional.conv1d(x[None], w, padding=1)

def picked(x, i):
    return torch.gather(x, 1, i), x[i[:, 0]], torch.index_select(x, 0, i[0])

def spread(x, i):
    return torch.scatter_add(x * 1, 1, i, x) + x.cumsum(1)

def row(x, n: int):
    y = x[n]
    return y * y, y

def own_row(x, n: int):
    return x[n] * x[n]

def first(x, y):
    def backward(grad):
        return grad * y, None
    return x * y, backward

def joined(x, y):
    return torch.cat([torch.cumsum(x, 0), y, torch.flip(torch.cumprod(y, 0), [0])])

def sorted_twice(x):
    a = torch.cumsum(torch.sort(x)[0], -1)
    return torch.cummax(a, -1)[0] + a.t().contiguous()
""")


def _index(*shape: int) -> Any:
    return torch.arange(int(np.prod(shape))).reshape(shape) % 3


EAGER: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]], tuple[Any, ...]]] = {
    "running": (lambda x: torch.cumsum(x * 2, 0) * x, [(4, 3)], ()),
    "largest": (lambda x: ((t := torch.topk(x, 2))[0] ** 2, t[1]), [(3, 4)], ()),
    "ordered": (lambda x: tuple(torch.sort(x, -1, True)), [(3, 4)], ()),
    "contracted": (
        lambda x, w: (torch.einsum("ij,kj->ik", x, w), torch.einsum("ij,kj->k", x, w)),
        [(3, 4), (2, 4)],
        (),
    ),
    "convolved": (lambda x, w: torch.conv1d(x[None], w, padding=1), [(2, 5), (3, 2, 3)], ()),
    "picked": (lambda x, i: (torch.gather(x, 1, i), x[i[:, 0]], x[i[0]]), [(4, 4)], (_index(3, 2),)),
    "spread": (lambda x, i: torch.scatter_add(x * 1, 1, i, x) + x.cumsum(1), [(3, 3)], (_index(3, 3),)),
    "row": (lambda x, n: (x[n] * x[n], x[n]), [(4, 3)], (1,)),
    "first": (lambda x, y: x * y.detach(), [(5,), (5,)], ()),
    "joined": (
        lambda x, y: torch.cat([torch.cumsum(x, 0), y, torch.flip(torch.cumprod(y, 0), [0])]),
        [(4,), (3,)],
        (),
    ),
    "sorted_twice": (
        lambda x: torch.cummax(a := torch.cumsum(torch.sort(x)[0], -1), -1)[0] + a.t().contiguous(),
        [(3, 3)],
        (),
    ),
}


def _draw(shape: tuple[int, ...], draw: random.Random, dtype: torch.dtype) -> Any:
    """A leaf, or what is laid out otherwise: of steps, transposed, or expanded."""
    generator = torch.Generator().manual_seed(draw.randrange(1 << 20))
    way = draw.choice(("plain", "plain", "steps", "turned", "alike"))
    if way == "steps":
        return torch.randn(*shape[:-1], 2 * shape[-1], generator=generator).to(dtype)[..., ::2]
    if way == "turned":
        return torch.randn(*reversed(shape), generator=generator).to(dtype).permute(*reversed(range(len(shape))))
    if way == "alike" and len(shape) > 1:
        return torch.randn(1, *shape[1:], generator=generator).to(dtype).expand(shape)
    return torch.randn(*shape, generator=generator).to(dtype)


def _row(result: Any) -> list[Any]:
    return [*result] if isinstance(result, tuple) else [result]


@pytest.mark.parametrize(("way", "name"), some_of(product(("f", "op"), EAGER)))
def test_whatever_changes_between_calls(way: str, name: str) -> None:
    """Dtypes, layouts, which arguments require a gradient, whether torch records, autocast: beside eager, in turns."""
    draw = random.Random(name)
    eager, shapes, extra = EAGER[name]
    ours = UNIT[name]
    with gs.settings.backend("c"):
        if way == "op":
            ours = gs.torch_op(ours, f"few_elements_tested::{name}")
        kinds = []
        for _ in range(6):
            dtype = draw.choice((torch.float64, torch.float32))
            inputs = [_draw(shape, draw, dtype) for shape in shapes]
            kinds.append((inputs, [draw.random() < 0.7 for _ in inputs]))
        for _ in range(60):
            inputs, wanted = draw.choice(kinds)
            if draw.random() < 0.2:
                wanted = [draw.random() < 0.5 for _ in inputs]
            mode = draw.choice(("record", "record", "record", "no_grad", "inference", "autocast"))
            given = [value.detach().clone(memory_format=torch.preserve_format) for value in inputs]
            given = [
                mine if mine.stride() == like.stride() else like.detach()
                for mine, like in zip(given, inputs, strict=True)
            ]
            leaves = [value.requires_grad_(is_wanted) for value, is_wanted in zip(given, wanted, strict=True)]
            tolerance = (
                {"rtol": 1e-10, "atol": 1e-10} if inputs[0].dtype == torch.float64 else {"rtol": 1e-4, "atol": 1e-4}
            )
            if mode == "no_grad":
                with torch.no_grad():
                    found = _row(ours(*leaves, *extra))
            elif mode == "inference":
                with torch.inference_mode():
                    found = _row(ours(*leaves, *extra))
            elif mode == "autocast":
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    found = _row(ours(*leaves, *extra))
                    assert torch.is_autocast_enabled("cpu")
                assert not torch.is_autocast_enabled("cpu")
            else:
                found = _row(ours(*leaves, *extra))
            expected = _row(eager(*leaves, *extra))
            for have, want in zip(found, expected, strict=True):
                assert have.dtype == want.dtype
                torch.testing.assert_close(have, want.detach() if not have.requires_grad else want, **tolerance)
            if mode in ("record", "autocast") and any(wanted):
                _compare_gradients(found, expected, leaves, draw, tolerance)


def _compare_gradients(
    found: list[Any], expected: list[Any], leaves: list[Any], draw: random.Random, tolerance: dict[str, float]
) -> None:
    inputs = [leaf for leaf in leaves if leaf.requires_grad]
    both = [(have, want) for have, want in zip(found, expected, strict=True) if want.requires_grad]
    assert all(have.requires_grad for have, _ in both)
    if not both:
        return
    seeds = [torch.randn(want.shape, dtype=want.dtype) for _, want in both]
    keeps = draw.random() < 0.2
    mine = torch.autograd.grad([h for h, _ in both], inputs, seeds, allow_unused=True, create_graph=keeps)
    theirs = torch.autograd.grad([w for _, w in both], inputs, seeds, allow_unused=True)
    for have, want in zip(mine, theirs, strict=True):
        assert (have is None) == (want is None)
        if want is not None:
            torch.testing.assert_close(have, want, **tolerance)


def _all_calls() -> list[tuple[Any, Any, int]]:
    found = []
    for op in OPS.all():
        if op.has(Trait.RANDOM) or op.has(Trait.SIDE_EFFECT):
            continue
        try:
            found += [(op, call, number) for number, call in enumerate(calls(op))]
        except (KeyError, LookupError):
            continue
    return found


def test_what_stands_for_an_op_gives_what_its_definition_does() -> None:
    """Of other elements than those that it was compared by."""
    bound: set[str] = set()
    for op, call, number in _all_calls():
        for dtype, layout in ((FLOAT64, "contiguous"), (FLOAT32, "contiguous"), (FLOAT64, "transposed")):
            first, second = (call.arguments(op, dtype, seed, LAYOUTS[layout]) for seed in (number, number + 7))
            known, want = _evaluated(op, first), _evaluated(op, second)
            found = None if known is None else binding(op, first, known)
            if found is None or want is None:
                continue
            bound.add(op.schema.full_name)
            have = _called(found, second)
            assert have is None or all(map(bindings._is_alike, have, want)), op.schema.full_name
    assert {"aten::cumsum", "aten::gather", "aten::scatter_add", "aten::convolution", "aten::index_select"} <= bound
    assert len(bound) > 150


def _evaluated(op: Any, arguments: Any) -> list[Any] | None:
    try:
        result = op.evaluate(*arguments)
    except Exception:
        return None
    row = [*result] if isinstance(result, list | tuple) else [result]
    return row if all(isinstance(item, np.ndarray) for item in row) else None


def _called(bound: Any, arguments: Any) -> list[Any] | None:
    given = [bindings._as_torch(arguments[place]) for place in bound.places]
    count = len(given) - len(bound.names)
    try:
        result = bound.function(*given[:count], **dict(zip(bound.names, given[count:], strict=True)))
    except Exception:
        return None
    return [*result] if isinstance(result, list | tuple) else [result]


def test_equal_elements_stay_in_their_order() -> None:
    unit = gs.CompilationUnit(
        "def orders(x, y):\n    return torch.topk(x, 3)[1], torch.sort(y, 0, True)[1], torch.argsort(x)\n"
    )
    x = torch.tensor([[1.0, 2.0, 2.0, float("nan"), 1.0], [0.0, -0.0, 0.0, -1.0, float("inf")]])
    y = torch.tensor([[3, 1], [3, 2], [-4, 2], [3, 1]], dtype=torch.int16).t().contiguous().t()
    with gs.settings.backend("c"):
        for _ in range(4):
            top, back, forth = unit.orders(x, y)
            wanted = torch.sort(x, stable=True, descending=True)[1][:, :3]
            assert torch.equal(top, wanted)
            assert torch.equal(back, torch.sort(y, dim=0, stable=True, descending=True)[1])
            assert torch.equal(forth, torch.sort(x, stable=True)[1])


def test_calls_give_the_same_bits_from_the_first_on() -> None:
    with gs.settings.backend("c"):
        forget_calls()
        for name, (_, shapes, extra) in EAGER.items():
            inputs = [_draw(shape, random.Random(name), torch.float32).detach().requires_grad_() for shape in shapes]
            runs = []
            for _ in range(4):
                found = [t for t in _row(UNIT[name](*inputs, *extra)) if t.requires_grad]
                runs.append([*found, *torch.autograd.grad([t.sum() for t in found], inputs, allow_unused=True)])
            for again in runs[1:]:
                for have, want in zip(again, runs[0], strict=True):
                    assert (have is None) == (want is None) and (have is None or torch.equal(have, want)), name


def test_what_torch_refuses_is_told_as_ever() -> None:
    x = torch.randn(3, 4, requires_grad=True)
    with gs.settings.backend("c"):
        good, bad = torch.tensor([[0, 1]] * 3), torch.tensor([[0, 9]] * 3)
        for index in (good, good, bad, good, bad):
            if index is good:
                UNIT.picked(x, index % 3)[0].sum().backward()
                continue
            with pytest.raises(gs.RuntimeFailure, match="out of range"):
                UNIT.picked(x, index)


def test_saved_views_are_watched() -> None:
    x = torch.randn(4, 3, requires_grad=True)
    with gs.settings.backend("c"):
        for _ in range(4):
            moved = x * 1
            out = UNIT.own_row(moved, 1)
            with torch.no_grad():
                moved.add_(1)
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                out.sum().backward()
            _, own = UNIT.row(x, 2)
            with torch.no_grad():
                own.add_(1)
            assert x._version == 0


DECIDED = gs.CompilationUnit("""
def decided(x):
    if x.sum() > 0:
        return x * 2
    return x.sin() * 3

def nested(x, y):
    if x[0] > 0:
        if (y * x).sum() > 0:
            z = torch.tanh(x) * y
        else:
            z = x - y * y
    else:
        z = torch.cumsum(y, 0) * x
    return z * 2, z

def own(x, flag):
    c = x.sum() > 0
    if c:
        s = x.sin()
        y = s * 2
    else:
        s = x.cos()
        y = s * x
    def backward(g):
        if c:
            return g * s, None
        return g * s * 2, None
    if flag:
        y = y + 1
    return y, backward

def products(x):
    return torch.cumprod(x, 0), torch.prod(x)

def ranked(x, w):
    values, indices = torch.sort(x)
    if (values[0] - values[1]).abs() < 0.5:
        y = values @ w
    else:
        y = (values * values) @ w
    if y.amax() > 1:
        y = y / y.amax()
    return y

def frozen(x, y):
    z = x * y
    if x.sum() > 0:
        z = y.detach()
    return z * 2, x * 3, torch.tanh(z)

def rounds(x):
    y = x
    for i in range(3):
        if y.sum() > 1:
            y = y * 0.5
        else:
            y = y + x
    return y
""")


def _nested(x: Any, y: Any) -> Any:
    if x[0] > 0:
        z = torch.tanh(x) * y if (y * x).sum() > 0 else x - y * y
    else:
        z = torch.cumsum(y, 0) * x
    return z * 2, z


class _Own(torch.autograd.Function):  # type: ignore[misc] # torch is not typed here
    @staticmethod
    def forward(ctx: Any, x: Any, flag: Any) -> Any:
        ctx.c = bool(x.sum() > 0)
        s = x.sin() if ctx.c else x.cos()
        ctx.save_for_backward(s)
        y = s * 2 if ctx.c else s * x
        return y + 1 if flag else y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (s,) = ctx.saved_tensors
        return g * s * (1 if ctx.c else 2), None


def _ranked(x: Any, w: Any) -> Any:
    values, _ = torch.sort(x)
    y = values @ w if (values[0] - values[1]).abs() < 0.5 else (values * values) @ w
    return y / y.amax() if y.amax() > 1 else y


def _frozen(x: Any, y: Any) -> Any:
    z = y.detach() if x.sum() > 0 else x * y
    return z * 2, x * 3, torch.tanh(z)


def _rounds(x: Any) -> Any:
    y = x
    for _ in range(3):
        y = y * 0.5 if y.sum() > 1 else y + x
    return y


DECIDED_EAGER: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "decided": (lambda x: x * 2 if x.sum() > 0 else x.sin() * 3, [(5,)]),
    "nested": (_nested, [(4,), (4,)]),
    "own": (lambda x, flag: _Own.apply(x, flag), [(5,)]),
    "products": (lambda x: (torch.cumprod(x, 0), torch.prod(x)), [(4,)]),
    "ranked": (_ranked, [(4,), (4, 3)]),
    "frozen": (_frozen, [(4,), (4,)]),
    "rounds": (_rounds, [(4,)]),
}


@pytest.mark.parametrize(("way", "name"), some_of(product(("f", "op"), DECIDED_EAGER)))
def test_branches_that_data_decides(way: str, name: str) -> None:
    """Each call another way, others of the arguments requiring a gradient, zeros and infinities among the elements."""
    draw = random.Random(name + way)
    eager, shapes = DECIDED_EAGER[name]
    ours: Any = DECIDED[name]
    with gs.settings.backend("c"):
        if way == "op":
            ours = gs.torch_op(ours, f"few_elements_decided::{name}")
        for number in range(100):
            dtype = draw.choice((torch.float64, torch.float64, torch.float32))
            tolerance = {"rtol": 1e-9, "atol": 1e-9} if dtype == torch.float64 else {"rtol": 1e-4, "atol": 1e-4}
            generator = torch.Generator().manual_seed(number)
            leaves = [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]
            if draw.random() < 0.2:
                leaves[0][0] = draw.choice((0.0, 0.0, float("inf")))
            leaves = [leaf.requires_grad_(draw.random() < 0.8) for leaf in leaves]
            extra = (torch.tensor(draw.choice((True, False))),) if name == "own" else ()
            records = draw.random() >= 0.2
            with torch.set_grad_enabled(records):
                found = _row(ours(*leaves, *extra))
            expected = _row(eager(*leaves, *extra))
            if records and way == "f":
                assert [have.requires_grad for have in found] == [want.requires_grad for want in expected]
            for have, want in zip(found, expected, strict=True):
                torch.testing.assert_close(have.detach(), want.detach(), equal_nan=True, **tolerance)
            if found[0].requires_grad:
                inputs = [leaf for leaf in leaves if leaf.requires_grad]
                both = [(have, want) for have, want in zip(found, expected, strict=True) if want.requires_grad]
                seeds = [torch.randn(want.shape, dtype=want.dtype) for _, want in both]
                mine = torch.autograd.grad([h for h, _ in both], inputs, seeds, allow_unused=True)
                theirs = torch.autograd.grad([w for _, w in both], inputs, seeds, allow_unused=True)
                for have, want in zip(mine, theirs, strict=True):
                    have, want = (torch.zeros(()) if g is None else g for g in (have, want))
                    torch.testing.assert_close(
                        *torch.broadcast_tensors(have.to(dtype), want.to(dtype)), equal_nan=True, **tolerance
                    )


RANDOM = gs.CompilationUnit("""
def dropped(x):
    return torch.nn.functional.dropout(x, 0.5)

def twice(x):
    return torch.nn.functional.dropout(x * torch.rand_like(x), 0.3) + torch.cumsum(x, 0)
""")


@pytest.mark.parametrize("name", ["dropped", "twice"])
def test_random_numbers_are_drawn_once_and_in_order(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Torch's generator says which, unless the process has been given a seed of its own.
    monkeypatch.setattr(seeds, "_seeded", False)
    x = torch.randn(16, requires_grad=True)
    runs = []
    with gs.settings.backend("c"):
        for _ in range(5):
            torch.manual_seed(3)
            first, second = RANDOM[name](x), RANDOM[name](x)
            (gradient,) = torch.autograd.grad((first * 2 + second).sum(), x)
            runs.append((first, second, gradient, torch.rand(1)))
            assert not torch.equal(first, second)
            with torch.autocast("cpu"):
                torch.manual_seed(3)
                torch.testing.assert_close(RANDOM[name](x), first)
        for again in runs[1:]:
            for have, want in zip(again, runs[0], strict=True):
                assert torch.equal(have, want)
        for _ in range(5):
            kept = RANDOM.dropped(x)
            assert torch.equal(torch.autograd.grad(kept.sum(), x)[0] * x, kept)


SHARING = gs.CompilationUnit("""
def handed_on(x, y):
    return x * torch.rand_like(x), y

def viewed(x, y):
    z = torch.nn.functional.dropout(x, 0.5)
    return z + torch.randn_like(y), y[1:], z.reshape(4, 4)
""")


@pytest.mark.parametrize("records", [False, True], ids=["plain", "recorded"])
@pytest.mark.parametrize("name", ["handed_on", "viewed"])
def test_what_shares_memory_with_an_argument_is_drawn_once_too(name: str, records: bool) -> None:
    """Whose memory is whose, Python tells, of what kernels have drawn."""
    runs = []
    with gs.settings.backend("c"):
        for _ in range(6):
            x, y = torch.linspace(1, 2, 16, requires_grad=records), torch.linspace(2, 3, 16, requires_grad=records)
            with gs.random.local_seed(3):
                runs.append((*SHARING[name](x, y), RANDOM.dropped(x)))
    for again in runs[1:]:
        for have, want in zip(again, runs[0], strict=True):
            assert torch.equal(have, want)


def test_a_number_and_a_gradient_of_one_name_meet_in_a_kernel() -> None:
    """The gradient of `sum` is read under the name `t`, which the number has as well."""
    unit = gs.CompilationUnit("def warm(x, t: float, scale: float):\n    return torch.tanh(x * t) * scale\n")
    x = torch.randn(16, dtype=torch.float64, requires_grad=True)
    with gs.settings.backend("c"), warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        for t, scale in ((0.25, 2.0), (1.5, -1.0), (0.5, 3.0)):
            (found,) = torch.autograd.grad(unit.warm(x, t, scale).sum(), x)
            torch.testing.assert_close(found, scale * t * (1 - torch.tanh(x.detach() * t) ** 2))


def test_what_ends_the_process_is_not_left_to_torch() -> None:
    op = OPS.named("aten::div.Tensor_mode")
    for dtype, is_torchs in ((np.int64, False), (np.float64, True)):
        x, y = np.array([7, -6], dtype), np.array([2, 3], dtype)
        assert (binding(op, (x, y, "trunc"), [np.array([3, -2], dtype)]) is not None) is is_torchs
