/* An entry run on bare memory, of layouts that the caller knows to be those: results are DLPack's. Built behind entry.c. */

#define ALIGNMENT 64
#define DLPACK_CPU 1

/* What is large lies in a block, which is the context. */
static void dropped(gs_managed *managed)
{
    if (managed && managed->context) block_is_back(managed->context);
    free(managed);
}

static gs_managed *new_managed(const Made *made)
{
    const size_t head = sizeof(gs_managed) + 2 * (size_t)made->ndim * sizeof(int64_t);
    const int is_large = made->nbytes >= LARGE;
    gs_managed *managed = malloc(head + (is_large ? 0 : ALIGNMENT + (size_t)made->nbytes));
    if (!managed) return NULL;
    memset(managed, 0, sizeof *managed);
    if (is_large && !(managed->context = block_of(made->nbytes))) {
        free(managed);
        return NULL;
    }
    managed->version.major = 1;
    managed->drop = dropped;
    gs_tensor *tensor = &managed->tensor;
    tensor->device.kind = DLPACK_CPU;
    tensor->ndim = made->ndim;
    tensor->dtype.code = (uint8_t)made->code;
    tensor->dtype.bits = (uint8_t)(8 * PyDataType_ELSIZE((PyArray_Descr *)made->dtype));
    tensor->dtype.lanes = 1;
    tensor->sizes = (int64_t *)(managed + 1);
    tensor->strides = tensor->sizes + made->ndim;
    int64_t stride = 1;
    for (int i = made->ndim; i-- > 0; stride *= made->sizes[i] > 1 ? made->sizes[i] : 1) {
        tensor->sizes[i] = made->sizes[i];
        tensor->strides[i] = stride;
    }
    tensor->data = managed->context ? managed->context : (void *)(((uintptr_t)managed + head + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1));
    return managed;
}

/* An input that is an array: its memory, dtype, sizes, and strides in bytes. */
typedef struct { void *data; PyObject *dtype; int ndim; const int64_t *sizes, *strides; } gs_bare;

static int fits_bare(const Guard *guard, const gs_bare *input)
{
    if (input->dtype != guard->object || input->ndim != guard->ndim) return 0;
    if ((uintptr_t)input->data % (uintptr_t)PyDataType_ALIGNMENT((PyArray_Descr *)guard->object)) return 0;
    for (int i = 0; i < guard->ndim; ++i)
        if (input->sizes[i] != guard->sizes[i] || input->strides[i] != guard->sizes[guard->ndim + i]) return 0;
    return 1;
}

/* Whether a view has each element of some memory that begins with it once, in whatever order. */
static int is_dense(const View *view, npy_intp size)
{
    npy_intp last = size;
    for (int i = 0; i < view->as.ndim; ++i) {
        if (view->strides[i] <= 0 && view->as.sizes[i] > 1) return 0;
        last += (view->as.sizes[i] - 1) * view->strides[i];
    }
    return last == view->as.nbytes;
}

/* The elements of a view, in order. */
static void copied(char *to, const char *from, const View *view, Py_ssize_t size)
{
    npy_intp at[NPY_MAXDIMS] = {0};
    for (npy_intp left = view->as.nbytes; left > 0; left -= size, to += size) {
        memcpy(to, from, (size_t)size);
        for (int d = view->as.ndim; d-- > 0;) {
            from += view->strides[d];
            if (++at[d] < view->as.sizes[d]) break;
            from -= at[d] * view->strides[d];
            at[d] = 0;
        }
    }
}

/* A view of a tensor: sizes, and strides and offset in bytes. */
typedef struct { int ndim; const npy_intp *sizes, *strides; Py_ssize_t offset, size; } gs_view;

/* A result: what was made, by torch or here; or else an input, or an earlier result. Where there is a view, it is one of
   either. */
typedef struct { gs_managed *made; void *tensor; Py_ssize_t source, earlier; int is_view; gs_view view; } gs_result;

