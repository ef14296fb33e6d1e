/* CpuSchedule(programs=(), loops=()) */

/* scalar over a single point. */
int scalar(
    void *const *buffers, const int64_t *sizes, const gs_number *numbers, void *scratch, int64_t begin, int64_t end)
{
    const float *restrict x_ptr = buffers[0];
    float *restrict result_ptr = buffers[1];
    const float x = x_ptr[0];
    result_ptr[0] = sqrtf(x);
    return 0;
}
