"""Whether the check passes backwards derived for the library's forwards: run as a script it derives all of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

AUTHORING = Path(__file__).parents[1]
sys.path[:0] = [str(AUTHORING / "check"), str(AUTHORING.parent / "support")]

import gradscript as gs  # noqa: E402
import numpy as np  # noqa: E402
from gradscript.authoring.check import Checker  # noqa: E402
from gradscript.authoring.derive.derivation import derivation_of  # noqa: E402
from gradscript.authoring.trials.report import Failure  # noqa: E402
from gradscript.compiler.ir.graph import Callee, without_backward  # noqa: E402
from gradscript.compiler.types.schema import FunctionSchema  # noqa: E402
from gradscript.runtime.face.function import Function  # noqa: E402
from mutation import subjects  # noqa: E402


def derived_failures(match: str) -> Iterator[tuple[str, list[Failure]]]:
    """By formula that a backward can be derived for, what the check says of that and not of the author's own."""
    seen: set[str] = set()
    for where, function, examples in subjects(match):
        callee = function.callee
        if where != "library" or function.name in seen:
            continue
        seen.add(function.name)
        schema = FunctionSchema(callee.schema.base_name, "", callee.schema.arguments, callee.schema.returns)
        try:
            found = derivation_of(Function(without_backward(Callee(schema, callee.graph, callee.pair))))
        except ValueError as error:
            assert "has no gradient" in str(error)
            continue
        derived = gs.CompilationUnit(found.text)[schema.base_name]
        failures = Checker(derived).run(examples).failures
        if failures and not Checker(function).run(examples).ok:
            failures = []
        yield function.name, failures


def main() -> None:
    np.seterr(all="ignore")
    right = count = 0
    for name, failures in derived_failures(sys.argv[1] if len(sys.argv) > 1 else ""):
        count += 1
        right += not failures
        for failure in failures:
            print(f"{name}: {failure.kind}: {failure.message}", flush=True)
    print(f"of {count} derived formulas {right} are as right as their authors'")


if __name__ == "__main__":
    main()
