"""`gradscript doctor`: what runs kernels on this machine, what does not, and how to get it."""

from __future__ import annotations

import json
import platform
from importlib.metadata import PackageNotFoundError, version

import click

from ....lang.light_dataclasses import dataclass
from ....runtime.kernels.c.compiler import WITHOUT, compiler
from ....runtime.kernels.c.launched import thread_count
from ....runtime.kernels.c.library import load_module, missing_headers
from ....runtime.kernels.cache.folder import cache_directory, unusable
from ....runtime.kernels.failure import KernelFailure
from ....runtime.settings.modes import BACKENDS, settings
from ....runtime.values.text_tables import table
from ..console import emit
from ..options import JSON


@click.command()
@JSON
def doctor(as_json: bool) -> None:
    """Say what runs kernels on this machine, what does not, and how to get it."""
    found = availabilities()
    if as_json:
        click.echo(json.dumps({f.name: {"ok": f.is_there, "found": f.said} for f in found}, indent=2))
    else:
        emit(shown(found))


@dataclass(frozen=True, slots=True)
class Availability:
    """One thing that is asked after: whether it is there, and what is said of it."""

    name: str
    is_there: bool
    said: str


def availabilities() -> list[Availability]:
    """Everything that is asked after."""
    return [
        Availability("python", True, platform.python_version()),
        *(_package(name, advice) for name, advice in _PACKAGES.items()),
        _compiler(),
        _kernels(),
        _headers(),
        _cache(),
        _backend(),
        Availability("threads", True, f"{thread_count()} (gs.settings.num_threads or OMP_NUM_THREADS says how many)"),
    ]


def shown(found: list[Availability]) -> str:
    """The findings as a table."""
    return table(["what", "", "found"], [[f.name, "ok" if f.is_there else "missing", f.said] for f in found])


_PACKAGES = {
    "numpy": "",
    "torch": "for torch tensors: pip install torch",
    "triton": "for kernels on a GPU: pip install triton",
}


def _package(name: str, advice: str) -> Availability:
    try:
        return Availability(name, True, version(name))
    except PackageNotFoundError:
        return Availability(name, False, advice)


def _compiler() -> Availability:
    found = compiler()
    return Availability("C compiler", found is not None, " ".join(found.command) if found is not None else WITHOUT)


def _kernels() -> Availability:
    """Whether what the compiler makes can be loaded and run."""
    try:
        answer = load_module("int gs_answer(void)\n{\n    return 42;\n}\n", ["gs_answer"]).gs_answer()
    except KernelFailure as error:
        return Availability("kernels in C", False, str(error))
    return Availability("kernels in C", answer == 42, "what the compiler makes runs here")


def _backend() -> Availability:
    """What calls run on here, and what else there is."""
    chosen = str(settings.backend)
    others = f"gs.settings.backend or GRADSCRIPT_BACKEND chooses among {', '.join(BACKENDS)}"
    if chosen not in BACKENDS:
        return Availability("backend", False, f"{chosen!r} is none: {others}")
    runs = "by kernels in C" if chosen != "numpy" and compiler() is not None else "op by op"
    return Availability("backend", True, f"{chosen}: calls on the CPU run {runs}; {others}")


def _headers() -> Availability:
    """Whether calls can go to kernels without Python in between."""
    missing = missing_headers()
    advice = f"{missing} is missing, so small calls take longer: apt-get install python3-dev, or a Python that has it"
    return Availability("Python headers", not missing, advice if missing else "calls go straight to kernels in C")


def _cache() -> Availability:
    try:
        return Availability("cache", True, str(cache_directory()))
    except OSError as error:
        return Availability("cache", False, unusable(error))
