"""Random numbers: seeds that are drawn, and pure functions of a seed that give numbers.

    seed = gs.seed()                               the next seed of the generator in force: this alone is random
    u = gs.uniform(seed, x.size())                 a pure function: the same seed gives the same numbers again

So a mask need not be kept for a backward: its seed is, and the mask is made again. Element i (row-major) of what a
seed gives is made of word i mod 4 of the block that Philox-4x32-10 has at the counter (n mod 2^32, n div 2^32, s, 0),
n = i div 4, under the key (seed mod 2^32, seed div 2^32), the seed taken modulo 2^64. s is the subsequence, 0 unless
another is asked for: numbers of other subsequences are independent. So element i is number i that cuRAND's
`curandStatePhilox4_32_10_t` gives after `curand_init(seed, s, 0)`, and a word of `tl.randint4x(seed, n)` in a Triton
kernel; four neighbours cost one block, and it does not depend on who asks. Source: Salmon, Moraes, Dror and Shaw 2011,
"Parallel random numbers: as easy as 1, 2, 3", section 3.3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from ...ops import rules, shapes
from ...types.dtypes import BY_CODE, FLOAT32, INT64, DType
from ...types.lazy_numpy import np
from ..arguments import Arguments
from ..arrays import Array, cast, numpy_dtype
from ..composite import composite
from ..draw import draw_seed
from ..registry import Trait, declare

SEEDED = frozenset(("gs::uniform", "gs::random_bits"))
"""Ops that make numbers of a seed."""
ROUNDS = 10
PHILOX_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
"""Of the words 0 and 2. Source: Salmon et al. 2011, as are the next two."""
PHILOX_STEPS = (0x9E3779B9, 0xBB67AE85)
"""What the halves of the key grow by each round."""
_LOW, _HALF = 0xFFFFFFFF, 32
_TOGETHER = 1 << 16
"""Elements made at a time, a multiple of 4: their temporaries stay in the cache."""
UNIT_OF_UNIFORM = 4.6566127342e-10
"""The largest float32 whose product with 2^31 is below 1."""


def philox(seed: int, counters: Array, subsequence: int = 0) -> Array:
    """The four words, as uint64 below 2^32, of the Philox blocks at integer counters: [..., 4]."""
    wide = counters.astype(np.uint64)
    key = [seed & _LOW, seed >> _HALF & _LOW]
    low, half = np.uint64(_LOW), np.uint64(_HALF)
    first, second = map(np.uint64, PHILOX_MULTIPLIERS)
    words: list[Array] = [wide & low, wide >> half, np.full_like(wide, subsequence), np.zeros_like(wide)]
    for _ in range(ROUNDS):
        left, right = words[0] * first, words[2] * second
        words = [
            (right >> half) ^ words[1] ^ np.uint64(key[0]),
            right & low,
            (left >> half) ^ words[3] ^ np.uint64(key[1]),
            left & low,
        ]
        key = [(part + step) & _LOW for part, step in zip(key, PHILOX_STEPS, strict=True)]
    return np.stack(words, -1)


def bits_at(seed: int, places: Array, subsequence: int = 0) -> Array:
    """The words, as uint64 below 2^32, that elements at integer places are made of."""
    words = philox(seed, places >> 2, subsequence)
    return np.asarray(np.take_along_axis(words, (places & 3)[..., None], -1)[..., 0])


def uniform_at(seed: int, places: Array, subsequence: int = 0) -> Array:
    """The float32 numbers in [0, 1) of elements at integer places, in their shape."""
    return _unit_interval(bits_at(seed, places, subsequence))


def _unit_interval(words: Array) -> Array:
    """A word's magnitude as a signed number, in units of 2^-31; a negative one means its complement, as in Triton."""
    signed = words.astype(np.uint32).view(np.int32)
    return np.asarray((signed ^ (signed >> 31)).astype(np.float32) * np.float32(UNIT_OF_UNIFORM))


def _integers(words: Array) -> Array:
    return words.astype(np.int64)


def _require_subsequence(subsequence: int) -> None:
    if not 0 <= subsequence <= _LOW:
        raise RuntimeError(f"subsequences are numbered from 0 to 2^32 - 1, so that {subsequence} is none")


