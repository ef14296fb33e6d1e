"""Running: what a call costs beside NumPy, a node beside its op, and a gradient beside torch eager; what stays alive.

python benchmarks/execution.py
"""

from __future__ import annotations

import itertools
import time
import tracemalloc
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import gradscript as gs
import numpy as np
import torch
from harness import Row, medians, table

CALLS = 200
"""Calls per turn, where one takes about a microsecond."""

CHAIN = """\
def chain(x, w):
    y = x * w
    y = torch.tanh(y)
    y = y + x
    y = y * w
    y = torch.sigmoid(y)
    y = y * x
    y = torch.exp(y)
    y = y - w
    y = torch.relu(y)
    y = y * y
    y = y + w
    return y.sum()
"""
"""Twelve ops, which torch runs from the same text."""


def repeated(work: Callable[[], Any]) -> Callable[[], None]:
    def loop() -> None:
        for _ in itertools.repeat(None, CALLS):
            work()

    return loop


def calling() -> list[Row]:
    function = gs.CompilationUnit("def mul(x, y):\n    return x * y\n").mul
    x = np.ones(16, np.float32)
    with np.errstate(all="ignore"):
        taken = medians({"ours": repeated(lambda: function(x, x)), "NumPy": repeated(lambda: np.multiply(x, x))}, 401)
    us = {name: 1e6 * seconds / CALLS for name, seconds in taken.items()}
    return [
        Row(
            "call of a one-op function, its plan in the cache", us["ours"], "µs", None, "NumPy's function", us["NumPy"]
        ),
        Row("the same, over the call of NumPy's", us["ours"] - us["NumPy"], "µs", 2),
    ]


def interpreting() -> list[Row]:
    """Nodes that alternate between two ufuncs, against the same calls written out."""
    count = 64
    body = [f"    x = {'x * w' if i % 2 else 'x + w'}" for i in range(count)]
    function = gs.CompilationUnit("\n".join(["def f(x, w):", *body, "    return x\n"])).f
    x = np.zeros(16, np.float32)

    def by_hand() -> Any:
        y, add, multiply = x, np.add, np.multiply
        for _ in itertools.repeat(None, count // 2):
            y = multiply(add(y, x), x)
        return y

    taken = medians({"ours": lambda: function(x, x), "NumPy": by_hand}, turns=2_000, warm=20)
    us = {name: 1e6 * seconds / count for name, seconds in taken.items()}
    return [
        Row(f"interpreter, per node of {count}", us["ours"], "µs", None, "NumPy, written out", us["NumPy"]),
        Row("the same, over NumPy's", us["ours"] - us["NumPy"], "µs", 0.4),
    ]


def differentiating() -> list[Row]:
    ours = gs.value_and_grad(gs.CompilationUnit(CHAIN).chain, argnums=(0, 1))
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(16, dtype=np.float32) for _ in range(2))
    tensors = [torch.from_numpy(a).requires_grad_() for a in (x, w)]
    namespace: dict[str, Any] = {"torch": torch}
    exec(CHAIN, namespace)

    def eager() -> Any:
        loss = namespace["chain"](*tensors)
        return loss, torch.autograd.grad(loss, tensors)

    for mine, theirs in zip(ours(x, w)[1], eager()[1], strict=True):
        np.testing.assert_allclose(mine, theirs.numpy(), rtol=1e-4, atol=1e-5)
    taken = medians({"ours": lambda: ours(x, w), "eager": eager}, turns=3_000, warm=50)
    us = {name: 1e6 * seconds for name, seconds in taken.items()}
    what = "forward and gradient of 12 ops on 16 elements"
    speedup = us["eager"] / us["ours"]
    return [
        Row(what, us["ours"], "µs", us["eager"] / 2, "torch eager", us["eager"]),
        Row(f"{what}, times faster than torch eager", speedup, "×"),
    ]


def looping() -> list[Row]:
    """Gradients of six rounds, written as a loop whose number of rounds is an argument, beside them written out.

    Those of a net, and those of ops by element, beside which the bookkeeping of rounds weighs most.

    Six rounds that stand in the text, `range(6)`, are written out by the compiler.
    """
    rng = np.random.default_rng(0)
    net = [rng.standard_normal(shape, dtype=np.float32) for shape in ((4, 16), (16, 16), (16,))]
    chain = [rng.standard_normal(64, dtype=np.float32) for _ in range(3)]
    return [
        *_rounds("a net", ["y = torch.tanh(y @ w + b)"], net),
        *_rounds("ops by element", ["y = torch.sin(y)", "y = y * w + b"], chain),
    ]


