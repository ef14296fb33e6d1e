/* Lists of what a run of a plan does, on the memory of slots; built behind products.c and before memory_runs.c.

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
