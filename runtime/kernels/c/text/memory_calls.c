/* Calls of lists: memory for what is made, results, and the type; built behind memory_runs.c. */

/* What is made has memory from here on. */
static int make_room(const Memory *self, Run *run)
{
    char *block = NULL;
    if (self->block >= LARGE) {
        PyObject *size = Py_BuildValue("(n)", self->block + ALIGNMENT), *bytes = (PyObject *)PyArray_DescrFromType(NPY_UINT8);
        run->large = size && bytes ? PyObject_CallFunctionObjArgs(self->allocate, size, bytes, NULL) : NULL;
        Py_XDECREF(size);
        Py_XDECREF(bytes);
        if (!run->large) return FAILED;
        block = PyArray_DATA((PyArrayObject *)run->large);
    } else if (self->block) {
        block = run->small = malloc((size_t)self->block + ALIGNMENT);
        if (!block) return PyErr_NoMemory(), FAILED;
    }
    block = (char *)(((uintptr_t)block + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1));
    for (Py_ssize_t i = 0; i < self->made_count; ++i) {
        const Made *made = self->made + i;
        if (made->offset >= 0) run->pointers[made->slot] = block + made->offset;
        else if (self->is_for_tensors) {
            if (!(run->managed[i] = new_managed(self, &made->layout, NULL))) return FAILED;
            run->pointers[made->slot] = run->managed[i]->tensor.data;
        } else {
            if (!(run->objects[made->slot] = new_array(self, &made->layout))) return FAILED;
            run->pointers[made->slot] = PyArray_DATA((PyArrayObject *)run->objects[made->slot]);
        }
    }
    for (Py_ssize_t i = 0; i < self->view_count; ++i) {
        char *source = run->pointers[self->views[i].source];
        run->pointers[self->views[i].slot] = source ? source + self->views[i].offset : NULL;
    }
    return DONE;
}

/* A view of an input that is a tensor. */
static PyObject *view_of(const Memory *self, const View *view, PyObject *tensor)
{
    const Layout *layout = &view->layout;
    const npy_intp unit = PyDataType_ELSIZE((PyArray_Descr *)layout->dtype);
    PyObject *sizes = PyTuple_New(layout->ndim), *strides = PyTuple_New(layout->ndim), *found = NULL;
    for (int i = 0; sizes && strides && i < layout->ndim; ++i) {
        PyTuple_SET_ITEM(sizes, i, PyLong_FromSsize_t(layout->sizes[i]));
        PyTuple_SET_ITEM(strides, i, PyLong_FromSsize_t(layout->sizes[layout->ndim + i] / unit));
    }
    if (sizes && strides && !PyErr_Occurred())
        found = PyObject_CallFunction(self->show, "OOOn", tensor, sizes, strides, (Py_ssize_t)(view->offset / unit));
    Py_XDECREF(sizes);
    Py_XDECREF(strides);
    return found;
}

/* A result, a new reference. */
static PyObject *result_of(const Memory *self, const Output *output, Run *run)
{
    const View *view = output->kind == VIEW ? self->views + output->index : NULL;
    PyObject *held = run->objects[view ? view->source : output->slot];
    if (!self->is_for_tensors) {
        if (!view) return Py_XNewRef(held);
        return shown(&view->layout, run->pointers[view->slot], held && PyArray_ISWRITEABLE((PyArrayObject *)held), held);
    }
    if (output->kind == INPUT) return Py_XNewRef(held);
    /* torch is to know of it, whose version counters tell of writes. */
    if (view && view->source < self->first + self->input_count) return view_of(self, view, held);
    gs_managed *managed = NULL;
    void *tensor = NULL;
    if (output->kind == MADE) {
        managed = run->managed[output->index];
        run->managed[output->index] = NULL;
    } else if (view) {
        managed = new_managed(self, &view->layout, NULL);
        if (managed) copied(managed->tensor.data, run->pointers[view->slot], &view->layout);
    } else {
        PyArrayObject *array = (PyArrayObject *)held;
        const Layout layout = {(PyObject *)PyArray_DESCR(array), (int)output->index, PyArray_NDIM(array), PyArray_DIMS(array), PyArray_NBYTES(array)};
        managed = new_managed(self, &layout, held);
        for (int i = 0; managed && i < layout.ndim; ++i) managed->tensor.strides[i] = PyArray_STRIDE(array, i) / PyArray_ITEMSIZE(array);
    }
    if (!managed) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "a result is there twice");
        return NULL;
    }
    if (exchange->object_of_managed(managed, &tensor)) {
        dropped(managed);
        return NULL;
    }
    return tensor;
}

