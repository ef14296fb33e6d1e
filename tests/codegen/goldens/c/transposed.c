/* CpuSchedule(programs=(ProgramAxis(axis='i', block=64), ProgramAxis(axis='j', block=64)), loops=('j', 'i')) */

/* add_transposed over i < 100 × j < 130. */
int add_transposed(
    void *const *buffers, const int64_t *sizes, const gs_number *numbers, void *scratch, int64_t begin, int64_t end)
{
    const float *restrict x_ptr = buffers[0];
    const float *restrict y_ptr = buffers[1];
    float *restrict result_ptr = buffers[2];
    float *restrict x_tile = (float *)((char *)scratch + 0);
    float *restrict result_tile = (float *)((char *)scratch + 16384);
    for (int64_t program = begin; program < end; ++program) {
        const int64_t i_first = 64 * (program / 3);
        const int64_t i_end = gs_least(i_first + 64, 100);
        const int64_t j_first = 64 * (program % 3);
        const int64_t j_end = gs_least(j_first + 64, 130);
        for (int64_t i = i_first; i < i_end; ++i)
            for (int64_t j = j_first; j < j_end; ++j)
                x_tile[64 * (j - j_first) + i - i_first] = x_ptr[130 * i + j];
        for (int64_t j = j_first; j < j_end; ++j) {
            #pragma omp simd
            for (int64_t i = i_first; i < i_end; ++i) {
                const float x = x_tile[64 * (j - j_first) + i - i_first];
                const float y = y_ptr[i + 100 * j];
                result_tile[64 * (j - j_first) + i - i_first] = x + y;
            }
        }
        for (int64_t i = i_first; i < i_end; ++i)
            for (int64_t j = j_first; j < j_end; ++j)
                result_ptr[130 * i + j] = result_tile[64 * (j - j_first) + i - i_first];
    }
    return 0;
}
