"""Comprehensions with several `for`s and `if`s, generator expressions in calls, and what else makes lists."""

from __future__ import annotations

import gradscript as gs
import numpy as np
import pytest
from eager_programs import check

X = np.linspace(-1.0, 1.5, 12).reshape(3, 4)

PROGRAMS = {
    "sum": "return sum((v * w).sum() for v, w in zip(x, x[1:])) * x",
    "sum from a start": "return sum((v * v for v in x), x[0])",
    "sum of a range": "return x * sum(range(x.size(0)))",
    "sum of numbers": "return x * sum(i * 0.5 for i in range(4) if i % 2)",
    "largest": "return x * max(s for s in x.shape) - min(s * 2 for s in x.shape if s > 3)",
    "largest of tensors": "return x * max((v * v).sum() for v in x) - min([v.sum() for v in x])",
    "largest of numbers": "return x * max(v.max().item() for v in x)",
    "in order": "return x * sorted((s for s in x.shape), reverse=True)[0]",
    "product": "return x.reshape(math.prod(x.shape)) * math.prod(s - 1.5 for s in x.shape) * math.prod([2], start=3)",
    "list": "return torch.stack(list(v * v for v in x))",
    "tuple in a call": "return torch.cat(tuple(v * v for v in x.chunk(2, 1)), dim=-1)",
    "tuple of a name": "ys = [v * v for v in x]\n    return torch.stack(tuple(ys))",
    "tuple of what a call gives": "return torch.cat(tuple((x * x).split(2, 1)[:1])) + torch.stack(tuple(x)).sum()",
    "tuple of dimensions": "return (x * x).sum(dim=tuple(d for d in range(x.dim())))",
    "extended": "ys = [x[0]]\n    ys.extend(v * v for v in x)\n    return torch.stack(ys)",
    "joined": "print(','.join(str(s) for s in x.shape), '-' * 3, 2 * 'ab', -1 * 'c')\n    return x",
    "behind a star": "return torch.stack([*(v * v for v in x), x[0]]) * len([*range(3)])",
    "behind a star in a call": "return (x * x).permute(*reversed(range(x.dim())))",
    "taken apart": "a, b = (v * v for v in x[:2])\n    return a * b",
    "a tensor taken apart": "a, b, c = x * x\n    d, *e = x\n    return a * b + c + d * e[1]",
    "two loops": "return torch.stack([v * w for v in x for w in x])",
    "a loop over another": "return torch.stack([x[i] * x[j] for i in range(3) for j in range(i + 1) if i - 1])",
    "conditions": "return torch.stack([x[i] * j for i in range(3) if i > 0 if i < 2 for j in range(5) if j > i])",
    "lists of lists": "l = [[i * j for j in range(3)] for i in range(2)]\n    return x * sum(v for w in l for v in w)",
    "over tuples": "return torch.stack([a * b for a in (x[0], x[1]) for b in (x[2], x[0]) if a.sum() < b.sum() + 9])",
    "any": "return x * (2 if any(s > 3 for s in x.shape) else 3)",
    "all": "return x * (2 if all(s > 3 for s in x.shape) else 3)",
    "any of several loops": "return x * (2 if any(i * j == 6 for i in range(4) if i > 1 for j in range(i + 1)) else 3)",
    "any of tensors": "return x * x if any(v.sum() > 0 for v in x) else -x",
    "all of a list of tensors": "return x * x if all([v.sum() < 9 for v in x]) else -x",
    "no more than decides": "return x * (2 if any(x[i].sum() < 0 for i in range(9)) else 3)",
    "not one": "return x * (2 if any(i > 5 for i in range(0)) or not all(i > 5 for i in range(0)) else 3)",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_python_has_it(name: str) -> None:
    check(f"def f(x):\n    {PROGRAMS[name]}\n", "f", X)


REFUSED = (
    ("(v for v in x)", "E102", "a generator expression here is not supported", "square brackets"),
    ("torch.stack(v for v in x)", "E102", "a generator expression here is not supported", "square brackets"),
    ("[w for w in (v for v in x)]", "E102", "a generator expression here is not supported", "square brackets"),
    ("sum(v for v in x, 1)", "E101", "", ""),
    ("sum(1, v for v in x)", "E101", "a generator expression beside arguments stands in parentheses", "g(x) for x in"),
    ("tuple(v for v in x)", "E204", "tuple() takes sizes or a tuple", "take the list as it is"),
)


@pytest.mark.parametrize(("expression", "code", "message", "note"), REFUSED)
def test_refusals(expression: str, code: str, message: str, note: str) -> None:
    with pytest.raises(gs.CompileError) as refused:
        gs.CompilationUnit(f"def f(x):\n    y = {expression}\n    return y\n")
    assert refused.value.code == code
    assert message in refused.value.message and note in str(refused.value)
