"""`gradscript show --stage kernels|triton|c|ptx`: the fused kernels of a function.

No device is needed; the last stage needs Triton, which compiles for any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...lang.light_dataclasses import dataclass
from ...runtime.face.function import Function
from ...runtime.kernels.failure import KernelFailure
from ...runtime.kernels.listing import KernelInfo, KernelListing
from ...runtime.kernels.triton.compile import Binary
from ...runtime.values.text_tables import table
from .arguments import arguments_for
from .loading import CliError

Data = dict[str, Any]


@dataclass(frozen=True)
class KernelText:
    """One stage of a function's kernels: as text, and as data for JSON."""

    text: str
    data: Data


def kernels_of(function: Function, shapes: Sequence[str], texts: Sequence[str], dtype: str) -> KernelListing:
    """The kernels for the arguments that the command line describes. CliError for what does not read."""
    args, kwargs = arguments_for(function, shapes, texts, dtype, only_shapes=True)
    return function.kernels(*args, **kwargs)


def kernel_text(listing: KernelListing, stage: str, target: str) -> KernelText:
    """One of `STAGES`. CliError where Triton is needed and missing, or does not compile a kernel."""
    return STAGES[stage](listing, target)


# --- stages ---


def _ir(listing: KernelListing, target: str) -> KernelText:
    data = [_described(part, info) | {"ir": info.ir} for part, info in _parts(listing)]
    return KernelText(
        "\n\n".join([str(listing), *(info.ir.rstrip() for _, info in _parts(listing))]), _data(listing, data)
    )


def _triton(listing: KernelListing, target: str) -> KernelText:
    data = [_described(part, info) | {"triton": info.text} for part, info in _parts(listing)]
    texts = [info.text.rstrip() for _, info in _parts(listing)]
    return KernelText("\n\n\n".join(texts) or _nothing(listing, "#"), _data(listing, data))


def _assembly(listing: KernelListing, target: str) -> KernelText:
    compiled = [(part, info, _compiled(info, target)) for part, info in _parts(listing)]
    rows = [
        [info.name, str(binary.registers), str(binary.spills), f"{binary.shared:,} bytes"]
        for _, info, binary in compiled
    ]
    heading = f"compiled for {target}:\n" + table(["kernel", "registers", "spills", "shared memory"], rows)
    mark = ";" if target.startswith("gfx") else "//"
    if not compiled:
        heading = _nothing(listing, mark)
    texts = [f"{mark} {info.name}\n{binary.assembly.strip()}" for _, info, binary in compiled]
    data = [_described(part, info) | _binary(binary) for part, info, binary in compiled]
    return KernelText("\n\n".join([heading, *texts]), _data(listing, data))


def _c(listing: KernelListing, target: str) -> KernelText:
    shown = "\n\n".join(listing.c.functions) or f"/* {_nothing(listing, '').strip()} */"
    return KernelText(shown, {"forward": listing.c.forward, "backward": listing.c.backward})


STAGES: dict[str, Callable[[KernelListing, str], KernelText]] = {
    "kernels": _ir,
    "triton": _triton,
    "c": _c,
    "ptx": _assembly,
}
"""By name; the target is what the last one compiles for."""


def _nothing(listing: KernelListing, mark: str) -> str:
    """What is said, as a comment, of a function that has no kernels."""
    return f"{mark} no kernels; by the library: {', '.join(listing.library) or 'nothing'}"


def _compiled(info: KernelInfo, target: str) -> Binary:
    try:
        return info.compile(target)
    except KernelFailure as error:
        raise CliError(str(error)) from error


def _parts(listing: KernelListing) -> Iterable[tuple[str, KernelInfo]]:
    yield from (("forward", info) for info in listing.forward)
    yield from (("backward", info) for info in listing.backward)


def _data(listing: KernelListing, kernels: list[Data]) -> Data:
    forward, backward = listing.least_bytes
    return {
        "kernels": kernels,
        "library": list(listing.library),
        "saved_bytes": listing.saved_bytes,
        "least_bytes": {"forward": forward, "backward": backward},
    }


def _described(part: str, info: KernelInfo) -> Data:
    return {
        "name": info.name,
        "pass": part,
        "function": info.function,
        "grid": list(info.grid),
        "signature": info.signature,
        "constants": info.constants,
        "options": info.options,
        "bytes_read": info.bytes_read,
        "bytes_written": info.bytes_written,
        "flops": info.flops,
    }


def _binary(binary: Binary) -> Data:
    return {
        "target": binary.target,
        "registers": binary.registers,
        "spills": binary.spills,
        "shared": binary.shared,
        "assembly": binary.assembly,
    }
