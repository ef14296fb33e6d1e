"""Random functions of tensors and numbers, each called many times with others, beside Python with torch.

What is compiled, planned, listed or prepared for one call serves the next: with other sizes, other ints, floats and
bools, and lists of them of other lengths. `PYTHONPATH=tests/support python tests/fuzz/changing_calls.py 0 300 c` runs
functions for 300 seconds, from seed 0 on, prints what differs, and in the end what became of how many.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import gradscript as gs
import numpy as np
import torch

CALLS = 16
LARGEST = 1e3
"""Of functions with larger values, differences are those of rounding."""
HEADER = "def f(x, w, n: int, p: float, l: List[int], q: List[float], b: bool):\n"
INTS = (
    *("n", "l[0]", "l[-1]", "len(l)", "x.size(0)", "x.shape[1]", "x.numel()", "len(q)", "2", "sum(l)", "max(l)"),
    *("n + l[1]", "n * 2 - 1", "x.size(1) - 1", "n % 3", "x.size(0) // 2", "(n if b else l[0])", "int(p * 3)"),
)
FLOATS = (
    *("p", "q[0]", "q[-1]", "p * q[1]", "p + 1.0", "float(n)", "n / 4", "1.0 / x.size(0)", "0.5", "sum(q)", "-p"),
    *("(p if b else q[0])", "math.sqrt(p)", "min(p, q[0])", "p ** 2", "x.size(1) * 0.25", "abs(q[0] - p)"),
)
TRUTHS = (
    *("b", "n > 2", "p > 0.6", "len(l) > 2", "x.size(0) > 3", "l[0] == n", "not b", "q[0] < p", "b and n > 1"),
    *("bool(x.sum() > 0)", "bool((x > P).any())", "bool(x[0, 0] * P < 0.3)", "float(y.mean()) > 0.1"),
)
TENSORS = (
    *("T * I", "T + F", "T * F", "F - T", "T / (F + 4.0)", "T.clamp(-abs(F) - 1, abs(F))", "T * (x > F)"),
    *("torch.where(T > F, T, T * F)", "F_.leaky_relu(T, F)", "F_.elu(T, abs(F) + 0.1)", "T.sum(0) * I + T", "T.tanh()"),
    *("T[:1] * F + T", "T[I % 2:].sum() + T", "torch.roll(T, I, 0)", "T.mean(1, keepdim=True) * F + T", "T * w"),
    *(
        "T.softmax(1) * I",
        "F_.layer_norm(T, [T.size(1)], eps=abs(F) + 0.01)",
        "T.flip(I % 2)",
        "T.sum(I % 2, True) + T",
    ),
    *("T * I if B else T + F", "F_.pad(T, [1, 0], value=F)[:, 1:]", "T.pow(I % 3 + 1)", "T.cumsum(I % 2) * F"),
    *(
        "torch.full_like(T, F) * T",
        "T * torch.arange(T.size(0)).unsqueeze(1) * F",
        "torch.cat([T, T * F])[: T.size(0)]",
    ),
    *("T @ (T.t() @ T) * 0.1 * F", "T - T.amax(1, keepdim=True) * F", "(T * I).sin()", "T[I % T.size(0)] + T"),
    *("T.sigmoid() ** F", "F_.huber_loss(T, w, delta=abs(F) + 0.1) + T", "T.expand(I % 2 + 1, -1, -1).sum(0)"),
    *(
        "F_.gelu(T) * I",
        "T.norm() * F + T",
        "torch.lerp(T, w, F)",
        "T.index_select(0, torch.tensor([I % T.size(0)])) + T",
    ),
)


class FunctionWriter:
    """Writes a function of a seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def text(self) -> str:
        """The function `f`, and `total`, a number made of all that it gives, as source."""
        lines = ["    y = x"]
        for _ in range(self.random.randint(1, 4)):
            lines += self._statement("    ", 2)
        result = self.random.choice(("y", "y", "y.sum(0)", "(y, y * w)"))
        parts = ("z[0]", "z[1]") if result.startswith("(") else ("z",)
        total = " + ".join(f"({part} * {part}.cos()).sum()" for part in parts)
        calling = HEADER.replace("def f", "def total") + f"    z = f(x, w, n, p, l, q, b)\n    return {total}\n"
        return HEADER + "\n".join([*lines, f"    return {result}", "", calling])

    def _statement(self, indent: str, depth: int) -> list[str]:
        kind = self.random.random()
        if depth and kind < 0.3:
            lines = [f"{indent}if {self._truth()}:", *self._statement(indent + "    ", depth - 1)]
            if self.random.random() < 0.5:
                lines += [f"{indent}else:", *self._statement(indent + "    ", depth - 1)]
            return lines
        if depth and kind < 0.45:
            count, item = f"({self._pick(INTS)}) % 4", ""
            over = self.random.choice((f"range({count})", "l", "q", "range(len(l))"))
            if self.random.random() < 0.3:
                item = f"{indent}    if {self._truth()}:\n{indent}        break\n"
            body = "\n".join(self._statement(indent + "    ", depth - 1))
            return [f"{indent}for i in {over}:", f"{item}{body}", f"{indent}    y = y + (i + 1) * 0.125"]
        if depth and kind < 0.6:
            return self._list(indent)
        return [f"{indent}y = {self._tensor('y', 2)}"]

    def _list(self, indent: str) -> list[str]:
        """A list that rounds make longer, and rounds that take from it what others have put there."""
        count = f"({self._pick(INTS)}) % 5"
        first, made = self.random.choice(("y", "x")), self._tensor("ys[i]", 1)
        place = self.random.choice(("i", "i + 1", "-1 - i", "len(ys) - 1 - i", "0", "i // 2"))
        taken = self.random.choice((f"ys[{place}] * 0.5", f"ys[i] * ys[{place}]", f"(ys[{place}] * w).sin()"))
        return [
            f"{indent}ys = [{first}]",
            f"{indent}for i in range({count}):",
            f"{indent}    ys.append(({made}).tanh())",
            f"{indent}for i in range(len(ys) - 1):",
            f"{indent}    y = y + {taken}",
        ]

    def _tensor(self, base: str, depth: int) -> str:
        text = self.random.choice(TENSORS)
        inner = (
            self._tensor(base, depth - 1) if depth and self.random.random() < 0.5 else self.random.choice((base, "x"))
        )
        parts = []
        for part in _tokens(text):
            chosen = {"T": f"({inner})", "I": f"({self._pick(INTS)})", "F": f"({self._pick(FLOATS)})"}.get(part)
            chosen = f"({self._truth()})" if part == "B" else chosen
            parts.append(part if chosen is None else chosen)
        return "".join(parts).replace("F_.", "F.")

    def _truth(self) -> str:
        return self._pick(TRUTHS).replace("P", self._pick(FLOATS))

    def _pick(self, texts: Sequence[str]) -> str:
        return self.random.choice(texts)


