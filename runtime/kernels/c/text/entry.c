/* Calls of programs of kernels without Python in between: what was planned for arguments of some layouts compares
   them, makes the results and runs the kernels.

   Entry     one program: its guard, what it allocates, the addresses of its launches; or, of one that calls ops of the
             library too, what runs it in Python
   Pair      the entries of both passes, and where the backward's inputs come from
   Calls     several of either: (*arguments) → results, of a pair (results, pullback); None where none is for these
   Pullback  (*gradients of results) → gradients of arguments; what its entry is not for, `general` does

   Who has bare memory, of layouts that it knows to be those, and wants results that are DLPack's, calls `run_bare`. */

#define PY_SSIZE_T_CLEAN
#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <Python.h>
#include <numpy/arrayobject.h>
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef union { double real; int64_t integer; } gs_number;
typedef int gs_run(
    const void *launches, int64_t count, void **buffers, int64_t buffer_count, int64_t offset, const int64_t *sizes,
    const gs_number *numbers, int threads);

#define MOST_ITEMS 16
#define LARGE (1 << 16) /* bytes from which an array comes from the arena */
#define LONG (1 << 14)  /* points from which Python's other threads run meanwhile */

enum { DONE = 0, FAILED = -1, ELSEWHERE = 1 };

/* What an argument has to be: an array of this layout, a float, an int of 64 bits, an object itself; or what is known
   to be right. */
typedef struct {
    enum { ANYTHING, ARRAY, REAL, INTEGER, SAME } kind;
    PyObject *object; /* the dtype of an array, or what is to be the same */
    int ndim;
    npy_intp *sizes; /* then strides */
} Guard;

/* What `is_torchs` a call of the library's makes. */
typedef struct { Py_ssize_t slot; PyObject *dtype; int ndim; npy_intp *sizes; npy_intp nbytes; int code, is_torchs; } Made;
typedef struct { Py_ssize_t slot; int is_integer; } Parameter;
/* The memory of a slot otherwise: where it begins, sizes, and strides in bytes. */
typedef struct { Py_ssize_t source, offset; Made as; npy_intp *strides; } View;
struct Act;

typedef struct {
    PyObject_HEAD
    Py_ssize_t given_count, input_count, made_count, buffer_count, parameter_count, output_count, slot_count, launch_count;
    Py_ssize_t result_count, *widths; /* of each result, the outputs in its tuple; -1 for one that is an output */
    Guard *guards;
    Made *made;
    Py_ssize_t *buffers, *outputs; /* slots: those of inputs first, then of what is made, then of constants */
    Parameter *parameters;
    /* On bare memory, views are slots behind all others; `acts` are what runs there, one behind the other, where that is
       more than the kernels. */
    Py_ssize_t view_count, bare_count, act_count, *bare_outputs;
    View *views;
    struct Act *acts;
    gs_run *run;
    const void *launches;
    const int64_t *sizes;
    int is_long, is_bare; /* whether results are small, and of dtypes that DLPack has */
    int calls;            /* whether an act is a call of torch's, on bare memory */
    PyObject *defaults; /* a tuple: the last inputs, which are not given */
    PyObject *constants, *threads, *allocate, *owner;
    PyObject *steps; /* (list of inputs) → list of results, or None for whatever goes another way; NULL of kernels alone */
} Entry;

/* The kernels of an entry, which has the slots of the one that it is of; or a call of the library's, or rows put in order,
   or a check, or, where there is none of these, a product. */
typedef struct Act { Entry *kernels; Called *called; Order order; Check check; Product product; } Act;

static PyTypeObject EntryType;

/* --- making one --- */

static npy_intp *numbers_of(PyObject *sequence, Py_ssize_t count, npy_intp *into)
{
    for (Py_ssize_t i = 0; i < count; ++i) {
        into[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(sequence, i));
        if (into[i] == -1 && PyErr_Occurred()) return NULL;
    }
    return into;
}

static int read_guard(PyObject *item, Guard *guard)
{
    PyObject *object, *sizes, *strides;
    const char *kind;
    if (!PyArg_ParseTuple(item, "sOO!O!", &kind, &object, &PyTuple_Type, &sizes, &PyTuple_Type, &strides)) return FAILED;
    guard->kind = kind[0] == 'a' ? ARRAY : kind[0] == 'r' ? REAL : kind[0] == 'i' ? INTEGER : kind[0] == 's' ? SAME : ANYTHING;
    guard->object = Py_NewRef(object);
    guard->ndim = (int)PyTuple_GET_SIZE(sizes);
    guard->sizes = PyMem_Calloc(2 * (size_t)guard->ndim + 1, sizeof(npy_intp));
    if (!guard->sizes) return PyErr_NoMemory(), FAILED;
    if (!numbers_of(sizes, guard->ndim, guard->sizes)) return FAILED;
    return numbers_of(strides, guard->ndim, guard->sizes + guard->ndim) ? DONE : FAILED;
}

static int read_made(PyObject *item, Made *made)
{
    PyObject *dtype, *sizes;
    if (!PyArg_ParseTuple(item, "nO!O!i", &made->slot, &PyArrayDescr_Type, &dtype, &PyTuple_Type, &sizes, &made->code)) return FAILED;
    made->dtype = Py_NewRef(dtype);
    made->ndim = (int)PyTuple_GET_SIZE(sizes);
    made->sizes = PyMem_Calloc((size_t)made->ndim + 1, sizeof(npy_intp));
    if (!made->sizes) return PyErr_NoMemory(), FAILED;
    if (!numbers_of(sizes, made->ndim, made->sizes)) return FAILED;
    made->nbytes = PyDataType_ELSIZE((PyArray_Descr *)dtype);
    for (int i = 0; i < made->ndim; ++i) made->nbytes *= made->sizes[i];
    return DONE;
}

static int read_view(PyObject *item, View *view)
{
    PyObject *dtype, *sizes, *strides;
    if (!PyArg_ParseTuple(item, "nnO!O!O!i", &view->source, &view->offset, &PyArrayDescr_Type, &dtype, &PyTuple_Type, &sizes,
                          &PyTuple_Type, &strides, &view->as.code))
        return FAILED;
    PyObject *made = Py_BuildValue("(nOOi)", (Py_ssize_t)0, dtype, sizes, view->as.code);
    const int failed = !made || read_made(made, &view->as);
    Py_XDECREF(made);
    if (failed) return FAILED;
    if (PyTuple_GET_SIZE(strides) != view->as.ndim) return PyErr_Format(PyExc_ValueError, "one stride per size"), FAILED;
    view->strides = PyMem_Calloc((size_t)view->as.ndim + 1, sizeof(npy_intp));
    if (!view->strides) return PyErr_NoMemory(), FAILED;
    return numbers_of(strides, view->as.ndim, view->strides) ? DONE : FAILED;
}

