"""Programs that fail, one for each kind of failure: on what they fail, at which line, and what the message must tell.

The line that fails is marked `# here`; where several may be told, each is. `f` is what is called.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

FORWARD, BACKWARD, SECOND = "forward", "backward", "second"
"""What fails: every road, those that take a gradient, those that take one of a gradient."""
MARK = "# here"


@dataclass(frozen=True)
class Failing:
    """`tells` are parts of the message or its notes."""

    name: str
    source: str
    args: tuple[Any, ...]
    when: str = FORWARD
    code: str = "R101"
    tells: tuple[str, ...] = ()
    by_elements: bool = False
    """Whether it fails by what only a run finds out, so that planning its kernels does not."""

    @property
    def lines(self) -> list[int]:
        return [i for i, line in enumerate(self.source.splitlines(), 1) if MARK in line]


X, Y = np.arange(6.0).reshape(2, 3) + 1, np.arange(6.0).reshape(2, 3) / 4 + 1
W, V = np.arange(12.0).reshape(3, 4) / 8, np.arange(4.0)
S = np.array([[1.0, 0.5], [0.25, 2.0]])


def _forward(name: str, body: str, *args: Any, tells: str = "", code: str = "R101", helpers: str = "") -> Failing:
    """A function of `x` and whatever else its arguments are called in `body`'s first line."""
    return Failing(name, f"{helpers}{body}", args, FORWARD, code, tuple(filter(None, tells.split("|"))))


def _backward(name: str, body: str, *args: Any, tells: str = "", code: str = "R101", when: str = BACKWARD) -> Failing:
    return Failing(name, body, args, when, code, tuple(filter(None, tells.split("|"))))


def _one_line(name: str, signature: str, expression: str, *args: Any, tells: str = "") -> Failing:
    return _forward(name, f"def f({signature}):\n    return ({expression}) * x.sum()  {MARK}\n", *args, tells=tells)


