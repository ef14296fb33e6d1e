/* erf: x + x P(x^2) near 0; far from it 1 - exp(P(|x|)) in float32, and 1 - exp(-x x) P(q) / (|x| + 3) with
   q = (|x| - 3) / (|x| + 3) in float64 (a map after Schonfelder 1978). */

/* For |x| < 1. */
INLINE float gs_erf_near_f32(float x)
{
    float z = x * x;
    float p = gs_fma_f32(0x1.4c344ep-14f, z, -0x1.a50b0ep-11f);
    p = gs_fma_f32(p, z, 0x1.542e1p-8f);
    p = gs_fma_f32(p, z, -0x1.b7fe9p-6f);
    p = gs_fma_f32(p, z, 0x1.ce2d5p-4f);
    p = gs_fma_f32(p, z, -0x1.81274p-2f);
    p = gs_fma_f32(p, z, 0x1.06eba8p-3f);
    return gs_fma_f32(x, p, x);
}

INLINE float gs_erf_f32(float x)
{
    float a = __builtin_fabsf(x);
    a = a > 3.95f ? 3.95f : a;
    float q = gs_fma_f32(0x1.9fbab6p-13f, a, -0x1.91d06ep-9f);
    q = gs_fma_f32(q, a, 0x1.6d9e0cp-6f);
    q = gs_fma_f32(q, a, -0x1.aa738cp-4f);
    q = gs_fma_f32(q, a, -0x1.4621bp-1f);
    q = gs_fma_f32(q, a, -0x1.20b754p0f);
    q = gs_fma_f32(q, a, -0x1.5d06bap-13f);
    float far = 1.0f - gs_exp_normal_f32(q);
    return a < 1.0f ? gs_erf_near_f32(x) : __builtin_copysignf(far, x);
}

INLINE double gs_erf_near_f64(double x)
{
    double z = x * x;
    double p = gs_fma_f64(-0x1.a68fde244c75ap-31, z, 0x1.d5529b969a789p-27);
    p = gs_fma_f64(p, z, -0x1.5bc268dfe7cf3p-23);
    p = gs_fma_f64(p, z, 0x1.b9741c279016p-20);
    p = gs_fma_f64(p, z, -0x1.f4c90f68aa206p-17);
    p = gs_fma_f64(p, z, 0x1.f9a2a4f4ea5c4p-14);
    p = gs_fma_f64(p, z, -0x1.c02daf49acabep-11);
    p = gs_fma_f64(p, z, 0x1.565bccf273a6ep-8);
    p = gs_fma_f64(p, z, -0x1.b82ce311c2f4ap-6);
    p = gs_fma_f64(p, z, 0x1.ce2f21a03fe0bp-4);
    p = gs_fma_f64(p, z, -0x1.812746b0379a2p-2);
    p = gs_fma_f64(p, z, 0x1.06eba8214db68p-3);
    return gs_fma_f64(x, p, x);
}

INLINE double gs_erf_f64(double x)
{
    double a = __builtin_fabs(x);
    a = a > 6.0 ? 6.0 : a;
    double t = 1.0 / (a + 3.0);
    double u = (a - 3.0) * t;
    double q = gs_fma_f64(-0x1.3e055b71580d8p-15, u, -0x1.00114ebd81c7cp-11);
    q = gs_fma_f64(q, u, -0x1.781a141064608p-11);
    q = gs_fma_f64(q, u, 0x1.829d4e5f62f11p-9);
    q = gs_fma_f64(q, u, -0x1.4509a5ff491acp-10);
    q = gs_fma_f64(q, u, -0x1.b7a21710a7ff5p-6);
    q = gs_fma_f64(q, u, 0x1.e995203747d5ap-4);
    q = gs_fma_f64(q, u, -0x1.3deb25248e9f8p-2);
    q = gs_fma_f64(q, u, 0x1.2e32693855502p-1);
    q = gs_fma_f64(q, u, -0x1.c44c471b3d6afp-1);
    q = gs_fma_f64(q, u, 0x1.12f21ddda2375p0);
    double far = 1.0 - gs_exp_normal_f64(-a * a) * (q * t);
    return a < 1.0 ? gs_erf_near_f64(x) : __builtin_copysign(far, x);
}

/* exp(square) erfc(x) for x >= 1/2, where `low` is what x lacks, and exp(-square): a polynomial in (x - k) / (x + k) =
   1 - 2 k t, over x + k. */
typedef struct {
    double high, low;
} gs_tail_f64;

