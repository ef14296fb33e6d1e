/* Lists of launches run without Python in between: the steps of launches/steps.py, over one row of slots.

   Steps   (slots, stream) → None; `slots` is a list, which the steps read and fill in order

   A step calls what its Python would call, with the same arguments in the same order. Where anything is other than it
   was prepared for, the step's own Python is called instead, and tells what is wrong. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MOST_ALIGNMENTS 4
#define MOST_BUFFERS 64
#define ALIGNMENT 16

/* Positions among slots. */
typedef struct { Py_ssize_t count, *at; } Places;

/* Values in a row: those that are always the same, and which of them are taken from slots or made of such. */
typedef struct Values {
    PyObject *same; /* a tuple */
    int is_tuple;   /* where they are made into one, and not into a list */
    Places where, from, nested_at;
    struct Values *nested;
} Values;

/* A tensor that is allocated: the slot, and what the call that does so takes. */
typedef struct { Py_ssize_t slot; PyObject *arguments, *named; } Made;
/* A tensor in the memory of another one, of a shape. */
typedef struct { Py_ssize_t slot, source; PyObject *shape; } Moved;

/* What launches a kernel at addresses aligned like this, as Triton's own `launch` does where there are no hooks. */
typedef struct {
    uint64_t aligned;
    PyObject *parts; /* owned: run, grid, then what stands behind the stream, sizes, blocks, and two lists of hooks */
} Direct;

typedef struct Step {
    enum { LAUNCH, CALL, OTHER } kind;
    Places freed; /* slots that nothing reads any more */
    PyObject *function, *failed; /* a kernel, what is called, or the step in Python; what an error of it becomes */
    /* a kernel */
    Py_ssize_t made_count, moved_count;
    Made *made;
    Moved *moved;
    Places buffers, numbers;
    Py_ssize_t known;
    Direct direct[MOST_ALIGNMENTS];
    /* a call */
    Values arguments;
    enum { ONE, SEVERAL, NESTED } results;
    int is_unpacked; /* a list of one tensor may stand for the tensor */
    Places filled;
    PyObject *dtypes, *pattern; /* a tuple, None where a result is taken as it is; or slots in lists */
} Step;

typedef struct Block { struct Block *next; } Block;

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *described, *allocate; /* what all others are borrowed from */
    Py_ssize_t count;
    Step *steps;
    Block *blocks;
} Steps;

static PyObject *name_data_ptr, *name_launch, *name_direct, *name_shape, *name_view, *name_dtype, *name_to, *name_contiguous;

/* --- running --- */

static void put(PyObject *slots, Py_ssize_t place, PyObject *value)
{
    PyObject *before = PyList_GET_ITEM(slots, place);
    PyList_SET_ITEM(slots, place, value);
    Py_XDECREF(before);
}

/* The values, a list or a tuple. Lists nest as deep as types in source, so this recurses. */
static PyObject *values_of(const Values *values, PyObject *slots)
{
    const Py_ssize_t count = PyTuple_GET_SIZE(values->same);
    PyObject *found = values->is_tuple ? PyTuple_New(count) : PyList_New(count);
    if (!found) return NULL;
    PyObject **items = values->is_tuple ? &PyTuple_GET_ITEM(found, 0) : ((PyListObject *)found)->ob_item;
    for (Py_ssize_t i = 0; i < count; ++i) items[i] = Py_NewRef(PyTuple_GET_ITEM(values->same, i));
    for (Py_ssize_t i = 0; i < values->where.count; ++i)
        Py_SETREF(items[values->where.at[i]], Py_NewRef(PyList_GET_ITEM(slots, values->from.at[i])));
    for (Py_ssize_t i = 0; i < values->nested_at.count; ++i) {
        PyObject *item = values_of(values->nested + i, slots);
        if (!item) return Py_DECREF(found), NULL;
        Py_SETREF(items[values->nested_at.at[i]], item);
    }
    return found;
}

