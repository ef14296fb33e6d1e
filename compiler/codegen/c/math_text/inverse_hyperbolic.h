/* asinh, acosh and atanh: logarithms of arguments that are kept in two parts, so that one rounding is left. */

/* x + x^3 P(x^2) near 0, else log(|x| + sqrt(x^2 + 1)); of large numbers log(2 |x|). */
INLINE float gs_asinh_f32(float x)
{
    float a = __builtin_fabsf(x);
    float z = a * a;
    float p = gs_fma_f32(0x1.2f5742p-7f, z, -0x1.487f7ep-6f);
    p = gs_fma_f32(p, z, 0x1.ec123p-6f);
    p = gs_fma_f32(p, z, -0x1.6d7ebep-5f);
    p = gs_fma_f32(p, z, 0x1.33323ap-4f);
    p = gs_fma_f32(p, z, -0x1.555554p-3f);
    float near = gs_fma_f32(a * z, p, a);
    int is_large = a > 0x1p14f;
    float bounded = is_large ? 1.0f : a;
    float square = bounded * bounded;
    float sum = square + 1.0f;
    float kept = sum - 1.0f;
    float rest = (1.0f - (sum - kept)) + (square - kept) + gs_rest_f32(bounded, bounded, square);
    float root = __builtin_sqrtf(sum);
    float root_squared = root * root;
    rest += (sum - root_squared) - gs_rest_f32(root, root, root_squared);
    float high = root + bounded;
    float low = (bounded - (high - root)) + rest / (2.0f * root);
    float far = gs_log_of_two_f32(is_large ? a : high, is_large ? 0.0f : low, is_large ? 1.0f : 0.0f);
    far = a < __builtin_inff() ? far : a;
    return __builtin_copysignf(a < 0.5f ? near : far, x);
}

/* x + x^3 P(x^2) near 0, else log(|x| + sqrt(x^2 + 1)); of large numbers log(2 |x|). */
INLINE double gs_asinh_f64(double x)
{
    double a = __builtin_fabs(x);
    double z = a * a;
    double p = gs_fma_f64(0x1.c281ec76762d7p-10, z, -0x1.372d476e4d2bcp-8);
    p = gs_fma_f64(p, z, 0x1.e94afa22a9f64p-8);
    p = gs_fma_f64(p, z, -0x1.386b6b166e007p-7);
    p = gs_fma_f64(p, z, 0x1.79422e59a508bp-7);
    p = gs_fma_f64(p, z, -0x1.c972f44575085p-7);
    p = gs_fma_f64(p, z, 0x1.1c4d30102ead8p-6);
    p = gs_fma_f64(p, z, -0x1.6e8b8cac2e73bp-6);
    p = gs_fma_f64(p, z, 0x1.f1c71ba9dc878p-6);
    p = gs_fma_f64(p, z, -0x1.6db6db6ba69e7p-5);
    p = gs_fma_f64(p, z, 0x1.333333333075bp-4);
    p = gs_fma_f64(p, z, -0x1.5555555555541p-3);
    double near = gs_fma_f64(a * z, p, a);
    int is_large = a > 0x1p28;
    double bounded = is_large ? 1.0 : a;
    double square = bounded * bounded;
    double sum = square + 1.0;
    double kept = sum - 1.0;
    double rest = (1.0 - (sum - kept)) + (square - kept) + gs_rest_f64(bounded, bounded, square);
    double root = __builtin_sqrt(sum);
    double root_squared = root * root;
    rest += (sum - root_squared) - gs_rest_f64(root, root, root_squared);
    double high = root + bounded;
    double low = (bounded - (high - root)) + rest / (2.0 * root);
    double far = gs_log_of_two_f64(is_large ? a : high, is_large ? 0.0 : low, is_large ? 1.0 : 0.0);
    far = a < __builtin_inf() ? far : a;
    return __builtin_copysign(a < 0.5 ? near : far, x);
}

