"""Random units with closures: every text of them compiles, and prints as itself."""

from __future__ import annotations

import gradscript as gs
import pytest
import random_pairs


@pytest.mark.parametrize("start", range(0, 50, 10))
def test_texts_compile_to_themselves(start: int) -> None:
    assert not [words for seed in range(start, start + 10) for words in random_pairs.wrong(seed)]


@pytest.mark.parametrize(
    "source",
    [
        # Closures and lifted halves of one name, in what is called.
        "def g(x):\n    def pull(a):\n        return a * 2\n    return x * 2, pull\n\n\n"
        "def f(x):\n    def pull(a):\n        return g(a)\n    return g(x), pull\n",
        "def backward_1(x):\n    def backward(a):\n        return a * 2\n    return x * 2, backward\n\n\n"
        "def f(x):\n    def backward(a):\n        return backward_1(a)\n    return backward_1(x), backward\n",
        # A gradient and a function that are called as the context is.
        "def f(x):\n    def backward(context):\n        return context * x\n    return x * 2, backward\n",
        "def context(x):\n    return x * 2\n\n\n"
        "def f(x):\n    def backward(g):\n        return context(g) * x\n    return context(x), backward\n",
        # A builtin that a function of the unit hides, and that the pair does not call.
        "def max(x, y: int):\n    return x\n\n\n"
        "def f(x, n: int):\n    def backward(g):\n        return g * n, None\n    return x * n, backward\n",
        # What is computed for an inner closure alone.
        "def f(x):\n    def backward(g):\n        s = x * 3\n        def second(h):\n            return h * s\n"
        "        return g * 2, second\n    return x * 2, backward\n",
        "def f(x):\n    def backward(g):\n        return g * 1e400 * -1e400 * -0.0 * math.nan\n"
        "    return x * torch.tensor([1e400, math.nan]), backward\n",
    ],
)
def test_names_and_numbers_that_collide(source: str) -> None:
    f = gs.CompilationUnit(source).f
    lifted = f.show("lifted")
    assert gs.CompilationUnit(lifted).code == lifted
    closures = gs.CompilationUnit(f.show("closure"))
    assert closures.f.pair is not None
