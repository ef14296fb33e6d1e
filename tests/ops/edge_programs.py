"""Random calls at the edges (bools beside numbers, 0-d masks, infinities, nothing, several dtypes, values that control
flow overwrites), some to a program, on every road of `op_roads.py` beside eager torch, to second order.

    python tests/ops/edge_programs.py --start 0 --count 200 --roads "arrays,arrays in C,tensors in C"

What torch refuses must be refused, and what it takes is taken or refused; every other outcome is printed.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from kernel_device import kernel_device
from op_roads import EQUAL, LACKING, REFUSED, TAKEN, Asked, TooLong, outcome
from samples.torch_database import Case
from torch.testing._internal.common_methods_invocations import SampleInput

INF = float("inf")
F64, F32, F16 = torch.float64, torch.float32, torch.float16
TENSORS: dict[str, Callable[[], torch.Tensor]] = {
    "a0": lambda: torch.tensor([1.5, -2.0, 3.0], dtype=F64),
    "a1": lambda: torch.tensor([[0.5, -1.0, 2.0], [0.0, 0.25, -0.75]], dtype=F64),
    "a2": lambda: torch.tensor(0.75, dtype=F64),
    "a3": lambda: torch.tensor([1.0, -0.5, 0.25], dtype=F32),
    "a4": lambda: torch.tensor([-INF, INF, float("nan"), 0.0, -0.0, -0.5, 1e308, 5e-324], dtype=F64),
    "a5": lambda: torch.tensor([True, False, True]),
    "a6": lambda: torch.tensor(True),
    "a7": lambda: torch.tensor([[True, False, True], [False, False, True]]),
    "a8": lambda: torch.tensor([250, 3, 7], dtype=torch.uint8),
    "a9": lambda: torch.tensor([-128, 127, 5], dtype=torch.int8),
    "a10": lambda: torch.tensor([2, 0, 1]),
    "a11": lambda: torch.zeros(0, dtype=F64),
    "a12": lambda: torch.zeros(0, dtype=torch.int64),
    "a13": lambda: torch.tensor(-2, dtype=torch.int32),
    "a14": lambda: torch.tensor([0.5, -2.0, 3.0], dtype=F16),
    "a15": lambda: torch.tensor(0.25, dtype=F32),
    "a16": lambda: torch.zeros(2, 0, dtype=F32),
}
FLOATS = ("a0", "a1", "a2", "a3", "a14", "a15")
ROWS = ("a0", "a3", "a14")
WHOLE = ("a5", "a6", "a8", "a9", "a10", "a13")
ANY = (*FLOATS, *WHOLE, "a11", "a12")
NUMBERS = ("True", "False", "0", "1", "2", "-3", "0.5", "-1.5", "300")
UNARY = """
    abs sqrt rsqrt log log2 log1p exp expm1 sin tan asin acos atan acosh atanh erf erfinv lgamma digamma sigmoid tanh
    relu sign sgn floor ceil round trunc frac reciprocal square neg isnan isfinite signbit exp2 sinc logit nan_to_num
    deg2rad positive log10 sinh cosh asinh erfc angle i0 bitwise_not logical_not
"""
BINARY = """
    add sub mul div pow atan2 hypot maximum minimum fmax fmin fmod remainder copysign nextafter xlogy logaddexp
    logaddexp2 floor_divide true_divide eq ne lt ge logical_and logical_xor bitwise_and bitwise_or bitwise_xor
    ldexp heaviside dist inner outer kron dot
"""
FOLDS = """
    sum mean prod amax amin logsumexp std var any all argmax argmin median nansum nanmean count_nonzero var_mean
    std_mean
    aminmax mode cumsum cumprod cummax cummin logcumsumexp diff trapezoid flip sort cumulative_trapezoid argsort
    unique_consecutive softmax log_softmax norm
"""
LOSSES = """
    mse_loss l1_loss smooth_l1_loss huber_loss kl_div binary_cross_entropy_with_logits poisson_nll_loss soft_margin_loss
    hinge_embedding_loss binary_cross_entropy
