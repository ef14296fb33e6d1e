"""`gs.derive` of functions with loops, branches, lists and helpers: the author's lines and comments stay."""

from __future__ import annotations

import gradscript as gs
import pytest
from amounts import some_of

LOOP = '''EPS = 1e-6


def f(x, w, n: int = 3, eps: float = 10 * EPS):
    """Grows."""
    # which way
    if x.sum() > 0:
        y = x*w  # up
    else:
        # down
        y = x - w

    # rounds
    for i in range(n):
        # one round
        y = y * torch.sin(y) + eps
        # its end
    return (y
            * EPS)
'''
EARLY = """
def f(x, flag: bool = True):
    # early
    if flag:
        return torch.exp(x)  # at once
    # or late
    return torch.tanh(x)
"""
HELPER = """
def gate(x):
    # the gate
    return x * torch.sigmoid(x)


def f(x, w):
    # one
    a = gate(x)
    b = gate(w)  # two
    return a * b
"""
WHILE = """
def f(x, n: int = 2):
    i = 0
    # until
    while i < n:
        if (x > 2).any():
            x = x / 2
        elif i == 1:
            # odd
            x = x * x
        i += 1  # count
    return x
"""
LISTS = """
def f(xs: List[Tensor], h):
    # the state
    outs: List[Tensor] = []
    for x in xs:
        h = torch.tanh(x * h)  # the cell
        outs.append(h)
    # squares
    return [y * y for y in outs]
"""
CHOICE = """
def f(x, b: bool = True):
    # one of two
    y = torch.exp(x) if b else torch.sin(x) * x
    return y * x
"""
CONSTANT = """
def f(x, n: int = 2):
    # once
    for i in range(n):
        x = x * torch.sin(x)
    with torch.no_grad():
        # a constant
        z = x * 2
    return z * x
"""
PROGRAMS = {
    "loop": LOOP,
    "early": EARLY,
    "helper": HELPER,
    "while": WHILE,
    "lists": LISTS,
    "choice": CHOICE,
}


def _comments(text: str) -> list[str]:
    return sorted(line.partition("#")[2].strip() for line in text.splitlines() if "#" in line)


def _of_f(text: str) -> str:
    return text[text.index("def f(") :]


@pytest.mark.parametrize(("name", "order"), some_of((name, order) for order in (1, 2) for name in PROGRAMS))
def test_comments_stay(name: str, order: int) -> None:
    text = PROGRAMS[name]
    derived = gs.derive(gs.CompilationUnit(text).f, order)
    assert _comments(derived) == _comments(_of_f(text)), derived
    unit = gs.CompilationUnit(text.replace(_of_f(text), derived))
    assert gs.derive(unit.f, order).rstrip("\n") == derived.rstrip("\n")
    assert gs.check(unit.f).ok, derived


def test_the_authors_lines_stay() -> None:
    derived = gs.derive(gs.CompilationUnit(LOOP).f)
    head = LOOP[LOOP.index("def f(") : LOOP.index("    # which way")]
    assert derived.startswith(head)
    for lines in (
        "        y = x*w  # up\n    else:\n        # down\n        y = x - w\n\n    # rounds\n",
        "* EPS), backward\n",
    ):
        assert lines in derived, derived


@pytest.mark.parametrize("order", [1, 2])
def test_constants_keep_their_names(order: int) -> None:
    text = (
        "EPS = 1e-6\n\n\ndef f(x, eps: float = 10 * EPS):\n    r = torch.rsqrt(x.mean(-1) + eps)\n    return r * EPS\n"
    )
    derived = gs.derive(gs.CompilationUnit(text).f, order)
    assert derived.startswith("def f(x, eps: float = 10 * EPS):\n")
    assert "return r * EPS, backward" in derived


def test_blocks_of_which_nothing_is_printed_stay() -> None:
    derived = gs.derive(gs.CompilationUnit(CONSTANT).f)
    assert "    with torch.no_grad():\n        # a constant\n        z = x * 2\n\n    def backward" in derived, derived


def test_lists_are_written_and_read_by_item() -> None:
    derived = gs.derive(gs.CompilationUnit(LISTS).f)
    assert "kept_h.append(" in derived and "grad_xs[" in derived and "torch.append" not in derived, derived
    assert "grad_defined" not in derived and "no_grads" not in derived, derived


def test_what_is_there_is_not_kept_in_each_round() -> None:
    text = "def f(xs: List[Tensor]):\n    y = 0 * xs[0]\n    for x in xs:\n        y = y + torch.exp(x)\n    return y\n"
    derived = gs.derive(gs.CompilationUnit(text).f)
    assert "kept_x" not in derived.replace("kept_exp_x", "") and "    for x in xs:\n" in derived, derived


@pytest.mark.parametrize(
    "text",
    [
        "def f(xs: List[Tensor]):\n    return [x * x for x in xs]\n",
        "def f(xs: List[Tensor]):\n    return xs[0] * xs[1].exp()\n",
        "def f(xs: List[Tensor]):\n    return torch.cat(xs) ** 2\n",
        "def f(x, n: int = 2):\n    ys = [x * i for i in range(n)]\n    return [y * y for y in ys]\n",
    ],
)
def test_second_order_of_lists(text: str) -> None:
    derived = gs.derive(gs.CompilationUnit(text).f, order=2)
    unit = gs.CompilationUnit(derived + "\n\ndef f_examples():\n    " + _examples(text))
    assert gs.check(unit.f).ok, derived


def _examples(text: str) -> str:
    items = "torch.arange(3.0) + 0.5, torch.arange(3.0) - 1.5"
    if "cat" in text:
        return f"return [([{items}],), ([{items}, torch.zeros([0])],)]\n"
    return f"return [([{items}],)]\n" if "xs:" in text else "return [(torch.arange(3.0) + 0.5, 2)]\n"


@pytest.mark.parametrize("mark", ["\u2028", "\x0c", "\x85", "\x1c"])
def test_what_ends_lines_elsewhere_is_a_character(mark: str) -> None:
    text = f"def f(x):\n    y = x * 2  # a {mark} b\n    # {mark}\n    return y\n"
    derived = gs.derive(gs.CompilationUnit(text).f)
    assert f"    y = x * 2  # a {mark} b\n    # {mark}\n" in derived
    assert gs.grad(gs.CompilationUnit(derived).f)(3.0) == 2.0
