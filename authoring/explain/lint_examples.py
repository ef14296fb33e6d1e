"""Programs that compile, of which `gradscript lint` has something to say, and better ones beside them."""

from __future__ import annotations

from .example import Example

LINT_EXAMPLES: dict[str, Example] = {
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