/* Whether a profiler hooks into launches. */
static int has_hooks(PyObject *parts)
{
    for (Py_ssize_t i = 5; i < 7; ++i) {
        PyObject *hooks = PyTuple_GET_ITEM(parts, i);
        if (!PyList_CheckExact(hooks) || PyList_GET_SIZE(hooks)) return 1;
    }
    return 0;
}

/* Where the next one goes, behind those of a tuple. */
static PyObject **add(PyObject **next, PyObject *row)
{
    memcpy(next, &PyTuple_GET_ITEM(row, 0), (size_t)PyTuple_GET_SIZE(row) * sizeof(PyObject *));
    return next + PyTuple_GET_SIZE(row);
}

static int launch_directly(const Step *step, PyObject *parts, PyObject *const *addresses, PyObject *slots, PyObject *stream)
{
    Py_ssize_t count = 1 + step->buffers.count + step->numbers.count;
    for (Py_ssize_t i = 1; i < 5; ++i) count += PyTuple_GET_SIZE(PyTuple_GET_ITEM(parts, i));
    PyObject *given[count + 1], **next = given + 1;
    next = add(next, PyTuple_GET_ITEM(parts, 1));
    *next++ = stream;
    next = add(next, PyTuple_GET_ITEM(parts, 2));
    memcpy(next, addresses, (size_t)step->buffers.count * sizeof(PyObject *));
    next = add(next + step->buffers.count, PyTuple_GET_ITEM(parts, 3));
    for (Py_ssize_t i = 0; i < step->numbers.count; ++i) *next++ = PyList_GET_ITEM(slots, step->numbers.at[i]);
    add(next, PyTuple_GET_ITEM(parts, 4));
    Py_INCREF(parts); /* what runs meanwhile may find another */
    PyObject *done = PyObject_Vectorcall(
        PyTuple_GET_ITEM(parts, 0), given + 1, (size_t)count | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    Py_DECREF(parts);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* The same by the kernel's own `launch`, and what launches it directly from then on. */
static int launch_by_python(Step *step, int is_told, uint64_t aligned, PyObject *slots, PyObject *stream)
{
    PyObject *tensors = PyList_New(step->buffers.count), *numbers = PyList_New(step->numbers.count), *done = NULL;
    for (Py_ssize_t i = 0; tensors && i < step->buffers.count; ++i)
        PyList_SET_ITEM(tensors, i, Py_NewRef(PyList_GET_ITEM(slots, step->buffers.at[i])));
    for (Py_ssize_t i = 0; numbers && i < step->numbers.count; ++i)
        PyList_SET_ITEM(numbers, i, Py_NewRef(PyList_GET_ITEM(slots, step->numbers.at[i])));
    if (tensors && numbers)
        done = PyObject_CallMethodObjArgs(step->function, name_launch, tensors, numbers, stream, NULL);
    Py_XDECREF(tensors);
    Py_XDECREF(numbers);
    if (!done) return -1;
    Py_DECREF(done);
    if (!is_told || step->known == MOST_ALIGNMENTS) return 0;
    PyObject *key = PyTuple_New(step->buffers.count);
    for (Py_ssize_t i = 0; key && i < step->buffers.count; ++i)
        PyTuple_SET_ITEM(key, i, PyBool_FromLong((long)(aligned >> i & 1)));
    PyObject *parts = key ? PyObject_CallMethodOneArg(step->function, name_direct, key) : NULL;
    Py_XDECREF(key);
    if (!parts) return -1;
    if (parts == Py_None || step->known == MOST_ALIGNMENTS) Py_DECREF(parts);
    else step->direct[step->known++] = (Direct){aligned, parts};
    return 0;
}

/* Whether what is passed are numbers, and not what kernels are to read from memory. */
static int has_numbers(const Step *step, PyObject *slots)
{
    for (Py_ssize_t i = 0; i < step->numbers.count; ++i) {
        PyObject *number = PyList_GET_ITEM(slots, step->numbers.at[i]);
        if (!PyLong_Check(number) && !PyFloat_Check(number)) return 0;
    }
    return 1;
}

static int launch_at(Step *step, PyObject *slots, PyObject *stream)
{
    const Py_ssize_t count = step->buffers.count;
    if (count > MOST_BUFFERS || stream == Py_None || !has_numbers(step, slots)) return launch_by_python(step, 0, 0, slots, stream);
    PyObject *addresses[MOST_BUFFERS], *parts = NULL;
    uint64_t aligned = 0;
    Py_ssize_t found = 0;
    for (; found < count; ++found) {
        PyObject *address = PyObject_CallMethodNoArgs(PyList_GET_ITEM(slots, step->buffers.at[found]), name_data_ptr);
        if (!address) break;
        addresses[found] = address;
        const uint64_t at = PyLong_AsUnsignedLongLong(address);
        if (PyErr_Occurred()) break;
        aligned |= (uint64_t)(at % ALIGNMENT == 0) << found;
    }
    /* A tensor without memory: Python tells of it. */
    const int is_told = !PyErr_Occurred();
    PyErr_Clear();
    for (Py_ssize_t i = 0; is_told && i < step->known; ++i)
        if (step->direct[i].aligned == aligned) parts = step->direct[i].parts;
    const int is_direct = parts && !has_hooks(parts);
    int failed = is_direct ? launch_directly(step, parts, addresses, slots, stream)
                           : launch_by_python(step, is_told && !parts, aligned, slots, stream);
    if (failed && is_direct && PyErr_ExceptionMatches(PyExc_OverflowError)) {
        /* An int beyond 64 bits: nothing was launched, and Python passes what it is modulo 2^64. */
        PyErr_Clear();
        failed = launch_by_python(step, 0, 0, slots, stream);
    }
    for (Py_ssize_t i = 0; i < found; ++i) Py_DECREF(addresses[i]);
    return failed;
}

static int run_launch(const Steps *self, Step *step, PyObject *slots, PyObject *stream)
{
    for (Py_ssize_t i = 0; i < step->made_count; ++i) {
        PyObject *tensor = PyObject_Call(self->allocate, step->made[i].arguments, step->made[i].named);
        if (!tensor) return -1;
        put(slots, step->made[i].slot, tensor);
    }
    for (Py_ssize_t i = 0; i < step->moved_count; ++i) {
        PyObject *place = PyList_GET_ITEM(slots, step->moved[i].source);
        PyObject *shape = PyObject_GetAttr(place, name_shape);
        const int is_so = shape ? PyObject_RichCompareBool(shape, step->moved[i].shape, Py_EQ) : -1;
        Py_XDECREF(shape);
        if (is_so < 0) return -1;
        PyObject *tensor = is_so ? Py_NewRef(place) : PyObject_CallMethodOneArg(place, name_view, step->moved[i].shape);
        if (!tensor) return -1;
        put(slots, step->moved[i].slot, tensor);
    }
    return launch_at(step, slots, stream);
}

/* The result as kernels were planned for it: of the dtype, contiguous. Takes over `value`. */
static PyObject *settled(PyObject *value, PyObject *dtype)
{
    if (dtype == Py_None) return value;
    PyObject *found = PyObject_GetAttr(value, name_dtype);
    if (!found) return Py_DECREF(value), NULL;
    Py_DECREF(found);
    if (found != dtype) {
        PyObject *cast = PyObject_CallMethodOneArg(value, name_to, dtype);
        Py_DECREF(value);
        if (!cast) return NULL;
        value = cast;
    }
    PyObject *whole = PyObject_CallMethodNoArgs(value, name_contiguous);
    Py_DECREF(value);
    return whole;
}

/* Results to where a pattern says. Lists nest as deep as types in source, so this recurses. */
static int spread(PyObject *pattern, PyObject *value, PyObject *slots)
{
    if (pattern == Py_None) return 0;
    if (PyLong_Check(pattern)) {
        put(slots, PyLong_AsSsize_t(pattern), Py_NewRef(value));
        return 0;
    }
    PyObject *items = PySequence_Fast(value, "not as many results as there were");
    if (!items) return -1;
    int failed = PySequence_Fast_GET_SIZE(items) != PyTuple_GET_SIZE(pattern);
    if (failed) PyErr_SetString(PyExc_ValueError, "not as many results as there were");
    for (Py_ssize_t i = 0; !failed && i < PyTuple_GET_SIZE(pattern); ++i)
        failed = spread(PyTuple_GET_ITEM(pattern, i), PySequence_Fast_GET_ITEM(items, i), slots);
    Py_DECREF(items);
    return failed ? -1 : 0;
}

/* Takes over `value`. */
static int keep_results(const Step *step, PyObject *value, PyObject *slots)
{
    if (step->results == NESTED) {
        const int failed = spread(step->pattern, value, slots);
        Py_DECREF(value);
        return failed;
    }
    const int is_row = PyList_Check(value) || PyTuple_Check(value);
    if (step->results == ONE && !(step->is_unpacked && is_row)) {
        PyObject *found = settled(value, PyTuple_GET_ITEM(step->dtypes, 0));
        if (!found) return -1;
        put(slots, step->filled.at[0], found);
        return 0;
    }
    PyObject *items = PySequence_Fast(value, "not as many results as there were");
    Py_DECREF(value);
    if (!items) return -1;
    int failed = PySequence_Fast_GET_SIZE(items) != step->filled.count;
    if (failed) PyErr_SetString(PyExc_ValueError, "not as many results as there were");
    for (Py_ssize_t i = 0; !failed && i < step->filled.count; ++i) {
        PyObject *item = PySequence_Fast_GET_ITEM(items, i);
        PyObject *found = settled(Py_NewRef(item), PyTuple_GET_ITEM(step->dtypes, i));
        failed = !found;
        if (found) put(slots, step->filled.at[i], found);
    }
    Py_DECREF(items);
    return failed ? -1 : 0;
}

/* Have the error that is set become what `failed` makes of the arguments and it. */
static void tell(const Step *step, PyObject *arguments)
{
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    if (trace) PyException_SetTraceback(error, trace);
    PyObject *made = PyObject_CallFunctionObjArgs(step->failed, arguments, error, NULL);
    if (made) PyErr_SetObject((PyObject *)Py_TYPE(made), made);
    Py_XDECREF(made);
    Py_XDECREF(type);
    Py_XDECREF(error);
    Py_XDECREF(trace);
}

static int run_call(const Step *step, PyObject *slots)
{
    const Values *values = &step->arguments;
    PyObject *result = NULL;
    if (values->nested_at.count) {
        PyObject *arguments = values_of(values, slots);
        if (arguments) result = PyObject_Call(step->function, arguments, NULL);
        Py_XDECREF(arguments);
    } else {
        /* What is in slots stays there meanwhile: nobody else has them. */
        const Py_ssize_t count = PyTuple_GET_SIZE(values->same);
        PyObject *given[count + 1], **items = given + 1;
        memcpy(items, &PyTuple_GET_ITEM(values->same, 0), (size_t)count * sizeof(PyObject *));
        for (Py_ssize_t i = 0; i < values->where.count; ++i)
            items[values->where.at[i]] = PyList_GET_ITEM(slots, values->from.at[i]);
        result = PyObject_Vectorcall(step->function, items, (size_t)count | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    }
    if (result) return keep_results(step, result, slots);
    if (step->failed != Py_None) {
        PyObject *type, *error, *trace;
        PyErr_Fetch(&type, &error, &trace);
        PyObject *arguments = values_of(values, slots);
        if (!arguments) PyErr_Clear();
        PyErr_Restore(type, error, trace);
        if (arguments) tell(step, arguments);
        Py_XDECREF(arguments);
    }
    return -1;
}

static int run_other(const Step *step, PyObject *slots, PyObject *stream)
{
    PyObject *done = PyObject_CallFunctionObjArgs(step->function, slots, stream, NULL);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

static PyObject *steps_call(Steps *self, PyObject *const *arguments, size_t flags, PyObject *keywords)
{
    if (PyVectorcall_NARGS(flags) != 2 || keywords || !PyList_CheckExact(arguments[0]))
        return PyErr_Format(PyExc_TypeError, "a list of slots and a stream are taken"), NULL;
    PyObject *slots = arguments[0], *stream = arguments[1];
    int failed = 0;
    for (Step *step = self->steps; !failed && step < self->steps + self->count; ++step) {
        switch (step->kind) {
        case LAUNCH: failed = run_launch(self, step, slots, stream); break;
        case CALL: failed = run_call(step, slots); break;
        case OTHER: failed = run_other(step, slots, stream); break;
        }
        for (Py_ssize_t i = 0; i < step->freed.count; ++i) put(slots, step->freed.at[i], Py_NewRef(Py_None));
    }
    if (failed) return NULL;
    Py_RETURN_NONE;
}

/* --- making --- */

/* Memory of zeros, as long as the steps; NULL with an error set. */
static void *room(Steps *self, Py_ssize_t count, size_t size)
{
    Block *block = PyMem_Calloc(1, sizeof(Block) + (size_t)count * size);
    if (!block) return PyErr_NoMemory();
    block->next = self->blocks;
    self->blocks = block;
    return block + 1;
}

static int read_places(Steps *self, PyObject *given, Places *places)
{
    if (!PyTuple_Check(given)) return PyErr_Format(PyExc_TypeError, "no tuple of places"), -1;
    places->at = room(self, PyTuple_GET_SIZE(given), sizeof(Py_ssize_t));
    if (!places->at) return -1;
    places->count = PyTuple_GET_SIZE(given);
    for (Py_ssize_t i = 0; i < places->count; ++i) {
        places->at[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(given, i));
        if (PyErr_Occurred()) return -1;
    }
    return 0;
}

/* (is_tuple, same, where, from, ((place, values), …)); nests as values do, so this recurses */
static int read_values(Steps *self, PyObject *given, Values *values)
{
    PyObject *where, *from, *nested;
    if (!PyArg_ParseTuple(
            given, "pO!OOO!", &values->is_tuple, &PyTuple_Type, &values->same, &where, &from, &PyTuple_Type, &nested))
        return -1;
    if (read_places(self, where, &values->where) || read_places(self, from, &values->from)) return -1;
    const Py_ssize_t count = PyTuple_GET_SIZE(nested);
    values->nested = room(self, count, sizeof(Values));
    values->nested_at.at = room(self, count, sizeof(Py_ssize_t));
    if (!values->nested || !values->nested_at.at) return -1;
    values->nested_at.count = count;
    for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject *inner;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(nested, i), "nO!", values->nested_at.at + i, &PyTuple_Type, &inner)) return -1;
        if (read_values(self, inner, values->nested + i)) return -1;
    }
    return 0;
}

/* (freed, kernel, ((slot, arguments, named), …), ((slot, source, shape), …), buffers, numbers) */
static int read_launch(Steps *self, PyObject *given, Step *step)
{
    PyObject *freed, *made, *moved, *buffers, *numbers;
    if (!PyArg_ParseTuple(
            given, "OOO!O!OO", &freed, &step->function, &PyTuple_Type, &made, &PyTuple_Type, &moved, &buffers, &numbers))
        return -1;
    step->made = room(self, PyTuple_GET_SIZE(made), sizeof(Made));
    step->moved = room(self, PyTuple_GET_SIZE(moved), sizeof(Moved));
    if (!step->made || !step->moved) return -1;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(made); ++i) {
        Made *one = step->made + step->made_count++;
        if (!PyArg_ParseTuple(
                PyTuple_GET_ITEM(made, i), "nO!O!", &one->slot, &PyTuple_Type, &one->arguments, &PyDict_Type, &one->named))
            return -1;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(moved); ++i) {
        Moved *one = step->moved + step->moved_count++;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(moved, i), "nnO", &one->slot, &one->source, &one->shape)) return -1;
    }
    if (read_places(self, buffers, &step->buffers) || read_places(self, numbers, &step->numbers)) return -1;
    return read_places(self, freed, &step->freed);
}

