/* asin and acos: x + x^3 P(x^2) up to 1/2, and pi / 2 - 2 asin(sqrt((1 - |x|) / 2)) above. atan: x + x^3 P(x^2) up
   to 1, and pi / 2 - atan(1 / |x|) above. Multiples of pi are in two parts. */

/* (asin(s) - s) / s of s^2. */
INLINE float gs_asin_rest_f32(float z)
{
    float p = gs_fma_f32(0x1.340526p-5f, z, 0x1.d701bcp-7f);
    p = gs_fma_f32(p, z, 0x1.04b8eep-5f);
    p = gs_fma_f32(p, z, 0x1.6ca996p-5f);
    p = gs_fma_f32(p, z, 0x1.3338a4p-4f);
    p = gs_fma_f32(p, z, 0x1.55554cp-3f);
    return z * p;
}

/* (asin(s) - s) / s of s^2. */
INLINE double gs_asin_rest_f64(double z)
{
    double p = gs_fma_f64(0x1.0bac14e27618cp-5, z, -0x1.594894dd66b45p-6);
    p = gs_fma_f64(p, z, 0x1.648bcde3b8098p-6);
    p = gs_fma_f64(p, z, 0x1.e2cf0955161c4p-9);
    p = gs_fma_f64(p, z, 0x1.61735b4d83e44p-7);
    p = gs_fma_f64(p, z, 0x1.757b793e46046p-7);
    p = gs_fma_f64(p, z, 0x1.ca20d2767d76ap-7);
    p = gs_fma_f64(p, z, 0x1.1c49e25180df8p-6);
    p = gs_fma_f64(p, z, 0x1.6e8bdfb09d603p-6);
    p = gs_fma_f64(p, z, 0x1.f1c71a8d32ef4p-6);
    p = gs_fma_f64(p, z, 0x1.6db6db7228469p-5);
    p = gs_fma_f64(p, z, 0x1.333333332df3ap-4);
    p = gs_fma_f64(p, z, 0x1.5555555555578p-3);
    return z * p;
}

INLINE float gs_asin_f32(float x)
{
    float a = __builtin_fabsf(x);
    int is_near = a <= 0.5f;
    float z = is_near ? a * a : 0.5f - 0.5f * a;
    float s = is_near ? a : __builtin_sqrtf(z);
    float rest = s * gs_asin_rest_f32(z);
    float far = (0x1.921fb6p0f - 2.0f * s) - (2.0f * rest - -0x1.777a5cp-25f);
    return __builtin_copysignf(is_near ? s + rest : far, x);
}

INLINE double gs_asin_f64(double x)
{
    double a = __builtin_fabs(x);
    int is_near = a <= 0.5;
    double z = is_near ? a * a : 0.5 - 0.5 * a;
    double s = is_near ? a : __builtin_sqrt(z);
    double rest = s * gs_asin_rest_f64(z);
    double far = (0x1.921fb54442d18p0 - 2.0 * s) - (2.0 * rest - 0x1.1a62633145c07p-54);
    return __builtin_copysign(is_near ? s + rest : far, x);
}

INLINE float gs_acos_f32(float x)
{
    float a = __builtin_fabsf(x);
    int is_near = a <= 0.5f;
    float z = is_near ? a * a : 0.5f - 0.5f * a;
    float s = is_near ? x : __builtin_sqrtf(z);
    float angle = gs_fma_f32(s, gs_asin_rest_f32(z), s);
    float middle = 0x1.921fb6p0f - (angle - -0x1.777a5cp-25f);
    float left = 0x1.921fb6p1f - (2.0f * angle - -0x1.777a5cp-24f);
    float far = x < 0.0f ? left : 2.0f * angle;
    return is_near ? middle : far;
}

INLINE double gs_acos_f64(double x)
{
    double a = __builtin_fabs(x);
    int is_near = a <= 0.5;
    double z = is_near ? a * a : 0.5 - 0.5 * a;
    double s = is_near ? x : __builtin_sqrt(z);
    double angle = gs_fma_f64(s, gs_asin_rest_f64(z), s);
    double middle = 0x1.921fb54442d18p0 - (angle - 0x1.1a62633145c07p-54);
    double left = 0x1.921fb54442d18p1 - (2.0 * angle - 0x1.1a62633145c07p-53);
    double far = x < 0.0 ? left : 2.0 * angle;
    return is_near ? middle : far;
}

/* atan of a number between 0 and 1. */
INLINE float gs_atan_of_share_f32(float x)
{
    float z = x * x;
    float p = gs_fma_f32(-0x1.ddeb3ep-10f, z, 0x1.69f6b4p-7f);
    p = gs_fma_f32(p, z, -0x1.016902p-5f);
    p = gs_fma_f32(p, z, 0x1.dcc8e2p-5f);
    p = gs_fma_f32(p, z, -0x1.58c856p-4f);
    p = gs_fma_f32(p, z, 0x1.c0cbc6p-4f);
    p = gs_fma_f32(p, z, -0x1.242658p-3f);
    p = gs_fma_f32(p, z, 0x1.999268p-3f);
    p = gs_fma_f32(p, z, -0x1.55554p-2f);
    return gs_fma_f32(x * z, p, x);
}

