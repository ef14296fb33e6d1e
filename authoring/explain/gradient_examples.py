"""Programs whose gradients are refused, and what else may be said of graphs, with right ones beside them."""

from __future__ import annotations

from .example import Example

GRADIENT_EXAMPLES: dict[str, Example] = {
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
def f(x, scale: float):
    def scaled(a):
        def backward(g):
            return g * scale

        return a * scale, backward

    return scaled(x)
""",
        """\
def scaled(a, scale: float):
    def backward(g):
        return g * scale, None

    return a * scale, backward


def f(x, scale: float):
    return scaled(x, scale)
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
}
"""By code."""
