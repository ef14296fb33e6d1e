/* Calls of programs of kernels without Python in between: what was planned for arguments of some layouts compares
   them, makes the results and runs the kernels.

   Entry     one program: its guard, what it allocates, the addresses of its launches; or, of one that calls ops of the
             library too, what runs it in Python
   bare_entry.c, built behind it, runs one on memory without arrays; passes.c has pairs of them, and several to choose from. */

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
    int is_long, is_bare; /* whether results are of dtypes that DLPack has */
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

/* Whether a result that is a view of what is made here has all of its elements, and nobody else has any: then it is what
   was made, under the view's strides. */
static int is_alone(const Entry *self, Py_ssize_t result)
{
    const View *view = self->views + (self->bare_outputs[result] - self->slot_count);
    const Made *made = self->made + (view->source - self->input_count);
    if (view->source < self->input_count || view->offset || view->as.ndim != made->ndim) return 0;
    if (view->as.nbytes != made->nbytes || view->as.dtype != made->dtype || made->is_torchs) return 0;
    for (int i = 0; i < view->as.ndim; ++i)
        if (view->strides[i] <= 0 && view->as.sizes[i] > 1) return 0;
    for (Py_ssize_t i = 0; i < self->bare_count; ++i) {
        const Py_ssize_t slot = self->bare_outputs[i], other = slot - self->slot_count;
        if (i != result && (slot == view->source || (other >= 0 && self->views[other].source == view->source))) return 0;
    }
    return 1;
}

/* Whether a view may be copied, element by element. */
static int is_small(const Made *made) { return made->code >= 0 && made->nbytes < LARGE; }

/* Whether an entry can be run on bare memory. */
static int may_be_bare(const Entry *self)
{
    const Py_ssize_t views = self->slot_count, made = self->input_count;
    if (!self->bare_count) return 0;
    for (Py_ssize_t i = 0; i < self->given_count; ++i)
        if (self->guards[i].kind == ANYTHING) return 0;
    for (Py_ssize_t i = 0; i < self->made_count; ++i)
        if (self->made[i].code < 0) return 0;
    for (Py_ssize_t i = 0; i < self->view_count; ++i) {
        const Py_ssize_t source = self->views[i].source;
        if (source < 0 || source >= made + self->made_count) return 0;
        if (source < made && (source >= self->given_count || self->guards[source].kind != ARRAY)) return 0;
    }
    for (Py_ssize_t i = 0; i < self->bare_count; ++i) {
        const Py_ssize_t slot = self->bare_outputs[i], constant = slot - made - self->made_count;
        if (slot < 0 || slot >= views + self->view_count) return 0;
        if (constant >= 0 && slot < views && !PyArray_CheckExact(PyTuple_GET_ITEM(self->constants, constant))) continue;
        if (slot >= views ? !is_small(&self->views[slot - views].as) && !is_alone(self, i) : slot >= made + self->made_count) return 0;
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
