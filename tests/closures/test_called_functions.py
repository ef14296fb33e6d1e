"""Functions inside functions that are called there, as Python and eager torch have them."""

from __future__ import annotations

import gradscript as gs
import numpy as np
import pytest
import torch
from eager_programs import check
from gradscript.compiler.emit.statements.called import MAX_WRITTEN

PROGRAMS = {
    "a lambda": """
def f(x, y):
    cdf = lambda z: 0.5 * (1 + torch.erf(z / math.sqrt(2.0)))
    return x * cdf(x) + cdf(y)
""",
    "a lambda that is called at once": """
def f(x, y):
    k = 3.0
    return (lambda q, s=2.0: q * s + k)(x) * (lambda: y)()
""",
    "a lambda with two names": """
def f(x, y):
    g = h = lambda q: q.sin() * y
    return g(x) + h(h(x))
""",
    "captured names bound later": """
def f(x, y):
    def force(q):
        return -k * q + c
    k = 2.0
    c = y
    a = force(x)
    k = 5.0
    c = a * y
    return a + force(x)
""",
    "a function that is defined after the one that calls it": """
def f(x, y):
    def outer(q):
        return inner(q) * 2.0
    def inner(q):
        return q.exp() * y
    return outer(x)
""",
    "called in a loop": """
def f(x, y):
    def force(q):
        return -rate * torch.sin(q) * y
    rate = 0.1
    v = torch.zeros_like(x)
    for i in range(5):
        v = v + force(x)
        x = x + rate * v
        rate = rate * 1.5
    return x + v
""",
    "called in branches": """
def f(x, y):
    def act(q):
        if q.sum() > 0:
            return q * y
        return q.cos()
    if x.mean() > 0.2:
        z = act(x)
    else:
        z = act(-x) + act(y)
    return z * 2
""",
    "early returns": """
def f(x, y):
    def first(a, b):
        for i in range(4):
            a = a * 0.7
            if a.sum() < b.sum():
                return a * b
            if i > 2:
                break
        else_part = a + b
        return else_part.sin()
    return first(x, y) + first(y, x) + first(x * 3, y)
""".replace("else_part", "rest"),
    "returns from loops that repeat": """
def f(x, y):
    def steps(a):
        n = 0
        while True:
            a = a * 0.5
            n += 1
            if a.abs().max() < 0.1:
                return a, n
    u, n = steps(x)
    v, m = steps(y)
    return u * n + v * m
""",
    "tuples and lists": """
def f(x, y):
    def both(a):
        return a.sin(), [a, a * 2]
    s, parts = both(x)
    t, more = both(y)
    return s * t + parts[0] * more[1] + both(x)[0]
""",
    "defaults are of the time of the definition": """
def f(x, y):
    k = 2.0
    def g(q, s=k, t=y * 2):
        return q * s + t * k
    k = 7.0
    y = y * 3
    return g(x) + g(x, t=y) + g(s=1.0, q=x)
""",
    "keyword-only parameters": """
def f(x, y):
    def g(a, *, power: int = 2, scale=1.0):
        return a ** power * scale
    return g(x, scale=3.0) + g(y, power=3)
""",
    "annotations": """
def f(x, y):
    def g(a: Tensor, n: int, w: Optional[Tensor] = None) -> Tensor:
        if w is not None:
            return a * n + w
        return a * n
    return g(x, 2) + g(x, 3, y)
""",
    "one function of several types": """
def f(x, y):
    def twice(v):
        return v + v
    return x * twice(2) + y * twice(1.5) + twice(x)
""",
    "shadowed names": """
def f(x, y):
    z = y
    def g(x, y=1.0):
        z = x * 2
        y = z * y
        return z + y
    a = g(y)
    return a + z + x * y
""",
    "named as a function of Python and of torch": """
def f(x, y):
    def max(a):
        return a * 2
    def sum(a, b):
        return a - b
    return sum(max(x), y)
""",
    "writes into a captured tensor": """
def f(x, y):
    z = x * 1
    def add(v):
        z.add_(v)
        z[0] = z[0] * 2
    add(y)
    w = z * 3
    add(y * 2)
    return z + w
""",
    "writes into a parameter": """
def f(x, y):
    def scale(a, by):
        a *= by
        a[1:] += 1.0
        return a
    z = x * 1
    w = scale(z, y)
    scale(z, 2.0)
    return z + w * y
""",
    "lists that it writes into": """
def f(x, y):
    kept = []
    def keep(v):
        kept.append(v)
        return v * len(kept)
    for i in range(3):
        x = keep(x * y)
    return x + kept[0] + kept[-1]
""",
    "nothing is returned": """
def f(x, y):
    def show(a):
        print("mean", a.shape[0])
    show(x)
    for i in range(2):
        show(y)
    return x * y
""",
    "called from one another": """
def f(x, y):
    k = 2.0
    def a(q):
        return q * k
    def b(q):
        k = 100.0
        return a(q) + k
    def c(q):
        a = 1.0
        return b(q) * a
    k = 3.0
    return c(x) + a(y)
""",
    "a function inside one that is called": """
def f(x, y):
    def outer(q):
        s = q.sum()
        def inner(r):
            return r * s + y
        s = s * 2
        return inner(q) + inner(q * 2)
    return outer(x) + outer(y)
""",
    "in a comprehension, whose names it does not see": """
def f(x, y):
    def g(q):
        return q * x
    parts = [g(x) + i for i, x in enumerate([y, y * 2])]
    more = [(lambda q: q * x)(y) for x in [y, x]]
    return parts[0] + parts[1] + more[0] * more[1]
""",
    "in a comprehension's condition": """
def f(x, y):
    def large(q, than=0.1):
        return bool(q.abs().max() > than)
    parts = [v for v in [x, y, x * 0.001] if large(v)]
    return torch.stack(parts).sum(0)
""",
    "in a condition of a loop": """
def f(x, y):
    def far(a):
        return bool((a - y).abs().max() > 0.05)
    n = 0
    while far(x) and n < 20:
        x = x + 0.5 * (y - x)
        n += 1
    return x * n
""",
    "over a tuple that is written out": """
def f(x, y):
    def g(v, n):
        return v * n
    for v, n in ((x, 2), (y, 3.0)):
        x = x + g(v, n)
    return x
""",
    "raises on one path": """
def f(x, y):
    def need(a):
        if a.numel() == 0:
            raise ValueError("nothing")
        return a.sin()
    def fail(message: str):
        raise ValueError(message)
    if x.shape[0] > 5:
        z = fail("too many")
    else:
        z = need(x)
    return z + y
""",
    "no gradient flows where it is called": """
def f(x, y):
    def g(q):
        return q * y + q.exp()
    with torch.no_grad():
        a = g(x)
        b = [g(v) for v in [x, y]]
    return g(x) * a + b[0] + b[1]
""",
    "no gradient flows inside": """
def f(x, y):
    def g(q):
        with torch.no_grad():
            s = q.abs().sum()
        return q / s
    with torch.no_grad():
        def h(q):
            return g(q) * y
        z = h(x)
    with torch.no_grad():
        with torch.enable_grad():
            w = h(x)
    return h(x) + z * w
""",
    "a gradient flows where it is called, but not around that": """
def inner(x, y):
    h = lambda q: q * y
    z = h(x)
    with torch.enable_grad():
        return h(x) * z


def f(x, y):
    with torch.no_grad():
        z = inner(x, y)
    return z + y
""",
}
GENERATOR = np.random.default_rng(7)
X, Y = GENERATOR.standard_normal((2, 3)) + 0.5


