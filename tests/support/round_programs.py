"""Functions whose loops have as many rounds as an argument says: some written by hand, and random ones."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

TEXT = """
def scan(x, w, ws: List[Tensor], n: int):
    h = x[0] * 0.0
    total = x.sum() * 0.0
    for t in range(x.size(0)):
        h = torch.tanh(x[t] + h @ w)
        total = total + h.sum()
    return total

def pointwise_rounds(x, w, ws: List[Tensor], n: int):
    for i in range(n):
        x = torch.sin(x) * 1.5 + x * 0.5
    return x

def by_index(x, w, ws: List[Tensor], n: int):
    for i in range(n):
        x = torch.tanh(x @ w) * (i + 1) / 8 + x
    return x

def layers(x, w, ws: List[Tensor], n: int):
    for one in ws:
        x = torch.tanh(x @ one) + x * 0.5
    return x

def stacked(x, w, ws: List[Tensor], n: int):
    kept: List[Tensor] = []
    h = x[0] * 0.0
    for t in range(x.size(0)):
        h = torch.tanh(x[t] + h @ w)
        kept.append(h)
    return torch.stack(kept) * 2.0

def suffixes(x, w, ws: List[Tensor], n: int):
    total = x.sum()
    for i in range(n):
        total = total + torch.sin(x.reshape(-1)[i:]).sum() * (i + 1)
    return total

def nested(x, w, ws: List[Tensor], n: int):
    for i in range(n // 2):
        for j in range(n - 3):
            x = torch.tanh(x) * 0.5 + x
        x = x * 0.5
    return x

def counted_by_hand(x, w, ws: List[Tensor], n: int):
    i = 0
    while i < n:
        x = torch.tanh(x) * 1.5 + 0.1
        i = i + 2
    return x

def until(x, w, ws: List[Tensor], n: int):
    i = 0
    while i < n and float(x.sum()) < 1e6:
        x = torch.exp(x * 0.01) + x
        i = i + 1
    return x

def powered(x, w, ws: List[Tensor], n: int):
    return torch.sigmoid(x) ** n
"""
BY_HAND = [line.split("(")[0].removeprefix("def ") for line in TEXT.splitlines() if line.startswith("def ")]
"""The names of the functions."""


def arguments(n: int) -> list[Any]:
    """What all of them take: `x` of n steps, a matrix, n matrices and n."""
    draw = np.random.default_rng(n)
    matrices = [(draw.standard_normal((4, 4)) * 0.2).astype(np.float32) for _ in range(n)]
    x = (draw.standard_normal((n, 3, 4)) * 0.3).astype(np.float32)
    return [x, (draw.standard_normal((4, 4)) * 0.2).astype(np.float32), matrices, n]


ROUNDS = ["range(n)", "range(x.size(0))", "range(len(ws))", "range(1, n)", "range(n // 2)", "range(3)"]
ROUNDS.append("range(0, n, 2)")
STATEMENTS = [
    "h = torch.tanh(h @ w) + x[{i}]",
    "h = h * 0.5 + torch.sin(h) * ({i} + 1) / n",
    "h = torch.tanh(h @ ws[{i}]) * 0.5",
    "kept.append(h)",
    "kept.append(h * x[{i}])",
    "total = total + h.sum() * k",
    "total = total + torch.cos(x[{i}:]).mean()",
    "k = k + 1",
    "k = k + x.size(0)",
    "counts.append({i})",
    "counts.append({i} * 2 + 1)",
    "h = h + kept[-1] * 0.25 if len(kept) > 0 else h * 0.9",
    "h = h * 0.5 if {i} % 2 == 0 else h + x[{i}]",
    "h = h * 0.5 if float(h.sum()) > 0.0 else h + 0.125",
]
AFTER = [
    "for one in kept:\n    total = total + (one * one).mean()",
    "for c in counts:\n    total = total + h.mean() * c",
    "kept.append(h)\nh = h + torch.stack(kept).sum(0)",
    "kept.append(h)\nh = h + torch.cat(kept).view(-1, 3, 4).mean(0)",
    "total = total * len(kept)",
    "total = total + k",
    "while len(kept) > 0:\n    total = total + kept.pop().mean()",
    "h = h + x[k % x.size(0)]",
]


def random_function(seed: int) -> str:
    """The text of a function `f` of the same arguments."""
    draw = random.Random(seed)
    lines = ["h = x[0] * 1.0", "total = x.sum() * 0.0", "k = 0", "kept: List[Tensor] = []", "counts: List[int] = []"]
    for _ in range(draw.randint(1, 2)):
        rounds = draw.choice(ROUNDS)
        lines.append(f"for i in {rounds}:")
        lines += [f"    {draw.choice(STATEMENTS).format(i='i')}" for _ in range(draw.randint(1, 4))]
        if draw.random() < 0.25:
            lines.append(f"    for j in {draw.choice(ROUNDS)}:")
            lines += [f"        {draw.choice(STATEMENTS).format(i='j')}" for _ in range(draw.randint(1, 2))]
    for _ in range(draw.randint(0, 2)):
        lines += draw.choice(AFTER).split("\n")
    lines.append("return h * 1.0, total + 0.0")
    return "def f(x, w, ws: List[Tensor], n: int):\n" + "".join(f"    {line}\n" for line in lines)
