/* CpuSchedule(programs=(ProgramAxis(axis='i', block=0),), loops=('j',)) */

/* layer_norm over i < 256 × j < 768. */
int layer_norm(
    void *const *buffers, const int64_t *sizes, const gs_number *numbers, void *scratch, int64_t begin, int64_t end)
{
    const float *restrict x_ptr = buffers[0];
    float weight_line[768] __attribute__((aligned(64)));
    const float *restrict weight_ptr = gs_aligned(buffers[1], weight_line, 3072, end - begin > 2);
    float bias_line[768] __attribute__((aligned(64)));
    const float *restrict bias_ptr = gs_aligned(buffers[2], bias_line, 3072, end - begin > 2);
    float *restrict result_ptr = buffers[3];
    float *restrict mean_out_ptr = buffers[4];
    float *restrict rstd_out_ptr = buffers[5];
    const float eps = (float)numbers[0].real;
    for (int64_t i = begin; i < end; ++i) {
        const int64_t i_next = i + 1;
        gs_fetch(x_ptr + 768 * i_next, 3072);
        float total_lanes[64] __attribute__((aligned(64)));
        #pragma omp simd
        for (int k = 0; k < 64; ++k) total_lanes[k] = 0.0f;
        for (int64_t j_block = 0; j_block < 768; j_block += 64) {
            #pragma omp simd
            for (int j_lane = 0; j_lane < 64; ++j_lane) {
                const int64_t j = j_block + j_lane;
                const float x = x_ptr[768 * i + j];
                total_lanes[j_lane] += x;
            }
        }
        const float total = gs_lane_sum_f32(total_lanes, 64);
        const float mean = total / 768.0f;
        mean_out_ptr[i] = mean;
        float total_1_lanes[64] __attribute__((aligned(64)));
        #pragma omp simd
        for (int k = 0; k < 64; ++k) total_1_lanes[k] = 0.0f;
        for (int64_t j_block = 0; j_block < 768; j_block += 64) {
            #pragma omp simd
            for (int j_lane = 0; j_lane < 64; ++j_lane) {
                const int64_t j = j_block + j_lane;
                const float x = x_ptr[768 * i + j];
                const float centered = x - mean;
                total_1_lanes[j_lane] += centered * centered;
            }
        }
        const float total_1 = gs_lane_sum_f32(total_1_lanes, 64);
        const float variance = total_1 / 768.0f;
        const float rstd = gs_rsqrt_f32(variance + eps);
        rstd_out_ptr[i] = rstd;
        #pragma omp simd
        for (int64_t j = 0; j < 768; ++j) {
            const float x = x_ptr[768 * i + j];
            const float centered = x - mean;
            const float weight = weight_ptr[j];
            const float bias = bias_ptr[j];
            result_ptr[768 * i + j] = centered * rstd * weight + bias;
        }
    }
    return 0;
}
