
/* Both halves of torch's node of a call that was prepared, and the way to such calls from torch's dispatcher; built behind
   calls.c.

   Dispatch  (*values) → what Kinds have for them, or else what a function of Python gives */

static PyObject *name_recorded, *name_gradients, *name_call, *name_given, *name_saved, *name_to_save, *name_materialize, *name_mark, *name_numbers;

/* --- a node --- */

/* Whether an output is None: what a branch that was not taken would have kept. */
static int is_none_of(PyObject *row, Py_ssize_t place)
{
    return place < PySequence_Fast_GET_SIZE(row) && PySequence_Fast_GET_ITEM(row, place) == Py_None;
}

/* The outputs that have no gradient, a tuple. */
static PyObject *without_gradient(const Prepared *self, PyObject *results, PyObject *row)
{
    Py_ssize_t at[self->without.count + self->marked.count + 1];
    Places places = {0, at};
    for (Py_ssize_t i = 0; i < self->without.count; ++i) {
        if (!is_none_of(row, self->without.at[i])) at[places.count++] = self->without.at[i];
    }
    for (Py_ssize_t i = 0; i < self->marked.count; ++i) {
        const Py_ssize_t mark = i < self->marks.count ? self->marks.at[i] : PyList_GET_SIZE(results);
        const int has_one = mark < PyList_GET_SIZE(results) ? PyObject_IsTrue(PyList_GET_ITEM(results, mark)) : -1;
        if (has_one < 0) return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_IndexError, "a row is shorter than it was");
        if (!has_one && !is_none_of(row, self->marked.at[i])) at[places.count++] = self->marked.at[i];
    }
    return TAKEN(row, &places);
}

/* Tells torch what to keep: the call, and the tensors that its backward takes. */
static int kept(Prepared *self, PyObject *ctx, PyObject *values, PyObject *results, PyObject *row)
{
    if (self->numbers.count) {
        PyObject *numbers = PyList_New(self->numbers.count);
        for (Py_ssize_t i = 0; numbers && i < self->numbers.count; ++i) {
            const Py_ssize_t source = self->number_sources.at[i];
            PyObject *number = source >= 0 ? PyTuple_GET_ITEM(values, source) : PyList_GET_ITEM(results, -1 - source);
            PyObject *item = Py_BuildValue("nO", self->numbers.at[i], number);
            if (item) PyList_SET_ITEM(numbers, i, item);
            else Py_CLEAR(numbers);
        }
        const int failed = !numbers || PyObject_SetAttr(ctx, name_numbers, numbers);
        Py_XDECREF(numbers);
        if (failed) return -1;
    }
    if (self->without.count || self->marked.count) {
        PyObject *without = without_gradient(self, results, row), *mark = without ? PyObject_GetAttr(ctx, name_mark) : NULL;
        PyObject *marked = mark ? PyObject_Call(mark, without, NULL) : NULL;
        Py_XDECREF(without);
        Py_XDECREF(mark);
        if (!marked) return -1;
        Py_DECREF(marked);
    }
    if (self->arguments != Py_None) {
        PyObject *arguments = PyObject_CallOneArg(self->arguments, values);
        const int failed = !arguments || PyObject_SetAttr(ctx, name_given, arguments);
        Py_XDECREF(arguments);
        if (failed) return -1;
    }
    PyObject *inputs = TAKEN(values, &self->saved_inputs), *outputs = inputs ? TAKEN(row, &self->saved_outputs) : NULL;
    PyObject *saved = outputs ? (PyTuple_GET_SIZE(outputs) ? PySequence_Concat(inputs, outputs) : Py_NewRef(inputs)) : NULL;
    Py_XDECREF(inputs);
    Py_XDECREF(outputs);
    if (!saved) return -1;
    /* As `set_materialize_grads` and `save_for_backward` do. */
    const int failed = PyObject_SetAttr(ctx, name_materialize, Py_False) || PyObject_SetAttr(ctx, name_to_save, saved)
                       || PyObject_SetAttr(ctx, name_call, (PyObject *)self);
    Py_DECREF(saved);
    return failed ? -1 : 0;
}

