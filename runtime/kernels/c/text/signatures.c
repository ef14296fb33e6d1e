/* Calls on tensors of any device told apart without Python, lists of tensors among their values.

   Signature   (values) → whether these are of the kinds of those that it was made of */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <string.h>

#define COMPLEX 5

typedef struct Guard {
    enum { TENSOR, REAL, SAME, LIST } kind;
    PyObject *object; /* what is to be the same */
    gs_tensor tensor; /* but for its data */
    int requires_grad, is_inference;
    int64_t *sizes; /* then strides */
    Py_ssize_t count;
    struct Guard *items; /* of a list */
} Guard;

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    Guard guard; /* of all values, as of a list */
} Signature;

static const gs_exchange *exchange;
static PyObject *tensor_type, *parameter_type, *name_requires_grad, *name_is_neg, *name_is_inference;

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

/* Whether a value is a plain tensor, which is told of: none that is batched, sparse, on no memory, functional, or put
   off to be negated or conjugated. With an error set, it is not. */
static int is_described(PyObject *value, gs_tensor *tensor)
{
    if (exchange->tensor_of_object(value, tensor) || tensor->dtype.code == COMPLEX) return 0;
    int64_t count = 1;
    for (int i = 0; i < tensor->ndim; ++i) count *= tensor->sizes[i];
    return (tensor->data || !count) && is_so(PyObject_CallMethodNoArgs(value, name_is_neg)) == 0;
}

/* --- making one --- */

static int read_items(Guard *guard, PyObject *const *values, Py_ssize_t count);

/* Lists nest as deep as types in source, so this recurses. */
static int guard_of(Guard *guard, PyObject *value)
{
    if (PyList_CheckExact(value)) return read_items(guard, ((PyListObject *)value)->ob_item, PyList_GET_SIZE(value));
    guard->kind = is_tensor(value) ? TENSOR : PyFloat_CheckExact(value) ? REAL : SAME;
    if (guard->kind == SAME) {
        if (value != Py_None && !PyBool_Check(value) && !PyLong_CheckExact(value) && !PyUnicode_CheckExact(value))
            return PyErr_Format(PyExc_TypeError, "no value that is told of"), -1;
        guard->object = Py_NewRef(value);
    }
    if (guard->kind != TENSOR) return 0;
    if (!is_described(value, &guard->tensor)) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "no plain tensor");
        return -1;
    }
    guard->requires_grad = is_so(PyObject_GetAttr(value, name_requires_grad));
    guard->is_inference = is_so(PyObject_CallMethodNoArgs(value, name_is_inference));
    if (guard->requires_grad < 0 || guard->is_inference < 0) return -1;
    const int ndim = guard->tensor.ndim;
    guard->sizes = PyMem_Calloc(2 * (size_t)ndim + 1, sizeof(int64_t));
    if (!guard->sizes) return PyErr_NoMemory(), -1;
    for (int i = 0; i < ndim; ++i) {
        guard->sizes[i] = guard->tensor.sizes[i];
        guard->sizes[ndim + i] = guard->tensor.strides[i];
    }
    return 0;
}

static int read_items(Guard *guard, PyObject *const *values, Py_ssize_t count)
{
    guard->kind = LIST;
    guard->items = PyMem_Calloc((size_t)count + 1, sizeof(Guard));
    if (!guard->items) return PyErr_NoMemory(), -1;
    guard->count = count;
    for (Py_ssize_t i = 0; i < count; ++i)
        if (guard_of(guard->items + i, values[i])) return -1;
    return 0;
}

static void forget(Guard *guard)
{
    for (Py_ssize_t i = 0; i < guard->count; ++i) forget(guard->items + i);
    Py_XDECREF(guard->object);
    PyMem_Free(guard->items);
    PyMem_Free(guard->sizes);
}

/* --- asking one --- */