def _tokens(text: str) -> list[str]:
    """Names and what is between them."""
    parts, word = [], ""
    for character in text + " ":
        if character.isalnum() or character == "_":
            word += character
        else:
            parts += [word, character]
            word = ""
    return parts[:-1]


class ChangingCall:
    """The arguments of one call: some as in the call before, so that calls in a row are alike."""

    def __init__(self, random: Random, before: ChangingCall | None) -> None:
        alike = before is not None and random.random() < 0.45
        self.size = (
            before.size if alike and before else (random.choice((1, 2, 3, 4, 5, 7)), random.choice((3, 3, 2, 5)))
        )
        self.numbers = before.numbers if before and random.random() < 0.3 else self._numbers(random)
        self.requires = (
            before.requires if before and random.random() < 0.8 else (random.random() < 0.7, random.random() < 0.5)
        )
        self.seed = random.randrange(2**31)

    @staticmethod
    def _numbers(random: Random) -> tuple[Any, ...]:
        lists = random.choice((2, 2, 3)), random.choice((2, 2, 3))
        ints, floats = (
            [random.randint(1, 4) for _ in range(lists[0])],
            [random.choice(_FLOATS) for _ in range(lists[1])],
        )
        return random.randint(0, 5), random.choice(_FLOATS), ints, floats, random.random() < 0.5

    def arrays(self) -> list[Any]:
        """The arguments, with arrays."""
        rng = np.random.RandomState(self.seed)
        return [
            rng.randn(*self.size),
            rng.randn(*self.size),
            *(list(v) if type(v) is list else v for v in self.numbers),
        ]

    def tensors(self) -> list[Any]:
        """The arguments, with tensors."""
        x, w, *numbers = self.arrays()
        marked = zip((x, w), self.requires, strict=True)
        return [*(torch.tensor(array).requires_grad_(mark) for array, mark in marked), *numbers]


