"""A program that is wrong in the way of a code, and a right one beside it."""

from __future__ import annotations

from ...lang.light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Example:
    """A wrong program and a right one.

    `seen` says what shows the code: compiling the source ("source"), taking the gradient of f ("gradient"), taking it
    with a budget of 1 byte ("budget"), making an op of torch of f ("torch_op"), exporting it ("export"), reading the
    text as IR ("ir"), or `gradscript lint` ("lint").
    """

    wrong: str
    right: str
    seen: str = "source"