/* atan of a number between 0 and 1. */
INLINE double gs_atan_of_share_f64(double x)
{
    double z = x * x;
    double p = gs_fma_f64(-0x1.25cd5b81387c9p-17, z, 0x1.b81ca62385a0cp-14);
    p = gs_fma_f64(p, z, -0x1.3986c80a9e3b2p-11);
    p = gs_fma_f64(p, z, 0x1.1c00edc825149p-9);
    p = gs_fma_f64(p, z, -0x1.71d9f52df1822p-8);
    p = gs_fma_f64(p, z, 0x1.74619dfe8d733p-7);
    p = gs_fma_f64(p, z, -0x1.31d65e0acb2f6p-6);
    p = gs_fma_f64(p, z, 0x1.ad38ce9114c05p-6);
    p = gs_fma_f64(p, z, -0x1.0cd5c48dbb102p-5);
    p = gs_fma_f64(p, z, 0x1.3927887a61ce1p-5);
    p = gs_fma_f64(p, z, -0x1.5f32f6320ed71p-5);
    p = gs_fma_f64(p, z, 0x1.84b932cee2d44p-5);
    p = gs_fma_f64(p, z, -0x1.aedb91b4c131fp-5);
    p = gs_fma_f64(p, z, 0x1.e1d4c5935162bp-5);
    p = gs_fma_f64(p, z, -0x1.111036faac6c6p-4);
    p = gs_fma_f64(p, z, 0x1.3b139c4aff68dp-4);
    p = gs_fma_f64(p, z, -0x1.745d15d9666fap-4);
    p = gs_fma_f64(p, z, 0x1.c71c71b69b2afp-4);
    p = gs_fma_f64(p, z, -0x1.24924924584edp-3);
    p = gs_fma_f64(p, z, 0x1.9999999998c88p-3);
    p = gs_fma_f64(p, z, -0x1.555555555554dp-2);
    return gs_fma_f64(x * z, p, x);
}

INLINE float gs_atan_f32(float x)
{
    float a = __builtin_fabsf(x);
    int is_near = a <= 1.0f;
    float angle = gs_atan_of_share_f32((is_near ? a : 1.0f) / (is_near ? 1.0f : a));
    float far = 0x1.921fb6p0f - (angle - -0x1.777a5cp-25f);
    return __builtin_copysignf(is_near ? angle : far, x);
}

INLINE double gs_atan_f64(double x)
{
    double a = __builtin_fabs(x);
    int is_near = a <= 1.0;
    double angle = gs_atan_of_share_f64((is_near ? a : 1.0) / (is_near ? 1.0 : a));
    double far = 0x1.921fb54442d18p0 - (angle - 0x1.1a62633145c07p-54);
    return __builtin_copysign(is_near ? angle : far, x);
}

/* The angle of the point (x, y), by the smaller coordinate over the larger. */
INLINE float gs_atan2_f32(float y, float x)
{
    float ax = __builtin_fabsf(x), ay = __builtin_fabsf(y);
    int is_steep = ay > ax;
    float least = is_steep ? ax : ay, most = is_steep ? ay : ax;
    float share = least / most;
    share = least == most ? 1.0f : share;
    share = most == 0.0f ? least : share;
    float angle = gs_atan_of_share_f32(share);
    angle = is_steep ? 0x1.921fb6p0f - (angle - -0x1.777a5cp-25f) : angle;
    angle = __builtin_copysignf(1.0f, x) < 0.0f ? 0x1.921fb6p1f - (angle - -0x1.777a5cp-24f) : angle;
    return __builtin_copysignf(angle, y);
}

/* The angle of the point (x, y), by the smaller coordinate over the larger. */
INLINE double gs_atan2_f64(double y, double x)
{
    double ax = __builtin_fabs(x), ay = __builtin_fabs(y);
    int is_steep = ay > ax;
    double least = is_steep ? ax : ay, most = is_steep ? ay : ax;
    double share = least / most;
    share = least == most ? 1.0 : share;
    share = most == 0.0 ? least : share;
    double angle = gs_atan_of_share_f64(share);
    angle = is_steep ? 0x1.921fb54442d18p0 - (angle - 0x1.1a62633145c07p-54) : angle;
    angle = __builtin_copysign(1.0, x) < 0.0 ? 0x1.921fb54442d18p1 - (angle - 0x1.1a62633145c07p-53) : angle;
    return __builtin_copysign(angle, y);
}
