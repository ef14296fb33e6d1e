"""A folder of formulas as a wheel: a package whose modules hold their sources, and kernels where they are asked for.

norms/                    import norms
  __init__.py             norms.layers.rms_norm(x, weight)     by gradscript, from the source in the wheel
  layers.py               norms.kernels.rms_norm               the exported module, without gradscript
  layers.grad
  layers.pyi
  py.typed
  kernels/rms_norm.py
"""

from __future__ import annotations

import base64
import hashlib
import keyword
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ...lang.diagnostics import CompileError
from ...lang.light_dataclasses import dataclass, field
from ...runtime.face.function import Function
from ...runtime.face.units.files import SUFFIXES, load
from ...runtime.face.units.unit import CompilationUnit
from ..export.face import export
from .stubs import stubs_of

EXAMPLES = "_examples"
KERNELS = "kernels"
_VERSION = re.compile(r"\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?")
_DATE = (1980, 1, 1, 0, 0, 0)
"""Of every file: the same folder gives the same bytes."""
_MODULE = """\
# The functions of {file}.

from pathlib import Path
from typing import Any

import gradscript as gs

__all__ = [{names}]

_unit = gs.load(Path(__file__).with_name("{file}"))


def __getattr__(name: str) -> Any:
    if name in __all__:
        return _unit[name]
    raise AttributeError(f"module {{__name__!r}} has no attribute {{name!r}}")


def __dir__() -> list[str]:
    return sorted(__all__)
"""


_PACKAGE = """\
import importlib
from typing import Any

_MODULES = ({names})


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{{__name__}}.{{name}}")
    raise AttributeError(f"module {{__name__!r}} has no attribute {{name!r}}")


def __dir__() -> list[str]:
    return sorted(_MODULES)
"""
"""Of a folder: its modules are loaded when they are asked for."""


class NoPackage(ValueError):
    """A folder that is no package: the message says why."""


@dataclass(slots=True)
class PackedWheel:
    """A wheel that was written, the modules in it, and which functions have no kernels, with the reason."""

    path: Path
    modules: dict[str, list[str]] = field(default_factory=dict)
    kernels: list[str] = field(default_factory=list)
    without_kernels: dict[str, str] = field(default_factory=dict)


def pack(
    folder: str | Path,
    out: str | Path = ".",
    *,
    name: str | None = None,
    version: str = "0.1.0",
    exported: bool = False,
    requires: str = "gradscript",
) -> PackedWheel:
    """Write the wheel of a folder of .grad and .gs files into the folder `out`.

    With `exported`, the package has a module `kernels.NAME` for every function that can be exported. CompileError for
    bad source, NoPackage (a ValueError) for a folder or a name of which no package can be made, OSError as it comes.
    """
    source = Path(folder)
    try:
        package = _identifier(name or source.resolve().name)
    except (ValueError, RuntimeError) as error:
        # A circle of links, or what no path holds.
        raise error if isinstance(error, NoPackage) else NoPackage(f"'{folder}' is no folder: {error}") from None
    if not _VERSION.fullmatch(version):
        raise NoPackage(f"'{version}' is no version: write numbers with dots, such as 0.1.0")
    units = _units(source)
    packed = PackedWheel(Path(out) / f"{package}-{version}-py3-none-any.whl")
    files = _sources(package, source, units, packed)
    kernels = _kernels(package, units.values(), packed) if exported else {}
    files |= kernels | _packages(package, [*units, *(Path(KERNELS, f"{made}.py") for made in packed.kernels)])
    files |= _information(package, version, requires, exported)
    packed.path.parent.mkdir(parents=True, exist_ok=True)
    _write(packed.path, files, f"{package}-{version}.dist-info/RECORD")
    return packed


def _identifier(name: str) -> str:
    found = re.sub(r"[-.\s]+", "_", name.strip()).lower()
    if not found.isidentifier() or keyword.iskeyword(found):
        raise NoPackage(f"'{name}' is no name of a package: give one of letters, digits and _ by --name")
    return found


