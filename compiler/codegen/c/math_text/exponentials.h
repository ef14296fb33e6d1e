/* exp and its kin: x = n ln 2 + r with |r| <= ln 2 / 2 (Cody and Waite 1980), a minimax polynomial in r, and 2 to the n
   put together from its bits. */

/* (exp(r) - 1 - r) / (r r). */
INLINE float gs_exp_rest_f32(float r)
{
    float q = gs_fma_f32(0x1.a2552ap-13f, r, 0x1.6d4cd6p-10f);
    q = gs_fma_f32(q, r, 0x1.110ffcp-7f);
    q = gs_fma_f32(q, r, 0x1.5554e8p-5f);
    q = gs_fma_f32(q, r, 0x1.555556p-3f);
    return gs_fma_f32(q, r, 0.5f);
}

INLINE double gs_exp_rest_f64(double r)
{
    double q = gs_fma_f64(0x1.1f2c61d9d2b92p-29, r, 0x1.af5d2e3fb678dp-26);
    q = gs_fma_f64(q, r, 0x1.27e5014c29972p-22);
    q = gs_fma_f64(q, r, 0x1.71ddf92c43058p-19);
    q = gs_fma_f64(q, r, 0x1.a01a019a45dd2p-16);
    q = gs_fma_f64(q, r, 0x1.a01a01af9c8eap-13);
    q = gs_fma_f64(q, r, 0x1.6c16c16c173b6p-10);
    q = gs_fma_f64(q, r, 0x1.111111110f714p-7);
    q = gs_fma_f64(q, r, 0x1.5555555555558p-5);
    q = gs_fma_f64(q, r, 0x1.5555555555559p-3);
    return gs_fma_f64(q, r, 0.5);
}

/* exp(x) - 1 of what is left of x besides n ln 2. */
INLINE float gs_exp_reduced_f32(float x, float n)
{
    float r = gs_fma_f32(n, -0x1.62e4p-1f, x);
    r = gs_fma_f32(n, -0x1.7f7d1cp-20f, r);
    return gs_fma_f32(r * r, gs_exp_rest_f32(r), r);
}

INLINE double gs_exp_reduced_f64(double x, double n)
{
    double r = gs_fma_f64(n, -0x1.62e42fefa38p-1, x);
    r = gs_fma_f64(n, -0x1.ef35793c7673p-45, r);
    return gs_fma_f64(r * r, gs_exp_rest_f64(r), r);
}

/* exp(r) - 1 for |r| <= ln 2 / 2. */
INLINE float gs_expm1_of_rest_f32(float r)
{
    float p = gs_fma_f32(0x1.6a4508p-10f, r, 0x1.1239aap-7f);
    p = gs_fma_f32(p, r, 0x1.5558b8p-5f);
    p = gs_fma_f32(p, r, 0x1.555492p-3f);
    p = gs_fma_f32(p, r, 0x1.fffffcp-2f);
    return gs_fma_f32(r * r, p, r);
}

/* exp(r) of what is left of x besides n ln 2; n stands in the low bits of `sum`, to which x / ln 2 is rounded. */
INLINE float gs_exp_of_rest_f32(float x, float sum)
{
    float n = sum - 0x1.8p23f;
    float r = gs_fma_f32(n, -0x1.62e4p-1f, x);
    r = gs_fma_f32(n, -0x1.7f7d1cp-20f, r);
    float p = gs_fma_f32(0x1.6a4508p-10f, r, 0x1.1239aap-7f);
    p = gs_fma_f32(p, r, 0x1.5558b8p-5f);
    p = gs_fma_f32(p, r, 0x1.555492p-3f);
    p = gs_fma_f32(p, r, 0x1.fffffcp-2f);
    p = gs_fma_f32(p, r, 1.0f);
    return gs_fma_f32(p, r, 1.0f);
}

/* n is added to the exponent, for small results with 64 that a product takes off again, where they may be subnormal.
   Where the result is 0 nothing underflows on the way, for which processors stop: masked scores are many. */
INLINE float gs_exp_f32(float x)
{
    float bounded = x < -104.0f ? 0.0f : x;
    float sum = gs_fma_f32(bounded, 0x1.715476p0f, 0x1.8p23f);
    uint32_t bits = gs_to_bits_f32(gs_exp_of_rest_f32(bounded, sum)) + (gs_to_bits_f32(sum) << 23);
    float found = bounded < -86.0f ? gs_of_bits_f32(bits + 0x20000000u) * 0x1p-64f : gs_of_bits_f32(bits);
    found = x < -104.0f ? 0.0f : found;
    return x <= 0x1.62e42ep6f ? found : x + __builtin_inff();
}

INLINE double gs_exp_f64(double x)
{
    double given = x;
    x = x > 710.0 ? 710.0 : x;
    x = x < -746.0 ? 0.0 : x;
    double n = gs_nearest_f64(x * 0x1.71547652b82fep0);
    double found = gs_scale_f64(1.0 + gs_exp_reduced_f64(x, n), n);
    return given < -746.0 ? 0.0 : found;
}