static int read_act(PyObject *item, Act *act)
{
    PyObject *rest = PyTuple_Check(item) && PyTuple_GET_SIZE(item) == 2 ? PyTuple_GET_ITEM(item, 1) : NULL;
    if (rest && PyTuple_GET_ITEM(item, 0) == Py_True) return (act->called = read_called(rest)) ? DONE : FAILED;
    if (rest) return read_order(rest, &act->order) ? FAILED : DONE;
    if (PyTuple_Check(item) && PyTuple_GET_SIZE(item) == 3)
        return PyArg_ParseTuple(item, "ncp", &act->check.slot, &act->check.code, &act->check.answer) ? DONE : FAILED;
    if (PyTuple_Check(item)) return read_product(item, &act->product) ? FAILED : DONE;
    if (Py_TYPE(item) != &EntryType) return PyErr_Format(PyExc_TypeError, "not an Entry, nor a product"), FAILED;
    act->kernels = (Entry *)Py_NewRef(item);
    return DONE;
}

static int is_small(const Made *made) { return made->code >= 0 && made->nbytes < LARGE; }

/* Whether an entry can be run on bare memory. */
static int may_be_bare(const Entry *self)
{
    const Py_ssize_t views = self->slot_count, made = self->input_count;
    if (!self->bare_count) return 0;
    for (Py_ssize_t i = 0; i < self->given_count; ++i)
        if (self->guards[i].kind == ANYTHING) return 0;
    for (Py_ssize_t i = 0; i < self->made_count; ++i)
        if (!is_small(self->made + i)) return 0;
    for (Py_ssize_t i = 0; i < self->view_count; ++i) {
        const Py_ssize_t source = self->views[i].source;
        if (source < 0 || source >= made + self->made_count) return 0;
        if (source < made && (source >= self->given_count || self->guards[source].kind != ARRAY)) return 0;
    }
    for (Py_ssize_t i = 0; i < self->bare_count; ++i) {
        const Py_ssize_t slot = self->bare_outputs[i], constant = slot - made - self->made_count;
        if (slot < 0 || slot >= views + self->view_count) return 0;
        if (constant >= 0 && slot < views && !PyArray_CheckExact(PyTuple_GET_ITEM(self->constants, constant))) continue;
        if (slot >= views ? !is_small(&self->views[slot - views].as) : slot >= made + self->made_count) return 0;
        if (slot < made && (slot >= self->given_count || self->guards[slot].kind != ARRAY)) return 0;
        for (Py_ssize_t j = 0; slot >= made && slot < views && j < i; ++j)
            if (self->bare_outputs[j] == slot) return 0;
    }
    return 1;
}

static int read_entry(
    Entry *self, PyObject *guards, PyObject *made, PyObject *buffers, PyObject *parameters, PyObject *outputs,
    PyObject *widths, PyObject *views, PyObject *bare, PyObject *acts)
{
    self->given_count = PyTuple_GET_SIZE(guards);
    self->input_count = self->given_count + PyTuple_GET_SIZE(self->defaults);
    self->made_count = PyTuple_GET_SIZE(made);
    self->buffer_count = PyTuple_GET_SIZE(buffers);
    self->parameter_count = PyTuple_GET_SIZE(parameters);
    self->output_count = PyTuple_GET_SIZE(outputs);
    self->result_count = PyTuple_GET_SIZE(widths);
    self->view_count = PyTuple_GET_SIZE(views);
    self->bare_count = PyTuple_GET_SIZE(bare);
    self->act_count = PyTuple_GET_SIZE(acts);
    self->slot_count = self->input_count + self->made_count + PyTuple_GET_SIZE(self->constants);
    self->guards = PyMem_Calloc((size_t)self->given_count + 1, sizeof(Guard));
    self->made = PyMem_Calloc((size_t)self->made_count + 1, sizeof(Made));
    self->buffers = PyMem_Calloc((size_t)self->buffer_count + 1, sizeof(Py_ssize_t));
    self->parameters = PyMem_Calloc((size_t)self->parameter_count + 1, sizeof(Parameter));
    self->outputs = PyMem_Calloc((size_t)self->output_count + 1, sizeof(Py_ssize_t));
    self->widths = PyMem_Calloc((size_t)self->result_count + 1, sizeof(Py_ssize_t));
    self->views = PyMem_Calloc((size_t)self->view_count + 1, sizeof(View));
    self->bare_outputs = PyMem_Calloc((size_t)self->bare_count + 1, sizeof(Py_ssize_t));
    self->acts = PyMem_Calloc((size_t)self->act_count + 1, sizeof(Act));
    if (!self->guards || !self->made || !self->buffers || !self->parameters || !self->outputs || !self->widths || !self->views
        || !self->bare_outputs || !self->acts)
        return PyErr_NoMemory(), FAILED;
    for (Py_ssize_t i = 0; i < self->given_count; ++i)
        if (read_guard(PyTuple_GET_ITEM(guards, i), self->guards + i)) return FAILED;
    for (Py_ssize_t i = 0; i < self->made_count; ++i)
        if (read_made(PyTuple_GET_ITEM(made, i), self->made + i)) return FAILED;
    for (Py_ssize_t i = 0; i < self->parameter_count; ++i)
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(parameters, i), "np", &self->parameters[i].slot,
                              &self->parameters[i].is_integer))
            return FAILED;
    for (Py_ssize_t i = 0; i < self->view_count; ++i)
        if (read_view(PyTuple_GET_ITEM(views, i), self->views + i)) return FAILED;
    for (Py_ssize_t i = 0; i < self->act_count; ++i)
        if (read_act(PyTuple_GET_ITEM(acts, i), self->acts + i)) return FAILED;
    if (!numbers_of(buffers, self->buffer_count, self->buffers)) return FAILED;
    if (!numbers_of(bare, self->bare_count, self->bare_outputs)) return FAILED;
    if (!numbers_of(widths, self->result_count, self->widths)) return FAILED;
    if (!numbers_of(outputs, self->output_count, self->outputs)) return FAILED;
    for (Py_ssize_t i = 0; i < self->act_count; ++i) {
        const Called *call = self->acts[i].called;
        self->calls |= call != NULL;
        for (Py_ssize_t j = 0; call && j < call->result_count; ++j) {
            const Py_ssize_t made = call->results[j] - self->input_count;
            if (call->results[j] < 0) continue;
            if (made < 0 || made >= self->made_count) return PyErr_Format(PyExc_ValueError, "nothing is made there"), FAILED;
            self->made[made].is_torchs = 1;
        }
    }
    for (Py_ssize_t i = 0; i < self->made_count; ++i)
        if (self->calls && self->made[i].slot != self->input_count + i) return PyErr_Format(PyExc_ValueError, "out of order"), FAILED;
    self->is_bare = may_be_bare(self);
    return DONE;
}

