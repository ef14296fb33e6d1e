"""Every kernel of the suite, compiled for GPUs that are not here: registers, shared memory, spills.

python compiled_suite.py                prints a line per kernel, dtype and target, and a table; fails on a spill
python compiled_suite.py --keep         also writes the table into docs/kernels.md
python compiled_suite.py layer_norm …   of functions whose names have one of these parts
"""

from __future__ import annotations

import argparse
import datetime
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gradscript as gs
import ml_dtypes
import numpy as np
from gradscript.runtime.kernels.listing import KernelInfo
from gradscript.runtime.kernels.triton.compile import TARGETS, Binary

ROOT = Path(__file__).parents[3]
SUITE = gs.CompilationUnit((ROOT / "benchmarks" / "suite.grad").read_text(encoding="utf-8"), "suite.grad")
DOCUMENT = ROOT / "docs" / "kernels.md"
MARKS = ("<!-- compiled by `make test-kernels ARGS=--keep` -->", "<!-- end of what was compiled -->")
DTYPES: dict[str, Any] = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
ROWS = 4096
NUMBERS = (1e-3, 0.9, 0.999, 1e-8, 0.01, 3.0)
INDEX = "index"
"""Stands for a vector of class indices."""

Shape = tuple[int, ...]
CASES: dict[str, tuple[str, list[Any]]] = {
    "cross_entropy": ("cross_entropy", [(512, 32_000), INDEX]),
    "rope": ("rope", [(4, 8, 256, 64), (256, 64), (256, 64)]),
    "lstm_cell": ("lstm_cell", [(ROWS, 1024), (ROWS, 256)]),
    "adamw": ("adamw", [(ROWS, 1024)] * 4 + list(NUMBERS)),
}
"""Functions, and arguments: shapes of tensors, or what is given as it is."""


def _rows(columns: int) -> dict[str, list[Any]]:
    matrix, vector = (ROWS, columns), (columns,)
    return {
        "rms_norm": [matrix, vector],
        "layer_norm": [matrix, vector, vector],
        "add_rms_norm": [matrix, matrix, vector],
        "softmax": [matrix],
        "dropout_add_layer_norm": [matrix, matrix, vector, vector],
    }


_MATRIX = (ROWS, 1024)
CASES |= {name: (name, [_MATRIX, (1024,)]) for name in ("bias_gelu", "bias_gelu_tanh")}
CASES |= {name: (name, [_MATRIX, _MATRIX]) for name in ("swiglu", "geglu", "chain", "focal_loss")}
CASES |= {
    f"{name}{of}": (name, arguments)
    for columns, of in ((1024, ""), (8192, " of 8192"), (61, " of 61"))
    for name, arguments in _rows(columns).items()
}


@dataclass(frozen=True)
class Compiled:
    case: str
    dtype: str
    kernel: str
    binary: Binary


def kernels_of(case: str, dtype: str) -> tuple[KernelInfo, ...]:
    """Those of the forward and of the backward."""
    name, given = CASES[case]
    rows = given[0][0]
    arguments = [
        np.zeros(rows, np.int64)
        if value is INDEX
        else np.zeros(value, DTYPES[dtype])
        if isinstance(value, tuple)
        else value
        for value in given
    ]
    listing = SUITE[name].kernels(*arguments)
    return (*listing.forward, *listing.backward)


def compile_all(parts: Sequence[str]) -> Iterator[Compiled]:
    for case in sorted(CASES):
        if parts and not any(part in case for part in parts):
            continue
        for dtype in DTYPES:
            for info in kernels_of(case, dtype):
                for target in TARGETS:
                    yield Compiled(case, dtype, info.name, info.compile(target))


# --- the table ---


def table(found: Sequence[Compiled]) -> str:
    """Markdown: a row for each kernel, and for each target its registers by dtype and its most shared memory."""
    rows: dict[tuple[str, str], dict[str, list[Binary]]] = {}
    for one in found:
        rows.setdefault((one.case, one.kernel), {}).setdefault(one.binary.target, []).append(one.binary)
    lines = ["| kernel | " + " | ".join(TARGETS) + " |", "|---|" + "---|" * len(TARGETS)]
    for (case, kernel), by_target in rows.items():
        columns = case.partition(" ")[2]
        title = f"`{kernel}`{', rows ' + columns if columns else ''}"
        lines.append(f"| {title} | " + " | ".join(_cell(by_target[target]) for target in TARGETS) + " |")
    return "\n".join(lines)


def _cell(binaries: Sequence[Binary]) -> str:
    spills = max(binary.spills for binary in binaries)
    shown = " / ".join(str(binary.registers) for binary in binaries) + f", {max(b.shared for b in binaries)} B"
    return shown + (f", **spills {spills}**" if spills else "")


def circumstances() -> str:
    import triton

    tools = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    versions = [f"triton {version('triton')}"]
    for tool in ("ptxas", "ptxas-blackwell"):
        if (tools / tool).exists():
            printed = subprocess.run(
                [str(tools / tool), "--version"], capture_output=True, text=True, check=True
            ).stdout
            match = re.search(r"release [\d.]+, V([\d.]+)", printed)
            versions.append(f"{tool} {match[1] if match else '?'}")
    return ", ".join([*versions, datetime.date.today().isoformat()])


def keep(text: str) -> None:
    found = DOCUMENT.read_text(encoding="utf-8")
    before, rest = found.split(MARKS[0])
    DOCUMENT.write_text(f"{before}{MARKS[0]}\n\n{text}\n\n{MARKS[1]}{rest.split(MARKS[1])[1]}", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help="of the names of functions; all where none is given")
    parser.add_argument("--keep", action="store_true", help="write the table into docs/kernels.md")
    given = parser.parse_args()
    found = []
    for one in compile_all(given.parts):
        found.append(one)
        binary = one.binary
        print(
            f"{one.case:32} {one.kernel:38} {one.dtype:8} {binary.target:7} {binary.registers:4} registers "
            f"{binary.shared:6} B shared {binary.spills:4} spills",
            flush=True,
        )
    spilled = [one for one in found if one.binary.spills]
    text = f"{len(found)} binaries; {len(spilled)} spill. {circumstances()}.\n\n{table(found)}"
    print(f"\n{text}")
    if given.keep and not given.parts:
        keep(text)
    return min(len(spilled), 1)


if __name__ == "__main__":
    sys.exit(main())
