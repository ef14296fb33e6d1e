"""Samples of indexing, searching and scattering."""

from __future__ import annotations

from typing import Any

from gradscript.compiler.types.dtypes import INT32, UINT8
from samples.arrays import Call, Leaf, ascending, call, distinct, index, literal, mask, t

_SCATTER = [
    call(t(3, 5), 0, distinct(3, 2, 4), t(2, 5)),
    call(t(6), -1, distinct(6, 4), t(4)),
    call(t(), 0, literal(0), t()),
    call(t(3, 4), 1, index(4, 0, 4), t(3, 4)),
]
_ADD = [
    call(t(3, 5), 0, index(3, 6, 4), t(6, 5)),
    call(t(4), 0, index(4, 9), t(9)),
    call(t(2, 3), 1, index(3, 2, 7), t(2, 7)),
]
_ROWS = [
    call(t(4, 3), 0, distinct(4, 3), t(3, 3)),
    call(t(2, 5), -1, distinct(5, 2), t(2, 2)),
    call(t(), 0, literal([0]), t(1)),
]
_FILL = [call(t(4, 3), 0, literal([0, 2]), 7), call(t(2, 5), -1, literal([4, -1]), 2), call(t(), 0, literal(0), 1)]
_REDUCED = [
    call(t(3, 5), 0, index(3, 6, 4), t(6, 5), name, **kwargs)
    for name in ("sum", "prod", "mean", "amax", "amin")
    for kwargs in ({}, {"include_self": False})
]
_EMBEDDING_GRAD = [
    call(t(5, 3), index(4, 5), 4, -1, False, False),
    call(t(2, 6, 3), index(4, 2, 6), 4, 1, True, False),
    call(t(0, 3), index(4, 0), 4, -1, False, False),
]

CASES: dict[str, list[Call]] = {
    "index_select": [
        call(t(4, 3), 0, literal([3, 0, 0])),
        call(t(2, 3), -1, literal(1)),
        call(t(), 0, literal([0])),
        call(t(3), 0, literal([], INT32)),
    ],
    "gather": [
        call(t(3, 4), 1, index(4, 3, 2)),
        call(t(3, 4), 0, index(3, 5, 2)),
        call(t(), 0, literal(0)),
        call(t(3), -1, literal([])),
    ],
    "index.Tensor": [
        call(t(4, 3), [literal([0, 3, -1])]),
        call(t(4, 3), [None, literal([[0, 2], [1, 1]])]),
        call(t(4, 3, 2), [literal([0, 1]), None, literal([1, 0])]),
        call(t(4, 3, 2), [None, literal([[0], [1]]), literal([0, 1, 1])]),
        call(t(4, 3), [mask(4, 3)]),
        call(t(4, 3), [mask(4)]),
        call(t(4, 3), [literal([1, 0, 1, 0], UINT8)]),
        call(t(4, 3), [literal(2), literal(1)]),
        call(t(4, 3), [None, literal(1)]),
        call(t(4, 3), [literal([])]),
    ],
    "masked_select": [call(t(3, 4), mask(3, 4)), call(t(3, 1), mask(4)), call(t(), mask(2))],
    "take": [call(t(3, 4), literal([[0, 5], [-1, 11]])), call(t(), literal(0)), call(t(2), literal([]))],
    "take_along_dim": [
        call(t(3, 4), index(4, 3, 2), 1),
        call(t(3, 4), literal([7, 2])),
        call(t(3, 1), index(3, 2, 5), 0),
    ],
    "embedding": [
        call(t(5, 3), index(5, 4)),
        call(t(5, 3), index(5, 2, 3), 1),
        call(t(5, 3), literal(2)),
        call(t(5, 3), literal([], INT32)),
    ],
    "nonzero": [call(mask(3, 4)), call(t(3)), call(mask()), call(t(0, 2))],
    "argwhere": [call(mask(3, 4)), call(t(3))],
    "where": [call(mask(3, 4)), call(t(3)), call(mask())],
    "one_hot": [call(index(4, 3)), call(index(4, 2, 3), 6), call(literal(2), 4)],
    "searchsorted.Tensor": [
        call(ascending(6), t(4)),
        call(ascending(6), t(2, 4), right=True, out_int32=True),
        call(ascending(2, 6), t(2, 3)),
        call(ascending(2, 6), t(2, 3), side="right"),
        call(Leaf(lambda rng: [5, 3, 1, 0, -2]), t(3), sorter=literal([4, 3, 2, 1, 0])),
    ],
    "searchsorted.Scalar": [call(ascending(6), 0.5), call(ascending(6), 1, right=True)],
    "bucketize.Tensor": [call(t(2, 4), ascending(5)), call(t(4), ascending(5), right=True)],
    "bucketize.Scalar": [call(0.5, ascending(5)), call(1, ascending(5), out_int32=True)],
    "select_scatter": [call(t(3, 4), t(4), 0, 1), call(t(3, 4), t(3), -1, -1)],
    "slice_scatter": [call(t(5, 2), t(2, 2), 0, 1, 4, 2), call(t(3, 4), t(3, 2), -1, -2), call(t(3), t(3))],
    "diagonal_scatter": [call(t(3, 4), t(3)), call(t(3, 4), t(2), -1), call(t(2, 3, 4), t(2, 3), 1, 1, 2)],
    "scatter.src": _SCATTER,
    "scatter.value": [call(t(3, 5), 0, index(3, 2, 4), 7), call(t(6), -1, index(6, 4), 2)],
    "scatter.reduce": [
        call(t(3, 5), 0, index(3, 6, 4), t(6, 5), reduce="add"),
        call(t(3, 5), 1, index(5, 3, 8), t(3, 8), reduce="multiply"),
    ],
    "scatter.value_reduce": [
        call(t(3, 5), 0, index(3, 6, 4), 2, reduce="add"),
        call(t(3), 0, index(3, 5), 2, reduce="multiply"),
    ],
    "scatter_add": _ADD,
    "scatter_reduce.two": _REDUCED,
    "index_add": [
        call(t(4, 3), 0, index(4, 6), t(6, 3)),
        call(t(2, 5), -1, index(5, 7), t(2, 7), alpha=3),
        call(t(), 0, literal([0]), t()),
    ],
    "index_copy": _ROWS,
    "index_fill.int_Scalar": _FILL,
    "index_fill.int_Tensor": [call(t(4, 3), 0, literal([0, 2]), t())],
    "index_put": [
        call(t(4, 3), [literal([0, 2])], t(2, 3)),
        call(t(4, 3), [literal([0, 2])], t()),
        call(t(4, 3), [None, index(3, 5)], t(4, 5), True),
        call(t(4, 3), [index(4, 9), index(3, 9)], t(9), True),
        call(t(4, 3), [mask(4, 3)], t()),
        call(t(4, 3, 2), [literal([0, 1]), None, literal([1, 0])], t(2, 3)),
    ],
    "put": [call(t(3, 4), literal([0, 7, -1]), t(3)), call(t(3, 4), index(12, 20), t(20), True)],
    "masked_scatter": [call(t(3, 4), mask(3, 4), t(12)), call(t(4), mask(3, 4), t(3, 4))],
    "embedding_backward": _EMBEDDING_GRAD,
    "embedding_dense_backward": [call(t(5, 3), index(4, 5), 4, 2, False), call(t(9, 3), index(4, 9), 4, -1, True)],
}

REFERENCES: dict[str, Any] = {}
