/* pow: exp(y log |x|), the logarithm in float64 for float32, and in two parts for float64 (log(m) = 2 s + 2 / 3 s^3 + ...
   with the first two terms in two parts), and the signs and exceptions of C's pow. */

/* 2^n exp(high + low) for the product of an exponent with a logarithm; beyond the range it over- or underflows. */
INLINE double gs_exp_of_two_f64(double high, double low)
{
    high = high > 710.0 ? 710.0 : high;
    high = high < -746.0 ? -746.0 : high;
    double n = gs_nearest_f64(high * 0x1.71547652b82fep0);
    double r = gs_fma_f64(n, -0x1.62e42fefa38p-1, high);
    double shift = gs_fma_f64(n, -0x1.ef35793c7673p-45, low);
    double sum = r + shift;
    double lost = shift - (sum - r);
    double p = sum + (gs_fma_f64(sum * sum, gs_exp_rest_f64(sum), gs_fma_f64(lost, sum, lost)));
    return gs_scale_f64(1.0 + p, n);
}

/* log(x) of a positive finite number in two parts. */
typedef struct {
    double high, low;
} gs_two_f64;

INLINE gs_two_f64 gs_log_in_two_f64(double x)
{
    double scaled = x * gs_log_scale_f64(x);
    double e = gs_exponent_f64(scaled) - gs_log_shift_f64(x);
    double f = gs_fraction_f64(scaled) - 1.0;
    double bottom = 2.0 + f;
    double inverse = 1.0 / bottom;
    double s = f * inverse;
    double product = s * bottom;
    double rest = (f - product) - gs_rest_f64(s, bottom, product);
    double s_low = (rest - s * (f - (bottom - 2.0))) * inverse;
    double z = s * s;
    double z_low = gs_rest_f64(s, s, z) + 2.0 * s * s_low;
    double p = gs_fma_f64(0x1.0e44ece1eaf62p-4, z, 0x1.0f7fac8765bd6p-4);
    p = gs_fma_f64(p, z, 0x1.3b1eee9fc27fp-4);
    p = gs_fma_f64(p, z, 0x1.745ce9d536cf2p-4);
    p = gs_fma_f64(p, z, 0x1.c71c722d8f521p-4);
    p = gs_fma_f64(p, z, 0x1.2492492457b89p-3);
    p = gs_fma_f64(p, z, 0x1.9999999999b31p-3);
    double cube = z * s;
    double cube_low = gs_rest_f64(z, s, cube) + (z_low * s + z * s_low);
    double term = cube * 0x1.5555555555555p-1;
    double term_low = gs_rest_f64(cube, 0x1.5555555555555p-1, term) + (cube * 0x1.5555555555555p-55 + cube_low * 0x1.5555555555555p-1);
    double first = 2.0 * s;
    double sum = first + term;
    double low = (term - (sum - first)) + (term_low + 2.0 * s_low + 2.0 * (cube * z * p));
    double whole = e * 0x1.62e42fefa38p-1;
    double high = whole + sum;
    double kept = high - whole;
    low += (whole - (high - kept)) + (sum - kept) + e * 0x1.ef35793c7673p-45;
    double total = high + low;
    return (gs_two_f64){total, low - (total - high)};
}

/* The power of |x| with the sign and the exceptions of x^y. */
INLINE float gs_pow_checked_f32(float x, float y, float found)
{
    float a = __builtin_fabsf(x), half = 0.5f * y;
    int is_whole = __builtin_floorf(y) == y;
    int is_odd = is_whole & (__builtin_floorf(half) != half);
    int is_limit = (a == 0.0f) | (a == __builtin_inff()) | (__builtin_fabsf(y) == __builtin_inff());
    float limit = (a < 1.0f) != (y < 0.0f) ? 0.0f : __builtin_inff();
    found = is_limit ? limit : found;
    found = (x < 0.0f) & (a < __builtin_inff()) & !is_whole ? __builtin_nanf("") : found;
    found = is_odd ? __builtin_copysignf(found, x) : found;
    found = (x != x) | (y != y) ? x + y : found;
    return (y == 0.0f) | (x == 1.0f) | ((a == 1.0f) & (__builtin_fabsf(y) == __builtin_inff())) ? 1.0f : found;
}

INLINE double gs_pow_checked_f64(double x, double y, double found)
{
    double a = __builtin_fabs(x), half = 0.5 * y;
    int is_whole = __builtin_floor(y) == y;
    int is_odd = is_whole & (__builtin_floor(half) != half);
    int is_limit = (a == 0.0) | (a == __builtin_inf()) | (__builtin_fabs(y) == __builtin_inf());
    double limit = (a < 1.0) != (y < 0.0) ? 0.0 : __builtin_inf();
    found = is_limit ? limit : found;
    found = (x < 0.0) & (a < __builtin_inf()) & !is_whole ? __builtin_nan("") : found;
    found = is_odd ? __builtin_copysign(found, x) : found;
    found = (x != x) | (y != y) ? x + y : found;
    return (y == 0.0) | (x == 1.0) | ((a == 1.0) & (__builtin_fabs(y) == __builtin_inf())) ? 1.0 : found;
}

INLINE float gs_pow_f32(float x, float y)
{
    double a = __builtin_fabsf(x);
    double e = gs_exponent_f64(a), f = gs_fraction_f64(a) - 1.0;
    double s = f / (2.0 + f), z = s * s;
    double p = gs_fma_f64(0x1.91174996ccb56p-4, z, 0x1.c62af7b017c66p-4);
    p = gs_fma_f64(p, z, 0x1.249412411cccp-3);
    p = gs_fma_f64(p, z, 0x1.999996a891156p-3);
    p = gs_fma_f64(p, z, 0x1.555555561e822p-2);
    double logarithm = gs_fma_f64(e, 0x1.62e42fefa39efp-1, 2.0 * gs_fma_f64(s * z, p, s));
    double product = y * logarithm;
    product = product > 100.0 ? 100.0 : product;
    product = product < -110.0 ? -110.0 : product;
    double n = gs_nearest_f64(product * 0x1.71547652b82fep0);
    double r = gs_fma_f64(n, -0x1.62e42fefa39efp-1, product);
    double q = gs_fma_f64(0x1.6dc400debfd6ep-10, r, 0x1.126f61d475707p-7);
    q = gs_fma_f64(q, r, 0x1.55544226d651ap-5);
    q = gs_fma_f64(q, r, 0x1.55540541202c9p-3);
    q = gs_fma_f64(q, r, 0x1.0000006954fb5p-1);
    q = gs_fma_f64(q, r, 0x1.000000a06bbf3p0);
    return gs_pow_checked_f32(x, y, (float)(gs_fma_f64(r, q, 1.0) * gs_power_of_two_f64(n)));
}

INLINE double gs_pow_f64(double x, double y)
{
    double a = __builtin_fabs(x);
    gs_two_f64 logarithm = gs_log_in_two_f64(a);
    double bounded = y > 0x1p70 ? 0x1p70 : y;
    bounded = bounded < -0x1p70 ? -0x1p70 : bounded;
    double high = bounded * logarithm.high;
    double low = gs_rest_f64(bounded, logarithm.high, high) + bounded * logarithm.low;
    low = __builtin_fabs(high) < 800.0 ? low : 0.0;
    return gs_pow_checked_f64(x, y, gs_exp_of_two_f64(high, low));
}
