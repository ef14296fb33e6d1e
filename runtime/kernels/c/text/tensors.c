/* Calls on CPU tensors told apart without Python: what was prepared for tensors of some layouts is found by comparing
   them, and their memory shown as arrays. What runs it is in nodes.c, which is built with this text.

   Kind      values of some layouts, and what was prepared for them
   Kinds     several of these; (values) → the result of what was prepared for such, called with the values and with the
             same with arrays for tensors; NotImplemented where nothing was, or where torch is in a state in which
             nothing prepared runs */

#define PY_SSIZE_T_CLEAN
#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <Python.h>
#include <numpy/arrayobject.h>
#include <stddef.h>
#include <string.h>

/* As in entry.c. */
typedef struct { int ndim; const npy_intp *sizes, *strides; Py_ssize_t offset, size; } gs_view;
typedef struct { gs_managed *made; void *tensor; Py_ssize_t source, earlier; int is_view; gs_view view; } gs_result;

#define MOST_ITEMS 16
#define VERSION 1
#define ON_CPU 1

typedef struct {
    enum { TENSOR, REAL, INTEGER, SAME } kind; /* of an INTEGER, whichever it is */
    PyObject *object; /* of a tensor its dtype as NumPy has it; else what is to be the same */
    gs_dtype dtype;
    int requires_grad, ndim;
    int64_t *sizes; /* then strides, then strides in bytes */
} Guard;

typedef struct {
    PyObject_HEAD
    PyObject *prepared, *backend;
    int records;
    Py_ssize_t count;
    Guard *guards;
} Kind;

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *weak;
    Py_ssize_t count;
    Kind *items[MOST_ITEMS]; /* the one added last first */
} Kinds;

/* As in entry.c. */
typedef struct { const gs_exchange *exchange; PyObject *casts, *set_casts; } gs_torch;

/* What torch has, set once. */
static const gs_exchange *exchange;
static gs_torch torchs;
static PyObject *tensor_type, *parameter_type, *records_now, *from_array, *quiet, *levels, *backend_now, *touched, *begun;
static PyObject *name_offset, *name_detach, *name_strided, *name_requires_grad, *name_is_neg, *name_level, *name_any, *name_name;

/* An argument that is a tensor: its memory, dtype as NumPy has it, sizes, and strides in bytes. As in entry.c. */
typedef struct { void *data; PyObject *dtype; int ndim; const int64_t *sizes, *strides; } gs_bare;

/* What was prepared, called with values, a tuple, of which is told; in calls.c. */
static PyObject *ran(PyObject *prepared, PyObject *values, const gs_bare *inputs);

/* 1 if torch records no run, runs under no mode and no transform; 0 if not; FAILED */
static int is_quiet(void)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(quiet); ++i) {
        PyObject *found = PyObject_CallNoArgs(PyTuple_GET_ITEM(quiet, i));
        if (!found) return -1;
        const int is_so = found == Py_None || found == Py_False || (PyLong_CheckExact(found) && PyLong_AsLong(found) == 0);
        Py_DECREF(found);
        if (!is_so) return 0;
    }
    PyObject *level = PyObject_GetAttr(levels, name_level);
    if (!level) return -1;
    const int is_none = PyLong_Check(level) && PyLong_AsLong(level) < 0;
    Py_DECREF(level);
    return is_none;
}

static int is_tensor(PyObject *value)
{
    return (PyObject *)Py_TYPE(value) == tensor_type || (PyObject *)Py_TYPE(value) == parameter_type;
}

/* 1, 0, or -1 where that cannot be said */
static int is_so(PyObject *answer)
{
    const int so = answer ? answer == Py_True : -1;
    Py_XDECREF(answer);
    return so;
}

/* What DLPack says of a plain tensor on the CPU; NULL, or with an error set, of any other: of those that are batched,
   sparse, on no memory, functional, or put off to be negated. */
static const gs_tensor *described(PyObject *value, gs_tensor *tensor)
{
    if (exchange->tensor_of_object(value, tensor) || tensor->device.kind != ON_CPU) return NULL;
    int64_t count = 1;
    for (int i = 0; i < tensor->ndim; ++i) count *= tensor->sizes[i];
    if (!tensor->data && count) return NULL;
    return is_so(PyObject_CallMethodNoArgs(value, name_is_neg)) ? NULL : tensor;
}

/* --- making one --- */

