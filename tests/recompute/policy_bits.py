"""The bits of gradients under every policy, of random programs, on both backends: arrays, and kernels by their IR.

`python tests/recompute/policy_bits.py [COUNT]` runs so many programs and prints those whose bits depend on the policy.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gradscript as gs
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).parents[1] / "fusion"))

from array_programs import random_source, run_fused
from gradscript.compiler.autodiff.differentiable import differentiable_graph
from gradscript.compiler.fusion.fuse import Unfusable, fuse_pair
from gradscript.compiler.recompute import policy
from gradscript.compiler.shapes.propagate import ShapeError
from gradscript.runtime.kernels.listing import known_layout
from program_generator import Programs

POLICIES = ("save_all", "mirror", "min_cut", "recompute_all", "budget=24")


def array(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng((seed, *shape)).standard_normal(shape)


def on_arrays(function: gs.Function, values: Sequence[Any], spec: str) -> list[Any]:
    value, pullback = gs.vjp(function, *values, policy=spec)
    results = value if isinstance(value, tuple) else (value,)
    slopes = tuple([np.cos(result) for result in results])
    return [*results, *pullback(slopes if isinstance(value, tuple) else slopes[0])]


def on_kernels(function: gs.Function, values: Sequence[Any], spec: str) -> list[Any]:
    given = [known_layout(value, settled=True) for value in values]
    wanted = [isinstance(value, np.ndarray) for value in values]
    graph = differentiable_graph(function.callee)
    pair = fuse_pair(graph, given, wanted, policy(spec), lambda primitive, dtype: True)
    value = function(*values)
    slopes = [np.cos(result) for result in (value if isinstance(value, tuple) else (value,))]
    results, gradients, _ = run_fused(pair, list(values), slopes)
    return [*results, *(gradients.get(i) for i in range(len(values)))]


BACKENDS: dict[str, Callable[[gs.Function, Sequence[Any], str], list[Any]]] = {
    "arrays": on_arrays,
    "kernels": on_kernels,
}


def programs(seed: int) -> list[tuple[str, list[Any]]]:
    """Two texts, and what each takes."""
    return [
        (Programs(seed).function(), [array(3), array(3, seed=1), 3]),
        (random_source(seed), [array(4, 4), array(4, 4, seed=1)]),
    ]


def differing(source: str, values: Sequence[Any], backend: str) -> list[str] | None:
    """The policies whose bits are not those of the first; None where the program does not run on the backend."""
    try:
        function = gs.CompilationUnit(source).f
        found = {spec: _bits(BACKENDS[backend](function, values, spec)) for spec in POLICIES}
    except (gs.CompileError, gs.RuntimeFailure, Unfusable, ShapeError):
        return None
    return [spec for spec in POLICIES if found[spec] != found[POLICIES[0]]]


def _bits(results: Sequence[Any]) -> list[Any]:
    return [None if result is None else np.asarray(result).tobytes() for result in results]


def main(arguments: Sequence[str]) -> int:
    ran = failed = 0
    for seed in range(int(arguments[0]) if arguments else 200):
        for source, values in programs(seed):
            for backend in BACKENDS:
                found = differing(source, values, backend)
                ran += found is not None
                if found:
                    failed += 1
                    print(f"seed {seed}, {backend}: {', '.join(found)}\n{source}", flush=True)
    print(f"{ran} runs of every policy, {failed} whose bits differ")
    return min(failed, 1)


if __name__ == "__main__":
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        sys.exit(main(sys.argv[1:]))
