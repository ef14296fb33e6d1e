/* CpuSchedule(programs=(ProgramAxis(axis='ij', block=8192),), loops=('ij',)) */

/* dropout over ij < 2100. */
int dropout(
    void *const *buffers, const int64_t *sizes, const gs_number *numbers, void *scratch, int64_t begin, int64_t end)
{
    const float *restrict x_ptr = buffers[0];
    float *restrict result_ptr = buffers[1];
    uint8_t *restrict mask_ptr = buffers[2];
    const int64_t seed = numbers[0].integer;
    for (int64_t ij_block = begin; ij_block < end; ++ij_block) {
        const int64_t ij_first = 8192 * ij_block;
        const int64_t ij_end = gs_least(ij_first + 8192, 2100);
        for (int64_t ij_start = ij_first; ij_start < ij_end; ij_start += 1024) {
            const int64_t ij_stop = gs_least(ij_start + 1024, ij_end);
            float uniforms_room[1058];
            const float *const uniforms = gs_uniforms(uniforms_room, seed, ij_start, ij_stop - ij_start);
            #pragma omp simd
            for (int64_t ij = ij_start; ij < ij_stop; ++ij) {
                const float uniform = uniforms[ij - ij_start];
                const bool keep = uniform >= 0.25f;
                const float x = x_ptr[ij];
                result_ptr[ij] = keep ? x * 1.3333334f : 0.0f;
                mask_ptr[ij] = keep;
            }
        }
    }
    return 0;
}