/* With t = x - 1, log(1 + t + sqrt(t (t + 2))); of large numbers log(2 x). */
INLINE float gs_acosh_f32(float x)
{
    int is_large = x > 0x1p14f;
    float t = is_large ? 1.0f : x - 1.0f;
    float twice = 2.0f * t, square = t * t;
    float sum = twice + square;
    float kept = sum - twice;
    float rest = (twice - (sum - kept)) + (square - kept) + gs_rest_f32(t, t, square);
    float root = __builtin_sqrtf(sum);
    float root_squared = root * root;
    rest += (sum - root_squared) - gs_rest_f32(root, root, root_squared);
    rest = root > 0.0f ? rest / (2.0f * root) : 0.0f;
    float added = root + t;
    rest += t - (added - root);
    float high = 1.0f + added;
    kept = high - 1.0f;
    float low = (1.0f - (high - kept)) + (added - kept) + rest;
    float found = gs_log_of_two_f32(is_large ? x : high, is_large ? 0.0f : low, is_large ? 1.0f : 0.0f);
    found = x < __builtin_inff() ? found : x;
    return x < 1.0f ? __builtin_nanf("") : found;
}

/* With t = x - 1, log(1 + t + sqrt(t (t + 2))); of large numbers log(2 x). */
INLINE double gs_acosh_f64(double x)
{
    int is_large = x > 0x1p28;
    double t = is_large ? 1.0 : x - 1.0;
    double twice = 2.0 * t, square = t * t;
    double sum = twice + square;
    double kept = sum - twice;
    double rest = (twice - (sum - kept)) + (square - kept) + gs_rest_f64(t, t, square);
    double root = __builtin_sqrt(sum);
    double root_squared = root * root;
    rest += (sum - root_squared) - gs_rest_f64(root, root, root_squared);
    rest = root > 0.0 ? rest / (2.0 * root) : 0.0;
    double added = root + t;
    rest += t - (added - root);
    double high = 1.0 + added;
    kept = high - 1.0;
    double low = (1.0 - (high - kept)) + (added - kept) + rest;
    double found = gs_log_of_two_f64(is_large ? x : high, is_large ? 0.0 : low, is_large ? 1.0 : 0.0);
    found = x < __builtin_inf() ? found : x;
    return x < 1.0 ? __builtin_nan("") : found;
}

/* x + x^3 P(x^2) near 0, else log((1 + |x|) / (1 - |x|)) / 2. */
INLINE float gs_atanh_f32(float x)
{
    float a = __builtin_fabsf(x);
    float z = a * a;
    float p = gs_fma_f32(0x1.f13d0ep-4f, z, 0x1.23d3dcp-3f);
    p = gs_fma_f32(p, z, 0x1.999c26p-3f);
    p = gs_fma_f32(p, z, 0x1.555554p-2f);
    float near = gs_fma_f32(a * z, p, a);
    float above = 1.0f + a, below = 1.0f - a;
    float above_rest = a - (above - 1.0f), below_rest = (1.0f - below) - a;
    float high = above / below;
    float product = high * below;
    float rest = (above - product) - gs_rest_f32(high, below, product);
    float low = (rest + (above_rest - high * below_rest)) / below;
    float far = 0.5f * gs_log_of_two_f32(high, low, 0.0f);
    far = a == 1.0f ? __builtin_inff() : far;
    far = a <= 1.0f ? far : __builtin_nanf("");
    return __builtin_copysignf(a < 0.171f ? near : far, x);
}

/* x + x^3 P(x^2) near 0, else log((1 + |x|) / (1 - |x|)) / 2. */
INLINE double gs_atanh_f64(double x)
{
    double a = __builtin_fabs(x);
    double z = a * a;
    double p = gs_fma_f64(0x1.2f05737eab821p-4, z, 0x1.39a1c1a204413p-4);
    p = gs_fma_f64(p, z, 0x1.74663e3eb6583p-4);
    p = gs_fma_f64(p, z, 0x1.c71c520f0124cp-4);
    p = gs_fma_f64(p, z, 0x1.24924941e640bp-3);
    p = gs_fma_f64(p, z, 0x1.999999997fee5p-3);
    p = gs_fma_f64(p, z, 0x1.5555555555592p-2);
    double near = gs_fma_f64(a * z, p, a);
    double above = 1.0 + a, below = 1.0 - a;
    double above_rest = a - (above - 1.0), below_rest = (1.0 - below) - a;
    double high = above / below;
    double product = high * below;
    double rest = (above - product) - gs_rest_f64(high, below, product);
    double low = (rest + (above_rest - high * below_rest)) / below;
    double far = 0.5 * gs_log_of_two_f64(high, low, 0.0);
    far = a == 1.0 ? __builtin_inf() : far;
    far = a <= 1.0 ? far : __builtin_nan("");
    return __builtin_copysign(a < 0.171 ? near : far, x);
}
