/* CpuSchedule(programs=(ProgramAxis(axis='c', block=0),), loops=('r', 'j')) */

/* cross_entropy_partial over c < size × r < size × j < 1000. */
int cross_entropy_partial(
    void *const *buffers, const int64_t *sizes, const gs_number *numbers, void *scratch, int64_t begin, int64_t end)
{
    const float *restrict logits_ptr = buffers[0];
    const int64_t *restrict target_ptr = buffers[1];
    float *restrict partial_total_ptr = buffers[2];
    const int64_t size_r = sizes[1];
    const int64_t size_i = sizes[2];
    for (int64_t c = begin; c < end; ++c) {
        float total = 0.0f;
        for (int64_t r = 0; r < gs_least(size_r, size_i - c * size_r); ++r) {
            const int64_t r_next = r + 1;
            const int64_t target = target_ptr[c * size_r + r];
            float chosen = 0.0f;
            int32_t m_order = gs_order_f32(-INFINITY, INT32_MAX);
            #pragma omp simd reduction(+ : chosen) reduction(max : m_order)
            for (int64_t j = 0; j < 1000; ++j) {
                const float x = logits_ptr[1000 * c * size_r + j + 1000 * r];
                chosen += (j == target) ? x : 0.0f;
                const int32_t m_order_here = gs_order_f32(x, INT32_MAX);
                m_order = m_order_here > m_order ? m_order_here : m_order;
            }
            float s_lanes[64] __attribute__((aligned(64)));
            #pragma omp simd
            for (int k = 0; k < 64; ++k) s_lanes[k] = 0.0f;
            for (int64_t j_block = 0; j_block < 1000; j_block += 64) {
                gs_fetch(logits_ptr + 1000 * c * size_r + j_block + 1000 * r_next, 256);
                const int j_rest = gs_least(64, 1000 - j_block);
                #pragma omp simd
                for (int j_lane = 0; j_lane < 64; ++j_lane) {
                    const int64_t j = j_block + j_lane;
                    const float x = j_lane < j_rest ? logits_ptr[1000 * c * size_r + j + 1000 * r] : 0.0f;
                    s_lanes[j_lane] += j_lane < j_rest ? gs_exp_f32(x - gs_of_order_f32(m_order)) : 0.0f;
                }
            }
            const float s = gs_lane_sum_f32(s_lanes, 64);
            const float row_loss = gs_log_f32(s) + gs_of_order_f32(m_order) - chosen;
            total += row_loss;
        }
        partial_total_ptr[c] = total;
    }
    return 0;
}


/* CpuSchedule(programs=(), loops=('c',)) */

/* cross_entropy_finish over c < size. */
int cross_entropy_finish(
    void *const *buffers, const int64_t *sizes, const gs_number *numbers, void *scratch, int64_t begin, int64_t end)
{
    const float *restrict partial_total_ptr = buffers[0];
    float *restrict loss_ptr = buffers[1];
    const int64_t size_c = sizes[0];
    double total_total_lanes[64] __attribute__((aligned(64)));
    #pragma omp simd
    for (int k = 0; k < 64; ++k) total_total_lanes[k] = 0.0;
    for (int64_t c_block = 0; c_block < size_c; c_block += 64) {
        const int c_rest = gs_least(64, size_c - c_block);
        #pragma omp simd
        for (int c_lane = 0; c_lane < 64; ++c_lane) {
            const int64_t c = c_block + c_lane;
            const float partial_total = c_lane < c_rest ? partial_total_ptr[c] : 0.0f;
            const double total_wide = (double)partial_total;
            total_total_lanes[c_lane] += c_lane < c_rest ? total_wide : 0.0;
        }
    }
    const double total_total = gs_lane_sum_f64(total_total_lanes, 64);
    const float total = (float)total_total;
    loss_ptr[0] = total / 64.0f;
    return 0;
}