/* forward(ctx, (Prepared, values, where is told of them), *tensors): the outputs. */
static PyObject *node_forward(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    if (count < 2 || !PyTuple_CheckExact(given[1]) || PyTuple_GET_SIZE(given[1]) != 3 || Py_TYPE(PyTuple_GET_ITEM(given[1], 0)) != &PreparedType)
        return PyErr_Format(PyExc_TypeError, "a call that was prepared is taken"), NULL;
    Prepared *self = (Prepared *)PyTuple_GET_ITEM(given[1], 0);
    const gs_bare *inputs = PyLong_AsVoidPtr(PyTuple_GET_ITEM(given[1], 2));
    PyObject *values = PyTuple_GET_ITEM(given[1], 1), *results = inputs ? run_values(self->run, values, inputs) : NULL;
    if (!results) return NULL;
    PyObject *row = NULL;
    if (!self->is_settled) {
        row = PyObject_CallMethodObjArgs(self->python, name_recorded, given[0], values, results, NULL);
        if (row && PyObject_SetAttr(given[0], name_call, (PyObject *)self)) Py_CLEAR(row);
    }
    else {
        row = TAKEN(results, &self->row);
        if (row && kept(self, given[0], values, results, row)) Py_CLEAR(row);
    }
    Py_DECREF(results);
    return row;
}

/* What the backward takes: gradients of outputs, then what was saved. */
static PyObject *taken_back(const Prepared *self, PyObject *ctx, PyObject *const *given, Py_ssize_t count, PyObject *saved)
{
    const Py_ssize_t length = PyTuple_GET_SIZE(saved) + self->numbers.count;
    PyObject *numbers = self->numbers.count ? PyObject_GetAttr(ctx, name_numbers) : NULL, *values = NULL;
    const int fits = !self->numbers.count || (numbers && PyList_CheckExact(numbers) && PyList_GET_SIZE(numbers) == self->numbers.count);
    if (fits) values = PyTuple_New(self->vjps.count + length);
    else if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "numbers that were kept are taken");
    for (Py_ssize_t i = 0; values && i < self->vjps.count; ++i) {
        const Py_ssize_t place = self->vjps.at[i];
        PyTuple_SET_ITEM(values, i, Py_NewRef(place < 0 || place >= count ? Py_None : given[place]));
    }
    for (Py_ssize_t i = 0, number = 0; values && i < length; ++i) {
        const int is_number = number < self->numbers.count && (self->numbers.at[number] == i || i - number >= PyTuple_GET_SIZE(saved));
        PyObject *value = is_number ? PyTuple_GET_ITEM(PyList_GET_ITEM(numbers, number), 1) : PyTuple_GET_ITEM(saved, i - number);
        number += is_number;
        PyTuple_SET_ITEM(values, self->vjps.count + i, Py_NewRef(value));
    }
    Py_XDECREF(numbers);
    return values;
}

static int has_shape(PyObject *value, const Shape *shape)
{
    gs_tensor tensor;
    if (value == Py_None) return 1;
    if (!is_tensor(value) || exchange->tensor_of_object(value, &tensor)) return 0;
    if (tensor.ndim != shape->ndim) return 0;
    for (Py_ssize_t d = 0; d < shape->ndim; ++d)
        if (tensor.sizes[d] != shape->sizes[d]) return 0;
    return 1;
}

/* The gradients of the tensors, behind a None for what is none; NULL where Python is to give them, or with an error set. */
static PyObject *given_back(const Prepared *self, PyObject *values)
{
    gs_bare inputs[PyTuple_GET_SIZE(values) + 1];
    Kind *kind = find(self->backwards, &PyTuple_GET_ITEM(values, 0), PyTuple_GET_SIZE(values), inputs);
    if (!kind) return NULL;
    PyObject *results = ran(kind->prepared, values, inputs), *row = NULL;
    Py_DECREF(kind);
    if (!results) return NULL;
    int fits = PyList_CheckExact(results) && PyList_GET_SIZE(results) == self->places.count;
    for (Py_ssize_t i = 0; fits && i < self->places.count; ++i) fits = has_shape(PyList_GET_ITEM(results, i), self->shapes + i);
    if (fits) row = PyTuple_New(1 + self->tensors.count);
    for (Py_ssize_t i = 0; row && i <= self->tensors.count; ++i) PyTuple_SET_ITEM(row, i, Py_NewRef(Py_None));
    for (Py_ssize_t i = 0; row && i < self->places.count; ++i)
        PyTuple_SetItem(row, 1 + self->places.at[i], Py_NewRef(PyList_GET_ITEM(results, i)));
    Py_DECREF(results);
    return row;
}