@pytest.mark.parametrize("name", PROGRAMS)
def test_on_every_road(name: str) -> None:
    check(PROGRAMS[name], "f", X, Y)


GRADIENTS = {
    "a backward that calls": """
def f(x, y):
    s = 2.0
    def scaled(q):
        return q * s
    def backward(g):
        return scaled(g) * y, scaled(g) * x
    s = 100.0
    return scaled(x) * y / 50, backward
""",
    "a backward that is called too": """
def f(x, y):
    s = y.sin()
    def backward(g):
        return g * s, g * x * y.cos()
    a, b = backward(x)
    return x * s + (a + b).detach() * 0, backward
""",
    "one of two": """
def f(x, y):
    mean = lambda q, n=2.0: q.sum() / n
    def backward(g):
        def inner(q):
            return q * g
        return inner(y), inner(x)
    return x * y + (mean(x) - mean(x)).detach(), backward
""",
}


MEANT = {
    "a backward that calls": lambda x, y: 2 * x * y,
    "a backward that is called too": lambda x, y: x * y.sin(),
    "one of two": lambda x, y: x * y,
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_closures_call_and_are_called(name: str) -> None:
    unit = gs.CompilationUnit(GRADIENTS[name])
    assert gs.CompilationUnit(unit.code).code == unit.code
    tensors = [torch.tensor(value, requires_grad=True) for value in (X, Y)]
    wanted = torch.autograd.grad(MEANT[name](*tensors).square().sum(), tensors)
    found = torch.autograd.grad(unit.f(*tensors).square().sum(), tensors)
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs)


UNUSED = {
    "def": "    def g(q):\n        return nowhere(q)\n    return x * 2",
    "def in a branch": "    if x.sum() > 0:\n        def g(q):\n            return q\n    return x * 2",
    "def in a helper": "    def h(q):\n        def g(r):\n            return r\n        return q * 2\n    return h(x)",
    "def beside a backward": """    def g(q):
        return q
    def backward(d):
        return d * 2
    return x * 2, backward""",
}


