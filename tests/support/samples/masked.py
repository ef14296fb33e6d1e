"""Calls of torch.masked's functions, and of those that copy what views show."""

from __future__ import annotations

from math import inf

from samples.arrays import Call, call, literal, mask, positive, t

_REDUCED = [
    call(t(3, 4), mask=mask(3, 4)),
    call(t(2, 3, 4), [0, -1], mask=mask(4), keepdim=True),
    call(t(3, 4), [1]),
    call(t(), mask=literal(True)),
]
# A mask that leaves something in each row: of none there is no mean.
_ROWS = literal([[1, 0, 1, 1], [1, 1, 0, 1], [0, 1, 1, 1]])
_SPREAD = [
    call(t(3, 4), [1], mask=_ROWS),
    call(t(2, 3, 4), [2], False, mask=_ROWS, keepdim=True),
    call(t(3, 4), [0, 1], correction=2),
    call(t(3, 4), mask=_ROWS, correction=0.5),
]
_ALONG = [call(t(3, 4), 1, mask=_ROWS), call(t(3, 4), 0), call(t(2, 3, 4), -1, mask=_ROWS)]

CASES: dict[str, list[Call]] = {
    **{f"unmasked_{name}": _REDUCED for name in ("sum", "prod", "amax", "amin", "logsumexp")},
    "unmasked_mean": [call(t(3, 4), [1], mask=_ROWS), call(t(2, 3, 4), mask=_ROWS, keepdim=True), call(t(3, 4))],
    "unmasked_var": _SPREAD,
    "unmasked_std": _SPREAD,
    **{f"unmasked_{name}": _ALONG for name in ("cumsum", "cumprod", "softmax", "log_softmax", "softmin")},
    "unmasked_median": [call(t(3, 4), 1, mask=_ROWS), call(t(3, 4)), call(t(3, 4), 0, keepdim=True, mask=_ROWS)],
    "unmasked_norm": [
        call(t(3, 4), 2.0, [1], mask=_ROWS),
        call(t(3, 4), 3.0),
        call(t(3, 4), -inf, [1], mask=_ROWS, keepdim=True),
    ],
    "unmasked_normalize": [call(t(3, 4), 2.0, 1, mask=_ROWS), call(positive(3, 4), 3.0, 0, eps=1e-3)],
    "unmasked_logaddexp": [
        call(t(3, 4), t(3, 4)),
        call(t(3, 4), t(3, 4), input_mask=_ROWS, other_mask=literal([[1, 1, 0, 1], [0, 0, 1, 1], [1, 1, 0, 0]])),
    ],
    **{f"unmasked_{name}": [*_ALONG, call(t(3, 4), mask=_ROWS)] for name in ("argmax", "argmin")},
    # --- copies of views ---
    "alias_copy": [call(t(3, 4)), call(t())],
    "detach_copy": [call(t(3, 4))],
    "view_copy": [call(t(3, 4), [2, 6]), call(t(3, 4), [-1])],
    "expand_copy": [call(t(3, 1), [3, 4]), call(t(4), [2, -1], implicit=True)],
    "permute_copy": [call(t(2, 3, 4), [2, 0, 1])],
    "transpose_copy": [call(t(2, 3, 4), 0, -1)],
    "t_copy": [call(t(3, 4)), call(t(3))],
    "diagonal_copy": [call(t(3, 4)), call(t(2, 3, 4), 1, -1, 0)],
    "squeeze_copy": [call(t(1, 3, 1))],
    "squeeze_copy.dim": [call(t(1, 3, 1), 2)],
    "squeeze_copy.dims": [call(t(1, 3, 1), [0, 1])],
    "unsqueeze_copy": [call(t(3, 4), 1)],
    "unfold_copy": [call(t(3, 7), 1, 3, 2)],
    "narrow_copy": [call(t(3, 5), 1, 1, 3)],
    "select_copy": [call(t(3, 4), 1, -1)],
    "slice_copy": [call(t(5, 4), 0, 1, None, 2)],
    "unbind_copy": [call(t(3, 4), 1)],
    "split_copy": [call(t(5, 4), 2)],
    "split_with_sizes_copy": [call(t(5, 4), [2, 3])],
}
