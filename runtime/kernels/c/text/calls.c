
/* Calls that were prepared, run without Python; built behind tensors.c.

   Run       a program of values, which gives a list of tensors
   Prepared  a call, recorded as a node of torch's where it is to be */

/* --- results --- */

static int is_among(PyObject *value, PyObject *const *others, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; ++i)
        if (others[i] == value) return 1;
    return 0;
}

/* A list of tensors of arrays that own their memory, each another one and none a constant, and of None; NULL where one is
   anything else, or with an error set. */
static PyObject *tensors_of(PyObject *const *arrays, Py_ssize_t count, PyObject *constants)
{
    for (Py_ssize_t i = 0; i < count; ++i) {
        if (arrays[i] == Py_None) continue;
        if (!PyArray_CheckExact(arrays[i]) || PyArray_BASE((PyArrayObject *)arrays[i])) return NULL;
        if (is_among(arrays[i], arrays, i)) return NULL;
        if (is_among(arrays[i], &PyTuple_GET_ITEM(constants, 0), PyTuple_GET_SIZE(constants))) return NULL;
    }
    PyObject *tensors = PyList_New(count);
    for (Py_ssize_t i = 0; tensors && i < count; ++i) {
        PyObject *tensor = arrays[i] == Py_None ? Py_NewRef(Py_None) : PyObject_CallOneArg(from_array, arrays[i]);
        if (tensor) PyList_SET_ITEM(tensors, i, tensor);
        else Py_CLEAR(tensors);
    }
    /* Of a dtype that torch does not take from arrays. */
    if (!tensors && PyErr_ExceptionMatches(PyExc_TypeError)) PyErr_Clear();
    return tensors;
}

/* new_tensors(results, constants): the same; None where one is anything else. */
static PyObject *new_tensors(PyObject *self, PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 2 || !(PyList_CheckExact(arguments[0]) || PyTuple_CheckExact(arguments[0])) || !PyTuple_CheckExact(arguments[1]))
        return PyErr_Format(PyExc_TypeError, "a row of results and a tuple of constants are taken"), NULL;
    PyObject *const *arrays = PySequence_Fast_ITEMS(arguments[0]);
    PyObject *tensors = tensors_of(arrays, PySequence_Fast_GET_SIZE(arguments[0]), arguments[1]);
    if (tensors || PyErr_Occurred()) return tensors;
    Py_RETURN_NONE;
}

/* --- programs --- */

typedef struct {
    PyObject_HEAD
    PyObject *entry;     /* (*arrays) → one result or a tuple, or None where it is not for them; NULL while there is none */
    PyObject *constants; /* a tuple of arrays, none of which is a result */
    PyObject *general;   /* (values, arrays) → the results, by Python */
    Py_ssize_t owned;    /* results that share no memory with anything, but for arguments that are passed on */
    int passes_on, is_bare;
    int in_order;        /* whether those that share no memory are contiguous, as an op of torch's promises */
} Run;

#define MOST_RESULTS 32

/* The address of `run_bare` in entry.c, set once. */
static Py_ssize_t (*run_bare)(
    PyObject *calls, const gs_bare *inputs, PyObject *const *values, Py_ssize_t count, gs_result *results, Py_ssize_t most,
    Py_ssize_t owned, const gs_torch *torch);

static int is_contiguous(const gs_tensor *tensor)
{
    int64_t step = 1;
    for (int i = tensor->ndim; i-- > 0; step *= tensor->sizes[i])
        if (tensor->sizes[i] > 1 && tensor->strides[i] != step) return 0;
    return 1;
}

/* Whether a result is what is asked for: none but the first, which are to be new, is to share memory by torch's means. */
static int is_right(const Run *self, const gs_result *result, Py_ssize_t place)
{
    if (self->in_order && place < self->owned && result->made && !is_contiguous(&result->made->tensor)) return 0;
    return result->source < 0 || result->is_view || (self->passes_on && place < self->owned);
}

