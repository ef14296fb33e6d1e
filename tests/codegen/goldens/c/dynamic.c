/* CpuSchedule(programs=(ProgramAxis(axis='i', block=64),), loops=('i', 'j')) */

/* scaled_bias over i < size × j < 128. */
int scaled_bias(
    void *const *buffers, const int64_t *sizes, const gs_number *numbers, void *scratch, int64_t begin, int64_t end)
{
    const float *restrict x_ptr = buffers[0];
    float bias_line[128] __attribute__((aligned(64)));
    const float *restrict bias_ptr = gs_aligned(buffers[1], bias_line, 512, true);
    const float *restrict scale_ptr = buffers[2];
    float *restrict result_ptr = buffers[3];
    const int64_t size_i = sizes[0];
    const bool is_large = GS_STREAMS && 512 * size_i >= 4194304 && (uintptr_t)result_ptr % 64 == 0;
    for (int64_t i_block = begin; i_block < end; ++i_block) {
        const int64_t i_first = 64 * i_block;
        const int64_t i_end = gs_least(i_first + 64, size_i);
        for (int64_t i = i_first; i < i_end; ++i) {
            const float scale = scale_ptr[i];
            for (int64_t j_block = 0; j_block < 128; j_block += 64) {
                float result_line[64] __attribute__((aligned(64)));
                #pragma omp simd
                for (int j_lane = 0; j_lane < 64; ++j_lane) {
                    const int64_t j = j_block + j_lane;
                    const float x = x_ptr[256 * i + 2 * j];
                    const float bias = bias_ptr[j];
                    result_line[j_lane] = x * scale + bias;
                }
                gs_put(result_ptr + 128 * i + j_block, result_line, sizeof(float) * 64, sizeof(float) * 64, is_large);
            }
        }
    }
    gs_stream_end();
    return 0;
}