/* How torch is asked for tensors; (device) → whether autocast is on there; (device, on), which turns it on or off. */
typedef struct { const gs_exchange *exchange; PyObject *casts, *set_casts; } gs_torch;

/* A run on bare memory. What is made is either memory or a tensor; a constant or a view a tensor where one was asked for. */
typedef struct {
    const Entry *entry;
    PyObject *const *values;
    void **pointers;
    gs_managed **made;
    PyObject **tensors; /* by slot, of views too; NULL where there is none */
    const gs_torch *torch;
} BareRun;

/* Where views lie of what is in a slot. */
static void place_views(const BareRun *run, Py_ssize_t slot)
{
    const Entry *self = run->entry;
    for (Py_ssize_t i = 0; i < self->view_count; ++i)
        if (self->views[i].source == slot)
            run->pointers[self->slot_count + i] = (char *)run->pointers[slot] + self->views[i].offset;
}

/* Has what is in memory lie as a view of as many dimensions does. */
static void lie_as(gs_managed *managed, const View *view, npy_intp size)
{
    for (int i = 0; i < view->as.ndim; ++i) {
        managed->tensor.sizes[i] = view->as.sizes[i];
        managed->tensor.strides[i] = view->strides[i] / size;
    }
}

/* What is at such a place as a tensor does not own. */
static gs_managed *lent(const View *view, void *data)
{
    Made nothing = view->as;
    nothing.nbytes = 0;
    gs_managed *managed = new_managed(&nothing);
    const npy_intp size = PyDataType_ELSIZE((PyArray_Descr *)view->as.dtype);
    if (!managed) return NULL;
    managed->tensor.data = data;
    lie_as(managed, view, size);
    return managed;
}

/* As `at_slot`. */
static PyObject *torchs(void *given, Py_ssize_t slot)
{
    BareRun *run = given;
    const Entry *self = run->entry;
    if (slot < self->given_count) return Py_NewRef(run->values[slot]);
    if (slot < self->input_count) return Py_NewRef(PyTuple_GET_ITEM(self->defaults, slot - self->given_count));
    if (!run->tensors[slot]) {
        const Py_ssize_t place = slot - self->input_count, view = slot - self->slot_count;
        gs_managed *managed = view >= 0 ? lent(self->views + view, run->pointers[slot]) : place < self->made_count ? run->made[place] : NULL;
        void *tensor = NULL;
        if (!managed || run->torch->exchange->object_of_managed(managed, &tensor)) {
            if (view >= 0) free(managed);
            return NULL;
        }
        if (view < 0) run->made[place] = NULL;
        run->tensors[slot] = tensor;
    }
    return Py_NewRef(run->tensors[slot]);
}

/* Whether what a call of the library's gave is what it gave when it was planned: NO, OTHERWISE with its elements in another
   order, or AS_PLANNED. */
enum { NO, OTHERWISE, AS_PLANNED };

static int told_of(const BareRun *run, const Made *made, PyObject *tensor, gs_tensor *told)
{
    if (run->torch->exchange->tensor_of_object(tensor, told) || told->device.kind != DLPACK_CPU) return NO;
    if (told->ndim != made->ndim || told->dtype.code != made->code) return NO;
    if (told->dtype.bits != 8 * PyDataType_ELSIZE((PyArray_Descr *)made->dtype)) return NO;
    int64_t stride = 1;
    int found = AS_PLANNED;
    for (int i = made->ndim; i-- > 0; stride *= made->sizes[i]) {
        if (told->sizes[i] != made->sizes[i]) return NO;
        if (told->sizes[i] > 1 && told->strides[i] != stride) found = OTHERWISE;
    }
    return found;
}

/* The elements in order; of more than this torch copies them sooner. */
#define MOST_COPIED 4096

static gs_managed *in_order(const Made *made, const gs_tensor *told)
{
    const npy_intp size = PyDataType_ELSIZE((PyArray_Descr *)made->dtype);
    npy_intp strides[made->ndim + 1];
    for (int i = 0; i < made->ndim; ++i) strides[i] = (npy_intp)told->strides[i] * size;
    const View view = {0, 0, *made, strides};
    gs_managed *managed = new_managed(made);
    if (managed) copied(managed->tensor.data, (const char *)told->data + told->offset, &view, size);
    return managed;
}

