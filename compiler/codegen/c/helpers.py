"""Functions that a module of C holds where its kernels use them."""

from __future__ import annotations

import re

from ...types.dtypes import DTYPES, FLOAT64, DType
from .primitives import TYPES, suffix
from .turning import TURNING
from .typed_helpers import OF_FLOATS, OF_INTEGERS

INLINE = "static inline __attribute__((always_inline))"
PRELUDE = """
#include <stdbool.h>
#include <stdint.h>

typedef union { double real; int64_t integer; } gs_number;
""".strip()

_HALVES = """
typedef uint16_t gs_float16;
typedef uint16_t gs_bfloat16;
typedef union { float number; uint32_t bits; } gs_word;
""".strip()

_PLAIN: dict[str, str] = {
    "gs_load_float16": """
        /* Exact; numbers without a leading one are scaled by a product. */
        INLINE float gs_load_float16(gs_float16 half)
        {
            const uint32_t magnitude = (uint32_t)(half & 0x7fff) << 13;
            const gs_word scale = {.bits = 0x77800000};
            const gs_word plain = {.bits = magnitude};
            gs_word found = {.number = plain.number * scale.number};
            found.bits |= magnitude >= 0x0f800000 ? 0x7f800000 : 0;
            found.bits |= (uint32_t)(half & 0x8000) << 16;
            return found.number;
        }
        """,
    "gs_store_float16": """
        /* To the nearest, ties to even: a sum aligns the last bit that a half has. The bits move to their places
           last, for gcc does not compute choices of 16 bits side by side by conditions of 32. */
        INLINE gs_float16 gs_store_float16(float number)
        {
            const gs_word word = {.number = number};
            const uint32_t sign = word.bits & 0x80000000, magnitude = word.bits ^ sign;
            const gs_word positive = {.bits = magnitude};
            const gs_word denormal = {.number = positive.number + 0.5f};
            const uint32_t normal = magnitude + 0xc8000fff + (magnitude >> 13 & 1);
            uint32_t bits = magnitude < 0x38800000 ? (denormal.bits - 0x3f000000) << 13 : normal;
            bits = magnitude >= 0x477ff000 ? 0x0f800000 : bits;
            bits = magnitude > 0x7f800000 ? 0x0fc00000 : bits;
            return (gs_float16)((bits | sign >> 3) >> 13);
        }
        """,
    "gs_rounded_float16": """
        INLINE float gs_rounded_float16(float number)
        {
            return gs_load_float16(gs_store_float16(number));
        }
        """,
    "gs_load_bfloat16": """
        INLINE float gs_load_bfloat16(gs_bfloat16 half)
        {
            const gs_word word = {.bits = (uint32_t)half << 16};
            return word.number;
        }
        """,
    "gs_store_bfloat16": """
        /* To the nearest, ties to even. */
        INLINE gs_bfloat16 gs_store_bfloat16(float number)
        {
            const gs_word word = {.number = number};
            const uint32_t rounded = word.bits + 0x7fff + (word.bits >> 16 & 1);
            return (gs_bfloat16)((word.bits & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : rounded >> 16);
        }
        """,
    "gs_rounded_bfloat16": """
        INLINE float gs_rounded_bfloat16(float number)
        {
            return gs_load_bfloat16(gs_store_bfloat16(number));
        }
        """,
    "gs_least": """
        INLINE int64_t gs_least(int64_t a, int64_t b)
        {
            return a < b ? a : b;
        }
        """,
    "gs_unknown": """
        /* A number that is not known when this is compiled. */
        INLINE int64_t gs_unknown(int64_t number)
        {
            __asm__("" : "+r"(number));
            return number;
        }
        """,
    "gs_alone": """
        /* The same pointer, of which a compiler does not know that. gcc 12 computes wrongly what is read by conditions
           of several elements of each point, side by side with others, if it sees that they lie beside each other. */
        INLINE const void *gs_alone(const void *from)
        {
            __asm__("" : "+r"(from));
            return from;
        }
        """,
    "gs_fetch": """
        /* Asks for what will be read soon. */
        INLINE void gs_fetch(const void *from, int64_t bytes)
        {
            for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch((const char *)from + i, 0, 3);
        }
        """,
    "gs_aligned": """
        /* What is read often, or where no line of memory begins with it, a copy that one begins with. */
        INLINE const void *gs_aligned(const void *from, void *line, int64_t bytes, bool is_often)
        {
            return is_often && (uintptr_t)from % 64 ? __builtin_memcpy(line, from, bytes) : from;
        }
        """,
    "gs_noalias": """
        /* An array of which gcc does not suppose that to fill it changes others: else it keeps sums in memory. */
        INLINE void *gs_noalias(void *room)
        {
            __asm__("" : "+r"(room));
            return __builtin_assume_aligned(room, 64);
        }
        """,
    "gs_at_edge": """
        /* What is read of some points, or where that is no number of vectors, a copy with zeros behind it. */
        static __attribute__((noinline)) const void *gs_at_edge(
            void *edge, const void *from, int64_t bytes, int64_t whole)
        {
            if (bytes == whole) return from;
            __builtin_memcpy(edge, from, bytes);
            __builtin_memset((char *)edge + bytes, 0, whole - bytes);
            return edge;
        }
        """,
    "gs_stream": """
        /* Whole lines to memory, past the caches, where the machine and the compiler have that. */
        #if defined(__clang__) || defined(__AVX512F__)
        #define GS_LINE 64
        #elif defined(__AVX__)
        #define GS_LINE 32
        #else
        #define GS_LINE 16
        #endif
        typedef float gs_line __attribute__((vector_size(GS_LINE), may_alias));
        typedef float gs_loose_line __attribute__((vector_size(GS_LINE), aligned(1), may_alias));

        #if defined(__clang__)
        #define GS_STREAMS 1
        #define GS_PUT_LINE(to, line) __builtin_nontemporal_store(line, (gs_line *)(to))
        #elif defined(__AVX512F__)
        #define GS_STREAMS 1
        #define GS_PUT_LINE(to, line) __builtin_ia32_movntps512((float *)(to), line)
        #elif defined(__AVX__)
        #define GS_STREAMS 1
        #define GS_PUT_LINE(to, line) __builtin_ia32_movntps256((float *)(to), line)
        #elif defined(__SSE__)
        #define GS_STREAMS 1
        #define GS_PUT_LINE(to, line) __builtin_ia32_movntps((float *)(to), line)
        #else
        #define GS_STREAMS 0
        #define GS_PUT_LINE(to, line) (*(gs_line *)(to) = (line))
        #endif

        INLINE void gs_stream(void *to, const void *from, int64_t bytes)
        {
            char *target = to;
            const char *source = from;
            int64_t head = -(uintptr_t)target % 64;
            head = head < bytes ? head : bytes;
            __builtin_memcpy(target, source, head);
            int64_t i = head;
            for (; i + 64 <= bytes; i += 64)
                for (int64_t k = i; k < i + 64; k += GS_LINE)
                    GS_PUT_LINE(target + k, *(const gs_loose_line *)(source + k));
            __builtin_memcpy(target + i, source + i, bytes - i);
        }

        /* What was put past the caches is there for other threads. */
        INLINE void gs_stream_end(void)
        {
        #if defined(__SSE__)
            __builtin_ia32_sfence();
        #endif
        }
        """,
    "gs_put": """
        /* A block of results, or what there is of it, from an array of its own: past the caches, or not. */
        INLINE void gs_put(void *to, const void *from, int64_t bytes, int64_t whole, bool is_large)
        {
            char *target = to;
            const char *source = from;
            if (bytes < whole) {
                __builtin_memcpy(target, source, bytes);
            } else if (is_large) {
                for (int64_t k = 0; k < whole; k += GS_LINE)
                    GS_PUT_LINE(target + k, *(const gs_line *)(source + k));
            } else {
                for (int64_t k = 0; k < whole; k += GS_LINE)
                    *(gs_loose_line *)(target + k) = *(const gs_line *)(source + k);
            }
        }
        """,
    "gs_quotient": """
        /* Rounded down. */
        INLINE int64_t gs_quotient(int64_t x, int64_t y)
        {
            return x / y - (x % y < 0);
        }
        """,
    "gs_rest": """
        /* Never negative. */
        INLINE int64_t gs_rest(int64_t x, int64_t y)
        {
            const int64_t rest = x % y;
            return rest < 0 ? rest + y : rest;
        }
        """,
    "gs_philox_round": """
        /* Words of 32 bits in lanes of 64, for their products have as many: nothing moves between lanes. */
        typedef struct { uint64_t w0, w1, w2, w3; } gs_philox;

        INLINE gs_philox gs_philox_round(gs_philox c, uint32_t k0, uint32_t k1)
        {
            const uint64_t left = c.w0 * 0xD2511F53u, right = c.w2 * 0xCD9E8D57u;
            return (gs_philox){right >> 32 ^ c.w1 ^ k0, (uint32_t)right, left >> 32 ^ c.w3 ^ k1, (uint32_t)left};
        }
        """,
    "gs_turn_f32": """
        /* The parts of some angles, what is left in the place of each. It is long, so that all loops share it; large
           angles are rare. Whole vectors, for which there is room. */
        static __attribute__((noinline)) void gs_turn_f32(float *restrict rest, float *restrict turns, int64_t count)
        {
            int is_far = 0;
            #pragma omp simd reduction(| : is_far)
            for (int64_t i = 0; i < count; ++i) is_far |= !(__builtin_fabsf(rest[i]) <= 0x1p15f);
            count = (count + 15) & -16;
            if (is_far) {
                #pragma omp simd
                for (int64_t i = 0; i < count; ++i) {
                    const gs_angle_f32 angle = gs_angle_of_f32(__builtin_fabsf(rest[i]));
                    rest[i] = angle.r;
                    turns[i] = angle.n;
                }
                return;
            }
            #pragma omp simd
            for (int64_t i = 0; i < count; ++i) {
                const gs_angle_f32 angle = gs_near_angle_f32(__builtin_fabsf(rest[i]));
                rest[i] = angle.r;
                turns[i] = angle.n;
            }
        }
        """,
    "gs_turn_f64": """
        static __attribute__((noinline)) void gs_turn_f64(
            double *restrict rest, double *restrict low, double *restrict turns, int64_t count)
        {
            int is_far = 0;
            #pragma omp simd reduction(| : is_far)
            for (int64_t i = 0; i < count; ++i) is_far |= !(__builtin_fabs(rest[i]) < 0x1p20);
            count = (count + 15) & -16;
            if (is_far) {
                #pragma omp simd
                for (int64_t i = 0; i < count; ++i) {
                    const gs_angle_f64 angle = gs_angle_of_f64(__builtin_fabs(rest[i]));
                    rest[i] = angle.high;
                    low[i] = angle.low;
                    turns[i] = angle.n;
                }
                return;
            }
            #pragma omp simd
            for (int64_t i = 0; i < count; ++i) {
                const gs_angle_f64 angle = gs_near_angle_f64(__builtin_fabs(rest[i]));
                rest[i] = angle.high;
                low[i] = angle.low;
                turns[i] = angle.n;
            }
        }
        """,
    "gs_philox_words": """
        /* The words of Philox-4x32-10 (Salmon et al. 2011) at a counter under a seed. Written out, for a loop in a loop
           is not computed side by side. */
        INLINE gs_philox gs_philox_words(int64_t seed, int64_t block)
        {
            const uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)((uint64_t)seed >> 32);
            gs_philox c = {(uint32_t)block, (uint64_t)block >> 32, 0, 0};
            c = gs_philox_round(c, k0, k1);
            c = gs_philox_round(c, k0 + 1u * 0x9E3779B9u, k1 + 1u * 0xBB67AE85u);
            c = gs_philox_round(c, k0 + 2u * 0x9E3779B9u, k1 + 2u * 0xBB67AE85u);
            c = gs_philox_round(c, k0 + 3u * 0x9E3779B9u, k1 + 3u * 0xBB67AE85u);
            c = gs_philox_round(c, k0 + 4u * 0x9E3779B9u, k1 + 4u * 0xBB67AE85u);
            c = gs_philox_round(c, k0 + 5u * 0x9E3779B9u, k1 + 5u * 0xBB67AE85u);
            c = gs_philox_round(c, k0 + 6u * 0x9E3779B9u, k1 + 6u * 0xBB67AE85u);
            c = gs_philox_round(c, k0 + 7u * 0x9E3779B9u, k1 + 7u * 0xBB67AE85u);
            c = gs_philox_round(c, k0 + 8u * 0x9E3779B9u, k1 + 8u * 0xBB67AE85u);
            return gs_philox_round(c, k0 + 9u * 0x9E3779B9u, k1 + 9u * 0xBB67AE85u);
        }

        /* In [0, 1). */
        INLINE float gs_philox_unit(uint64_t word)
        {
            const int32_t number = (int32_t)word;
            return (float)(number ^ (number >> 31)) * 4.6566127342e-10f;
        }
        """,
    "gs_uniform": """
        /* The number of the element at a place: one word of the block that it shares with three neighbours. */
        INLINE float gs_uniform(int64_t seed, int64_t place)
        {
            const gs_philox c = gs_philox_words(seed, place >> 2);
            const uint64_t low = place & 1 ? c.w1 : c.w0, high = place & 1 ? c.w3 : c.w2;
            return gs_philox_unit(place & 2 ? high : low);
        }
        """,
    "gs_uniforms": """
        /* Counters of a register: words of 32 bits in lanes of 64, for their products have as many, and nothing moves
           between lanes. gcc, which does not see that the upper halves are 0, would multiply all 64 bits. */
        #if defined(__clang__) || !defined(__SSE2__)
        #define GS_COUNTERS 8
        #define GS_PRODUCTS(a, b) (((a) & 0xFFFFFFFFu) * (b))
        #elif defined(__AVX512F__)
        #define GS_COUNTERS 8
        #define GS_PRODUCTS(a, b) \\
            (gs_words)__builtin_ia32_pmuludq512_mask((gs_halves)(a), (gs_halves)(b), (gs_zero){0}, -1)
        #elif defined(__AVX2__)
        #define GS_COUNTERS 4
        #define GS_PRODUCTS(a, b) (gs_words)__builtin_ia32_pmuludq256((gs_halves)(a), (gs_halves)(b))
        #else
        #define GS_COUNTERS 2
        #define GS_PRODUCTS(a, b) (gs_words)__builtin_ia32_pmuludq128((gs_halves)(a), (gs_halves)(b))
        #endif
        typedef uint64_t gs_words __attribute__((vector_size(8 * GS_COUNTERS)));
        typedef long long gs_zero __attribute__((vector_size(8 * GS_COUNTERS)));
        typedef int gs_halves __attribute__((vector_size(8 * GS_COUNTERS)));
        typedef float gs_units __attribute__((vector_size(8 * GS_COUNTERS)));

        /* In [0, 1). */
        INLINE gs_units gs_units_of(gs_words words)
        {
            const gs_halves numbers = (gs_halves)words;
            return __builtin_convertvector(numbers ^ numbers >> 31, gs_units) * 4.6566127342e-10f;
        }

        /* The numbers of elements at successive places, somewhere in room for 34 more: by Philox-4x32-10 (Salmon et al.
           2011), four for each counter. */
        static __attribute__((noinline)) const float *gs_uniforms(
            float *room, int64_t seed, int64_t first, int64_t count)
        {
            const int64_t start = first >> 2, blocks = ((first + count + 3) >> 2) - start;
            const gs_words zero = {0}, by_left = zero + 0xD2511F53u, by_right = zero + 0xCD9E8D57u;
            gs_words counters;
            for (int k = 0; k < GS_COUNTERS; ++k) counters[k] = (uint64_t)start + k;
            for (int64_t i = 0; i < blocks; i += GS_COUNTERS) {
                gs_words w0 = counters, w1 = counters >> 32, w2 = zero, w3 = zero;
                uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)((uint64_t)seed >> 32);
                for (int turn = 0; turn < 10; ++turn) {
                    const gs_words left = GS_PRODUCTS(w0, by_left), right = GS_PRODUCTS(w2, by_right);
                    w0 = right >> 32 ^ w1 ^ k0;
                    w1 = right;
                    w2 = left >> 32 ^ w3 ^ k1;
                    w3 = left;
                    k0 += 0x9E3779B9u;
                    k1 += 0xBB67AE85u;
                }
                counters += GS_COUNTERS;
                const gs_units pairs[2] = {
                    gs_units_of((w0 & 0xFFFFFFFFu) | w1 << 32), gs_units_of((w2 & 0xFFFFFFFFu) | w3 << 32)};
                uint64_t apart[2 * GS_COUNTERS], in_turn[2 * GS_COUNTERS];
                __builtin_memcpy(apart, pairs, sizeof pairs);
                #pragma omp simd
                for (int k = 0; k < GS_COUNTERS; ++k) {
                    in_turn[2 * k] = apart[k];
                    in_turn[2 * k + 1] = apart[GS_COUNTERS + k];
                }
                __builtin_memcpy(room + 4 * i, in_turn, sizeof in_turn);
            }
            return room + (first & 3);
        }
        """,
}
_NAME = re.compile(r"\bgs_\w+")


