"""Numbers of several samples as one expression of sizes: 1019 and 1238 are `columns`, 509 and 619 `columns // 2`.

A program is planned for a few samples of sizes, and what differs between their texts is a number that follows from
sizes. Which one is found out: sizes are told apart by the samples, and an expression has to hold for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import combinations, combinations_with_replacement, islice
from math import prod

from ...lang.light_dataclasses import dataclass

SAMPLES = 3
"""Of sizes, for each text: enough to tell `2 * n - 1` from what only looks like it."""
MOST_FACTOR = 64
"""Of a factor or an offset in an expression: what is larger is rather not understood."""

MOST_SUMMED = 60
"""Of the products that sums are looked for among."""


class NotASize(Exception):
    """Numbers that follow from sizes in no way that is known; the program then is for fixed sizes."""


@dataclass(frozen=True, slots=True)
class SizeTerm:
    """A value in each sample, its text, and whether that is one name or a product."""

    values: tuple[int, ...]
    text: str
    names: frozenset[str]
    level: int = 0
    """0 for a name or a call, 1 for a product, 2 for a quotient, 3 for a sum."""


@dataclass(frozen=True)
class Sizes:
    """The sizes of the samples: `symbols` maps names to a value for each."""

    symbols: Mapping[str, tuple[int, ...]]
    in_c: bool = False
    runtime: frozenset[str] = frozenset()
    """Those that are parameters of a kernel, and no constants of its text."""

    def of(self, values: Sequence[int]) -> SizeTerm:
        """The expression that has these values. NotASize where none is known."""
        found = tuple(values)
        if len(set(found)) == 1:
            return SizeTerm(found, str(found[0]), frozenset())
        known = self._bases.get(found)
        if known is not None:
            return known
        made = self._scaled(found) or self._shifted(found) or self._sum(found)
        if made is None:
            raise NotASize(", ".join(map(str, found)))
        return made

    # --- what is tried, simplest first ---

    @cached_property
    def _bases(self) -> dict[tuple[int, ...], SizeTerm]:
        """Products of sizes, how many chunks there are of them, and products of both."""
        products = list(self._products())
        counts = [self._chunks(term, 1 << k) for term in products for k in range(3, 15)]
        counts = [term for term in counts if len(set(term.values)) > 1]
        found = {term.values: term for term in [*products, *counts]}
        for count in counts:
            for term in products:
                whole = self._times(count, term)
                found.setdefault(whole.values, whole)
        return found

    def _chunks(self, term: SizeTerm, of: int) -> SizeTerm:
        values = tuple([-(-value // of) for value in term.values])
        if self.in_c:
            return SizeTerm(values, f"({operand_text(term, 1)} + {of - 1}) / {of}", term.names, 2)
        return SizeTerm(values, f"triton.cdiv({term.text}, {of})", term.names)

    def _products(self) -> Iterable[SizeTerm]:
        seen: set[tuple[int, ...]] = set()
        for degree in (1, 2, 3, 4):
            for chosen in combinations_with_replacement(self.symbols, degree):
                columns = [self.symbols[name] for name in chosen]
                values = tuple([prod(sample) for sample in zip(*columns, strict=True)])
                if values not in seen:
                    seen.add(values)
                    yield SizeTerm(values, " * ".join(chosen), frozenset(chosen), min(degree - 1, 1))

    def _times(self, left: SizeTerm, right: SizeTerm) -> SizeTerm:
        values = tuple(a * b for a, b in zip(left.values, right.values, strict=True))
        return SizeTerm(values, f"{operand_text(left, 1)} * {operand_text(right, 1)}", left.names | right.names, 1)

    def _scaled(self, found: tuple[int, ...]) -> SizeTerm | None:
        for term in self._bases.values():
            ratio = Fraction(found[0], term.values[0])
            if _is_small(ratio) and all(v * ratio == f for v, f in zip(term.values, found, strict=True)):
                return self._by_ratio(term, ratio, found)
        return None

    def _by_ratio(self, term: SizeTerm, ratio: Fraction, values: tuple[int, ...]) -> SizeTerm:
        text, level = term.text, term.level
        if ratio.numerator not in (1, -1):
            text, level = f"{abs(ratio.numerator)} * {operand_text(term, 1)}", 1
        if ratio.denominator != 1:
            divisor = "/" if self.in_c else "//"
            text, level = f"{text if level < 2 else f'({text})'} {divisor} {ratio.denominator}", 2
        if ratio < 0:
            text, level = f"-{text if level < 3 else f'({text})'}", 3
        return SizeTerm(values, text, term.names, level)

    def _shifted(self, found: tuple[int, ...]) -> SizeTerm | None:
        """A multiple of a size, more or less a few."""
        for term in self._bases.values():
            if term.values[0] == term.values[1]:
                continue
            ratio = Fraction(found[0] - found[1], term.values[0] - term.values[1])
            offset = found[0] - ratio * term.values[0]
            if ratio <= 0 or not _is_small(ratio) or offset.denominator != 1 or abs(offset) > MOST_FACTOR:
                continue
            if all(v * ratio + offset == f for v, f in zip(term.values, found, strict=True)):
                scaled = term if ratio == 1 else self._by_ratio(term, ratio, found)
                sign = "+" if offset > 0 else "-"
                return SizeTerm(found, f"{scaled.text} {sign} {abs(int(offset))}", term.names, 3)
        return None

    def _sum(self, found: tuple[int, ...]) -> SizeTerm | None:
        """A sum or a difference of two products."""
        for left, right in combinations(islice(self._bases.values(), MOST_SUMMED), 2):
            for first, second, sign in ((left, right, 1), (left, right, -1), (right, left, -1)):
                if all(a + sign * b == f for a, b, f in zip(first.values, second.values, found, strict=True)):
                    text = f"{first.text} {'+' if sign > 0 else '-'} {second.text}"
                    return SizeTerm(found, text, first.names | second.names, 3)
        return None


def operand_text(term: SizeTerm, level: int) -> str:
    """The text of a term as an operand."""
    return term.text if term.level <= level else f"({term.text})"


def _is_small(ratio: Fraction) -> bool:
    return 0 < abs(ratio.numerator) <= MOST_FACTOR and ratio.denominator <= MOST_FACTOR
