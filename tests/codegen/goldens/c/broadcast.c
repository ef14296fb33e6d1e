/* CpuSchedule(programs=(ProgramAxis(axis='i', block=63),), loops=('i', 'j')) */

/* scaled_bias over i < 37 × j < 130. */
int scaled_bias(
    void *const *buffers, const int64_t *sizes, const gs_number *numbers, void *scratch, int64_t begin, int64_t end)
{
    const gs_bfloat16 *restrict x_ptr = buffers[0];
    gs_bfloat16 bias_line[130] __attribute__((aligned(64)));
    const gs_bfloat16 *restrict bias_ptr = gs_aligned(buffers[1], bias_line, 260, true);
    const gs_bfloat16 *restrict scale_ptr = buffers[2];
    gs_bfloat16 *restrict result_ptr = buffers[3];
    for (int64_t i_block = begin; i_block < end; ++i_block) {
        const int64_t i_first = 63 * i_block;
        const int64_t i_end = gs_least(i_first + 63, 37);
        for (int64_t i = i_first; i < i_end; ++i) {
            const float scale_1 = gs_load_bfloat16(scale_ptr[i]);
            #pragma omp simd
            for (int64_t j = 0; j < 130; ++j) {
                const float x_1 = gs_load_bfloat16(x_ptr[260 * i + 2 * j]);
                const float bias_1 = gs_load_bfloat16(bias_ptr[j]);
                result_ptr[130 * i + j] = gs_store_bfloat16(x_1 * scale_1 + bias_1);
            }
        }
    }
    return 0;
}
