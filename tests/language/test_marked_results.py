"""Which results require a gradient where branches, rounds and lists decide it, under every mode, beside eager torch."""

from __future__ import annotations

import contextlib
from itertools import product
from typing import Any

import gradscript as gs
import pytest
import torch
from eager_programs import eager

SOURCE = """
def detached_in_a_branch(x, w, n: int):
    y = x * 2
    if n > 2:
        y = y.detach()
    return y


def carried(x, w, n: int):
    y = x
    for i in range(n):
        y = y * w
    return y


def either_argument(x, w, n: int):
    if n > 1:
        return x * 2
    return w * 2


def mixed_list(x, w, n: int):
    return [x * 2, w.detach(), w * 3]


def growing_list(x, w, n: int):
    l = [x, w]
    for i in range(n):
        l.append(l[-1] * 2)
    return l


def from_a_list(x, w, n: int):
    l = [x, w]
    return l[n % 2] * 2


def unrecorded_rounds(x, w, n: int):
    y = x
    for i in range(n):
        with torch.no_grad():
            y = y * w
    return y, w


def rounds_by_elements(x, w, n: int):
    y = x
    i = 0
    while float(y.sum()) < 20.0 and i < n:
        y = y * w + y
        i += 1
    return y


def swapped(x, w, n: int):
    a, b = x, w
    for i in range(n):
        a, b = b, a * 2
    return a, b


def enabled(x, w, n: int):
    with torch.enable_grad():
        y = x * w
    z = y * 2
    if n > 1:
        return y
    return z


def enabled_in_a_branch(x, w, n: int):
    y = x
    if n > 1:
        with torch.enable_grad():
            y = x * w
    elif n > 0:
        y = w * 2
    return y


def views_in_a_list(x, w, n: int):
    l = []
    for i in range(n):
        if i % 2 == 0:
            l.append(x[0])
        else:
            l.append(x * w)
    return l


def narrowed(x, w, n: int):
    y = x[0:2]
    for i in range(n):
        y = y[0:1]
    return y


def conditional_expressions(x, w, n: int):
    return (x if n > 1 else w), (w if n > 1 else x * 2)


def set(x, w, n: int):
    with torch.set_grad_enabled(False):
        y = x * w
        if n > 1:
            y = x
    return y


def other_dtypes(x, w, n: int):
    y = x * w
    if n == 1:
        y = y > 0
    elif n == 2:
        y = y.long()
    return y


def helper(a, n: int):
    if n > 1:
        return a
    return a * 2


def called(x, w, n: int):
    return helper(x, n) , helper(w.detach(), n)


def detached_then_added(x, w, n: int):
    d = x.detach()
    for i in range(n):
        d = d + w
    return d


def filled(x, w, n: int):
    return torch.fill(x, 2.0), torch.fill(w.detach(), n)


def indexed(l: List[Tensor], n: int):
    return l[n % 2] * 2


def listed(l: List[Tensor], n: int):
    return l


def mapped(l: List[Tensor], n: int):
    out = []
    for t in l:
        out.append(t * 2)
    return out, l[0]


def summed(l: List[Tensor], n: int):
    s = l[0]
    for t in l:
        s = s + t
    if n > 1:
        s = l[1]
    return s



def views(x, w, n: int):
    return x[0:2], x.view(-1), x.detach(), x[0:2].detach(), w.expand(2, 3), x.double().t()


def sliced(x, w, n: int):
    l = [x, w, x * w]
    a, b, c = l
    if n > 1:
        l = l[0:n - 1]
    return l, b


def tuples(x, w, n: int):
    t = (x, w * 2)
    for i in range(n):
        t = (t[1], t[0])
    return t


def best(x, w, n: int):
    best = x
    for i in range(n):
        c = w * float(i)
        if bool((c.sum() > best.sum())):
            best = c
    return best


def helped(x, w, n: int):
    return helper(x, n), [helper(w.detach(), n), helper(w, n)]


def written(x, w, n: int):
    y = x.contiguous() * 1
    z = x.clone()
    for i in range(n):
        z[i] = w[i]
    return z, y
"""
ONE_MARK = """
def one_object_or_the_other(x, w):
    a, b = x * 1, w * 1
    for i in range(2):
        if i % 2 == 1:
            b = a
        b.add_(i)
    return a, b


def swapped(x, w):
    a, z = x * 1, torch.zeros_like(w)
    for i in range(3):
        z[i] = a[i]
        a, z = z, a
    return a, z, w * 2


def one_of_a_list(x, w):
    l = [x.detach(), x * w]
    for t in [w, w.detach()]:
        l.append(l[-1] * t)
    k = len(l) - 1
    return l[k], l[k] * 1, l[k]
"""
UNIT, EAGER = gs.CompilationUnit(SOURCE), eager(SOURCE)
NAMES = [name for name in UNIT if name != "helper"]
MODES = {
    "recorded": contextlib.nullcontext,
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "no_grad, then enable_grad": lambda: _entered(torch.no_grad(), torch.enable_grad()),
}