def text_of(name: str) -> str | None:
    """The text of a helper; None for one that stands elsewhere, a mathematical function."""
    plain = _PLAIN.get(name) or TURNING.get(name)
    if plain is not None:
        return _written(plain, "", "")
    primitive, _, ending = name.removeprefix("gs_").rpartition("_")
    dtype = next((d for d in DTYPES if not d.is_half and suffix(d) == ending), None)
    if dtype is None:
        return None
    template = (OF_FLOATS if dtype.is_floating else OF_INTEGERS).get(primitive)
    return None if template is None else _of_dtype(template, dtype)


def needs_halves(text: str) -> bool:
    return "gs_float16" in text or "gs_bfloat16" in text or "gs_word" in text


def mentioned(text: str) -> list[str]:
    """The helpers that a text mentions."""
    return list(dict.fromkeys(_NAME.findall(text)))


def _of_dtype(template: str, dtype: DType) -> str:
    ending = "" if dtype == FLOAT64 else "f"
    text = re.sub(r"\b(fmod|floor|trunc|fabs|copysign)F\b", rf"\1{ending}", template)
    return _written(text.replace("BITS", suffix(dtype)[1:]), TYPES[dtype], suffix(dtype))


def _written(template: str, type: str, ending: str) -> str:
    lines = [line.removeprefix("        ") for line in template.strip("\n").splitlines()]
    text = "\n".join(lines).strip().replace("INLINE", INLINE)
    return re.sub(r"\bT\b", type, re.sub(r"_S\b", f"_{ending}", text)) if type else text


HALVES = _HALVES