/* The same by Python. */
static PyObject *given_back_by_python(const Prepared *self, PyObject *ctx, PyObject *const *given, Py_ssize_t count, PyObject *saved)
{
    PyObject *gradients = PyTuple_New(count);
    for (Py_ssize_t i = 0; gradients && i < count; ++i) PyTuple_SET_ITEM(gradients, i, Py_NewRef(given[i]));
    PyObject *found = gradients ? PyObject_CallMethodObjArgs(self->python, name_gradients, ctx, gradients, saved, NULL) : NULL;
    PyObject *none = found ? PyTuple_Pack(1, Py_None) : NULL;
    PyObject *rest = none ? PySequence_Tuple(found) : NULL, *row = rest ? PySequence_Concat(none, rest) : NULL;
    Py_XDECREF(gradients);
    Py_XDECREF(found);
    Py_XDECREF(none);
    Py_XDECREF(rest);
    return row;
}

/* backward(ctx, *gradients of outputs) */
static PyObject *node_backward(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    PyObject *call = count ? PyObject_GetAttr(given[0], name_call) : NULL, *row = NULL;
    PyObject *saved = call ? PyObject_GetAttr(given[0], name_saved) : NULL;
    if (!call && !PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "what forward has kept is taken");
    if (saved && (Py_TYPE(call) != &PreparedType || !PyTuple_CheckExact(saved))) PyErr_SetString(PyExc_TypeError, "a call that was prepared is taken");
    if (saved && !PyErr_Occurred()) {
        const Prepared *self = (Prepared *)call;
        PyObject *values = self->is_settled ? taken_back(self, given[0], given + 1, count - 1, saved) : NULL;
        if (values) row = given_back(self, values);
        Py_XDECREF(values);
        if (!row && !PyErr_Occurred()) row = given_back_by_python(self, given[0], given + 1, count - 1, saved);
    }
    Py_XDECREF(call);
    Py_XDECREF(saved);
    return row;
}

/* --- ops --- */

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    Kinds *kinds;
    PyObject *general, *barred; /* () → whether it is `general`'s in any case, or None */
} Dispatch;

/* 1 or 0; -1 with an error set */
static int is_barred(const Dispatch *self)
{
    return self->barred == Py_None ? 0 : is_so(PyObject_CallNoArgs(self->barred));
}

static PyObject *dispatch_call(Dispatch *self, PyObject *const *values, size_t flags, PyObject *keywords)
{
    const Py_ssize_t count = PyVectorcall_NARGS(flags);
    const int barred = self->kinds->count && (!keywords || !PyTuple_GET_SIZE(keywords)) ? is_barred(self) : 1;
    if (barred < 0) return NULL;
    if (!barred) {
        PyObject *row = PyTuple_New(count);
        for (Py_ssize_t i = 0; row && i < count; ++i) PyTuple_SET_ITEM(row, i, Py_NewRef(values[i]));
        PyObject *result = row ? result_for(self->kinds, row) : NULL;
        Py_XDECREF(row);
        if (result != Py_NotImplemented) return result;
        Py_DECREF(result);
    }
    return PyObject_Vectorcall(self->general, values, flags, keywords);
}

static int dispatch_traverse(Dispatch *self, visitproc visit, void *arg)
{
    Py_VISIT(self->kinds);
    Py_VISIT(self->general);
    Py_VISIT(self->barred);
    return 0;
}

