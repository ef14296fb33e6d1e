"""Right formulas of many kinds, which the check must find right: every alarm is a mistake of the check.

Three sources: functions of one number with slopes written by hand, set into frames that take every kind of argument;
forwards of many fields, with the backward that `gs.derive` writes; formulas whose backwards are written by hand. Run
as a script it checks them all:
`right_formulas.py --from=0 --count=400`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "support")]

import gradscript as gs  # noqa: E402
from gradscript.authoring.check import Checker  # noqa: E402
from gradscript.runtime.face.function import Function  # noqa: E402
from right_by_hand import BY_HAND  # noqa: E402
from right_by_hand_more import BY_HAND as BY_HAND_TOO  # noqa: E402
from right_forwards import FORWARDS  # noqa: E402

SLOPES = {
    "square": ("x * x", "2 * x"),
    "cube": ("x**3", "3 * x * x"),
    "exp": ("torch.exp(x)", "torch.exp(x)"),
    "sin": ("torch.sin(x)", "torch.cos(x)"),
    "cos": ("torch.cos(2 * x)", "-2 * torch.sin(2 * x)"),
    "tanh": ("torch.tanh(x)", "1 - torch.tanh(x) ** 2"),
    "sigmoid": ("torch.sigmoid(x)", "torch.sigmoid(x) * (1 - torch.sigmoid(x))"),
    "silu": ("x * torch.sigmoid(x)", "torch.sigmoid(x) * (1 + x * (1 - torch.sigmoid(x)))"),
    "softplus": ("torch.log1p(torch.exp(x))", "torch.sigmoid(x)"),
    "softsign": ("x / (1 + x.abs())", "1 / (1 + x.abs()) ** 2"),
    "relu": ("torch.relu(x)", "(x > 0).to(x.dtype)"),
    "leaky": ("torch.where(x > 0, x, 0.1 * x)", "torch.where(x > 0, 1.0, 0.1).to(x.dtype)"),
    "elu": ("torch.where(x > 0, x, torch.exp(x) - 1)", "torch.where(x > 0, 1.0, torch.exp(x))"),
    "clipped": ("x.clamp(-1.0, 1.0)", "((x >= -1) & (x <= 1)).to(x.dtype)"),
    "atan": ("torch.atan(x)", "1 / (1 + x * x)"),
    "bell": ("torch.exp(-x * x / 2)", "-x * torch.exp(-x * x / 2)"),
    "lorentz": ("1 / (1 + x * x)", "-2 * x / (1 + x * x) ** 2"),
    "logcosh": ("torch.log(torch.cosh(x))", "torch.tanh(x)"),
    "root": ("torch.sqrt(1 + x * x)", "x / torch.sqrt(1 + x * x)"),
    "erf": ("torch.erf(x)", "2 / math.pi**0.5 * torch.exp(-x * x)"),
    "gelu": (
        "x * 0.5 * (1 + torch.erf(x / 2**0.5))",
        "0.5 * (1 + torch.erf(x / 2**0.5)) + x * torch.exp(-x * x / 2) / (2 * math.pi) ** 0.5",
    ),
    "huber": ("torch.where(x.abs() < 1, x * x / 2, x.abs() - 0.5)", "x.clamp(-1.0, 1.0)"),
}
"""Functions of one number, each with its derivative."""

FRAMES = {
    "each": """
def {name}(x):
    def backward(grad_output):
        return grad_output * ({slope})
    return {value}, backward
""",
    "total": """
def {name}(x):
    def backward(grad_output):
        return grad_output * ({slope})
    return ({value}).sum(), backward
""",
    "means": """
def {name}(x):
    assert x.dim() > 0 and x.size(-1) > 0
    def backward(grad_output):
        return grad_output.unsqueeze(-1) * ({slope}) / x.size(-1)
    return ({value}).mean(-1), backward
""",
    "along": """