static PyObject *row_of(const npy_intp *numbers, int count, Py_ssize_t by)
{
    PyObject *row = PyTuple_New(count);
    for (int i = 0; row && i < count; ++i) {
        PyObject *number = PyLong_FromSsize_t(numbers[i] / by);
        if (number) PyTuple_SET_ITEM(row, i, number);
        else Py_CLEAR(row);
    }
    return row;
}

/* A view of a tensor, to autograd one of its own with the version counter of that one; NULL where torch has none such. */
static PyObject *view_of(PyObject *tensor, const gs_view *view)
{
    if (!view->size) return NULL;
    PyObject *first = PyObject_CallMethodNoArgs(tensor, name_offset);
    PyObject *sizes = row_of(view->sizes, view->ndim, 1), *strides = row_of(view->strides, view->ndim, view->size);
    PyObject *offset = first ? PyLong_FromSsize_t(PyLong_AsSsize_t(first) + view->offset / view->size) : NULL;
    PyObject *found = NULL, *own = NULL;
    if (sizes && strides && offset) found = PyObject_CallMethodObjArgs(tensor, name_strided, sizes, strides, offset, NULL);
    if (found) own = PyObject_CallMethodNoArgs(found, name_detach);
    Py_XDECREF(first);
    Py_XDECREF(sizes);
    Py_XDECREF(strides);
    Py_XDECREF(offset);
    Py_XDECREF(found);
    return own;
}

/* The tensor of a result, of which there are earlier ones. */
static PyObject *tensor_of(gs_result *result, PyObject *values, PyObject *earlier)
{
    void *tensor = result->tensor;
    result->tensor = NULL;
    if (tensor) return tensor;
    if (result->made) {
        gs_managed *made = result->made;
        if (exchange->object_of_managed(made, &tensor)) return NULL;
        result->made = NULL;
        return tensor;
    }
    PyObject *given = result->source >= 0 ? PyTuple_GET_ITEM(values, result->source) : result->earlier >= 0 ? PyList_GET_ITEM(earlier, result->earlier) : NULL;
    if (!given) return NULL;
    return result->is_view ? view_of(given, &result->view) : Py_NewRef(given);
}

/* The results of kernels on bare memory, a list; NULL where these are for none, or with an error set. */
static PyObject *run_on_memory(Run *self, PyObject *entry, PyObject *values, const gs_bare *inputs)
{
    gs_result made[MOST_RESULTS];
    const Py_ssize_t count = run_bare(
        entry, inputs, &PyTuple_GET_ITEM(values, 0), PyTuple_GET_SIZE(values), made, MOST_RESULTS, self->owned, &torchs);
    if (count < 0) return NULL;
    for (Py_ssize_t i = 0; i < count; ++i) self->is_bare &= is_right(self, made + i, i);
    PyObject *tensors = self->is_bare ? PyList_New(count) : NULL;
    for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject *tensor = tensors ? tensor_of(made + i, values, tensors) : NULL;
        if (tensor) PyList_SET_ITEM(tensors, i, tensor);
        else {
            if (tensors && made[i].is_view) {
                /* Strides that torch does not have: Python finds another way, from now on. */
                PyErr_Clear();
                self->is_bare = 0;
            }
            Py_XDECREF((PyObject *)made[i].tensor);
            if (made[i].made) made[i].made->drop(made[i].made);
            Py_CLEAR(tensors);
        }
    }
    return tensors;
}

/* Whether results are contiguous, as many as there are or the first of several. */
static int are_in_order(PyObject *found, Py_ssize_t count)
{
    const int is_row = PyTuple_CheckExact(found);
    for (Py_ssize_t i = 0; i < count && i < (is_row ? PyTuple_GET_SIZE(found) : 1); ++i) {
        PyObject *result = is_row ? PyTuple_GET_ITEM(found, i) : found;
        if (PyArray_Check(result) && !PyArray_IS_C_CONTIGUOUS((PyArrayObject *)result)) return 0;
    }
    return 1;
}

/* The results of kernels on arrays, a list; NULL where these are for none, or with an error set, and where it is for
   Python to tell whose memory is whose: of `left` then, for what has run may have drawn numbers. */
