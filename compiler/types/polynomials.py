"""Polynomials with whole coefficients: what open sizes come to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import gcd
from typing import TypeAlias

Monomial: TypeAlias = tuple[int, ...]
"""Atoms that are multiplied, in order."""
Polynomial: TypeAlias = tuple[tuple[Monomial, int], ...]
"""Monomials with their coefficients, in order, none of them zero."""


def evaluate(polynomial: Polynomial, values: Sequence[int]) -> int:
    """What a polynomial comes to, given a value for each atom."""
    total = 0
    for monomial, coefficient in polynomial:
        for atom in monomial:
            coefficient *= values[atom]
        total += coefficient
    return total


def constant_polynomial(number: int) -> Polynomial:
    return (((), number),) if number else ()


def is_constant_polynomial(polynomial: Polynomial) -> bool:
    return len(polynomial) == 1 and not polynomial[0][0]


def divided_by(term: Monomial, factor: Monomial) -> Monomial | None:
    """A monomial divided by another; None where that is no divisor of it."""
    left = list(term)
    for atom in factor:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def ordered(terms: dict[Monomial, int]) -> Polynomial:
    return tuple(sorted((term, c) for term, c in terms.items() if c))


def polynomial_sum(a: Polynomial, b: Polynomial) -> Polynomial:
    terms = dict(a)
    for term, coefficient in b:
        terms[term] = terms.get(term, 0) + coefficient
    return ordered(terms)


def scaled(a: Polynomial, factor: int) -> Polynomial:
    return tuple((term, factor * c) for term, c in a) if factor else ()


def multiplied(a: Polynomial, b: Polynomial) -> Polynomial:
    terms: dict[Monomial, int] = {}
    for left, c in a:
        for right, d in b:
            term = tuple(sorted((*left, *right)))
            terms[term] = terms.get(term, 0) + c * d
    return ordered(terms)


def shared_factor(a: Polynomial, b: Polynomial) -> Polynomial:
    terms = [*a, *b]
    shared = list(terms[0][0])
    for term, _ in terms:
        shared = list((Counter(shared) & Counter(term)).elements())
    return ((tuple(sorted(shared)), gcd(*(c for _, c in terms))),)