EXPRESSIONS = (
    _one_line("matmul", "x, w", "x @ w", X, V, tells="[2, 3]|[4]"),
    _one_line("add", "x, y", "x + y", X, V, tells="[2, 3]|[4]"),
    _one_line("where", "x, y", "torch.where(x > 0, x, y)", X, V, tells="[2, 3]|[4]"),
    _one_line("view", "x, n: int", "x.view(n, -1)", X, 5, tells="[2, 3]"),
    _one_line("reshape", "x, n: int", "x.reshape(n, n)", X, 5, tells="[2, 3]"),
    _one_line("expand", "x, n: int", "x.expand(n, n)", X, 5, tells="[2, 3]"),
    _one_line("cat", "x, y", "torch.cat([x, y], 0)", X, W, tells="[2, 3]|[3, 4]"),
    _one_line("stack", "x, y", "torch.stack([x, y])", X, W, tells="[2, 3]|[3, 4]"),
    _one_line("select", "x, n: int", "x[n]", X, 5, tells="5|[2, 3]"),
    _one_line("index", "x, i", "x[i]", X, np.array([0, 7]), tells="7|[2, 3]"),
    _one_line("index_select", "x, i", "torch.index_select(x, 0, i)", X, np.array([0, 7]), tells="7|[2, 3]"),
    _one_line("gather", "x, i", "torch.gather(x, 1, i)", X, np.array([[0, 9]]), tells="9"),
    _one_line("dim", "x, n: int", "x.sum(n)", X, 4, tells="4|[2, 3]"),
    _one_line("transpose", "x, n: int", "x.transpose(0, n)", X, 4, tells="4|[2, 3]"),
    _one_line("permute", "x, n: int", "x.permute(0, n)", X, 0, tells="[2, 3]"),
    _one_line("einsum", "x, y", 'torch.einsum("ij,jk->ik", x, y)', X, Y, tells="[2, 3]"),
    _one_line("cross_entropy", "x, t", "F.cross_entropy(x, t)", X, np.array([0, 1, 2])),
    _one_line("layer_norm", "x, w", "F.layer_norm(x, (4,), w)", X, V, tells="[2, 3]"),
    _one_line("linear", "x, w", "F.linear(x, w)", X, S, tells="[2, 3]|[2, 2]"),
    _one_line("conv", "x, w", "F.conv1d(x[None], w[None, None])", X, V),
    _one_line("inverse", "x, s", "torch.linalg.inv(s)", X, X, tells="[2, 3]"),
    _one_line("chunk", "x, n: int", "torch.chunk(x, n)[0]", X, 0, tells="0"),
    _one_line("split", "x, n: int", "torch.split(x, [n, n])[0]", X, 4, tells="4"),
    _one_line("pieces", "x, n: int", "torch.split(x, 1)[n]", X, 4),
    _one_line("stack of nothing", "x, xs: List[Tensor]", "torch.stack(xs)", X, []),
    _one_line("item of many", "x, y", "float(y)", X, Y, tells="[2, 3]"),
    _one_line("number of a tensor", "x, y", "y.item()", X, Y, tells="[2, 3]"),
    _one_line("condition", "x, y", "(1.0 if y > 0 else 2.0)", X, Y, tells="[2, 3]"),
    _one_line("floor of zero", "x, n: int", "(1 // n)", X, 0),
    _one_line("rest by zero", "x, n: int", "(1 % n)", X, 0),
    _one_line("division by zero", "x, n: int", "(1 / n)", X, 0),
    _one_line("divmod by zero", "x, n: int", "divmod(7, n)[0]", X, 0),
    _one_line("negative power", "x, n: int", "(2 ** n)", X, -1),
    _one_line("shift", "x, n: int", "(1 << n)", X, -1),
    _one_line("element", "x, xs: List[int], i: int", "xs[i]", X, [1, 2], 2),
    _one_line("tensor element", "x, xs: List[Tensor], i: int", "xs[i].sum()", X, [X, X], 2),
    _one_line("largest of nothing", "x, xs: List[int]", "max(xs)", X, []),
    _one_line("position", "x, xs: List[int], i: int", "xs.index(i)", X, [1, 2], 5),
    _one_line("letter", "x, s: str, i: int", "float(s[i] == 'a')", X, "abc", 7),
    _one_line("word", "x, s: str", "int(s)", X, "abc"),
    _one_line("logarithm", "x, a: float", "math.log(a)", X, -1.0),
    _one_line("square root", "x, a: float", "math.sqrt(a)", X, -1.0),
    _one_line("whole number", "x, a: float", "int(a)", X, float("inf")),
    _one_line("range", "x, n: int", "len(list(range(0, 5, n)))", X, 0),
    _one_line("arange", "x, n: int", "torch.arange(0, 5, n)", X, 0),
    _one_line("sizes", "x, n: int", "torch.ones([n])", X, -1),
    _one_line("size", "x, n: int", "x.size(n)", X, 4),
    _one_line("full", "x, n: int", "torch.zeros([n, n]).reshape(n)", X, 3),
    _one_line("broadcast sizes", "x, y", "x.expand_as(y)", X, V, tells="[2, 3]"),
    _one_line("unflatten", "x, n: int", "x.unflatten(1, (n, n))", X, 2),
    _one_line("masked", "x, m", "x[m]", X, np.ones(4, bool), tells="[2, 3]"),
    _one_line("scatter", "x, i", "x.scatter(1, i, 1.0)", X, np.array([[8]]), tells="8"),
    _one_line("unfold", "x, n: int", "x.unfold(1, n, 1)", X, 9),
    _one_line("pad", "x, n: int", 'F.pad(x, (n, n), "reflect")', X, 9),
    _one_line("pool", "x, n: int", "F.max_pool1d(x, n)", X, 9),
    _one_line("one_hot", "x, i, n: int", "F.one_hot(i, n).to(torch.float64)", X, np.array([5]), 2),
    _one_line("embedding", "x, i, w", "F.embedding(i, w)", X, np.array([9]), W),
)
STATEMENTS = (
    _forward(
        "raise in a branch",
        f'def f(x):\n    if x.size(0) == 2:\n        raise ValueError(f"got {{x.size(0)}} rows")  '
        f"{MARK}\n    return x * 2\n",
        X,
        code="R102",
        tells="ValueError: got 2 rows",
    ),
    _forward(
        "raise by elements",
        f'def f(x):\n    if x.sum() > 0:\n        raise RuntimeError("positive")  {MARK}\n    return x * 2\n',
        X,
        code="R102",
        tells="RuntimeError: positive",
    ),
    _forward(
        "assert",
        f"def f(x):\n    assert x.size(0) == 3  {MARK}\n    return x * 2\n",
        X,
        code="R102",
        tells="AssertionError",
    ),
    _forward(
        "assert with a text",
        f'def f(x):\n    assert x.dim() > 2, "too few dimensions"  {MARK}\n    return x * 2\n',
        X,
        code="R102",
        tells="AssertionError: too few dimensions",
    ),
    _forward(
        "unpack",
        f"def f(x, xs: List[Tensor]):\n    a, b = xs  {MARK}\n    return a * b * x\n",
        X,
        [X, X, X],
        tells="2|3",
    ),
    _forward("unpack a size", f"def f(x):\n    a, b, c = x.size()  {MARK}\n    return x * a\n", X, tells="3|2"),
    _forward("pop", f"def f(x):\n    l = [x]\n    l.pop()\n    return l.pop() * 2  {MARK}\n", X),
    _forward(
        "write", f"def f(x, y):\n    z = x.clone()\n    z += y  {MARK}\n    return z\n", X, W, tells="[2, 3]|[3, 4]"
    ),
    _forward(
        "write that widens",
        f"def f(x, y):\n    z = x.clone()\n    z.add_(y)  {MARK}\n    return z\n",
        X,
        np.ones((4, 2, 3)),
        tells="[2, 3]|[4, 2, 3]",
    ),
    _forward(
        "write of part", f"def f(x, y):\n    z = x.clone()\n    z[0] = y  {MARK}\n    return z\n", X, W, tells="[3, 4]"
    ),
    _forward("copy", f"def f(x, y):\n    z = x.clone()\n    z.copy_(y)  {MARK}\n    return z\n", X, W, tells="[3, 4]"),
    _forward(
        "third round",
        f"def f(x, w):\n    for i in range(4):\n        x = x @ w[: 5 - i]  {MARK}\n    return x\n",
        np.ones((2, 5)),
        np.ones((5, 5)),
        tells="[2, 5]",
    ),
    _forward(
        "growing",
        f"def f(x, n: int):\n    for i in range(n):\n        x = torch.cat([x, x], 0)\n        "
        f"x = x + x.view(24, -1)[0].sum() if i == 2 else x  {MARK}\n    return x\n",
        np.ones((2, 5)),
        4,
    ),
    _forward(
        "while",
        f"def f(x, n: int):\n    while n > -3:\n        n -= 1\n        x = x * (6 // n)  {MARK}\n    return x\n",
        X,
        3,
    ),
    _forward(
        "element in a loop",
        f"def f(x, xs: List[Tensor], n: int):\n    for i in range(n):\n        x = x * xs[i]  {MARK}\n    return x\n",
        X,
        [X, X],
        3,
    ),
    _forward(
        "comprehension",
        f"def f(x, xs: List[Tensor]):\n    ys = [x @ y for y in xs]  {MARK}\n    return ys[0]\n",
        X,
        [W, X],
        tells="[2, 3]",
    ),
    _forward(
        "helper",
        "def f(x, w):\n    return g(x, w) * 2\n",
        X,
        V,
        tells="[2, 3]|[4]|f",
        helpers=f"def g(a, b):\n    return a @ b  {MARK}\n\n",
    ),
    _forward(
        "helper of a helper",
        "def f(x, w):\n    return h(x, w) * 2\n",
        X,
        V,
        tells="[2, 3]|[4]",
        helpers=f"def g(a, b):\n    return a @ b  {MARK}\n\ndef h(x, w):\n    return g(x * 2, w)\n\n",
    ),
    _forward(
        "pair",
        f"def f(x, w):\n    def backward(g):\n        return g @ w.t(), x.t() @ g\n    return x @ w, backward  "
        f"{MARK}\n",
        X,
        V,
        tells="[2, 3]|[4]",
    ),
    _forward(
        "helper with a pair",
        "def f(x, w):\n    return g(x, w) * 2\n",
        X,
        V,
        tells="[2, 3]|[4]",
        helpers="def g(a, b):\n    def backward(g):\n        return g @ b.t(), a.t() @ g\n    "
        f"return a @ b, backward  {MARK}\n\n",
    ),
    _forward(
        "assert in a pair",
        f'def f(x):\n    assert x.size(0) == 3, "three rows"  {MARK}\n    def backward(g):\n        '
        "return g\n    return x.clone(), backward\n",
        X,
        code="R102",
        tells="AssertionError: three rows",
    ),
    _forward(
        "optional",
        f'def f(x, b: Optional[Tensor] = None):\n    assert b is not None, "b is needed"  {MARK}\n    return x * b\n',
        X,
        code="R102",
        tells="b is needed",
    ),
    _forward("memory", f"def f(x, n: int):\n    return x.sum() * torch.ones([n, n])  {MARK}\n", X, 2**24, code="R103"),
)


