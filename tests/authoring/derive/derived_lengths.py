"""How long derived backwards are beside those of the library's authors: run as a script it prints all of them."""

from __future__ import annotations

from collections.abc import Iterable

from gradscript.authoring.derive.comparison import compared
from gradscript.compiler.formulas.library import compile_formula, formula_names
from gradscript.compiler.ir.graph import Callee
from gradscript.compiler.types.schema import FunctionSchema
from gradscript.runtime.face.function import Function

LONGEST = 1.2


def lengths(names: Iterable[str]) -> dict[str, float]:
    """By formula, the words of the derived backward over those of the author's."""
    found: dict[str, float] = {}
    for name in names:
        callee = compile_formula(name)
        if callee.pair is None:
            continue
        schema = FunctionSchema(callee.schema.base_name, "", callee.schema.arguments, callee.schema.returns)
        try:
            found[name] = compared(Function(Callee(schema, callee.graph, callee.pair))).ratio
        except ValueError as error:
            assert "has no gradient" in str(error)
    return found


def main() -> None:
    found = lengths(formula_names())
    for name, ratio in sorted(found.items(), key=lambda item: (-item[1], item[0])):
        print(f"{ratio:5.2f}  {name}")
    short = sum(ratio <= LONGEST for ratio in found.values())
    print(f"{short} of {len(found)} are no longer than {LONGEST} times what their authors wrote")


if __name__ == "__main__":
    main()
