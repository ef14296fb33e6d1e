/* Square roots, correctly rounded by the target, and what is made of them. */

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

/* The squares of floats fit into doubles. Infinite where either is infinite, the other NaN or not. */
INLINE float gs_hypot_f32(float x, float y)
{
    double a = x, b = y;
    float found = (float)__builtin_sqrt(a * a + b * b);
    int is_infinite = (__builtin_fabsf(x) == __builtin_inff()) | (__builtin_fabsf(y) == __builtin_inff());
    return is_infinite ? __builtin_inff() : found;
}

/* Scaled by a power of two, so that squares neither over- nor underflow. */
INLINE double gs_hypot_f64(double x, double y)
{
    double a = __builtin_fabs(x), b = __builtin_fabs(y);
    double most = a > b ? a : b;
    double scale = most > 0x1p500 ? 0x1p-600 : most < 0x1p-400 ? 0x1p600 : 1.0;
    double unscale = most > 0x1p500 ? 0x1p600 : most < 0x1p-400 ? 0x1p-600 : 1.0;
    a *= scale;
    b *= scale;
    double found = __builtin_sqrt(gs_fma_f64(a, a, b * b)) * unscale;
    int is_infinite = (__builtin_fabs(x) == __builtin_inf()) | (__builtin_fabs(y) == __builtin_inf());
    return is_infinite ? __builtin_inf() : found;
}
