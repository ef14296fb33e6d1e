/* CpuSchedule(programs=(ProgramAxis(axis='c', block=0),), loops=('r', 'j')) */

/* layer_norm_backward_partial over c < size × r < size × j < 768. */
int layer_norm_backward_partial(
    void *const *buffers, const int64_t *sizes, const gs_number *numbers, void *scratch, int64_t begin, int64_t end)
{
    const float *restrict grad_output_ptr = buffers[0];
    const float *restrict x_ptr = buffers[1];
    float weight_line[768] __attribute__((aligned(64)));
    const float *restrict weight_ptr = gs_aligned(buffers[2], weight_line, 3072, true);
    const float *restrict mean_ptr = buffers[3];
    const float *restrict rstd_ptr = buffers[4];
    float *restrict grad_x_ptr = buffers[5];
    float *restrict partial_grad_weight_ptr = buffers[6];
    float *restrict partial_grad_bias_ptr = buffers[7];
    const int64_t size_c = sizes[0];
    const int64_t size_r = sizes[1];
    const int64_t size_i = sizes[2];
    float grad_b_room[768] __attribute__((aligned(64)));
    float *restrict grad_b = gs_noalias(grad_b_room);
    float grad_w_room[768] __attribute__((aligned(64)));
    float *restrict grad_w = gs_noalias(grad_w_room);
    const bool is_large = GS_STREAMS && 3072 * size_c * size_r >= 4194304 && (uintptr_t)grad_x_ptr % 64 == 0;
    for (int64_t c = begin; c < end; ++c) {
        for (int64_t k = 0; k < 768; ++k) grad_b[k] = 0.0f;
        for (int64_t k = 0; k < 768; ++k) grad_w[k] = 0.0f;
        for (int64_t r = 0; r < gs_least(size_r, size_i - c * size_r); ++r) {
            const int64_t r_next = r + 1;
            const float mean = mean_ptr[c * size_r + r];
            const float rstd = rstd_ptr[c * size_r + r];
            float total_lanes[64] __attribute__((aligned(64)));
            #pragma omp simd
            for (int k = 0; k < 64; ++k) total_lanes[k] = 0.0f;
            float total_1_lanes[64] __attribute__((aligned(64)));
            #pragma omp simd
            for (int k = 0; k < 64; ++k) total_1_lanes[k] = 0.0f;
            for (int64_t j_block = 0; j_block < 768; j_block += 64) {
                gs_fetch(grad_output_ptr + 768 * c * size_r + j_block + 768 * r_next, 256);
                #pragma omp simd
                for (int j_lane = 0; j_lane < 64; ++j_lane) {
                    const int64_t j = j_block + j_lane;
                    const float grad = grad_output_ptr[768 * c * size_r + j + 768 * r];
                    grad_b[j] += grad;
                    const float weight = weight_ptr[j];
                    const float weighted = grad * weight;
                    const float x = x_ptr[768 * c * size_r + j + 768 * r];
                    const float normalized = (x - mean) * rstd;
                    grad_w[j] += grad * normalized;
                    total_lanes[j_lane] += weighted * normalized;
                    total_1_lanes[j_lane] += weighted;
                }
            }
            const float total = gs_lane_sum_f32(total_lanes, 64);
            const float total_1 = gs_lane_sum_f32(total_1_lanes, 64);
            const float mean_grad = total_1 / 768.0f;
            const float mean_product = total / 768.0f;
            for (int64_t j_block = 0; j_block < 768; j_block += 64) {
                gs_fetch(x_ptr + 768 * c * size_r + j_block + 768 * r_next, 256);
                float grad_x_line[64] __attribute__((aligned(64)));
                #pragma omp simd
                for (int j_lane = 0; j_lane < 64; ++j_lane) {
                    const int64_t j = j_block + j_lane;
                    const float grad = grad_output_ptr[768 * c * size_r + j + 768 * r];
                    const float weight = weight_ptr[j];
                    const float weighted = grad * weight;
                    const float x = x_ptr[768 * c * size_r + j + 768 * r];
                    const float normalized = (x - mean) * rstd;
                    const float product = (weighted - mean_grad - normalized * mean_product) * rstd;
                    grad_x_line[j_lane] = product;
                }
                gs_put(grad_x_ptr + 768 * c * size_r + j_block + 768 * r, grad_x_line, sizeof(float) * 64, sizeof(float) * 64, is_large);
            }
        }
        #pragma omp simd
        for (int64_t j = 0; j < 768; ++j) {
            partial_grad_weight_ptr[768 * c + j] = grad_w[j];
            partial_grad_bias_ptr[768 * c + j] = grad_b[j];
        }
    }
    gs_stream_end();
    return 0;
}


/* CpuSchedule(programs=(ProgramAxis(axis='j', block=256),), loops=('c', 'j')) */

/* layer_norm_backward_finish over j < 768 × c < size. */
int layer_norm_backward_finish(
    void *const *buffers, const int64_t *sizes, const gs_number *numbers, void *scratch, int64_t begin, int64_t end)
{
    const float *restrict partial_grad_weight_ptr = buffers[0];
    const float *restrict partial_grad_bias_ptr = buffers[1];
    float *restrict grad_weight_ptr = buffers[2];
    float *restrict grad_bias_ptr = buffers[3];
    const int64_t size_c = sizes[0];
    double grad_w_total[256] __attribute__((aligned(64)));
    double grad_b_total[256] __attribute__((aligned(64)));
    for (int64_t j_block = begin; j_block < end; ++j_block) {
        const int64_t j_first = 256 * j_block;
        const int64_t j_end = gs_least(j_first + 256, 768);
        for (int64_t k = 0; k < 256; ++k) grad_w_total[k] = 0.0;
        for (int64_t k = 0; k < 256; ++k) grad_b_total[k] = 0.0;
        for (int64_t c = 0; c < size_c; ++c) {
            #pragma omp simd
            for (int64_t j = j_first; j < j_end; ++j) {
                const float partial_grad_weight = partial_grad_weight_ptr[768 * c + j];
                const double grad_w_wide = (double)partial_grad_weight;
                grad_w_total[j - j_first] += grad_w_wide;
                const float partial_grad_bias = partial_grad_bias_ptr[768 * c + j];
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