static PyObject *entry_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"guards", "made", "buffers", "parameters", "outputs", "widths", "defaults", "constants", "run", "launches",
                            "count", "sizes", "is_long", "threads", "allocate", "owner", "steps", "views", "bare", "acts", NULL};
    PyObject *guards, *made, *buffers, *parameters, *outputs, *widths, *defaults, *constants, *threads, *allocate, *owner;
    PyObject *steps, *views, *bare, *acts;
    Py_ssize_t run, launches, count, sizes;
    int is_long;
    if (!PyArg_ParseTupleAndKeywords(
            arguments, keywords, "O!O!O!O!O!O!O!O!nnnnpOOOOO!O!O!", names, &PyTuple_Type, &guards, &PyTuple_Type, &made,
            &PyTuple_Type, &buffers, &PyTuple_Type, &parameters, &PyTuple_Type, &outputs, &PyTuple_Type, &widths,
            &PyTuple_Type, &defaults, &PyTuple_Type, &constants, &run, &launches, &count, &sizes, &is_long, &threads, &allocate, &owner, &steps,
            &PyTuple_Type, &views, &PyTuple_Type, &bare, &PyTuple_Type, &acts))
        return NULL;
    Entry *self = (Entry *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->defaults = Py_NewRef(defaults);
    self->constants = Py_NewRef(constants);
    self->threads = Py_NewRef(threads);
    self->allocate = Py_NewRef(allocate);
    self->owner = Py_NewRef(owner);
    self->steps = steps == Py_None ? NULL : Py_NewRef(steps);
    self->run = (gs_run *)run;
    self->launches = (const void *)launches;
    self->launch_count = count;
    self->sizes = (const int64_t *)sizes;
    self->is_long = is_long;
    if (read_entry(self, guards, made, buffers, parameters, outputs, widths, views, bare, acts)) Py_CLEAR(self);
    return (PyObject *)self;
}

