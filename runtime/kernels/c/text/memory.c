/* Lists of what a run of a plan does, on the memory of slots; built behind products.c.

   Memory   (values, as tensors) → a list of results; NotImplemented where it is not for these, or gave up

   Inputs are arrays or tensors of the layouts that they had. What is made and read for the last time before the end lies
   in one block, at places that were found once; results have memory of their own. Ops of the library get arrays that show
   memory, and what they give is to have the layouts that it had. */

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef union { double real; int64_t integer; } gs_number;
typedef int gs_run(
    const void *launches, int64_t count, void **buffers, int64_t buffer_count, int64_t offset, const int64_t *sizes,
    const gs_number *numbers, int threads);
typedef void gs_gemm(
    const char *form_a, const char *form_b, const int *rows, const int *columns, const int *depth, const void *alpha, const void *a,
    const int *step_a, const void *b, const int *step_b, const void *beta, void *c, const int *step_c, size_t, size_t);

/* DLPack's. */
typedef struct {
    void *data;
    struct { int32_t kind, number; } device;
    int32_t ndim;
    struct { uint8_t code, bits; uint16_t lanes; } dtype;
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

#define LARGE (1 << 16)   /* bytes from which memory comes from the arena */
#define LONG (1 << 16)    /* terms of a product from which Python's other threads run meanwhile */
#define ALIGNMENT 64
#define ON_CPU 1
#define VERSION 1

enum { DONE = 0, FAILED = -1, ELSEWHERE = 1 };
enum { ARRAY, REAL, INTEGER, SAME };
enum { INPUT, MADE, VIEW, CALLED, AGAIN };
enum { KERNELS, PRODUCT, GEMM, COPY, SUM, CALL };
enum { CONSTANT, OBJECT, SHOWN, ROW };

typedef struct { PyObject *dtype; int code, ndim; npy_intp *sizes; npy_intp nbytes; } Layout; /* sizes, then strides in bytes */
typedef struct { int kind; PyObject *object; Layout layout; } Guard;
typedef struct { Py_ssize_t slot, offset; Layout layout; } Made;       /* offset in the block, -1 for memory of its own */
typedef struct { Py_ssize_t slot, source, offset; Layout layout; } View;
typedef struct { int kind; Py_ssize_t slot, index; } Output;           /* index among what is made, among views, or of the result that it is too */
typedef struct { Py_ssize_t slot; int is_integer; } Parameter;
typedef struct { Py_ssize_t count, *at; } Places;

/* Of a call: what is the same each time, what is in a slot, memory shown as an array, or several in a row. Of its
   results: what is left, a number, an array, or several. */
typedef struct Argument {
    int kind, is_tuple, may_write;
    Py_ssize_t slot, count;
    PyObject *object;
    Layout layout;
    struct Argument *items;
} Argument;

typedef struct {
    int kind;
    Places freed; /* slots whose objects are dropped after it */
    Places buffers;
    Parameter *parameters;
    Py_ssize_t parameter_count, launch_count;
    gs_run *run;
    const void *launches;
    const int64_t *sizes;
    int is_long, is_double, adds;
    Product product;
    gs_gemm *gemm;
    int form_left, form_right, ints[6];
    Places at_left, at_right, at_to; /* of each matrix: bytes */
    Py_ssize_t left, right, to, count;
    Layout from;
    PyObject *function;
    Argument given, filled;
} Act;

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *owner, *threads, *allocate, *constants, *show; /* the last: (tensor, sizes, strides, offset) → a view of it */
    Py_ssize_t first, slot_count, input_count, made_count, view_count, act_count, output_count, block;
    Guard *inputs;
    Made *made;
    View *views;
    Act *acts;
    Output *outputs;
    int is_for_tensors;
} Memory;

static const gs_exchange *exchange;
static PyObject *tensor_type, *parameter_type;

/* --- making one --- */

static int read_numbers_into(PyObject *row, Places *places)
{
    PyObject *items = PySequence_Tuple(row);
    if (!items) return -1;
    places->count = PyTuple_GET_SIZE(items);
    places->at = PyMem_Calloc((size_t)places->count + 1, sizeof(Py_ssize_t));
    if (!places->at) PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < places->count && !PyErr_Occurred(); ++i) places->at[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(items, i));
    Py_DECREF(items);
    return PyErr_Occurred() ? -1 : 0;
}