static int keep_result(BareRun *run, Py_ssize_t slot, PyObject *tensor)
{
    const Entry *self = run->entry;
    gs_tensor told;
    for (Py_ssize_t i = 0; i < self->given_count; ++i)
        if (run->values[i] == tensor) return ELSEWHERE;
    const Made *made = self->made + (slot - self->input_count);
    if (PyLong_CheckExact(tensor) && !made->ndim) {
        /* A number that was drawn. */
        run->tensors[slot] = Py_NewRef(tensor);
        return DONE;
    }
    const int kind = told_of(run, made, tensor, &told);
    if (kind == AS_PLANNED) run->tensors[slot] = Py_NewRef(tensor);
    else if (kind == OTHERWISE && made->nbytes <= MOST_COPIED) {
        gs_managed *managed = run->made[slot - self->input_count] = in_order(made, &told);
        if (!managed) return ELSEWHERE;
        run->pointers[slot] = managed->tensor.data;
        place_views(run, slot);
        return DONE;
    }
    else {
        if (PyErr_Occurred()) PyErr_Clear();
        PyObject *found = PyObject_CallMethod(tensor, "contiguous", NULL);
        if (!found || told_of(run, made, found, &told) != AS_PLANNED) {
            Py_XDECREF(found);
            return ELSEWHERE;
        }
        run->tensors[slot] = found;
    }
    run->pointers[slot] = (char *)told.data + told.offset;
    place_views(run, slot);
    return DONE;
}

/* Calls an op of torch's. What it refuses, or gives otherwise than planned, is told by who goes the longer way. */
static int called(BareRun *run, const Called *call)
{
    PyObject *found = result_of_call(call, torchs, run);
    const int is_row = found && (PyTuple_Check(found) || PyList_CheckExact(found));
    int status = found && (is_row ? PySequence_Fast_GET_SIZE(found) : 1) == call->result_count ? DONE : ELSEWHERE;
    for (Py_ssize_t i = 0; status == DONE && i < call->result_count; ++i)
        if (call->results[i] >= 0)
            status = keep_result(run, call->results[i], is_row ? PySequence_Fast_GET_ITEM(found, i) : found);
    Py_XDECREF(found);
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception)) return FAILED;
    if (status != DONE) PyErr_Clear();
    return status;
}

static const PyObject *dtype_of(const Entry *self, Py_ssize_t slot)
{
    return slot < self->input_count ? self->guards[slot].object : self->made[slot - self->input_count].dtype;
}

/* The result of a slot, which takes over what was made for it. No memory: with an error set. Results are asked for one
   after the other; of those from `owned` on, views are told of. */
static gs_result result_of(const BareRun *run, Py_ssize_t place, Py_ssize_t owned)
{
    const Entry *self = run->entry;
    const Py_ssize_t slot = self->bare_outputs[place];
    gs_result result = {.source = -1, .earlier = -1};
    if (slot < self->input_count) result.source = slot;
    else if (slot < self->slot_count) {
        const Py_ssize_t made = slot - self->input_count;
        if (self->calls && run->tensors[slot]) result.tensor = Py_NewRef(run->tensors[slot]);
        else if (made < self->made_count) {
            result.made = run->made[made];
            run->made[made] = NULL;
        }
        else result.tensor = Py_NewRef(PyTuple_GET_ITEM(self->constants, made - self->made_count));
    }
    else {
        const View *view = self->views + (slot - self->slot_count);
        result.is_view = 1;
        if (place >= owned) {
            result.view = (gs_view){view->as.ndim, view->as.sizes, view->strides, view->offset, 0};
            /* One of another dtype torch has not by such means. */
            if (dtype_of(self, view->source) == view->as.dtype) result.view.size = PyDataType_ELSIZE((PyArray_Descr *)view->as.dtype);
            if (view->source < self->input_count) result.source = view->source;
            for (Py_ssize_t i = 0; i < owned && i < place; ++i)
                if (self->bare_outputs[i] == view->source) result.earlier = i;
            if (result.source >= 0 || result.earlier >= 0) return result;
        }
        if (is_alone(self, place) && run->made[view->source - self->input_count]) {
            result.made = run->made[view->source - self->input_count];
            run->made[view->source - self->input_count] = NULL;
            lie_as(result.made, view, PyDataType_ELSIZE((PyArray_Descr *)view->as.dtype));
            return result;
        }
        /* What nobody else has may as well be a copy, which lies as the view does where that leaves nothing out. */
        const npy_intp size = PyDataType_ELSIZE((PyArray_Descr *)view->as.dtype);
        result.made = new_managed(&view->as);
        if (!result.made) PyErr_NoMemory();
        else if (is_dense(view, size)) {
            memcpy(result.made->tensor.data, run->pointers[slot], (size_t)view->as.nbytes);
            lie_as(result.made, view, size);
        }
        else copied(result.made->tensor.data, run->pointers[slot], view, size);
    }
    return result;
}