static int guard_of(Guard *guard, PyObject *value, PyObject *dtype, int is_open)
{
    guard->kind = is_tensor(value) ? TENSOR : PyFloat_CheckExact(value) ? REAL : is_open ? INTEGER : SAME;
    guard->object = Py_NewRef(guard->kind == TENSOR ? dtype : value);
    if (guard->kind != TENSOR) return 0;
    gs_tensor tensor;
    if (!PyArray_DescrCheck(dtype)) return PyErr_Format(PyExc_TypeError, "a tensor has a dtype"), -1;
    guard->requires_grad = is_so(PyObject_GetAttr(value, name_requires_grad));
    if (guard->requires_grad < 0) return -1;
    if (!described(value, &tensor)) return PyErr_Format(PyExc_ValueError, "no plain tensor on the CPU"), -1;
    guard->dtype = tensor.dtype;
    guard->ndim = tensor.ndim;
    guard->sizes = PyMem_Calloc(3 * (size_t)tensor.ndim + 1, sizeof(int64_t));
    if (!guard->sizes) return PyErr_NoMemory(), -1;
    for (int i = 0; i < tensor.ndim; ++i) {
        guard->sizes[i] = tensor.sizes[i];
        guard->sizes[tensor.ndim + i] = tensor.strides[i];
        guard->sizes[2 * tensor.ndim + i] = tensor.strides[i] * PyDataType_ELSIZE((PyArray_Descr *)dtype);
    }
    return 0;
}

/* Kind(prepared, values, dtypes, records, backend, open): at places that are open any int may stand */
static PyObject *kind_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"prepared", "values", "dtypes", "records", "backend", "open", NULL};
    PyObject *prepared, *values, *dtypes, *backend, *open;
    int records;
    if (!PyArg_ParseTupleAndKeywords(
            arguments, keywords, "OO!O!pOO!", names, &prepared, &PyTuple_Type, &values, &PyTuple_Type, &dtypes, &records, &backend, &PyFrozenSet_Type, &open))
        return NULL;
    if (PyTuple_GET_SIZE(values) != PyTuple_GET_SIZE(dtypes))
        return PyErr_Format(PyExc_ValueError, "one dtype per value"), NULL;
    Kind *self = (Kind *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->prepared = Py_NewRef(prepared);
    self->backend = Py_NewRef(backend);
    self->records = records;
    self->guards = PyMem_Calloc((size_t)PyTuple_GET_SIZE(values) + 1, sizeof(Guard));
    if (self->guards) self->count = PyTuple_GET_SIZE(values);
    else PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < self->count && !PyErr_Occurred(); ++i) {
        PyObject *place = PyLong_FromSsize_t(i);
        const int is_open = place ? PySet_Contains(open, place) : -1;
        Py_XDECREF(place);
        if (is_open >= 0) guard_of(self->guards + i, PyTuple_GET_ITEM(values, i), PyTuple_GET_ITEM(dtypes, i), is_open);
    }
    if (PyErr_Occurred()) Py_CLEAR(self);
    return (PyObject *)self;
}

static int kind_traverse(Kind *self, visitproc visit, void *arg)
{
    Py_VISIT(self->prepared);
    return 0;
}

static int kind_clear(Kind *self)
{
    Py_CLEAR(self->prepared);
    return 0;
}

static void kind_dealloc(Kind *self)
{
    PyObject_GC_UnTrack(self);
    kind_clear(self);
    for (Py_ssize_t i = 0; i < self->count; ++i) {
        Py_XDECREF(self->guards[i].object);
        PyMem_Free(self->guards[i].sizes);
    }
    PyMem_Free(self->guards);
    Py_XDECREF(self->backend);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyTypeObject KindType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "gradscript.Kind",
    .tp_basicsize = sizeof(Kind),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = kind_new,
    .tp_traverse = (traverseproc)kind_traverse,
    .tp_clear = (inquiry)kind_clear,
    .tp_dealloc = (destructor)kind_dealloc,
};

/* --- finding one --- */

