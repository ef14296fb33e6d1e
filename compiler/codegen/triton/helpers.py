"""Functions that generated modules hold where their kernels use them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from .sines import SINES

HELPERS = {
    **SINES,
    "_sign": '''
        def _sign(x):
            """-1, 0 or 1; 0 of NaN."""
            return (x > 0).to(x.dtype) - (x < 0).to(x.dtype)
        ''',
    "_square": """
        def _square(x):
            return x * x
        """,
    "_cube": """
        def _cube(x):
            return x * x * x
        """,
    "_shift_left": '''
        def _shift_left(x, bits):
            """0 by the width or more."""
            return tl.where((bits >= 0) & (bits < x.dtype.primitive_bitwidth), x << bits, 0)
        ''',
    "_shift_right": '''
        def _shift_right(x, bits):
            """The sign by the width or more."""
            is_within = (bits >= 0) & (bits < x.dtype.primitive_bitwidth)
            return tl.where(is_within, x >> tl.where(is_within, bits, 0), 0 - (x < 0).to(x.dtype))
        ''',
    "_log_ndtr": '''
        def _log_ndtr(x):
            """Logarithm of the normal distribution function, without cancellation on either side."""
            scaled = x * 0.7071067811865476
            left = libdevice.log(libdevice.erfcx(-scaled) * 0.5) - scaled * scaled
            return tl.where(x < -1.0, left, libdevice.log1p(libdevice.erfc(scaled) * -0.5))
        ''',
    "_ndtr": '''
        def _ndtr(x):
            """The normal distribution function, to a few units in the last place on either side.

            Below 0 it is density(x) t p(t), t = 1 / (1 + 0.2625 |x|), above it 1 less that of -x.
            """
            square = x * x
            rest = tl.where(square < 1000.0, tl.fma(x, x, -square), 0.0)
            density = libdevice.exp(square * -0.5)
            t = libdevice.fast_dividef(1.0, 1.0 + 0.2625 * tl.abs(x))
            p = 0.2329869121313095 + t * (-0.14796842634677887 + t * 0.03057614155113697)
            p = 0.056477248668670654 + t * (0.1476871520280838 + t * (-0.13132502138614655 + t * p))
            p = 0.10474849492311478 + t * (0.10416214913129807 + t * (0.1026553362607956 + t * p))
            tail = (density - density * (0.5 * rest)) * (t * p)
            return tl.where(x < 0, tail, 1.0 - tail)
        ''',
    "_sigmoid": '''
        def _sigmoid(x):
            """1 / (1 + exp(-x)). In quarters, for subnormal results of the quotient are taken for 0."""
            return 0.25 * libdevice.fast_dividef(1.0, 0.25 + 0.25 * libdevice.exp(-x))
        ''',
    "_tanh": '''
        def _tanh(x):
            """1 - 2 / (1 + exp(2 |x|)) with the sign of x, or a minimax polynomial where that cancels."""
            size = tl.abs(x)
            large = 1.0 - 2.0 * libdevice.fast_dividef(1.0, 1.0 + tl.exp2(size * 2.8853900817779268))
            sign = x.to(tl.int32, bitcast=True) & -2147483648
            large = (large.to(tl.int32, bitcast=True) | sign).to(tl.float32, bitcast=True)
            square = x * x
            p = 0.13320724666118622 + square * (-0.05267181247472763 + square * 0.016437580808997154)
            p = 1.0 + square * (-0.3333294689655304 + square * p)
            return tl.where(size < 0.55, x * p, large)
        ''',
    "_coarse_exp": '''
        def _coarse_exp(x):
            """exp(x), to 2 ** -16 of it. The square of a root, for exp2 takes subnormal numbers for 0."""
            root = tl.exp2(x * 0.7213475204444817)
            return root * root
        ''',
    "_coarse_expm1": '''
        def _coarse_expm1(x):
            """exp(x) - 1, to 2 ** -16 of it; where that would cancel, the first terms of a series."""
            root = tl.exp2(x * 0.7213475204444817)
            small = x * (1.0 + x * (0.5 + x * 0.16666666666666666))
            return tl.where(tl.abs(x) < 0.0625, small, root * root - 1.0)
        ''',
    "_coarse_sigmoid": '''
        def _coarse_sigmoid(x):
            """1 / (1 + exp(-x)), to 2 ** -16 of it. In quarters, for subnormal results are taken for 0."""
            quarters = 0.25 + tl.exp2(x * -1.4426950408889634 - 2.0)
            return 0.25 * libdevice.fast_dividef(1.0, quarters)
        ''',
    "_coarse_tanh": '''
        def _coarse_tanh(x):
            """tanh(x), to 2 ** -16 of it: 1 - 2 / (1 + exp(2 x)), or x - x ** 3 / 3 where that cancels."""
            large = 1.0 - 2.0 * libdevice.fast_dividef(1.0, 1.0 + tl.exp2(x * 2.8853900817779268))
            return tl.where(tl.abs(x) < 0.0625, x * (1.0 - x * x * 0.3333333333333333), large)
        ''',
    "_coarse_quotient": '''
        def _coarse_quotient(x, y):
            """x / y, y >= 0.01, to 2 ** -16 of it. By quarters, for 1 / y is 0 above 2 ** 126."""
            return 0.25 * x * libdevice.fast_dividef(1.0, 0.25 * y)
        ''',
    "_coarse_ndtr": '''
        def _coarse_ndtr(x):
            """The normal distribution function, to 2 ** -16 of it, like `_ndtr`.

            The density is 2 ** 32 times as much and p as much less, for exp2 takes subnormals for 0.
            """
            density = tl.exp2(x * x * -0.7213475204444817 + 32.0)
            t = libdevice.fast_dividef(1.0, 1.0 + 0.3125 * tl.abs(x))
            p = 6.421664849182163e-12 + t * (3.898288636339231e-11 + t * -1.6608757771874316e-11)
            p = 2.9052914587990308e-11 + t * (2.8512150973547534e-11 + t * (3.00544658604629e-11 + t * p))
            tail = density * (t * p)
            return tl.where(x < 0, tail, 1.0 - tail)
        ''',
    "_log1p_of_share": '''
        def _log1p_of_share(x):
            """log(1 + x) of a number between 0 and 1, to a unit in the last place."""
            p = 0.04198133945465088 + x * (-0.013631469570100307 + x * 0.0020729450043290854)
            p = -0.16129335761070251 + x * (0.12467121332883835 + x * (-0.08307404816150665 + x * p))
            p = 0.33332690596580505 + x * (-0.24988579750061035 + x * (0.19897931814193726 + x * p))
            return x + x * x * (-0.49999988079071045 + x * p)
        ''',
    "_coarse_log1p_of_share": '''
        def _coarse_log1p_of_share(x):
            """log(1 + x) of a number between 0 and 1, to 2 ** -16 of it."""
            p = 0.1510276198387146 + x * (-0.06785112619400024 + x * 0.014588288962841034)
            p = -0.4999074637889862 + x * (0.33140426874160767 + x * (-0.23611339926719666 + x * p))
            return x + x * x * p
        ''',
    "_reciprocal": '''
        def _reciprocal(x):
            """1 / x as a product of two factors, so that the second one does not overflow."""
            scale = tl.where(tl.abs(x) < 1e-30, 1.2676506002282294e30, 1.0)
            return scale, tl.div_rn(1.0, x * scale)
        ''',
    "_philox": '''
        def _philox(seed, block):
            """Four numbers in [0, 1): of Philox-4x32-10 (Salmon et al. 2011) at a counter under the seed.

            `tl.rand4x` with products of 64 bits, which are one instruction where their halves are two.
            """
            c0 = block.to(tl.uint32)
            c1, c2, c3 = c0 * 0, c0 * 0, c0 * 0
            if block.dtype.primitive_bitwidth > 32:
                c1 = (block >> 32).to(tl.uint32)
            key = tl.cast(seed, tl.uint64)
            k0, k1 = key.to(tl.uint32), (key >> 32).to(tl.uint32)
            for _ in tl.static_range(10):
                left, right = c0.to(tl.uint64) * 0xD2511F53, c2.to(tl.uint64) * 0xCD9E8D57
                c0, c1 = (right >> 32).to(tl.uint32) ^ c1 ^ k0, right.to(tl.uint32)
                c2, c3 = (left >> 32).to(tl.uint32) ^ c3 ^ k1, left.to(tl.uint32)
                k0 = tl.add(k0, 0x9E3779B9, sanitize_overflow=False)
                k1 = tl.add(k1, 0xBB67AE85, sanitize_overflow=False)
            a, b = tl.uint_to_uniform_float(c0), tl.uint_to_uniform_float(c1)
            return a, b, tl.uint_to_uniform_float(c2), tl.uint_to_uniform_float(c3)
        ''',
    "_uniform": '''
        def _uniform(seed, place):
            """The number of an element at a place: one of a block that it shares with three neighbours."""
            a, b, c, d = _philox(seed, place >> 2)
            low, high = tl.where((place & 1) == 0, a, b), tl.where((place & 1) == 0, c, d)
            return tl.where((place & 2) == 0, low, high)
        ''',
    "_uniform_fours": '''
        def _uniform_fours(seed, place):
            """The numbers of elements at multiples of 4 and of the three behind each: [..., 2, 2]."""
            a, b, c, d = _philox(seed, place >> 2)
            return tl.join(tl.join(a, c), tl.join(b, d))
        ''',
    "_multiply": """
        def _multiply(a, b):
            return a * b
        """,
    "_maximum": '''
        def _maximum(a, b):
            """The larger, the second of equals (zeros keep their sign); NaN if either is."""
            return tl.where(a > b, a, tl.where(a == a, b, a))
        ''',
    "_minimum": '''
        def _minimum(a, b):
            """The smaller, the second of equals (zeros keep their sign); NaN if either is."""
            return tl.where(a < b, a, tl.where(a == a, b, a))
        ''',
    "_fmax": '''
        def _fmax(a, b):
            """The larger, the first of equals; the other where one is NaN."""
            return tl.where(b > a, b, tl.where(a == a, a, b))
        ''',
    "_fmin": '''
        def _fmin(a, b):
            """The smaller, the first of equals; the other where one is NaN."""
            return tl.where(b < a, b, tl.where(a == a, a, b))
        ''',
    "_nan_max": '''
        def _nan_max(a, b):
            """The larger; NaN if either is."""
            return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
        ''',
    "_nan_min": '''
        def _nan_min(a, b):
            """The smaller; NaN if either is."""
            return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)
        ''',
    "_first_max": '''
        def _first_max(a, i, b, j):
            """The larger of two elements and its position; the first of equals, and NaN before all."""
            better = (a > b) | ((a != a) & (b == b))
            equal = (a == b) | ((a != a) & (b != b))
            left = better | (equal & (i < j))
            return tl.where(left, a, b), tl.where(left, i, j)
        ''',
    "_first_min": '''
        def _first_min(a, i, b, j):
            """The smaller of two elements and its position; the first of equals, and NaN before all."""
            better = (a < b) | ((a != a) & (b == b))
            equal = (a == b) | ((a != a) & (b != b))
            left = better | (equal & (i < j))
            return tl.where(left, a, b), tl.where(left, i, j)
        ''',
    "_remainder": '''
        def _remainder(x, y):
            """With the sign of the divisor."""
            rest = x % y
            return tl.where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)
        ''',
    "_float_remainder": '''
        def _float_remainder(x, y):
            """With the sign of the divisor."""
            rest = libdevice.fmod(x, y)
            return tl.where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)
        ''',
    "_floor_divide": '''
        def _floor_divide(x, y):
            """The quotient rounded down."""
            inexact = (x % y != 0) & ((x < 0) != (y < 0))
            return x // y - inexact.to(x.dtype)
        ''',
    "_float_floor_divide": '''
        def _float_floor_divide(x, y):
            """The quotient rounded down, from the exact remainder."""
            rest = libdevice.fmod(x, y)
            below = (rest != 0) & ((rest < 0) != (y < 0))
            quotient = tl.div_rn(x - rest, y) - below.to(x.dtype)
            return tl.where(y == 0, tl.div_rn(x, y), tl.floor(quotient + 0.5))
        ''',
    "_double_floor_divide": '''
        def _double_floor_divide(x, y):
            """The quotient rounded down, from the exact remainder."""
            rest = libdevice.fmod(x, y)
            below = (rest != 0) & ((rest < 0) != (y < 0))
            quotient = (x - rest) / y - below.to(x.dtype)
            return tl.where(y == 0, x / y, tl.floor(quotient + 0.5))
        ''',
}
"""Functions that a module holds where its kernel uses them, each under a name of its own in every module."""


def asked_of_dtypes(name: str) -> list[bool]:
    """Of each parameter of a helper whether it asks for its dtype, which a plain number has not."""
    text = HELPERS[name]
    named = re.search(r"def \w+\((.*?)\)", text)
    return [f"{parameter}.dtype" in text for parameter in named[1].split(", ")] if named else []


def with_mentioned(names: Iterable[str]) -> list[str]:
    """Helpers, each behind those that it calls."""
    found: dict[str, None] = {}

    def add(name: str) -> None:
        for other in re.findall(r"\b_\w+", HELPERS[name]):
            if other in HELPERS and other != name:
                add(other)
        found[name] = None

    for name in names:
        add(name)
    return list(found)
