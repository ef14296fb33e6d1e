"""Lists with None among tensors: gradients reach the tensors, on every road and to second order."""

from __future__ import annotations

import numpy as np
import pytest
from eager_programs import check

SOURCE = """
def walked(x, w):
    l = [x * x, None, w]
    y = x * 1
    for i in l:
        if i is not None:
            y = y * i * 2
    return y.sum()


def unpacked(x, w):
    l = [None, x * w]
    r = x
    a, b = l
    if b is not None:
        r = b * w
    if a is not None:
        r = r * a
    return r


def nested(x, w):
    l = [[x, None], [None, w]]
    r = x * 2
    for p in l:
        for q in p:
            if q is not None:
                r = r * q
    return r


def grown(x, w):
    l = [x, None]
    l.append(w)
    l = l + [None]
    r = x * w
    for q in l:
        if q is not None:
            r = r * q
    return r


def comprehended(x, w):
    l = [x * q if q is not None else w for q in [x, None, w]]
    return l[0] * l[1] * l[2]


def branched(x, w):
    l = [x, None]
    if bool(w.sum() > 100):
        l = [None, w]
    q = l[1]
    p = l[0]
    r = x * w
    if q is not None:
        r = r * q
    if p is not None:
        r = r * p
    return r


def helper(l: List[Optional[Tensor]], k):
    r = k * 1
    for q in l:
        if q is not None:
            r = r * q
    return r


def called(x, w):
    return helper([x, None, w], x * w) + helper([None], w)


def stored(x, w):
    l = [x, None, w]
    l[1] = x * w
    l[0] = None
    r = x
    for q in l[::-1]:
        if q is not None:
            r = r * q
    return r
"""
NAMES = ("walked", "unpacked", "nested", "grown", "comprehended", "branched", "called", "stored")


@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_eagers(name: str) -> None:
    check(SOURCE, name, np.array([1.0, 2.0, 3.0]), np.array([0.5, -2.0, 1.5]))
