"""What is put together of parts is read by kernels at each place: of which part that is, is known there or computed."""

from __future__ import annotations

from itertools import product
from random import Random

import gradscript as gs
import numpy as np
import pytest
import torch
from amounts import some
from array_programs import check_fused
from torch.nn import functional

JOINS = (
    "torch.select_scatter({0}, {0}[0] * 3, 0, 1)",
    "torch.select_scatter({0}, {0}[:, 0] * 3, 1, -1)",
    "torch.select_scatter({0}, {0}[1] * 3, 0, 0)",
    "torch.slice_scatter({0}, {0}[1:3] * 3, 0, 0, 2)",
    "torch.slice_scatter({0}, {0}[:, 1::2] * 3, 1, 1, None, 2)",
    "torch.slice_scatter({0}, {0}[:, :1] * 3, 1, 2, 3)",
    "F.pad({0}, [1, 2])",
    "F.pad({0}, [2, 1, 1, 2], 'constant', 0.5)",
    "F.pad({0}, [-1, 1, 0, -1])",
    "torch.cat([{0}, {0} * 3, {0}[:1]], 0)",
    "torch.cat([{0}[:, :1], {0} * 3], 1)",
    "torch.stack([{0}, {0} * 3], 0)[1]",
    "torch.stack([{0}, {0} * 3], 1).flatten(0, 1)",
    "torch.stack([{0}, {0} * 3], -1).flatten(1)",
    "{0}.tril()",
    "{0}.triu(1)",
    "{0}.tril(-1)",
    "{0}.roll(1, 0)",
    "{0}.roll([1, -2], [0, 1])",
    "torch.diagonal_scatter({0}, {0}[0, 0] * {0}.diagonal())",
    "torch.where({0} > 0.2, {0}, {0} * 3)",
)
READS = (
    "{0}[0, 0]",
    "{0}[1, 2]",
    "{0}[-1, -1]",
    "{0}[0]",
    "{0}[1]",
    "{0}[-1]",
    "{0}[:, 0]",
    "{0}[:, 1]",
    "{0}[:, -1]",
    "{0}[1:2]",
    "{0}[::2, 1:]",
    "{0}.flip([0])[0]",
    "{0}.t()[1]",
    "{0}.flatten()[1::3]",
    "{0}.sum(0)[1]",
    "{0}.expand(2, -1, -1)[1, 1]",
)


def check(source: str) -> None:
    values = np.random.default_rng(5).normal(size=(3, 4))
    function = gs.CompilationUnit(source).f
    check_fused(function, [values])
    namespace: dict[str, torch.Tensor] = {}
    x = torch.from_numpy(values)
    for line in source.splitlines()[1:]:
        name, expression = line.strip().replace("return ", "result = ").split(" = ", 1)
        namespace[name] = eval(expression, {"torch": torch, "F": functional, "x": x, **namespace})
    torch.testing.assert_close(torch.as_tensor(function(values)), namespace["result"])


@pytest.mark.parametrize(("join", "read"), [*product(JOINS, READS)])
def test_a_place(join: str, read: str) -> None:
    check(f"def f(x):\n    y = {join.format('x')}\n    return {read.format('y')} * 2\n")


@pytest.mark.parametrize("seed", range(some(200)))
def test_places_of_what_was_put_together_more_than_once(seed: int) -> None:
    random = Random(seed)
    joins = random.choices(JOINS, k=random.randint(2, 3))
    lines = [f"    v{i} = {join.format('x' if i == 0 else f'v{i - 1}')}" for i, join in enumerate(joins)]
    lines.append(f"    return {random.choice(READS).format(f'v{len(joins) - 1}')} * 2")
    check("def f(x):\n" + "\n".join(lines) + "\n")
