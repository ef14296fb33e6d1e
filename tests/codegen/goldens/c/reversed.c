/* CpuSchedule(programs=(ProgramAxis(axis='i', block=8192),), loops=('i',)) */

/* reversed_reshape over i < 240. */
int reversed_reshape(
    void *const *buffers, const int64_t *sizes, const gs_number *numbers, void *scratch, int64_t begin, int64_t end)
{
    const float *restrict x_ptr = buffers[0];
    float *restrict result_ptr = buffers[1];
    for (int64_t i_block = begin; i_block < end; ++i_block) {
        const int64_t i_first = 8192 * i_block;
        const int64_t i_end = gs_least(i_first + 8192, 240);
        #pragma omp simd
        for (int64_t i = i_first; i < i_end; ++i) {
            const float x = x_ptr[-i + 239];
            result_ptr[i] = x;
        }
    }
    return 0;
}
