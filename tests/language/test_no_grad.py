"""`with torch.no_grad():` as eager has it: no gradient flows from what is computed inside, on any road."""

from __future__ import annotations

import random
import re
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from amounts import some, some_of
from eager_programs import check, eager

X, W = np.array([1.0, 2.0, 3.0]), np.array([0.5, -2.0, 1.5])
SOURCE = """
def plain(x, w):
    with torch.no_grad():
        scale = (x * w).abs().sum()
        y = x
    return y * w * scale


def early(x, w):
    y = x * w
    with torch.no_grad():
        if bool(y.sum() > 0):
            return y * 2 + x
        z = y * x
        if bool(z.sum() < -100):
            return x
    return z * y * w


def loops(x, w):
    y = x * 1
    for i in range(4):
        with torch.no_grad():
            step = y * w + i
            if i == 2:
                break
        y = y + step * x
        with torch.no_grad():
            if i == 0:
                continue
        y = y * w
    return y


def nested(x, w):
    with torch.no_grad():
        a = x * w
        with torch.enable_grad():
            b = x * w * a
            with torch.no_grad(), torch.enable_grad():
                b = b * x
        with torch.set_grad_enabled(False):
            c = b * x
    with torch.enable_grad():
        d = c * x
    return a + b * d + c


def lists(x, w):
    with torch.no_grad():
        l = [x, x * w]
        l.append(w * w)
        parts = torch.stack(l).chunk(3)
        p, q = x.split([1, 2])
        v, i = (x * w).max(0)
        first = l[0]
    return l[0] * l[1] * l[2] * parts[1] * w + q.sum() * first + v * x


def helper(v, o: Optional[Tensor] = None):
    r = v * v
    if o is not None:
        r = r * o
    return r, [r * 2, v]


def calls(x, w):
    a, b = helper(x, w)
    with torch.no_grad():
        c, d = helper(x, w)
        e = helper(w)
    return a * c * d[0] * b[0] * e[0] * d[1]


@torch.no_grad()
def constant(x, w):
    return x * w


@torch.no_grad
def bare(x, w):
    return x + w


def decorated(x, w):
    return constant(x, w) * x * w * bare(x, w)


def asked(x, w):
    with torch.no_grad():
        y = x * w
        if y.requires_grad:
            y = y * 100
    return y * x if x.requires_grad else y * w


def written(x, w):
    with torch.no_grad():
        y = x * w
        y += 1
        y[0] = 3.0
        y.mul_(2)
        n = 0
        n += 1
    return y * x * n
"""
NAMES = ("plain", "early", "loops", "nested", "lists", "calls", "decorated", "written")


@pytest.mark.parametrize("name", NAMES)
def test_roads(name: str) -> None:
    check(SOURCE, name, X, W)


def test_backward_of_ones_own() -> None:
    source = """
def f(x):
    with torch.no_grad():
        s = torch.sigmoid(x)

        def backward(grad_output):
            return grad_output * s * x

    return x * s, backward
"""
    unit = gs.CompilationUnit(source)
    assert gs.CompilationUnit(unit.code).code == unit.code
    sigmoid = 1 / (1 + np.exp(-X))
    np.testing.assert_allclose(gs.vjp(unit.f, X)[1](np.ones(3))[0], sigmoid * X)
    total = gs.CompilationUnit(source + "\n\ndef g(x):\n    return f(x).sum()\n").g
    inner = gs.CompilationUnit("def h(x, s):\n    return (s * x).sum()\n").h
    second = gs.vjp(gs.grad(total), X)[1](np.ones(3))[0]
    np.testing.assert_allclose(second, gs.grad(inner)(X, sigmoid))


