/* Compares functions with references of higher precision: float with double, double with __float128. */
/* Has the C library declare its vector variants, which are references that are fast enough for all floats. */
#define __FAST_MATH__ 1
#include <math.h>
#include <quadmath.h>
#include <string.h>

typedef struct {
    double worst;       /* the largest error, in units of the true result's last place */
    double worst_at[2];
    uint64_t wrong;     /* how often NaN, or a sign, is not the reference's */
    double wrong_at[2];
} report;

static void differ(report *found, double x, double y)
{
    if (!found->wrong++) {
        found->wrong_at[0] = x;
        found->wrong_at[1] = y;
    }
}

static void err(report *found, double error, double x, double y)
{
    if (error > found->worst) {
        found->worst = error;
        found->worst_at[0] = x;
        found->worst_at[1] = y;
    }
}

/* What overflows counts as the first power of two that does. */
static void compare_f32(report *found, float got, double want, double x, double y)
{
    if (isnan(got) || isnan(want)) {
        if (!(isnan(got) && isnan(want)))
            differ(found, x, y);
        return;
    }
    double top = 0x1p128, given = isinf(got) ? copysign(top, got) : got;
    want = fabs(want) > top ? copysign(top, want) : want;
    if (!signbit(given) != !signbit(want)) {
        differ(found, x, y);
        return;
    }
    int exponent = want == 0 ? -126 : ilogb(want);
    exponent = exponent < -126 ? -126 : exponent > 127 ? 127 : exponent;
    err(found, fabs(given - want) * ldexp(1, 23 - exponent), x, y);
}

static void compare_f64(report *found, double got, __float128 want, double x, double y)
{
    if (isnan(got) || isnanq(want)) {
        if (!(isnan(got) && isnanq(want)))
            differ(found, x, y);
        return;
    }
    __float128 top = ldexpq(1, 1024), given = isinf(got) ? copysignq(top, got) : got;
    want = fabsq(want) > top ? copysignq(top, want) : want;
    if (!signbitq(given) != !signbitq(want)) {
        differ(found, x, y);
        return;
    }
    int exponent = want == 0 ? -1022 : ilogbq(want);
    exponent = exponent < -1022 ? -1022 : exponent > 1023 ? 1023 : exponent;
    err(found, (double)(fabsq(given - want) * ldexpq(1, 52 - exponent)), x, y);
}

/* `count` floats by their bits, `stride` apart. */
static void fill(float *numbers, long count, uint64_t first, uint64_t stride)
{
    for (long i = 0; i < count; ++i) {
        uint32_t bits = (uint32_t)(first + i * stride);
        memcpy(numbers + i, &bits, sizeof bits);
    }
}

#define BLOCK 4096

/* `apply_…` is what is measured: a loop that vectorises. */
#define UNARY(NAME, SUFFIX, NUMBER, WIDE, REFERENCE)                                                         \
    __attribute__((noinline)) void apply_##NAME##_##SUFFIX(const NUMBER *restrict x, NUMBER *restrict z, long count) \
    {                                                                                                        \
        _Pragma("omp simd") for (long i = 0; i < count; ++i) z[i] = gs_##NAME##_##SUFFIX(x[i]);              \
    }                                                                                                        \
    void check_##NAME##_##SUFFIX(const NUMBER *given, NUMBER *result, long count, report *found)             \
    {                                                                                                        \
        apply_##NAME##_##SUFFIX(given, result, count);                                                       \
        for (long i = 0; i < count; ++i) {                                                                   \
            WIDE x = given[i];                                                                               \
            compare_##SUFFIX(found, result[i], REFERENCE, given[i], 0);                                      \
        }                                                                                                    \
    }

/* Errors of a block in one pass that vectorises: the worst, infinite where NaN or a sign is not the reference's. */
static double screen(const float *restrict got, const double *restrict want, long count)
{
    double worst = 0;
    _Pragma("omp simd reduction(max : worst)") for (long i = 0; i < count; ++i) {
        double given = got[i], wanted = want[i];
        uint64_t given_bits, bits, exponent;
        memcpy(&given_bits, &given, sizeof bits);
        memcpy(&bits, &wanted, sizeof bits);
        exponent = bits << 1 >> 53;
        exponent = exponent < 1023 - 126 ? 1023 - 126 : exponent > 1023 + 127 ? 1023 + 127 : exponent;
        uint64_t unit_bits = (2 * 1023 + 23 - exponent) << 52;
        double per_unit, size = fabs(given), wanted_size = fabs(wanted);
        memcpy(&per_unit, &unit_bits, sizeof bits);
        size = size > 0x1p128 ? 0x1p128 : size;
        wanted_size = wanted_size > 0x1p128 ? 0x1p128 : wanted_size;
        double error = fabs(size - wanted_size) * per_unit;
        error = (given_bits ^ bits) >> 63 ? INFINITY : error;
        error = (given != given) != (wanted != wanted) ? INFINITY : error;
        error = (given != given) & (wanted != wanted) ? 0 : error;
        worst = error > worst ? error : worst;
    }
    return worst;
}

