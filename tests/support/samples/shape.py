"""Samples of views, joins, splits and rearrangements."""

from __future__ import annotations

from typing import Any

import torch
from gradscript.compiler.types.dtypes import INT32
from samples.arrays import Call, call, index, literal, t

_SWAP = [call(t(2, 3, 4), 0, 2), call(t(2, 3), -1, 0), call(t(), 0, -1)]
_MOVE = [call(t(2, 3, 4), 0, 2), call(t(2, 3, 4), -1, 0)]
_MOVES = [call(t(2, 3, 4), [0, 1], [2, 0]), call(t(2, 3), [-1], [0])]
_ALL = [call(t(2, 3)), call(t()), call(t(3)), call(t(0, 2)), call(t(2, 3, 4))]
_CAT = [
    call([t(2, 3), t(4, 3)]),
    call([t(2, 3), t(2, 1), t(2, 0)], -1),
    call([t(0), t(2, 3)], 1),
    call([t(0), t(0)]),
    call([t(2, 3), literal([[1, 2, 3]], INT32)]),
]
_SIZES = [call(t(5, 2), [1, 4]), call(t(2, 5), [2, 0, 3], -1)]

CASES: dict[str, list[Call]] = {
    "view": [call(t(6), [2, 3]), call(t(2, 3), [-1]), call(t(1), []), call(t(0, 3), [3, 0]), call(t(2, 6), [2, -1, 2])],
    "view.dtype": [call(t(2, 4), INT32.code)],
    "reshape": [call(t(6), [2, 3]), call(t(2, 3), [3, -1]), call(t(), [1, 1]), call(t(0, 3), [-1, 3])],
    "view_as": [call(t(6), t(2, 3))],
    "reshape_as": [call(t(6), t(2, 3)), call(t(1), t())],
    "flatten.using_ints": [call(t(2, 3, 4)), call(t(2, 3, 4), 1), call(t(2, 3, 4), 0, -2), call(t())],
    "unflatten.int": [call(t(6, 2), 0, [2, 3]), call(t(2, 6), -1, [-1, 2])],
    "ravel": _ALL,
    "transpose.int": _SWAP,
    "swapaxes": _SWAP,
    "swapdims": _SWAP,
    "t": [call(t(2, 3)), call(t(3)), call(t())],
    "numpy_T": [call(t(2, 3))],
    "mT": [call(t(2, 3)), call(t(2, 3, 4))],
    "adjoint": [call(t(2, 3)), call(t(2, 3, 4))],
    "permute": [call(t(2, 3, 4), [2, 0, 1]), call(t(2, 3), [-1, 0]), call(t(), [])],
    "movedim.int": _MOVE,
    "moveaxis.int": _MOVE,
    "movedim.intlist": _MOVES,
    "moveaxis.intlist": _MOVES,
    "expand": [call(t(1, 3), [2, 3]), call(t(3), [2, -1]), call(t(), [2]), call(t(1), [0]), call(t(2, 1), [4, 2, 5])],
    "expand_as": [call(t(1, 3), t(2, 3)), call(t(), t(2))],
    "_expand_into": [call(t(1, 3), t(2, 3)), call(t(), t(2)), call(t(1, 1, 3), t(2, 3)), call(t(1, 1), t())],
    "broadcast_to": [call(t(1, 3), [2, 3]), call(t(3), [2, -1])],
    "broadcast_tensors": [call([t(1, 3), t(2, 1), t()])],
    "squeeze": [call(t(1, 3, 1)), call(t()), call(t(1, 1))],
    "squeeze.dim": [call(t(1, 3, 1), 0), call(t(1, 3), -1), call(t(), 0)],
    "squeeze.dims": [call(t(1, 3, 1), [0, -1]), call(t(1, 3), [1]), call(t(1), [])],
    "unsqueeze": [call(t(2, 3), 0), call(t(2, 3), -1), call(t(), 0), call(t(2), 1)],
    "select.int": [call(t(2, 3), 0, 1), call(t(2, 3), -1, -1), call(t(4), 0, 2)],
    "slice.Tensor": [
        call(t(5)),
        call(t(5, 2), 0, 1, 4, 2),
        call(t(5), 0, -3, None),
        call(t(5), 0, 4, 2),
        call(t(2, 5), -1, 0, 99),
    ],
    "narrow": [call(t(5, 2), 0, 1, 3), call(t(2, 5), -1, -2, 2), call(t(3), 0, 3, 0)],
    "narrow.Tensor": [call(t(5, 2), 0, literal(1), 3)],
    "unfold": [call(t(7), 0, 3, 2), call(t(2, 6), -1, 2, 1), call(t(6, 2), 0, 6, 1), call(t(), 0, 1, 1)],
    "unfold_backward": [
        call(t(3, 3), [7], 0, 3, 2),
        call(t(2, 5, 2), [2, 6], -1, 2, 1),
        call(t(1, 2, 6), [6, 2], 0, 6, 1),
    ],
    "contiguous": _ALL,
    "clone": _ALL,
    "atleast_1d": _ALL,
    "atleast_2d": _ALL,
    "atleast_3d": _ALL,
    "atleast_1d.Sequence": [call([t(), t(2)])],
    "atleast_2d.Sequence": [call([t(), t(2)])],
    "atleast_3d.Sequence": [call([t(), t(2), t(2, 3)])],
    "cat": _CAT,
    "concat": _CAT,
    "concatenate": _CAT,
    "stack": [call([t(2, 3), t(2, 3)]), call([t(2, 3), t(2, 3)], -1), call([t(), t()]), call([t(0), t(0)], 1)],
    "hstack": [call([t(2), t(3)]), call([t(2, 3), t(2, 1)]), call([t(), t()])],
    "vstack": [call([t(3), t(3)]), call([t(2, 3), t(1, 3)]), call([t(), t()])],
    "dstack": [call([t(3), t(3)]), call([t(2, 3), t(2, 3)]), call([t(), t()])],
    "column_stack": [call([t(3), t(3, 2)]), call([t(), t()])],
    "split.Tensor": [call(t(5, 2), 2), call(t(2, 6), 3, -1), call(t(0, 2), 2), call(t(0, 2), 0)],
    "split.sizes": _SIZES,
    "split_with_sizes": _SIZES,
    "chunk": [call(t(5, 2), 2), call(t(2, 6), 4, 1), call(t(0, 2), 3)],
    "tensor_split.sections": [call(t(7, 2), 3), call(t(2, 2), 3, 1)],
    "tensor_split.indices": [call(t(7, 2), [2, 5]), call(t(2, 5), [1, -1], 1), call(t(3), [5])],
    "unbind.int": [call(t(3, 2)), call(t(3, 2), -1), call(t(0, 2))],
    "repeat": [call(t(2, 3), [2, 1]), call(t(3), [2, 2]), call(t(), [3]), call(t(2), [0])],
    "tile": [call(t(2, 3), [2]), call(t(3), [2, 2]), call(t(), [])],
    "repeat_interleave.self_int": [call(t(2, 3), 2), call(t(2, 3), 2, -1), call(t(), 3), call(t(2), 0, 0)],
    "repeat_interleave.self_Tensor": [
        call(t(2, 3), literal([1, 2]), 0),
        call(t(3), literal([0, 2, 1])),
        call(t(2, 3), literal([2]), 1),
    ],
    "repeat_interleave.Tensor": [call(index(3, 4)), call(literal([2, 0, 1]))],
    "roll": [
        call(t(2, 3), [1]),
        call(t(2, 3), [1, -2], [0, 1]),
        call(t(), [1]),
        call(t(0), [1], [0]),
        call(t(4), [9], [-1]),
    ],
    "flip": [call(t(2, 3), [0]), call(t(2, 3), [-1, 0]), call(t(2), []), call(t(), [])],
    "fliplr": [call(t(2, 3))],
    "flipud": [call(t(2, 3)), call(t(3))],
    "rot90": [call(t(2, 3)), call(t(2, 3, 4), 3, [1, -1]), call(t(2, 3), -2), call(t(2, 3), 0)],
    "meshgrid": [call([t(2), t(3)]), call([t(2), t()])],
    "meshgrid.indexing": [call([t(2), t(3), t(4)], indexing="xy"), call([t(2), t(3)], indexing="ij")],
}

REFERENCES: dict[str, Any] = {
    "split.sizes": torch.split,
    "_expand_into": lambda self, other: self.reshape(self.shape[max(self.ndim - other.ndim, 0) :]).expand_as(other),
}