/* (dtype, code, sizes, strides) */
static int read_layout(PyObject *item, Layout *layout)
{
    PyObject *dtype, *sizes, *strides;
    if (!PyArg_ParseTuple(item, "O!iO!O!", &PyArrayDescr_Type, &dtype, &layout->code, &PyTuple_Type, &sizes, &PyTuple_Type, &strides)) return -1;
    const Py_ssize_t ndim = PyTuple_GET_SIZE(sizes);
    if (PyTuple_GET_SIZE(strides) != ndim || ndim > NPY_MAXDIMS) return PyErr_SetString(PyExc_ValueError, "one stride per size"), -1;
    layout->sizes = PyMem_Calloc(2 * (size_t)ndim + 1, sizeof(npy_intp));
    if (!layout->sizes) return PyErr_NoMemory(), -1;
    layout->dtype = Py_NewRef(dtype);
    layout->ndim = (int)ndim;
    layout->nbytes = PyDataType_ELSIZE((PyArray_Descr *)dtype);
    for (Py_ssize_t i = 0; i < ndim; ++i) {
        layout->sizes[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(sizes, i));
        layout->sizes[ndim + i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(strides, i));
        layout->nbytes *= layout->sizes[i];
    }
    return PyErr_Occurred() ? -1 : 0;
}

static int read_argument(PyObject *item, Argument *argument)
{
    PyObject *object, *items;
    argument->kind = PyTuple_Check(item) && PyTuple_GET_SIZE(item) ? (int)PyLong_AsLong(PyTuple_GET_ITEM(item, 0)) : -1;
    switch (argument->kind) {
    case CONSTANT:
        if (!PyArg_ParseTuple(item, "iO", &argument->kind, &object)) return -1;
        argument->object = Py_NewRef(object);
        return 0;
    case OBJECT: return PyArg_ParseTuple(item, "in", &argument->kind, &argument->slot) ? 0 : -1;
    case SHOWN:
        if (!PyArg_ParseTuple(item, "inOp", &argument->kind, &argument->slot, &object, &argument->may_write)) return -1;
        return read_layout(object, &argument->layout);
    case ROW: break;
    default: return PyErr_SetString(PyExc_ValueError, "no argument"), -1;
    }
    if (!PyArg_ParseTuple(item, "ipO!", &argument->kind, &argument->is_tuple, &PyTuple_Type, &items)) return -1;
    argument->items = PyMem_Calloc((size_t)PyTuple_GET_SIZE(items) + 1, sizeof(Argument));
    if (!argument->items) return PyErr_NoMemory(), -1;
    argument->count = PyTuple_GET_SIZE(items);
    for (Py_ssize_t i = 0; i < argument->count; ++i)
        if (read_argument(PyTuple_GET_ITEM(items, i), argument->items + i)) return -1;
    return 0;
}

static int read_kernels(PyObject *item, Act *act)
{
    PyObject *buffers, *parameters;
    Py_ssize_t run, launches, sizes;
    if (!PyArg_ParseTuple(item, "OO!nnnnp", &buffers, &PyTuple_Type, &parameters, &run, &launches, &act->launch_count, &sizes, &act->is_long)) return -1;
    act->run = (gs_run *)run;
    act->launches = (const void *)launches;
    act->sizes = (const int64_t *)sizes;
    act->parameters = PyMem_Calloc((size_t)PyTuple_GET_SIZE(parameters) + 1, sizeof(Parameter));
    if (!act->parameters) return PyErr_NoMemory(), -1;
    act->parameter_count = PyTuple_GET_SIZE(parameters);
    for (Py_ssize_t i = 0; i < act->parameter_count; ++i)
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(parameters, i), "np", &act->parameters[i].slot, &act->parameters[i].is_integer)) return -1;
    return read_numbers_into(buffers, &act->buffers);
}

static int read_gemm(PyObject *item, Act *act)
{
    PyObject *at_left, *at_right, *at_to;
    Py_ssize_t address;
    int *ints = act->ints;
    if (!PyArg_ParseTuple(item, "nppnnnii(iiiiii)OOO", &address, &act->is_double, &act->adds, &act->left, &act->right, &act->to,
                          &act->form_left, &act->form_right, ints, ints + 1, ints + 2, ints + 3, ints + 4, ints + 5, &at_left, &at_right, &at_to))
        return -1;
    act->gemm = (gs_gemm *)address;
    return read_numbers_into(at_left, &act->at_left) || read_numbers_into(at_right, &act->at_right) || read_numbers_into(at_to, &act->at_to) ? -1 : 0;
}

/* (kind, slots freed, what it is told of) */
static int read_act(PyObject *item, Act *act)
{
    PyObject *freed, *told, *object, *given, *filled;
    if (!PyArg_ParseTuple(item, "iOO!", &act->kind, &freed, &PyTuple_Type, &told) || read_numbers_into(freed, &act->freed)) return -1;
    switch (act->kind) {
    case KERNELS: return read_kernels(told, act);
    case PRODUCT: return read_product(told, &act->product);
    case GEMM: return read_gemm(told, act);
    case COPY:
        if (!PyArg_ParseTuple(told, "nnO", &act->left, &act->to, &object)) return -1;
        return read_layout(object, &act->from);
    case SUM: return PyArg_ParseTuple(told, "nnnnp", &act->left, &act->right, &act->to, &act->count, &act->is_double) ? 0 : -1;
    case CALL:
        if (!PyArg_ParseTuple(told, "OOO", &object, &given, &filled)) return -1;
        act->function = Py_NewRef(object);
        return read_argument(given, &act->given) || read_argument(filled, &act->filled) ? -1 : 0;
    }
    return PyErr_SetString(PyExc_ValueError, "no act"), -1;
}