def _pair(returned: str, line: str = "", forward: str = "x * y") -> str:
    """A function of x and y and its backward, of which a line fails."""
    before = f"        {line}  {MARK}\n" if line else ""
    mark = "" if line else f"  {MARK}"
    backward = f"    def backward(grad):\n{before}        return {returned}{mark}\n"
    return f"def f(x, y):\n{backward}    return {forward}, backward\n"


LISTED = """def f(xs: List[Tensor], y):
    def backward(grad):
        return {}, grad * xs[0]{}
    return xs[0] * y + xs[1], backward
"""
BACKWARDS = (
    _backward("row", _pair("(grad * y)[0], grad * x"), X, Y, tells="'x'|[3]|[2, 3]"),
    _backward("column", _pair("grad * y, (grad * x)[:, 0]"), X, Y, tells="'y'|[2]|[2, 3]"),
    _backward("number", _pair("grad * y, (grad * x).sum()"), X, Y, tells="'y'|[]|[2, 3]"),
    _backward("transposed", _pair("(grad * y).t(), grad * x"), X, Y, tells="'x'|[3, 2]|[2, 3]"),
    _backward("misfit", _pair("grad @ y, grad * x"), X, Y, tells="[2, 3]"),
    _backward("sum to size", _pair("grad * y, (grad * x).sum_to_size(y.size(0), 7)"), X, Y, tells="7|[2, 3]"),
    _backward("view", _pair("grad.view(5, 5), grad * x"), X, Y, tells="[2, 3]"),
    _backward("select", _pair("grad * y[4], grad * x"), X, Y, tells="4|[2, 3]"),
    _backward(
        "raise",
        _pair("grad, grad", 'raise ValueError("no gradient yet")'),
        X,
        Y,
        code="R102",
        tells="ValueError: no gradient yet",
    ),
    _backward(
        "assert",
        _pair("grad, grad", 'assert grad.size(0) == 3, "three rows"'),
        X,
        Y,
        code="R102",
        tells="AssertionError: three rows",
    ),
    _backward("zero", _pair("grad * n, grad", "n = 1 // (x.size(0) - 2)"), X, Y),
    _backward("unpack", _pair("grad * c, grad", "a, b, c = x.size()"), X, Y, tells="3|2"),
    _backward("element", _pair("grad * n, grad", "n = [1, 2][x.size(1)]"), X, Y),
    _backward("pop", _pair("grad * n, grad", "n = [1 for i in range(x.size(0) - 2)].pop()"), X, Y),
    _backward("tensor as a number", _pair("grad * n, grad", "n = float(y)"), X, Y, tells="[2, 3]"),
    _backward(
        "loop",
        "def f(x, y):\n    def backward(grad):\n        h = grad\n        for i in range(3):\n            "
        f"h = h.view(6 - 2 * i, -1)  {MARK}\n        return grad * y, h.sum() * x\n    return x * y, backward\n",
        X,
        Y,
        tells="[6, 1]",
    ),
    _backward(
        "longer list",
        LISTED.format("[grad for i in range(3)]", f"  {MARK}"),
        [X, X],
        Y,
        code="R105",
        tells="'xs'|3 elements|2",
    ),
    _backward("shorter list", LISTED.format("[grad]", f"  {MARK}"), [X, X], Y, code="R105", tells="'xs'|1 element|2"),
    _backward(
        "element's shape",
        LISTED.format("[grad[0], grad]", f"  {MARK}"),
        [X, X],
        Y,
        code="R105",
        tells="'xs'|[3]|[2, 3]",
    ),
    _backward(
        "empty list",
        LISTED.format("[grad for i in range(0)]", f"  {MARK}"),
        [X, X],
        Y,
        code="R105",
        tells="'xs'|0 elements|2",
    ),
)
HELPED = """def g(a, b):
    def backward(grad):
        return {}{}
    return a * b, backward

"""
IN_HELPERS = tuple(
    _backward(f"{name}, {where}", HELPED.format(returned, f"  {MARK}") + calls, X, Y, tells=tells)
    for name, returned, tells in (
        ("row", "(grad * b)[0], grad * a", "'a'|[3]|[2, 3]|g"),
        ("misfit", "grad @ b, grad * a", "[2, 3]"),
    )
    for where, calls in (
        ("helper", "def f(x, y):\n    return g(x, y) + x\n"),
        ("loop", "def f(x, y):\n    for i in range(2):\n        x = g(x, y)\n    return x\n"),
        ("while", "def f(x, y):\n    while bool(x.sum() < 60):\n        x = g(x, y)\n    return x\n"),
        ("branch", "def f(x, y):\n    if bool(x.sum() > 0):\n        x = g(x, y)\n    return x\n"),
        ("helper of a helper", "def h(x, y):\n    return g(x + 1, y)\n\ndef f(x, y):\n    return h(x, y) + x\n"),
        ("list", "def f(x, y):\n    return torch.stack([g(r, s) for r, s in zip([x, x], [y, y])])\n"),
        (
            "backward",
            "def f(x, y):\n    def backward(grad):\n        return g(grad, y), grad * x\n    return x * y, backward\n",
        ),
    )
    if where != "backward"
)
TWICE = """def f(x, y):
    def backward(grad):
        def backward(gg_x, gg_y):
            {}
            return {}
        return grad * y, grad * x, backward
    return x * y, backward
"""


