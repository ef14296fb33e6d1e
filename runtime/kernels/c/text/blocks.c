/* Memory for results on bare memory that is used again, as `runtime/values/arena.py` has it for arrays: fresh pages cost
   ten times what it costs to write to them. Large results lie in blocks of some sizes. One that nobody uses any more waits
   for the next of its size, the one that came back last first, and what waits is bounded. Built in front of entry.c; all of
   it may be called from any thread, with Python's lock or without. */

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

#define LARGE (1 << 16) /* bytes from which memory lies in a block: what is smaller the system has ready */
#define LARGE_POWER 16
#define STEPS 8         /* sizes between a power of two and the next */
#define SIZES (STEPS * 32)
#define HEAD 64         /* bytes in front of a block's memory, which is aligned to as many */
#define HUGE_LEAST (1 << 22)
#define HUGE_PAGE (1 << 12)

typedef struct Block { struct Block *next; int64_t bytes; int size; } Block;

static struct {
    pthread_mutex_t lock;
    Block *waiting[SIZES];
    uint64_t came_back[SIZES], turn; /* when the last one of a size did */
    int64_t most, bytes_waiting, bytes_in_use, reused, made;
} blocks = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* In a process that was forked: the thread that held the lock may not be here. */
static void begin_blocks_anew(void) { pthread_mutex_init(&blocks.lock, NULL); }

/* The least size of a block that holds so many bytes, which is told by its number; -1 for more than there are sizes for. */
static int size_of_block(int64_t nbytes, int64_t *bytes)
{
    int power = LARGE_POWER;
    while (power < 62 && (int64_t)1 << (power + 1) < nbytes) ++power;
    const int64_t step = ((int64_t)1 << power) / STEPS, steps = (nbytes + step - 1) / step;
    const int64_t number = (power - LARGE_POWER) * STEPS + steps - STEPS;
    *bytes = steps * step;
    return number < SIZES ? (int)number : -1;
}

/* Takes out of those that wait, with the lock held: the last of a size. */
static Block *taken_block(int size)
{
    Block *found = blocks.waiting[size];
    if (found) {
        blocks.waiting[size] = found->next;
        blocks.bytes_waiting -= found->bytes;
    }
    return found;
}

/* Gives back to the system what waits, of the sizes that were least used first, until so many bytes are left. */
static void shrink_blocks(int64_t most)
{
    while (blocks.bytes_waiting > most) {
        int oldest = -1;
        for (int i = 0; i < SIZES; ++i)
            if (blocks.waiting[i] && (oldest < 0 || blocks.came_back[i] < blocks.came_back[oldest])) oldest = i;
        if (oldest < 0) return;
        free(taken_block(oldest));
    }
}

/* Memory for so many bytes, LARGE or more; NULL where there is none. */
static void *block_of(int64_t nbytes)
{
    int64_t bytes;
    const int size = size_of_block(nbytes, &bytes);
    if (size < 0) return NULL;
    pthread_mutex_lock(&blocks.lock);
    Block *found = taken_block(size);
    blocks.reused += found != NULL;
    if (!found) {
        const size_t alignment = bytes >= HUGE_LEAST ? HUGE_PAGE : HEAD, all = HEAD + (size_t)bytes;
        const size_t whole = (all + alignment - 1) / alignment * alignment;
        found = aligned_alloc(alignment, whole);
        if (!found) {
            shrink_blocks(0);
            found = aligned_alloc(alignment, whole);
        }
#ifdef MADV_HUGEPAGE
        /* As NumPy asks for its own. */
        if (found && bytes >= HUGE_LEAST) madvise(found, whole, MADV_HUGEPAGE);
#endif
        if (found) *found = (Block){NULL, bytes, size};
        blocks.made += found != NULL;
    }
    if (found) blocks.bytes_in_use += bytes;
    pthread_mutex_unlock(&blocks.lock);
    return found ? (char *)found + HEAD : NULL;
}

static void block_is_back(void *memory)
{
    Block *block = (Block *)((char *)memory - HEAD);
    pthread_mutex_lock(&blocks.lock);
    blocks.bytes_in_use -= block->bytes;
    if (block->bytes > blocks.most) free(block);
    else {
        block->next = blocks.waiting[block->size];
        blocks.waiting[block->size] = block;
        blocks.came_back[block->size] = ++blocks.turn;
        blocks.bytes_waiting += block->bytes;
        shrink_blocks(blocks.most);
    }
    pthread_mutex_unlock(&blocks.lock);
}

/* Gives back to the system what waits but for so many bytes, which no more than will wait from now on if `stays`. */
static void gs_shrink_blocks(int64_t most, int stays)
{
    pthread_mutex_lock(&blocks.lock);
    if (stays) blocks.most = most;
    shrink_blocks(most);
    pthread_mutex_unlock(&blocks.lock);
}

/* Bytes in use and waiting; how many blocks were used again, and made. */
static void gs_count_blocks(int64_t *counts)
{
    pthread_mutex_lock(&blocks.lock);
    counts[0] = blocks.bytes_in_use;
    counts[1] = blocks.bytes_waiting;
    counts[2] = blocks.reused;
    counts[3] = blocks.made;
    pthread_mutex_unlock(&blocks.lock);
}
