/* CpuSchedule(programs=(ProgramAxis(axis='i', block=128), ProgramAxis(axis='j', block=64)), loops=('i', 'j')) */

/* add_transposed over i < 100 × j < 130. */
int add_transposed(
    void *const *buffers, const int64_t *sizes, const gs_number *numbers, void *scratch, int64_t begin, int64_t end)
{
    const float *restrict x_ptr = buffers[0];
    const float *restrict y_ptr = buffers[1];
    float *restrict result_ptr = buffers[2];
    float *restrict y_tile = (float *)((char *)scratch + 0);
    for (int64_t program = begin; program < end; ++program) {
        const int64_t i_first = 128 * (program / 3);
        const int64_t i_end = gs_least(i_first + 128, 100);
        const int64_t j_first = 64 * (program % 3);
        const int64_t j_end = gs_least(j_first + 64, 130);
        gs_turn_over_32(y_tile, 64, y_ptr + i_first + 100 * j_first, 100, j_end - j_first, i_end - i_first);
        for (int64_t i = i_first; i < i_end; ++i) {
            #pragma omp simd
            for (int64_t j = j_first; j < j_end; ++j) {
                const float x = x_ptr[130 * i + j];
                const float y = y_tile[64 * (i - i_first) + j - j_first];
                result_ptr[130 * i + j] = x + y;
            }
        }
    }
    return 0;
}
