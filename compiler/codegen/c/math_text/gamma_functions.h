/* lgamma by the C library, which is a call for each number. */

INLINE float gs_lgamma_f32(float x)
{
    int sign;
    return (float)__builtin_lgamma_r(x, &sign);
}

INLINE double gs_lgamma_f64(double x)
{
    int sign;
    return __builtin_lgamma_r(x, &sign);
}