def _program(rng: random.Random) -> str:
    """Assignments to a few names, under modes, in branches and in loops."""
    lines = ["def f(x, w):", "    a = x * w", "    b = x + w", "    c = w * 1"]
    names = ("a", "b", "c")

    def value() -> str:
        left, right = rng.choice((*names, "x", "w")), rng.choice((*names, "x", "w"))
        return rng.choice((f"{left} * {right}", f"torch.tanh({left}) + {right}", left, f"{left} - {right} * 0.5"))

    def block(indent: str, depth: int) -> None:
        for _ in range(rng.choice((1, 2, 3))):
            kind = rng.random()
            if kind < 0.45 or not depth:
                lines.append(f"{indent}{rng.choice(names)} = {value()}")
            elif kind < 0.7:
                mode = rng.choice(("no_grad", "no_grad", "enable_grad"))
                lines.append(f"{indent}with torch.{mode}():")
                block(indent + "    ", depth - 1)
            elif kind < 0.85 or "    for" in "".join(lines):
                lines.append(f"{indent}if bool(({rng.choice(names)}).sum() > {rng.choice((-1, 0, 1))}):")
                block(indent + "    ", depth - 1)
                if rng.random() < 0.3:
                    lines.append(f"{indent}    return {value()}")
                elif rng.random() < 0.5:
                    lines.append(f"{indent}else:")
                    block(indent + "    ", depth - 1)
            else:
                lines.append(f"{indent}for i in range({rng.choice((1, 2, 3))}):")
                block(indent + "    ", depth - 1)
                if rng.random() < 0.3:
                    lines.append(f"{indent}    if i == 1:")
                    lines.append(f"{indent}        {rng.choice(('break', 'continue'))}")

    block("    ", 3)
    return "\n".join([*lines, "    return a * b + c", ""])


@pytest.mark.parametrize("seed", range(some(12)))
def test_generated(seed: int) -> None:
    rng = random.Random(seed)
    check(_program(rng), "f", np.array([0.5, -0.25]), np.array([-0.75, 0.3]))


@pytest.mark.parametrize(
    "body",
    [
        "y += w",
        "y[0] = 1",
        "z = y\n        z.mul_(w)",
        "for p in [y, w * 1]:\n            p.sub_(0.1 * w)",
        "for p, g in zip([y], [w]):\n            p -= g * x",
        "y.copy_(w)\n        y[1:] += y[:-1] * 2",
    ],
)
def test_a_write_leaves_the_gradient_what_it_was(body: str) -> None:
    text = f"def f(x, w):\n    y = x * w * 2\n    with torch.no_grad():\n        {body}\n    return y * x\n"
    check(text, "f", X, W)


@pytest.mark.parametrize(
    "made",
    [
        "with torch.no_grad():\n        v = x * 2",
        "with torch.no_grad():\n        l = [x * 1, x * 2]\n    v = l[1]",
        "with torch.no_grad():\n        v = x * 2 if x.sum() > 100 else x.sin()",
        "v = (x * 2).detach()",
        "v = torch.relu(x).detach().flip([0])",
        "v = torch.relu(x).view(1, -1).detach()[0]",
        "v = x * 1\n    for i in range(2):\n        with torch.no_grad():\n            v = v * 2\n        v[i] = w[i]",
    ],
)
@pytest.mark.parametrize(
    "written", ["v[0] = w[0]", "v[:2].mul_(w[1:])", "v.mul_(w)\n    v[1] = 2.0", "v[1:] += v[:-1].clone() * w[0]"]
)
def test_what_was_made_without_a_gradient_gets_that_of_what_is_written_into_it(made: str, written: str) -> None:
    check(f"def f(x, w):\n    {made}\n    {written}\n    return v * v * x\n", "f", X, W)


@pytest.mark.parametrize("written", ["z[0] = w[0]", "z.copy_(w)", "z.mul_(w)", "z[1:] += y[:-1]"])
def test_a_gradient_written_into_what_shares_memory_is_refused(written: str) -> None:
    """The tensor and the one it was detached from have the same elements then, and gradients of their own."""
    with pytest.raises(gs.CompileError, match="it was detached from") as caught:
        gs.CompilationUnit(f"def f(x, w):\n    y = x * 2\n    z = y.detach()\n    {written}\n    return z, y\n")
    assert caught.value.code == "E305" and caught.value.span.line == 4
    text = (
        "def f(x, w):\n    y = x * w\n    z = y.detach()\n    z.mul_(0.5)\n    z[0] = 1.0\n    return z * w + y * y\n"
    )
    check(text, "f", X, W)


@pytest.mark.parametrize(
    "written",
    [
        "y.detach().mul_(w)",
        "y.data.copy_(w * 2)",
        "y.detach()[0].mul_(0.5).add_(w[0])",
        "for i in range(2):\n        y.detach()[i] = w[i] * y[0]",
        "z = y.detach()\n    s = w\n    for i in range(2):\n        s = s * z[i:][0]\n    z.mul_(s)",
        "z = y.detach()\n    v = z[1:]\n    s = z + w\n    v += s[1:]\n    y = y * s",
    ],
)
def test_a_gradient_written_into_what_is_detached_and_read_no_more_changes_the_elements(written: str) -> None:
    check(f"def f(x, w):\n    y = x * w\n    {written}\n    return y * y\n", "f", X, W)