/* Arguments are first brought to where REFERENCE's vector variant is fast; RESULT is that of `found` and of x itself. */
#define UNARY_BITS(NAME, ARGUMENT, REFERENCE, RESULT)                                                        \
    void sweep_##NAME(uint64_t first, uint64_t stride, uint64_t count, report *worst)                        \
    {                                                                                                        \
        float given[BLOCK], result[BLOCK];                                                                   \
        double want[BLOCK];                                                                                  \
        for (uint64_t done = 0; done < count; done += BLOCK) {                                               \
            long length = count - done < BLOCK ? count - done : BLOCK;                                       \
            fill(given, length, first + done * stride, stride);                                              \
            apply_##NAME##_f32(given, result, length);                                                       \
            for (long i = 0; i < length; ++i) {                                                              \
                double x = given[i];                                                                         \
                want[i] = ARGUMENT;                                                                          \
            }                                                                                                \
            _Pragma("omp simd") for (long i = 0; i < length; ++i)                                            \
            {                                                                                                \
                double x = want[i];                                                                          \
                want[i] = REFERENCE;                                                                         \
            }                                                                                                \
            for (long i = 0; i < length; ++i) {                                                              \
                double x = given[i], found = want[i];                                                        \
                want[i] = RESULT;                                                                            \
            }                                                                                                \
            if (screen(result, want, length) > fmax(worst->worst, 0.45))                                     \
                check_##NAME##_f32(given, result, length, worst);                                            \
        }                                                                                                    \
    }

#define BINARY(NAME, SUFFIX, NUMBER, WIDE, REFERENCE)                                                        \
    __attribute__((noinline)) void apply_##NAME##_##SUFFIX(const NUMBER *restrict x, const NUMBER *restrict y, \
                                                           NUMBER *restrict z, long count)                   \
    {                                                                                                        \
        _Pragma("omp simd") for (long i = 0; i < count; ++i) z[i] = gs_##NAME##_##SUFFIX(x[i], y[i]);        \
    }                                                                                                        \
    void check_##NAME##_##SUFFIX(const NUMBER *left, const NUMBER *right, NUMBER *result, long count, report *found) \
    {                                                                                                        \
        apply_##NAME##_##SUFFIX(left, right, result, count);                                                 \
        for (long i = 0; i < count; ++i) {                                                                   \
            WIDE x = left[i], y = right[i];                                                                  \
            compare_##SUFFIX(found, result[i], REFERENCE, left[i], right[i]);                                \
        }                                                                                                    \
    }

/* Where libquadmath is older than the function. */
static inline __float128 gs_exp2q(__float128 x)
{
    __float128 whole = rintq(x), bounded = fmaxq(fminq(whole, 20000), -20000);
    return finiteq(x) ? ldexpq(expq((x - whole) * 0.693147180559945309417232121458176568Q), (int)bounded) : expq(x);
}
#define exp2q gs_exp2q

static inline __float128 sigmoidq(__float128 x) { return 1 / (1 + expq(-x)); }
static inline __float128 rsqrtq(__float128 x) { return 1 / sqrtq(x); }
static inline double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static inline double rsqrt(double x) { return 1 / sqrt(x); }
static inline __float128 ndtrq(__float128 x) { return erfcq(x * -0.707106781186547524400844362104849039284836Q) / 2; }
static inline double ndtr(double x) { return (double)(0.5L * erfcl(x * -0.707106781186547524400844362104849039284836L)); }

static inline double within(double x, double bound)
{
    x = fabs(x) > 1e-12 ? x : 0.5;
    return x > bound ? bound : x < -bound ? -bound : x;
}
static inline double near(double x, double at_zero, double found)
{
    found = fabs(x) > 1e-12 ? found : at_zero;
    return x != x ? x : found;
}
static inline double of_positive(double x, double found)
{
    found = x < INFINITY ? found : x;
    found = x == 0 ? -INFINITY : found;
    return x < 0 ? NAN : found;
}
