/* Products of matrices of few elements, for programs on bare memory; built before entry.c.

   They run by the very loops of NumPy's `matmul`, without what the ufunc asks around them, so that a program gives the
   same bits whichever way it is run. */

#define PY_SSIZE_T_CLEAN
#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <Python.h>
#include <numpy/arrayobject.h>
#include <numpy/ufuncobject.h>
#include <stdint.h>

/* left @ right, and on top of that `added`, where there is such: slots, and strides in bytes. */
typedef struct {
    Py_ssize_t left, right, added, to;
    npy_intp sizes[3];   /* rows, what is summed over, columns */
    npy_intp strides[8]; /* two each: of left, right, the result, what is added */
    int is_double;
} Product;

static PyUFuncGenericFunction product_loop[2];
static void *product_data[2];

/* Finds the loops of float and double. Without them no program has products. */
static void find_product_loops(PyObject *ufunc)
{
    const PyUFuncObject *matmul = (PyUFuncObject *)ufunc;
    if (matmul->nargs != 3 || !matmul->functions || !matmul->types) return;
    for (int i = 0; i < matmul->ntypes; ++i)
        for (int k = 0; k < 2; ++k) {
            const char code = k ? NPY_DOUBLE : NPY_FLOAT, *types = matmul->types + 3 * i;
            if (types[0] != code || types[1] != code || types[2] != code) continue;
            product_loop[k] = matmul->functions[i];
            product_data[k] = matmul->data ? (void *)matmul->data[i] : NULL;
        }
}

static int read_numbers(PyObject *sequence, Py_ssize_t count, npy_intp *into)
{
    if (!PyTuple_Check(sequence) || PyTuple_GET_SIZE(sequence) != count)
        return PyErr_Format(PyExc_ValueError, "%zd numbers are taken", count), -1;
    for (Py_ssize_t i = 0; i < count; ++i) {
        into[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(sequence, i));
        if (into[i] == -1 && PyErr_Occurred()) return -1;
    }
    return 0;
}

/* (slots of left, right, result and what is added or -1, is_double, sizes, strides): 0, or -1 with an error set */
static int read_product(PyObject *item, Product *product)
{
    PyObject *sizes, *strides;
    if (!PyArg_ParseTuple(item, "nnnnpOO", &product->left, &product->right, &product->to, &product->added, &product->is_double,
                          &sizes, &strides))
        return -1;
    if (!product_loop[product->is_double]) return PyErr_Format(PyExc_ValueError, "no such product"), -1;
    return read_numbers(sizes, 3, product->sizes) || read_numbers(strides, 8, product->strides) ? -1 : 0;
}

#define ADDED(TYPE)                                                                                                    \
    for (npy_intp i = 0; i < product->sizes[0]; ++i)                                                                   \
        for (npy_intp j = 0; j < product->sizes[2]; ++j)                                                               \
            *(TYPE *)(to + i * strides[4] + j * strides[5]) += *(const TYPE *)(more + i * strides[6] + j * strides[7]);

static void multiply(const Product *product, void *const *pointers)
{
    char *left = pointers[product->left], *right = pointers[product->right], *to = pointers[product->to];
    const char *more = product->added < 0 ? NULL : pointers[product->added];
    const npy_intp *strides = product->strides;
    npy_intp dims[4] = {1, product->sizes[0], product->sizes[1], product->sizes[2]};
    npy_intp steps[9] = {0, 0, 0, strides[0], strides[1], strides[2], strides[3], strides[4], strides[5]};
    char *given[3] = {left, right, to};
    product_loop[product->is_double](given, dims, steps, product_data[product->is_double]);
    if (more && product->is_double) ADDED(double)
    else if (more) ADDED(float)
}