static int read_input(PyObject *item, Guard *guard)
{
    PyObject *object;
    if (!PyArg_ParseTuple(item, "iO", &guard->kind, &object)) return -1;
    if (guard->kind == ARRAY) return read_layout(object, &guard->layout);
    guard->object = Py_NewRef(object);
    return 0;
}

static int read_made(PyObject *item, Made *made)
{
    PyObject *layout;
    return PyArg_ParseTuple(item, "nnO", &made->slot, &made->offset, &layout) ? read_layout(layout, &made->layout) : -1;
}

static int read_view(PyObject *item, View *view)
{
    PyObject *layout;
    return PyArg_ParseTuple(item, "nnnO", &view->slot, &view->source, &view->offset, &layout) ? read_layout(layout, &view->layout) : -1;
}

static int read_output(PyObject *item, Output *output)
{
    return PyArg_ParseTuple(item, "inn", &output->kind, &output->slot, &output->index) ? 0 : -1;
}

#define READ(FIELD, COUNT, ROW, FUNCTION)                                                                              \
    if (!(self->FIELD = PyMem_Calloc((size_t)PyTuple_GET_SIZE(ROW) + 1, sizeof *self->FIELD))) return PyErr_NoMemory(), -1; \
    self->COUNT = PyTuple_GET_SIZE(ROW);                                                                               \
    for (Py_ssize_t i = 0; i < self->COUNT; ++i)                                                                       \
        if (FUNCTION(PyTuple_GET_ITEM(ROW, i), self->FIELD + i)) return -1;

static int read_memory(Memory *self, PyObject *inputs, PyObject *made, PyObject *views, PyObject *acts, PyObject *outputs)
{
    READ(inputs, input_count, inputs, read_input)
    READ(made, made_count, made, read_made)
    READ(views, view_count, views, read_view)
    READ(acts, act_count, acts, read_act)
    READ(outputs, output_count, outputs, read_output)
    return 0;
}

static void forget_argument(Argument *argument)
{
    for (Py_ssize_t i = 0; i < argument->count; ++i) forget_argument(argument->items + i);
    PyMem_Free(argument->items);
    Py_XDECREF(argument->object);
    Py_XDECREF(argument->layout.dtype);
    PyMem_Free(argument->layout.sizes);
}

static void forget_layout(Layout *layout)
{
    Py_XDECREF(layout->dtype);
    PyMem_Free(layout->sizes);
}

static int memory_traverse(Memory *self, visitproc visit, void *arg)
{
    Py_VISIT(self->owner);
    return 0;
}

