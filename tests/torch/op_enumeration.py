"""torch's own check of ops, on every function, layout and op. It takes minutes.

python tests/torch/op_enumeration.py [NAME ...]
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from gradscript.compiler.ops.draw import Draw
from gradscript.runtime.torch.library import halves

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from op_cases import LAYOUTS, NAMES, arguments, backward_arguments, op_of

TRACED = "test_aot_dispatch_dynamic"
ROUNDED = ("layer_norm",)
"""Whose gradients of x add up to 0 but for rounding: torch's check takes the sum's absolute value, and so its sign."""


def report(name: str, layout: str, op: Any, given: list[Any]) -> int:
    found = torch.library.opcheck(op, tuple(given), raise_exception=False)
    bad = {test: result for test, result in found.items() if result != "SUCCESS"}
    if name in ROUNDED and op.name().endswith("_backward"):
        bad.pop(TRACED, None)
    for test, result in bad.items():
        print(f"{name} {layout} {op}: {test}: {str(result)[:300]}")
    return len(bad)


def main(names: list[str]) -> int:
    # Whatever draws has the same seed, traced or not.
    Draw.source = halves.next_seed = lambda: 7
    halves.local_seed = lambda seed: nullcontext()  # type: ignore[assignment]
    failed = checked = 0
    for name in names or NAMES:
        op = op_of(name)
        for layout in LAYOUTS:
            given = arguments(name, layout)
            failed += report(name, layout, op.op, given)
            failed += report(name, layout, op.forward, given)
            failed += report(name, layout, op.backward, backward_arguments(name, given))
            checked += 3
        print(f"{name}: {checked} checked, {failed} failed", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1:])))
