"""Schedules near the one chosen, timed for each kernel of the suite on a GPU: what the table of limits is held to.

python benchmarks/schedules.py swiglu softmax         of these functions; all where none is given
python benchmarks/schedules.py --results DIRECTORY    also writes a line of JSON for each kernel there

Several processes, each with its functions, compile side by side; `--lock FILE`, the same for all, has them measure in
turn. Prepared are all schedules first, then each is timed as often, in turns.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gradscript.compiler.codegen.triton.module import grid
from gradscript.compiler.scheduling.schedule import Flat, LoopedRow, Row, Schedule, Serial, Tiled
from gradscript.compiler.types.open_sizes import closed, whole
from gradscript.lang.light_dataclasses import replace
from inputs.suite_shapes import ARGUMENTS, COLUMNS, NO_BACKWARD
from kernels import DTYPES, Benchmark, _both, _forward, log, missing

Launch = tuple[Any, Any, list[Any], list[Any]]
"""A kernel, values of its open sizes, tensors and numbers."""
FACTORS = (0.25, 0.5, 1, 2, 4)


def schedules_near(default: Schedule) -> list[Schedule]:
    """The default first; blocks from a quarter to four times as large, warps from 1 to 32, stages from 1 to 4."""
    found = [default]
    for changed in _blocks(default):
        for warps in (default.num_warps // 2, default.num_warps, default.num_warps * 2):
            for stages in _stages(default):
                for registers in _registers(default):
                    tried = replace(changed, num_warps=warps, num_stages=stages, most_registers=registers)
                    if tried not in found and 1 <= warps <= 32:
                        found.append(tried)
    return found


def _blocks(schedule: Schedule) -> Iterator[Schedule]:
    for factor in FACTORS:
        match schedule:
            case Flat(block=block) if block * factor >= 128:
                yield replace(schedule, block=int(block * factor))
            case LoopedRow(block=block, parts=parts) if block * factor >= 8:
                yield replace(schedule, block=int(block * factor), parts=max(min(parts, int(parts * factor)), 1))
            case Row(rows=rows) | Serial(rows=rows) | Tiled(rows=rows) if rows * factor >= 1 and factor <= 2:
                yield replace(schedule, rows=int(rows * factor))


def _stages(schedule: Schedule) -> Sequence[int]:
    return (
        sorted({schedule.num_stages, 1, 2, 3}) if isinstance(schedule, LoopedRow | Serial) else (schedule.num_stages,)
    )


def _registers(schedule: Schedule) -> Sequence[int]:
    return sorted({schedule.most_registers, 255}) if isinstance(schedule, Serial) else (schedule.most_registers,)


class Recorder:
    """Notes the kernels that calls launch, with what each was given."""

    def __init__(self) -> None:
        from gradscript.runtime.kernels.triton.kernel import TritonKernel

        self.launches: list[Launch] = []
        close, launch = TritonKernel.closed, TritonKernel.launch

        def noting_sizes(kernel: Any, atoms: Sequence[int]) -> Any:
            found = close(kernel, atoms)
            found._atoms = tuple(atoms)
            return found

        def noting(kernel: Any, tensors: Sequence[Any], numbers: Sequence[float], stream: int | None) -> None:
            launch(kernel, tensors, numbers, stream)
            self.launches.append((kernel, getattr(kernel, "_atoms", ()), list(tensors), list(numbers)))

        TritonKernel.closed, TritonKernel.launch = noting_sizes, noting  # type: ignore[method-assign]

    def of(self, work: Callable[[], object]) -> list[Launch]:
        """Those of a second call: what a first one plans is there."""
        work()
        self.launches.clear()
        work()
        return list(self.launches)


def prepared(launch: Launch, schedule: Schedule) -> Callable[[], None]:
    """A launch of the kernel under a schedule, compiled and run once."""
    import torch
    from gradscript.compiler.kernel_ir.passed_sizes import passed_sizes
    from gradscript.runtime.kernels.triton.kernel import Built

    kernel, atoms, tensors, numbers = launch
    built = Built(kernel.kernel, schedule)
    sizes = (*passed_sizes(kernel.kernel).values(), *map(whole, built.emitted[1]))
    programs = grid(kernel.kernel, schedule)
    if atoms:
        sizes, programs = closed(sizes, atoms), closed(programs, atoms)
    given = (*tensors, *sizes, *numbers)
    run = built.prepare(given, programs)
    pointers = (*(tensor.data_ptr() for tensor in tensors), *sizes, *numbers)
    stream = torch.cuda.current_stream().cuda_stream
    run(*pointers, stream=stream)
    torch.cuda.synchronize()
    return lambda: run(*pointers, stream=stream)


def works_of(launch: Launch) -> dict[Schedule, Callable[[], None]]:
    found = {}
    for schedule in schedules_near(launch[0]._built.schedule):
        try:
            found[schedule] = prepared(launch, schedule)
        except Exception as error:
            log(f"  {schedule} fails: {type(error).__name__} {str(error).splitlines()[:1]}")
    return found


@contextmanager
def turn(lock: Path | None) -> Iterator[None]:
    """Alone among the processes that were given the same file."""
    if lock is None:
        yield
        return
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def bytes_of(tensors: Sequence[Any]) -> int:
    return sum({t.data_ptr(): t.numel() * t.element_size() for t in tensors}.values())


def measure(benchmark: Benchmark, recorder: Recorder, name: str, dtype: str, lock: Path | None) -> list[dict[str, Any]]:
    columns = COLUMNS.get(name, 4096)
    itemsize = 4 if dtype == "float32" else 2
    rows = -(-int(benchmark.bytes) // (columns * itemsize))
    arguments = benchmark._arguments(name, rows, columns, dtype)
    works = [_forward] if name in NO_BACKWARD else [_forward, _both]
    launches = [launch for work in works for launch in recorder.of(work(benchmark.unit[name], arguments))]
    found = []
    for launch in {launch[0].text: launch for launch in launches}.values():
        works = works_of(launch)
        with turn(lock):
            times = _medians(benchmark, works)
        found.append(_record(name, dtype, launch, times))
        print(_line(found[-1], benchmark.bandwidth), flush=True)
    return found


def _medians(benchmark: Benchmark, works: dict[Schedule, Callable[[], None]]) -> dict[Schedule, float]:
    return benchmark.timer.medians(works, benchmark.turns, warm=0)  # type: ignore[arg-type, return-value]


def _record(name: str, dtype: str, launch: Launch, times: dict[Schedule, float]) -> dict[str, Any]:
    kernel = launch[0]
    ordered = sorted(times.items(), key=lambda pair: pair[1])
    return {
        "function": name,
        "dtype": dtype,
        "kernel": kernel.kernel.name,
        "bytes": bytes_of(launch[2]),
        "chosen": repr(kernel._built.schedule),
        "seconds": times[kernel._built.schedule],
        "all": [[f"{s!r} {s.most_registers}", seconds] for s, seconds in ordered],
    }


def _line(found: dict[str, Any], bandwidth: float) -> str:
    best, quickest = found["all"][0]
    share = 100 * found["bytes"] / bandwidth
    return (
        f"{found['dtype'][:4]} {found['kernel']} {found['bytes'] / 1e6:.0f} MB {1e6 * found['seconds']:.0f} µs"
        f" {share / found['seconds']:.0f} % {found['chosen']}; {1e6 * quickest:.0f} µs {share / quickest:.0f} % {best}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(ARGUMENTS)}; all where none is given")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--dtypes", default=",".join(DTYPES), help="with commas between them")
    parser.add_argument("--megabytes", type=float, default=268.435456, help="of the largest tensor, at least")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--lock", type=Path, help="a file that several processes take in turn")
    given = parser.parse_args()
    reason = missing("cuda")
    if reason is not None:
        print(f"nothing is measured: {reason}")
        return 0
    with turn(given.lock):
        benchmark = Benchmark("cuda", given.megabytes, (), given.turns)
    recorder = Recorder()
    for name in given.names or list(ARGUMENTS):
        for dtype in given.dtypes.split(","):
            found = measure(benchmark, recorder, name, dtype, given.lock)
            if given.results is not None:
                given.results.mkdir(parents=True, exist_ok=True)
                lines = "".join(json.dumps(one) + "\n" for one in found)
                (given.results / f"schedules-{name}-{dtype}.jsonl").write_text(lines, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