static int is_like(const Guard *guard, PyObject *value)
{
    gs_tensor tensor;
    if (!is_tensor(value) || !is_described(value, &tensor)) return 0;
    if (tensor.ndim != guard->tensor.ndim || memcmp(&tensor.dtype, &guard->tensor.dtype, sizeof tensor.dtype)) return 0;
    if (memcmp(&tensor.device, &guard->tensor.device, sizeof tensor.device)) return 0;
    if (is_so(PyObject_GetAttr(value, name_requires_grad)) != guard->requires_grad) return 0;
    if (is_so(PyObject_CallMethodNoArgs(value, name_is_inference)) != guard->is_inference) return 0;
    for (int i = 0; i < tensor.ndim; ++i)
        if (tensor.sizes[i] != guard->sizes[i] || tensor.strides[i] != guard->sizes[tensor.ndim + i]) return 0;
    return 1;
}

/* Whether a value is of the guard's kind; with an error set, it is not. Recurses as `guard_of` does. */
static int is_taken(const Guard *guard, PyObject *value)
{
    switch (guard->kind) {
    case TENSOR: return is_like(guard, value);
    case REAL: return PyFloat_CheckExact(value);
    case LIST:
        if (!PyList_CheckExact(value)) return 0;
        for (Py_ssize_t i = 0; i < guard->count; ++i)
            if (PyList_GET_SIZE(value) != guard->count || !is_taken(guard->items + i, PyList_GET_ITEM(value, i))) return 0;
        return PyList_GET_SIZE(value) == guard->count;
    case SAME: break;
    }
    if (value == guard->object) return 1;
    if (Py_TYPE(value) != Py_TYPE(guard->object) || !(PyLong_CheckExact(value) || PyUnicode_CheckExact(value))) return 0;
    return PyObject_RichCompareBool(value, guard->object, Py_EQ) == 1;
}

static PyObject *signature_call(Signature *self, PyObject *const *arguments, size_t flags, PyObject *keywords)
{
    if (PyVectorcall_NARGS(flags) != 1 || keywords || !PyTuple_CheckExact(arguments[0]))
        return PyErr_Format(PyExc_TypeError, "a tuple of values is taken"), NULL;
    PyObject *values = arguments[0];
    int so = PyTuple_GET_SIZE(values) == self->guard.count;
    for (Py_ssize_t i = 0; so && i < self->guard.count; ++i)
        so = is_taken(self->guard.items + i, PyTuple_GET_ITEM(values, i)) && !PyErr_Occurred();
    /* What cannot be asked is none of these; who takes the longer way is told. */
    PyErr_Clear();
    return PyBool_FromLong(so);
}

/* Signature(values) */
static PyObject *signature_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    PyObject *values;
    if (!PyArg_ParseTuple(arguments, "O!", &PyTuple_Type, &values)) return NULL;
    Signature *self = (Signature *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->call = (vectorcallfunc)signature_call;
    if (read_items(&self->guard, &PyTuple_GET_ITEM(values, 0), PyTuple_GET_SIZE(values))) Py_CLEAR(self);
    return (PyObject *)self;
}

static void signature_dealloc(Signature *self)
{
    forget(&self->guard);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyTypeObject SignatureType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "gradscript.Signature",
    .tp_basicsize = sizeof(Signature),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Signature, call),
    .tp_call = PyVectorcall_Call,
    .tp_new = signature_new,
    .tp_dealloc = (destructor)signature_dealloc,
};

/* The type Signature, of torch's functions for DLPack, a capsule, and its types of tensors. None where torch has
   other functions. */
PyObject *gs_signature_type(PyObject *given)
{
    PyObject *capsule;
    if (!PyArg_ParseTuple(given, "OOO", &capsule, &tensor_type, &parameter_type)) return NULL;
    exchange = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    if (!exchange) return NULL;
    if (exchange->header.major != 1 || !exchange->tensor_of_object) Py_RETURN_NONE;
    Py_INCREF(tensor_type);
    Py_INCREF(parameter_type);
    name_requires_grad = PyUnicode_InternFromString("requires_grad");
    name_is_neg = PyUnicode_InternFromString("is_neg");
    name_is_inference = PyUnicode_InternFromString("is_inference");
    if (PyErr_Occurred() || PyType_Ready(&SignatureType) < 0) return NULL;
    return Py_NewRef((PyObject *)&SignatureType);
}
