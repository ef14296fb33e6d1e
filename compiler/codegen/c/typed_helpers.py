"""Helpers of kernels in C that there are once for each dtype, T: `_S` stands for its ending, `F` for that of math.h."""

from __future__ import annotations

OF_FLOATS: dict[str, str] = {
    "lane_sum": """
        /* What all lanes have, added up by halves. */
        INLINE T gs_lane_sum_S(const T *lanes, int count)
        {
            T sums[32] __attribute__((aligned(64)));
            #pragma omp simd
            for (int k = 0; k < 32; ++k) sums[k] = count > 32 ? lanes[k] + lanes[k + 32] : k < count ? lanes[k] : 0;
            #pragma omp simd
            for (int k = 0; k < 16; ++k) sums[k] += sums[k + 16];
            #pragma omp simd
            for (int k = 0; k < 8; ++k) sums[k] += sums[k + 8];
            #pragma omp simd
            for (int k = 0; k < 4; ++k) sums[k] += sums[k + 4];
            return (sums[0] + sums[2]) + (sums[1] + sums[3]);
        }
        """,
    "order": """
        /* An integer that is larger where the number is; for NaN the one that is given. */
        INLINE intBITS_t gs_order_S(T x, intBITS_t of_nan)
        {
            const union { T number; intBITS_t bits; } word = {x};
            const intBITS_t order = word.bits ^ (word.bits >> (BITS - 1) & INTBITS_MAX);
            return x != x ? of_nan : order;
        }
        """,
    "of_order": """
        INLINE T gs_of_order_S(intBITS_t order)
        {
            const union { intBITS_t bits; T number; } word = {order ^ (order >> (BITS - 1) & INTBITS_MAX)};
            return word.number;
        }
        """,
    "sign": """
        INLINE T gs_sign_S(T x)
        {
            return (T)((x > 0) - (x < 0));
        }
        """,
    "maximum": """
        /* The larger, the second of equals; NaN if either is. Asked of b, or gcc branches on what a was chosen by. */
        INLINE T gs_maximum_S(T a, T b)
        {
            return (a <= b) | (b != b) ? b : a;
        }
        """,
    "minimum": """
        /* The smaller, the second of equals; NaN if either is. */
        INLINE T gs_minimum_S(T a, T b)
        {
            return (a >= b) | (b != b) ? b : a;
        }
        """,
    "fmax": """
        /* The larger, the first of equals; the other where one is NaN. */
        INLINE T gs_fmax_S(T a, T b)
        {
            return (b > a) | (a != a) ? b : a;
        }
        """,
    "fmin": """
        /* The smaller, the first of equals; the other where one is NaN. */
        INLINE T gs_fmin_S(T a, T b)
        {
            return (b < a) | (a != a) ? b : a;
        }
        """,
    "remainder": """
        /* With the sign of the divisor. */
        INLINE T gs_remainder_S(T x, T y)
        {
            const T rest = fmodF(x, y);
            return (rest != 0) & ((rest < 0) != (y < 0)) ? rest + y : rest;
        }
        """,
    "floordiv": """
        /* The quotient rounded down, from the exact remainder. */
        INLINE T gs_floordiv_S(T x, T y)
        {
            const T rest = fmodF(x, y);
            const T below = (rest != 0) & ((rest < 0) != (y < 0)) ? 1 : 0;
            const T quotient = (x - rest) / y - below;
            const T rounded = quotient != 0 ? floorF(quotient + (T)0.5) : copysignF(0, x / y);
            return y == 0 ? x / y : rounded;
        }
        """,
    "truncdiv": """
        INLINE T gs_truncdiv_S(T x, T y)
        {
            return truncF(x / y);
        }
        """,
    "isnan": """
        INLINE bool gs_isnan_S(T x)
        {
            return x != x;
        }
        """,
    "isinf": """
        INLINE bool gs_isinf_S(T x)
        {
            return fabsF(x) == INFINITY;
        }
        """,
    "signbit": """
        INLINE bool gs_signbit_S(T x)
        {
            return copysignF(1, x) < 0;
        }
        """,
    "first_max": """
        /* Whether an element is before the largest so far; NaN is before all, and of equals the first. */
        INLINE bool gs_first_max_S(T x, T largest)
        {
            return (x > largest) | ((x != x) & (largest == largest));
        }
        """,
    "first_min": """
        /* Whether an element is before the smallest so far; NaN is before all, and of equals the first. */
        INLINE bool gs_first_min_S(T x, T smallest)
        {
            return (x < smallest) | ((x != x) & (smallest == smallest));
        }
        """,
}
OF_INTEGERS: dict[str, str] = {
    "abs": """
        INLINE T gs_abs_S(T x)
        {
            return (T)(x < 0 ? -x : x);
        }
        """,
    "sign": OF_FLOATS["sign"],
    "maximum": """
        INLINE T gs_maximum_S(T a, T b)
        {
            return a > b ? a : b;
        }
        """,
    "minimum": """
        INLINE T gs_minimum_S(T a, T b)
        {
            return a < b ? a : b;
        }
        """,
    "floordiv": """
        /* The quotient rounded down; 0 for a divisor of 0. */
        INLINE T gs_floordiv_S(T x, T y)
        {
            const T divisor = y == 0 || ((T)-1 < 0 && y == (T)-1) ? 1 : y;
            const T quotient = (T)(x / divisor - ((x % divisor != 0) & ((x < 0) != (divisor < 0))));
            return y == 0 ? 0 : (T)-1 < 0 && y == (T)-1 ? (T)-x : quotient;
        }
        """,
    "truncdiv": """
        /* The quotient rounded towards zero; 0 for a divisor of 0. */
        INLINE T gs_truncdiv_S(T x, T y)
        {
            const T divisor = y == 0 || ((T)-1 < 0 && y == (T)-1) ? 1 : y;
            return y == 0 ? 0 : (T)-1 < 0 && y == (T)-1 ? (T)-x : (T)(x / divisor);
        }
        """,
    "remainder": """
        /* With the sign of the divisor; 0 for a divisor of 0. */
        INLINE T gs_remainder_S(T x, T y)
        {
            const T divisor = y == 0 || ((T)-1 < 0 && y == (T)-1) ? 1 : y;
            const T rest = (T)(x % divisor);
            return (rest != 0) & ((rest < 0) != (divisor < 0)) ? (T)(rest + divisor) : rest;
        }
        """,
    "fmod": """
        /* With the sign of the dividend; 0 for a divisor of 0. */
        INLINE T gs_fmod_S(T x, T y)
        {
            const T divisor = y == 0 || ((T)-1 < 0 && y == (T)-1) ? 1 : y;
            return (T)(x % divisor);
        }
        """,
    "shl": """
        /* 0 by the width or more. */
        INLINE T gs_shl_S(T x, T bits)
        {
            const bool is_within = (bits >= 0) & (bits < (T)(8 * sizeof(T)));
            return is_within ? (T)((uint64_t)x << (is_within ? bits : 0)) : 0;
        }
        """,
    "shr": """
        /* The sign by the width or more. */
        INLINE T gs_shr_S(T x, T bits)
        {
            const bool is_within = (bits >= 0) & (bits < (T)(8 * sizeof(T)));
            return is_within ? (T)(x >> (is_within ? bits : 0)) : (T)-(x < 0);
        }
        """,
    "pow": """
        /* By squares. A negative power is zero, unless it is of 1 or -1. */
        INLINE T gs_pow_S(T base, T exponent)
        {
            T result = 1, square = base;
            for (T left = exponent < 0 ? 0 : exponent; left > 0; left = (T)(left / 2)) {
                result = left % 2 ? (T)(result * square) : result;
                square = (T)(square * square);
            }
            const T sign = exponent % 2 ? -1 : 1;
            return exponent >= 0 ? result : base == 1 ? 1 : (T)-1 < 0 && base == (T)-1 ? sign : 0;
        }
        """,
    "first_max": """
        INLINE bool gs_first_max_S(T x, T largest)
        {
            return x > largest;
        }
        """,
    "first_min": """
        INLINE bool gs_first_min_S(T x, T smallest)
        {
            return x < smallest;
        }
        """,
}