static void memory_dealloc(Memory *self)
{
    PyObject_GC_UnTrack(self);
    for (Py_ssize_t i = 0; i < self->input_count; ++i) {
        Py_XDECREF(self->inputs[i].object);
        forget_layout(&self->inputs[i].layout);
    }
    for (Py_ssize_t i = 0; i < self->made_count; ++i) forget_layout(&self->made[i].layout);
    for (Py_ssize_t i = 0; i < self->view_count; ++i) forget_layout(&self->views[i].layout);
    for (Py_ssize_t i = 0; i < self->act_count; ++i) {
        Act *act = self->acts + i;
        Places *all[] = {&act->freed, &act->buffers, &act->at_left, &act->at_right, &act->at_to};
        for (size_t k = 0; k < sizeof all / sizeof *all; ++k) PyMem_Free(all[k]->at);
        PyMem_Free(act->parameters);
        forget_layout(&act->from);
        Py_XDECREF(act->function);
        forget_argument(&act->given);
        forget_argument(&act->filled);
    }
    PyMem_Free(self->inputs);
    PyMem_Free(self->made);
    PyMem_Free(self->views);
    PyMem_Free(self->acts);
    PyMem_Free(self->outputs);
    Py_XDECREF(self->owner);
    Py_XDECREF(self->show);
    Py_XDECREF(self->threads);
    Py_XDECREF(self->allocate);
    Py_XDECREF(self->constants);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

/* --- a run --- */

/* What a run has: of each slot its memory, and an object, which it holds. */
typedef struct {
    void **pointers;
    PyObject **objects;
    gs_managed **managed; /* of what is made */
    void *small;          /* the block, unless it is an object */
    PyObject *large;
} Run;

static int fits_layout(const Layout *layout, const void *data, int ndim, const npy_intp *sizes, const npy_intp *strides, npy_intp unit)
{
    if (ndim != layout->ndim || (uintptr_t)data % (uintptr_t)PyDataType_ALIGNMENT((PyArray_Descr *)layout->dtype)) return 0;
    for (int i = 0; i < ndim; ++i)
        if (sizes[i] != layout->sizes[i] || strides[i] * unit != layout->sizes[ndim + i]) return 0;
    return 1;
}

static int is_array_like(const Layout *layout, PyObject *value)
{
    if (!PyArray_CheckExact(value)) return 0;
    PyArrayObject *array = (PyArrayObject *)value;
    if ((PyObject *)PyArray_DESCR(array) != layout->dtype && !PyArray_EquivTypes(PyArray_DESCR(array), (PyArray_Descr *)layout->dtype)) return 0;
    return fits_layout(layout, PyArray_DATA(array), PyArray_NDIM(array), PyArray_DIMS(array), PyArray_STRIDES(array), 1);
}

/* Whether a value is what an input was; of an array or a tensor, its memory. */
static int is_taken(const Memory *self, const Guard *guard, PyObject *value, void **data)
{
    gs_tensor tensor;
    int is_beyond = 0;
    switch (guard->kind) {
    case REAL: return PyFloat_CheckExact(value) && !(fabs(PyFloat_AS_DOUBLE(value)) > 3.3895313892515355e38 && fabs(PyFloat_AS_DOUBLE(value)) <= DBL_MAX);
    case INTEGER:
        if (!PyLong_CheckExact(value)) return 0;
        (void)PyLong_AsLongLongAndOverflow(value, &is_beyond);
        return !is_beyond;
    case SAME:
        if (value == guard->object) return 1;
        if (Py_TYPE(value) != Py_TYPE(guard->object) || !(PyLong_CheckExact(value) || PyUnicode_CheckExact(value) || PyFloat_CheckExact(value))) return 0;
        if (PyFloat_CheckExact(value)) return !memcmp(&((PyFloatObject *)value)->ob_fval, &((PyFloatObject *)guard->object)->ob_fval, sizeof(double));
        return PyObject_RichCompareBool(value, guard->object, Py_EQ) == 1;
    }
    const Layout *layout = &guard->layout;
    if (!self->is_for_tensors) {
        if (!is_array_like(layout, value)) return 0;
        *data = PyArray_DATA((PyArrayObject *)value);
        return 1;
    }
    if ((PyObject *)Py_TYPE(value) != tensor_type && (PyObject *)Py_TYPE(value) != parameter_type) return 0;
    if (exchange->tensor_of_object(value, &tensor) || tensor.device.kind != ON_CPU) return 0;
    const npy_intp unit = PyDataType_ELSIZE((PyArray_Descr *)layout->dtype);
    if (tensor.dtype.code != layout->code || tensor.dtype.bits != 8 * unit || tensor.dtype.lanes != 1) return 0;
    *data = (char *)tensor.data + tensor.offset;
    if (!tensor.data && layout->nbytes) return 0;
    return fits_layout(layout, *data, tensor.ndim, (const npy_intp *)tensor.sizes, (const npy_intp *)tensor.strides, unit);
}

static void dropped(gs_managed *managed)
{
    PyObject *owner = managed->context;
    free(managed);
    if (!owner || !Py_IsInitialized()) return;
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF(owner);
    PyGILState_Release(state);
}

/* An array of the arena, or of NumPy's. */
static PyObject *new_array(const Memory *self, const Layout *layout)
{
    if (layout->nbytes < LARGE) {
        Py_INCREF(layout->dtype); /* which the array takes over */
        return PyArray_NewFromDescr(&PyArray_Type, (PyArray_Descr *)layout->dtype, layout->ndim, layout->sizes, NULL, NULL, 0, NULL);
    }
    PyObject *shape = PyTuple_New(layout->ndim), *array = NULL;
    for (int i = 0; shape && i < layout->ndim; ++i) {
        PyObject *size = PyLong_FromSsize_t(layout->sizes[i]);
        if (!size) Py_CLEAR(shape);
        else PyTuple_SET_ITEM(shape, i, size);
    }
    if (shape) array = PyObject_CallFunctionObjArgs(self->allocate, shape, layout->dtype, NULL);
    Py_XDECREF(shape);
    return array;
}

/* A tensor to be, with memory behind it, or in that of an array, which it holds. */
static gs_managed *new_managed(const Memory *self, const Layout *layout, PyObject *array)
{
    const size_t head = sizeof(gs_managed) + 2 * (size_t)layout->ndim * sizeof(int64_t);
    PyObject *owner = array ? Py_NewRef(array) : layout->nbytes < LARGE ? NULL : new_array(self, layout);
    if (!owner && layout->nbytes >= LARGE) return NULL;
    gs_managed *managed = malloc(head + (owner ? 0 : ALIGNMENT + (size_t)layout->nbytes));
    if (!managed) {
        Py_XDECREF(owner);
        PyErr_NoMemory();
        return NULL;
    }
    memset(managed, 0, sizeof *managed);
    managed->version.major = 1;
    managed->context = owner;
    managed->drop = dropped;
    managed->tensor.device.kind = ON_CPU;
    managed->tensor.ndim = layout->ndim;
    managed->tensor.dtype.code = (uint8_t)layout->code;
    managed->tensor.dtype.bits = (uint8_t)(8 * PyDataType_ELSIZE((PyArray_Descr *)layout->dtype));
    managed->tensor.dtype.lanes = 1;
    managed->tensor.sizes = (int64_t *)(managed + 1);
    managed->tensor.strides = managed->tensor.sizes + layout->ndim;
    int64_t stride = 1;
    for (int i = layout->ndim; i-- > 0; stride *= layout->sizes[i] > 1 ? layout->sizes[i] : 1) {
        managed->tensor.sizes[i] = layout->sizes[i];
        managed->tensor.strides[i] = stride;
    }
    managed->tensor.data = owner ? PyArray_DATA((PyArrayObject *)owner)
                                 : (void *)(((uintptr_t)managed + head + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1));
    return managed;
}

/* The elements of a layout, in order. */
static void copied(char *to, const char *from, const Layout *layout)
{
    const npy_intp size = PyDataType_ELSIZE((PyArray_Descr *)layout->dtype), *sizes = layout->sizes, *strides = sizes + layout->ndim;
    npy_intp at[NPY_MAXDIMS] = {0}, inner = size, left = layout->nbytes;
    int outer = layout->ndim;
    while (outer && (sizes[outer - 1] == 1 || strides[outer - 1] == inner)) inner *= sizes[--outer];
    for (; left > 0; left -= inner, to += inner) {
        if (inner == 4) memcpy(to, from, 4);
        else if (inner == 8) memcpy(to, from, 8);
        else memcpy(to, from, (size_t)inner);
        for (int d = outer; d-- > 0;) {
            from += strides[d];
            if (++at[d] < sizes[d]) break;
            from -= at[d] * strides[d];
            at[d] = 0;
        }
    }
}

static PyObject *shown(const Layout *layout, void *data, int may_write, PyObject *base)
{
    Py_INCREF(layout->dtype); /* which the array takes over */
    PyObject *array = PyArray_NewFromDescr(
        &PyArray_Type, (PyArray_Descr *)layout->dtype, layout->ndim, layout->sizes, layout->sizes + layout->ndim, data,
        may_write ? NPY_ARRAY_WRITEABLE : 0, NULL);
    if (array && base && PyArray_SetBaseObject((PyArrayObject *)array, Py_NewRef(base))) Py_CLEAR(array);
    return array;
}

static PyObject *argument_of(const Argument *argument, const Run *run)
{
    PyObject *held, *row;
    switch (argument->kind) {
    case CONSTANT: return Py_NewRef(argument->object);
    case OBJECT:
        held = run->objects[argument->slot];
        if (!held) PyErr_SetString(PyExc_ValueError, "a slot is empty");
        return Py_XNewRef(held);
    case SHOWN:
        held = run->objects[argument->slot];
        if (held && PyArray_CheckExact(held) && PyArray_DATA((PyArrayObject *)held) == run->pointers[argument->slot] && is_array_like(&argument->layout, held))
            return Py_NewRef(held);
        return shown(&argument->layout, run->pointers[argument->slot], argument->may_write, NULL);
    }
    row = argument->is_tuple ? PyTuple_New(argument->count) : PyList_New(argument->count);
    for (Py_ssize_t i = 0; row && i < argument->count; ++i) {
        PyObject *item = argument_of(argument->items + i, run);
        if (!item) Py_CLEAR(row);
        else if (argument->is_tuple) PyTuple_SET_ITEM(row, i, item);
        else PyList_SET_ITEM(row, i, item);
    }
    return row;
}

static void point_views(const Memory *self, Run *run, Py_ssize_t source)
{
    for (Py_ssize_t i = 0; i < self->view_count; ++i)
        if (self->views[i].source == source) run->pointers[self->views[i].slot] = (char *)run->pointers[source] + self->views[i].offset;
}

/* Whether an array has memory that lives as long as it does: it is not that of what was shown to the call. */
static int is_own(PyObject *array)
{
    while (array && PyArray_Check(array)) {
        PyArrayObject *found = (PyArrayObject *)array;
        if (!PyArray_BASE(found)) return (PyArray_FLAGS(found) & NPY_ARRAY_OWNDATA) != 0;
        array = PyArray_BASE(found);
    }
    return array != NULL;
}

static int keep_results(const Memory *self, const Argument *filled, PyObject *value, Run *run)
{
    switch (filled->kind) {
    case CONSTANT: return DONE;
    case OBJECT:
        Py_XSETREF(run->objects[filled->slot], Py_NewRef(value));
        return PyFloat_CheckExact(value) || PyLong_CheckExact(value) ? DONE : ELSEWHERE;
    case SHOWN:
        if (!is_array_like(&filled->layout, value) || !is_own(value)) return ELSEWHERE;
        Py_XSETREF(run->objects[filled->slot], Py_NewRef(value));
        run->pointers[filled->slot] = PyArray_DATA((PyArrayObject *)value);
        point_views(self, run, filled->slot);
        return DONE;
    }
    PyObject *items = PyList_Check(value) || PyTuple_Check(value) ? PySequence_Tuple(value) : NULL;
    if (!items) return PyErr_Occurred() ? FAILED : ELSEWHERE;
    int status = PyTuple_GET_SIZE(items) == filled->count ? DONE : ELSEWHERE;
    for (Py_ssize_t i = 0; status == DONE && i < filled->count; ++i)
        status = keep_results(self, filled->items + i, PyTuple_GET_ITEM(items, i), run);
    Py_DECREF(items);
    return status;
}

static int called(const Memory *self, const Act *act, Run *run)
{
    PyObject *given = argument_of(&act->given, run);
    PyObject *found = given ? PyObject_Call(act->function, given, NULL) : NULL;
    Py_XDECREF(given);
    if (!found) return FAILED;
    const int status = keep_results(self, &act->filled, found, run);
    Py_DECREF(found);
    return status;
}

static int launched(const Memory *self, const Act *act, const Run *run)
{
    void *buffers[act->buffers.count + 1];
    gs_number numbers[act->parameter_count + 1];
    int threads = 1;
    for (Py_ssize_t i = 0; i < act->parameter_count; ++i) {
        PyObject *value = run->objects[act->parameters[i].slot];
        if (!value) return ELSEWHERE;
        if (act->parameters[i].is_integer) numbers[i].integer = PyLong_AsLongLong(value);
        else numbers[i].real = PyFloat_AsDouble(value);
    }
    if (act->is_long) {
        PyObject *found = PyObject_CallNoArgs(self->threads);
        threads = found ? (int)PyLong_AsLong(found) : -1;
        Py_XDECREF(found);
    }
    if (PyErr_Occurred()) return FAILED;
    for (Py_ssize_t i = 0; i < act->buffers.count; ++i) buffers[i] = run->pointers[act->buffers.at[i]];
    PyThreadState *state = act->is_long ? PyEval_SaveThread() : NULL;
    const int failed = act->run(act->launches, act->launch_count, buffers, act->buffers.count, 0, act->sizes, numbers, threads);
    if (state) PyEval_RestoreThread(state);
    return failed ? ELSEWHERE : DONE;
}

static void multiplied(const Act *act, const Run *run)
{
    static const double one_double = 1, zero_double = 0;
    static const float one_float = 1, zero_float = 0;
    const void *one = act->is_double ? (const void *)&one_double : &one_float;
    const void *beta = act->adds ? one : act->is_double ? (const void *)&zero_double : &zero_float;
    const char left_form = (char)act->form_left, right_form = (char)act->form_right;
    const int *n = act->ints; /* columns, rows, depth, and steps of right, left and the result */
    PyThreadState *state = PyEval_SaveThread();
    /* What has rows one behind the other has, taken as columns, the transpose: so right comes before left. */
    for (Py_ssize_t i = 0; i < act->at_to.count; ++i)
        act->gemm(&right_form, &left_form, n, n + 1, n + 2, one, (char *)run->pointers[act->right] + act->at_right.at[i], n + 3,
                  (char *)run->pointers[act->left] + act->at_left.at[i], n + 4, beta, (char *)run->pointers[act->to] + act->at_to.at[i], n + 5, 1, 1);
    PyEval_RestoreThread(state);
}

static void added(const Act *act, const Run *run)
{
    if (act->is_double) {
        const double *a = run->pointers[act->left], *b = run->pointers[act->right];
        double *to = run->pointers[act->to];
        for (Py_ssize_t i = 0; i < act->count; ++i) to[i] = a[i] + b[i];
    } else {
        const float *a = run->pointers[act->left], *b = run->pointers[act->right];
        float *to = run->pointers[act->to];
        for (Py_ssize_t i = 0; i < act->count; ++i) to[i] = a[i] + b[i];
    }
}

static int run_acts(const Memory *self, Run *run)
{
    int status = DONE;
    for (Py_ssize_t i = 0; status == DONE && i < self->act_count; ++i) {
        const Act *act = self->acts + i;
        switch (act->kind) {
        case KERNELS: status = launched(self, act, run); break;
        case PRODUCT: multiply(&act->product, run->pointers); break;
        case GEMM: multiplied(act, run); break;
        case COPY: copied(run->pointers[act->to], run->pointers[act->left], &act->from); break;
        case SUM: added(act, run); break;
        case CALL: status = called(self, act, run); break;
        }
        for (Py_ssize_t k = 0; k < act->freed.count; ++k) Py_CLEAR(run->objects[act->freed.at[k]]);
    }
    return status;
}

/* What is made has memory from here on. */
static int make_room(const Memory *self, Run *run)
{
    char *block = NULL;
    if (self->block >= LARGE) {
        PyObject *size = Py_BuildValue("(n)", self->block + ALIGNMENT), *bytes = (PyObject *)PyArray_DescrFromType(NPY_UINT8);
        run->large = size && bytes ? PyObject_CallFunctionObjArgs(self->allocate, size, bytes, NULL) : NULL;
        Py_XDECREF(size);
        Py_XDECREF(bytes);
        if (!run->large) return FAILED;
        block = PyArray_DATA((PyArrayObject *)run->large);
    } else if (self->block) {
        block = run->small = malloc((size_t)self->block + ALIGNMENT);
        if (!block) return PyErr_NoMemory(), FAILED;
    }
    block = (char *)(((uintptr_t)block + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1));
    for (Py_ssize_t i = 0; i < self->made_count; ++i) {
        const Made *made = self->made + i;
        if (made->offset >= 0) run->pointers[made->slot] = block + made->offset;
        else if (self->is_for_tensors) {
            if (!(run->managed[i] = new_managed(self, &made->layout, NULL))) return FAILED;
            run->pointers[made->slot] = run->managed[i]->tensor.data;
        } else {
            if (!(run->objects[made->slot] = new_array(self, &made->layout))) return FAILED;
            run->pointers[made->slot] = PyArray_DATA((PyArrayObject *)run->objects[made->slot]);
        }
    }
    for (Py_ssize_t i = 0; i < self->view_count; ++i) {
        char *source = run->pointers[self->views[i].source];
        run->pointers[self->views[i].slot] = source ? source + self->views[i].offset : NULL;
    }
    return DONE;
}

/* A view of an input that is a tensor. */
static PyObject *view_of(const Memory *self, const View *view, PyObject *tensor)
{
    const Layout *layout = &view->layout;
    const npy_intp unit = PyDataType_ELSIZE((PyArray_Descr *)layout->dtype);
    PyObject *sizes = PyTuple_New(layout->ndim), *strides = PyTuple_New(layout->ndim), *found = NULL;
    for (int i = 0; sizes && strides && i < layout->ndim; ++i) {
        PyTuple_SET_ITEM(sizes, i, PyLong_FromSsize_t(layout->sizes[i]));
        PyTuple_SET_ITEM(strides, i, PyLong_FromSsize_t(layout->sizes[layout->ndim + i] / unit));
    }
    if (sizes && strides && !PyErr_Occurred())
        found = PyObject_CallFunction(self->show, "OOOn", tensor, sizes, strides, (Py_ssize_t)(view->offset / unit));
    Py_XDECREF(sizes);
    Py_XDECREF(strides);
    return found;
}

/* A result, a new reference. */
static PyObject *result_of(const Memory *self, const Output *output, Run *run)
{
    const View *view = output->kind == VIEW ? self->views + output->index : NULL;
    PyObject *held = run->objects[view ? view->source : output->slot];
    if (!self->is_for_tensors) {
        if (!view) return Py_XNewRef(held);
        return shown(&view->layout, run->pointers[view->slot], held && PyArray_ISWRITEABLE((PyArrayObject *)held), held);
    }
    if (output->kind == INPUT) return Py_XNewRef(held);
    /* torch is to know of it, whose version counters tell of writes. */
    if (view && view->source < self->first + self->input_count) return view_of(self, view, held);
    gs_managed *managed = NULL;
    void *tensor = NULL;
    if (output->kind == MADE) {
        managed = run->managed[output->index];
        run->managed[output->index] = NULL;
    } else if (view) {
        managed = new_managed(self, &view->layout, NULL);
        if (managed) copied(managed->tensor.data, run->pointers[view->slot], &view->layout);
    } else {
        PyArrayObject *array = (PyArrayObject *)held;
        const Layout layout = {(PyObject *)PyArray_DESCR(array), (int)output->index, PyArray_NDIM(array), PyArray_DIMS(array), PyArray_NBYTES(array)};
        managed = new_managed(self, &layout, held);
        for (int i = 0; managed && i < layout.ndim; ++i) managed->tensor.strides[i] = PyArray_STRIDE(array, i) / PyArray_ITEMSIZE(array);
    }
    if (!managed) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "a result is there twice");
        return NULL;
    }
    if (exchange->object_of_managed(managed, &tensor)) {
        dropped(managed);
        return NULL;
    }
    return tensor;
}

