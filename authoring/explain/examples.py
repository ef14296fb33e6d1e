"""Programs that are wrong in the way of each code, and right ones beside them. Tests hold both to it."""

from __future__ import annotations

from ...lang.light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Example:
    """A wrong program and a right one.

    `seen` says what shows the code: compiling the source ("source"), taking the gradient of f ("gradient"), taking it
    with a budget of 1 byte ("budget"), making an op of torch of f ("torch_op"), exporting it ("export"), reading the
    text as IR ("ir"), or `gradscript lint` ("lint").
    """

    wrong: str
    right: str
    seen: str = "source"


_DEEP = 120

EXAMPLES: dict[str, Example] = {
    "E001": Example(
        """\
def f(x):
    return x ? 1
""",
        """\
def f(x):
    return x + 1
""",
    ),
    "E002": Example(
        """\
def f(x):
    y = x
      return y
""",
        """\
def f(x):
    y = x
    return y
""",
    ),
    "E003": Example(
        """\
def f(x):
    return (x + 1
""",
        """\
def f(x):
    return (x + 1)
""",
    ),
    "E004": Example(
        "def f(x):\n"
        + "".join(f"{'    ' * i}if x.sum() > {i}:\n" for i in range(1, _DEEP))
        + f"{'    ' * _DEEP}x = x * 2\n    return x\n",
        "def f(x, n: int):\n    for i in range(n):\n        if x.sum() > i:\n            x = x * 2\n    return x\n",
    ),
    "E005": Example(
        """\
def f(x):
    return x * 0777
""",
        """\
def f(x):
    return x * 0o777
""",
    ),
    "E101": Example(
        """\
def f(x)
    return x
""",
        """\
def f(x):
    return x
""",
    ),
    "E102": Example(
        """\
def f(x):
    g = lambda y: y * 2
    return g(x)
""",
        """\
def double(y):
    return y * 2


def f(x):
    return double(x)
""",
    ),
    "E103": Example(
        """\
def f(x):
    x + 1 = x
    return x
""",
        """\
def f(x):
    x = x + 1
    return x
""",
    ),
    "E104": Example(
        """\
def f(x):
    break
    return x
""",
        """\
def f(x, n: int):
    for i in range(n):
        if i > 2:
            break
    return x
""",
    ),
    "E105": Example(
        """\
def f(x):
    return x


def f(x):
    return x * 2
""",
        """\
def f(x):
    return x


def g(x):
    return x * 2
""",
    ),
    "E201": Example(
        """\
def f(x):
    return x * scale
""",
        """\
def f(x, scale: float):
    return x * scale
""",
    ),
    "E202": Example(
        """\
def f(x):
    return torch.sigmoyd(x)
""",
        """\
def f(x):
    return torch.sigmoid(x)
""",
    ),
    "E203": Example(
        """\
def f(x):
    return torch.add(x, "1")
""",
        """\
def f(x):
    return torch.add(x, 1)
""",
    ),
    "E204": Example(
        """\
def scaled(x, factor: float):
    return x * factor


def f(x):
    return scaled(x)
""",
        """\
def scaled(x, factor: float):
    return x * factor


def f(x):
    return scaled(x, 2.0)
""",
    ),
    "E205": Example(
        """\
def f(x):
    if x.sum() > 0:
        y = x
    return y
""",
        """\
def f(x):
    y = -x
    if x.sum() > 0:
        y = x
    return y
""",
    ),
    "E301": Example(
        """\
def f(x):
    n: int = 0.5
    return x * n
""",
        """\
def f(x):
    n: float = 0.5
    return x * n
""",
    ),
    "E302": Example(
        """\
def f(x, scale: double):
    return x * scale
""",
        """\
def f(x, scale: float):
    return x * scale
""",
    ),
    "E303": Example(
        """\
def f(x, weight: Optional[Tensor] = None):
    return x * weight
""",
        """\
def f(x, weight: Optional[Tensor] = None):
    if weight is None:
        return x
    return x * weight
""",
    ),
    "E304": Example(
        """\
def f(x, flag: bool):
    if flag:
        y = x
    else:
        y = 1
    return y
""",
        """\
def f(x, flag: bool):
    if flag:
        y = x
    else:
        y = torch.ones_like(x)
    return y
""",
    ),
    "E305": Example(
        """\
def f(x):
    t = (x, 1)
    t[1] = 2
    return x * t[1]
""",
        """\
def f(x):
    t = (x, 2)
    return x * t[1]
""",
    ),
    "E306": Example(
        """\
def f(x):
    if x.sum() > 0:
        return x
""",
        """\
def f(x):
    if x.sum() > 0:
        return x
    return -x
""",
    ),
    "E401": Example(
        """\
def f(x):
    def backward(g):
        return g * 2

    y = backward(x)
    return y, backward
""",
        """\
def doubled(g):
    return g * 2


def f(x):
    def backward(g):
        return doubled(g)

    return doubled(x), backward
""",
    ),
    "E402": Example(
        """\
def f(x):
    def backward(g):
        return g * 2

    return x * 2
""",
        """\
def f(x):
    def backward(g):
        return g * 2

    return x * 2, backward
""",
    ),
    "E403": Example(
        """\
def f(x, flag: bool):
    if flag:

        def backward(g):
            return g * 2, None

    return x * 2, backward
""",
        """\
def f(x, flag: bool):
    factor = 2 if flag else 1

    def backward(g):
        return g * factor, None

    return x * factor, backward
""",
    ),
    "E404": Example(
        """\
def f(x):
    def backward(g):
        return backward(g)

    return x, backward
""",
        """\
def f(x):
    def backward(g):
        return g

    return x, backward
""",
    ),
    "E405": Example(
        """\
def f(x, factor: float):
    def backward(g):
        return g * factor

    return x * factor, backward
""",
        """\
def f(x, factor: float):
    def backward(g):
        return g * factor, None

    return x * factor, backward
""",
    ),
    "E406": Example(
        """\
def f(x):
    def backward(g, h):
        return g * 2

    return x * 2, backward
""",
        """\
def f(x):
    def backward(g):
        return g * 2

    return x * 2, backward
""",
    ),
    "E407": Example(
        """\
def f(x):
    return f(x - 1)
""",
        """\
def f(x):
    while x.sum() > 0:
        x = x - 1
    return x
""",
    ),
    "E408": Example(
        """\
def f(x):
    return torch.special.zeta(x, 2.0).sum()
""",
        """\
def f(x):
    return torch.special.zeta(x.detach(), 2.0).sum() + x.sum()
""",
        "gradient",
    ),
    "E409": Example(
        """\
def f(x):
    return torch.ones([2]).sum()
""",
        """\
def f(x):
    return (x * 2).sum()
""",
        "gradient",
    ),
    "E410": Example(
        """\
def f(x, w):
    h = gs.save(torch.tanh(x @ w))
    return (torch.tanh(h @ w) ** 2).sum()
""",
        """\
def f(x, w):
    return (x * w).sum().detach() + x.sum()
""",
        "budget",
    ),
    "E411": Example(
        """\
def f(x: Tuple[Tensor, Tensor]):
    return x[0]
""",
        """\
def f(x, y):
    return x + y
""",
        "torch_op",
    ),
    "E412": Example(
        """\
def f(x):
    if float(x.sum()) > 0:
        return x * 2
    return x
""",
        """\
def f(x):
    return torch.where(x.sum() > 0, x * 2, x)
""",
        "export",
    ),
    "E501": Example(
        """\
graph f(%x : Tensor):
  %y : Tensor = aten::neg(%x
  return (%y)
""",
        """\
graph f(%x : Tensor):
  %y : Tensor = aten::neg(%x)
  return (%y)
""",
        "ir",
    ),
    "E502": Example(
        """\
graph f(%x : Tensor):
  %y : Tensor = aten::neg(%z)
  return (%y)
""",
        """\
graph f(%x : Tensor):
  %y : Tensor = aten::neg(%x)
  return (%y)
""",
        "ir",
    ),
    "E503": Example(
        """\
graph f(%x : Tensor):
  %y : Tensor = aten::negg(%x)
  return (%y)
""",
        """\
graph f(%x : Tensor):
  %y : Tensor = aten::neg(%x)
  return (%y)
""",
        "ir",
    ),
    "E504": Example(
        """\
graph f(%x : Tensor):
  %y : Tensor = prim::TupleConstruct(%x)
  return (%y)
""",
        """\
graph f(%x : Tensor):
  %y : Tuple[Tensor] = prim::TupleConstruct(%x)
  return (%y)
""",
        "ir",
    ),
    "L101": Example(
        """\
def f(x):
    y = x * 2
    return x
""",
        """\
def f(x):
    y = x * 2
    return y
""",
        "lint",
    ),
    "L102": Example(
        """\
def f(x, y):
    return x * 2
""",
        """\
def f(x, y):
    return x * y
""",
        "lint",
    ),
    "L103": Example(
        """\
def f(x):
    x * 2
    return x
""",
        """\
def f(x):
    x = x * 2
    return x
""",
        "lint",
    ),
    "L104": Example(
        """\
def f(x):
    y = x * 2
""",
        """\
def f(x):
    return x * 2
""",
        "lint",
    ),
    "L206": Example(
        """\
def f(x):
    return x * torch.ones([3])
""",
        """\
def f(x):
    return x * torch.ones([3], dtype=x.dtype)
""",
        "lint",
    ),
    "L402": Example(
        """\
def f(x, y):
    def backward(g):
        return g * y, None

    return x * y, backward
""",
        """\
def f(x, y):
    y = gs.constant(y)

    def backward(g):
        return g * y, None

    return x * y, backward
""",
        "lint",
    ),
    "L501": Example(
        """\
def f(x):
    wide = torch.cat([x, x])

    def backward(g):
        return g.expand(wide.size()).split(x.size(0))[0] * 2

    return wide.sum(), backward
""",
        """\
def f(x):
    wide = torch.cat([x, x])
    wide_size = wide.size()

    def backward(g):
        return g.expand(wide_size).split(x.size(0))[0] * 2

    return wide.sum(), backward
""",
        "lint",
    ),
    "L502": Example(
        """\
def f(x):
    doubled = x * 2

    def backward(g):
        return g * torch.cos(x) + g * doubled

    return torch.sin(x) + doubled * x / 2, backward
""",
        """\
def f(x):
    def backward(g):
        return g * torch.cos(x) + g * x * 2

    return torch.sin(x) + x * x, backward
""",
        "lint",
    ),
    "L503": Example(
        """\
def f(x):
    growth = torch.exp(x)
    slope = torch.exp(x)

    def backward(g):
        return g * (growth + x * slope)

    return x * growth, backward
""",
        """\
def f(x):
    growth = torch.exp(x)

    def backward(g):
        return g * (growth + x * growth)

    return x * growth, backward
""",
        "lint",
    ),
    "L201": Example(
        """\
def f(x):
    return torch.log(1 + x)
""",
        """\
def f(x):
    return torch.log1p(x)
""",
        "lint",
    ),
    "L202": Example(
        """\
def f(x):
    return torch.exp(x) - 1
""",
        """\
def f(x):
    return torch.expm1(x)
""",
        "lint",
    ),
    "L203": Example(
        """\
def f(x):
    return 1 - torch.cos(x)
""",
        """\
def f(x):
    return 2 * torch.sin(x / 2) ** 2
""",
        "lint",
    ),
    "L204": Example(
        """\
def f(x):
    return torch.log(torch.softmax(x, -1))
""",
        """\
def f(x):
    return torch.log_softmax(x, -1)
""",
        "lint",
    ),
    "L205": Example(
        """\
def f(x):
    return torch.sqrt(x * x)
""",
        """\
def f(x):
    return torch.abs(x)
""",
        "lint",
    ),
    "L207": Example(
        """\
def f(x):
    return torch.log(torch.exp(x).sum(-1)), torch.log(1 + torch.exp(x))
""",
        """\
def f(x):
    return torch.logsumexp(x, -1), F.softplus(x)
""",
        "lint",
    ),
    "L301": Example(
        """\
def f(x):
    return torch.where(x > 0, torch.log(x), 0)
""",
        """\
def f(x):
    positive = torch.where(x > 0, x, 1)
    return torch.where(x > 0, torch.log(positive), 0)
""",
        "lint",
    ),
    "L401": Example(
        """\
def f(x, y):
    def backward(grad_sum, grad_product):
        return grad_sum, grad_sum

    return x + y, x * y, backward
""",
        """\
def f(x, y):
    def backward(grad_sum, grad_product):
        return grad_sum + grad_product * y, grad_sum + grad_product * x

    return x + y, x * y, backward
""",
        "lint",
    ),
}
"""By code."""
