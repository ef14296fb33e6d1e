"""Dtypes and values of two operands beside eager torch: some pairs of each call.

`python tests/ops/dtypes/promotion_calls.py` compares all of them.
"""

from __future__ import annotations

import zlib
from random import Random

import pytest
from promotion_calls import CALLS, REFUSED, differences, operands

PAIRS = list(operands())


@pytest.mark.parametrize("text", CALLS)
def test_dtypes_of_two_operands(text: str) -> None:
    chosen = Random(zlib.crc32(text.encode())).sample(PAIRS, 12)
    wrong = [line for line in differences(text, chosen) if not line.startswith(REFUSED)]
    assert not wrong, "\n".join(wrong)
