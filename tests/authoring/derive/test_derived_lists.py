"""`gs.derive` of functions that write into lists whose elements have shapes of their own."""

from __future__ import annotations

import re
from itertools import product
from random import Random

import gradscript as gs
import numpy as np
import pytest
from amounts import some_of

WRITES = (
    "ys[0] = y",
    "ys[-1] = torch.sin(y)",
    "ys[1] = ys[0] * 2",
    "for i in range(len(ys)):\n        ys[i] = y * i",
    "for i in range(2):\n        ys[i + 1] = ys[i] * y.sum()",
    "ys = torch._set_slice(ys, [y, ys[0] * y.sum()], 0, 2)",
    "ys.insert(1, y * y)",
    "ys.append(y)",
    "ys.pop(0)",
    "del ys[-1]",
    "t = ys.pop()\n    ys[0] = ys[0] * t.sum()",
    "ys.extend([y])",
    "ys = ys[1:] + [y]",
    "ys.reverse()",
    "if y.sum() > 0:\n        ys[0] = y",
)
STARTS = ("list(xs)", "[x * x for x in xs]")
ENDS = ("ys", "[torch.sin(z) for z in ys]", "ys[0] * ys[-1].sum()")
PROGRAMS = [
    f"def f(xs: List[Tensor], y):\n    ys = {start}\n    {first}\n    {second}\n    return {end}\n"
    for start, first, second, end in product(STARTS, WRITES, ("", *WRITES), ENDS)
]
DRAWN = Random(0).sample(PROGRAMS, 200)
_UNWRITTEN = re.compile(r"grad_defined|no_grads|grad_zeros|grad_list|autograd_")
"""What stands for gradients that are missing: no author writes it."""


def _gradients(function: gs.Function) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    arguments = [random.uniform(0.2, 1.5, shape) for shape in ((2,), (3, 1), (4,), (2, 2))]
    given = (arguments, random.uniform(0.2, 1.5, (2, 3)))
    results, backward = gs.vjp(function, *given)
    seed = [np.cos(r) for r in results] if isinstance(results, list) else np.cos(results)
    of_xs, of_y = backward(seed)
    pairs = zip([*(of_xs or [None] * 4), of_y], [*given[0], given[1]], strict=True)
    return [np.zeros_like(x) if g is None else np.asarray(g) for g, x in pairs]


@pytest.mark.parametrize("text", some_of(DRAWN))
def test_zeros_are_like_what_was_there(text: str) -> None:
    plain = gs.CompilationUnit(text)
    derived = gs.derive(plain.f)
    assert not _UNWRITTEN.search(derived), derived
    unit = gs.CompilationUnit(derived)
    assert gs.derive(unit.f) == derived
    for found, expected in zip(_gradients(unit.f), _gradients(plain.f), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, err_msg=derived)
