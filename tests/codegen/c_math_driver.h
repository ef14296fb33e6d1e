/* Compares functions with references of higher precision: float with double, double with __float128. */
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

#define UNARY_BITS(NAME)                                                                                     \
    void sweep_##NAME(uint64_t first, uint64_t stride, uint64_t count, report *found)                        \
    {                                                                                                        \
        float given[BLOCK], result[BLOCK];                                                                   \
        for (uint64_t done = 0; done < count; done += BLOCK) {                                               \
            long length = count - done < BLOCK ? count - done : BLOCK;                                       \
            fill(given, length, first + done * stride, stride);                                              \
            check_##NAME##_f32(given, result, length, found);                                                \
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
