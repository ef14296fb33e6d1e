"""The table in docs/torchscript.md: `python tests/torchscript/torchscript_table.py` writes it, a test compares it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from samples.arrays import Leaf
from torchscript_blocks import definitions, helper_names, pair_names
from torchscript_differences import DIFFERENCES, PARTLY, Difference
from torchscript_runs import EAGER_INEXACT, NO_SECOND, Run, differences, function, has_second, run, units
from torchscript_samples import SAMPLES

PAGE = Path(__file__).parents[2] / "docs" / "torchscript.md"

_PAGE = """\
# TorchScript's own formulas

PyTorch carries {functions} functions in a Python subset as text inside its library: {pairs} symbolic gradients,
which return a closure `backward`, and {helpers} helpers that those call. They are formulas that Gradscript did not
write, for another compiler, so they measure the language. `tests/torchscript` reads them from the installed torch,
compiles every block as it stands, lifts the pairs, and runs each forward and backward in float64 beside torch's eager
autograd: by `f.forward` and `f.backward`, by `gs.vjp`, and to second order. No line of theirs is kept here.

`make torchscript` writes this page; a test fails when it is out of date.

**{compiled} of {pairs} compile and lift, and {helpers_compiled} of {helpers} helpers. {right} of {pairs} equal eager
on all their samples.** The other {wrong} do too, but for the inputs listed below, where they give what TorchScript
gives. The samples are finite but for a few; at infinities, second derivatives are not held to eager's.

| Function | Compiles | Samples | Equals eager | Note |
|---|---|---|---|---|
{rows}

A gradient is summed to the shape of its argument before it is compared, as torch's engine and `gs.vjp` do; no gradient
counts as one of zeros.

## Where eager gives something else

For output gradients of ones. Ours is TorchScript's: `torch.jit` is asked too.

| Function | At | Ours | Eager's | Why |
|---|---|---|---|---|
{differences}

Our own formulas follow eager at each of these: see [conventions](conventions.md).

## What is not compared

| Function | What | Why |
|---|---|---|
{rest}
"""


@cache
def runs(name: str) -> tuple[Run, ...]:
    """Every sample of a function, run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tuple(run(name, sample) for sample in SAMPLES[name])


@cache
def outcomes(name: str) -> tuple[tuple[str, ...], ...]:
    """For each sample of a function, how it differs from eager, in words."""
    return tuple(tuple(differences(found, EAGER_INEXACT.get(name, 0.0))) for found in runs(name))


def page() -> str:
    known = {name for unit in units() for name in unit}
    names, differing = pair_names(), {d.function for d in DIFFERENCES}
    compiled = [name for name in names if name in known and function(name).pair is not None]
    right = [name for name in compiled if not any(outcomes(name)) and name not in differing]
    return _PAGE.format(
        functions=len(definitions()),
        pairs=len(names),
        helpers=len(helper_names()),
        compiled=len(compiled),
        helpers_compiled=sum(name in known for name in helper_names()),
        right=len(right),
        wrong=len(names) - len(right),
        rows="\n".join(_row(name, name in compiled, name in differing) for name in names),
        differences="\n".join(map(_difference, DIFFERENCES)),
        rest="\n".join(_rest()),
    )


def _row(name: str, compiled: bool, differs: bool) -> str:
    equals = "no" if not compiled or any(outcomes(name)) else "but for some" if differs else "yes"
    notes = [PARTLY.get(name, "")]
    if name in EAGER_INEXACT:
        notes.append("eager's own constant is a float32")
    if name in NO_SECOND:
        notes.append("second derivatives: see below")
    note = "; ".join(filter(None, notes))
    return f"| `{name}` | {'yes' if compiled else 'no'} | {len(SAMPLES[name])} | {equals} | {note} |"


def _rest() -> list[str]:
    every = "all samples"
    return [
        f"| `{name}` | second derivatives of {_count(name) or every} | {why} |" for name, (_, why) in NO_SECOND.items()
    ]


def _count(name: str) -> str:
    left_out = sum(not has_second(name, sample) for sample in SAMPLES[name])
    return "" if left_out == len(SAMPLES[name]) else f"{left_out} of {len(SAMPLES[name])} samples"


def _difference(difference: Difference) -> str:
    names = [argument.name for argument in function(difference.function).schema.arguments]
    shown = ", ".join(f"{n} = {written(_value(v))}" for n, v in zip(names, difference.sample, strict=True))
    mine, theirs = both(difference)
    return f"| `{difference.function}` | `{shown}` | `{mine}` | `{theirs}` | {difference.why} |"


def both(difference: Difference) -> tuple[str, str]:
    """Our gradients and eager's, as the page writes them; "an error" where ours fail."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = run(difference.function, difference.sample, ones=True, fails=True)
    ours = found.by_vjp if found.by_vjp else "an error"
    present = [i for i, value in enumerate(found.eager_gradients) if value is not None]
    theirs = [found.eager_gradients[i] for i in present]
    mine = ours if isinstance(ours, str) else written_all([ours[i] for i in present])
    expected = written_all(theirs)
    return (mine, expected) if mine != expected else (_exact(found.by_vjp[0]), _exact(theirs[0]))


def _exact(value: np.ndarray) -> str:
    return "[" + ", ".join(f"{element:.12g}" for element in value) + "]"


def written_all(gradients: Sequence[Any]) -> str:
    return "; ".join(written(gradient) for gradient in gradients)


def written(value: Any) -> str:
    """A value to four digits; there is no minus zero on the page."""
    if isinstance(value, np.ndarray) and value.size == 0:
        return f"zeros({', '.join(map(str, value.shape))})"
    if isinstance(value, list) or np.ndim(value):
        return f"[{', '.join(map(written, value))}]"
    is_plain = value is None or isinstance(value, bool | str)
    return str(value) if is_plain else f"{float(value) + 0.0:.4g}"


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return [_value(item) for item in value]
    return np.asarray(value.draw(np.random.default_rng(0))) if isinstance(value, Leaf) else value


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
