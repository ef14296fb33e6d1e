/* sinh, cosh and tanh, from exponentials where those do not cancel, near 0 from x + x^3 P(x^2). */

/* In float32 from expm1(2 |x|), of whose roundings less is left the nearer it comes to 1. */
INLINE float gs_tanh_f32(float x)
{
    float a = 2.0f * __builtin_fabsf(x);
    a = a > 18.5f ? 18.5f : a;
    float sum = gs_fma_f32(a, 0x1.715476p0f, 0x1.8p23f);
    float n = sum - 0x1.8p23f;
    float r = gs_fma_f32(n, -0x1.62e4p-1f, a);
    r = gs_fma_f32(n, -0x1.7f7d1cp-20f, r);
    float power = gs_of_bits_f32((gs_to_bits_f32(sum) << 23) + 0x3f800000u);
    float e = gs_fma_f32(power, gs_expm1_of_rest_f32(r), power - 1.0f);
    return __builtin_copysignf(e / (e + 2.0f), x);
}

INLINE double gs_tanh_f64(double x)
{
    double a = __builtin_fabs(x);
    double z = a * a;
    double p = gs_fma_f64(0x1.968272f81dc0bp-18, z, -0x1.fb0e62e33c414p-16);
    p = gs_fma_f64(p, z, 0x1.802e06bc6fcb3p-14);
    p = gs_fma_f64(p, z, -0x1.f118abe287362p-13);
    p = gs_fma_f64(p, z, 0x1.350c05325d821p-11);
    p = gs_fma_f64(p, z, -0x1.7d9c42168c7fap-10);
    p = gs_fma_f64(p, z, 0x1.d6d35b664f43cp-9);
    p = gs_fma_f64(p, z, -0x1.226e32d734b9ep-7);
    p = gs_fma_f64(p, z, 0x1.664f4870fe9b4p-6);
    p = gs_fma_f64(p, z, -0x1.ba1ba1b9d29p-5);
    p = gs_fma_f64(p, z, 0x1.1111111110c5fp-3);
    p = gs_fma_f64(p, z, -0x1.5555555555552p-2);
    double near = gs_fma_f64(a * z, p, a);
    double bounded = a > 20.0 ? 20.0 : a;
    double far = 1.0 - 2.0 / (gs_exp_normal_f64(2.0 * bounded) + 1.0);
    return __builtin_copysign(a < 0.625 ? near : far, x);
}

/* exp(x) / 2, which overflows later than exp(x). */
INLINE float gs_half_exp_f32(float x)
{
    x = x > 90.0f ? 90.0f : x;
    float n = gs_nearest_f32(x * 0x1.715476p0f);
    return gs_scale_f32(1.0f + gs_exp_reduced_f32(x, n), n - 1.0f);
}

/* exp(x) / 2, which overflows later than exp(x). */
INLINE double gs_half_exp_f64(double x)
{
    x = x > 711.0 ? 711.0 : x;
    double n = gs_nearest_f64(x * 0x1.71547652b82fep0);
    return gs_scale_f64(1.0 + gs_exp_reduced_f64(x, n), n - 1.0);
}

INLINE float gs_sinh_f32(float x)
{
    float a = __builtin_fabsf(x);
    float z = a * a;
    float p = gs_fma_f32(0x1.75a6f4p-19f, z, 0x1.a02156p-13f);
    p = gs_fma_f32(p, z, 0x1.1110e2p-7f);
    p = gs_fma_f32(p, z, 0x1.555556p-3f);
    float near = gs_fma_f32(a * z, p, a);
    float e = gs_half_exp_f32(a);
    return __builtin_copysignf(a < 1.0f ? near : e - 0.25f / e, x);
}

INLINE double gs_sinh_f64(double x)
{
    double a = __builtin_fabs(x);
    double z = a * a;
    double p = gs_fma_f64(0x1.b5be3be4bd9cbp-41, z, 0x1.611715fc52454p-33);
    p = gs_fma_f64(p, z, 0x1.ae646fa45d574p-26);
    p = gs_fma_f64(p, z, 0x1.71de3a3b60e13p-19);
    p = gs_fma_f64(p, z, 0x1.a01a01a036cbap-13);
    p = gs_fma_f64(p, z, 0x1.111111111102p-7);
    p = gs_fma_f64(p, z, 0x1.5555555555556p-3);
    double near = gs_fma_f64(a * z, p, a);
    double e = gs_half_exp_f64(a);
    return __builtin_copysign(a < 1.0 ? near : e - 0.25 / e, x);
}

INLINE float gs_cosh_f32(float x)
{
    float e = gs_half_exp_f32(__builtin_fabsf(x));
    return e + 0.25f / e;
}

INLINE double gs_cosh_f64(double x)
{
    double e = gs_half_exp_f64(__builtin_fabs(x));
    return e + 0.25 / e;
}
