
/* Ops of the library in programs on bare memory: torch's own, called on tensors of the memory of slots, and orders of few
   elements; built behind products.c and before entry.c. */

#include <string.h>

static int read_slots(PyObject *tuple, Py_ssize_t count, Py_ssize_t *into)
{
    for (Py_ssize_t i = 0; i < count; ++i) {
        into[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(tuple, i));
        if (into[i] == -1 && PyErr_Occurred()) return -1;
    }
    return 0;
}

/* --- calls --- */

/* What is passed: an object as it is, or what is in a slot, or in several, a list. */
/* -1 is None in a list. */
typedef struct { PyObject *object; int is_list; Py_ssize_t count, *slots; } Argument;

typedef struct {
    PyObject *function, *names; /* of the last arguments, or NULL */
    Py_ssize_t count, result_count, *results; /* slots; -1 for a result that nobody takes */
    Argument *arguments;
} Called;

/* (object, None), or (slots, whether they are a list) */
static int read_argument(PyObject *item, Argument *argument)
{
    PyObject *given, *is_list;
    if (!PyArg_ParseTuple(item, "OO", &given, &is_list)) return -1;
    if (is_list == Py_None) {
        argument->object = Py_NewRef(given);
        return 0;
    }
    argument->is_list = is_list == Py_True;
    argument->count = PyTuple_Check(given) ? PyTuple_GET_SIZE(given) : -1;
    if (argument->count < 0) return PyErr_Format(PyExc_TypeError, "slots are taken"), -1;
    argument->slots = PyMem_Calloc((size_t)argument->count + 1, sizeof(Py_ssize_t));
    if (!argument->slots) return PyErr_NoMemory(), -1;
    return read_slots(given, argument->count, argument->slots);
}

static void drop_called(Called *called)
{
    if (!called) return;
    for (Py_ssize_t i = 0; called->arguments && i < called->count; ++i) {
        Py_XDECREF(called->arguments[i].object);
        PyMem_Free(called->arguments[i].slots);
    }
    PyMem_Free(called->arguments);
    PyMem_Free(called->results);
    Py_XDECREF(called->function);
    Py_XDECREF(called->names);
    PyMem_Free(called);
}

/* Of (function, names or None, arguments, slots of results). */
static Called *read_called(PyObject *item)
{
    PyObject *function, *names, *arguments, *results;
    if (!PyArg_ParseTuple(item, "OOO!O!", &function, &names, &PyTuple_Type, &arguments, &PyTuple_Type, &results)) return NULL;
    Called *called = PyMem_Calloc(1, sizeof(Called));
    if (!called) return (Called *)PyErr_NoMemory();
    called->function = Py_NewRef(function);
    called->names = PyTuple_Check(names) ? Py_NewRef(names) : NULL;
    called->result_count = PyTuple_GET_SIZE(results);
    called->arguments = PyMem_Calloc((size_t)PyTuple_GET_SIZE(arguments) + 1, sizeof(Argument));
    called->results = PyMem_Calloc((size_t)called->result_count + 1, sizeof(Py_ssize_t));
    int failed = !called->arguments || !called->results;
    if (failed) PyErr_NoMemory();
    else called->count = PyTuple_GET_SIZE(arguments);
    for (Py_ssize_t i = 0; !failed && i < called->count; ++i)
        failed = read_argument(PyTuple_GET_ITEM(arguments, i), called->arguments + i);
    if (failed || read_slots(results, called->result_count, called->results)) {
        drop_called(called);
        return NULL;
    }
    return called;
}

/* A new reference to what is in a slot, as torch takes it; NULL, which may be without an error. */
typedef PyObject *at_slot(void *run, Py_ssize_t slot);

static PyObject *argument_of(const Argument *argument, at_slot *at, void *run)
{
    if (argument->object) return Py_NewRef(argument->object);
    if (!argument->is_list) return at(run, argument->slots[0]);
    PyObject *list = PyList_New(argument->count);
    for (Py_ssize_t i = 0; list && i < argument->count; ++i) {
        PyObject *item = argument->slots[i] < 0 ? Py_NewRef(Py_None) : at(run, argument->slots[i]);
        if (item) PyList_SET_ITEM(list, i, item);
        else Py_CLEAR(list);
    }
    return list;
}

/* What a call gives, or NULL, which may be without an error. */
static PyObject *result_of_call(const Called *called, at_slot *at, void *run)
{
    PyObject *arguments[called->count + 1], *found = NULL;
    Py_ssize_t count = 0;
    for (; count < called->count; ++count)
        if (!(arguments[count] = argument_of(called->arguments + count, at, run))) break;
    if (count == called->count) {
        const Py_ssize_t named = called->names ? PyTuple_GET_SIZE(called->names) : 0;
        found = PyObject_Vectorcall(called->function, arguments, (size_t)(count - named), called->names);
    }
    while (count) Py_DECREF(arguments[--count]);
    return found;
}

/* --- orders --- */

/* The first `taken` of each row of a tensor in order, equal elements in theirs, NaN beyond all numbers; and where each
   stood. Results are contiguous. */