def _rounds(what: str, body: Sequence[str], arrays: Sequence[Any]) -> list[Row]:
    written = gs.CompilationUnit("\n    ".join(["def f(x, w, b):", "y = x", *body * 6, "return y.sum()"]) + "\n").f
    inside = [f"    {line}" for line in body]
    text = ["def f(x, w, b, n: int):", "y = x", "for i in range(n):", *inside, "return y.sum()"]
    looped = gs.CompilationUnit("\n    ".join(text) + "\n").f

    def through(function: Any, *rest: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
        gradient = gs.grad(function, argnums=(0, 1, 2))

        def pulled_back() -> Any:
            _, pullback = gs.vjp(function, *arrays, *rest)
            return pullback(np.float32(1))

        return lambda: gradient(*arrays, *rest), pulled_back

    names = ("loop", "loop, vjp", "written", "written, vjp")
    works = dict(zip(names, through(looped, 6) + through(written), strict=True))
    for mine, theirs in zip(works["loop"](), works["written"](), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)
    taken = medians(works, turns=1_000, warm=20)
    us = {name: 1e6 * seconds for name, seconds in taken.items()}
    limit = 1.3
    return [
        Row(f"{how} of six rounds of {what}, a loop", us[loop], "µs", limit * us[out], "written out", us[out])
        for how, loop, out in (
            ("gs.grad", "loop", "written"),
            ("gs.vjp and its pullback", "loop, vjp", "written, vjp"),
        )
    ]


def recording() -> list[Row]:
    """The same on the tape: a call of the function and a backward, and of one operator."""
    function = gs.CompilationUnit(CHAIN).chain
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(16, dtype=np.float32) for _ in range(2)]
    variables = [gs.tape.Variable(a) for a in arrays]
    tensors = [torch.from_numpy(a).requires_grad_() for a in arrays]
    namespace: dict[str, Any] = {"torch": torch}
    exec(CHAIN, namespace)

    def through(chain: Callable[..., Any], values: Sequence[Any]) -> Callable[[], None]:
        def work() -> None:
            for value in values:
                value.grad = None
            chain(*values).backward()

        return work

    works = {
        "ours": through(function, variables),
        "eager": through(namespace["chain"], tensors),
        "ours, one": through(lambda x, w: (x * w).sum(), variables),
        "eager, one": through(lambda x, w: (x * w).sum(), tensors),
    }
    works["ours"]()
    works["eager"]()
    for mine, theirs in zip(variables, tensors, strict=True):
        np.testing.assert_allclose(mine.grad.data, theirs.grad.numpy(), rtol=1e-4, atol=1e-5)
    taken = medians(works, turns=2_000, warm=50)
    us = {name: 1e6 * seconds for name, seconds in taken.items()}
    return [
        Row("12 ops and backward on Variables", us["ours"], "µs", None, "torch eager", us["eager"]),
        Row("two operators and backward on Variables", us["ours, one"], "µs", None, "torch eager", us["eager, one"]),
    ]


def keeping() -> list[Row]:
    """Peak memory of chains of tanh, in arrays: what an op makes dies with its only user."""
    x = np.ones(1 << 16)
    peaks = {}
    for count in (10, 100):
        body = ["    x = torch.tanh(x)"] * count
        function = gs.CompilationUnit("\n".join(["def f(x):", *body, "    return x\n"])).f
        with gs.tape.no_grad():
            function(x)
            tracemalloc.start()
            function(x)
            peaks[count] = tracemalloc.get_traced_memory()[1] / x.nbytes
            tracemalloc.stop()
    growth = peaks[100] / peaks[10]
    return [
        Row("peak memory of 100 ops without gradients, in arrays", peaks[100], "", 2.5),
        Row("the same, over that of 10 ops", growth, "×", 1.1),
    ]


def compiling_plans() -> list[Row]:
    function = gs.CompilationUnit(CHAIN).chain
    x = np.ones(16, np.float32)
    function(x, x)
    times = []
    for _ in range(25):
        function.executor.clear()
        started = time.perf_counter()
        function(x, x)
        times.append(time.perf_counter() - started)
    return [Row("a new plan for 12 ops", 1e3 * sorted(times)[len(times) // 2], "ms")]


def specialising() -> list[Row]:
    """The same function on sizes that it has seen, with what hangs on them decided."""
    source = """\
def f(x, w):
    y = x
    for i in range(x.size(0)):
        if i < x.numel():
            y = y * w + y.view(x.size(0), x.size(1))
    return y
"""
    plain, profiled = (gs.CompilationUnit(source).f for _ in range(2))
    x = np.ones((4, 4), np.float32)

    def with_profile() -> None:
        with gs.settings.profiling(True):
            profiled(x, x)

    np.testing.assert_array_equal(plain(x, x), profiled(x, x))
    taken = medians({"plain": lambda: plain(x, x), "profiled": with_profile}, turns=1_000, warm=10)
    us = {name: 1e6 * seconds for name, seconds in taken.items()}
    return [Row("a loop over a size, profiled", us["profiled"], "µs", None, "the general plan", us["plain"])]


def tracing() -> list[Row]:
    x = np.ones(16, np.float32)

    def chain(value: Any, count: int) -> Any:
        for _ in range(count):
            value = value * 0.5
        return value

    def traced(count: int) -> Callable[[], object]:
        return lambda: gs.trace(lambda value: chain(value, count), x, check=False)

    fake = torch.ones(16)
    theirs: Callable[[], object] = lambda: torch.jit.trace(lambda value: chain(value, 500), fake, check_trace=False)  # noqa: E731
    taken = medians({"500": traced(500), "1,000": traced(1_000), "torch": theirs}, turns=9)
    return [
        Row("trace 500 ops", 1e3 * taken["500"], "ms", None, "torch.jit.trace", 1e3 * taken["torch"]),
        Row("trace 1,000 ops, over 500", taken["1,000"] / taken["500"], "×", 2.3),
    ]


MEASURES = (calling, interpreting, specialising, differentiating, looping, recording, keeping, compiling_plans, tracing)


def main() -> None:
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    torch.set_num_threads(1)
    print(table([row for measure in MEASURES for row in measure()]))


if __name__ == "__main__":
    main()
