/* CpuSchedule(programs=(ProgramAxis(axis='c', block=0), ProgramAxis(axis='j', block=4096)), loops=('r', 'j')) */

/* relu_bias_backward_partial over c < size × r < size × j < 1024. */
int relu_bias_backward_partial(
    void *const *buffers, const int64_t *sizes, const gs_number *numbers, void *scratch, int64_t begin, int64_t end)
{
    const float *restrict grad_output_ptr = buffers[0];
    const float *restrict y_ptr = buffers[1];
    float *restrict grad_x_ptr = buffers[2];
    float *restrict partial_grad_bias_ptr = buffers[3];
    const int64_t size_c = sizes[0];
    const int64_t size_r = sizes[1];
    const int64_t size_i = sizes[2];
    float total[1024] __attribute__((aligned(64)));
    const bool is_large = GS_STREAMS && 4096 * size_c * size_r >= 4194304 && (uintptr_t)grad_x_ptr % 64 == 0;
    for (int64_t program = begin; program < end; ++program) {
        const int64_t c = program / 1;
        const int64_t j_first = 4096 * (program % 1);
        const int64_t j_end = gs_least(j_first + 4096, 1024);
        for (int64_t k = 0; k < 1024; ++k) total[k] = 0.0f;
        for (int64_t r = 0; r < gs_least(size_r, size_i - c * size_r); ++r) {
            for (int64_t j_block_1 = j_first; j_block_1 < j_end; j_block_1 += 64) {
                gs_fetch(grad_output_ptr + 1024 * c * size_r + j_block_1 + 1024 * r + 512, 256);
                gs_fetch(y_ptr + 1024 * c * size_r + j_block_1 + 1024 * r + 512, 256);
                const int j_rest = gs_least(64, j_end - j_block_1);
                float grad_x_line[64] __attribute__((aligned(64)));
                #pragma omp simd
                for (int j_lane = 0; j_lane < 64; ++j_lane) {
                    const int64_t j = j_block_1 + j_lane;
                    const float grad_output = j_lane < j_rest ? grad_output_ptr[1024 * c * size_r + j + 1024 * r] : 0.0f;
                    const float y = j_lane < j_rest ? y_ptr[1024 * c * size_r + j + 1024 * r] : 0.0f;
                    const float gradient = y > 0.0f ? grad_output : 0.0f;
                    total[j - j_first] += gradient;
                    grad_x_line[j_lane] = gradient;
                }
                gs_put(grad_x_ptr + 1024 * c * size_r + j_block_1 + 1024 * r, grad_x_line, sizeof(float) * j_rest, sizeof(float) * 64, is_large);
            }
        }
        #pragma omp simd
        for (int64_t j = j_first; j < j_end; ++j) {
            partial_grad_bias_ptr[1024 * c + j] = total[j - j_first];
        }
    }
    gs_stream_end();
    return 0;
}


/* CpuSchedule(programs=(ProgramAxis(axis='j', block=256),), loops=('c', 'j')) */

/* relu_bias_backward_finish over j < 1024 × c < size. */
int relu_bias_backward_finish(
    void *const *buffers, const int64_t *sizes, const gs_number *numbers, void *scratch, int64_t begin, int64_t end)
{
    const float *restrict partial_grad_bias_ptr = buffers[0];
    float *restrict grad_bias_ptr = buffers[1];
    const int64_t size_c = sizes[0];
    double value5_total[256] __attribute__((aligned(64)));
    for (int64_t j_block = begin; j_block < end; ++j_block) {
        const int64_t j_first = 256 * j_block;
        const int64_t j_end = gs_least(j_first + 256, 1024);
        for (int64_t k = 0; k < 256; ++k) value5_total[k] = 0.0;
        for (int64_t c = 0; c < size_c; ++c) {
            #pragma omp simd
            for (int64_t j = j_first; j < j_end; ++j) {
                const float partial_grad_bias = partial_grad_bias_ptr[1024 * c + j];
                const double value5_wide = (double)partial_grad_bias;
                value5_total[j - j_first] += value5_wide;
            }
        }
        #pragma omp simd
        for (int64_t j = j_first; j < j_end; ++j) {
            grad_bias_ptr[j] = (float)value5_total[j - j_first];
        }
    }
    return 0;
}
