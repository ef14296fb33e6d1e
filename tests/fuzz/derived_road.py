"""`gs.derive` of every function of a program: source that compiles, stays what it is, and has torch's gradients."""

from __future__ import annotations

import gradscript as gs
from gradscript.authoring.derive.derivation import derivation_of
from gradscript.authoring.derive.placing import with_functions
from gradscript.compiler.ir.graph import without_backward
from gradscript.lang.source import Source
from gradscript.runtime.face.function import Function
from subject import Mismatch, Subject

_REFUSED = ("no gradient", "take them as an argument", "that is source")
"""What is said where there is nothing to derive, where a derivative would draw other random numbers, and where lists of
gradients in which some are missing are differentiated once more."""


def derived_unit(subject: Subject, order: int = 1) -> gs.CompilationUnit:
    """The program with derived backwards in each function that can have one, from the first to the last."""
    text = subject.program.source
    for name in subject.unit.functions:
        function = gs.CompilationUnit(text)[name]
        try:
            made = _derived(function, order)
        except ValueError as error:
            if not any(reason in str(error) for reason in _REFUSED):
                raise
            continue
        text = with_functions(Source(text), {name: made})
        again = gs.derive(gs.CompilationUnit(text)[name], order)
        if again.rstrip("\n") != made.rstrip("\n"):
            raise Mismatch(f"derived\n{made}\nand derived again\n{again}")
    return gs.CompilationUnit(text)


def _derived(function: Function, order: int) -> str:
    """The function with a backward that nobody wrote; to second order, with one in its author's."""
    if function.pair is None or order > 1:
        return gs.derive(function, order)
    return derivation_of(Function(without_backward(function.callee))).text
