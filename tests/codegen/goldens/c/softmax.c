/* CpuSchedule(programs=(ProgramAxis(axis='i', block=0),), loops=('j',)) */

/* softmax over i < 256 × j < 1000. */
int softmax(
    void *const *buffers, const int64_t *sizes, const gs_number *numbers, void *scratch, int64_t begin, int64_t end)
{
    const gs_float16 *restrict x_ptr = buffers[0];
    gs_float16 *restrict result_ptr = buffers[1];
    float numerators_room[1000] __attribute__((aligned(64)));
    float *restrict numerators = gs_noalias(numerators_room);
    for (int64_t i = begin; i < end; ++i) {
        const int64_t i_next = i + 1;
        gs_fetch(x_ptr + 1000 * i_next, 2000);
        int32_t m_order = gs_order_f32(-INFINITY, INT32_MAX);
        #pragma omp simd reduction(max : m_order)
        for (int64_t j = 0; j < 1000; ++j) {
            const float x_1 = gs_load_float16(x_ptr[1000 * i + j]);
            const int32_t m_order_here = gs_order_f32(x_1, INT32_MAX);
            m_order = m_order_here > m_order ? m_order_here : m_order;
        }
        float denominator_lanes[64] __attribute__((aligned(64)));
        #pragma omp simd
        for (int k = 0; k < 64; ++k) denominator_lanes[k] = 0.0f;
        for (int64_t j_block = 0; j_block < 1000; j_block += 64) {
            const int j_rest = gs_least(64, 1000 - j_block);
            #pragma omp simd
            for (int j_lane = 0; j_lane < j_rest; ++j_lane) {
                const int64_t j = j_block + j_lane;
                const float x_1 = gs_load_float16(x_ptr[1000 * i + j]);
                const float numerator = gs_exp_f32(x_1 - gs_of_order_f32(m_order));
                numerators[j] = numerator;
                denominator_lanes[j_lane] += numerator;
            }
        }
        const float denominator = gs_lane_sum_f32(denominator_lanes, 64);
        const float reciprocal = 1.0f / denominator;
        #pragma omp simd
        for (int64_t j = 0; j < 1000; ++j) {
            result_ptr[1000 * i + j] = gs_store_float16(numerators[j] * reciprocal);
        }
    }
    return 0;
}
