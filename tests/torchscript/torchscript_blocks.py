"""TorchScript's symbolic gradients, read from the installed torch: nothing of them is kept here."""

from __future__ import annotations

import ast
import mmap
import re
import textwrap
from functools import cache
from pathlib import Path

import torch


def library() -> Path:
    """The file in which torch keeps the text of its symbolic gradients."""
    folder = Path(torch.__file__).parent / "lib"
    for name in ("libtorch_cpu.so", "libtorch_cpu.dylib", "torch_cpu.dll"):
        if (folder / name).exists():
            return folder / name
    raise FileNotFoundError(f"no torch_cpu library in {folder}")


@cache
def blocks() -> tuple[str, ...]:
    """The NUL-terminated strings that define a closure `backward`, in the order of the file."""
    with library().open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        starts = [m.start() for m in re.finditer(rb"def backward\(", data)]
        found: dict[int, bytes] = {}
        for start in starts:
            begin = data.rfind(b"\0", 0, start) + 1
            if begin not in found:
                found[begin] = data[begin : data.find(b"\0", start)]
    return tuple(text.decode("utf-8") for text in found.values())


@cache
def definitions() -> dict[str, bool]:
    """Every function of the blocks, read by Python's own parser: whether the last thing it returns is a closure."""
    found = {}
    for block in blocks():
        for node in ast.parse(textwrap.dedent(block)).body:
            assert isinstance(node, ast.FunctionDef)
            found[node.name] = _returns_closure(node)
    return found


def _returns_closure(function: ast.FunctionDef) -> bool:
    closures = {node.name for node in function.body if isinstance(node, ast.FunctionDef)}
    last = function.body[-1]
    if not isinstance(last, ast.Return) or not isinstance(last.value, ast.Tuple):
        return False
    end = last.value.elts[-1]
    return isinstance(end, ast.Name) and end.id in closures


def pair_names() -> list[str]:
    return [name for name, is_pair in definitions().items() if is_pair]


def helper_names() -> list[str]:
    return [name for name, is_pair in definitions().items() if not is_pair]
