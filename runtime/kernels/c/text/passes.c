/* Both passes of a program, and calls; built behind bare_entry.c.

   Pair      the entries of both passes, and where the backward's inputs come from
   Calls     several entries or pairs: (*arguments) → results, of a pair (results, pullback); None where none is for these
   Pullback  (*gradients of results) → gradients of arguments; what its entry is not for, `general` does

   Who has bare memory, and wants results that are DLPack's, calls `run_bare`. */

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

/* NumPy's matmul → (Entry, Pair, Calls, the address of run_bare, whether there are products, the addresses of
   gs_shrink_blocks and gs_count_blocks) */
PyObject *gs_types(PyObject *matmul)
{
    import_array();
    find_product_loops(matmul);
    PyTypeObject *types[] = {&EntryType, &PairType, &PullbackType, &CallsType};
    for (size_t i = 0; i < sizeof types / sizeof *types; ++i)
        if (PyType_Ready(types[i])) return NULL;
    pthread_atfork(NULL, NULL, begin_blocks_anew);
    return Py_BuildValue(
        "(OOOninn)", &EntryType, &PairType, &CallsType, (Py_ssize_t)(intptr_t)run_bare, product_loop[0] && product_loop[1],
        (Py_ssize_t)(intptr_t)gs_shrink_blocks, (Py_ssize_t)(intptr_t)gs_count_blocks);
}