static PyObject *run_on_arrays(Run *self, PyObject *entry, PyObject *arrays, PyObject **left)
{
    PyObject *found = PyObject_Vectorcall(entry, PySequence_Fast_ITEMS(arrays), PyList_GET_SIZE(arrays), NULL), *tensors = NULL;
    if (!found) return NULL;
    const int is_none = found == Py_None;
    if (self->in_order && !are_in_order(found, self->owned)) tensors = NULL;
    else if (PyTuple_CheckExact(found)) tensors = tensors_of(&PyTuple_GET_ITEM(found, 0), PyTuple_GET_SIZE(found), self->constants);
    else if (!is_none) tensors = tensors_of(&found, 1, self->constants);
    if (!tensors && !is_none && !PyErr_Occurred()) {
        /* It is so each time. */
        Py_CLEAR(self->entry);
        *left = found;
    }
    else Py_DECREF(found);
    return tensors;
}

/* The results of values, a tuple, a list. */
static PyObject *run_values(Run *self, PyObject *values, const gs_bare *inputs)
{
    PyObject *entry = self->entry ? Py_NewRef(self->entry) : NULL, *results = NULL;
    if (entry && self->is_bare) results = run_on_memory(self, entry, values, inputs);
    if (!results && !PyErr_Occurred()) {
        PyObject *arrays = arrays_of(inputs, &PyTuple_GET_ITEM(values, 0), PyTuple_GET_SIZE(values));
        PyObject *left = NULL;
        if (arrays && entry) results = run_on_arrays(self, entry, arrays, &left);
        if (arrays && !results && !PyErr_Occurred())
            results = PyObject_CallFunctionObjArgs(self->general, values, arrays, left, NULL);
        Py_XDECREF(left);
        Py_XDECREF(arrays);
    }
    Py_XDECREF(entry);
    if (results && !PyList_CheckExact(results)) Py_SETREF(results, PySequence_List(results));
    return results;
}

static PyObject *run_enter(Run *self, PyObject *entry)
{
    Py_XSETREF(self->entry, Py_NewRef(entry));
    Py_RETURN_NONE;
}

/* again(values, arrays): the results on memory, a list; None where they are not to be had so. */
static PyObject *run_again(Run *self, PyObject *const *given, Py_ssize_t given_count)
{
    if (given_count != 2 || !PyTuple_CheckExact(given[0]) || !PyList_CheckExact(given[1]) || PyTuple_GET_SIZE(given[0]) != PyList_GET_SIZE(given[1]))
        return PyErr_Format(PyExc_TypeError, "a tuple of values and a list of arrays are taken"), NULL;
    const Py_ssize_t count = PyTuple_GET_SIZE(given[0]);
    gs_bare inputs[count + 1];
    memset(inputs, 0, sizeof inputs);
    for (Py_ssize_t i = 0; i < count; ++i) {
        PyArrayObject *array = (PyArrayObject *)PyList_GET_ITEM(given[1], i);
        if (!is_tensor(PyTuple_GET_ITEM(given[0], i)) || !PyArray_CheckExact((PyObject *)array)) continue;
        inputs[i] = (gs_bare){PyArray_DATA(array), (PyObject *)PyArray_DESCR(array), PyArray_NDIM(array), (const int64_t *)PyArray_DIMS(array),
                              (const int64_t *)PyArray_STRIDES(array)};
    }
    PyObject *results = self->entry && self->is_bare ? run_on_memory(self, self->entry, given[0], inputs) : NULL;
    if (results || PyErr_Occurred()) return results;
    Py_RETURN_NONE;
}

static int run_traverse(Run *self, visitproc visit, void *arg)
{
    Py_VISIT(self->entry);
    Py_VISIT(self->general);
    return 0;
}

