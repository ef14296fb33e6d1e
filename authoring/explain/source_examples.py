"""Programs that the language or the compiler refuses, and right ones beside them."""

from __future__ import annotations

from .example import Example

_DEEP = 120

SOURCE_EXAMPLES: dict[str, Example] = {
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
    by = {"scale": 2.0}
    return x * by["scale"]
""",
        """\
def f(x):
    scale = 2.0
    return x * scale
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
}
"""By code."""
