"""The helpers that turn a matrix over, in squares that registers hold side by side.

Rows of a square are laced with those half a square further on, the first with the middle one and so on: after as many
such rounds as halve its side, each row is what was a column.

    0 1 2 3      0 8 1 9         0 4 8 c
    4 5 6 7  →   2 a 3 b    →    1 5 9 d
    8 9 a b      4 c 5 d         2 6 a e
    c d e f      6 e 7 f         3 7 b f
"""

from __future__ import annotations

SIZES = (4, 8)
"""Bytes of elements that have one."""

_TEXT = """
        /* to[to_step * c + r] = from[from_step * r + c] for all rows r and columns c. */
        #if defined(__clang__)
        #define GS_LACED_BITS(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
        #else
        #define GS_LACED_BITS(a, b, ...) __builtin_shuffle(a, b, (gs_side_BITS){__VA_ARGS__})
        #endif
        #if defined(__AVX__)
        #define GS_SIDE_BITS WIDE
        #define GS_FIRST_BITS WIDE_FIRST
        #define GS_SECOND_BITS WIDE_SECOND
        #else
        #define GS_SIDE_BITS NARROW
        #define GS_FIRST_BITS NARROW_FIRST
        #define GS_SECOND_BITS NARROW_SECOND
        #endif
        typedef uintBITS_t gs_cell_BITS __attribute__((may_alias));
        typedef uintBITS_t gs_side_BITS __attribute__((vector_size(BYTES * GS_SIDE_BITS)));
        typedef uintBITS_t gs_loose_side_BITS
            __attribute__((vector_size(BYTES * GS_SIDE_BITS), aligned(BYTES), may_alias));

        static __attribute__((noinline)) void gs_turn_over_BITS(
            void *to, int64_t to_step, const void *from, int64_t from_step, int64_t rows, int64_t columns)
        {
            gs_cell_BITS *target = to;
            const gs_cell_BITS *source = from;
            const int64_t whole_rows = rows & -GS_SIDE_BITS, whole_columns = columns & -GS_SIDE_BITS;
            for (int64_t r = 0; r < whole_rows; r += GS_SIDE_BITS)
                for (int64_t c = 0; c < whole_columns; c += GS_SIDE_BITS) {
                    gs_side_BITS square[GS_SIDE_BITS], laced[GS_SIDE_BITS];
                    #pragma GCC unroll 8
                    for (int k = 0; k < GS_SIDE_BITS; ++k)
                        square[k] = *(const gs_loose_side_BITS *)(source + from_step * (r + k) + c);
                    #pragma GCC unroll 3
                    for (int half = GS_SIDE_BITS / 2; half; half /= 2) {
                        #pragma GCC unroll 4
                        for (int k = 0; k < GS_SIDE_BITS / 2; ++k) {
                            const gs_side_BITS a = square[k], b = square[k + GS_SIDE_BITS / 2];
                            laced[2 * k] = GS_LACED_BITS(a, b, GS_FIRST_BITS);
                            laced[2 * k + 1] = GS_LACED_BITS(a, b, GS_SECOND_BITS);
                        }
                        #pragma GCC unroll 8
                        for (int k = 0; k < GS_SIDE_BITS; ++k) square[k] = laced[k];
                    }
                    #pragma GCC unroll 8
                    for (int k = 0; k < GS_SIDE_BITS; ++k)
                        *(gs_loose_side_BITS *)(target + to_step * (c + k) + r) = square[k];
                }
            for (int64_t r = 0; r < rows; ++r)
                for (int64_t c = r < whole_rows ? whole_columns : 0; c < columns; ++c)
                    target[to_step * c + r] = source[from_step * r + c];
        }
        """


def _of_size(size: int) -> str:
    """The text for elements of so many bytes."""
    text = _TEXT
    for word, side in (("WIDE", 32 // size), ("NARROW", 16 // size)):
        lace = [place for k in range(side) for place in (k, side + k)]
        for part, places in (("FIRST", lace[:side]), ("SECOND", lace[side:])):
            text = text.replace(f"{word}_{part}", ", ".join(map(str, places)))
        text = text.replace(word, str(side))
    return text.replace("BITS", str(8 * size)).replace("BYTES", str(size))


TURNING = {f"gs_turn_over_{8 * size}": _of_size(size) for size in SIZES}
"""The texts of helpers by name."""
