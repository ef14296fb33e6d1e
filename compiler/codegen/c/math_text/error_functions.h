/* erf: x + x P(x^2) near 0; far from it 1 - exp(P(|x|)) in float32, and 1 - exp(-x x) P(q) / (|x| + 3) with
   q = (|x| - 3) / (|x| + 3) in float64 (a map after Schonfelder 1978). */

INLINE float gs_erf_f32(float x)
{
    float z = x * x;
    float p = gs_fma_f32(0x1.4c344ep-14f, z, -0x1.a50b0ep-11f);
    p = gs_fma_f32(p, z, 0x1.542e1p-8f);
    p = gs_fma_f32(p, z, -0x1.b7fe9p-6f);
    p = gs_fma_f32(p, z, 0x1.ce2d5p-4f);
    p = gs_fma_f32(p, z, -0x1.81274p-2f);
    p = gs_fma_f32(p, z, 0x1.06eba8p-3f);
    float near = gs_fma_f32(x, p, x);
    float a = __builtin_fabsf(x);
    a = a > 3.95f ? 3.95f : a;
    float q = gs_fma_f32(0x1.9fbab6p-13f, a, -0x1.91d06ep-9f);
    q = gs_fma_f32(q, a, 0x1.6d9e0cp-6f);
    q = gs_fma_f32(q, a, -0x1.aa738cp-4f);
    q = gs_fma_f32(q, a, -0x1.4621bp-1f);
    q = gs_fma_f32(q, a, -0x1.20b754p0f);
    q = gs_fma_f32(q, a, -0x1.5d06bap-13f);
    float far = 1.0f - gs_exp_normal_f32(q);
    return a < 1.0f ? near : __builtin_copysignf(far, x);
}

INLINE double gs_erf_f64(double x)
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
    double near = gs_fma_f64(x, p, x);
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
    return a < 1.0 ? near : __builtin_copysign(far, x);
}
