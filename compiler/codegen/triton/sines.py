"""Sines and cosines of float32 as helpers of generated modules: of an angle, or both of one.

An angle is taken less the nearest multiple of pi (or pi / 2, for both) in three parts, each rounded towards zero, so
that fused operations lose nothing up to 100,000; then follows a minimax polynomial. Results are within 2.4 units in the
last place, zeros keep their sign, and infinities give NaN. Source of the reduction: Cody and Waite 1980, "Software
manual for the elementary functions", chapter 8.

Larger angles go another way, that of libdevice, whose bits of pi would burden every element: whether there is one is
asked once of a tile, of several angles together. What an element is does not depend on others.
"""

from __future__ import annotations

from collections.abc import Sequence

LIMIT = 100_000.0
"""The largest angle that three parts of pi are enough for."""
_POLYNOMIALS = {
    "sin": "2.605750751172309e-06 -0.0001980959059437737 0.00833306647837162 -0.16666659712791443",
    "coarse_sin": "-0.00018541964527685195 0.008314266800880432 -0.16665852069854736",
    "half_sin": "-0.00019515218446031213 0.00833216030150652 -0.16666655242443085",
    "coarse_half_sin": "0.00816324818879366 -0.16663388907909393",
    "half_cos": "-0.0013591793831437826 0.0416557714343071 -0.4999988377094269",
}
"""In the square of the rest, the highest power first, of (f(r) / r - 1) / r² for sines and (f(r) - 1) / r² for cosines.
Minimax in the relative error, on [-pi / 2, pi / 2], or `half` of it; that is 2^-27, 2^-19, 2^-28, 2^-19 and 2^-24."""


def _horner(name: str, result: str) -> list[str]:
    """Lines that make a polynomial of `square`, times it and plus 1."""
    first, second, *others = _POLYNOMIALS[name].split()
    lines = [f"{result} = {second} + square * {first}"]
    return [*lines, *(f"{result} = {term} + square * {result}" for term in [*others, "1.0"])]


def _function(head: str, text: str, lines: list[str]) -> str:
    return "\n".join([f"def {head}:", f'    """{text}"""', *(f"    {line}" for line in lines)])


_LESS_PI = [
    "r = tl.fma(turns, -3.141592502593994, x)",
    "r = tl.fma(turns, -1.5099578831723193e-07, r)",
    "r = tl.fma(turns, -1.078060505991553e-14, r)",
]


def _near(name: str, is_coarse: bool) -> str:
    polynomial = "coarse_sin" if is_coarse else "sin"
    if name == "sin":
        lines = ["shifted = tl.fma(x, 0.31830987334251404, 12582912.0)", "turns = shifted - 12582912.0"]
        sign = "(shifted.to(tl.int32, bitcast=True) << 31)"
    else:
        lines = ["shifted = tl.fma(x, 0.31830987334251404, -0.5) + 12582912.0"]
        lines.append("turns = (shifted - 12582912.0) + 0.5")
        sign = "((shifted.to(tl.int32, bitcast=True) << 31) ^ -2147483648)"
    lines += [*_LESS_PI, "square = r * r", *_horner(polynomial, "p")]
    lines += [f"signed = r.to(tl.int32, bitcast=True) ^ {sign}", "return signed.to(tl.float32, bitcast=True) * p"]
    text = f"{name}(x) of no more than 100,000{', to 2 ** -16 of it' * is_coarse}."
    return _function(f"_{'coarse_' * is_coarse}near_{name}(x)", text, lines)


def _near_both(is_coarse: bool) -> str:
    lines = [
        "shifted = tl.fma(x, 0.6366197466850281, 12582912.0)",
        "turns = shifted - 12582912.0",
        "r = tl.fma(turns, -1.570796251296997, x)",
        "r = tl.fma(turns, -7.549789415861596e-08, r)",
        "r = tl.fma(turns, -5.390302529957765e-15, r)",
        "square = r * r",
        *_horner("coarse_half_sin" if is_coarse else "half_sin", "s"),
        "s *= r",
        *_horner("half_cos", "c"),
        "quarter = shifted.to(tl.int32, bitcast=True)",
        "is_odd = (quarter & 1) != 0",
        "sine = tl.where(is_odd, c, s).to(tl.int32, bitcast=True) ^ ((quarter << 30) & -2147483648)",
        "cosine = tl.where(is_odd, s, c).to(tl.int32, bitcast=True) ^ (((quarter + 1) << 30) & -2147483648)",
        "return sine.to(tl.float32, bitcast=True), cosine.to(tl.float32, bitcast=True)",
    ]
    text = f"Sine and cosine of no more than 100,000{', to 2 ** -16 of them' * is_coarse}."
    return _function(f"_{'coarse_' * is_coarse}near_sin_cos(x)", text, lines)


def is_far(angles: Sequence[str]) -> str:
    """Text: whether a tile of one of some angles has one that is too large."""
    largest = f"tl.abs({angles[0]})"
    for angle in angles[1:]:
        largest = f"tl.maximum({largest}, tl.abs({angle}))"
    return f"tl.max({largest}, axis=None) > {LIMIT}"


def _anywhere(name: str, is_coarse: bool) -> str:
    coarse = "coarse_" * is_coarse
    lines = [
        f"result = _{coarse}near_{name}(x)",
        "if is_far:",
        f"    result = tl.where(tl.abs(x) > {LIMIT}, libdevice.{name}(x), result)",
        "return result",
    ]
    return _function(f"_{coarse}{name}(x, is_far)", f"{name}(x); of a tile with large angles where `is_far`.", lines)


def _both_anywhere(is_coarse: bool) -> str:
    coarse = "coarse_" * is_coarse
    lines = [
        f"sine, cosine = _{coarse}near_sin_cos(x)",
        "if is_far:",
        f"    sine = tl.where(tl.abs(x) > {LIMIT}, libdevice.sin(x), sine)",
        f"    cosine = tl.where(tl.abs(x) > {LIMIT}, libdevice.cos(x), cosine)",
        "return sine, cosine",
    ]
    text = "Sine and cosine; of a tile with large angles where `is_far`."
    return _function(f"_{coarse}sin_cos(x, is_far)", text, lines)


SINES: dict[str, str] = {}
for _coarse in (False, True):
    _prefix = "_coarse" * _coarse
    for _name in ("sin", "cos"):
        SINES[f"{_prefix}_near_{_name}"] = _near(_name, _coarse)
        SINES[f"{_prefix}_{_name}"] = _anywhere(_name, _coarse)
    SINES[f"{_prefix}_near_sin_cos"] = _near_both(_coarse)
    SINES[f"{_prefix}_sin_cos"] = _both_anywhere(_coarse)
ASKING = frozenset(name for name in SINES if "near" not in name)
"""Helpers that are told whether a tile has large angles."""
