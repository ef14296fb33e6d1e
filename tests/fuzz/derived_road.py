"""`gs.derive` of every function of a program: source that compiles, stays what it is, and has torch's gradients."""

from __future__ import annotations

import gradscript as gs
from gradscript.authoring.derive.derivation import derivation_of
from gradscript.authoring.derive.placing import replaced
from gradscript.compiler.ir.graph import without_backward
from gradscript.lang.source import Source
from gradscript.runtime.face.function import Function
from subject import Mismatch, Subject


def derived_unit(subject: Subject) -> gs.CompilationUnit:
    """The program with a derived backward in each function that can have one, from the first to the last."""
    text = subject.program.source
    for name in subject.unit.functions:
        function = gs.CompilationUnit(text)[name]
        try:
            made = _derived(function)
        except ValueError as error:
            if "no gradient" not in str(error):
                raise
            continue
        text = replaced(Source(text), {name: made})
        again = gs.derive(gs.CompilationUnit(text)[name])
        if again.rstrip("\n") != made.rstrip("\n"):
            raise Mismatch(f"derived\n{made}\nand derived again\n{again}")
    return gs.CompilationUnit(text)


def _derived(function: Function) -> str:
    """The function with a backward that nobody wrote."""
    if function.pair is None:
        return gs.derive(function)
    return derivation_of(Function(without_backward(function.callee))).text