def {name}(x, dim: int = 0, keepdim: bool = False):
    def backward(grad_output):
        grad = grad_output if keepdim else grad_output.unsqueeze(dim)
        return grad * ({slope}), None, None
    assert x.dim() > 0
    return ({value}).sum(dim, keepdim), backward
""",
    "scaled": """
def {name}(x, scale, shift: float = 0.5):
    y = {value}
    def backward(grad_output):
        grad_x = (grad_output * scale * ({slope})).sum_to_size(x.size())
        return grad_x, (grad_output * y).sum_to_size(scale.size()), None
    return y * scale + shift, backward
""",
    "layer": """
def {name}(a, w, b: Optional[Tensor] = None):
    assert a.dim() == 2 and w.dim() == 2
    x = a @ w if b is None else a @ w + b
    def backward(grad_output):
        grad = grad_output * ({slope})
        grad_b = None
        if b is not None:
            grad_b = grad.sum_to_size(b.size())
        return grad @ w.t(), a.t() @ grad, grad_b
    return {value}, backward
""",
    "listed": """
def {name}(xs: List[Tensor], power: int = 1):
    total = torch.zeros_like(xs[0].sum())
    for x in xs:
        total = total + ({value}).sum()
    def backward(grad_output):
        grads: List[Tensor] = []
        for x in xs:
            grads.append(grad_output * power * ({slope}))
        return grads, None
    return total * power, backward
""",
    "reduced": """
def {name}(x, target, reduction: str = "mean"):
    assert x.size() == target.size() and x.numel() > 0
    difference = x - target
    assert reduction == "mean" or reduction == "sum" or reduction == "none"
    def backward(grad_output):
        slope = {slope_of_difference}
        if reduction == "mean":
            slope = slope / x.numel()
        return grad_output * slope, -grad_output * slope, None
    result = {value_of_difference}
    if reduction == "mean":
        result = result.mean()
    elif reduction == "sum":
        result = result.sum()
    return result, backward
""",
    "repeated": """
def {name}(x, rounds: int = 3):
    assert rounds >= 0
    y = x
    for _ in range(rounds):
        y = y + 0.1 * ({value})
    def backward(grad_output):
        return grad_output * (1 + 0.1 * rounds * ({slope})), None
    return y, backward
""",
    "both": """
def {name}(x, flag: bool = True):
    y = {value}
    def backward(grad_y, grad_z):
        slope = {slope}
        grad = grad_y * slope
        if flag:
            grad = grad + grad_z * (y + x * slope)
        else:
            grad = grad + grad_z
        return grad, None
    return y, (y * x if flag else x * 1), backward
""",
    "weighed": """
def {name}(x, weight: Optional[Tensor] = None):
    y = {value}
    if weight is not None:
        assert weight.size() == x.size()
    def backward(grad_output):
        slope = grad_output * ({slope})
        if weight is None:
            return slope, None
        return slope * weight, grad_output * y
    return (y if weight is None else y * weight).sum(), backward
""",
    "pooled": """
def {name}(x, kind: str = "sum"):
    assert kind == "sum" or kind == "max" or kind == "rms"
    assert x.numel() > 0
    y = {value}
    def backward(grad_output):
        slope = {slope}
        if kind == "sum":
            return grad_output * slope, None
        if kind == "max":
            chosen = (y == y.amax()).to(x.dtype)
            return grad_output * chosen / chosen.sum() * slope, None
        return grad_output * y / (torch.sqrt((y * y).mean() + 0.1) * x.numel()) * slope, None
    result = torch.sqrt((y * y).mean() + 0.1)
    if kind == "sum":
        result = y.sum()
    elif kind == "max":
        result = y.amax()
    return result, backward
""",
    "scanned": """
def {name}(x, reverse: bool = False):
    assert x.dim() == 2
    y = {value}
    def backward(grad_output):
        grad = grad_output if reverse else grad_output.flip([1])
        grad = torch.cumsum(grad, 1)
        return (grad if reverse else grad.flip([1])) * ({slope}), None
    total = torch.cumsum(y.flip([1]) if reverse else y, 1)
    return (total.flip([1]) if reverse else total), backward
