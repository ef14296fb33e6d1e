"""Functions that Triton has without a device's library, so that its interpreter runs what a GPU does."""

from __future__ import annotations

import re

_LIBRARY = re.compile(r"\blibdevice\.(\w+)(?=\()")
_SAME = frozenset(("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "erf", "floor", "ceil"))
"""Those of triton.language under the same name."""
_HELPERS = {
    "tanh": '''
@triton.jit
def _tanh(x):
    """The hyperbolic tangent: a polynomial near 0, where the quotient would lose digits."""
    square = x * x
    series = 0.13331422036 + square * (-0.053739715553 + square * (0.020639088795 + square * -0.0057049887275))
    near = x + x * square * (-0.33333281942 + square * series)
    decayed = tl.exp(-2.0 * tl.abs(x))
    far = (1.0 - decayed) / (1.0 + decayed)
    return tl.where(tl.abs(x) < 0.625, near, tl.where(x < 0, -far, far))
''',
    "log1p": '''
@triton.jit
def _log1p(x):
    """log(1 + x), by what 1 + x was rounded to."""
    whole = 1.0 + x
    rest = tl.where(whole == 1.0, 1.0, whole - 1.0)
    found = tl.log(whole) * (x / rest)
    return tl.where(whole == 1.0, x, tl.where(tl.abs(x) == float("inf"), tl.log(whole), found))
''',
    "expm1": '''
@triton.jit
def _expm1(x):
    """exp(x) - 1: a series near 0."""
    series = 1.0 + x * (0.5 + x * (0.16666667 + x * (0.041666668 + x * (0.008333334 + x * 0.0013888889))))
    return tl.where(tl.abs(x) < 0.3, x * series, tl.exp(x) - 1.0)
''',
    "trunc": '''
@triton.jit
def _trunc(x):
    """Towards zero."""
    return tl.where(x < 0, tl.ceil(x), tl.floor(x))
''',
    "nearbyint": '''
@triton.jit
def _nearbyint(x):
    """To the nearest whole number, ties to even."""
    up = tl.floor(x + 0.5)
    is_odd = up - 2.0 * tl.floor(up * 0.5) != 0.0
    return tl.where((up - x == 0.5) & is_odd, up - 1.0, up)
''',
}
_FORMS = {"fast_dividef": "tl.fdiv"}


def without_library(text: str, helpers: dict[str, None]) -> str:
    """The text with what Triton has itself in a library's place. `helpers` takes texts to stand in front of it."""

    def named(found: re.Match[str]) -> str:
        name = found[1]
        if name in _SAME:
            return f"tl.{name}"
        if name in _HELPERS:
            helpers[_HELPERS[name].strip("\n")] = None
            return f"_{name}"
        return _FORMS.get(name, found[0])

    return _LIBRARY.sub(named, text)