static void entry_dealloc(Entry *self)
{
    for (Py_ssize_t i = 0; self->guards && i < self->given_count; ++i) {
        Py_XDECREF(self->guards[i].object);
        PyMem_Free(self->guards[i].sizes);
    }
    for (Py_ssize_t i = 0; self->made && i < self->made_count; ++i) {
        Py_XDECREF(self->made[i].dtype);
        PyMem_Free(self->made[i].sizes);
    }
    for (Py_ssize_t i = 0; self->views && i < self->view_count; ++i) {
        Py_XDECREF(self->views[i].as.dtype);
        PyMem_Free(self->views[i].as.sizes);
        PyMem_Free(self->views[i].strides);
    }
    for (Py_ssize_t i = 0; self->acts && i < self->act_count; ++i) {
        Py_XDECREF(self->acts[i].kernels);
        drop_called(self->acts[i].called);
        PyMem_Free(self->acts[i].order.sizes);
    }
    PyMem_Free(self->acts);
    PyMem_Free(self->views);
    PyMem_Free(self->bare_outputs);
    PyMem_Free(self->guards);
    PyMem_Free(self->made);
    PyMem_Free(self->buffers);
    PyMem_Free(self->parameters);
    PyMem_Free(self->outputs);
    PyMem_Free(self->widths);
    Py_XDECREF(self->defaults);
    Py_XDECREF(self->constants);
    Py_XDECREF(self->threads);
    Py_XDECREF(self->allocate);
    Py_XDECREF(self->owner);
    Py_XDECREF(self->steps);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

/* --- running one --- */

/* As is_unasked of Python: what is beyond float32 has programs of its own. */
static inline int is_unasked(double value)
{
    return !(fabs(value) > 3.3895313892515355e38 && fabs(value) <= DBL_MAX);
}

static inline int fits(const Guard *guard, PyObject *value)
{
    int is_beyond = 0;
    switch (guard->kind) {
    case ANYTHING: return 1;
    case INTEGER:
        if (!PyLong_CheckExact(value)) return 0;
        (void)PyLong_AsLongLongAndOverflow(value, &is_beyond);
        return !is_beyond;
    case REAL: return PyFloat_CheckExact(value) && is_unasked(PyFloat_AS_DOUBLE(value));
    case SAME:
        if (value == guard->object) return 1;
        return PyLong_CheckExact(value) && PyLong_CheckExact(guard->object)
               && PyObject_RichCompareBool(value, guard->object, Py_EQ) == 1;
    case ARRAY: break;
    }
    if (!PyArray_CheckExact(value)) return 0;
    PyArrayObject *array = (PyArrayObject *)value;
    if ((PyObject *)PyArray_DESCR(array) != guard->object || PyArray_NDIM(array) != guard->ndim) return 0;
    if (!(PyArray_FLAGS(array) & NPY_ARRAY_ALIGNED)) return 0;
    const npy_intp *sizes = PyArray_DIMS(array), *strides = PyArray_STRIDES(array);
    for (int i = 0; i < guard->ndim; ++i)
        if (sizes[i] != guard->sizes[i] || strides[i] != guard->sizes[guard->ndim + i]) return 0;
    return 1;
}

static PyObject *allocated(const Entry *self, const Made *made)
{
    if (made->nbytes >= LARGE) {
        PyObject *shape = PyTuple_New(made->ndim), *array = NULL;
        for (int i = 0; shape && i < made->ndim; ++i) {
            PyObject *size = PyLong_FromSsize_t(made->sizes[i]);
            if (!size) Py_CLEAR(shape);
            else PyTuple_SET_ITEM(shape, i, size);
        }
        if (shape) array = PyObject_CallFunctionObjArgs(self->allocate, shape, made->dtype, NULL);
        Py_XDECREF(shape);
        return array;
    }
    Py_INCREF(made->dtype); /* which the array takes over */
    return PyArray_NewFromDescr(
        &PyArray_Type, (PyArray_Descr *)made->dtype, made->ndim, made->sizes, NULL, NULL, 0, NULL);
}

static int thread_count(const Entry *self)
{
    PyObject *found = PyObject_CallNoArgs(self->threads);
    const long threads = found ? PyLong_AsLong(found) : -1;
    Py_XDECREF(found);
    return (int)threads;
}

/* What a failure comes to: where there was no memory, ops one by one need less at a time, or say which of them has none. */
static int given_up(void)
{
    if (!PyErr_ExceptionMatches(PyExc_MemoryError)) return FAILED;
    PyErr_Clear();
    return ELSEWHERE;
}

/* The same by steps in Python. What they refuse is told by who goes the longer way. */
static int run_steps(const Entry *self, PyObject *const *values, PyObject **results)
{
    PyObject *inputs = PyList_New(self->input_count);
    if (!inputs) return FAILED;
    for (Py_ssize_t i = 0; i < self->input_count; ++i) {
        const Py_ssize_t left = i - self->given_count;
        PyList_SET_ITEM(inputs, i, Py_NewRef(left < 0 ? values[i] : PyTuple_GET_ITEM(self->defaults, left)));
    }
    PyObject *found = PyObject_CallOneArg(self->steps, inputs);
    Py_DECREF(inputs);
    if (!found && !PyErr_ExceptionMatches(PyExc_Exception)) return FAILED;
    PyErr_Clear();
    int status = found && PyList_CheckExact(found) && PyList_GET_SIZE(found) >= self->output_count ? DONE : ELSEWHERE;
    for (Py_ssize_t i = 0; status == DONE && i < self->output_count; ++i)
        if (!PyArray_CheckExact(PyList_GET_ITEM(found, i)) && PyList_GET_ITEM(found, i) != Py_None) status = ELSEWHERE;
    for (Py_ssize_t i = 0; status == DONE && i < self->output_count; ++i)
        results[i] = Py_NewRef(PyList_GET_ITEM(found, i));
    Py_XDECREF(found);
    return status;
}

/* Runs the kernels on `values`, one per input that is given, and puts the results into `results`, one new reference each. */
static int run_entry(const Entry *self, PyObject *const *values, PyObject **results)
{
    for (Py_ssize_t i = 0; i < self->given_count; ++i)
        if (!fits(self->guards + i, values[i])) return ELSEWHERE;
    if (self->steps) return run_steps(self, values, results);
    PyObject *slots[self->slot_count + 1];
    void *buffers[self->buffer_count + 1];
    gs_number numbers[self->parameter_count + 1];
    int status = DONE, threads = 1;
    Py_ssize_t made = 0;
    for (Py_ssize_t i = 0; i < self->given_count; ++i) slots[i] = values[i];
    for (Py_ssize_t i = self->given_count; i < self->input_count; ++i)
        slots[i] = PyTuple_GET_ITEM(self->defaults, i - self->given_count);
    for (Py_ssize_t i = self->input_count + self->made_count; i < self->slot_count; ++i)
        slots[i] = PyTuple_GET_ITEM(self->constants, i - self->input_count - self->made_count);
    for (; made < self->made_count; ++made) {
        PyObject *array = allocated(self, self->made + made);
        if (!array) {
            status = given_up();
            goto end;
        }
        slots[self->made[made].slot] = array;
    }
    for (Py_ssize_t i = 0; i < self->buffer_count; ++i)
        buffers[i] = PyArray_DATA((PyArrayObject *)slots[self->buffers[i]]);
    for (Py_ssize_t i = 0; i < self->parameter_count; ++i) {
        PyObject *value = slots[self->parameters[i].slot];
        if (self->parameters[i].is_integer) numbers[i].integer = PyLong_AsLongLong(value);
        else numbers[i].real = PyFloat_AsDouble(value);
    }
    if (self->is_long) threads = thread_count(self);
    if (PyErr_Occurred()) {
        status = FAILED;
        goto end;
    }
    PyThreadState *state = self->is_long ? PyEval_SaveThread() : NULL;
    const int failed = self->run(
        self->launches, self->launch_count, buffers, self->buffer_count, 0, self->sizes, numbers, threads);
    if (state) PyEval_RestoreThread(state);
    if (failed) status = ELSEWHERE;
end:
    if (status == DONE)
        for (Py_ssize_t i = 0; i < self->output_count; ++i) results[i] = Py_NewRef(slots[self->outputs[i]]);
    for (Py_ssize_t i = 0; i < made; ++i) Py_DECREF(slots[self->made[i].slot]);
    return status;
}

/* --- running one on bare memory --- */

#define ALIGNMENT 64
#define DLPACK_CPU 1

static void dropped(gs_managed *managed) { free(managed); }

static gs_managed *new_managed(const Made *made)
{
    const size_t head = sizeof(gs_managed) + 2 * (size_t)made->ndim * sizeof(int64_t);
    gs_managed *managed = malloc(head + ALIGNMENT + (size_t)made->nbytes);
    if (!managed) return NULL;
    memset(managed, 0, sizeof *managed);
    managed->version.major = 1;
    managed->deleter = dropped;
    gs_tensor *tensor = &managed->tensor;
    tensor->device.kind = DLPACK_CPU;
    tensor->ndim = made->ndim;
    tensor->dtype.code = (uint8_t)made->code;
    tensor->dtype.bits = (uint8_t)(8 * PyDataType_ELSIZE((PyArray_Descr *)made->dtype));
    tensor->dtype.lanes = 1;
    tensor->sizes = (int64_t *)(managed + 1);
    tensor->strides = tensor->sizes + made->ndim;
    int64_t stride = 1;
    for (int i = made->ndim; i-- > 0; stride *= made->sizes[i] > 1 ? made->sizes[i] : 1) {
        tensor->sizes[i] = made->sizes[i];
        tensor->strides[i] = stride;
    }
    tensor->data = (void *)(((uintptr_t)managed + head + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1));
    return managed;
}

/* An input that is an array: its memory, dtype, sizes, and strides in bytes. */
typedef struct { void *data; PyObject *dtype; int ndim; const int64_t *sizes, *strides; } gs_bare;

static int fits_bare(const Guard *guard, const gs_bare *input)
{
    if (input->dtype != guard->object || input->ndim != guard->ndim) return 0;
    if ((uintptr_t)input->data % (uintptr_t)PyDataType_ALIGNMENT((PyArray_Descr *)guard->object)) return 0;
    for (int i = 0; i < guard->ndim; ++i)
        if (input->sizes[i] != guard->sizes[i] || input->strides[i] != guard->sizes[guard->ndim + i]) return 0;
    return 1;
}

/* The elements of a view, in order. */
static void copied(char *to, const char *from, const View *view, Py_ssize_t size)
{
    npy_intp at[NPY_MAXDIMS] = {0};
    for (npy_intp left = view->as.nbytes; left > 0; left -= size, to += size) {
        memcpy(to, from, (size_t)size);
        for (int d = view->as.ndim; d-- > 0;) {
            from += view->strides[d];
            if (++at[d] < view->as.sizes[d]) break;
            from -= at[d] * view->strides[d];
            at[d] = 0;
        }
    }
}

/* A view of a tensor: sizes, and strides and offset in bytes. */
typedef struct { int ndim; const npy_intp *sizes, *strides; Py_ssize_t offset, size; } gs_view;

/* A result: what was made, by torch or here; or else an input, or an earlier result. Where there is a view, it is one of
   either. */
typedef struct { gs_managed *made; void *tensor; Py_ssize_t source, earlier; int is_view; gs_view view; } gs_result;

/* How torch is asked for tensors; and what says, True, that its ops are not to be called now. */
typedef struct { const gs_exchange *exchange; PyObject *barred; } gs_torch;

/* A run on bare memory. What is made is either memory or a tensor; a constant or a view a tensor where one was asked for. */
typedef struct {
    const Entry *entry;
    PyObject *const *values;
    void **pointers;
    gs_managed **made;
    PyObject **tensors; /* by slot, of views too; NULL where there is none */
    const gs_torch *torch;
} BareRun;

/* Where views lie of what is in a slot. */
static void place_views(const BareRun *run, Py_ssize_t slot)
{
    const Entry *self = run->entry;
    for (Py_ssize_t i = 0; i < self->view_count; ++i)
        if (self->views[i].source == slot)
            run->pointers[self->slot_count + i] = (char *)run->pointers[slot] + self->views[i].offset;
}

/* What is at such a place as a tensor does not own. */
static gs_managed *lent(const View *view, void *data)
{
    Made nothing = view->as;
    nothing.nbytes = 0;
    gs_managed *managed = new_managed(&nothing);
    const npy_intp size = PyDataType_ELSIZE((PyArray_Descr *)view->as.dtype);
    if (!managed) return NULL;
    managed->tensor.data = data;
    for (int i = 0; i < view->as.ndim; ++i) managed->tensor.strides[i] = view->strides[i] / size;
    return managed;
}

/* As `at_slot`. */
static PyObject *torchs(void *given, Py_ssize_t slot)
{
    BareRun *run = given;
    const Entry *self = run->entry;
    if (slot < self->given_count) return Py_NewRef(run->values[slot]);
    if (slot < self->input_count) return Py_NewRef(PyTuple_GET_ITEM(self->defaults, slot - self->given_count));
    if (!run->tensors[slot]) {
        const Py_ssize_t place = slot - self->input_count, view = slot - self->slot_count;
        gs_managed *managed = view >= 0 ? lent(self->views + view, run->pointers[slot]) : place < self->made_count ? run->made[place] : NULL;
        void *tensor = NULL;
        if (!managed || run->torch->exchange->object_of_managed(managed, &tensor)) {
            if (view >= 0) free(managed);
            return NULL;
        }
        if (view < 0) run->made[place] = NULL;
        run->tensors[slot] = tensor;
    }
    return Py_NewRef(run->tensors[slot]);
}

/* Whether what a call of the library's gave is what it gave when it was planned, with its elements in order. */
static int is_as_planned(const BareRun *run, const Made *made, PyObject *tensor, gs_tensor *told)
{
    if (run->torch->exchange->tensor_of_object(tensor, told) || told->device.kind != DLPACK_CPU) return 0;
    if (told->ndim != made->ndim || told->dtype.code != made->code) return 0;
    if (told->dtype.bits != 8 * PyDataType_ELSIZE((PyArray_Descr *)made->dtype)) return 0;
    int64_t stride = 1;
    for (int i = made->ndim; i-- > 0; stride *= made->sizes[i]) {
        if (told->sizes[i] != made->sizes[i]) return 0;
        if (told->sizes[i] > 1 && told->strides[i] != stride) return 0;
    }
    return 1;
}

static int keep_result(BareRun *run, Py_ssize_t slot, PyObject *tensor)
{
    const Entry *self = run->entry;
    gs_tensor told;
    for (Py_ssize_t i = 0; i < self->given_count; ++i)
        if (run->values[i] == tensor) return ELSEWHERE;
    const Made *made = self->made + (slot - self->input_count);
    if (PyLong_CheckExact(tensor) && !made->ndim) {
        /* A number that was drawn. */
        run->tensors[slot] = Py_NewRef(tensor);
        return DONE;
    }
    if (is_as_planned(run, made, tensor, &told)) run->tensors[slot] = Py_NewRef(tensor);
    else {
        if (PyErr_Occurred()) PyErr_Clear();
        PyObject *in_order = PyObject_CallMethod(tensor, "contiguous", NULL);
        if (!in_order || !is_as_planned(run, made, in_order, &told)) {
            Py_XDECREF(in_order);
            return ELSEWHERE;
        }
        run->tensors[slot] = in_order;
    }
    run->pointers[slot] = (char *)told.data + told.offset;
    place_views(run, slot);
    return DONE;
}

/* Calls an op of torch's. What it refuses, or gives otherwise than planned, is told by who goes the longer way. */
static int called(BareRun *run, const Called *call)
{
    PyObject *found = result_of_call(call, torchs, run);
    const int is_row = found && (PyTuple_Check(found) || PyList_CheckExact(found));
    int status = found && (is_row ? PySequence_Fast_GET_SIZE(found) : 1) == call->result_count ? DONE : ELSEWHERE;
    for (Py_ssize_t i = 0; status == DONE && i < call->result_count; ++i)
        if (call->results[i] >= 0)
            status = keep_result(run, call->results[i], is_row ? PySequence_Fast_GET_ITEM(found, i) : found);
    Py_XDECREF(found);
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception)) return FAILED;
    if (status != DONE) PyErr_Clear();
    return status;
}

