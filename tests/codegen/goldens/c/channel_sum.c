/* CpuSchedule(programs=(ProgramAxis(axis='j', block=0),), loops=('i', 'k')) */

/* channel_sum over j < 6 × i < 9 × k < 35. */
int channel_sum(
    void *const *buffers, const int64_t *sizes, const gs_number *numbers, void *scratch, int64_t begin, int64_t end)
{
    const float *restrict x_ptr = buffers[0];
    float *restrict total_ptr = buffers[1];
    float *restrict largest_ptr = buffers[2];
    for (int64_t j = begin; j < end; ++j) {
        float total = 0.0f;
        int32_t largest_order = gs_order_f32(-INFINITY, INT32_MAX);
        for (int64_t i = 0; i < 9; ++i) {
            float value2_along_i = 0.0f;
            int32_t value3_along_i_order = gs_order_f32(-INFINITY, INT32_MAX);
            const int64_t k_end = gs_unknown(35);
            #pragma omp simd reduction(+ : value2_along_i) reduction(max : value3_along_i_order)
            for (int64_t k = 0; k < k_end; ++k) {
                const float x = x_ptr[210 * i + 35 * j + k];
                value2_along_i += x;
                const int32_t value3_along_i_order_here = gs_order_f32(x, INT32_MAX);
                value3_along_i_order = value3_along_i_order_here > value3_along_i_order ? value3_along_i_order_here : value3_along_i_order;
            }
            total += value2_along_i;
            const int32_t largest_order_here = gs_order_f32(gs_of_order_f32(value3_along_i_order), INT32_MAX);
            largest_order = largest_order_here > largest_order ? largest_order_here : largest_order;
        }
        total_ptr[j] = total;
        largest_ptr[j] = gs_of_order_f32(largest_order);
    }
    return 0;
}
