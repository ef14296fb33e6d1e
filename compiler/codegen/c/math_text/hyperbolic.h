/* tanh: x + x^3 P(x^2) near 0, and 1 - 2 / (exp(2 |x|) + 1) where that does not cancel. */

INLINE float gs_tanh_f32(float x)
{
    float a = __builtin_fabsf(x);
    float z = a * a;
    float p = gs_fma_f32(0x1.1accf2p-9f, z, -0x1.0c892ap-7f);
    p = gs_fma_f32(p, z, 0x1.63ad14p-6f);
    p = gs_fma_f32(p, z, -0x1.b9f22p-5f);
    p = gs_fma_f32(p, z, 0x1.11107cp-3f);
    p = gs_fma_f32(p, z, -0x1.555554p-2f);
    float near = gs_fma_f32(a * z, p, a);
    float bounded = a > 10.0f ? 10.0f : a;
    float far = 1.0f - 2.0f / (gs_exp_normal_f32(2.0f * bounded) + 1.0f);
    return __builtin_copysignf(a < 0.625f ? near : far, x);
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