@pytest.mark.parametrize(
    "written",
    [
        "z = y.detach()\n    v = z[1:]\n    v += w[1:]\n    y = y * z",
        "z = y.detach()\n    v = z[1:]\n    z.mul_(w)\n    y = y * v.sum()",
        "z = y.detach()\n    for i in range(2):\n        y = y * z.sum()\n        z.mul_(w)",
        "l = [y.detach()]\n    l[0].mul_(w)\n    y = y * l[0]",
    ],
)
def test_nor_where_it_is_read_under_another_name(written: str) -> None:
    with pytest.raises(gs.CompileError, match="it was detached from"):
        gs.CompilationUnit(f"def f(x, w):\n    y = x * w\n    {written}\n    return y * y\n")


@pytest.mark.parametrize(
    "kept",
    some_of(
        [
            "y.double()",
            "y.float().double()",
            "y.to(x.dtype)",
            "y.type_as(x)",
            "torch.positive(y)",
            "F.dropout(y, 0.5, False)",
            "y.sum_to_size(y.size())",
            "torch.atleast_1d(y)",
            "torch.atleast_2d(y)",
            "torch.atleast_1d([y])[0]",
            "torch.atleast_2d(w, y)[1][0]",
            "torch.broadcast_tensors(y, y)[0]",
            "torch.broadcast_tensors(w[:1], y)[1]",
            "torch.broadcast_tensors(y[:1], w)[0]",
            "torch.cartesian_prod(y)",
            "torch.cartesian_prod(y, w[:1])[:, 0]",
            "y.sum().mT",
            "y[0].adjoint()",
            "torch.meshgrid(y, w)[1][0]",
            "y.flatten()",
            "y[...]",
            "y[:]",
        ]
    ),
)
def test_what_copies_nothing_keeps_its_gradient_and_a_view_does_not(kept: str) -> None:
    text = f"def f(x, w):\n    y = x * w * 2\n    with torch.no_grad():\n        z = {kept}\n    return y * x + z * w\n"
    check(text, "f", X, W)


@pytest.mark.parametrize(
    ("body", "code", "line"),
    [
        ("with open(x):\n        y = x", "E102", 2),
        ("with torch.no_grad() as g:\n        y = x", "E102", 2),
        ("with torch.no_grad:\n        y = x", "E102", 2),
        ("with torch.no_grad()\n        y = x", "E101", 2),
        ("with torch.set_grad_enabled(x):\n        y = x", "E102", 2),
        ("y = x * 1\n    with torch.no_grad():\n        z = y.contiguous()", "E305", 4),
    ],
)
def test_what_is_refused(body: str, code: str, line: int) -> None:
    with pytest.raises(gs.CompileError) as caught:
        gs.CompilationUnit(f"def f(x):\n    {body}\n    return x\n")
    assert caught.value.code == code
    assert caught.value.span.line == line


LIST_READERS = ("y * len(l)", "l[0] * 2", "torch.stack([t for t in l])", "sum(k) * y", "k[0] * y", "y * (3 in k)")


@pytest.mark.parametrize(
    "write",
    [
        "l.pop(); k.pop()",
        "l.append(w); k.append(3)",
        "l[0] = w; k[0] = 7",
        "l.clear(); l.append(w); k.clear(); k.append(4)",
    ],
)
@pytest.mark.parametrize("read", LIST_READERS)
def test_lists_that_were_written_are_read_beside_a_call(read: str, write: str) -> None:
    """A call that is inlined where nothing is recorded has constants folded: lists hold what was written by then."""
    writes = "".join(f"    {line}\n" for line in write.split("; "))
    source = (
        "def own(x):\n    return x * 2\n\n"
        f"def f(x, w):\n    y = x * w\n    l = [x * 2, y, x * 3]\n    k = [1, 2, 5]\n{writes}"
        f"    with torch.no_grad():\n        y = own(y)\n        z = {read}\n    return z + x\n"
    )
    check(source, "f", X, W)


def test_other_decorators() -> None:
    with pytest.raises(gs.CompileError) as caught:
        gs.CompilationUnit("@torch.no_grad()\n@cached\ndef f(x):\n    return x\n")
    assert caught.value.code == "E102"
    assert caught.value.span.line == 1