static const PyObject *dtype_of(const Entry *self, Py_ssize_t slot)
{
    return slot < self->input_count ? self->guards[slot].object : self->made[slot - self->input_count].dtype;
}

/* The result of a slot, which takes over what was made for it. No memory: with an error set. Results are asked for one
   after the other; of those from `owned` on, views are told of. */
static gs_result result_of(const BareRun *run, Py_ssize_t place, Py_ssize_t owned)
{
    const Entry *self = run->entry;
    const Py_ssize_t slot = self->bare_outputs[place];
    gs_result result = {.source = -1, .earlier = -1};
    if (slot < self->input_count) result.source = slot;
    else if (slot < self->slot_count) {
        const Py_ssize_t made = slot - self->input_count;
        if (self->calls && run->tensors[slot]) result.tensor = Py_NewRef(run->tensors[slot]);
        else if (made < self->made_count) {
            result.made = run->made[made];
            run->made[made] = NULL;
        }
        else result.tensor = Py_NewRef(PyTuple_GET_ITEM(self->constants, made - self->made_count));
    }
    else {
        const View *view = self->views + (slot - self->slot_count);
        result.is_view = 1;
        if (place >= owned) {
            result.view = (gs_view){view->as.ndim, view->as.sizes, view->strides, view->offset, 0};
            /* One of another dtype torch has not by such means. */
            if (dtype_of(self, view->source) == view->as.dtype) result.view.size = PyDataType_ELSIZE((PyArray_Descr *)view->as.dtype);
            if (view->source < self->input_count) result.source = view->source;
            for (Py_ssize_t i = 0; i < owned && i < place; ++i)
                if (self->bare_outputs[i] == view->source) result.earlier = i;
            if (result.source >= 0 || result.earlier >= 0) return result;
        }
        /* What nobody else has may as well be a copy. */
        result.made = new_managed(&view->as);
        if (!result.made) PyErr_NoMemory();
        else copied(result.made->tensor.data, run->pointers[slot], view, PyDataType_ELSIZE((PyArray_Descr *)view->as.dtype));
    }
    return result;
}