/* Whether a value is a tensor like the guard's, which is told of; -1 with an error set. */
static int is_like(const Guard *guard, PyObject *value, gs_bare *bare)
{
    gs_tensor tensor;
    if (!is_tensor(value)) return 0;
    if (is_so(PyObject_GetAttr(value, name_requires_grad)) != guard->requires_grad) return 0;
    if (!described(value, &tensor) || tensor.ndim != guard->ndim) return 0;
    if (tensor.dtype.code != guard->dtype.code || tensor.dtype.bits != guard->dtype.bits) return 0;
    const int64_t *sizes = guard->sizes, *strides = sizes + guard->ndim;
    for (int i = 0; i < guard->ndim; ++i)
        if (tensor.sizes[i] != sizes[i] || tensor.strides[i] != strides[i]) return 0;
    *bare = (gs_bare){(char *)tensor.data + tensor.offset, guard->object, guard->ndim, sizes, strides + guard->ndim};
    return 1;
}

/* Whether a value is what the guard asks for; of a tensor is told. With an error set, it is not. */
static int is_taken(const Guard *guard, PyObject *value, gs_bare *bare)
{
    *bare = (gs_bare){0};
    switch (guard->kind) {
    case TENSOR: return is_like(guard, value, bare);
    case REAL: return PyFloat_CheckExact(value);
    case INTEGER: return PyLong_CheckExact(value);
    case SAME: break;
    }
    if (value == guard->object) return 1;
    if (Py_TYPE(value) != Py_TYPE(guard->object) || !(PyLong_CheckExact(value) || PyUnicode_CheckExact(value))) return 0;
    return PyObject_RichCompareBool(value, guard->object, Py_EQ) == 1;
}

/* A list of the values, with arrays of their memory for tensors. */
static PyObject *arrays_of(const gs_bare *inputs, PyObject *const *values, Py_ssize_t count)
{
    PyObject *found = PyList_New(count);
    for (Py_ssize_t i = 0; found && i < count; ++i) {
        const gs_bare *bare = inputs + i;
        PyObject *value = bare->dtype ? NULL : Py_NewRef(values[i]);
        if (bare->dtype) {
            Py_INCREF(bare->dtype); /* which the array takes over */
            value = PyArray_NewFromDescr(
                &PyArray_Type, (PyArray_Descr *)bare->dtype, bare->ndim, (npy_intp *)bare->sizes, (npy_intp *)bare->strides,
                bare->data, 0, NULL);
            if (value && PyArray_SetBaseObject((PyArrayObject *)value, Py_NewRef(values[i]))) Py_CLEAR(value);
        }
        if (value) PyList_SET_ITEM(found, i, value);
        else Py_CLEAR(found);
    }
    return found;
}

/* Whether values may be of a kind, by their types alone. */
static int may_be(const Kind *kind, PyObject *const *values, Py_ssize_t count)
{
    if (kind->count != count || !kind->prepared) return 0;
    for (Py_ssize_t i = 0; i < count; ++i)
        if (is_tensor(values[i]) != (kind->guards[i].kind == TENSOR)) return 0;
    return 1;
}

/* The backend that is in force: `usual_backend` of Python. */
static PyObject *backend_here(void)
{
    PyObject *any = PyObject_GetAttr(touched, name_any);
    if (!any) return NULL;
    Py_DECREF(any);
    if (any != Py_False) return PyObject_CallNoArgs(backend_now);
    PyObject *name = PyObject_GetAttr(begun, name_name);
    if (!name || (PyUnicode_Check(name) && PyUnicode_GET_LENGTH(name))) return name;
    Py_DECREF(name);
    return PyObject_CallNoArgs(backend_now);
}

/* The kind of a row of values, which are told of, a new reference; NULL where they are of none. */
static Kind *find_in(
    const Kinds *self, PyObject *const *values, Py_ssize_t count, int records, PyObject *backend, gs_bare *inputs)
{
    for (Py_ssize_t i = 0; i < self->count; ++i) {
        Kind *kind = self->items[i];
        if (kind->records != records || !may_be(kind, values, count)) continue;
        Py_INCREF(kind); /* it may be dropped meanwhile */
        int is_it = kind->backend == backend ? 1 : PyObject_RichCompareBool(kind->backend, backend, Py_EQ);
        for (Py_ssize_t j = 0; is_it == 1 && j < count; ++j) is_it = is_taken(kind->guards + j, values[j], inputs + j);
        if (is_it == 1 && !PyErr_Occurred()) return kind;
        Py_DECREF(kind);
        /* What cannot be asked is none of these; who takes the longer way is told. */
        PyErr_Clear();
    }
    return NULL;
}