def _twice(name: str, line: str, returned: str, tells: str = "", code: str = "R101") -> Failing:
    line = f"{line}  {MARK}" if line else "pass\n            # of second order"
    mark = "" if MARK in line else f"  {MARK}"
    source = TWICE.format(line, returned + mark).replace("            pass\n", "")
    return _backward(name, source, X, Y, tells=tells, code=code, when=SECOND)


SECONDS = (
    _twice("row", "", "gg_x * y + gg_y * x, (gg_y * grad)[0], gg_x * grad", "'x'|[3]|[2, 3]"),
    _twice("misfit", "", "gg_x * y + gg_y * x, gg_y @ grad, gg_x * grad", "[2, 3]"),
    _twice("raise", 'raise ValueError("not twice")', "gg_x * y, grad, grad", "ValueError: not twice", "R102"),
    _twice("zero", "n = 1 // (x.size(0) - 2)", "gg_x * y, gg_y * grad * n, gg_x * grad"),
)
BY_ELEMENTS = frozenset(
    (
        *("index", "index_select", "gather", "inverse", "masked", "scatter", "one_hot", "embedding", "condition"),
        *("logarithm", "square root", "whole number", "raise by elements", "while", "memory", "einsum"),
    )
)
CASES: tuple[Failing, ...] = tuple(
    replace(case, by_elements=case.name.partition(", ")[2] in ("while", "branch") or case.name in BY_ELEMENTS)
    for case in (*EXPRESSIONS, *STATEMENTS, *BACKWARDS, *IN_HELPERS, *SECONDS)
)
