"""Modules of generated Triton text, and compiling them for a target without a device.

A module is compiled from memory and lies nowhere. Triton asks Python for the lines of a kernel, as debuggers do, and
Python asks the module's loader.
"""

from __future__ import annotations

import hashlib
import importlib.util
import linecache
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping
from importlib.abc import ExecutionLoader
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import Any

from ....compiler.codegen.triton.module import most_registers, portable_options
from ....lang.light_dataclasses import dataclass
from ..cache.folder import process_directory
from ..failure import KernelFailure
from .store import checked_cache, failures_told

TARGETS: dict[str, tuple[str, int | str, int]] = {
    "sm_80": ("cuda", 80, 32),
    "sm_90": ("cuda", 90, 32),
    "sm_100": ("cuda", 100, 32),
    "gfx942": ("hip", "gfx942", 64),
}
"""Names of targets → Triton's backend, architecture and threads of a warp."""

_LOADING = RLock()

KernelSignature = Mapping[str, str | int]
"""Parameters in order → Triton's type (`*fp32`, `i32`, …), or the value of one that is constant."""


@dataclass(frozen=True, slots=True)
class Binary:
    """A compiled kernel: `code` is a cubin or hsaco, `assembly` its PTX or AMDGCN.

    `spills` counts bytes stored and loaded on NVIDIA's devices, registers on AMD's. `shared` is in bytes.
    """

    target: str
    code: bytes
    assembly: str
    registers: int
    spills: int
    shared: int


class _TextLoader(ExecutionLoader):
    """Loads one module from its text. Its path is one that no file can have: this file is no folder."""

    def __init__(self, name: str, text: str) -> None:
        self._text = text
        self._path = os.path.join(__file__, f"{name}.py")

    def get_filename(self, fullname: str) -> str:
        return self._path

    def get_source(self, fullname: str) -> str:
        return self._text

    def exec_module(self, module: ModuleType) -> None:
        # Without a time of change, the lines are taken for those of a loader and not compared with a file.
        linecache.cache[self._path] = (len(self._text), None, self._text.splitlines(keepends=True), self._path)
        super().exec_module(module)


def load_module(text: str) -> ModuleType:
    """The module of a text; that of a text which was loaded before is the same."""
    name = f"gradscript_{hashlib.sha256(text.encode()).hexdigest()[:40]}"
    with _LOADING:
        if name in sys.modules:
            return sys.modules[name]
        loader = _TextLoader(name, text)
        spec = importlib.util.spec_from_loader(name, loader)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
        return module


def kernel_function(text: str, name: str) -> Any:
    """Triton's own object for a kernel of a module's text."""
    return getattr(load_module(text), name)


def compile_offline(
    text: str,
    name: str,
    signature: KernelSignature,
    target: str,
    options: Mapping[str, Any] | None = None,
    divisible: Collection[str] = (),
) -> Binary:
    """A kernel of a module's text, compiled for a target of `TARGETS`.

    As at a launch, pointers are taken as aligned to 16 bytes, and the numbers of `divisible` parameters as multiples
    of 16: loads are as wide as that allows.

    Raises: KernelFailure, where the target is unknown, Triton missing, or compiling fails.
    """
    if target not in TARGETS:
        raise KernelFailure(f"unknown target {target!r}: give one of {', '.join(TARGETS)}")
    try:
        import triton
        from triton import knobs
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource
    except ImportError as error:
        raise KernelFailure("Triton is not installed: pip install 'gradscript[triton]'") from error
    if knobs.runtime.interpret:
        raise KernelFailure("TRITON_INTERPRET is set, so that Triton interprets kernels and compiles none: unset it")
    kernel = kernel_function(text, name)
    types = {key: given if isinstance(given, str) else "constexpr" for key, given in signature.items()}
    constants = {(i,): v for i, v in enumerate(signature.values()) if not isinstance(v, str)}
    aligned = {
        (i,): [["tt.divisibility", 16]]
        for i, (parameter, given) in enumerate(types.items())
        if given.startswith("*") or parameter in divisible
    }
    source = ASTSource(kernel, types, constants, aligned)
    chosen = dict(options or {})
    if TARGETS[target][0] == "cuda":
        chosen.setdefault("maxnreg", most_registers(chosen.get("num_warps", 4)))
    else:
        chosen = portable_options(chosen)

    try:
        with checked_cache():
            compiled = triton.compile(source, target=GPUTarget(*TARGETS[target]), options=chosen)
    except KernelFailure:
        raise
    except Exception as error:
        raise KernelFailure(f"Triton does not compile {name} for {target}: {error}") from error
    if TARGETS[target][0] == "hip":
        return _hsaco(compiled, target)
    return _cubin(compiled, target)


def _cubin(compiled: Any, target: str) -> Binary:
    assembly = compiled.asm["ptx"]
    report = _assembler_report(assembly)
    stored, loaded = (int(_field(rf"(\d+) bytes spill {kind}", report)) for kind in ("stores", "loads"))
    registers = int(_field(r"Used (\d+) registers", report))
    return Binary(target, compiled.asm["cubin"], assembly, registers, stored + loaded, compiled.metadata.shared)


def _hsaco(compiled: Any, target: str) -> Binary:
    text = compiled.asm["amdgcn"]
    spills = [int(_field(rf"\.{kind}_spill_count:\s*(\d+)", text)) for kind in ("vgpr", "sgpr")]
    registers = int(_field(r"\.vgpr_count:\s*(\d+)", text))
    return Binary(target, compiled.asm["hsaco"], text, registers, sum(spills), compiled.metadata.shared)


def _assembler_report(assembly: str) -> str:
    """What the assembler that Triton uses for a PTX kernel says of its registers and spills."""
    from triton.backends.nvidia.compiler import get_ptxas

    architecture = _field(r"\.target (\w+)", assembly)
    tool = get_ptxas(int(_field(r"(\d+)", architecture))).path
    with failures_told(), tempfile.TemporaryDirectory(dir=process_directory()) as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(assembly, encoding="utf-8")
        command = [tool, "-v", f"--gpu-name={architecture}", str(source), "-o", os.devnull]
        return subprocess.run(command, capture_output=True, text=True, check=True).stderr


def _field(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    if found is None:
        raise KernelFailure(f"no {pattern} in what the compiler says of a kernel")
    return found.group(1)
