"""What runs kernels, in C: one call for several of them, whose programs threads share out.

The threads are those of torch, where it is imported and there are as many. Else they are started when there is work
for them, wait for more a moment and then sleep. One call at a time has them; another that comes meanwhile runs by
itself. A process that was forked starts its own.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

from .library import load_module

TEXT = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

typedef union { double real; int64_t integer; } gs_number;
typedef int gs_kernel(
    void *const *buffers, const int64_t *sizes, const gs_number *numbers, void *scratch, int64_t begin, int64_t end);

/* One kernel of a call: where its buffers, sizes and numbers begin among those of the call; how many programs it has,
   how many of them a thread takes at once, and bytes of scratch memory. */
typedef struct {
    gs_kernel *function;
    int64_t buffers, sizes, numbers;
    int64_t programs, grain, scratch;
} gs_launch;

#define MOST_THREADS 256
#define TURN (1 << 16)
#define IS_OPEN(STATE) ((STATE) / TURN % 2)
#define PAUSES 1000
#define AWAKE 200000 /* nanoseconds: longer than Python takes from a forward to its backward */

static pthread_mutex_t in_use = PTHREAD_MUTEX_INITIALIZER, waiting = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t woken = PTHREAD_COND_INITIALIZER;
static int started;
static pthread_t threads_of_pool[MOST_THREADS];
static uint64_t begun_at[MOST_THREADS];
static _Atomic uint64_t gate; /* how often it was opened and closed, times TURN; and how many threads are inside */
static _Atomic int64_t next_program;
static _Atomic int failed, outside;
static int wanted, left_alone = -1;
static struct {
    const gs_launch *launch;
    void *const *buffers;
    const int64_t *sizes;
    const gs_number *numbers;
} job;

/* OpenMP's `GOMP_parallel`, which has all threads of a team call a function; how many it has; and whether it may be
   called. */
typedef void gs_parallel(void (*function)(void *), void *given, unsigned threads, unsigned flags);
static _Atomic(gs_parallel *) parallel;
static _Atomic int team_size, is_forked;

static pthread_key_t own_memory;
static int has_key;
static __thread struct { void *memory; size_t size; } own;

static void pause_a_moment(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static int64_t nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Whether there is work, other than that of the turn in which a thread was inside last. */
static int is_called(uint64_t state, uint64_t seen)
{
    return IS_OPEN(state) && state / TURN != seen;
}

/* Wait a moment for another turn, without sleep, from which to wake takes long. */
static void await_turn_after(uint64_t seen)
{
    const int64_t end = nanoseconds() + AWAKE;
    do
        for (int i = 0; i < 64; ++i) {
            if (is_called(atomic_load_explicit(&gate, memory_order_acquire), seen)) return;
            pause_a_moment();
        }
    while (nanoseconds() < end);
}

/* Memory of the calling thread, kept until it ends. */
static void *scratch_of(size_t size)
{
    if (size <= own.size) return own.memory;
    void *memory = NULL;
    if (posix_memalign(&memory, 64, size)) return NULL;
    free(own.memory);
    own.memory = memory;
    own.size = size;
    if (has_key) pthread_setspecific(own_memory, memory);
    return memory;
}

static void share_out(void)
{
    const gs_launch *launch = job.launch;
    void *scratch = launch->scratch ? scratch_of((size_t)launch->scratch) : NULL;
    if (launch->scratch && !scratch) {
        atomic_store(&failed, 1);
        return;
    }
    for (;;) {
        const int64_t begin = atomic_fetch_add_explicit(&next_program, launch->grain, memory_order_relaxed);
        if (begin >= launch->programs) return;
        const int64_t end = begin + launch->grain < launch->programs ? begin + launch->grain : launch->programs;
        if (launch->function(job.buffers, job.sizes, job.numbers, scratch, begin, end)) atomic_store(&outside, 1);
    }
}

/* As `share_out`, for a team. */
static void share_out_in_team(void *given)
{
    (void)given;
    share_out();
}

static void *work(void *argument)
{
    const int number = (int)(intptr_t)argument;
    uint64_t seen = begun_at[number];
    for (;;) {
        await_turn_after(seen);
        uint64_t state = atomic_load_explicit(&gate, memory_order_acquire);
        if (!is_called(state, seen)) {
            pthread_mutex_lock(&waiting);
            while (!is_called(state = atomic_load(&gate), seen)) pthread_cond_wait(&woken, &waiting);
            pthread_mutex_unlock(&waiting);
        }
        /* Who comes when the work is done finds the gate closed. */
        if (!atomic_compare_exchange_strong(&gate, &state, state + 1)) continue;
        seen = state / TURN;
        if (number < wanted) share_out();
        atomic_fetch_sub_explicit(&gate, 1, memory_order_acq_rel);
    }
    return NULL;
}

/* Have so many threads beside the calling one; fewer where the system gives no more. */
static void start(int threads)
{
    pthread_attr_t attributes;
    if (started >= threads || pthread_attr_init(&attributes)) return;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    for (; started < threads && started < MOST_THREADS; ++started) {
        begun_at[started] = atomic_load(&gate) / TURN;
        if (pthread_create(threads_of_pool + started, &attributes, work, (void *)(intptr_t)started)) break;
        left_alone = -1;
    }
    pthread_attr_destroy(&attributes);
}

/* Have the threads run wherever the caller may, but not on its processor: where no other is idle, the system wakes them
   there, and one does the work while the others wait for their turn. */
static void leave_alone(void)
{
#ifdef __linux__
    const int here = sched_getcpu();
    cpu_set_t others;
    if (here < 0 || here >= CPU_SETSIZE || here == left_alone) return;
    if (sched_getaffinity(0, sizeof others, &others)) return;
    CPU_CLR(here, &others);
    if (!CPU_COUNT(&others)) return;
    for (int i = 0; i < started; ++i) pthread_setaffinity_np(threads_of_pool[i], sizeof others, &others);
    left_alone = here;
#endif
}

/* The calling thread waits for those that are at work, not for those that have not begun: another program may have
   their processors. */
static void run_together(int threads)
{
    atomic_store(&next_program, 0);
    gs_parallel *const team = atomic_load(&parallel);
    if (team && threads == atomic_load(&team_size) && !atomic_load(&is_forked)) {
        team(share_out_in_team, NULL, (unsigned)threads, 0);
        return;
    }
    start(threads - 1);
    leave_alone();
    wanted = threads - 1;
    pthread_mutex_lock(&waiting);
    atomic_fetch_add_explicit(&gate, TURN, memory_order_acq_rel);
    pthread_cond_broadcast(&woken);
    pthread_mutex_unlock(&waiting);
    share_out();
    atomic_fetch_add_explicit(&gate, TURN, memory_order_acq_rel);
    for (int i = 0; atomic_load_explicit(&gate, memory_order_acquire) % TURN; ++i)
        if (i < PAUSES) pause_a_moment();
        else sched_yield();
}

/* Have the team of a library share the work of so many threads: its threads wait for work without sleep, for longer
   than a kernel takes, so that others beside them would have a part of their processors. */
void gs_use_team(void *found, int threads)
{
    atomic_store(&team_size, threads);
    atomic_store(&parallel, (gs_parallel *)found);
}

/* 0; 1 where there is no memory for what kernels need besides, 2 where an index is out of range. With an offset,
   `buffers` are objects, which hold the addresses of their elements there. */
int gs_run(
    const gs_launch *launches, int64_t count, void **buffers, int64_t buffer_count, int64_t offset,
    const int64_t *sizes, const gs_number *numbers, int threads)
{
    if (offset)
        for (int64_t i = 0; i < buffer_count; ++i) buffers[i] = *(void **)((char *)buffers[i] + offset);
    for (const gs_launch *launch = launches; launch < launches + count; ++launch) {
        if (launch->programs <= 0) continue;
        void *const *given = buffers + launch->buffers;
        const int64_t *own_sizes = sizes + launch->sizes;
        const gs_number *own_numbers = numbers + launch->numbers;
        if (threads > 1 && launch->programs > launch->grain && !pthread_mutex_trylock(&in_use)) {
            job.launch = launch;
            job.buffers = given;
            job.sizes = own_sizes;
            job.numbers = own_numbers;
            run_together(threads);
            const int has_failed = atomic_exchange(&failed, 0), is_outside = atomic_exchange(&outside, 0);
            pthread_mutex_unlock(&in_use);
            if (has_failed) return 1;
            if (is_outside) return 2;
            continue;
        }
        void *scratch = launch->scratch ? scratch_of((size_t)launch->scratch) : NULL;
        if (launch->scratch && !scratch) return 1;
        if (launch->function(given, own_sizes, own_numbers, scratch, 0, launch->programs)) return 2;
    }
    return 0;
}

/* The threads of the parent are not here, nor those of its team, which would be waited for. */
static void begin_anew(void)
{
    started = 0;
    left_alone = -1;
    atomic_store(&gate, 0);
    atomic_store(&is_forked, 1);
    pthread_mutex_init(&in_use, NULL);
    pthread_mutex_init(&waiting, NULL);
    pthread_cond_init(&woken, NULL);
}

__attribute__((constructor)) static void prepare(void)
{
    has_key = !pthread_key_create(&own_memory, free);
    pthread_atfork(NULL, NULL, begin_anew);
}
"""