static PyObject *memory_call(Memory *self, PyObject *const *arguments, size_t flags, PyObject *keywords)
{
    if (PyVectorcall_NARGS(flags) != 1 || keywords || !PyList_CheckExact(arguments[0]))
        return PyErr_SetString(PyExc_TypeError, "a list of values is taken"), NULL;
    PyObject *values = arguments[0], *results = NULL;
    if (PyList_GET_SIZE(values) != self->input_count) Py_RETURN_NOTIMPLEMENTED;
    Run run = {0};
    void **room = PyMem_Calloc(2 * (size_t)self->slot_count + (size_t)self->made_count + 1, sizeof(void *));
    if (!room) return PyErr_NoMemory();
    run.pointers = room;
    run.objects = (PyObject **)(room + self->slot_count);
    run.managed = (gs_managed **)(room + 2 * self->slot_count);
    int status = DONE;
    for (Py_ssize_t i = 0; status == DONE && i < self->input_count; ++i) {
        PyObject *value = PyList_GET_ITEM(values, i);
        run.objects[self->first + i] = Py_NewRef(value);
        if (!is_taken(self, self->inputs + i, value, run.pointers + self->first + i)) status = ELSEWHERE;
    }
    for (Py_ssize_t i = 0; i < self->first; ++i) {
        PyObject *value = PyTuple_GET_ITEM(self->constants, i);
        run.objects[i] = Py_NewRef(value);
        if (PyArray_CheckExact(value)) run.pointers[i] = PyArray_DATA((PyArrayObject *)value);
    }
    if (status == DONE) status = make_room(self, &run);
    if (status == DONE) status = run_acts(self, &run);
    if (status == DONE) results = PyList_New(self->output_count);
    for (Py_ssize_t i = 0; results && i < self->output_count; ++i) {
        const Output *output = self->outputs + i;
        PyObject *result = output->kind == AGAIN ? Py_NewRef(PyList_GET_ITEM(results, output->index)) : result_of(self, output, &run);
        if (result) PyList_SET_ITEM(results, i, result);
        else Py_CLEAR(results);
    }
    for (Py_ssize_t i = 0; i < self->made_count; ++i)
        if (run.managed[i]) dropped(run.managed[i]);
    for (Py_ssize_t i = 0; i < self->slot_count; ++i) Py_XDECREF(run.objects[i]);
    Py_XDECREF(run.large);
    free(run.small);
    PyMem_Free(room);
    if (results || PyErr_Occurred()) return results;
    Py_RETURN_NOTIMPLEMENTED;
}

