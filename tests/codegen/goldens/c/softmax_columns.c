/* CpuSchedule(programs=(ProgramAxis(axis='j', block=256),), loops=('i', 'j')) */

/* softmax_columns over j < 130 × i < 500. */
int softmax_columns(
    void *const *buffers, const int64_t *sizes, const gs_number *numbers, void *scratch, int64_t begin, int64_t end)
{
    const float *restrict x_ptr = buffers[0];
    float *restrict result_ptr = buffers[1];
    float m[130] __attribute__((aligned(64)));
    float s[130] __attribute__((aligned(64)));
    float *restrict es = (float *)((char *)scratch + 0);
    float reciprocals[130] __attribute__((aligned(64)));
    for (int64_t j_block = begin; j_block < end; ++j_block) {
        const int64_t j_first = 256 * j_block;
        const int64_t j_end = gs_least(j_first + 256, 130);
        for (int64_t k = 0; k < 130; ++k) m[k] = -INFINITY;
        for (int64_t i = 0; i < 500; ++i) {
            #pragma omp simd
            for (int64_t j = j_first; j < j_end; ++j) {
                const float x = x_ptr[130 * i + j];
                m[j - j_first] = gs_maximum_f32(x, m[j - j_first]);
            }
        }
        for (int64_t k = 0; k < 130; ++k) s[k] = 0.0f;
        for (int64_t i = 0; i < 500; ++i) {
            #pragma omp simd
            for (int64_t j = j_first; j < j_end; ++j) {
                const float x = x_ptr[130 * i + j];
                const float e = gs_exp_f32(x - m[j - j_first]);
                es[130 * i + j - j_first] = e;
                s[j - j_first] += e;
            }
        }
        #pragma omp simd
        for (int64_t j = j_first; j < j_end; ++j) {
            const float reciprocal = 1.0f / s[j - j_first];
            reciprocals[j - j_first] = reciprocal;
        }
        for (int64_t i = 0; i < 500; ++i) {
            #pragma omp simd
            for (int64_t j = j_first; j < j_end; ++j) {
                const float product = es[130 * i + j - j_first] * reciprocals[j - j_first];
                result_ptr[130 * i + j] = product;
            }
        }
    }
    return 0;
}