INLINE gs_tail_f64 gs_tail_of_f64(double x, double low)
{
    double bottom = x + 3.0;
    double bottom_low = (x - (bottom - 3.0)) + low;
    double t = 1.0 / bottom;
    double t_low = t * (gs_missing_f64(t, bottom) - t * bottom_low);
    double q = gs_fma_f64(-6.0, t_low, gs_fma_f64(-6.0, t, 1.0));
    double p = gs_fma_f64(0x1.b35c4ee71314cp-29, q, -0x1.717f8286a383cp-27);
    p = gs_fma_f64(p, q, -0x1.5c03a47bcf228p-27);
    p = gs_fma_f64(p, q, 0x1.02b03cd4e3fc5p-24);
    p = gs_fma_f64(p, q, 0x1.d3714bfebca61p-25);
    p = gs_fma_f64(p, q, -0x1.07ff497ccebdfp-22);
    p = gs_fma_f64(p, q, -0x1.ba0419ddc9b11p-22);
    p = gs_fma_f64(p, q, 0x1.0e645a24b2356p-20);
    p = gs_fma_f64(p, q, 0x1.733eb95016674p-19);
    p = gs_fma_f64(p, q, -0x1.3ef22b50021d7p-18);
    p = gs_fma_f64(p, q, -0x1.251aefe2da109p-16);
    p = gs_fma_f64(p, q, 0x1.fe02e9a527566p-16);
    p = gs_fma_f64(p, q, 0x1.c3252e1a8c485p-14);
    p = gs_fma_f64(p, q, -0x1.22390682039a2p-12);
    p = gs_fma_f64(p, q, -0x1.1f78e1056cc24p-11);
    p = gs_fma_f64(p, q, 0x1.8dae3a414fc1cp-9);
    p = gs_fma_f64(p, q, -0x1.3dd3e71380fd5p-10);
    p = gs_fma_f64(p, q, -0x1.b78993d6de31ap-6);
    p = gs_fma_f64(p, q, 0x1.e995f11b17939p-4);
    p = gs_fma_f64(p, q, -0x1.3deb21415dba8p-2);
    p = gs_fma_f64(p, q, 0x1.2e326945de2b3p-1);
    p = gs_fma_f64(p, q, -0x1.c44c471baa377p-1);
    double part = p * q;
    double high = 0x1.12f21ddd9f5e2p0 + part;
    low = (part - (high - 0x1.12f21ddd9f5e2p0)) + gs_rest_f64(p, q, part) - 0x1.962bf736a7417p-54;
    double scaled = high * t;
    return (gs_tail_f64){scaled, gs_rest_f64(high, t, scaled) + (low * t + high * t_low)};
}

INLINE double gs_tail_times_f64(gs_tail_f64 tail, double square, double square_low)
{
    double bounded = square > 760.0 ? 760.0 : square;
    double n = gs_nearest_f64(bounded * -0x1.71547652b82fep0);
    double r = gs_fma_f64(n, -0x1.62e42fefa38p-1, -bounded);
    double shift = gs_fma_f64(n, -0x1.ef35793c7673p-45, -square_low);
    double sum = r + shift;
    double lost = shift - (sum - r);
    double p = sum + gs_fma_f64(sum * sum, gs_exp_rest_f64(sum), gs_fma_f64(lost, sum, lost));
    double e = 1.0 + p;
    double e_low = p - (e - 1.0);
    double product = e * tail.high;
    double rest = gs_rest_f64(e, tail.high, product) + (e * tail.low + e_low * tail.high);
    return gs_scale_f64(product + rest, n);
}

INLINE float gs_tail_of_f32(float x, float low)
{
    float bottom = x + 2.0f;
    float bottom_low = (x - (bottom - 2.0f)) + low;
    float t = 1.0f / bottom;
    float t_low = t * (gs_missing_f32(t, bottom) - t * bottom_low);
    float q = gs_fma_f32(-4.0f, t_low, gs_fma_f32(-4.0f, t, 1.0f));
    float p = gs_fma_f32(-0x1.fba378p-16f, q, 0x1.9c6c5ap-13f);
    p = gs_fma_f32(p, q, -0x1.7c08f8p-15f);
    p = gs_fma_f32(p, q, -0x1.43c8acp-11f);
    p = gs_fma_f32(p, q, -0x1.92958p-11f);
    p = gs_fma_f32(p, q, 0x1.8d6386p-9f);
    p = gs_fma_f32(p, q, 0x1.a7b826p-8f);
    p = gs_fma_f32(p, q, -0x1.602a5ep-6f);
    p = gs_fma_f32(p, q, -0x1.2a87b6p-5f);
    p = gs_fma_f32(p, q, 0x1.1e2d94p-2f);
    p = gs_fma_f32(p, q, -0x1.5fd386p-1f);
    p = gs_fma_f32(p, q, 0x1.058672p0f);
    return gs_fma_f32(p, t, p * t_low);
}

