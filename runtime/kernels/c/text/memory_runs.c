/* What a list does in one run: inputs compared, kernels, products and ops of the library in turn; built behind memory.c. */

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