static void run_dealloc(Run *self)
{
    PyObject_GC_UnTrack(self);
    Py_XDECREF(self->entry);
    Py_XDECREF(self->general);
    Py_XDECREF(self->constants);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

/* Run(general, constants, owned, passes_on, in_order) */
static PyObject *run_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    PyObject *general, *constants;
    Py_ssize_t owned;
    int passes_on, in_order;
    if (!PyArg_ParseTuple(arguments, "OO!npp", &general, &PyTuple_Type, &constants, &owned, &passes_on, &in_order)) return NULL;
    Run *self = (Run *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->general = Py_NewRef(general);
    self->constants = Py_NewRef(constants);
    self->owned = owned;
    self->passes_on = passes_on;
    self->in_order = in_order;
    self->is_bare = 1;
    return (PyObject *)self;
}

static PyMethodDef run_methods[] = {
    {"enter", (PyCFunction)run_enter, METH_O, "Have what runs kernels without Python tried first."},
    {"again", (PyCFunction)(void (*)(void))run_again, METH_FASTCALL, "The results by that, on memory, or None."},
    {NULL},
};
static PyTypeObject RunType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "gradscript.Run",
    .tp_basicsize = sizeof(Run),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = run_new,
    .tp_traverse = (traverseproc)run_traverse,
    .tp_dealloc = (destructor)run_dealloc,
    .tp_methods = run_methods,
};

/* --- calls --- */

/* Positions in a row. */
typedef struct { Py_ssize_t count, *at; } Places;
typedef struct { Py_ssize_t ndim; int64_t *sizes; } Shape;

typedef struct {
    PyObject_HEAD
    PyObject *python;      /* what does the same in Python */
    PyObject *apply, *rest; /* of torch's node, None where none is recorded; a tuple of the values that calls leave out */
    PyObject *arguments;    /* (values) → what the node is to keep of them as they are, or None */
    Run *run;
    Kinds *backwards;      /* Runs of gradients */
    int is_settled, takes_all; /* whether all outputs are results */
    Places tensors, results;              /* those among the values that go to the node; results among its outputs */
    Places row, saved_inputs, saved_outputs, without; /* results that are outputs; what is saved; outputs that have no gradient */
    Places numbers, number_sources;       /* where numbers stand in what is saved, in order; values, or else, below 0, outputs, -1 first */
    Places marked, marks;                 /* outputs that have a gradient where a number among the results says so */
    Places vjps, places;                  /* gradients that the backward takes, -1 for none; arguments that it gives one of */
    Shape *shapes;                        /* of those arguments */
} Prepared;

static int read_places(PyObject *given, Places *places, Py_ssize_t least)
{
    PyObject *row = PySequence_Tuple(given);
    if (!row) return -1;
    places->at = PyMem_Calloc((size_t)PyTuple_GET_SIZE(row) + 1, sizeof(Py_ssize_t));
    if (!places->at) PyErr_NoMemory();
    else places->count = PyTuple_GET_SIZE(row);
    for (Py_ssize_t i = 0; i < places->count && !PyErr_Occurred(); ++i) {
        places->at[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(row, i));
        if (places->at[i] < least && !PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "no place in a row");
    }
    Py_DECREF(row);
    return PyErr_Occurred() ? -1 : 0;
}

static int read_shapes(PyObject *given, Prepared *self)
{
    PyObject *row = PySequence_Tuple(given);
    self->shapes = row ? PyMem_Calloc((size_t)PyTuple_GET_SIZE(row) + 1, sizeof(Shape)) : NULL;
    if (row && !self->shapes) PyErr_NoMemory();
    for (Py_ssize_t i = 0; self->shapes && i < PyTuple_GET_SIZE(row) && !PyErr_Occurred(); ++i) {
        PyObject *shape = PyTuple_GET_ITEM(row, i);
        const Py_ssize_t ndim = PyTuple_Check(shape) ? PyTuple_GET_SIZE(shape) : -1;
        if (ndim < 0) PyErr_SetString(PyExc_TypeError, "no shape");
        else self->shapes[i].sizes = PyMem_Calloc((size_t)ndim + 1, sizeof(int64_t));
        if (!PyErr_Occurred() && !self->shapes[i].sizes) PyErr_NoMemory();
        for (Py_ssize_t d = 0; d < ndim && !PyErr_Occurred(); ++d)
            self->shapes[i].sizes[d] = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, d));
        self->shapes[i].ndim = ndim;
    }
    if (row && !PyErr_Occurred() && PyTuple_GET_SIZE(row) != self->places.count)
        PyErr_SetString(PyExc_ValueError, "one shape per gradient");
    Py_XDECREF(row);
    return PyErr_Occurred() ? -1 : 0;
}

