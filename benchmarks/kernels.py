"""Fused kernels on a GPU: times as fractions of what copying takes, and beside those of peers.

python benchmarks/kernels.py                 measures and prints tables; without a CUDA device it says so
python benchmarks/kernels.py --keep          also writes them to benchmarks/results/, as JSON and as Markdown
python benchmarks/kernels.py swiglu softmax  of these functions

The fraction is least bytes (each argument and result once) over time, over the bandwidth of a copy in the same run.
Times are medians of interleaved turns by CUDA events. `--device cpu` only tries the script out.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import gradscript as gs
from inputs.suite_shapes import ARGUMENTS, COLUMNS, NO_BACKWARD, NO_GRADIENT, Classes

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
DTYPES = ("float32", "bfloat16")
PEERS = ("eager", "compile", "liger")
TOLERANCES = {"float32": 1e-4, "bfloat16": 3e-2}
PACKAGES = ("gradscript", "torch", "triton", "liger-kernel", "numpy")
RANDOM = frozenset(("dropout_add_layer_norm",))
"""Functions whose results differ from call to call."""
FIXED_WIDTH = frozenset(("rope",))
Work = Callable[[], object]


@dataclass(frozen=True)
class Measured:
    """One function in one dtype. Seconds are by contender; `is_right` says whether ours gave what eager torch gives."""

    function: str
    dtype: str
    passes: str
    least_bytes: int
    seconds: Mapping[str, float]
    fraction: float
    is_right: bool


@dataclass(frozen=True)
class Overhead:
    """Seconds of the host for a call on 16 elements, by contender."""

    function: str
    passes: str
    seconds: Mapping[str, float]


class Benchmark:
    def __init__(self, device: str, megabytes: float, peers: Sequence[str], turns: int) -> None:
        from kernel_timing import Timer

        self.device, self.bytes, self.peers, self.turns = device, megabytes * 1e6, peers, turns
        self.timer = Timer(device)
        self.unit = gs.CompilationUnit((ROOT / "benchmarks" / "suite.grad").read_text(encoding="utf-8"), "suite.grad")
        self.bandwidth = self._copy_bandwidth()

    def _copy_bandwidth(self) -> float:
        """Bytes read and written by a second of `copy_`."""
        import torch

        source = torch.ones(int(self.bytes), dtype=torch.uint8, device=self.device)
        target = torch.empty_like(source)
        taken = self.timer.medians({"copy": lambda: target.copy_(source)}, self.turns)
        return 2 * source.numel() / taken["copy"]

    # --- at size ---

    def measure(self, name: str, dtype: str) -> list[Measured]:
        columns = COLUMNS.get(name, 4096)
        itemsize = 4 if dtype == "float32" else 2
        arguments = self._arguments(name, -(-int(self.bytes) // (columns * itemsize)), columns, dtype)
        contenders = self._contenders(name, arguments)
        is_right = self._agrees(name, dtype, contenders)
        forward, backward = self.unit[name].kernels(*arguments).least_bytes
        plain = self._seconds({peer: _forward(*call) for peer, call in contenders.items()})
        found = [self._measured(name, dtype, "forward", forward, plain, is_right)]
        if name not in NO_BACKWARD:
            both = self._seconds({peer: _both(*call) for peer, call in contenders.items()})
            found.append(self._measured(name, dtype, "forward + backward", forward + backward, both, is_right))
        return found

    def _measured(
        self, name: str, dtype: str, passes: str, least: int, seconds: Mapping[str, float], is_right: bool
    ) -> Measured:
        return Measured(name, dtype, passes, least, seconds, least / seconds["ours"] / self.bandwidth, is_right)

    def _seconds(self, works: Mapping[str, Work]) -> dict[str, float]:
        return self.timer.medians(_running(works), self.turns)

    def _arguments(self, name: str, rows: int, columns: int, dtype: str) -> list[Any]:
        import torch

        torch.manual_seed(0)
        return [self._tensor(name, i, given, dtype) for i, given in enumerate(ARGUMENTS[name](rows, columns))]

    def _tensor(self, name: str, position: int, given: Any, dtype: str) -> Any:
        import torch

        if isinstance(given, Classes):
            return torch.arange(given.rows, device=self.device) % given.count
        if not isinstance(given, tuple):
            return given
        tensor = torch.rand(given, device=self.device, dtype=getattr(torch, dtype))
        has_gradient = name not in NO_BACKWARD and position not in NO_GRADIENT.get(name, ())
        return tensor.requires_grad_(has_gradient)

    def _contenders(self, name: str, arguments: list[Any]) -> dict[str, tuple[Callable[..., Any], list[Any]]]:
        """Functions with their arguments, of which Liger-Kernel has its own: it writes to them."""
        import torch
        from peers.kernel_peers import TORCH, liger

        found: dict[str, tuple[Callable[..., Any], list[Any]]] = {"ours": (self.unit[name], arguments)}
        if "eager" in self.peers:
            found["eager"] = (TORCH[name], arguments)
        if "compile" in self.peers:
            torch._dynamo.reset()
            found["compile"] = (torch.compile(TORCH[name], dynamic=False), arguments)
        theirs = liger().get(name) if "liger" in self.peers else None
        if theirs is not None:
            found["liger"] = (theirs, [_clone(value) for value in arguments])
        return found

    def _agrees(self, name: str, dtype: str, contenders: Mapping[str, Any]) -> bool:
        import torch
        from peers.kernel_peers import TORCH

        if name in RANDOM:
            return True
        function, arguments = contenders["ours"]
        with torch.no_grad():
            found, wanted = (_tensors(f(*arguments)) for f in (function, TORCH[name]))
        close = TOLERANCES[dtype]
        return all(
            torch.allclose(a.float(), b.float(), rtol=close, atol=close) for a, b in zip(found, wanted, strict=True)
        )

    # --- per call ---

    def overhead(self, name: str) -> list[Overhead]:
        contenders = self._contenders(name, self._arguments(name, 1, 16, "float32"))
        works = {"forward": {peer: _forward(*call) for peer, call in contenders.items()}}
        if name not in NO_BACKWARD:
            works["forward + backward"] = {peer: _both(*call) for peer, call in contenders.items()}
        turns = min(self.turns, 7)
        return [Overhead(name, p, self.timer.overheads(_running(w), turns)) for p, w in works.items()]


def _running(works: Mapping[str, Work]) -> dict[str, Work]:
    """Those that run; a peer that fails is told of and left out."""
    found = {}
    for peer, work in works.items():
        try:
            work()
        except Exception as error:
            if peer == "ours":
                raise
            log(f"  {peer} fails: {type(error).__name__}: {str(error).splitlines()[:1]}")
            continue
        found[peer] = work
    return found


def _forward(function: Callable[..., Any], arguments: list[Any]) -> Work:
    import torch

    def run() -> None:
        with torch.no_grad():
            function(*arguments)

    return run


def _both(function: Callable[..., Any], arguments: list[Any]) -> Work:
    import torch

    inputs = [value for value in arguments if getattr(value, "requires_grad", False)]
    seeds: list[Any] = []

    def run() -> None:
        outputs = _tensors(function(*arguments))
        if not seeds:
            seeds.extend(torch.rand_like(output) for output in outputs)
        torch.autograd.grad(outputs, inputs, seeds)

    return run


def _tensors(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple | list) else [result]


def _clone(value: Any) -> Any:
    import torch

    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().clone().requires_grad_(value.requires_grad)


# --- results ---


def circumstances(device: str) -> dict[str, Any]:
    import torch

    found: dict[str, Any] = {"python": platform.python_version(), "system": platform.platform(), "packages": {}}
    for name in PACKAGES:
        try:
            found["packages"][name] = version(name)
        except PackageNotFoundError:
            continue
    if device == "cpu":
        return found | {"device": "cpu"}
    properties = torch.cuda.get_device_properties(0)
    found |= {
        "device": properties.name,
        "capability": f"{properties.major}.{properties.minor}",
        "multiprocessors": properties.multi_processor_count,
        "memory": properties.total_memory,
        "cuda": torch.version.cuda,
    }
    query = ["nvidia-smi", "--query-gpu=driver_version,clocks.max.sm,clocks.max.mem", "--format=csv,noheader"]
    try:
        found["driver, clocks"] = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        log("nvidia-smi does not run: the driver's version is not noted")
    return found


def sizes_table(found: Sequence[Measured]) -> str:
    rows = []
    for one in found:
        shown = [f"{1e6 * one.seconds[peer]:,.0f}" if peer in one.seconds else "" for peer in ("ours", *PEERS)]
        share = f"{100 * one.fraction:.0f} %" + ("" if one.is_right else " **WRONG**")
        rows.append([f"`{one.function}`", one.dtype, one.passes, f"{one.least_bytes / 1e6:,.0f}", *shown, share])
    return _markdown(
        ["function", "dtype", "passes", "least MB", "ours µs", *(f"{p} µs" for p in PEERS), "of a copy"], rows
    )


def progress(found: Sequence[Measured], name: str, dtype: str) -> str:
    """Lines of what was found of one function, for whoever waits."""
    return "\n".join(
        f"  {one.passes}: {100 * one.fraction:.0f} % of a copy; µs: "
        + ", ".join(f"{peer} {1e6 * seconds:.0f}" for peer, seconds in one.seconds.items())
        for one in found
        if (one.function, one.dtype) == (name, dtype)
    )


def overhead_table(found: Sequence[Overhead]) -> str:
    rows = [
        [f"`{one.function}`", one.passes]
        + [f"{1e6 * one.seconds[peer]:.1f}" if peer in one.seconds else "" for peer in ("ours", *PEERS)]
        for one in found
    ]
    return _markdown(["function", "passes", "ours µs", *(f"{peer} µs" for peer in PEERS)], rows)


def _markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def keep(text: str, data: dict[str, Any], folder: Path) -> None:
    device = re.sub(r"[^a-z0-9]+", "-", str(data["circumstances"]["device"]).lower()).strip("-")
    stem = f"kernels-{datetime.date.today().isoformat()}-{device}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{stem}.json").write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    (folder / f"{stem}.md").write_text(text + "\n", encoding="utf-8")


def log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def missing(device: str) -> str | None:
    """Why nothing can be measured; None if it can."""
    try:
        import torch
        import triton  # noqa: F401
    except ImportError as error:
        return f"{error.name} is not installed"
    return None if device == "cpu" or torch.cuda.is_available() else "torch finds no CUDA device"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(ARGUMENTS)}; all where none is given")
    parser.add_argument("--keep", action="store_true", help="write the results to --results")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--megabytes", type=float, default=268.435456, help="of the largest tensor, at least")
    parser.add_argument("--turns", type=int, default=25)
    parser.add_argument("--peers", default=",".join(PEERS), help="with commas between them")
    given = parser.parse_args()
    unknown = [name for name in given.names if name not in ARGUMENTS]
    if unknown:
        parser.error(f"no function {', '.join(unknown)}")
    reason = missing(given.device)
    if reason is not None:
        print(f"nothing is measured: {reason}")
        return 0
    benchmark = Benchmark(given.device, given.megabytes, given.peers.split(","), given.turns)
    names = given.names or list(ARGUMENTS)
    measured: list[Measured] = []
    for name in names:
        for dtype in DTYPES:
            log(f"{name}, {dtype}")
            measured += benchmark.measure(name, dtype)
            log(progress(measured, name, dtype))
    overheads = [found for name in names if name not in FIXED_WIDTH for found in benchmark.overhead(name)]
    around = circumstances(given.device)
    text = "\n\n".join(
        [
            f"# Kernels on {around['device']}, {datetime.date.today().isoformat()}",
            "; ".join(f"{key} {value}" for key, value in around.items()),
            f"A copy moves {benchmark.bandwidth / 1e9:,.0f} GB/s.",
            sizes_table(measured),
            "Host time of a call on 16 elements:",
            overhead_table(overheads),
        ]
    )
    print(text)
    if given.keep:
        data = {
            "circumstances": around,
            "copy_bandwidth": benchmark.bandwidth,
            "measured": [asdict(one) for one in measured],
            "overheads": [asdict(one) for one in overheads],
        }
        keep(text, data, given.results)
    return 0 if all(one.is_right for one in measured) else 1


if __name__ == "__main__":
    sys.exit(main())