/* Runs the kernels of an entry on the memory of slots, those of `self`. */
static int launched(const Entry *kernels, const Entry *self, void *const *pointers, PyObject *const *values, PyObject *const *tensors)
{
    void *buffers[kernels->buffer_count + 1];
    gs_number numbers[kernels->parameter_count + 1];
    const int threads = kernels->is_long ? thread_count(kernels) : 1;
    for (Py_ssize_t i = 0; i < kernels->parameter_count; ++i) {
        const Py_ssize_t slot = kernels->parameters[i].slot;
        PyObject *value = slot < self->given_count  ? values[slot]
                          : slot < self->input_count ? PyTuple_GET_ITEM(self->defaults, slot - self->given_count)
                          : slot < self->input_count + self->made_count
                              ? tensors[slot]
                              : PyTuple_GET_ITEM(self->constants, slot - self->input_count - self->made_count);
        if (kernels->parameters[i].is_integer) numbers[i].integer = PyLong_AsLongLong(value);
        else numbers[i].real = PyFloat_AsDouble(value);
    }
    if (PyErr_Occurred()) return FAILED;
    for (Py_ssize_t i = 0; i < kernels->buffer_count; ++i) buffers[i] = pointers[kernels->buffers[i]];
    PyThreadState *state = kernels->is_long ? PyEval_SaveThread() : NULL;
    const int failed = kernels->run(
        kernels->launches, kernels->launch_count, buffers, kernels->buffer_count, 0, kernels->sizes, numbers, threads);
    if (state) PyEval_RestoreThread(state);
    return failed ? ELSEWHERE : DONE;
}

/* Whether autocast is on for the CPU; or FAILED. */
static int is_cast(const gs_torch *torch)
{
    PyObject *found = PyObject_CallFunction(torch->casts, "s", "cpu");
    Py_XDECREF(found);
    return found ? found == Py_True : FAILED;
}

/* Turns autocast on or off for the CPU, past what is raised. */
static int cast(const gs_torch *torch, PyObject *on)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *found = PyObject_CallFunction(torch->set_casts, "sO", "cpu", on);
    Py_XDECREF(found);
    if (found || type) PyErr_Restore(type, value, trace);
    return found ? DONE : FAILED;
}

/* As run_entry, of inputs that are arrays by their memory. The first of the results, as many as are `owned`, share no
   memory with others. */