/* What is at some places of a row, a tuple. */
static PyObject *taken_from(PyObject *const *row, Py_ssize_t count, const Places *places)
{
    PyObject *found = PyTuple_New(places->count);
    for (Py_ssize_t i = 0; found && i < places->count; ++i)
        if (places->at[i] < count) PyTuple_SET_ITEM(found, i, Py_NewRef(row[places->at[i]]));
        else {
            PyErr_SetString(PyExc_IndexError, "a row is shorter than it was");
            Py_CLEAR(found);
        }
    return found;
}

#define TAKEN(row, places) taken_from(PySequence_Fast_ITEMS(row), PySequence_Fast_GET_SIZE(row), places)

/* The result of a call, of the outputs. */
static PyObject *picked(const Prepared *self, PyObject *row)
{
    PyObject *found = self->takes_all ? PySequence_Tuple(row) : TAKEN(row, &self->results);
    if (!found || PyTuple_GET_SIZE(found) != 1) return found;
    PyObject *only = Py_NewRef(PyTuple_GET_ITEM(found, 0));
    Py_DECREF(found);
    return only;
}

/* The outputs of torch's node. It runs while this waits, so it is told where `inputs` are. */
static PyObject *applied(Prepared *self, PyObject *values, const gs_bare *inputs)
{
    PyObject *place = PyLong_FromVoidPtr((void *)inputs), *row = NULL;
    PyObject *state = place ? PyTuple_Pack(3, (PyObject *)self, values, place) : NULL;
    PyObject *given = state ? PyTuple_New(1 + self->tensors.count) : NULL;
    if (given) {
        PyTuple_SET_ITEM(given, 0, Py_NewRef(state));
        for (Py_ssize_t i = 0; i < self->tensors.count; ++i)
            PyTuple_SET_ITEM(given, 1 + i, Py_NewRef(PyTuple_GET_ITEM(values, self->tensors.at[i])));
        row = PyObject_Call(self->apply, given, NULL);
    }
    Py_XDECREF(place);
    Py_XDECREF(state);
    Py_XDECREF(given);
    if (row && !PyTuple_CheckExact(row)) {
        Py_CLEAR(row);
        PyErr_SetString(PyExc_TypeError, "a node gives a tuple");
    }
    return row;
}

/* The result of a call of values, a tuple. */
static PyObject *call_prepared(Prepared *self, PyObject *values, const gs_bare *inputs)
{
    const Py_ssize_t given = PyTuple_GET_SIZE(values), left = PyTuple_GET_SIZE(self->rest);
    PyObject *all = left ? PySequence_Concat(values, self->rest) : Py_NewRef(values);
    if (!all) return NULL;
    gs_bare known[given + left + 1];
    memcpy(known, inputs, (size_t)given * sizeof *known);
    memset(known + given, 0, (size_t)left * sizeof *known);
    PyObject *row = self->apply == Py_None ? run_values(self->run, all, known) : applied(self, all, known);
    Py_DECREF(all);
    PyObject *result = row ? picked(self, row) : NULL;
    Py_XDECREF(row);
    return result;
}

/* settle(without): which outputs have no gradient. From here on forward and backward need no Python. */
static PyObject *prepared_settle(Prepared *self, PyObject *without)
{
    if (self->is_settled) Py_RETURN_NONE;
    if (read_places(without, &self->without, 0)) return NULL;
    self->is_settled = 1;
    Py_RETURN_NONE;
}

