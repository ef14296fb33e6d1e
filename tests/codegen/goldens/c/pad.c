/* CpuSchedule(programs=(ProgramAxis(axis='i', block=356),), loops=('i', 'j')) */

/* pad over i < 15 × j < 23. */
int pad(
    void *const *buffers, const int64_t *sizes, const gs_number *numbers, void *scratch, int64_t begin, int64_t end)
{
    const float *restrict x_ptr = buffers[0];
    float *restrict result_ptr = buffers[1];
    for (int64_t i_block = begin; i_block < end; ++i_block) {
        const int64_t i_first = 356 * i_block;
        const int64_t i_end = gs_least(i_first + 356, 15);
        for (int64_t i = i_first; i < i_end; ++i) {
            #pragma omp simd
            for (int64_t j = 0; j < 32; ++j) {
                const float x = (j < 23) & (i - 1 >= 0) & (i - 1 < 13) & (j - 2 >= 0) & (j - 2 < 19) ? x_ptr[19 * i + j - 21] : -1.0f;
                if (j < 23) result_ptr[23 * i + j] = x;
            }
        }
    }
    return 0;
}