static PyObject *memory_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"inputs", "constants", "slots", "made", "views", "acts", "outputs", "block", "for_tensors", "allocate", "threads", "owner", "show", NULL};
    PyObject *inputs, *constants, *made, *views, *acts, *outputs, *allocate, *threads, *owner, *show;
    Py_ssize_t slots, block;
    int for_tensors;
    if (!PyArg_ParseTupleAndKeywords(
            arguments, keywords, "O!O!nO!O!O!O!npOOOO", names, &PyTuple_Type, &inputs, &PyTuple_Type, &constants, &slots, &PyTuple_Type,
            &made, &PyTuple_Type, &views, &PyTuple_Type, &acts, &PyTuple_Type, &outputs, &block, &for_tensors, &allocate, &threads, &owner, &show))
        return NULL;
    if (for_tensors && !exchange) return PyErr_Format(PyExc_ValueError, "torch hands on no tensors"), NULL;
    Memory *self = (Memory *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->call = (vectorcallfunc)memory_call;
    self->constants = Py_NewRef(constants);
    self->allocate = Py_NewRef(allocate);
    self->threads = Py_NewRef(threads);
    self->owner = Py_NewRef(owner);
    self->show = Py_NewRef(show);
    self->first = PyTuple_GET_SIZE(constants);
    self->slot_count = slots;
    self->block = block;
    self->is_for_tensors = for_tensors;
    if (read_memory(self, inputs, made, views, acts, outputs)) Py_CLEAR(self);
    return (PyObject *)self;
}

