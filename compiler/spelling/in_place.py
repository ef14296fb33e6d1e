"""What torch writes in place, by the op's name with `_` behind it. Held to torch itself by a test."""

from __future__ import annotations

from .names import MODULES

_NAMES = """
    abs absolute acos acosh add addbmm addcdiv addcmul addmm addmv addr arccos arccosh arcsin arcsinh arctan arctan2
    arctanh asin asinh atan atan2 atanh baddbmm bernoulli bitwise_and bitwise_left_shift bitwise_not bitwise_or
    bitwise_right_shift bitwise_xor ceil clamp clamp_max clamp_min clip conj_physical copy copysign cos cosh cumprod
    cumsum deg2rad detach digamma div divide eq erf erfc erfinv exp exp2 expm1 fill fix float_power floor
    floor_divide fmod frac gcd ge greater greater_equal gt heaviside hypot i0 index_add index_copy index_fill
    index_put index_reduce lcm ldexp le lerp less less_equal lgamma log log10 log1p log2 logical_and logical_not
    logical_or logical_xor logit lt masked_fill masked_scatter mul multiply mvlgamma nan_to_num ne neg negative
    nextafter normal not_equal polygamma pow put rad2deg reciprocal relu remainder renorm requires_grad round rsqrt
    scatter scatter_add scatter_reduce sgn sigmoid sign sin sinc sinh sqrt square squeeze sub subtract swapaxes
    swapdims t tan tanh transpose tril triu true_divide trunc uniform unsqueeze xlogy zero
"""

IN_PLACE = frozenset(_NAMES.split())
"""The ops of which it has a method, by their names without it."""
_FUNCTIONS = {
    "": """
        abs acos acosh addmv alpha_dropout arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh ceil celu
        clamp clamp_max clamp_min clip conj_physical cos cosh deg2rad detach dropout erf erfc exp exp2 expm1
        feature_alpha_dropout feature_dropout fill fix floor frac gcd i0 index_put lcm ldexp log log10 log1p log2 logit
        nan_to_num neg negative rad2deg reciprocal relu round rrelu rsqrt selu sigmoid sin sinc sinh sqrt square tan
        tanh threshold trunc xlogy zero
    """,
    "functional_": "celu elu hardtanh leaky_relu relu rrelu selu threshold",
}


def writes(module: str, name: str) -> bool:
    """Whether torch has a function of a module, which is one of MODULES, that writes what the op gives."""
    return name in IN_PLACE if module == "torch.Tensor" else name in _FUNCTIONS.get(MODULES[module], "").split()
