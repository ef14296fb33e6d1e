"""Special functions, element by element: torch.special and its older spellings."""

from __future__ import annotations

import math
from typing import Any

from ...ops import scalar as s
from ..elementwise import pointwise
from ..scalar import Scalar
from .pointwise import binary

MIXED = ("", "other_scalar", "self_scalar")


def _logit(x: Scalar, eps: Any) -> Scalar:
    """log(x / (1 - x)), x clamped to [eps, 1 - eps] where eps is given; NaN stays NaN."""
    if eps is not None:
        x = s.where(x < eps, eps, s.where(x > 1 - eps, 1 - eps, x))
    return s.log(x / (1 - x))


def _x_times(x: Scalar, y: Scalar, log_y: Scalar) -> Scalar:
    """x * log_y, but 0 where x is 0, whatever the logarithm, unless y is NaN."""
    return s.where(s.isnan(y), y, s.where(x == 0, 0, x * log_y))


def _polygamma(n: int, x: Scalar) -> Scalar:
    """Derivative number n of digamma."""
    if n < 0:
        raise ValueError(f"polygamma: the order is at least 0, not {n}")
    # From 171! on it is infinite in float64, and takes as long to find as it has digits.
    factorial = float(math.factorial(n)) if n <= 170 else math.inf
    if n == 0:
        return s.digamma(x)
    found = (-1.0) ** (n + 1) * factorial * s.zeta(float(n + 1), x)
    # torch has an algorithm of its own for the first derivative, whose ends are 0 and NaN.
    return s.where(x == math.inf, 0, s.where(x == -math.inf, math.nan, found)) if n == 1 else found


def _sinc(x: Scalar) -> Scalar:
    """sin(pi x) / (pi x), 1 at 0."""
    angle = x * math.pi
    return s.where(x == 0, 1, s.sin(angle) / angle)


def _entropy(x: Scalar) -> Scalar:
    """-x log x, 0 at 0, -inf below."""
    return s.where(s.isnan(x), x, s.where(x > 0, -x * s.log(x), s.where(x == 0, 0, -math.inf)))


pointwise("aten::erf(Tensor self) -> Tensor", s.erf, dtype="float", aliases=("special_erf",))
pointwise("aten::erfc(Tensor self) -> Tensor", s.erfc, dtype="float", aliases=("special_erfc",))
pointwise("aten::erfinv(Tensor self) -> Tensor", s.erfinv, dtype="float", aliases=("special_erfinv",))
pointwise("aten::special_erfcx(Tensor self) -> Tensor", s.erfcx, dtype="float")
pointwise("aten::special_ndtr(Tensor self) -> Tensor", s.ndtr, dtype="float")
pointwise("aten::special_ndtri(Tensor self) -> Tensor", s.ndtri, dtype="float")
pointwise("aten::special_log_ndtr(Tensor self) -> Tensor", s.log_ndtr, dtype="float")
pointwise("aten::special_entr(Tensor self) -> Tensor", _entropy, dtype="float")
pointwise("aten::lgamma(Tensor self) -> Tensor", s.lgamma, dtype="float", aliases=("special_gammaln",))
pointwise("aten::digamma(Tensor self) -> Tensor", s.digamma, dtype="float", aliases=("special_digamma", "special_psi"))
pointwise("aten::polygamma(int n, Tensor self) -> Tensor", _polygamma, dtype="float", aliases=("special_polygamma",))
binary("special_zeta", s.zeta, dtype="float", overloads=MIXED)
pointwise("aten::i0(Tensor self) -> Tensor", s.bessel_i0, dtype="float", aliases=("special_i0",))
pointwise("aten::special_i0e(Tensor self) -> Tensor", s.bessel_i0e, dtype="float")
pointwise("aten::special_i1(Tensor self) -> Tensor", s.bessel_i1, dtype="float")
pointwise("aten::special_i1e(Tensor self) -> Tensor", s.bessel_i1e, dtype="float")
pointwise("aten::sinc(Tensor self) -> Tensor", _sinc, dtype="float", aliases=("special_sinc",))
pointwise(
    "aten::logit(Tensor self, float? eps=None) -> Tensor",
    _logit,
    dtype="float",
    aliases=("special_logit",),
    elements=("eps",),
)
binary(
    "xlogy",
    lambda x, y: _x_times(x, y, s.log(y)),
    dtype="float",
    overloads=("Tensor", "Scalar_Other", "Scalar_Self"),
    aliases=("special_xlogy",),
    rounded=True,
)
binary(
    "special_xlog1py",
    lambda x, y: _x_times(x, y, s.log1p(y)),
    dtype="float",
    overloads=MIXED,
    aliases=("xlog1py",),
    rounded=True,
)
