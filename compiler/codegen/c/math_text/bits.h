/* What the functions share. Products that feed sums go through fma where the target has it; where it has not, the
   reductions still hold, since the leading parts of their constants have zeros at the end. */

#if defined(__FMA__) || defined(__aarch64__)
#define GS_HAS_FMA 1
#else
#define GS_HAS_FMA 0
#endif

INLINE float gs_fma_f32(float a, float b, float c)
{
    return GS_HAS_FMA ? __builtin_fmaf(a, b, c) : a * b + c;
}

INLINE double gs_fma_f64(double a, double b, double c)
{
    return GS_HAS_FMA ? __builtin_fma(a, b, c) : a * b + c;
}

INLINE uint32_t gs_to_bits_f32(float x)
{
    uint32_t bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
}

INLINE uint64_t gs_to_bits_f64(double x)
{
    uint64_t bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
}

INLINE float gs_of_bits_f32(uint32_t bits)
{
    float x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}

INLINE double gs_of_bits_f64(uint64_t bits)
{
    double x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}

/* 2 to the n for an integer n in the range of normal exponents: the addition puts n into the low bits. */
INLINE float gs_power_of_two_f32(float n)
{
    return gs_of_bits_f32((gs_to_bits_f32(n + 0x1.8p23f) << 23) + 0x3f800000u);
}

INLINE double gs_power_of_two_f64(double n)
{
    return gs_of_bits_f64((gs_to_bits_f64(n + 0x1.8p52) << 52) + 0x3ff0000000000000u);
}

/* p times 2 to the n, by two factors, so that neither overflows. */
INLINE float gs_scale_f32(float p, float n)
{
    float shift = n > 0.0f ? 64.0f : -64.0f;
    return p * gs_power_of_two_f32(n - shift) * (n > 0.0f ? 0x1p64f : 0x1p-64f);
}

/* p times 2 to the n, by two factors, so that neither overflows. */
INLINE double gs_scale_f64(double p, double n)
{
    double shift = n > 0.0 ? 512.0 : -512.0;
    return p * gs_power_of_two_f64(n - shift) * (n > 0.0 ? 0x1p512 : 0x1p-512);
}

/* The nearest integer of a number below 2 to the 22 (51), ties to even. */
INLINE float gs_nearest_f32(float x)
{
    return (x + 0x1.8p23f) - 0x1.8p23f;
}

INLINE double gs_nearest_f64(double x)
{
    return (x + 0x1.8p52) - 0x1.8p52;
}

/* The nearest number of half as many bits, so that products of halves are exact. */
INLINE float gs_leading_f32(float x)
{
    return gs_of_bits_f32((gs_to_bits_f32(x) + 0x800u) & 0xfffff000u);
}

/* The nearest number of half as many bits, so that products of halves are exact. */
INLINE double gs_leading_f64(double x)
{
    return gs_of_bits_f64((gs_to_bits_f64(x) + 0x4000000u) & 0xfffffffff8000000u);
}

/* What the product p of a and b lost in rounding (Dekker 1971 where there is no fma). */
INLINE float gs_rest_f32(float a, float b, float p)
{
#if GS_HAS_FMA
    return __builtin_fmaf(a, b, -p);
#else
    float a_high = gs_leading_f32(a), b_high = gs_leading_f32(b);
    float a_low = a - a_high, b_low = b - b_high;
    return ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low;
#endif
}

/* What the product p of a and b lost in rounding (Dekker 1971 where there is no fma). */
INLINE double gs_rest_f64(double a, double b, double p)
{
#if GS_HAS_FMA
    return __builtin_fma(a, b, -p);
#else
    double a_high = gs_leading_f64(a), b_high = gs_leading_f64(b);
    double a_low = a - a_high, b_low = b - b_high;
    return ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low;
#endif
}

/* 1 - t b without loss, for t near 1 / b. */
INLINE float gs_missing_f32(float t, float b)
{
    float product = t * b;
    return GS_HAS_FMA ? __builtin_fmaf(-t, b, 1.0f) : (1.0f - product) - gs_rest_f32(t, b, product);
}

/* 1 - t b without loss, for t near 1 / b. */
INLINE double gs_missing_f64(double t, double b)
{
    double product = t * b;
    return GS_HAS_FMA ? __builtin_fma(-t, b, 1.0) : (1.0 - product) - gs_rest_f64(t, b, product);
}