static void dispatch_dealloc(Dispatch *self)
{
    PyObject_GC_UnTrack(self);
    Py_XDECREF(self->kinds);
    Py_XDECREF(self->general);
    Py_XDECREF(self->barred);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

/* Dispatch(kinds, general, barred) */
static PyObject *dispatch_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    PyObject *kinds, *general, *barred;
    if (!PyArg_ParseTuple(arguments, "O!OO", &KindsType, &kinds, &general, &barred)) return NULL;
    Dispatch *self = (Dispatch *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->call = (vectorcallfunc)dispatch_call;
    self->kinds = (Kinds *)Py_NewRef(kinds);
    self->general = Py_NewRef(general);
    self->barred = Py_NewRef(barred);
    return (PyObject *)self;
}

static PyTypeObject DispatchType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "gradscript.Dispatch",
    .tp_basicsize = sizeof(Dispatch),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC,
    .tp_vectorcall_offset = offsetof(Dispatch, call),
    .tp_call = PyVectorcall_Call,
    .tp_new = dispatch_new,
    .tp_traverse = (traverseproc)dispatch_traverse,
    .tp_dealloc = (destructor)dispatch_dealloc,
};

/* --- what there is --- */

static PyMethodDef functions[] = {
    {"new_tensors", (PyCFunction)(void (*)(void))new_tensors, METH_FASTCALL, NULL},
    {"forward", (PyCFunction)(void (*)(void))node_forward, METH_FASTCALL, NULL},
    {"backward", (PyCFunction)(void (*)(void))node_backward, METH_FASTCALL, NULL},
};

static int read_names(void)
{
    struct { PyObject **name; const char *text; } all[] = {
        {&name_requires_grad, "requires_grad"}, {&name_is_neg, "is_neg"}, {&name_level, "_current_level"},
        {&name_offset, "storage_offset"}, {&name_detach, "detach"}, {&name_strided, "as_strided"}, {&name_any, "any"}, {&name_name, "name"}, {&name_recorded, "recorded"}, {&name_gradients, "gradients"},
        {&name_call, "call"}, {&name_given, "given"}, {&name_saved, "saved_tensors"}, {&name_to_save, "to_save"},
        {&name_materialize, "materialize_grads"}, {&name_numbers, "numbers"}, {&name_mark, "mark_non_differentiable"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i)
        if (!(*all[i].name = PyUnicode_InternFromString(all[i].text))) return -1;
    return 0;
}

/* From (capsule of torch's DLPack functions, torch.Tensor, torch.nn.Parameter, torch.is_grad_enabled, torch.from_numpy,
   what is to give None, False or 0, the module with the level of forward mode, what gives the backend, and the two
   objects that it asks, the address of run_bare, what says whether autocast is on, what turns it on) → (Kind, Kinds, Run, Prepared, Dispatch, new_tensors, forward, backward). None where torch has
   other functions. */
PyObject *gs_tensor_types(PyObject *given)
{
    import_array();
    PyObject *capsule;
    Py_ssize_t bare;
    if (!PyArg_ParseTuple(given, "OOOOOO!OOOOnOO", &capsule, &tensor_type, &parameter_type, &records_now, &from_array, &PyTuple_Type, &quiet, &levels, &backend_now, &touched, &begun, &bare,
                          &torchs.casts, &torchs.set_casts))
        return NULL;
    exchange = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    if (!exchange) return NULL;
    if (exchange->header.major != VERSION || !exchange->tensor_of_object || !exchange->object_of_managed) Py_RETURN_NONE;
    torchs.exchange = exchange;
    memcpy(&run_bare, &bare, sizeof run_bare);
    Py_INCREF(given); /* for ever, as are its items */
    PyTypeObject *types[] = {&KindType, &KindsType, &RunType, &PreparedType, &DispatchType};
    for (size_t i = 0; i < sizeof types / sizeof *types; ++i)
        if (PyType_Ready(types[i])) return NULL;
    if (read_names()) return NULL;
    PyObject *made[3];
    for (size_t i = 0; i < 3; ++i)
        if (!(made[i] = PyCFunction_New(functions + i, NULL))) return NULL;
    return Py_BuildValue("(OOOOONNN)", &KindType, &KindsType, &RunType, &PreparedType, &DispatchType, made[0], made[1], made[2]);
}