/* Runs the kernels of an entry on the memory of slots, those of `self`. */
static int launched(const Entry *kernels, const Entry *self, void *const *pointers, PyObject *const *values, PyObject *const *tensors)
{
    void *buffers[kernels->buffer_count + 1];
    gs_number numbers[kernels->parameter_count + 1];
    const int threads = kernels->is_long ? thread_count(kernels) : 1;
    for (Py_ssize_t i = 0; i < kernels->parameter_count; ++i) {
        const Py_ssize_t slot = kernels->parameters[i].slot;
        PyObject *value = slot < self->given_count  ? values[slot]
                          : slot < self->input_count ? PyTuple_GET_ITEM(self->defaults, slot - self->given_count)
                          : slot < self->input_count + self->made_count
                              ? tensors[slot]
                              : PyTuple_GET_ITEM(self->constants, slot - self->input_count - self->made_count);
        if (kernels->parameters[i].is_integer) numbers[i].integer = PyLong_AsLongLong(value);
        else numbers[i].real = PyFloat_AsDouble(value);
    }
    if (PyErr_Occurred()) return FAILED;
    for (Py_ssize_t i = 0; i < kernels->buffer_count; ++i) buffers[i] = pointers[kernels->buffers[i]];
    PyThreadState *state = kernels->is_long ? PyEval_SaveThread() : NULL;
    const int failed = kernels->run(
        kernels->launches, kernels->launch_count, buffers, kernels->buffer_count, 0, kernels->sizes, numbers, threads);
    if (state) PyEval_RestoreThread(state);
    return failed ? ELSEWHERE : DONE;
}

/* As run_entry, of inputs that are arrays by their memory. The first of the results, as many as are `owned`, share no
   memory with others. */
static int run_entry_bare(
    const Entry *self, const gs_bare *inputs, PyObject *const *values, gs_result *results, Py_ssize_t owned, const gs_torch *torch)
{
    const Py_ssize_t all = self->slot_count + self->view_count;
    void *pointers[all + 1];
    gs_managed *made[self->made_count + 1];
    PyObject *tensors[self->calls ? all + 1 : 1];
    BareRun run = {self, values, pointers, made, tensors, torch};
    int status = DONE;
    Py_ssize_t found = 0;
    for (Py_ssize_t i = 0; i < self->given_count; ++i) {
        const Guard *guard = self->guards + i;
        if (guard->kind == ARRAY ? !fits_bare(guard, inputs + i) : !fits(guard, values[i])) return ELSEWHERE;
        pointers[i] = inputs[i].data;
    }
    if (self->calls) {
        PyObject *barred = PyObject_CallNoArgs(torch->barred);
        if (!barred) return FAILED;
        Py_DECREF(barred);
        if (barred != Py_False) return ELSEWHERE;
        memset(tensors, 0, sizeof tensors);
    }
    for (Py_ssize_t i = self->given_count; i < self->slot_count; ++i) {
        const Py_ssize_t constant = i - self->input_count - self->made_count;
        PyObject *value = i < self->input_count ? PyTuple_GET_ITEM(self->defaults, i - self->given_count)
                          : constant < 0        ? NULL
                                                : PyTuple_GET_ITEM(self->constants, constant);
        pointers[i] = value && PyArray_CheckExact(value) ? PyArray_DATA((PyArrayObject *)value) : NULL;
    }
    for (Py_ssize_t i = 0; i < self->made_count; ++i) {
        made[i] = self->made[i].is_torchs ? NULL : new_managed(self->made + i);
        if (made[i]) pointers[self->made[i].slot] = made[i]->tensor.data;
        else if (!self->made[i].is_torchs) status = ELSEWHERE;
    }
    for (Py_ssize_t i = 0; status == DONE && i < self->view_count; ++i)
        pointers[self->slot_count + i] = (char *)pointers[self->views[i].source] + self->views[i].offset;
    if (status == DONE && self->launch_count) status = launched(self, self, pointers, values, tensors);
    for (Py_ssize_t i = 0; status == DONE && i < self->act_count; ++i) {
        const Act *act = self->acts + i;
        if (act->kernels) status = launched(act->kernels, self, pointers, values, tensors);
        else if (act->called) status = called(&run, act->called);
        else if (act->order.sizes) put_in_order(&act->order, pointers);
        else if (act->check.code) status = is_answered(&act->check, pointers) ? DONE : ELSEWHERE;
        else multiply(&act->product, pointers);
    }
    for (; status == DONE && found < self->bare_count && !PyErr_Occurred(); ++found) results[found] = result_of(&run, found, owned);
    for (Py_ssize_t i = 0; i < self->made_count; ++i) free(made[i]);
    for (Py_ssize_t i = 0; self->calls && i < all; ++i) Py_XDECREF(tensors[i]);
    if (!PyErr_Occurred() || status == FAILED) return status;
    for (Py_ssize_t i = 0; i < found; ++i) {
        free(results[i].made);
        Py_XDECREF((PyObject *)results[i].tensor);
    }
    return given_up();
}

/* Those that draw numbers draw others if they are run again. */
static PyObject *entry_calls(Entry *self, void *unused)
{
    int found = self->calls;
    for (Py_ssize_t i = 0; i < self->act_count; ++i) found &= !self->acts[i].called || self->acts[i].called->count;
    return PyBool_FromLong(self->is_bare && found);
}
static PyObject *entry_checks(Entry *self, void *unused)
{
    int found = 0;
    for (Py_ssize_t i = 0; i < self->act_count; ++i) found |= self->acts[i].check.code != 0;
    return PyBool_FromLong(self->is_bare && found);
}
static PyGetSetDef entry_attributes[] = {
    {"calls", (getter)entry_calls, NULL, "Whether ops of torch are called on bare memory."},
    {"checks", (getter)entry_checks, NULL, "Whether it goes one way of several, on bare memory."},
    {NULL},
};
static PyTypeObject EntryType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_getset = entry_attributes,
    .tp_name = "gradscript.Entry",
    .tp_basicsize = sizeof(Entry),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = entry_new,
    .tp_dealloc = (destructor)entry_dealloc,
};

/* --- both passes --- */

typedef struct {
    PyObject_HEAD
    Entry *forward, *backward;
    Py_ssize_t result_count, argument_count;
    Py_ssize_t *sources; /* per input of the backward: gradients of results, then arguments, then the forward's results;
                            negative for None */
    Py_ssize_t *places;  /* per result of the backward: the argument that it is the gradient of */
    PyObject *general;   /* (arguments and results of the forward) → pullback */
} Pair;

static int pair_traverse(Pair *self, visitproc visit, void *arg)
{
    Py_VISIT(self->general);
    return 0;
}

static int pair_clear(Pair *self)
{
    Py_CLEAR(self->general);
    return 0;
}