/* (freed, function, values, failed, results, is_unpacked, filled, dtypes or a pattern) */
static int read_call(Steps *self, PyObject *given, Step *step)
{
    PyObject *freed, *values, *filled;
    int results;
    if (!PyArg_ParseTuple(
            given, "OOO!OipOO", &freed, &step->function, &PyTuple_Type, &values, &step->failed, &results,
            &step->is_unpacked, &filled, &step->dtypes))
        return -1;
    step->results = results;
    step->pattern = step->dtypes;
    if (read_values(self, values, &step->arguments) || read_places(self, filled, &step->filled)) return -1;
    return read_places(self, freed, &step->freed);
}

static int read_step(Steps *self, PyObject *given, Step *step)
{
    int kind;
    PyObject *rest, *freed;
    if (!PyTuple_Check(given)) return PyErr_Format(PyExc_TypeError, "no step"), -1;
    if (!PyArg_ParseTuple(given, "iO!", &kind, &PyTuple_Type, &rest)) return -1;
    step->kind = kind;
    switch (step->kind) {
    case LAUNCH: return read_launch(self, rest, step);
    case CALL: return read_call(self, rest, step);
    case OTHER: return PyArg_ParseTuple(rest, "OO", &freed, &step->function) ? read_places(self, freed, &step->freed) : -1;
    }
    return PyErr_Format(PyExc_ValueError, "no such step"), -1;
}

