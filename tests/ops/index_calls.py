"""Indexing by every mix of what torch takes as an index, values, gradients and stores beside eager torch.

`python tests/ops/index_calls.py [COUNT]` compares all indices of one and two parts, and COUNT of three.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random

import gradscript as gs
import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from samples.arrays import to_numpy

PARTS = ("0", "-1", ":", "1:", "::2", "None", "...", "True", "False", "yes", "no", "one", "list", "mask", "square")
"""As they stand in brackets: numbers, slices, and the names of tensors."""
TENSORS = {
    "w": torch.arange(24, dtype=torch.float64).reshape(2, 3, 4) / 7 - 1,
    "yes": torch.tensor(True),
    "no": torch.tensor(False),
    "one": torch.tensor(1),
    "list": torch.tensor([0, 1, 1]),
    "mask": torch.tensor([True, False, True]),
    "square": torch.tensor([[True, False, True], [False, True, True]]),
}
_HEADER = f"def f({', '.join(TENSORS)}):\n"


def indices(triples: int, seed: int = 0) -> list[str]:
    """All of one part and of two, and some of three."""
    found = [part for count in (1, 2) for part in itertools.product(PARTS, repeat=count)]
    found += Random(seed).sample(list(itertools.product(PARTS, repeat=3)), triples)
    return [f"w[{', '.join(parts)}]" for parts in found]


def difference(text: str) -> str | None:
    """What is wrong with ours, a refusal included; None where torch refuses too."""
    names = {**TENSORS, "w": TENSORS["w"].clone().requires_grad_()}
    try:
        expected = eval(text, {}, names)
    except (IndexError, RuntimeError, TypeError) as error:
        expected = error
    try:
        function = gs.CompilationUnit(f"{_HEADER}    return {text}\n").f
        found, pullback = gs.vjp(function, *map(to_numpy, TENSORS.values()))
    except (gs.CompileError, gs.RuntimeFailure) as error:
        return None if isinstance(expected, Exception) else f"{text}: {str(error).splitlines()[0]}"
    if isinstance(expected, Exception):
        return None
    wanted = to_numpy(expected)
    if found.shape != wanted.shape or not np.array_equal(found, wanted):
        return f"{text}: {found}, not {wanted}"
    weights = torch.arange(expected.numel(), dtype=torch.float64).reshape(expected.shape) + 1
    (gradient,) = torch.autograd.grad(expected, names["w"], weights)
    ours = pullback(weights.numpy())[0]
    return None if np.array_equal(ours, gradient.numpy()) else f"{text}: the gradient is {ours}, not {gradient.numpy()}"


def difference_in_store(text: str) -> str | None:
    """The same of `w[…] = 5` in a copy."""
    expected = TENSORS["w"].clone()
    try:
        exec(f"{text} = 5.0", {}, {**TENSORS, "w": expected})
    except (IndexError, RuntimeError, TypeError):
        return None
    try:
        function = gs.CompilationUnit(f"{_HEADER}    w = w.clone()\n    {text} = 5.0\n    return w\n").f
        found = function(*map(to_numpy, TENSORS.values()))
    except (gs.CompileError, gs.RuntimeFailure) as error:
        return f"{text} = 5.0: {str(error).splitlines()[0]}"
    return None if np.array_equal(found, expected.numpy()) else f"{text} = 5.0: {found}, not {expected.numpy()}"


def main(arguments: Sequence[str]) -> int:
    texts = indices(int(arguments[0]) if arguments else 400)
    wrong = [line for text in texts for line in (difference(text), difference_in_store(text)) if line]
    print(*wrong, f"{len(texts)} indices, {len(wrong)} differences", sep="\n")
    return min(len(wrong), 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
