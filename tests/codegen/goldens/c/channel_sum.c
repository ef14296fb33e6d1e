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
        float largest = -INFINITY;
        for (int64_t i = 0; i < 9; ++i) {
            float value2_along_i = 0.0f;
            float value3_along_i = -INFINITY;
            #pragma omp simd reduction(+ : value2_along_i) reduction(gs_maximum_f32 : value3_along_i)
            for (int64_t k = 0; k < 35; ++k) {
                const float x = x_ptr[210 * i + 35 * j + k];
                value2_along_i += x;
                value3_along_i = gs_maximum_f32(x, value3_along_i);
            }
            total += value2_along_i;
            largest = gs_maximum_f32(value3_along_i, largest);
        }
        total_ptr[j] = total;
        largest_ptr[j] = largest;
    }
    return 0;
}
