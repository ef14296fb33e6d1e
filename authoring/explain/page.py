"""`gradscript explain CODE`: a page."""

from __future__ import annotations

from ...lang.diagnostics import CODES as OF_SOURCE
from ...lang.diagnostics import nearest
from ...runtime.failures.failure import CODES as OF_RUNS
from ..lint.findings import CODES as OF_LINT
from .calls import CALLS, ExampleCall
from .example import Example
from .examples import EXAMPLES

MEANINGS = OF_SOURCE | OF_RUNS | OF_LINT
"""Every code of the compiler, of what runs, and of the linter."""

PAGES: dict[str, Example | ExampleCall] = {**EXAMPLES, **CALLS}
"""A wrong program and a right one for each."""


def explain(code: str) -> str:
    """What a code means, a program that has it and one that has not. KeyError, with the nearest, for an unknown one."""
    known = code.upper()
    if known not in MEANINGS:
        hint = nearest(known, MEANINGS)
        raise KeyError(f"there is no code '{code}'{hint}")
    example = PAGES[known]
    return (
        f"{known}: {MEANINGS[known]}\n\nwrong:\n\n{_indented(example.wrong)}\n\nright:\n\n{_indented(example.right)}\n"
    )


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" if line else "" for line in text.rstrip("\n").splitlines())