static void pair_dealloc(Pair *self)
{
    PyObject_GC_UnTrack(self);
    pair_clear(self);
    Py_XDECREF(self->forward);
    Py_XDECREF(self->backward);
    PyMem_Free(self->sources);
    PyMem_Free(self->places);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *pair_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"forward", "backward", "result_count", "sources", "places", "general", NULL};
    PyObject *forward, *backward, *sources, *places, *general;
    Py_ssize_t result_count;
    if (!PyArg_ParseTupleAndKeywords(
            arguments, keywords, "O!O!nO!O!O", names, &EntryType, &forward, &EntryType, &backward, &result_count,
            &PyTuple_Type, &sources, &PyTuple_Type, &places, &general))
        return NULL;
    const Py_ssize_t taken = ((Entry *)backward)->input_count, given = ((Entry *)backward)->output_count;
    if (PyTuple_GET_SIZE(sources) != taken || PyTuple_GET_SIZE(places) != given)
        return PyErr_Format(PyExc_ValueError, "one source per input, one place per result"), NULL;
    Pair *self = (Pair *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->forward = (Entry *)Py_NewRef(forward);
    self->backward = (Entry *)Py_NewRef(backward);
    self->general = Py_NewRef(general);
    self->result_count = result_count;
    self->argument_count = self->forward->input_count;
    self->sources = PyMem_Calloc((size_t)taken + 1, sizeof(Py_ssize_t));
    self->places = PyMem_Calloc((size_t)given + 1, sizeof(Py_ssize_t));
    if (!self->sources || !self->places) PyErr_NoMemory();
    else if (numbers_of(sources, taken, self->sources) && numbers_of(places, given, self->places)) return (PyObject *)self;
    Py_DECREF(self);
    return NULL;
}

static PyTypeObject PairType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "gradscript.Pair",
    .tp_basicsize = sizeof(Pair),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = pair_new,
    .tp_traverse = (traverseproc)pair_traverse,
    .tp_clear = (inquiry)pair_clear,
    .tp_dealloc = (destructor)pair_dealloc,
};

/* --- pulling back --- */

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    Pair *pair;
    PyObject *values; /* a tuple: arguments, then all results of the forward */
} Pullback;

/* The gradients of all arguments; None where the entry is not for these gradients of results. */
static PyObject *pulled_back(const Pair *pair, PyObject *const *given, PyObject *values)
{
    PyObject *inputs[pair->backward->input_count + 1], *results[pair->backward->output_count + 1];
    for (Py_ssize_t i = 0; i < pair->backward->input_count; ++i) {
        const Py_ssize_t source = pair->sources[i];
        if (source < 0) inputs[i] = Py_None;
        else inputs[i] = source < pair->result_count ? given[source] : PyTuple_GET_ITEM(values, source - pair->result_count);
    }
    const int status = run_entry(pair->backward, inputs, results);
    if (status == FAILED) return NULL;
    if (status == ELSEWHERE) Py_RETURN_NONE;
    PyObject *gradients = PyTuple_New(pair->forward->given_count);
    for (Py_ssize_t i = 0; gradients && i < pair->forward->given_count; ++i)
        PyTuple_SET_ITEM(gradients, i, Py_NewRef(Py_None));
    for (Py_ssize_t i = 0; i < pair->backward->output_count; ++i)
        if (gradients) PyTuple_SetItem(gradients, pair->places[i], results[i]);
        else Py_DECREF(results[i]);
    return gradients;
}

static PyObject *pullback_call(Pullback *self, PyObject *const *given, size_t flags, PyObject *keywords)
{
    const Pair *pair = self->pair;
    const Py_ssize_t count = PyVectorcall_NARGS(flags);
    const int is_tuple = count == 1 && pair->result_count > 1 && PyTuple_CheckExact(given[0]);
    if (!keywords && (is_tuple ? PyTuple_GET_SIZE(given[0]) : count) == pair->result_count) {
        PyObject *found = pulled_back(pair, is_tuple ? &PyTuple_GET_ITEM(given[0], 0) : given, self->values);
        if (found != Py_None) return found;
        Py_DECREF(found);
    }
    PyObject *general = PyObject_CallOneArg(pair->general, self->values);
    if (!general) return NULL;
    PyObject *found = PyObject_Vectorcall(general, given, flags, keywords);
    Py_DECREF(general);
    return found;
}

static int pullback_traverse(Pullback *self, visitproc visit, void *arg)
{
    Py_VISIT(self->pair);
    Py_VISIT(self->values);
    return 0;
}

static int pullback_clear(Pullback *self)
{
    Py_CLEAR(self->pair);
    Py_CLEAR(self->values);
    return 0;
}

static void pullback_dealloc(Pullback *self)
{
    PyObject_GC_UnTrack(self);
    pullback_clear(self);
    PyObject_GC_Del(self);
}

static PyTypeObject PullbackType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "gradscript.Pullback",
    .tp_doc = "The map from gradients of the results of a call to gradients of its arguments.",
    .tp_basicsize = sizeof(Pullback),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC,
    .tp_vectorcall_offset = offsetof(Pullback, call),
    .tp_call = PyVectorcall_Call,
    .tp_traverse = (traverseproc)pullback_traverse,
    .tp_clear = (inquiry)pullback_clear,
    .tp_dealloc = (destructor)pullback_dealloc,
};

/* --- calls --- */

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *weak;
    Py_ssize_t count;
    PyObject *items[MOST_ITEMS]; /* entries or pairs, the one added last first */
} Calls;

/* A tuple of results. Takes over the references, of which one is NULL where something has failed. */
static PyObject *tuple_of(PyObject **results, Py_ssize_t count)
{
    PyObject *tuple = PyTuple_New(count);
    for (Py_ssize_t i = 0; i < count; ++i)
        if (tuple && results[i]) PyTuple_SET_ITEM(tuple, i, results[i]);
        else {
            Py_CLEAR(tuple);
            Py_XDECREF(results[i]);
        }
    return tuple;
}

/* The results as a call gives them: one as it is, several in a tuple. Takes over the references. */
static PyObject *returned(PyObject **results, Py_ssize_t count)
{
    return count == 1 ? results[0] : tuple_of(results, count);
}

/* As `returned`, of a program whose results are tuples, some of them. */
static PyObject *nested(const Entry *entry, PyObject **outputs)
{
    PyObject *results[entry->result_count + 1];
    for (Py_ssize_t i = 0; i < entry->result_count; ++i) {
        const Py_ssize_t width = entry->widths[i];
        results[i] = width < 0 ? *outputs : tuple_of(outputs, width);
        outputs += width < 0 ? 1 : width;
    }
    return returned(results, entry->result_count);
}