/* The same in the state that torch is in; NULL with an error set as well. */
static Kind *find(const Kinds *self, PyObject *const *values, Py_ssize_t count, gs_bare *inputs)
{
    int may = 0;
    for (Py_ssize_t i = 0; !may && i < self->count; ++i) may = may_be(self->items[i], values, count);
    if (!may || is_quiet() != 1) return NULL;
    PyObject *records = PyObject_CallNoArgs(records_now), *backend = records ? backend_here() : NULL;
    Kind *found = backend ? find_in(self, values, count, records == Py_True, backend, inputs) : NULL;
    Py_XDECREF(records);
    Py_XDECREF(backend);
    return found;
}

/* The result for a row of values, a tuple; NotImplemented where nothing was prepared. */
static PyObject *result_for(const Kinds *self, PyObject *row)
{
    gs_bare inputs[PyTuple_GET_SIZE(row) + 1];
    Kind *kind = find(self, &PyTuple_GET_ITEM(row, 0), PyTuple_GET_SIZE(row), inputs);
    if (!kind) {
        if (PyErr_Occurred()) return NULL;
        Py_RETURN_NOTIMPLEMENTED;
    }
    PyObject *result = ran(kind->prepared, row, inputs);
    Py_DECREF(kind);
    return result;
}

static PyObject *kinds_call(Kinds *self, PyObject *const *arguments, size_t flags, PyObject *keywords)
{
    if (PyVectorcall_NARGS(flags) != 1 || keywords) return PyErr_Format(PyExc_TypeError, "a list of values is taken"), NULL;
    PyObject *values = arguments[0];
    if (!self->count || (!PyTuple_CheckExact(values) && !PyList_CheckExact(values))) Py_RETURN_NOTIMPLEMENTED;
    /* A tuple: asking a value may run what changes a list. */
    PyObject *row = PySequence_Tuple(values);
    PyObject *result = row ? result_for(self, row) : NULL;
    Py_XDECREF(row);
    return result;
}

static PyObject *kinds_add(Kinds *self, PyObject *kind)
{
    if (Py_TYPE(kind) != &KindType) return PyErr_Format(PyExc_TypeError, "not a Kind"), NULL;
    Kind *last = self->count == MOST_ITEMS ? self->items[--self->count] : NULL;
    memmove(self->items + 1, self->items, (size_t)self->count * sizeof(Kind *));
    self->items[0] = (Kind *)Py_NewRef(kind);
    ++self->count;
    Py_XDECREF(last);
    Py_RETURN_NONE;
}

static PyObject *kinds_clear(Kinds *self, PyObject *unused)
{
    while (self->count) {
        Kind *kind = self->items[--self->count];
        Py_DECREF(kind);
    }
    Py_RETURN_NONE;
}

static int kinds_traverse(Kinds *self, visitproc visit, void *arg)
{
    for (Py_ssize_t i = 0; i < self->count; ++i) Py_VISIT(self->items[i]);
    return 0;
}

static int kinds_forget(Kinds *self)
{
    Py_XDECREF(kinds_clear(self, NULL));
    return 0;
}

static PyObject *kinds_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    Kinds *self = (Kinds *)type->tp_alloc(type, 0);
    if (self) self->call = (vectorcallfunc)kinds_call;
    return (PyObject *)self;
}

static void kinds_dealloc(Kinds *self)
{
    PyObject_GC_UnTrack(self);
    if (self->weak) PyObject_ClearWeakRefs((PyObject *)self);
    kinds_forget(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static Py_ssize_t kinds_length(Kinds *self) { return self->count; }

static PyMethodDef kinds_methods[] = {
    {"add", (PyCFunction)kinds_add, METH_O, "Have a Kind tried first; of too many the oldest is dropped."},
    {"clear", (PyCFunction)kinds_clear, METH_NOARGS, "Drop all."},
    {NULL},
};
static PySequenceMethods kinds_sequence = {.sq_length = (lenfunc)kinds_length};
static PyTypeObject KindsType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "gradscript.Kinds",
    .tp_basicsize = sizeof(Kinds),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC,
    .tp_vectorcall_offset = offsetof(Kinds, call),
    .tp_weaklistoffset = offsetof(Kinds, weak),
    .tp_call = PyVectorcall_Call,
    .tp_new = kinds_new,
    .tp_traverse = (traverseproc)kinds_traverse,
    .tp_clear = (inquiry)kinds_forget,
    .tp_dealloc = (destructor)kinds_dealloc,
    .tp_methods = kinds_methods,
    .tp_as_sequence = &kinds_sequence,
};