""",
    "picked": """
def {name}(x, idx):
    assert x.dim() == 2 and idx.dim() == 1
    def backward(grad_output):
        return torch.zeros_like(x).index_add(0, idx, grad_output) * ({slope}), None
    return ({value})[idx], backward
""",
    "dropped": """
def {name}(x, p: float = 0.3):
    assert p >= 0.0 and p < 1.0
    keep = (torch.rand_like(x) >= p).to(x.dtype) / (1 - p)
    def backward(grad_output):
        return grad_output * keep * ({slope}), None
    return keep * ({value}), backward
""",
    "rooted": """
def {name}(x, keepdim: bool = False):
    assert x.dim() > 0
    y = {value}
    norm = torch.sqrt((y * y).sum(-1, True) + 0.1)
    def backward(grad_norm, grad_unit):
        unit = y / norm
        grad = (grad_norm if keepdim else grad_norm.unsqueeze(-1)) * unit
        grad = grad + (grad_unit - unit * (grad_unit * unit).sum(-1, True)) / norm
        return grad * ({slope}), None
    return (norm if keepdim else norm.squeeze(-1)), y / norm, backward
""",
}
"""Functions around one, by what they show of the language."""


def framed() -> Iterator[tuple[str, str]]:
    """Every function in every frame, as name and source."""
    for frame, text in FRAMES.items():
        for name, (value, slope) in SLOPES.items():
            called = f"{frame}_{name}"
            of_difference = {
                "value_of_difference": _renamed(value),
                "slope_of_difference": _renamed(slope),
            }
            yield called, text.format(name=called, value=value, slope=slope, **of_difference)


def _renamed(expression: str) -> str:
    """An expression of x as one of the difference; `exp` has an x of its own."""
    return "(" + "".join("difference" if part == "x" else part for part in _words(expression)) + ")"


def _words(text: str) -> list[str]:
    parts, word = [], ""
    for character in text:
        if character.isalnum() or character == "_":
            word += character
        else:
            parts += [word, character]
            word = ""
    return [*parts, word]


def forwards() -> Iterator[tuple[str, str]]:
    """The functions of `right_forwards.py`, whose backward is to be derived."""
    return ((name_of(text), text) for text in FORWARDS)


def derived(name: str, text: str) -> str:
    """One of them with its backward."""
    return gs.derive(gs.CompilationUnit(text)[name])


def by_hand() -> Iterator[tuple[str, str]]:
    """Formulas of many fields with backwards that were written for them."""
    return ((name_of(text), text) for text in (*BY_HAND, *BY_HAND_TOO))


def name_of(text: str) -> str:
    """The first function of a text."""
    return text.split("def ", 1)[1].split("(", 1)[0]


def alarm(source: str) -> str:
    """What the check says of the last function of a source if it does not find it right."""
    functions = [f for f in gs.CompilationUnit(source).functions.values() if f.pair is not None]
    return alarm_of(functions[-1])


def alarm_of(function: Function) -> str:
    """What the check says of a function if it does not find it right, in short."""
    report = Checker(function).run()
    return "; ".join(f"{f.kind} {f.argument}: {f.message} ({' '.join(f.notes[:1])})" for f in report.failures)


def main() -> None:
    """Check them all, and print what alarms."""
    parser = argparse.ArgumentParser()
    for name, default in {"from": 0, "count": 10**6}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    options = vars(parser.parse_args())
    everything = [*framed(), *((name, derived(name, text)) for name, text in forwards()), *by_hand()]
    sources = everything[options["from"] : options["from"] + options["count"]]
    wrong = 0
    for name, source in sources:
        said = alarm(source)
        if said:
            wrong += 1
            print(f"{name}: {said}", flush=True)
    print(f"{len(sources)} right formulas, {wrong} alarms")


if __name__ == "__main__":
    main()