static int steps_traverse(Steps *self, visitproc visit, void *arg)
{
    Py_VISIT(self->described);
    Py_VISIT(self->allocate);
    for (Py_ssize_t i = 0; i < self->count; ++i)
        for (Py_ssize_t j = 0; j < self->steps[i].known; ++j) Py_VISIT(self->steps[i].direct[j].parts);
    return 0;
}

/* There is no tp_clear: tuples that steps are borrowed from lead to no Steps, and what breaks a circle is elsewhere. */
static void steps_dealloc(Steps *self)
{
    PyObject_GC_UnTrack(self);
    for (Py_ssize_t i = 0; i < self->count; ++i)
        for (Py_ssize_t j = 0; j < self->steps[i].known; ++j) Py_DECREF(self->steps[i].direct[j].parts);
    Py_XDECREF(self->described);
    Py_XDECREF(self->allocate);
    while (self->blocks) {
        Block *next = self->blocks->next;
        PyMem_Free(self->blocks);
        self->blocks = next;
    }
    Py_TYPE(self)->tp_free((PyObject *)self);
}

/* Steps(described, allocate) */
static PyObject *steps_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    PyObject *described, *allocate;
    if (!PyArg_ParseTuple(arguments, "O!O", &PyTuple_Type, &described, &allocate)) return NULL;
    Steps *self = (Steps *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->call = (vectorcallfunc)steps_call;
    self->described = Py_NewRef(described);
    self->allocate = Py_NewRef(allocate);
    self->steps = room(self, PyTuple_GET_SIZE(described), sizeof(Step));
    for (Py_ssize_t i = 0; self->steps && i < PyTuple_GET_SIZE(described); ++i) {
        self->count = i + 1;
        if (read_step(self, PyTuple_GET_ITEM(described, i), self->steps + i)) break;
    }
    if (PyErr_Occurred()) Py_CLEAR(self);
    return (PyObject *)self;
}

static PyTypeObject StepsType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "gradscript.Steps",
    .tp_basicsize = sizeof(Steps),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC,
    .tp_vectorcall_offset = offsetof(Steps, call),
    .tp_call = PyVectorcall_Call,
    .tp_new = steps_new,
    .tp_traverse = (traverseproc)steps_traverse,
    .tp_dealloc = (destructor)steps_dealloc,
};

/* The type Steps. */
PyObject *gs_launch_types(void)
{
    name_data_ptr = PyUnicode_InternFromString("data_ptr");
    name_launch = PyUnicode_InternFromString("launch");
    name_direct = PyUnicode_InternFromString("direct");
    name_shape = PyUnicode_InternFromString("shape");
    name_view = PyUnicode_InternFromString("view");
    name_dtype = PyUnicode_InternFromString("dtype");
    name_to = PyUnicode_InternFromString("to");
    name_contiguous = PyUnicode_InternFromString("contiguous");
    if (PyErr_Occurred() || PyType_Ready(&StepsType) < 0) return NULL;
    return Py_NewRef((PyObject *)&StepsType);
}