/* (results, pullback) of a forward that ran. Takes over the references to its results. */
static PyObject *with_pullback(Pair *pair, PyObject *const *arguments, PyObject **results)
{
    const Py_ssize_t argument_count = pair->argument_count, count = pair->forward->output_count;
    PyObject *values = PyTuple_New(argument_count + count), *shown[pair->result_count + 1];
    Pullback *pullback = values ? PyObject_GC_New(Pullback, &PullbackType) : NULL;
    if (!pullback) {
        Py_XDECREF(values);
        for (Py_ssize_t i = 0; i < count; ++i) Py_DECREF(results[i]);
        return NULL;
    }
    for (Py_ssize_t i = 0; i < pair->result_count; ++i) shown[i] = Py_NewRef(results[i]);
    for (Py_ssize_t i = 0; i < argument_count; ++i) {
        const Py_ssize_t other = i - pair->forward->given_count;
        PyObject *value = other < 0 ? arguments[i] : PyTuple_GET_ITEM(pair->forward->defaults, other);
        PyTuple_SET_ITEM(values, i, Py_NewRef(value));
    }
    for (Py_ssize_t i = 0; i < count; ++i) PyTuple_SET_ITEM(values, argument_count + i, results[i]);
    pullback->call = (vectorcallfunc)pullback_call;
    pullback->pair = (Pair *)Py_NewRef(pair);
    pullback->values = values;
    PyObject_GC_Track(pullback);
    PyObject *value = returned(shown, pair->result_count), *both = value ? PyTuple_New(2) : NULL;
    if (!both) {
        Py_XDECREF(value);
        Py_DECREF(pullback);
        return NULL;
    }
    PyTuple_SET_ITEM(both, 0, value);
    PyTuple_SET_ITEM(both, 1, (PyObject *)pullback);
    return both;
}

static PyObject *calls_call(Calls *self, PyObject *const *values, size_t flags, PyObject *keywords)
{
    const Py_ssize_t count = PyVectorcall_NARGS(flags);
    if (keywords && PyTuple_GET_SIZE(keywords)) Py_RETURN_NONE;
    for (Py_ssize_t i = 0; i < self->count; ++i) {
        PyObject *item = self->items[i];
        Pair *pair = Py_TYPE(item) == &PairType ? (Pair *)item : NULL;
        Entry *entry = pair ? pair->forward : (Entry *)item;
        if (entry->given_count != count) continue;
        Py_INCREF(item); /* it may be dropped meanwhile */
        PyObject *results[entry->output_count + 1], *found = NULL;
        const int status = run_entry(entry, values, results);
        if (status == DONE) found = pair ? with_pullback(pair, values, results) : nested(entry, results);
        Py_DECREF(item);
        if (status != ELSEWHERE) return found;
    }
    Py_RETURN_NONE;
}

static PyObject *calls_add(Calls *self, PyObject *item)
{
    if (Py_TYPE(item) != &EntryType && Py_TYPE(item) != &PairType)
        return PyErr_Format(PyExc_TypeError, "not an Entry or a Pair"), NULL;
    PyObject *last = self->count == MOST_ITEMS ? self->items[--self->count] : NULL;
    memmove(self->items + 1, self->items, (size_t)self->count * sizeof(PyObject *));
    self->items[0] = Py_NewRef(item);
    ++self->count;
    Py_XDECREF(last);
    Py_RETURN_NONE;
}

static int calls_forget(Calls *self)
{
    while (self->count) {
        PyObject *item = self->items[--self->count];
        Py_DECREF(item);
    }
    return 0;
}

static PyObject *calls_clear(Calls *self, PyObject *unused)
{
    calls_forget(self);
    Py_RETURN_NONE;
}

static PyObject *calls_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    Calls *self = (Calls *)type->tp_alloc(type, 0);
    if (self) self->call = (vectorcallfunc)calls_call;
    return (PyObject *)self;
}

static int calls_traverse(Calls *self, visitproc visit, void *arg)
{
    for (Py_ssize_t i = 0; i < self->count; ++i) Py_VISIT(self->items[i]);
    return 0;
}

static void calls_dealloc(Calls *self)
{
    PyObject_GC_UnTrack(self);
    if (self->weak) PyObject_ClearWeakRefs((PyObject *)self);
    calls_forget(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static Py_ssize_t calls_length(Calls *self) { return self->count; }

static PyMethodDef calls_methods[] = {
    {"add", (PyCFunction)calls_add, METH_O, "Have an Entry or a Pair tried first; of too many the oldest is dropped."},
    {"clear", (PyCFunction)calls_clear, METH_NOARGS, "Drop all."},
    {NULL},
};
static PySequenceMethods calls_sequence = {.sq_length = (lenfunc)calls_length};
static PyTypeObject CallsType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "gradscript.Calls",
    .tp_basicsize = sizeof(Calls),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC,
    .tp_vectorcall_offset = offsetof(Calls, call),
    .tp_weaklistoffset = offsetof(Calls, weak),
    .tp_call = PyVectorcall_Call,
    .tp_new = calls_new,
    .tp_traverse = (traverseproc)calls_traverse,
    .tp_clear = (inquiry)calls_forget,
    .tp_dealloc = (destructor)calls_dealloc,
    .tp_methods = calls_methods,
    .tp_as_sequence = &calls_sequence,
};

/* The number of results, of which there are at most so many, or -1 where none of the calls is for these, or with an error
   set. As in calls.c. */
static Py_ssize_t run_bare(
    PyObject *calls, const gs_bare *inputs, PyObject *const *values, Py_ssize_t count, gs_result *results, Py_ssize_t most,
    Py_ssize_t owned, const gs_torch *torch)
{
    Calls *self = (Calls *)calls;
    if (Py_TYPE(calls) != &CallsType) return -1;
    for (Py_ssize_t i = 0; i < self->count; ++i) {
        Entry *entry = (Entry *)self->items[i];
        if (Py_TYPE(entry) != &EntryType || !entry->is_bare || entry->given_count != count || entry->bare_count > most) continue;
        Py_INCREF(entry); /* it may be dropped meanwhile */
        const int status = run_entry_bare(entry, inputs, values, results, owned, torch);
        const Py_ssize_t found = entry->bare_count;
        Py_DECREF(entry);
        if (status != ELSEWHERE) return status == DONE ? found : -1;
    }
    return -1;
}

/* NumPy's matmul → (Entry, Pair, Calls, the address of run_bare, whether there are products) */
PyObject *gs_types(PyObject *matmul)
{
    import_array();
    find_product_loops(matmul);
    PyTypeObject *types[] = {&EntryType, &PairType, &PullbackType, &CallsType};
    for (size_t i = 0; i < sizeof types / sizeof *types; ++i)
        if (PyType_Ready(types[i])) return NULL;
    return Py_BuildValue(
        "(OOOni)", &EntryType, &PairType, &CallsType, (Py_ssize_t)(intptr_t)run_bare, product_loop[0] && product_loop[1]);
}
