/* log and its kin: x = 2^e m with m between sqrt(1/2) and sqrt(2), f = m - 1, log(x) = e ln 2 + log(1 + f). In float64
   log(1 + f) is 2 atanh(s), s = f / (2 + f), of which f - f f / 2 is split off without a rounding (Tang 1990, and the
   reductions of Cody and Waite 1980). */

/* log(1 + f) + e ln 2. */
INLINE float gs_log_reduced_f32(float f, float e)
{
    float p = gs_fma_f32(0x1.1475b2p-4f, f, -0x1.de0304p-4f);
    p = gs_fma_f32(p, f, 0x1.e6bf74p-4f);
    p = gs_fma_f32(p, f, -0x1.fc2882p-4f);
    p = gs_fma_f32(p, f, 0x1.233ba6p-3f);
    p = gs_fma_f32(p, f, -0x1.555c46p-3f);
    p = gs_fma_f32(p, f, 0x1.99a476p-3f);
    p = gs_fma_f32(p, f, -0x1.000006p-2f);
    p = gs_fma_f32(p, f, 0x1.555548p-2f);
    float square = f * f;
    float low = gs_fma_f32(square * f, p, e * 0x1.7f7d1cp-20f);
    low = gs_fma_f32(square, -0.5f, low);
    return gs_fma_f32(e, 0x1.62e4p-1f, f + low);
}

INLINE double gs_log_reduced_f64(double f, double e)
{
    double s = f / (2.0 + f);
    double z = s * s;
    double p = gs_fma_f64(0x1.2f04c1024fed8p-3, z, 0x1.39a1d1af8936fp-3);
    p = gs_fma_f64(p, z, 0x1.74663db1ff90bp-3);
    p = gs_fma_f64(p, z, 0x1.c71c521145904p-3);
    p = gs_fma_f64(p, z, 0x1.24924941e4162p-2);
    p = gs_fma_f64(p, z, 0x1.999999997fefdp-2);
    p = gs_fma_f64(p, z, 0x1.5555555555592p-1);
    double half_square = 0.5 * f * f;
    double low = gs_fma_f64(s, gs_fma_f64(p, z, half_square), e * 0x1.ef35793c7673p-45);
    return gs_fma_f64(e, 0x1.62e42fefa38p-1, f - (half_square - low));
}

/* The exponent of a positive normal number whose fraction is between sqrt(1/2) and sqrt(2). */
INLINE float gs_exponent_f32(float x)
{
    return (float)((int32_t)(gs_to_bits_f32(x) - 0x3f3504f3u) >> 23);
}

INLINE double gs_exponent_f64(double x)
{
    /* The exponent, biased by 2^11 lest it be negative, in the low bits of 2^52. */
    uint64_t biased = (gs_to_bits_f64(x) - 0x3fe6a09e667f3bcdu + 0x8000000000000000u) >> 52;
    return gs_of_bits_f64(biased | 0x4330000000000000u) - (0x1p52 + 2048.0);
}

/* x over 2 to its exponent. */
INLINE float gs_fraction_f32(float x)
{
    return gs_of_bits_f32(((gs_to_bits_f32(x) - 0x3f3504f3u) & 0x007fffffu) + 0x3f3504f3u);
}

INLINE double gs_fraction_f64(double x)
{
    uint64_t root = 0x3fe6a09e667f3bcdu;
    return gs_of_bits_f64(((gs_to_bits_f64(x) - root) & 0x000fffffffffffffu) + root);
}

/* What a logarithm is where x is no positive finite number; `found` where it is. */
INLINE float gs_log_checked_f32(float x, float found)
{
    found = x < __builtin_inff() ? found : x;
    found = x == 0.0f ? -__builtin_inff() : found;
    return x < 0.0f ? __builtin_nanf("") : found;
}

INLINE double gs_log_checked_f64(double x, double found)
{
    found = x < __builtin_inf() ? found : x;
    found = x == 0.0 ? -__builtin_inf() : found;
    return x < 0.0 ? __builtin_nan("") : found;
}

/* Subnormal numbers are made normal first. */
INLINE float gs_log_scale_f32(float x)
{
    return x < 0x1p-126f ? 0x1p25f : 1.0f;
}

/* Subnormal numbers are made normal first. */
INLINE double gs_log_scale_f64(double x)
{
    return x < 0x1p-1022 ? 0x1p54 : 1.0;
}

INLINE float gs_log_shift_f32(float x)
{
    return x < 0x1p-126f ? 25.0f : 0.0f;
}

INLINE double gs_log_shift_f64(double x)
{
    return x < 0x1p-1022 ? 54.0 : 0.0;
}

INLINE float gs_log_f32(float x)
{
    float scaled = x * gs_log_scale_f32(x);
    float e = gs_exponent_f32(scaled) - gs_log_shift_f32(x);
    return gs_log_checked_f32(x, gs_log_reduced_f32(gs_fraction_f32(scaled) - 1.0f, e));
}

INLINE double gs_log_f64(double x)
{
    double scaled = x * gs_log_scale_f64(x);
    double e = gs_exponent_f64(scaled) - gs_log_shift_f64(x);
    return gs_log_checked_f64(x, gs_log_reduced_f64(gs_fraction_f64(scaled) - 1.0, e));
}

/* log(high + low) + shift ln 2 of a positive number that is kept in two. */
INLINE float gs_log_of_two_f32(float high, float low, float shift)
{
    float e = gs_exponent_f32(high);
    float f = (gs_fraction_f32(high) - 1.0f) + low * gs_power_of_two_f32(e > 64.0f ? -64.0f : -e);
    return gs_log_reduced_f32(f, e + shift);
}

