"""What holds on which version of torch: the tests of this folder, run with each. It takes minutes for each version.

    python tests/torch/torch_versions.py 2.11.0 2.12.1=/some/python ...

A version alone is installed into build/torch/VERSION first (several GB where the index has builds with CUDA only); one
with an interpreter is taken from there, which needs the project's other packages too. Prints docs/torch.md's table.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[2]
AREAS = {
    "values, gradients to third order, every mask": ("against_eager", "own_second_order", "made_anew", "values"),
    "nodes, hooks, versions, memory, threads": ("gradcheck", "semantics", "environment", "seeds"),
    "torch.func and forward mode": ("transforms", "kernel_transforms"),
    "prepared calls, kernels": ("prepared", "prepared_cpu", "few_elements", "products", "kernels"),
    "torch.compile, export, make_fx": ("tracers",),
    "gs.torch_op": ("op", "op_data", "op_saved", "launches"),
    "DTensor's rules": ("sharding",),
    "DDP, FSDP, tensor parallelism": ("distributed", "processes"),
}
"""A row of the table, and the files behind it: `test_torch_NAME.py`."""


def interpreter_of(version: str) -> str:
    folder = ROOT / "build" / "torch" / version
    python = str(folder / "bin" / "python")
    if not Path(python).exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", f"torch=={version}"], check=True)
        others = ["pytest>=8", "pytest-xdist", "hypothesis", "mpmath", "array-api-strict"]
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--editable", str(ROOT), *others], check=True)
    return python


def outcomes(report: Path) -> dict[str, tuple[int, int, int]]:
    """By row how many passed, failed and were skipped."""
    found = dict.fromkeys(AREAS, (0, 0, 0))
    rows = {f"test_torch_{name}": row for row, names in AREAS.items() for name in names}
    for case in ElementTree.parse(report).iter("testcase"):
        row = rows[case.attrib["classname"].rpartition(".")[2]]
        kinds = {child.tag for child in case}
        failed, skipped = bool(kinds & {"failure", "error"}), "skipped" in kinds
        one = (not failed and not skipped, failed, skipped)
        passed_before, failed_before, skipped_before = found[row]
        found[row] = (passed_before + one[0], failed_before + one[1], skipped_before + one[2])
    return found


def run(version: str, python: str) -> dict[str, tuple[int, int, int]]:
    report = ROOT / "build" / "torch" / f"{version}.xml"
    report.parent.mkdir(parents=True, exist_ok=True)
    command = [python, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", f"--junitxml={report}", "tests/torch"]
    subprocess.run(command, cwd=ROOT, check=False)
    return outcomes(report)


def table(columns: dict[str, dict[str, tuple[int, int, int]]]) -> str:
    lines = ["| | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for row in AREAS:
        cells = []
        for found in columns.values():
            passed, failed, skipped = found[row]
            notes = [f"{failed} fail"] * bool(failed) + [f"{skipped} skipped"] * bool(skipped)
            cells.append(", ".join([f"{passed} hold", *notes]))
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(asked: list[str]) -> None:
    columns = {}
    for word in asked:
        version, _, python = word.partition("=")
        columns[version] = run(version, python or interpreter_of(version))
    print(table(columns))


if __name__ == "__main__":
    main(sys.argv[1:])