static PyTypeObject MemoryType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "gradscript.Memory",
    .tp_basicsize = sizeof(Memory),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC,
    .tp_vectorcall_offset = offsetof(Memory, call),
    .tp_call = PyVectorcall_Call,
    .tp_new = memory_new,
    .tp_traverse = (traverseproc)memory_traverse,
    .tp_dealloc = (destructor)memory_dealloc,
};

/* (NumPy's matmul) → Memory */
PyObject *gs_memory_type(PyObject *matmul)
{
    import_array();
    find_product_loops(matmul);
    if (!product_loop[0] || !product_loop[1]) Py_RETURN_NONE;
    if (PyType_Ready(&MemoryType)) return NULL;
    return Py_NewRef((PyObject *)&MemoryType);
}

/* (capsule of torch's DLPack functions, torch.Tensor, torch.nn.Parameter): whether tensors can be taken from now on */
PyObject *gs_take_tensors(PyObject *given)
{
    PyObject *capsule;
    if (!PyArg_ParseTuple(given, "OOO", &capsule, &tensor_type, &parameter_type)) return NULL;
    const gs_exchange *found = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    if (!found) return NULL;
    Py_INCREF(given); /* for ever, as are its items */
    if (found->header.major == VERSION && found->tensor_of_object && found->object_of_managed) exchange = found;
    return PyBool_FromLong(exchange != NULL);
}