AROUND = """
def itself(x, w):
    return x


def listed(x, w):
    return [x, x * w, w.detach()]


def converted(x, w):
    return x.double(), x.float(), x[0], torch.atleast_1d(x)


def chosen(x, w):
    y = x
    if bool(w.sum() > 100):
        y = x * w
    return y


def first(x, w):
    l = [w.detach(), x, x * 2]
    return l[1] if l[1].requires_grad and not l[0].requires_grad and not l[2].requires_grad else w * 1


def views(x, w):
    y = x[1:]
    return x * 2 if y.requires_grad else x * 3


def enabled(x, w):
    y = x * w
    with torch.enable_grad():
        z = y * x
        with torch.no_grad():
            u = z * x
        v = z * u
    return y, z, u, v, z * 2


def both(x, w):
    return x * w, w


@torch.enable_grad()
def decorated(x, w):
    return x * w, w


def calling(x, w):
    a, b = both(x, w)
    c, d = decorated(x, w)
    with torch.set_grad_enabled(True):
        e, g = both(x, w)
    return a, b, c, d, e, g


def writing(x, w):
    y = x.clone()
    with torch.enable_grad():
        z = x * 1
        z[0] = w[1]
        z.mul_(w)
        y += x
    return y, z, [z * 2, w]


def rounds(x, w):
    y = x * 1
    kept = []
    for i in range(3):
        with torch.enable_grad():
            y = y * w
            asks = y.requires_grad
        kept.append(y if i == 1 and asks else y * x)
        if i == 2:
            with torch.inference_mode(False):
                p, q = x.chunk(2)
                return y, kept[0], kept[1], q * p[0]
    return y, y, y, y
"""
ENABLING = ("enabled", "decorated", "calling", "writing", "rounds")


@pytest.mark.parametrize("name", ("itself", "listed", "converted", "chosen", "first", "views", *ENABLING))
def test_a_mode_around_the_call(name: str) -> None:
    """What a function returns of its arguments keeps their gradients, on tensors and on the tape."""
    unit, eagerly = gs.CompilationUnit(AROUND)[name], eager(AROUND)[name]
    asked: list[list[bool]] = []

    def used(call: object, modes: object, x: object, w: object) -> object:
        with modes.no_grad():
            results = call(x, w)
        found = _flat(results)
        asked.append([result.requires_grad for result in found])
        return sum((w * result).sum() for result in found) + (x * w).sum()

    expected = _slopes(used(eagerly, torch, *(tensors := _tensors())), tensors)
    np.testing.assert_allclose(_slopes(used(unit, torch, *(tensors := _tensors())), tensors), expected)
    variables = gs.tape.Variable(X), gs.tape.Variable(W)
    used(unit, gs.tape, *variables).backward()
    np.testing.assert_allclose([v.grad.data for v in variables], expected)
    assert asked[1] == asked[0]
    if name in ("enabled", "decorated", "calling"):
        assert asked[0] == asked[1] == asked[2]


@pytest.mark.parametrize("seed", range(some(20)))
def test_generated_programs_called_where_nothing_is_recorded(seed: int) -> None:
    """What they compute where they enable gradients has them, and nothing else."""
    text = _program(random.Random(seed)).replace("return a * b + c", "return a, b, c")
    text = re.sub(r"return (?!a, b, c)(.*)", r"return \1, a, b * c", text)
    found = []
    for function in (eager(text)["f"], gs.CompilationUnit(text).f):
        tensors = _tensors()
        with torch.no_grad():
            results = function(*tensors)
        held = [r for r in results if r.requires_grad]
        total = sum((r * r).sum() for r in held) + sum((t * t).sum() for t in tensors)
        found.append(([r.requires_grad for r in results], _slopes(total, tensors)))
    assert found[1][0] == found[0][0], text
    np.testing.assert_allclose(found[1][1], found[0][1], err_msg=text)


def _flat(value: object) -> list[Any]:
    return [leaf for item in value for leaf in _flat(item)] if isinstance(value, list | tuple) else [value]


def _tensors() -> list[torch.Tensor]:
    return [torch.tensor(a, requires_grad=True) for a in (X, W)]


def _slopes(value: torch.Tensor, tensors: list[torch.Tensor]) -> list[np.ndarray]:
    return [g.numpy() for g in torch.autograd.grad(value, tensors)]


def test_a_tensor_that_is_returned_is_the_tensor() -> None:
    function = gs.CompilationUnit("def f(x, l: List[Tensor]):\n    return x * 2, l, x\n").f
    x = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        doubled, listed, same = function(x, [x])
    assert same is x
    assert listed[0] is x
    assert not doubled.requires_grad
