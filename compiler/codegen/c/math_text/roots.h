/* Square roots, correctly rounded by the target. */

INLINE float gs_sqrt_f32(float x)
{
    return __builtin_sqrtf(x);
}

INLINE double gs_sqrt_f64(double x)
{
    return __builtin_sqrt(x);
}

INLINE float gs_rsqrt_f32(float x)
{
    return 1.0f / __builtin_sqrtf(x);
}

INLINE double gs_rsqrt_f64(double x)
{
    return 1.0 / __builtin_sqrt(x);
}
