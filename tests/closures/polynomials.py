"""Functions with closures inside closures, to any depth: polynomials, whose derivatives are known without a compiler.

A level's results are polynomials in the gradients it takes and everything that the levels around it take. The closure
in it takes a gradient for each, and returns a gradient for each of its parameters, then, where it is whole, for each
of those of the levels around, inner ones first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Monomial = tuple[tuple[str, int], ...]
"""Powers by variable, in order."""


@dataclass(frozen=True)
class Polynomial:
    """Coefficients by monomial."""

    terms: Mapping[Monomial, float]

    def derivative(self, variable: str) -> Polynomial:
        found: dict[Monomial, float] = {}
        for monomial, factor in self.terms.items():
            powers = dict(monomial)
            power = powers.pop(variable, 0)
            if power:
                if power > 1:
                    powers[variable] = power - 1
                key = tuple(sorted(powers.items()))
                found[key] = found.get(key, 0) + factor * power
        return Polynomial(found)

    def times(self, variable: str, scale: float = 1.0) -> Polynomial:
        found = {}
        for monomial, factor in self.terms.items():
            powers = dict(monomial)
            powers[variable] = powers.get(variable, 0) + 1
            found[tuple(sorted(powers.items()))] = factor * scale
        return Polynomial(found)

    def plus(self, other: Polynomial) -> Polynomial:
        found = dict(self.terms)
        for monomial, factor in other.terms.items():
            found[monomial] = found.get(monomial, 0) + factor
        return Polynomial(found)

    def __str__(self) -> str:
        terms = [
            " * ".join([repr(factor), *(name if power == 1 else f"{name} ** {power}" for name, power in monomial)])
            for monomial, factor in sorted(self.terms.items())
            if factor
        ]
        return " + ".join(terms)


def gradients(results: Sequence[Polynomial], adjoints: Sequence[str], variable: str, scale: float) -> Polynomial:
    """The gradient in a variable, given one adjoint per result."""
    total = Polynomial({})
    for result, adjoint in zip(results, adjoints, strict=True):
        total = total.plus(result.derivative(variable).times(adjoint, scale))
    return total


def program(
    function: Polynomial, inputs: Sequence[str], whole: Sequence[bool], scales: Sequence[float] | None = None
) -> str:
    """The source of `f` with as many levels of closures as `whole` has elements, the first of which is always True.

    `whole` says whether a level gives gradients of all variables, or of its parameters only. A level's gradients are
    multiplied by its scale: 1 for the truth.
    """
    lines = [f"def f({', '.join(inputs)}):"]
    results, parameters, around = [function], list(inputs), []
    ends = []
    for level, is_whole in enumerate(whole):
        indent = "    " * (level + 1)
        adjoints = [f"a{level}_{i}" for i in range(len(results))]
        ends.append(f"{indent}return {', '.join(str(r) or 'None' for r in results)}, level{level}")
        lines.append(f"{indent}def level{level}({', '.join(adjoints)}):")
        variables = [*parameters, *around] if is_whole else parameters
        scale = scales[level] if scales is not None else 1.0
        found = [gradients(results, adjoints, v, scale) for v in variables]
        around = [*parameters, *around]
        results, parameters = found, adjoints
    lines.append("    " * (len(whole) + 1) + f"return {', '.join(str(r) or 'None' for r in results)}")
    return "\n".join([*lines, *reversed(ends)]) + "\n"
