/* Calls of gs_run from several threads at once, each with data of its own, with more and fewer threads: behind the text
   of the launcher, for a sanitizer. It ends with 0 where every result is right. */

#include <stdio.h>
#include <string.h>
#include <unistd.h>
enum { PROGRAMS = 64, POINTS = 256, CALLS = 100, CALLERS = 4 };
/* y = x * number, row by row, by way of the scratch memory. */
static int scaled(
    void *const *buffers, const int64_t *sizes, const gs_number *numbers, void *scratch, int64_t begin, int64_t end)
{
    const float *x = buffers[0];
    float *y = buffers[1], *row = scratch;
    for (int64_t p = begin; p < end; ++p) {
        for (int64_t i = 0; i < sizes[0]; ++i) row[i] = x[p * sizes[0] + i] * (float)numbers[0].real;
        memcpy(y + p * sizes[0], row, (size_t)sizes[0] * sizeof(float));
    }
    return 0;
}
static void *caller(void *argument)
{
    const float factor = 1 + (float)(intptr_t)argument;
    const size_t nbytes = PROGRAMS * POINTS * sizeof(float);
    float *x = malloc(nbytes), *y = malloc(nbytes), *z = malloc(nbytes);
    for (int i = 0; i < PROGRAMS * POINTS; ++i) x[i] = (float)i;
    const int64_t sizes[] = {POINTS, POINTS};
    const gs_number numbers[] = {{.real = factor}, {.real = 2}};
    const gs_launch launches[] = {
        {scaled, 0, 0, 0, PROGRAMS, 1, POINTS * sizeof(float)},
        {scaled, 2, 1, 1, PROGRAMS, 4, 2 * POINTS * sizeof(float)},
    };
    intptr_t wrong = 0;
    for (int call = 0; call < CALLS; ++call) {
        void *buffers[] = {x, y, y, z};
        memset(z, 0, nbytes);
        wrong += gs_run(launches, 2, buffers, 4, 0, sizes, numbers, 1 + (call + (int)factor) % 4);
        for (int i = 0; i < PROGRAMS * POINTS; ++i) wrong += z[i] != x[i] * factor * 2;
        if (call % 50 == 49) usleep(2000); /* the threads sleep meanwhile */
    }
    free(x), free(y), free(z);
    return (void *)wrong;
}
int main(void)
{
    pthread_t threads[CALLERS];
    intptr_t wrong = 0;
    for (intptr_t i = 0; i < CALLERS; ++i) pthread_create(threads + i, NULL, caller, (void *)i);
    for (int i = 0; i < CALLERS; ++i) {
        void *found;
        pthread_join(threads[i], &found);
        wrong += (intptr_t)found;
    }
    return wrong != 0;
}
