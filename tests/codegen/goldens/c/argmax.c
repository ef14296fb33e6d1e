/* CpuSchedule(programs=(ProgramAxis(axis='i', block=0),), loops=('j',)) */

/* argmax over i < 33 × j < 257. */
int argmax(
    void *const *buffers, const int64_t *sizes, const gs_number *numbers, void *scratch, int64_t begin, int64_t end)
{
    const float *restrict x_ptr = buffers[0];
    float *restrict largest_ptr = buffers[1];
    int64_t *restrict position_ptr = buffers[2];
    for (int64_t i = begin; i < end; ++i) {
        int32_t largest_order = gs_order_f32(-INFINITY, INT32_MAX);
        float position_of = -INFINITY;
        int64_t position = 0;
        for (int64_t j = 0; j < 257; ++j) {
            const float x = x_ptr[257 * i + j];
            const int32_t largest_order_here = gs_order_f32(x, INT32_MAX);
            largest_order = largest_order_here > largest_order ? largest_order_here : largest_order;
            if (gs_first_max_f32(x, position_of)) {
                position_of = x;
                position = j;
            }
        }
        largest_ptr[i] = gs_of_order_f32(largest_order);
        position_ptr[i] = position;
    }
    return 0;
}
