/* What DLPack says of a tensor, with its memory behind it, and how a library is asked for it; built in front of all that
   looks at tensors. */

#include <stdint.h>

typedef struct { uint8_t code, bits; uint16_t lanes; } gs_dtype;
typedef struct {
    void *data;
    struct { int32_t kind, number; } device;
    int32_t ndim;
    gs_dtype dtype;
    int64_t *sizes, *strides;
    uint64_t offset;
} gs_tensor;
typedef struct gs_managed {
    struct { uint32_t major, minor; } version;
    void *context;
    void (*drop)(struct gs_managed *);
    uint64_t flags;
    gs_tensor tensor;
} gs_managed;
typedef struct {
    struct { uint32_t major, minor; void *older; } header;
    void *allocate, *managed_of_object;
    int (*object_of_managed)(gs_managed *managed, void **object);
    int (*tensor_of_object)(void *object, gs_tensor *tensor);
} gs_exchange;

