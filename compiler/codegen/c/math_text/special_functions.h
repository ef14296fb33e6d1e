/* Relatives of erf and the logarithm of gamma that few programs use: in float64 for both. */

/* x P(w) with w = -log(1 - x^2) (after Giles 2010), for |x| <= 3/4. */
INLINE double gs_erfinv_near(double x)
{
    double w = -gs_log1p_f64(-x * x);
    double p = gs_fma_f64(0x1.930d385d6b002p-35, w, -0x1.6d9fb7cfe041ap-31);
    p = gs_fma_f64(p, w, 0x1.03110035c9e75p-30);
    p = gs_fma_f64(p, w, 0x1.84cd0e5d7f12fp-26);
    p = gs_fma_f64(p, w, -0x1.3f8e51da62e15p-25);
    p = gs_fma_f64(p, w, -0x1.0fd0bd1528513p-20);
    p = gs_fma_f64(p, w, 0x1.0f1e9e59ff7edp-19);
    p = gs_fma_f64(p, w, 0x1.87014d795f958p-15);
    p = gs_fma_f64(p, w, -0x1.0c86b8573ce39p-13);
    p = gs_fma_f64(p, w, -0x1.3211025dfeadbp-9);
    p = gs_fma_f64(p, w, 0x1.7a72e72c1ed9bp-7);
    p = gs_fma_f64(p, w, 0x1.db29fb2fee5e4p-3);
    return gs_fma_f64(x, gs_fma_f64(p, w, -0x1.618f13eb7ca89p-55), x * 0x1.c5bf891b4ef6bp-1);
}

/* The x with erfc(x) = q for q <= 1/4: a polynomial, and a step of Halley's method on the logarithm of erfc. */
INLINE double gs_erfcinv_far(double q)
{
    double s = __builtin_sqrt(-gs_log_f64(q * (2.0 - q)));
    double u = 1.0 / s;
    double p = gs_fma_f64(-0x1.ee78b0b087b91p1, u, 0x1.75a03d7adf16fp4);
    p = gs_fma_f64(p, u, -0x1.e25f3309a574bp5);
    p = gs_fma_f64(p, u, 0x1.5aac4f66c64a5p6);
    p = gs_fma_f64(p, u, -0x1.304784970c0d5p6);
    p = gs_fma_f64(p, u, 0x1.568aa5c927f75p5);
    p = gs_fma_f64(p, u, -0x1.0b4e69dbee575p4);
    p = gs_fma_f64(p, u, 0x1.521ff51a42893p2);
    p = gs_fma_f64(p, u, -0x1.4368cf2c3f7b2p0);
    p = gs_fma_f64(p, u, -0x1.9fc701a97643fp-6);
    p = gs_fma_f64(p, u, 0x1.0010ec1fc4a8fp0);
    double y = s * p;
    double square = y * y;
    gs_tail_f64 tail = gs_tail_of_f64(y, 0.0);
    double share = q / gs_tail_times_f64(tail, square, gs_rest_f64(y, y, square));
    double step = gs_log_f64(share) * tail.high * -0x1.c5bf891b4ef6bp-1;
    double found = y + step / (1.0 - step * (y - 0x1.20dd750429b6dp-1 / tail.high));
    return q > 0.0 ? found : q == 0.0 ? __builtin_inf() : __builtin_nan("");
}

INLINE double gs_erfinv_f64(double x)
{
    double a = __builtin_fabs(x);
    double far = __builtin_copysign(gs_erfcinv_far(1.0 - a), x);
    return a <= 0.75 ? gs_erfinv_near(x) : far;
}

INLINE double gs_ndtri_f64(double x)
{
    double q = x < 0.5 ? 2.0 * x : 2.0 * (1.0 - x);
    double far = gs_erfcinv_far(q);
    double centered = 2.0 * x - 1.0;
    far = x < 0.5 ? -far : far;
    double found = __builtin_fabs(centered) <= 0.75 ? gs_erfinv_near(centered) : far;
    return found * 0x1.6a09e667f3bcdp0;
}

/* exp(x^2) erfc(x). */
INLINE double gs_erfcx_f64(double x)
{
    double a = __builtin_fabs(x);
    double bounded = a > 1e300 ? 1e300 : a;
    double far = gs_tail_of_f64(bounded, 0.0).high;
    double limited = a > 30.0 ? 30.0 : a;
    double square = limited * limited;
    double grown = gs_exp_of_two_f64(square, gs_rest_f64(limited, limited, square));
    double near = grown * (1.0 - gs_erf_near_f64(x));
    far = x < 0.0 ? 2.0 * grown - far : far;
    far = a < 0.5 ? near : far;
    far = x == __builtin_inf() ? 0.0 : far;
    return x == x ? far : x;
}

INLINE double gs_log_ndtr_f64(double x)
{
    double scaled = x * -0x1.6a09e667f3bcdp-1;
    double bounded = scaled > 1.0 ? scaled : 1.0;
    double far = gs_log_f64(0.5 * gs_erfcx_f64(bounded)) - 0.5 * x * x;
    double near = gs_log1p_f64(-gs_ndtr_f64(-x));
    far = x == -__builtin_inf() ? x : far;
    return x < -1.5 ? far : near;
}

/* By an asymptotic series from 10 on, by recurrence below, by reflection on the left. */
INLINE double gs_digamma_f64(double x)
{
    int is_left = x < 0.5;
    double y = is_left ? 1.0 - x : x;
    int is_small = y < 10.0;
    double bounded = is_small ? y : 10.0;
    double sum = 0.0;
    for (int k = 0; k < 10; ++k)
        sum += 1.0 / (bounded + k);
    y = is_small ? y + 10.0 : y;
    double u = 1.0 / y, z = u * u;
    double p = gs_fma_f64(-0x1.c5e5e5e5e5e5ep-2, z, 0x1.5555555555555p-4);
    p = gs_fma_f64(p, z, -0x1.5995995995996p-6);
    p = gs_fma_f64(p, z, 0x1.f07c1f07c1f08p-8);
    p = gs_fma_f64(p, z, -0x1.1111111111111p-8);
    p = gs_fma_f64(p, z, 0x1.041041041041p-8);
    p = gs_fma_f64(p, z, -0x1.1111111111111p-7);
    p = gs_fma_f64(p, z, 0x1.5555555555555p-4);
    double found = gs_log_f64(y) - 0.5 * u - z * p - (is_small ? sum : 0.0);
    found = y == __builtin_inf() ? y : found;
    double offset = x - __builtin_rint(x);
    double reflected = found - 0x1.921fb54442d18p1 / gs_near_tan_f64(0x1.921fb54442d18p1 * offset);
    reflected = offset == 0.0 ? __builtin_nan("") : reflected;
    reflected = x == 0.0 ? -1.0 / x : reflected;
    reflected = x == -__builtin_inf() ? __builtin_nan("") : reflected;
    return is_left ? reflected : found;
}

INLINE float gs_erfinv_f32(float x)
{
    return (float)gs_erfinv_f64(x);
}

INLINE float gs_ndtri_f32(float x)
{
    return (float)gs_ndtri_f64(x);
}

INLINE float gs_erfcx_f32(float x)
{
    return (float)gs_erfcx_f64(x);
}

INLINE float gs_log_ndtr_f32(float x)
{
    return (float)gs_log_ndtr_f64(x);
}

INLINE float gs_digamma_f32(float x)
{
    return (float)gs_digamma_f64(x);
}
