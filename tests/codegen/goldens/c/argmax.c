/* CpuSchedule(programs=(ProgramAxis(axis='i', block=0),), loops=('j',)) */

/* argmax over i < 33 × j < 257. */
int argmax(
    void *const *buffers, const int64_t *sizes, const gs_number *numbers, void *scratch, int64_t begin, int64_t end)
{
    const float *restrict x_ptr = buffers[0];
    float *restrict largest_ptr = buffers[1];
    int64_t *restrict position_ptr = buffers[2];
    for (int64_t i = begin; i < end; ++i) {
        float largest = -INFINITY;
        float position_of = -INFINITY;
        int64_t position = 0;
        for (int64_t j = 0; j < 257; ++j) {
            const float x = x_ptr[257 * i + j];
            largest = gs_maximum_f32(x, largest);
            if (gs_first_max_f32(x, position_of)) {
                position_of = x;
                position = j;
            }
        }
        largest_ptr[i] = largest;
        position_ptr[i] = position;
    }
    return 0;
}