def _elements(seed: int, size: Sequence[int], subsequence: int, dtype: DType, make: Callable[[Array], Array]) -> Array:
    """A tensor of a size, made of words, some blocks at a time."""
    if any(s < 0 for s in size):
        raise RuntimeError(f"Trying to create tensor with negative dimension: {list(size)}")
    _require_subsequence(subsequence)
    count = prod(size)
    result: Array = np.empty(count, numpy_dtype(dtype))
    for start in range(0, count, _TOGETHER):
        stop = min(start + _TOGETHER, count)
        words = philox(seed, np.arange(start // 4, -(-stop // 4)), subsequence)
        result[start:stop] = make(words.reshape(-1)[: stop - start])
    return result.reshape(tuple(size))


def _uniform_dtype(dtype: int | None) -> DType:
    wanted = FLOAT32 if dtype is None else BY_CODE[dtype]
    if not wanted.is_floating:
        raise RuntimeError(f"uniform: numbers in [0, 1) are of a floating dtype, not {wanted}")
    return wanted


def _uniform(seed: int, size: Sequence[int], dtype: int | None, subsequence: int) -> Array:
    wanted = _uniform_dtype(dtype)
    return cast(_elements(seed, size, subsequence, FLOAT32, _unit_interval), wanted)


def _fits_uniform(a: Arguments) -> None:
    _uniform_dtype(a["dtype"])
    _require_subsequence(a["subsequence"])


def _fits_random_bits(a: Arguments) -> None:
    _require_subsequence(a["subsequence"])


def _random_bits(seed: int, size: Sequence[int], subsequence: int) -> Array:
    return _elements(seed, size, subsequence, INT64, _integers)


declare("gs::seed() -> int", draw_seed, traits=Trait.RANDOM)
declare(
    "gs::uniform(int seed, int[] size, *, ScalarType? dtype=None, int subsequence=0) -> Tensor",
    _uniform,
    traits=Trait.NONDIFFERENTIABLE,
    result=rules.unless_asked(2, rules.fixed(FLOAT32)),
    shape=shapes.sized("size"),
    fits=_fits_uniform,
)
declare(
    "gs::random_bits(int seed, int[] size, *, int subsequence=0) -> Tensor",
    _random_bits,
    traits=Trait.NONDIFFERENTIABLE,
    result=rules.fixed(INT64),
    shape=shapes.sized("size"),
    fits=_fits_random_bits,
)

_OPTIONS = "*, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None"
_LIKE = f"{_OPTIONS}, MemoryFormat? memory_format=None"
for _schema in (
    f"aten::rand(int[] size, {_OPTIONS}) -> Tensor",
    f"aten::rand_like(Tensor self, {_LIKE}) -> Tensor",
    f"aten::randn(int[] size, {_OPTIONS}) -> Tensor",
    f"aten::randn_like(Tensor self, {_LIKE}) -> Tensor",
    f"aten::randint(int high, int[] size, {_OPTIONS}) -> Tensor",
    f"aten::randint.low(int low, int high, int[] size, {_OPTIONS}) -> Tensor",
    f"aten::randint_like(Tensor self, int high, {_LIKE}) -> Tensor",
    f"aten::randint_like.low_dtype(Tensor self, int low, int high, {_LIKE}) -> Tensor",
    f"aten::randperm(int n, {_OPTIONS}) -> Tensor",
    "aten::bernoulli(Tensor self) -> Tensor",
    "aten::bernoulli.p(Tensor self, float p) -> Tensor",
    f"aten::normal.float_float(float mean, float std, int[] size, {_OPTIONS}) -> Tensor",
    "aten::multinomial(Tensor self, int num_samples, bool replacement=False) -> Tensor",
):
    composite(_schema, traits=Trait.RANDOM | Trait.NONDIFFERENTIABLE)

for _schema in (
    "aten::dropout(Tensor input, float p, bool train) -> Tensor",
    "aten::dropout.functional(Tensor input, float p=0.5, bool training=True) -> Tensor",
    "gs::dropout1d(Tensor input, float p=0.5, bool training=True) -> Tensor",
    "gs::dropout2d(Tensor input, float p=0.5, bool training=True) -> Tensor",
    "gs::dropout3d(Tensor input, float p=0.5, bool training=True) -> Tensor",
    "aten::feature_dropout(Tensor input, float p, bool train) -> Tensor",
    "gs::alpha_dropout(Tensor input, float p=0.5, bool training=False) -> Tensor",
    "gs::feature_alpha_dropout(Tensor input, float p=0.5, bool training=False) -> Tensor",
):
    # Nothing is drawn outside of training: the input itself.
    composite(_schema, traits=Trait.RANDOM | Trait.MAY_ALIAS)

for _schema in (
    "aten::native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)",
    "gs::dropout_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.,"
    " bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor",
    "aten::normal.Tensor_float(Tensor mean, float std=1.) -> Tensor",
    "aten::normal.float_Tensor(float mean, Tensor std) -> Tensor",
    "aten::normal.Tensor_Tensor(Tensor mean, Tensor std) -> Tensor",
    "gs::rrelu(Tensor input, float lower=0.125, float upper=0.3333333333333333, bool training=False) -> Tensor",
):
    composite(_schema, traits=Trait.RANDOM)

for _schema in (
    "gs::seeded_dropout(Tensor input, float p, int seed, int[]? size=None) -> Tensor",
    "gs::seeded_rrelu(Tensor input, float lower, float upper, int seed) -> Tensor",
):
    composite(_schema)
