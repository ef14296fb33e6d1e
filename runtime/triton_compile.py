"""Modules of generated Triton text on disk, and compiling them for a target without a device.

A module is a file of the cache, named by its content, and imported by its path: Triton reads the source of a kernel from
there, and so do debuggers and profilers.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from .failure import RuntimeFailure

TARGETS: dict[str, tuple[str, int | str, int]] = {
    "sm_80": ("cuda", 80, 32),
    "sm_90": ("cuda", 90, 32),
    "sm_100": ("cuda", 100, 32),
    "gfx942": ("hip", "gfx942", 64),
}
"""Names of targets → Triton's backend, architecture and threads of a warp."""

Signature = Mapping[str, str | int]
"""Parameters in order → Triton's type (`*fp32`, `i32`, …), or the value of one that is constant."""


@dataclass(frozen=True, slots=True)
class Binary:
    """A compiled kernel: `code` is a cubin or hsaco, `assembly` its PTX or AMDGCN. `spills` counts bytes or registers."""

    target: str
    code: bytes
    assembly: str
    registers: int
    spills: int
    shared: int


def cache_directory() -> Path:
    """`$GRADSCRIPT_CACHE`, else a folder in the user's cache directory; made where it is missing, for its owner alone."""
    named = os.environ.get("GRADSCRIPT_CACHE")
    if named:
        path = Path(named)
    elif sys.platform == "win32":
        path = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "gradscript"
    else:
        path = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "gradscript"
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def write_module(text: str) -> Path:
    """The file that holds a module's text. Writing is atomic: another process finds the whole text or none."""
    folder = cache_directory() / "triton"
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / f"kernel_{hashlib.sha256(text.encode()).hexdigest()[:32]}.py"
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return path
    descriptor, temporary = tempfile.mkstemp(dir=folder, suffix=".tmp")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(temporary, path)
    return path


def load_module(path: Path) -> ModuleType:
    """The module of a file that `write_module` made; one that was loaded before is the same."""
    name = f"gradscript_{path.stem}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def compile_offline(
    text: str, name: str, signature: Signature, target: str, options: Mapping[str, Any] | None = None
) -> Binary:
    """A kernel of a module's text, compiled for a target of `TARGETS`. Pointers are taken as aligned to 16 bytes.

    Raises: RuntimeFailure, where the target is unknown, Triton missing, or compiling fails.
    """
    if target not in TARGETS:
        raise RuntimeFailure(f"unknown target {target!r}: give one of {', '.join(TARGETS)}")
    try:
        import triton
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource
    except ImportError as error:
        raise RuntimeFailure("Triton is not installed: pip install 'gradscript[triton]'") from error
    kernel = getattr(load_module(write_module(text)), name)
    types = {key: given if isinstance(given, str) else "constexpr" for key, given in signature.items()}
    constants = {(i,): v for i, v in enumerate(signature.values()) if not isinstance(v, str)}
    aligned = {(i,): [["tt.divisibility", 16]] for i, v in enumerate(types.values()) if v.startswith("*")}
    source = ASTSource(kernel, types, constants, aligned)
    try:
        compiled = triton.compile(source, target=GPUTarget(*TARGETS[target]), options=dict(options or {}))
    except Exception as error:
        raise RuntimeFailure(f"Triton does not compile {name} for {target}: {error}") from error
    if TARGETS[target][0] == "hip":
        return _hsaco(compiled, target)
    return _cubin(compiled, target)


def _cubin(compiled: Any, target: str) -> Binary:
    code = compiled.asm["cubin"]
    usage = _resource_usage(code)
    return Binary(
        target,
        code,
        compiled.asm["ptx"],
        int(_field(r"\bREG:(\d+)", usage)),
        int(_field(r"\bLOCAL:(\d+)", usage)),
        compiled.metadata.shared,
    )


def _hsaco(compiled: Any, target: str) -> Binary:
    text = compiled.asm["amdgcn"]
    spills = [int(_field(rf"\.{kind}_spill_count:\s*(\d+)", text)) for kind in ("vgpr", "sgpr")]
    registers = int(_field(r"\.vgpr_count:\s*(\d+)", text))
    return Binary(target, compiled.asm["hsaco"], text, registers, sum(spills), compiled.metadata.shared)


def _resource_usage(code: bytes) -> str:
    """What the bundled `cuobjdump` says of a cubin's registers and local memory."""
    import triton

    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(code)
        file.flush()
        shown = subprocess.run([tool, "--dump-resource-usage", file.name], capture_output=True, text=True, check=True)
    return shown.stdout


def _field(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    if found is None:
        raise RuntimeFailure(f"no {pattern} in what the compiler says of a kernel")
    return found.group(1)