@contextlib.contextmanager
def _entered(*modes: Any) -> Any:
    with contextlib.ExitStack() as stack:
        for mode in modes:
            stack.enter_context(mode)
        yield


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NAMES)
def test_as_eager_torch(name: str, mode: str) -> None:
    takes_list = UNIT[name].schema.arguments[0].name == "l"
    for first, second, n in product((True, False), (True, False), range(4)):
        found = []
        # Twice: a call of a kind that was called before takes a shorter road.
        for function in (EAGER[name], UNIT[name], UNIT[name]):
            tensors = [torch.full((3,), 1.5, requires_grad=first), torch.full((3,), 1.25, requires_grad=second)]
            with MODES[mode]():
                result = function(tensors, n) if takes_list else function(*tensors, n)
            recorded = name.startswith("enabled") or mode not in ("no_grad", "inference_mode")
            found.append(_described(result, tensors, recorded=recorded))
        assert found[1] == found[0], (first, second, n)
        assert found[2] == found[0], (first, second, n)


def _described(result: Any, tensors: list[Any], *, recorded: bool) -> Any:
    """Of each tensor its elements and whether it requires a gradient; where nothing is recorded, which argument it
    is if it requires one."""
    if isinstance(result, list | tuple):
        return [_described(item, tensors, recorded=recorded) for item in result]
    same = [] if recorded or not result.requires_grad else [i for i, tensor in enumerate(tensors) if tensor is result]
    return result.tolist(), result.requires_grad, result.is_inference(), same


def test_gradients_of_results_that_one_run_marks() -> None:
    source = "def f(x, w, n: int):\n    y = x.detach()\n    l = [y]\n    for i in range(n):\n        y = y * w\n"
    source += "        l.append(y)\n    return l\n"
    for n in range(3):
        slopes = []
        for function in (eager(source)["f"], gs.CompilationUnit(source).f):
            x, w = torch.full((3,), 1.5, requires_grad=True), torch.full((3,), 1.25, requires_grad=True)
            total = sum((t * t).sum() for t in function(x, w, n) if t.requires_grad) + w.sum()
            (first,) = torch.autograd.grad(total, w, create_graph=True)
            slopes.append([first.tolist(), None if not first.requires_grad else torch.autograd.grad(first.sum(), w)])
        assert str(slopes[0]) == str(slopes[1])


@pytest.mark.parametrize("name", ["one_object_or_the_other", "swapped", "one_of_a_list"])
def test_two_results_of_which_one_mark_tells(name: str) -> None:
    """What a plan finds to be one mark is there once; a prepared call looks for it where it is."""
    python, function = eager(ONE_MARK)[name], gs.CompilationUnit(ONE_MARK)[name]
    for wanted in product((True, False), repeat=2):
        for _ in range(5):
            tensors = [torch.rand(3, requires_grad=w) for w in wanted]
            found, expected = function(*tensors), python(*tensors)
            assert [t.requires_grad for t in found] == [t.requires_grad for t in expected]
            given = [t for t in tensors if t.requires_grad]
            totals = [sum(r.sum() for r in results if r.requires_grad) for results in (found, expected)]
            if given and torch.is_tensor(totals[1]):
                ours, theirs = (torch.autograd.grad(total, given, allow_unused=True) for total in totals)
                assert str(ours) == str(theirs)
