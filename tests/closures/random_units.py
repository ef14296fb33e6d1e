"""Random units that use each other's functions under names that collide, and the same in eager torch.

Each unit has a constant `C` of its own, a function `slope` that its pairs' backwards call, and functions of few names,
which call one another, and those of earlier units under other names. What is wrongly resolved gives another number.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import gradscript as gs
import torch

NAMES = ("a", "b", "c", "helper", "slope_of", "f")
FOOT = """
def loss(x):
    y = {call}
    return (y * y + y).sum()
"""


@dataclass
class Units:
    """What the last of the units has to tell: `loss` in the language, and as eager torch has it."""

    loss: gs.Function
    eager: Any
    unit: gs.CompilationUnit
    texts: list[str]


def random_units(seed: int) -> Units:
    random = Random(seed)
    compiled: list[gs.CompilationUnit] = []
    eager: list[dict[str, Any]] = []
    texts: list[str] = []
    for k in range(random.randint(2, 4)):
        scope, known, aliases = _outside(random, compiled, eager)
        scope["C"] = known["C"] = constant = round(random.uniform(0.5, 1.5), 3)
        text, plain = _unit(random, aliases, is_last=k > 0)
        compiled.append(gs.CompilationUnit(text, f"unit{k}.grad", scope=scope))
        names = {"torch": torch, **known}
        exec(plain, names)
        eager.append(names)
        texts.append(f"# C = {constant}, {sorted(scope)}\n{text}")
    return Units(compiled[-1].loss, eager[-1]["loss"], compiled[-1], texts)


def _outside(
    random: Random, compiled: list[gs.CompilationUnit], eager: list[dict[str, Any]]
) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """What a unit is given of earlier ones, and how it calls that."""
    scope: dict[str, Any] = {}
    known: dict[str, Any] = {}
    calls: list[str] = []
    for i, unit in enumerate(compiled):
        for name in unit:
            if name == "loss" or random.random() < 0.4:
                continue
            if random.random() < 0.5:
                scope[f"unit{i}"] = unit
                known[f"unit{i}"] = _Namespace(eager[i])
                calls.append(f"unit{i}.{name}")
            else:
                scope[f"{name}{i}"] = unit[name]
                known[f"{name}{i}"] = eager[i][name]
                calls.append(f"{name}{i}")
    return scope, known, calls


class _Namespace:
    def __init__(self, names: dict[str, Any]) -> None:
        self.__dict__ = names


def _unit(random: Random, outside: list[str], *, is_last: bool) -> tuple[str, str]:
    """The text of a unit, and the same without its backwards."""
    known = ["slope", *outside]
    texts = ["def slope(x):\n    return torch.cos(x) * C\n"]
    plain = [*texts]
    for name in random.sample(NAMES, random.randint(2, 4)):
        kind = random.choice(("plain", "plain", "pair", "branch", "loop"))
        body, backward = _body(random, kind, known)
        texts.append(f"def {name}(x):\n{backward}{body}{', backward' if backward else ''}\n")
        plain.append(f"def {name}(x):\n{body}\n")
        known.append(name)
    foot = FOOT.format(call=_expression(random, known[1:], 3))
    return "\n\n".join([*texts, foot]), "\n\n".join([*plain, foot])


def _body(random: Random, kind: str, known: list[str]) -> tuple[str, str]:
    """What a function returns, and the closure that is its backward."""
    if kind == "pair":
        backward = "    def backward(grad):\n        return grad * slope(x)\n\n"
        return "    return torch.sin(x) * C", backward
    one, other = (_expression(random, known, 2) for _ in range(2))
    if kind == "branch":
        return f"    if x.sum() > C - 1.0:\n        return {one}\n    return {other}", ""
    if kind == "loop":
        return f"    for i in range(2):\n        x = {one} * 0.5 + x * i\n    return x", ""
    return f"    return {one}", ""


def _expression(random: Random, known: list[str], depth: int) -> str:
    if not depth or random.random() < 0.2:
        return random.choice(("x", "x * C", "torch.tanh(x)"))
    inner = _expression(random, known, depth - 1)
    if random.random() < 0.6 and known:
        return f"{random.choice(known)}({inner})"
    return f"({inner} + {_expression(random, known, depth - 1)})"
