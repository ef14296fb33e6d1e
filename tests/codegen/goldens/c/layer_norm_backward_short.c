/* CpuSchedule(programs=(ProgramAxis(axis='c', block=0),), loops=('r', 'j')) */

/* layer_norm_backward_partial over c < size × r < size × j < 61. */
int layer_norm_backward_partial(
    void *const *buffers, const int64_t *sizes, const gs_number *numbers, void *scratch, int64_t begin, int64_t end)
{
    const float *restrict grad_output_ptr = buffers[0];
    const float *restrict x_ptr = buffers[1];
    float weight_line[61] __attribute__((aligned(64)));
    const float *restrict weight_ptr = gs_aligned(buffers[2], weight_line, 244, true);
    const float *restrict mean_ptr = buffers[3];
    const float *restrict rstd_ptr = buffers[4];
    float *restrict grad_x_ptr = buffers[5];
    float *restrict partial_grad_weight_ptr = buffers[6];
    float *restrict partial_grad_bias_ptr = buffers[7];
    const int64_t size_r = sizes[1];
    const int64_t size_i = sizes[2];
    float grad_b_room[64] __attribute__((aligned(64)));
    float *restrict grad_b = gs_noalias(grad_b_room);
    float grad_w_room[64] __attribute__((aligned(64)));
    float *restrict grad_w = gs_noalias(grad_w_room);
    for (int64_t c = begin; c < end; ++c) {
        for (int64_t k = 0; k < 64; ++k) grad_b[k] = 0.0f;
        for (int64_t k = 0; k < 64; ++k) grad_w[k] = 0.0f;
        for (int64_t r = 0; r < gs_least(size_r, size_i - c * size_r); ++r) {
            const float mean = mean_ptr[c * size_r + r];
            const float rstd = rstd_ptr[c * size_r + r];
            float total_lanes[64] __attribute__((aligned(64)));
            #pragma omp simd
            for (int k = 0; k < 64; ++k) total_lanes[k] = 0.0f;
            float total_1_lanes[64] __attribute__((aligned(64)));
            #pragma omp simd
            for (int k = 0; k < 64; ++k) total_1_lanes[k] = 0.0f;
            #pragma omp simd
            for (int64_t j = 0; j < 64; ++j) {
                const float grad = j < 61 ? grad_output_ptr[61 * c * size_r + j + 61 * r] : 0.0f;
                grad_b[j] += grad;
                const float weight = j < 61 ? weight_ptr[j] : 0.0f;
                const float weighted = grad * weight;
                const float x = j < 61 ? x_ptr[61 * c * size_r + j + 61 * r] : 0.0f;
                const float normalized = (x - mean) * rstd;
                grad_w[j] += grad * normalized;
                total_lanes[j] += j < 61 ? weighted * normalized : 0.0f;
                total_1_lanes[j] += j < 61 ? weighted : 0.0f;
            }
            const float total = gs_lane_sum_f32(total_lanes, 64);
            const float total_1 = gs_lane_sum_f32(total_1_lanes, 64);
            const float mean_grad = total_1 / 61.0f;
            const float mean_product = total / 61.0f;
            #pragma omp simd
            for (int64_t j = 0; j < 64; ++j) {
                const float grad = j < 61 ? grad_output_ptr[61 * c * size_r + j + 61 * r] : 0.0f;
                const float weight = j < 61 ? weight_ptr[j] : 0.0f;
                const float weighted = grad * weight;
                const float x = j < 61 ? x_ptr[61 * c * size_r + j + 61 * r] : 0.0f;
                const float normalized = (x - mean) * rstd;
                const float product = (weighted - mean_grad - normalized * mean_product) * rstd;
                if (j < 61) grad_x_ptr[61 * c * size_r + j + 61 * r] = product;
            }
        }
        #pragma omp simd
        for (int64_t j = 0; j < 64; ++j) {
            if (j < 61) partial_grad_weight_ptr[61 * c + j] = grad_w[j];
            if (j < 61) partial_grad_bias_ptr[61 * c + j] = grad_b[j];
        }
    }
    return 0;
}


/* CpuSchedule(programs=(ProgramAxis(axis='j', block=256),), loops=('c', 'j')) */

/* layer_norm_backward_finish over j < 61 × c < size. */
int layer_norm_backward_finish(
    void *const *buffers, const int64_t *sizes, const gs_number *numbers, void *scratch, int64_t begin, int64_t end)
{
    const float *restrict partial_grad_weight_ptr = buffers[0];
    const float *restrict partial_grad_bias_ptr = buffers[1];
    float *restrict grad_weight_ptr = buffers[2];
    float *restrict grad_bias_ptr = buffers[3];
    const int64_t size_c = sizes[0];
    double grad_w_total[61] __attribute__((aligned(64)));
    double grad_b_total[61] __attribute__((aligned(64)));
    for (int64_t j_block = begin; j_block < end; ++j_block) {
        const int64_t j_first = 256 * j_block;
        const int64_t j_end = gs_least(j_first + 256, 61);
        for (int64_t k = 0; k < 61; ++k) grad_w_total[k] = 0.0;
        for (int64_t k = 0; k < 61; ++k) grad_b_total[k] = 0.0;
        for (int64_t c = 0; c < size_c; ++c) {
            #pragma omp simd
            for (int64_t j = j_first; j < j_end; ++j) {
                const float partial_grad_weight = partial_grad_weight_ptr[61 * c + j];
                const double grad_w_wide = (double)partial_grad_weight;
                grad_w_total[j - j_first] += grad_w_wide;
                const float partial_grad_bias = partial_grad_bias_ptr[61 * c + j];
                const double grad_b_wide = (double)partial_grad_bias;
                grad_b_total[j - j_first] += grad_b_wide;
            }
        }
        #pragma omp simd
        for (int64_t j = j_first; j < j_end; ++j) {
            const float grad_w = (float)grad_w_total[j - j_first];
            const float grad_b = (float)grad_b_total[j - j_first];
            grad_weight_ptr[j] = grad_w;
            grad_bias_ptr[j] = grad_b;
        }
    }
    return 0;
}