_FLOATS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0)


def outcome_of_function(seed: int, backend: str, calls: int = CALLS) -> str:
    """`equal`, or why the function does not count; AssertionError where a call gives something else than torch."""
    text = FunctionWriter(seed).text()
    scope: dict[str, Any] = {"torch": torch, "F": torch.nn.functional, "List": list, "math": __import__("math")}
    exec(compile(text, "<function>", "exec"), scope)
    random, call, counted = Random(-seed), None, 0
    with gs.settings.backend(backend):
        try:
            unit = gs.CompilationUnit(text)
            function, gradient = unit.f, gs.grad(unit.total, (0, 1), allow_unused=True)
        except gs.CompileError as error:
            return "refused: " + str(error).splitlines()[0][:120]
        for number in range(calls):
            call = ChangingCall(random, call)
            try:
                expected = _on_tensors(scope["f"], call)
                gradients = _gradients(scope["total"], call)
            except (RuntimeError, IndexError, ValueError, TypeError):
                continue
            if any(value.numel() and not value.abs().max() < LARGEST for value in expected if value is not None):
                continue
            counted += 1
            told = f"seed {seed}, call {number}: {call.size}, {call.numbers}, {call.requires}\n{text}"
            try:
                on_arrays = [torch.as_tensor(np.asarray(value)) for value in _flat(function(*call.arrays()))]
                found = _on_tensors(function, call)
                on_arrays += [g if g is None else torch.as_tensor(g) for g in gradient(*call.arrays())]
            except Exception as error:
                raise AssertionError(f"{type(error).__name__}: {error}\n{told}") from error
            known = [*expected[: len(on_arrays) - 2], *gradients]
            for expectation, value in [*zip(expected, found, strict=True), *zip(known, on_arrays, strict=True)]:
                assert _is_equal(expectation, value), f"{value}\nfor {expectation}\n{told}"
    return "equal" if counted else "torch refuses it"


def _on_tensors(function: Callable[..., Any], call: ChangingCall) -> list[Any]:
    """The results, and the gradients of what requires some."""
    arguments = call.tensors()
    results = _flat(function(*arguments))
    wanted = [value for value in arguments[:2] if value.requires_grad]
    total = sum((value * value.detach().cos()).sum() for value in results)
    if not wanted or not total.requires_grad:
        return [value.detach() for value in results] + [None for _ in wanted]
    return [value.detach() for value in results] + [*torch.autograd.grad(total, wanted, allow_unused=True)]


def _gradients(function: Callable[..., Any], call: ChangingCall) -> list[Any]:
    """Those of a number with respect to both tensors."""
    arguments = [v.detach().requires_grad_() if isinstance(v, torch.Tensor) else v for v in call.tensors()]
    total = function(*arguments)
    return [*torch.autograd.grad(total, arguments[:2], allow_unused=True)] if total.requires_grad else [None, None]


def _flat(results: Any) -> list[Any]:
    return [*results] if isinstance(results, tuple) else [results]


def _is_equal(expected: Any, found: Any) -> bool:
    if expected is None or found is None:
        return all(value is None or not value.any() for value in (expected, found))
    same = expected.shape == found.shape and expected.dtype == found.dtype
    return same and torch.allclose(found, expected, rtol=1e-7, atol=1e-8, equal_nan=True)


def main(first: int, seconds: float, backend: str) -> None:
    outcomes: Counter[str] = Counter()
    seed, end = first, time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            outcomes[outcome_of_function(seed, backend)] += 1
        except AssertionError as error:
            outcomes["different"] += 1
            print(f"{str(error)[:2500]}\n", flush=True)
        seed += 1
    print(f"seeds {first} to {seed - 1}, {backend}: {dict(outcomes)}")


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3])