/* log(high + low) + shift ln 2 of a positive number that is kept in two. */
INLINE double gs_log_of_two_f64(double high, double low, double shift)
{
    double e = gs_exponent_f64(high);
    double f = (gs_fraction_f64(high) - 1.0) + low * gs_power_of_two_f64(e > 64.0 ? -64.0 : -e);
    return gs_log_reduced_f64(f, e + shift);
}

INLINE float gs_log1p_f32(float x)
{
    float sum = 1.0f + x;
    float kept = sum - 1.0f;
    float lost = (1.0f - (sum - kept)) + (x - kept);
    float found = gs_log_checked_f32(sum, gs_log_of_two_f32(sum, lost, 0.0f));
    return x == 0.0f ? x : found;
}

/* The same, to the bit, of 0 <= x <= 1. */
INLINE float gs_log1p_of_part_f32(float x)
{
    float sum = 1.0f + x;
    float lost = x - (sum - 1.0f);
    float e = sum < 0x1.6a09e6p0f ? 0.0f : 1.0f;
    float scale = sum < 0x1.6a09e6p0f ? 1.0f : 0.5f;
    return gs_log_reduced_f32((sum * scale - 1.0f) + lost * scale, e);
}

INLINE double gs_log1p_f64(double x)
{
    double sum = 1.0 + x;
    double kept = sum - 1.0;
    double lost = (1.0 - (sum - kept)) + (x - kept);
    double found = gs_log_checked_f64(sum, gs_log_of_two_f64(sum, lost, 0.0));
    return x == 0.0 ? x : found;
}

/* (log(1 + f) + e ln 2) times a number in two parts, plus e times another: logarithms to other bases. The leading part
   of log(1 + f), f - f f / 2, is multiplied without loss. */
INLINE float gs_log_to_base_f32(float x, float high, float low, float e_high, float e_low)
{
    float scaled = x * gs_log_scale_f32(x);
    float e = gs_exponent_f32(scaled) - gs_log_shift_f32(x);
    float f = gs_fraction_f32(scaled) - 1.0f;
    float p = gs_fma_f32(0x1.1475b2p-4f, f, -0x1.de0304p-4f);
    p = gs_fma_f32(p, f, 0x1.e6bf74p-4f);
    p = gs_fma_f32(p, f, -0x1.fc2882p-4f);
    p = gs_fma_f32(p, f, 0x1.233ba6p-3f);
    p = gs_fma_f32(p, f, -0x1.555c46p-3f);
    p = gs_fma_f32(p, f, 0x1.99a476p-3f);
    p = gs_fma_f32(p, f, -0x1.000006p-2f);
    p = gs_fma_f32(p, f, 0x1.555548p-2f);
    float square = f * f;
    float first = f - 0.5f * square;
    float second = (f - first) - 0.5f * square + square * f * p;
    float product = first * high;
    float rest = gs_rest_f32(first, high, product) + (first * low + second * high);
    float whole = e * e_high;
    float sum = whole + product;
    float lost = whole == 0.0f ? 0.0f : product - (sum - whole);
    return gs_log_checked_f32(x, sum + (lost + rest + e * e_low));
}

/* (log(1 + f) + e ln 2) times a number in two parts, plus e times another: logarithms to other bases. The leading part
   of log(1 + f), f - f f / 2, is multiplied without loss. */
INLINE double gs_log_to_base_f64(double x, double high, double low, double e_high, double e_low)
{
    double scaled = x * gs_log_scale_f64(x);
    double e = gs_exponent_f64(scaled) - gs_log_shift_f64(x);
    double f = gs_fraction_f64(scaled) - 1.0;
    double s = f / (2.0 + f);
    double z = s * s;
    double p = gs_fma_f64(0x1.2f04c1024fed8p-3, z, 0x1.39a1d1af8936fp-3);
    p = gs_fma_f64(p, z, 0x1.74663db1ff90bp-3);
    p = gs_fma_f64(p, z, 0x1.c71c521145904p-3);
    p = gs_fma_f64(p, z, 0x1.24924941e4162p-2);
    p = gs_fma_f64(p, z, 0x1.999999997fefdp-2);
    p = gs_fma_f64(p, z, 0x1.5555555555592p-1);
    double half_square = 0.5 * f * f;
    double first = f - half_square;
    double second = (f - first) - half_square + s * gs_fma_f64(p, z, half_square);
    double product = first * high;
    double rest = gs_rest_f64(first, high, product) + (first * low + second * high);
    double whole = e * e_high;
    double sum = whole + product;
    double lost = whole == 0.0 ? 0.0 : product - (sum - whole);
    return gs_log_checked_f64(x, sum + (lost + rest + e * e_low));
}

INLINE float gs_log2_f32(float x)
{
    return gs_log_to_base_f32(x, 0x1.715476p0f, 0x1.4ae0cp-26f, 1.0f, 0.0f);
}

INLINE double gs_log2_f64(double x)
{
    return gs_log_to_base_f64(x, 0x1.71547652b82fep0, 0x1.777d0ffda0d24p-56, 1.0, 0.0);
}

INLINE float gs_log10_f32(float x)
{
    return gs_log_to_base_f32(x, 0x1.bcb7b2p-2f, -0x1.5b235ep-27f, 0x1.344p-2f, 0x1.3509f8p-18f);
}

INLINE double gs_log10_f64(double x)
{
    return gs_log_to_base_f64(x, 0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57, 0x1.34413509f7p-2, 0x1.3fde623e2566bp-43);
}
