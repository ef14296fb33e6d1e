"""Calls of two operands in every combination of dtypes, of tensors with and without dimensions and of numbers.

`python tests/ops/dtypes/promotion_calls.py [PATTERN]` compares dtypes and values of each with eager torch, and prints
what differs; what torch takes and ours refuses is counted.
"""

from __future__ import annotations

import itertools
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import gradscript as gs
import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

from samples.arrays import to_numpy
from samples.torch_database import DTYPES

SYMBOLS = ("+", "-", "*", "/", "//", "%", "**", "&", "|", "^", "<<", ">>", "<", "<=", ">", ">=", "==", "!=")
FUNCTIONS = (
    *("add", "sub", "mul", "div", "floor_divide", "remainder", "fmod", "pow", "float_power", "atan2", "hypot", "rsub"),
    *("copysign", "nextafter", "maximum", "minimum", "fmax", "fmin", "logaddexp", "logaddexp2", "xlogy", "heaviside"),
    *("ldexp", "bitwise_and", "bitwise_or", "bitwise_xor", "logical_and", "logical_or", "logical_xor", "isclose"),
    *("bitwise_left_shift", "bitwise_right_shift", "eq", "ne", "lt", "le", "gt", "ge", "dist", "cross", "dot"),
    *("inner", "outer", "kron", "special.xlog1py", "special.zeta", "result_type", "equal", "allclose"),
)
LOSSES = (
    *("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "kl_div", "poisson_nll_loss"),
    *("binary_cross_entropy_with_logits", "soft_margin_loss", "cross_entropy", "multilabel_soft_margin_loss"),
    *("hinge_embedding_loss", "pairwise_distance"),
)
CALLS = (
    *(f"a {symbol} b" for symbol in SYMBOLS),
    *(f"torch.{name}(a, b)" for name in FUNCTIONS),
    *(f"F.{name}(a, b)" for name in LOSSES),
    *('torch.div(a, b, rounding_mode="floor")', 'torch.div(a, b, rounding_mode="trunc")'),
    *("torch.add(a, b, alpha=2)", "torch.sub(a, b, alpha=2)", "torch.atan2(b, a)", "torch.diff(a, prepend=b)"),
    *("torch.where(a > 0, a, b)", "torch.where(b > 0, b, a)", "torch.clamp(a, b)", "torch.clamp(a, max=b)"),
    *(
        "torch.lerp(a, b, 0.5)",
        "torch.addcmul(a, b, a)",
        "torch.addcdiv(a, b, a)",
        "torch.addcdiv(a, b, b)",
        "torch.lerp(a, a, b)",
    ),
    *("a.masked_fill(a > 0, b)", "torch.full_like(a, 1) + b", "a.type_as(b)", "torch.stack([a, b])"),
    *("torch.cat([a.reshape(-1), b.reshape(-1)])", "torch.hstack([a, b])", "a.masked_scatter(a > 0, b)"),
    *("torch.searchsorted(a, b)", "torch.bucketize(a, b)", "a.sum() + b", "a + b.sum()"),
    *("torch.cumulative_trapezoid(a, b)", "torch.trapezoid(a, b)", "torch.cdist(a[:, None], b[:, None])"),
    *('F.mse_loss(a, b, reduction="none")', 'F.kl_div(a, b, reduction="none", log_target=True)'),
    *("F.gaussian_nll_loss(a, b, torch.ones_like(a))", "F.margin_ranking_loss(a, b, torch.ones_like(a))"),
    "F.cosine_similarity(a, b, 0)",
)
REFUSED = "refused: "
NUMBERS: tuple[Any, ...] = (True, 2, 0.5)
TENSORS = [
    torch.tensor(values).to(getattr(torch, name))
    for name in DTYPES
    for values in (2, [1, 0], [2])  # 0-d, 1-d
]
CLOSE = {torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float32: 1e-5, torch.float64: 1e-9}
"""Of a result, by the least precise of the floating operands: torch rounds between the steps of what it composes."""


def operands() -> Iterator[tuple[Any, Any]]:
    """Two tensors, or a tensor and a number on either side."""
    yield from itertools.product(TENSORS, TENSORS)
    yield from itertools.product(TENSORS, NUMBERS)
    yield from itertools.product(NUMBERS, TENSORS)


def _annotation(value: Any) -> str:
    return "Tensor" if isinstance(value, torch.Tensor) else type(value).__name__


class Compared:
    """One text, compiled for each kind of operands that it meets."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._code = compile(text, "<call>", "eval")
        self._functions: dict[str, Any] = {}

    def _function(self, operands: Sequence[Any]) -> Any:
        parameters = ", ".join(f"{n}: {_annotation(v)}" for n, v in zip("ab", operands, strict=True))
        if parameters not in self._functions:
            try:
                unit = gs.CompilationUnit(f"def f({parameters}):\n    return {self.text}\n")
                self._functions[parameters] = unit.f
            except gs.CompileError as error:
                self._functions[parameters] = error
        return self._functions[parameters]

    def difference(self, a: Any, b: Any) -> str | None:
        """What ours gives otherwise than torch; None also where torch refuses."""
        try:
            expected = eval(self._code, {"torch": torch, "F": F}, {"a": a, "b": b})
        except Exception:
            expected = None
        function = self._function((a, b))
        if isinstance(function, gs.CompileError):
            return None if expected is None else f"{REFUSED}{function.message}"
        try:
            found = function(to_numpy(a), to_numpy(b))
        except gs.RuntimeFailure as error:
            return None if expected is None else f"{REFUSED}{str(error).splitlines()[0]}"
        except Exception as error:
            return f"a bare {type(error).__name__}: {error}"
        return None if expected is None else _difference(found, expected, _closeness(expected, a, b))


def _closeness(*values: Any) -> float:
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    return max((CLOSE.get(tensor.dtype, 0.0) for tensor in tensors), default=0.0)


def _difference(found: Any, expected: Any, close: float) -> str | None:
    if not isinstance(expected, torch.Tensor):
        is_dtype = isinstance(expected, torch.dtype)
        return None if is_dtype or (type(found) is type(expected) and found == expected) else f"{found}, not {expected}"
    wanted = to_numpy(expected)
    if type(found) is not np.ndarray:
        return f"{found!r}, not {expected!r}"
    if (found.dtype, found.shape) != (wanted.dtype, wanted.shape):
        return f"{found.dtype}{list(found.shape)}, not {wanted.dtype}{list(wanted.shape)}"
    close = close if expected.is_floating_point() else 0.0
    same = np.isclose(found.astype(np.float64), wanted.astype(np.float64), rtol=close, atol=close, equal_nan=True)
    return None if same.all() else f"{found}, not {wanted}"


def differences(text: str, chosen: Sequence[tuple[Any, Any]]) -> list[str]:
    """What is wrong with calls of a text, and what is refused, which begins so."""
    compared = Compared(text)
    found: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for a, b in chosen:
            wrong = compared.difference(a, b)
            if wrong:
                is_refusal = wrong.startswith(REFUSED)
                found.append(f"{REFUSED if is_refusal else ''}{text}  of {_told(a)} and {_told(b)}: {wrong}")
    return found


def _told(value: Any) -> str:
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)


def main(patterns: Sequence[str]) -> int:
    chosen, failed, refused = list(operands()), 0, 0
    texts = [text for text in CALLS if re.search(patterns[0] if patterns else "", text)]
    for text in texts:
        found = differences(text, chosen)
        refusals = [line for line in found if line.startswith(REFUSED)]
        wrong = [line for line in found if not line.startswith(REFUSED)]
        failed, refused = failed + len(wrong), refused + len(refusals)
        for line in [*wrong[:12], *refusals[:1]]:
            print(line, flush=True)
    print(f"{len(texts)} texts, {len(chosen)} pairs of operands each, {failed} differences, {refused} refusals")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