static int run_entry_bare(
    const Entry *self, const gs_bare *inputs, PyObject *const *values, gs_result *results, Py_ssize_t owned, const gs_torch *torch)
{
    const Py_ssize_t all = self->slot_count + self->view_count;
    void *pointers[all + 1];
    gs_managed *made[self->made_count + 1];
    PyObject *tensors[self->calls ? all + 1 : 1];
    BareRun run = {self, values, pointers, made, tensors, torch};
    int status = DONE, casts = 0;
    Py_ssize_t found = 0;
    for (Py_ssize_t i = 0; i < self->given_count; ++i) {
        const Guard *guard = self->guards + i;
        if (guard->kind == ARRAY ? !fits_bare(guard, inputs + i) : !fits(guard, values[i])) return ELSEWHERE;
        pointers[i] = inputs[i].data;
    }
    if (self->calls) {
        /* Its ops are called in the dtypes of their arguments. */
        casts = is_cast(torch);
        if (casts < 0 || (casts && cast(torch, Py_False))) return FAILED;
        memset(tensors, 0, sizeof tensors);
    }
    for (Py_ssize_t i = self->given_count; i < self->slot_count; ++i) {
        const Py_ssize_t constant = i - self->input_count - self->made_count;
        PyObject *value = i < self->input_count ? PyTuple_GET_ITEM(self->defaults, i - self->given_count)
                          : constant < 0        ? NULL
                                                : PyTuple_GET_ITEM(self->constants, constant);
        pointers[i] = value && PyArray_CheckExact(value) ? PyArray_DATA((PyArrayObject *)value) : NULL;
    }
    for (Py_ssize_t i = 0; i < self->made_count; ++i) {
        made[i] = self->made[i].is_torchs ? NULL : new_managed(self->made + i);
        if (made[i]) pointers[self->made[i].slot] = made[i]->tensor.data;
        else if (!self->made[i].is_torchs) status = ELSEWHERE;
    }
    for (Py_ssize_t i = 0; status == DONE && i < self->view_count; ++i)
        pointers[self->slot_count + i] = (char *)pointers[self->views[i].source] + self->views[i].offset;
    if (status == DONE && self->launch_count) status = launched(self, self, pointers, values, tensors);
    for (Py_ssize_t i = 0; status == DONE && i < self->act_count; ++i) {
        const Act *act = self->acts + i;
        if (act->kernels) status = launched(act->kernels, self, pointers, values, tensors);
        else if (act->called) status = called(&run, act->called);
        else if (act->order.sizes) put_in_order(&act->order, pointers);
        else if (act->check.code) status = is_answered(&act->check, pointers) ? DONE : ELSEWHERE;
        else multiply(&act->product, pointers);
    }
    if (casts && cast(torch, Py_True)) status = FAILED;
    for (; status == DONE && found < self->bare_count && !PyErr_Occurred(); ++found) results[found] = result_of(&run, found, owned);
    for (Py_ssize_t i = 0; i < self->made_count; ++i) dropped(made[i]);
    for (Py_ssize_t i = 0; self->calls && i < all; ++i) Py_XDECREF(tensors[i]);
    if (!PyErr_Occurred() || status == FAILED) return status;
    for (Py_ssize_t i = 0; i < found; ++i) {
        dropped(results[i].made);
        Py_XDECREF((PyObject *)results[i].tensor);
    }
    return given_up();
}

/* Those that draw numbers draw others if they are run again. */
static PyObject *entry_calls(Entry *self, void *unused)
{
    int found = self->calls;
    for (Py_ssize_t i = 0; i < self->act_count; ++i) found &= !self->acts[i].called || self->acts[i].called->count;
    return PyBool_FromLong(self->is_bare && found);
}
static PyObject *entry_checks(Entry *self, void *unused)
{
    int found = 0;
    for (Py_ssize_t i = 0; i < self->act_count; ++i) found |= self->acts[i].check.code != 0;
    return PyBool_FromLong(self->is_bare && found);
}
static PyGetSetDef entry_attributes[] = {
    {"calls", (getter)entry_calls, NULL, "Whether ops of torch are called on bare memory."},
    {"checks", (getter)entry_checks, NULL, "Whether it goes one way of several, on bare memory."},
    {NULL},
};
static PyTypeObject EntryType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_getset = entry_attributes,
    .tp_name = "gradscript.Entry",
    .tp_basicsize = sizeof(Entry),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = entry_new,
    .tp_dealloc = (destructor)entry_dealloc,
};