INLINE float gs_tail_times_f32(float tail, float square, float square_low)
{
    float sum = gs_fma_f32(square, -0x1.715476p0f, 0x1.8p23f);
    float n = sum - 0x1.8p23f;
    float r = gs_fma_f32(n, -0x1.62e4p-1f, -square);
    r = gs_fma_f32(n, -0x1.7f7d1cp-20f, r) - square_low;
    float power = gs_of_bits_f32((gs_to_bits_f32(sum) << 23) + 0x5f800000u);
    return gs_fma_f32(tail, gs_expm1_of_rest_f32(r), tail) * power * 0x1p-64f;
}

/* 1 - erf(x) near 0, and the tail beyond. */
INLINE float gs_erfc_f32(float x)
{
    float a = __builtin_fabsf(x);
    a = a > 11.0f ? 11.0f : a;
    float square = a * a;
    float far = gs_tail_times_f32(gs_tail_of_f32(a, 0.0f), square, gs_rest_f32(a, a, square));
    far = x < 0.0f ? 2.0f - far : far;
    return a < 0.5f ? 1.0f - gs_erf_near_f32(x) : far;
}

INLINE double gs_erfc_f64(double x)
{
    double a = __builtin_fabs(x);
    a = a > 40.0 ? 40.0 : a;
    double square = a * a;
    double far = gs_tail_times_f64(gs_tail_of_f64(a, 0.0), square, gs_rest_f64(a, a, square));
    far = x < 0.0 ? 2.0 - far : far;
    return a < 0.5 ? 1.0 - gs_erf_near_f64(x) : far;
}

/* The same of x / sqrt(2), whose square is exact, halved; in float32 by a polynomial of its own in 1 - 7 / (|x| + 3.5).
   What it has of exp(-x x / 2) is written as in `gs_exp_f32`: where the density stands beside it, as in the gradient of
   GELU, compilers find that they are one. */
INLINE float gs_ndtr_f32(float x)
{
    float a = __builtin_fabsf(x);
    a = a > 16.0f ? 16.0f : a;
    float bottom = a + 3.5f;
    float t = 1.0f / bottom;
    float t_low = t * (gs_missing_f32(t, bottom) - t * (a - (bottom - 3.5f)));
    float q = gs_fma_f32(-7.0f, t_low, gs_fma_f32(-7.0f, t, 1.0f));
    float p = gs_fma_f32(0x1.8e7dd4p-14f, q, 0x1.a805a6p-12f);
    p = gs_fma_f32(p, q, -0x1.f5a0ep-12f);
    p = gs_fma_f32(p, q, -0x1.9dd148p-9f);
    p = gs_fma_f32(p, q, 0x1.a90ed4p-8f);
    p = gs_fma_f32(p, q, 0x1.1d15p-6f);
    p = gs_fma_f32(p, q, -0x1.db58eap-4f);
    p = gs_fma_f32(p, q, 0x1.42fefcp-2f);
    p = gs_fma_f32(p, q, -0x1.219152p-1f);
    p = gs_fma_f32(p, q, 0x1.7d241ap-1f);
    float square = x * x;
    float exponent = square * -0.5f;
    float bounded = exponent < -104.0f ? 0.0f : exponent;
    float sum = gs_fma_f32(bounded, 0x1.715476p0f, 0x1.8p23f);
    float e = gs_exp_of_rest_f32(bounded, sum);
    float power = gs_of_bits_f32((gs_to_bits_f32(sum) << 23) + 0x5f800000u);
    float scaled = gs_fma_f32(p, t, p * t_low) * gs_fma_f32(e, -0.5f * gs_rest_f32(x, x, square), e);
    float tail = exponent < -104.0f ? 0.0f : scaled * power * 0x1p-64f;
    return x < 0.0f ? tail : 1.0f - tail;
}

INLINE double gs_ndtr_f64(double x)
{
    double a = __builtin_fabs(x);
    a = a > 60.0 ? 60.0 : a;
    double square = 0.5 * a * a;
    double scaled = a * 0x1.6a09e667f3bcdp-1;
    double low = gs_rest_f64(a, 0x1.6a09e667f3bcdp-1, scaled) + a * -0x1.bdd3413b26456p-55;
    double rest = 0.5 * gs_rest_f64(a, a, 2.0 * square);
    double far = 0.5 * gs_tail_times_f64(gs_tail_of_f64(scaled, low), square, rest);
    double near = gs_fma_f64(0.5, gs_erf_near_f64(x * 0x1.6a09e667f3bcdp-1), 0.5);
    double found = x < 0.0 ? far : 1.0 - far;
    return a < 0.70710678118654752 ? near : found;
}
