/* CpuSchedule(programs=(ProgramAxis(axis='i', block=8192),), loops=('i',)) */

/* integers over i < 1001. */
int integers(
    void *const *buffers, const int64_t *sizes, const gs_number *numbers, void *scratch, int64_t begin, int64_t end)
{
    const int32_t *restrict x_ptr = buffers[0];
    const int32_t *restrict y_ptr = buffers[1];
    const uint8_t *restrict flag_ptr = buffers[2];
    int32_t *restrict quotient_ptr = buffers[3];
    int32_t *restrict rest_ptr = buffers[4];
    int32_t *restrict bits_ptr = buffers[5];
    uint8_t *restrict odd_ptr = buffers[6];
    for (int64_t i_block = begin; i_block < end; ++i_block) {
        const int64_t i_first = 8192 * i_block;
        const int64_t i_end = gs_least(i_first + 8192, 1001);
        #pragma omp simd
        for (int64_t i = i_first; i < i_end; ++i) {
            const int32_t x = x_ptr[i];
            const int32_t y = y_ptr[i];
            const bool flag = flag_ptr[i] != 0;
            quotient_ptr[i] = gs_floordiv_i32(x, y);
            const int32_t rest_1 = gs_remainder_i32(x, y);
            rest_ptr[i] = rest_1 + (flag ? 1 : 0);
            bits_ptr[i] = (x & 12) ^ gs_shl_i32(y, 2);
            odd_ptr[i] = ((x & 1) != 0) | flag;
        }
    }
    return 0;
}
