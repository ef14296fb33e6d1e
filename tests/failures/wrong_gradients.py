"""Programs from a seed whose backward has something wrong with it, and what torch makes of the same text."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

GOOD = (
    "grad * y",
    "grad * x * y",
    "(grad * k)",
    "grad.sum() * y",
    "torch.where(x > 1, grad, 0.0)",
    "grad * m",
    "grad / y",
)
WRONG = (
    *(
        "(grad * y)[0]",
        "grad.sum(0)",
        "grad.sum()",
        "(grad * y).t()",
        "grad.view(-1)",
        "grad[:, :2]",
        "grad.view(3, 2)",
    ),
    *("grad.unsqueeze(0)", "torch.cat([grad, grad])", "grad @ y", "grad.expand(2, 2, 3)", "grad[None, None]"),
    *("None", "1", "1.0", "x.size(0)", "[grad]", "(grad, grad)", '"grad"', "True", "x.size()", "[]", "grad > 0"),
    *(
        "(grad * 3).long()",
        "grad.to(torch.float32)",
        "grad.half()",
        "grad.bool()",
        "torch.zeros([])",
        "torch.ones([2, 1])",
    ),
    *("undefined", "grad.undefined()", "torch.undefined(grad)", "backward", "f", "grad(x)", "grad.x", "late", "maybe"),
    *("grad * xs[5]", "grad * xs[1]", "x.size(7) * grad", "grad / (x.size(0) - 2)", "1 // (x.size(0) - 2) * grad"),
    *(
        "float(y) * grad",
        "int(grad) * y",
        "grad.item() * x",
        "grad * torch.ones([5])",
        "x[:, 4] * grad",
        "math.log(-1.0) * grad",
    ),
    *(
        "torch.stack([]) * grad",
        "grad.sum(5)",
        "grad.add_(1)",
        "x.mul_(2)",
        "m.mul_(grad)",
        "grad.zero_()",
        "xs.pop() * grad",
    ),
)
"""What an expression may be; some are right after all, and torch tells."""
BEFORE = (
    "",
    "grad = grad * 2",
    "grad += 1",
    "grad[0] = 0.0",
    "x[0] = 1.0",
    "m += 1",
    "xs.append(grad)",
    "assert x.size(0) == 3",
    'raise ValueError("none")',
    "if x.size(0) == 2:\n            return grad, grad, None",
    "if x.size(0) == 3:\n            return grad",
    "if bool(x.sum() > 0):\n            maybe = grad",
    "for i in range(3):\n            grad = grad[:, :2] * i",
    "def inner(g):\n            return g",
    "def inner(g, h, i):\n            return g * 2",
    "while True:\n            return grad, grad * x, None",
    "return",
    "pass",
    "del x",
    "print(grad.size(0))",
    "global k",
    "nonlocal k",
    "k = k + 1",
    "yield grad",
)
HEADS = (
    "grad",
    "grad",
    "grad",
    "grad",
    "grad: Tensor",
    "grad, other",
    "",
    "*grad",
    "grad=None",
    "grad: List[Tensor]",
    "grad: int",
)
RETURNS = ("x * y * k, backward",) * 9 + (
    "x * y * k",
    "backward",
    "(x * y * k, backward, 1)",
    "backward, x * y",
    "x * y, x, backward",
    "(x * y, backward) if k > 2 else (x, backward)",
    "x * y, backward(x)",
    "[x * y], backward",
    "x.size(0), backward",
)


@dataclass(frozen=True)
class WrongGradient:
    source: str
    args: tuple[Any, ...]


def wrong_gradient(seed: int) -> WrongGradient:
    """A function of two tensors, a list of tensors and a number whose backward has one thing or another wrong."""
    rng = random.Random(seed)
    fault = rng.choices(("part", "line", "head", "result", "count", "nested"), (12, 4, 1, 1, 1, 3))[0]
    parts = [rng.choice(GOOD), rng.choice(GOOD), rng.choice(("[grad for t in xs]", "None", "[grad]")), "None"]
    if fault == "part" or rng.random() < 0.2:
        parts[rng.choice((0, 0, 1, 1, 2))] = rng.choice(WRONG)
    if fault == "count":
        parts = (parts * 2)[: rng.choice((0, 1, 2, 3, 5))]
    line = rng.choice(BEFORE) if fault == "line" else ""
    body = f"        {line}\n" if line else ""
    late = rng.random() < 0.2
    inner = ""
    if fault == "nested":
        more = rng.choice(("", "", f", {rng.choice(WRONG)}, None, None, None"))
        inner = f"        def backward(a, b, c):\n            return {rng.choice((GOOD[0], rng.choice(WRONG)))}{more}\n"
        parts = [*parts[:2], "[grad for t in xs]", "None", "backward"]
    head = rng.choice(HEADS) if fault == "head" else "grad"
    result = rng.choice(RETURNS) if fault == "result" else RETURNS[0]
    source = (
        "def f(x, y, xs: List[Tensor], k: float):\n    m = torch.tanh(x)\n"
        "    if k > 100.0:\n        maybe = x\n"
        f"    def backward({head}):\n{body}{inner}        return {', '.join(parts)}\n"
        f"{'    late = x * 2' if late else ''}\n"
        f"    return {result}\n"
        "\ndef loss(x, y, xs: List[Tensor], k: float):\n    return f(x, y, xs, k).sum()\n"
    )
    x, y = np.arange(6.0).reshape(2, 3) + 0.5, np.arange(6.0).reshape(2, 3) / 3 + 0.25
    return WrongGradient(source, (x, y, [x * 2, y * 3], 1.5))


def in_torch(program: WrongGradient) -> list[Any] | None:
    """The gradients of the sum as torch's engine takes them from the backward of the text; None where it refuses."""
    names: dict[str, Any] = {"torch": torch, "List": list, "Tensor": torch.Tensor, "math": __import__("math")}
    try:
        exec(program.source, names)
        x, y, xs, k = program.args
        tensors = [torch.tensor(x), torch.tensor(y), [torch.tensor(t) for t in xs], k]
        value, backward = names["f"](*tensors)
        found = backward(torch.ones_like(value))
        found = found if isinstance(found, tuple) else (found,)
        if callable(found[-1]):
            found = found[:-1]
        if len(found) != 4 or found[3] is not None or (found[2] is not None and len(found[2]) != 2):
            return None
        wanted = [tensors[0], tensors[1], *tensors[2]]
        given = [found[0], found[1], *(found[2] or (None, None))]
        return [_accepted(gradient, primal) for gradient, primal in zip(given, wanted, strict=True)]
    except Exception:
        return None


def _accepted(gradient: Any, primal: Any) -> Any:
    if gradient is None:
        return torch.zeros_like(primal).numpy()
    if not isinstance(gradient, torch.Tensor):
        raise TypeError
    return gradient.sum_to_size(primal.shape).to(primal.dtype).numpy()
