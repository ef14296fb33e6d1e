"""torch's own check of ops, on every function, layout and op. It takes minutes.

python tests/torch/op_enumeration.py [NAME ...]
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from gradscript.compiler.ops.draw import Draw
from op_cases import LAYOUTS, NAMES, arguments, backward_arguments, op_of


def report(name: str, layout: str, op: Any, given: list[Any]) -> int:
    found = torch.library.opcheck(op, tuple(given), raise_exception=False)
    bad = {test: result for test, result in found.items() if result != "SUCCESS"}
    for test, result in bad.items():
        print(f"{name} {layout} {op}: {test}: {str(result)[:300]}")
    return len(bad)


def main(names: list[str]) -> int:
    Draw.source = lambda: 7
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