class Launch(ctypes.Structure):
    """`gs_launch`."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("buffers", ctypes.c_int64),
        ("sizes", ctypes.c_int64),
        ("numbers", ctypes.c_int64),
        ("programs", ctypes.c_int64),
        ("grain", ctypes.c_int64),
        ("scratch", ctypes.c_int64),
    )


class NumberSlot(ctypes.Union):
    """`gs_number`."""

    _fields_ = (("real", ctypes.c_double), ("integer", ctypes.c_int64))


@cache
def launcher() -> Callable[..., int]:
    """`gs_run`, which lets Python's other threads run meanwhile. Raises: KernelFailure where it cannot be built."""
    run = load_module(TEXT, ["gs_run"]).gs_run
    run.argtypes = (
        *(ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64),
        *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int),
    )
    run.restype = ctypes.c_int
    return run


def launcher_address() -> int:
    """Where `gs_run` is, for what is in C itself. Raises: KernelFailure where it cannot be built."""
    return ctypes.cast(load_module(TEXT, ["gs_run"]).gs_run, ctypes.c_void_p).value or 0


def use_team(parallel: int, threads: int) -> None:
    """Have a team's threads run what so many threads share: `parallel` is where its `GOMP_parallel` is.

    Raises: KernelFailure where the launcher cannot be built.
    """
    use = load_module(TEXT, ["gs_run"]).gs_use_team
    use.argtypes, use.restype = (ctypes.c_void_p, ctypes.c_int), None
    use(parallel, threads)