/* exp where its result is a normal number. */
INLINE float gs_exp_normal_f32(float x)
{
    float sum = gs_fma_f32(x, 0x1.715476p0f, 0x1.8p23f);
    return gs_exp_of_rest_f32(x, sum) * gs_of_bits_f32((gs_to_bits_f32(sum) << 23) + 0x3f800000u);
}

INLINE double gs_exp_normal_f64(double x)
{
    double n = gs_nearest_f64(x * 0x1.71547652b82fep0);
    return (1.0 + gs_exp_reduced_f64(x, n)) * gs_power_of_two_f64(n);
}

/* 2^n p + (2^n - 1), in halves: 2 to the n may overflow where the result does not. */
INLINE float gs_expm1_f32(float x)
{
    float bounded = x > 89.0f ? 89.0f : x;
    bounded = bounded < -18.0f ? -18.0f : bounded;
    float n = gs_nearest_f32(bounded * 0x1.715476p0f);
    float half = gs_power_of_two_f32(n - 1.0f);
    float found = 2.0f * gs_fma_f32(half, gs_exp_reduced_f32(bounded, n), half - 0.5f);
    return __builtin_fabsf(x) < 0x1p-30f ? x : found;
}

INLINE double gs_expm1_f64(double x)
{
    double bounded = x > 710.0 ? 710.0 : x;
    bounded = bounded < -38.0 ? -38.0 : bounded;
    double n = gs_nearest_f64(bounded * 0x1.71547652b82fep0);
    double half = gs_power_of_two_f64(n - 1.0);
    double found = 2.0 * gs_fma_f64(half, gs_exp_reduced_f64(bounded, n), half - 0.5);
    return __builtin_fabs(x) < 0x1p-60 ? x : found;
}

/* By the exponential of -|x|, which neither overflows nor cancels. */
INLINE float gs_sigmoid_f32(float x)
{
    float e = gs_exp_f32(-__builtin_fabsf(x));
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

/* What the roundings of exp(-|x|) and of the sum lost corrects the quotient. */
INLINE double gs_sigmoid_f64(double x)
{
    double a = -__builtin_fabs(x);
    a = a < -746.0 ? -746.0 : a;
    double n = gs_nearest_f64(a * 0x1.71547652b82fep0);
    double p = gs_exp_reduced_f64(a, n);
    double e = 1.0 + p;
    double e_low = (p - (e - 1.0)) * (n < -900.0 ? 0.0 : gs_power_of_two_f64(n));
    e = gs_scale_f64(e, n);
    double sum = 1.0 + e;
    double sum_low = (e - (sum - 1.0)) + e_low;
    double quotient = (x < 0.0 ? e : 1.0) / sum;
    double inverse = x < 0.0 ? 1.0 - quotient : quotient;
    return gs_fma_f64((x < 0.0 ? e_low : 0.0) - quotient * sum_low, inverse, quotient);
}

INLINE float gs_exp2_f32(float x)
{
    x = x > 129.0f ? 129.0f : x;
    x = x < -151.0f ? -151.0f : x;
    float n = gs_nearest_f32(x);
    float t = x - n;
    float p = gs_fma_f32(0x1.ec6d2ap-17f, t, 0x1.440f02p-13f);
    p = gs_fma_f32(p, t, 0x1.5d9cc2p-10f);
    p = gs_fma_f32(p, t, 0x1.3b2a5cp-7f);
    p = gs_fma_f32(p, t, 0x1.c6b074p-5f);
    p = gs_fma_f32(p, t, 0x1.ebfbep-3f);
    p = gs_fma_f32(p, t, 0x1.62e43p-1f);
    return gs_scale_f32(gs_fma_f32(t, p, 1.0f), n);
}

INLINE double gs_exp2_f64(double x)
{
    x = x > 1025.0 ? 1025.0 : x;
    x = x < -1076.0 ? -1076.0 : x;
    double n = gs_nearest_f64(x);
    double t = x - n;
    double p = gs_fma_f64(0x1.c0eef6376ad74p-36, t, 0x1.ec6969e012f54p-32);
    p = gs_fma_f64(p, t, 0x1.e4d20b382dcf8p-28);
    p = gs_fma_f64(p, t, 0x1.b523365fc396bp-24);
    p = gs_fma_f64(p, t, 0x1.62c0215bb379ap-20);
    p = gs_fma_f64(p, t, 0x1.ffcbfd47d1192p-17);
    p = gs_fma_f64(p, t, 0x1.430912f8ac1afp-13);
    p = gs_fma_f64(p, t, 0x1.5d87fe7874729p-10);
    p = gs_fma_f64(p, t, 0x1.3b2ab6fba4d76p-7);
    p = gs_fma_f64(p, t, 0x1.c6b08d704a1d4p-5);
    p = gs_fma_f64(p, t, 0x1.ebfbdff82c58fp-3);
    p = gs_fma_f64(p, t, 0x1.62e42fefa39efp-1);
    return gs_scale_f64(gs_fma_f64(t, p, 1.0), n);
}
