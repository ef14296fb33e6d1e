/* CpuSchedule(programs=(ProgramAxis(axis='ij', block=8192),), loops=('ij',)) */

/* silu_scaled over ij < 64000.
 *
 * mlp.grad:2: return torch.sigmoid(x + b) * x
 */
int silu_scaled(
    void *const *buffers, const int64_t *sizes, const gs_number *numbers, void *scratch, int64_t begin, int64_t end)
{
    const float *restrict x_ptr = buffers[0];
    float *restrict result_ptr = buffers[1];
    const float alpha = (float)numbers[0].real;
    for (int64_t ij_block = begin; ij_block < end; ++ij_block) {
        const int64_t ij_first = 8192 * ij_block;
        const int64_t ij_end = gs_least(ij_first + 8192, 64000);
        #pragma omp simd
        for (int64_t ij = ij_first; ij < ij_end; ++ij) {
            const float x = x_ptr[ij];
            const float sigmoid = 1.0f / (gs_exp_f32(-x) + 1.0f);
            result_ptr[ij] = x * sigmoid * alpha;
        }
    }
    return 0;
}