typedef struct {
    Py_ssize_t from, values, indices; /* slots; -1 for a result that nobody takes */
    char code;                        /* NumPy's, of the elements */
    int descending, ndim, axis;
    Py_ssize_t taken, *sizes;         /* then strides in bytes */
} Order;

#define MOST_ORDERED 64

typedef struct { double real; int64_t whole; } Key;

static Key key_at(char code, const char *at)
{
    Key key = {0, 0};
    switch (code) {
    case 'f': key.real = *(const float *)at; break;
    case 'd': key.real = *(const double *)at; break;
    case 'b': key.whole = *(const int8_t *)at; break;
    case 'B': case '?': key.whole = *(const uint8_t *)at; break;
    case 'h': key.whole = *(const int16_t *)at; break;
    case 'i': key.whole = *(const int32_t *)at; break;
    default: key.whole = *(const int64_t *)at;
    }
    return key;
}

static int is_before(Key left, Key right, int descending)
{
    if (descending) return is_before(right, left, 0);
    return left.real < right.real || (right.real != right.real && left.real == left.real) || left.whole < right.whole;
}

static Py_ssize_t size_of_code(char code)
{
    return code == 'd' || code == 'q' || code == 'l' ? 8 : code == 'f' || code == 'i' ? 4 : code == 'h' ? 2 : 1;
}

static void put_in_order(const Order *order, void *const *pointers)
{
    const Py_ssize_t *sizes = order->sizes, *strides = sizes + order->ndim, item = size_of_code(order->code);
    const Py_ssize_t length = sizes[order->axis];
    Py_ssize_t rows = 1, inner = 1, at[32] = {0};
    for (int d = 0; d < order->ndim; ++d) rows *= d == order->axis ? 1 : sizes[d];
    for (int d = order->axis + 1; d < order->ndim; ++d) inner *= sizes[d];
    const char *row = pointers[order->from];
    char *values = order->values < 0 ? NULL : pointers[order->values];
    int64_t *indices = order->indices < 0 ? NULL : pointers[order->indices];
    for (Py_ssize_t i = 0; i < rows; ++i) {
        Key keys[MOST_ORDERED + 1];
        int64_t places[MOST_ORDERED + 1];
        Py_ssize_t found = 0;
        for (Py_ssize_t k = 0; k < length; ++k) {
            const Key key = key_at(order->code, row + k * strides[order->axis]);
            Py_ssize_t to = found;
            while (to > 0 && is_before(key, keys[to - 1], order->descending)) --to;
            if (to >= order->taken) continue;
            if (found < order->taken) ++found;
            memmove(keys + to + 1, keys + to, (size_t)(found - to - 1) * sizeof *keys);
            memmove(places + to + 1, places + to, (size_t)(found - to - 1) * sizeof *places);
            keys[to] = key;
            places[to] = k;
        }
        const Py_ssize_t first = i / inner * inner * order->taken + i % inner;
        for (Py_ssize_t k = 0; k < found; ++k) {
            if (values) memcpy(values + (first + k * inner) * item, row + places[k] * strides[order->axis], (size_t)item);
            if (indices) indices[first + k * inner] = places[k];
        }
        for (int d = order->ndim; d-- > 0;) {
            if (d == order->axis) continue;
            row += strides[d];
            if (++at[d] < sizes[d]) break;
            row -= at[d] * strides[d];
            at[d] = 0;
        }
    }
}

/* What is in a slot, one element, has to be true or false for the rest to hold. */
typedef struct { Py_ssize_t slot; char code; int answer; } Check;

static int is_answered(const Check *check, void *const *pointers)
{
    const Key key = key_at(check->code, pointers[check->slot]);
    return (key.real != 0 || key.whole != 0) == check->answer;
}

/* Of (slot, slot of values, slot of indices, code, descending, axis, taken, sizes, strides). */
static int read_order(PyObject *item, Order *order)
{
    PyObject *sizes, *strides;
    char code;
    if (!PyArg_ParseTuple(item, "nnncpinO!O!", &order->from, &order->values, &order->indices, &code, &order->descending,
                          &order->axis, &order->taken, &PyTuple_Type, &sizes, &PyTuple_Type, &strides))
        return -1;
    order->code = code;
    order->ndim = (int)PyTuple_GET_SIZE(sizes);
    const int fits = PyTuple_GET_SIZE(strides) == order->ndim && 0 < order->ndim && order->ndim <= 32 && 0 <= order->axis
                     && order->axis < order->ndim;
    if (!fits) return PyErr_Format(PyExc_ValueError, "no such rows"), -1;
    order->sizes = PyMem_Calloc(2 * (size_t)order->ndim, sizeof(Py_ssize_t));
    if (!order->sizes) return PyErr_NoMemory(), -1;
    if (read_slots(sizes, order->ndim, order->sizes) || read_slots(strides, order->ndim, order->sizes + order->ndim)) return -1;
    if (order->sizes[order->axis] > MOST_ORDERED || order->taken > order->sizes[order->axis])
        return PyErr_Format(PyExc_ValueError, "too long a row"), -1;
    return 0;
}