def _units(folder: Path) -> dict[Path, CompilationUnit]:
    """The unit of each file, by its path in the folder. What is wrong in one is told with its place."""
    if not folder.is_dir():
        raise NoPackage(f"{folder} is no folder")
    paths = sorted(path for path in folder.rglob("*") if path.suffix in SUFFIXES and path.is_file())
    if not paths:
        raise NoPackage(f"{folder} has no {' or '.join(SUFFIXES)} files")
    stems: dict[Path, Path] = {}
    for path in paths:
        inside = path.relative_to(folder)
        for part in (*inside.parts[:-1], inside.stem):
            if not part.isidentifier() or keyword.iskeyword(part):
                raise NoPackage(f"{path}: '{part}' is no name of a module; call it by letters, digits and _")
        other = stems.setdefault(inside.with_suffix(""), path)
        if other is not path or inside.parts[0] == KERNELS or inside.stem == "__init__":
            raise NoPackage(f"{path}: another module has the name '{inside.stem}'; rename the file")
    return {path.relative_to(folder): load(path) for path in paths}


# --- what is in the wheel ---


def _sources(
    package: str, folder: Path, units: Mapping[Path, CompilationUnit], packed: PackedWheel
) -> dict[str, bytes]:
    """Each source beside the module that loads it and its stub."""
    files: dict[str, bytes] = {f"{package}/py.typed": b""}
    for inside, unit in units.items():
        names = [name for name in unit.functions if not name.endswith(EXAMPLES)]
        place = f"{package}/{inside.with_suffix('').as_posix()}"
        quoted = ", ".join(f'"{name}"' for name in names)
        module = _MODULE.format(file=inside.name, names=quoted)
        files[f"{package}/{inside.as_posix()}"] = (folder / inside).read_bytes()
        files[f"{place}.py"] = module.encode()
        files[f"{place}.pyi"] = stubs_of(unit, inside.name).encode()
        packed.modules[".".join((package, *inside.with_suffix("").parts))] = names
    return files


def _packages(package: str, inside: Iterable[Path]) -> dict[str, bytes]:
    """The `__init__.py` of each folder."""
    modules: dict[Path, dict[str, None]] = {}
    for path in inside:
        for parent in path.parents:
            modules.setdefault(parent, {})[path.relative_to(parent).parts[0].partition(".")[0]] = None
    files = {}
    for parent, names in modules.items():
        quoted = ", ".join([f'"{name}"' for name in sorted(names)])
        text = _PACKAGE.format(names=quoted + ("," if len(names) == 1 else ""))
        files[f"{package}/{parent.as_posix()}/__init__.py".replace("/./", "/")] = text.encode()
    return files


def _kernels(package: str, units: Iterable[CompilationUnit], packed: PackedWheel) -> dict[str, bytes]:
    """The exported module of each function, and why others have none."""
    files: dict[str, bytes] = {}
    for function in _functions(units):
        place = f"{package}/{KERNELS}/{function.name}.py"
        if place in files:
            packed.without_kernels[function.name] = "another function has the same name"
            continue
        try:
            files[place] = export(function).encode()
            packed.kernels.append(function.name)
        except CompileError as error:
            packed.without_kernels[function.name] = error.message
    return files


def _functions(units: Iterable[CompilationUnit]) -> list[Function]:
    return [f for unit in units for name, f in unit.functions.items() if not name.endswith(EXAMPLES)]


def _information(package: str, version: str, requires: str, exported: bool) -> dict[str, bytes]:
    """What installers read."""
    place = f"{package}-{version}.dist-info"
    metadata = ["Metadata-Version: 2.1", f"Name: {package.replace('_', '-')}", f"Version: {version}"]
    metadata += ["Requires-Python: >=3.11", f"Requires-Dist: {requires}"]
    if exported:
        metadata += [
            "Provides-Extra: kernels",
            *(f"Requires-Dist: {n}; extra == 'kernels'" for n in ("torch", "triton")),
        ]
    wheel = ["Wheel-Version: 1.0", "Generator: gradscript", "Root-Is-Purelib: true", "Tag: py3-none-any"]
    return {f"{place}/METADATA": _lines(metadata), f"{place}/WHEEL": _lines(wheel)}


def _lines(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _write(path: Path, files: Mapping[str, bytes], record: str) -> None:
    """The archive, with a digest for each file."""
    rows = [f"{name},sha256={_digest(data)},{len(data)}" for name, data in files.items()]
    whole = {**files, record: _lines([*rows, f"{record},,"])}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in whole.items():
            entry = zipfile.ZipInfo(name, _DATE)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, data)


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
