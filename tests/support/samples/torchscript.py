"""Samples of what TorchScript's symbolic gradients call."""

from __future__ import annotations

from typing import Any

import numpy as np
from gradscript.compiler.types.dtypes import BFLOAT16, FLOAT16, UINT8
from samples.arrays import Call, call, index, literal, positive, t

_RESERVED = literal(np.zeros(0), UINT8)
_RUNNING = (t(3), positive(3))
_ALL = [True, True, True]

CASES: dict[str, list[Call]] = {
    "_autocast_to_full_precision": [call(t(3, 4), False, True), call(t(), True, False), call(t(0, 2), True, True)],
    "_autocast_to_reduced_precision": [
        call(t(3, 4), False, True, FLOAT16.code, BFLOAT16.code),
        call(t(), True, False, FLOAT16.code, BFLOAT16.code),
    ],
    "_dim_arange": [call(t(3, 4), 1), call(t(3, 4), -2), call(t(0, 2), 0)],
    "max_pool2d_with_indices_backward": [
        call(t(2, 3, 3, 3), t(2, 3, 6, 7), [2, 2], [], [0, 0], [1, 1], False, index(42, 2, 3, 3, 3)),
        call(t(3, 5, 5), t(3, 6, 6), [2, 2], [1, 1], [0, 0], [1, 1], False, index(36, 3, 5, 5)),
    ],
    "avg_pool2d_backward": [
        call(t(2, 3, 3, 3), t(2, 3, 6, 7), [2, 2], [], [0, 0], False, True, None),
        call(t(2, 3, 4, 4), t(2, 3, 7, 6), [3, 2], [2, 2], [1, 1], True, False, None),
        call(t(3, 4, 4), t(3, 7, 7), [3, 3], [2, 2], [1, 1], False, True, 5),
    ],
    "_adaptive_avg_pool2d_backward": [call(t(2, 3, 3, 2), t(2, 3, 7, 6)), call(t(3, 1, 1), t(3, 5, 5))],
    "_adaptive_avg_pool3d_backward": [call(t(2, 2, 2, 3, 3), t(2, 2, 5, 4, 3))],
    "_batch_norm_impl_index": [
        call(t(5, 3), t(3), t(3), None, None, True, 0.1, 1e-5, False),
        call(t(5, 3, 4), None, None, *_RUNNING, True, 0.1, 1e-3, False),
        call(t(5, 3, 2, 2), t(3), t(3), *_RUNNING, False, 0.1, 1e-3, False),
    ],
    "_batch_norm_impl_index_backward": [
        call(0, t(5, 3), t(5, 3), t(3), None, None, t(3), positive(3), True, 1e-5, _ALL, _RESERVED),
        call(0, t(5, 3, 2), t(5, 3, 2), None, *_RUNNING, t(3), positive(3), True, 1e-5, _ALL, _RESERVED),
        call(0, t(5, 3), t(5, 3), t(3), *_RUNNING, t(0), t(0), False, 1e-3, _ALL, _RESERVED),
        call(0, t(5, 3), t(5, 3), None, *_RUNNING, t(0), t(0), False, 1e-3, [True, False, False], _RESERVED),
    ],
}

REFERENCES: dict[str, Any] = {}