"""
NEED_DIM = frozenset(("logsumexp", "cumsum", "cumprod", "cummax", "cummin", "logcumsumexp", "amax", "amin"))
BAD = ("torch.sqrt({} * 0.0)", "torch.log({} * 0.0)", "({} * 0.0) ** 0.5", "torch.rsqrt({} * 0.0)", "1.0 / ({} * 0.0)")
BAD += ("torch.acosh({} * 0.0 + 1.0)", "torch.norm({} * 0.0) / 0.0 * {}", "torch.asin({} * 0.0 + 1.0)")
GOOD = ("{0} * {0} * {0}", "torch.sin({0})", "{0} * 2.0", "{0}.sum() * {0}")


class Writer:
    """One random program: some lines that bind names, and the results."""

    def __init__(self, seed: int, size: int) -> None:
        self._draw = random.Random(seed)
        makers = [self._promoted, self._indexed, self._loss, self._binary, self._unary, self._fold, self._numbers]
        makers += [self._overwritten, self._overwritten, self._filled, self._product, self._turned]
        self.lines: list[str] = []
        self.results = [self._draw.choice(makers)() for _ in range(size)]

    def _one(self, *texts: Any) -> str:
        return str(self._draw.choice(texts))

    def _promoted(self) -> str:
        left, right = self._one("a5", "a6", "a7", "a5[0]"), self._one(*NUMBERS, "a6", "a5", "a13")
        if self._draw.random() < 0.5:
            left, right = right, left
        kind = self._one("&", "|", "^", "+", "*", "==", "<", "/", "//", "%", "**", "where", "where2", "fill")
        if kind == "where":
            return f"torch.where(a5, {left}, {right})"
        if kind == "where2":
            return f"torch.where(a6, {self._one(*NUMBERS)}, {self._one(*NUMBERS)})"
        if kind == "fill":
            return f"{self._one('a5', 'a8', 'a0', 'a13', 'a14')}.masked_fill(a6, {self._one(*NUMBERS)})"
        return f"{left} {kind} {right}"

    def _indexed(self) -> str:
        items = [self._one("a6", "0", "-1", "1:", ":", "None", "...", "a5", "a10", "~a6", "True") for _ in range(3)]
        return f"{self._one('a0', 'a1', 'a7', 'a8')}[{', '.join(items[: self._draw.randint(1, 3)])}]"

    def _loss(self) -> str:
        more = self._one("", "", ", reduction='sum'", ", reduction='none'")
        return f"F.{self._one(*LOSSES.split())}({self._one(*FLOATS)}, {self._one(*FLOATS)}{more})"

    def _binary(self) -> str:
        left, right = self._one(*ANY, "a4", *FLOATS), self._one(*ANY, *FLOATS, *NUMBERS)
        if right not in NUMBERS and self._draw.random() < 0.3:
            right = left
        return f"torch.{self._one(*BINARY.split())}({left}, {right})"

    def _unary(self) -> str:
        return f"torch.{self._one(*UNARY.split())}({self._one('a4', 'a4', 'a4[3:6]', *ANY)})"

    def _fold(self) -> str:
        name, operand = (
            self._one(*FOLDS.split()),
            self._one(*ANY, "a16", "a4", "a4[:1]", "a1.t()", "a0 * 1e300", "a3 * 3e38"),
        )
        if name == "flip":
            return f"{operand}.flip([{self._one(0, -1)}])"
        dim = self._one(", 0", ", -1", ", 1") if name in NEED_DIM or self._draw.random() < 0.5 else ""
        if name in ("trapezoid", "cumulative_trapezoid", "unique_consecutive"):
            dim = ""
        if name in ("softmax", "log_softmax"):
            dim = self._one(", 0", ", -1")
        return f"torch.{name}({operand}{dim})"

    def _numbers(self) -> str:
        left, right = self._one(2, -3, 0.5, True, 7, -0.0), self._one(-3, 2, 0.5, 3, True)
        op = self._one("**", "//", "%", "-", "/", "min", "max", "round")
        if op in ("min", "max"):
            return f"{op}({left}, {right})"
        if op == "round":
            return f"round({left} * {right})"
        return f"({left}) {op} ({right})"

    def _overwritten(self) -> str:
        """A value with an infinite slope that control flow replaces."""
        name, x = f"v{len(self.lines)}", self._one("a0", "a1", "a2", "a3")
        bad, good = self._one(*BAD).replace("{}", x), self._one(*GOOD).format(x)
        test = self._one("bool(a6)", "a0.numel() == 3", "bool((a0 > 0).any())", "a10.size(0) > 1", "int(a13) < 0")
        form = self._one("if", "else", "loop", "choice", "while", "twice", "list")
        texts = {
            "if": [f"{name} = {bad}", f"if {test}:", f"    {name} = {good}"],
            "else": [f"if {test}:", f"    {name} = {good}", "else:", f"    {name} = {bad}"],
            "loop": [f"{name} = {bad}", "for i in range(3):", f"    if i != 1:\n        {name} = {good}"],
            "choice": [f"{name} = {bad}", f"{name} = {good} if {test} else {name}"],
            "while": [
                *(f"{name} = {bad}", f"n{name} = 0", f"while n{name} < 2:"),
                *(f"    {name} = {good}", f"    n{name} += 1"),
            ],
            "twice": [
                *(f"{name} = {bad}", f"if {test}:", f"    {name} = {bad}"),
                *(f"if {test}:", f"    {name} = {good}"),
            ],
            "list": [f"l{name} = [{bad}, {good}]", f"if {test}:", f"    l{name}[0] = {good}", f"{name} = l{name}[0]"],
        }
        self.lines += "\n".join(texts[form]).split("\n")
        return name

    def _filled(self) -> str:
        like, number = self._one("a0", "a5", "a8", "a9", "a13", "a14"), self._one(*NUMBERS)
        kind = self._one("torch.full_like({0}, {1})", "{0}.new_full([2], {1})", "torch.full([2], {1})")
        kind = self._one(kind, "torch.fill({0}, {1})", "{0}.clamp({1})", "{0}.clamp(max={1})", "torch.full([], {1})")
        return kind.format(like, number)

    def _product(self) -> str:
        left, right = self._one(*ROWS, "a8", "a5", "a2", "a11"), self._one(*ROWS, "a10", "a2", "a15", "a11")
        form = self._one("i,i->i", "i,j->ij", "i,i->", "i,j->", ",->", "i,->i")
        return self._one(
            f"torch.einsum('{form}', {left}, {right})",
            f"torch.inner({left}, {right})",
            f"torch.tensordot({left}, {right}, 0)",
            f"torch.scatter_reduce(a0, 0, a10, {self._one('a0', 'a0 * 2')}, {self._one('mean', 'prod', 'amax')!r})",
            f"torch.scatter_reduce(a2, 0, a10[0], a2, {self._one('mean', 'sum', 'amin')!r})",
            f"torch.matmul({left}, {right})",
        )

    def _turned(self) -> str:
        x = self._one("a0", "a1", "a3", "a14", "a9")
        inner = self._one("torch.cumsum({}, -1)", "torch.sort({}, -1)[0]", "{}.flip([0])", "torch.cumprod({}, 0)")
        outer = self._one("{}.flip([-1])", "torch.cumsum({}, 0)", "{}.cummax(0)[0]", "torch.diff({})", "{}.roll(1, 0)")
        return outer.format(inner.format(x))


def source_of(lines: Sequence[str], results: Sequence[str]) -> tuple[str, list[str]]:
    """The program, and which tensors it takes."""
    body = "\n".join([*lines, *results])
    names = [n for n in TENSORS if f"{n}" in _words(body)] or ["a0"]
    head = f"def f({', '.join(f'{n}: Tensor' for n in names)}):"
    given = "(" + ", ".join(results) + ")" if len(results) > 1 else results[0]
    return "\n".join([head, *(f"    {line}" for line in lines), f"    return {given}"]), names


def _words(text: str) -> set[str]:
    return set("".join(c if c.isalnum() else " " for c in text).split())


def asked_of(lines: Sequence[str], results: Sequence[str], orders: int = 2) -> Asked:
    source, names = source_of(lines, results)
    space: dict[str, Any] = {"torch": torch, "F": torch.nn.functional, "Tensor": torch.Tensor}
    exec(source, space)
    values = [TENSORS[name]() for name in names]
    op = SimpleNamespace(op=space["f"], name="program", variant_test_name="")
    return Asked(op, Case(source, values, SampleInput(values[0], args=tuple(values[1:]))), "float64", orders)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--size", type=int, default=4, help="calls of a program")
    parser.add_argument("--roads", default="arrays,tensors,arrays in C,tensors in C")
    options = parser.parse_args()
    roads = options.roads.split(",")
    counts: Counter[str] = Counter()
    signal.signal(signal.SIGALRM, _too_long)
    with ExitStack() as stack:
        if roads == ["kernels"]:
            import pytest

            stack.enter_context(kernel_device(pytest.MonkeyPatch()))
        for seed in range(options.start, options.start + options.count):
            _run(seed, options.size, roads, counts)
    for key, count in sorted(counts.items()):
        print(f"{count:6}  {key}")


def _run(seed: int, size: int, roads: Sequence[str], counts: Counter[str]) -> None:
    """Each call alone first, on one road, op by op or by kernels; those that are equal together on every road."""
    written = Writer(seed, size)
    kept = []
    alone = "kernels" if roads == ["kernels"] else "arrays"
    for result in written.results:
        lines = written.lines if result.startswith("v") else []
        counts["calls"] += 1
        kind = _told(seed, asked_of(lines, [result]), alone, counts, "alone, ")
        if kind == EQUAL and _is_taken(lines, result):
            kept.append(result)
    if not kept:
        return
    for road in roads:
        _told(seed, asked_of(written.lines, kept), road, counts, "")


def _is_taken(lines: Sequence[str], result: str) -> bool:
    return asked_of(lines, [result], 0).eager.failure is None


def _told(seed: int, asked: Asked, road: str, counts: Counter[str], prefix: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kind, text = outcome(asked, road)
    counts[f"{prefix}{road}: {kind}"] += 1
    if kind != EQUAL:
        mark = "  " if kind in (LACKING, REFUSED) else "T " if kind == TAKEN else "! "
        print(
            f"{mark}{seed} {road}: {kind}: {text[:150]} | {asked.made.source.partition(chr(10))[2].strip()}", flush=True
        )
    return kind


def _too_long(*_: Any) -> None:
    raise TooLong


if __name__ == "__main__":
    main()