@pytest.mark.parametrize("name", UNUSED)
def test_a_helper_that_nothing_calls_is_left_alone(name: str) -> None:
    unit = gs.CompilationUnit(f"def f(x):\n{UNUSED[name]}\n")
    assert gs.CompilationUnit(unit.code).code == unit.code
    x = torch.tensor(X, requires_grad=True)
    (found,) = torch.autograd.grad(unit.f(x).sum(), x)
    assert (found == 2).all()


REFUSED = {
    "E402 g 'g' is a function, and used as a value": "    def g(q):\n        return q\n    return torch.sum(g)",
    "E402 g 'g' is a function, and used as a value 2": "    g = lambda q: q\n    h = g\n    return h(x)",
    "E102 lambda q: q a lambda here is not supported": "    return torch.sum(lambda q: q)",
    "E404 g function 'g' calls itself": "    def g(q):\n        return g(q * 2)\n    return g(x)",
    "E404 g function 'g' calls itself 2": """    def g(q):
        return h(q * 2)
    def h(q):
        return g(q)
    return g(x)""",
    "E401 g 'g', which returns a closure, is called inside its function": """    def g(q):
        def backward(d):
            return d
        return q, backward
    return g(x)""",
    "E204 x function 'g': takes 1": "    g = lambda q: q\n    return g(x, x)",
    "E204 g() function 'g': needs 'q'": "    g = lambda q: q\n    return g()",
    "E204 2 function 'g': has no argument 'r'": "    g = lambda q: q\n    return g(x, r=2)",
    "E204 x function 'g': 'n' must be str, not Tensor": "    def g(n: str):\n        return n\n    return g(x)",
    "E301 int 'g' returns a Tensor, not a int": "    def g(q) -> int:\n        return q\n    return x * g(x)",
    "E306 g 'g' returns a value on some paths only": """    def g(q):
        if q.sum() > 0:
            return q
    return x * g(x)""",
    "E205 k 'k' is used before it is assigned in this function": """    g = lambda q: q * k
    y = g(x)
    k = 2.0
    return y""",
    "E205 t 't' is used before it is assigned in this function": """    t = 2.0
    def g(q):
        q = q * t
        t = 3.0
        return q
    return g(x)""",
    "E201 inside undefined name 'inside'": """    def g(q):
        inside = q * 2
        return inside
    return g(x) + inside""",
    "E403 g 'g' is a function defined inside a branch or a loop": """    if x.sum() > 0:
        g = lambda q: q
    else:
        g = lambda q: q * 2
    return g(x)""",
    "E205 g 'g' may be undefined here": """    g = lambda q: q
    for i in range(3):
        x = g(x)
        g = lambda q: q * 2
    return x""",
    "E304 s 's' is a slice, by the branch taken": """    s = slice(0, 1)
    if x.sum() > 0:
        s = slice(0, 2)
    return x[s]""",
    "E202 foo a Tensor has no method 'foo'": "    g = lambda q: q.foo()\n    return g(x) + g(x * 2)",
}


@pytest.mark.parametrize("told", REFUSED)
def test_refused_by_name(told: str) -> None:
    with pytest.raises(gs.CompileError) as caught:
        gs.CompilationUnit(f"def f(x):\n{REFUSED[told]}\n")
    (found,) = caught.value.diagnostics
    assert f"{found.code} {found.span.text} {found.message}".startswith(told.removesuffix(" 2"))


def _chain(count: int, value: str) -> str:
    functions = "".join(f"    def g{i}(q):\n        return {value.format(f'g{i - 1}')}\n" for i in range(1, count))
    return f"def f(x):\n    def g0(q):\n        return q * 2\n{functions}    return g{count - 1}(x)\n"


def test_calls_inside_each_other_go_as_deep_as_the_source() -> None:
    count = MAX_WRITTEN // 4
    assert gs.CompilationUnit(_chain(count, "{}(q)")).f(1.0) == 2.0
    with pytest.raises(gs.CompileError, match="write out more than") as caught:
        gs.CompilationUnit(_chain(30, "{0}(q) + {0}(q)"))
    assert caught.value.code == "E004"


def test_a_function_is_shown_where_it_is_called() -> None:
    source = "def f(x):\n    k = 2.0\n    g = lambda q, s=3.0: q * s * k\n    k = 5.0\n    return g(x) + g(x, k)\n"
    expected = "def f(x: Tensor) -> Tensor:\n    return x * 3.0 * 5.0 + x * 5.0 * 5.0\n"
    assert gs.CompilationUnit(source).code == expected