static PyObject *memory_call(Memory *self, PyObject *const *arguments, size_t flags, PyObject *keywords)
{
    if (PyVectorcall_NARGS(flags) != 1 || keywords || !PyList_CheckExact(arguments[0]))
        return PyErr_SetString(PyExc_TypeError, "a list of values is taken"), NULL;
    PyObject *values = arguments[0], *results = NULL;
    if (PyList_GET_SIZE(values) != self->input_count) Py_RETURN_NOTIMPLEMENTED;
    Run run = {0};
    void **room = PyMem_Calloc(2 * (size_t)self->slot_count + (size_t)self->made_count + 1, sizeof(void *));
    if (!room) return PyErr_NoMemory();
    run.pointers = room;
    run.objects = (PyObject **)(room + self->slot_count);
    run.managed = (gs_managed **)(room + 2 * self->slot_count);
    int status = DONE;
    for (Py_ssize_t i = 0; status == DONE && i < self->input_count; ++i) {
        PyObject *value = PyList_GET_ITEM(values, i);
        run.objects[self->first + i] = Py_NewRef(value);
        if (!is_taken(self, self->inputs + i, value, run.pointers + self->first + i)) status = ELSEWHERE;
    }
    for (Py_ssize_t i = 0; i < self->first; ++i) {
        PyObject *value = PyTuple_GET_ITEM(self->constants, i);
        run.objects[i] = Py_NewRef(value);
        if (PyArray_CheckExact(value)) run.pointers[i] = PyArray_DATA((PyArrayObject *)value);
    }
    if (status == DONE) status = make_room(self, &run);
    if (status == DONE) status = run_acts(self, &run);
    if (status == DONE) results = PyList_New(self->output_count);
    for (Py_ssize_t i = 0; results && i < self->output_count; ++i) {
        const Output *output = self->outputs + i;
        PyObject *result = output->kind == AGAIN ? Py_NewRef(PyList_GET_ITEM(results, output->index)) : result_of(self, output, &run);
        if (result) PyList_SET_ITEM(results, i, result);
        else Py_CLEAR(results);
    }
    for (Py_ssize_t i = 0; i < self->made_count; ++i)
        if (run.managed[i]) dropped(run.managed[i]);
    for (Py_ssize_t i = 0; i < self->slot_count; ++i) Py_XDECREF(run.objects[i]);
    Py_XDECREF(run.large);
    free(run.small);
    PyMem_Free(room);
    if (results || PyErr_Occurred()) return results;
    Py_RETURN_NOTIMPLEMENTED;
}

static PyObject *memory_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"inputs", "constants", "slots", "made", "views", "acts", "outputs", "block", "for_tensors", "allocate", "threads", "owner", "show", NULL};
    PyObject *inputs, *constants, *made, *views, *acts, *outputs, *allocate, *threads, *owner, *show;
    Py_ssize_t slots, block;
    int for_tensors;
    if (!PyArg_ParseTupleAndKeywords(
            arguments, keywords, "O!O!nO!O!O!O!npOOOO", names, &PyTuple_Type, &inputs, &PyTuple_Type, &constants, &slots, &PyTuple_Type,
            &made, &PyTuple_Type, &views, &PyTuple_Type, &acts, &PyTuple_Type, &outputs, &block, &for_tensors, &allocate, &threads, &owner, &show))
        return NULL;
    if (for_tensors && !exchange) return PyErr_Format(PyExc_ValueError, "torch hands on no tensors"), NULL;
    Memory *self = (Memory *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->call = (vectorcallfunc)memory_call;
    self->constants = Py_NewRef(constants);
    self->allocate = Py_NewRef(allocate);
    self->threads = Py_NewRef(threads);
    self->owner = Py_NewRef(owner);
    self->show = Py_NewRef(show);
    self->first = PyTuple_GET_SIZE(constants);
    self->slot_count = slots;
    self->block = block;
    self->is_for_tensors = for_tensors;
    if (read_memory(self, inputs, made, views, acts, outputs)) Py_CLEAR(self);
    return (PyObject *)self;
}

static PyTypeObject MemoryType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "gradscript.Memory",
    .tp_basicsize = sizeof(Memory),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC,
    .tp_vectorcall_offset = offsetof(Memory, call),
    .tp_call = PyVectorcall_Call,
    .tp_new = memory_new,
    .tp_traverse = (traverseproc)memory_traverse,
    .tp_dealloc = (destructor)memory_dealloc,
};

/* (NumPy's matmul) → Memory */
PyObject *gs_memory_type(PyObject *matmul)
{
    import_array();
    find_product_loops(matmul);
    if (!product_loop[0] || !product_loop[1]) Py_RETURN_NONE;
    if (PyType_Ready(&MemoryType)) return NULL;
    return Py_NewRef((PyObject *)&MemoryType);
}

/* (capsule of torch's DLPack functions, torch.Tensor, torch.nn.Parameter): whether tensors can be taken from now on */
PyObject *gs_take_tensors(PyObject *given)
{
    PyObject *capsule;
    if (!PyArg_ParseTuple(given, "OOO", &capsule, &tensor_type, &parameter_type)) return NULL;
    const gs_exchange *found = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    if (!found) return NULL;
    Py_INCREF(given); /* for ever, as are its items */
    if (found->header.major == VERSION && found->tensor_of_object && found->object_of_managed) exchange = found;
    return PyBool_FromLong(exchange != NULL);
}