static int prepared_traverse(Prepared *self, visitproc visit, void *arg)
{
    Py_VISIT(self->python);
    Py_VISIT(self->apply);
    Py_VISIT(self->arguments);
    Py_VISIT(self->run);
    Py_VISIT(self->backwards);
    return 0;
}

static void prepared_dealloc(Prepared *self)
{
    PyObject_GC_UnTrack(self);
    Places *all[] = {&self->marked, &self->marks, &self->numbers, &self->number_sources, &self->tensors, &self->results, &self->row, &self->saved_inputs, &self->saved_outputs, &self->without, &self->vjps, &self->places};
    for (Py_ssize_t i = 0; self->shapes && i < self->places.count; ++i) PyMem_Free(self->shapes[i].sizes);
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i) PyMem_Free(all[i]->at);
    PyMem_Free(self->shapes);
    Py_XDECREF(self->python);
    Py_XDECREF(self->apply);
    Py_XDECREF(self->rest);
    Py_XDECREF(self->arguments);
    Py_XDECREF(self->run);
    Py_XDECREF(self->backwards);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *prepared_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"python", "apply", "rest", "run", "backwards", "tensors", "results", "row", "saved_inputs", "saved_outputs",
                            "vjps", "places", "shapes", "arguments", "numbers", "number_sources", "marked", "marks", NULL};
    PyObject *numbers, *sources, *marked, *marks, *python, *apply, *rest, *taken, *run, *backwards, *tensors, *results, *row, *inputs, *outputs, *vjps, *places, *shapes;
    if (!PyArg_ParseTupleAndKeywords(
            arguments, keywords, "OOO!O!O!OOOOOOOOOOOOO", names, &python, &apply, &PyTuple_Type, &rest, &RunType, &run,
            &KindsType, &backwards, &tensors, &results, &row, &inputs, &outputs, &vjps, &places, &shapes, &taken, &numbers, &sources, &marked, &marks))
        return NULL;
    Prepared *self = (Prepared *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->python = Py_NewRef(python);
    self->apply = Py_NewRef(apply);
    self->rest = Py_NewRef(rest);
    self->arguments = Py_NewRef(taken);
    self->run = (Run *)Py_NewRef(run);
    self->backwards = (Kinds *)Py_NewRef(backwards);
    self->takes_all = results == Py_None;
    if (read_places(tensors, &self->tensors, 0) || (!self->takes_all && read_places(results, &self->results, 0)) || read_places(row, &self->row, 0)
        || read_places(inputs, &self->saved_inputs, 0) || read_places(outputs, &self->saved_outputs, 0)
        || read_places(numbers, &self->numbers, 0) || read_places(sources, &self->number_sources, -PY_SSIZE_T_MAX)
        || read_places(marked, &self->marked, 0) || read_places(marks, &self->marks, 0)
        || read_places(vjps, &self->vjps, -1) || read_places(places, &self->places, 0) || read_shapes(shapes, self))
        Py_CLEAR(self);
    return (PyObject *)self;
}

static PyMethodDef prepared_methods[] = {
    {"settle", (PyCFunction)prepared_settle, METH_O, "Have forward and backward need no Python; given are the outputs without gradient."},
    {NULL},
};
static PyTypeObject PreparedType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "gradscript.Prepared",
    .tp_basicsize = sizeof(Prepared),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = prepared_new,
    .tp_traverse = (traverseproc)prepared_traverse,
    .tp_dealloc = (destructor)prepared_dealloc,
    .tp_methods = prepared_methods,
};

static PyObject *ran(PyObject *prepared, PyObject *values, const gs_bare *inputs)
{
    if (Py_TYPE(prepared) == &PreparedType) return call_prepared((Prepared *)prepared, values, inputs);
    if (Py_TYPE(prepared) == &RunType) return run_values((Run *)prepared, values, inputs);
    PyObject *arrays = arrays_of(inputs, &PyTuple_GET_ITEM(values, 0), PyTuple_GET_SIZE(values));
    PyObject *result = arrays ? PyObject_CallFunctionObjArgs(prepared, values, arrays, NULL) : NULL;
    Py_XDECREF(arrays);
    return result;
}
