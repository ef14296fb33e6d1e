"""Families of sizes with their classes as plain data: what is open in each, what holds of it, and what was planned."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from .....compiler.types.guards import GreaterSize, Guard, Guards, LesserSize, MadeSize, SizePower, SizeQuotient
from .....compiler.types.open_floats import FloatDecision
from .....compiler.types.open_sizes import Symbols
from ...size_classes import SizeClasses
from ...size_families import ClosedPlans, Family, SizeClass
from ..layouts import seen_array
from .plans import JsonValue, KeptPlans, Unkept
from .programs import expression_of, polynomial_of

_MADE: dict[str, type[MadeSize]] = {kind.__name__: kind for kind in (SizeQuotient, SizePower, LesserSize, GreaterSize)}
_POLYNOMIALS = {kind: tuple(kind.__annotations__) for kind in _MADE.values()}


C = TypeVar("C")


class SizedPlans(Generic[C]):
    """The plans of one graph for classes of sizes of arrays, and those for given sizes that were made from them.

    `kept` and `plan_of` are those of KeptClasses. `whole` gives the arguments that are lists of which no length is
    open.
    """

    def __init__(
        self,
        kept: KeptPlans,
        plan_of: Callable[[JsonValue, Symbols], KeepablePlan],
        whole: Callable[[], Collection[int]],
    ) -> None:
        self._closed: ClosedPlans[C] = ClosedPlans()
        self._classes: SizeClasses[KeepablePlan] = SizeClasses(seen_array, whole, KeptClasses(kept, plan_of))

    def get(self, key: Hashable) -> C | None:
        """The plan for a call of this key, where one was made."""
        return self._closed.get(key)

    def find(self, values: Sequence[Any], key: Hashable, settled: bool) -> C | None:
        """The plan for such values, where a class is at hand that they are in."""
        return self._closed.close(key, self._classes.find(values, settled))

    def restore(self, values: Sequence[Any], key: Hashable, settled: bool) -> C | None:
        """The plan for such values, where a class was kept that they are in."""
        return self._closed.close(key, self._classes.restore(values, settled))

    def plan(
        self,
        values: Sequence[Any],
        key: Hashable,
        settled: bool,
        plan: Callable[[Sequence[Any], Symbols], KeepablePlan],
    ) -> C | None:
        """The same with a new class, where sizes vary that have not been open; `plan` plans for open sizes."""
        return self._closed.close(key, self._classes.plan(values, settled, plan))

    def clear(self) -> None:
        """Forget all."""
        self._closed.clear()
        self._classes.clear()


@runtime_checkable
class KeepablePlan(Protocol):
    """A plan for open sizes that may be kept."""

    def closed(self, atoms: Sequence[int]) -> Any:
        """The plan for given sizes, by a value for each atom; None where it is gone."""

    def data(self) -> JsonValue:
        """What keeps it. Raises: Unkept."""


class KeptClasses:
    """The families of one graph; `plan_of` makes a plan again of its data."""

    def __init__(self, kept: KeptPlans, plan_of: Callable[[JsonValue, Symbols], KeepablePlan]) -> None:
        self._kept = kept
        self._plan_of = plan_of

    def get(self, key: Hashable) -> Family[Any] | None:
        """The family of a key; None where none is kept."""
        data = self._kept.get(key)
        if data is None:
            return None
        classes = [self._class_of(each) for each in data["classes"]]
        return Family(data["first"], set(data["varying"]), classes)

    def put(self, key: Hashable, family: Family[Any]) -> None:
        """Keep a family, with those of its classes that may be kept."""
        self._kept.put(key, lambda: self._data(family))

    def _data(self, family: Family[Any]) -> JsonValue:
        classes = [*_kept_classes(family)]
        if not classes:
            raise Unkept
        return {"first": list(family.first), "varying": sorted(family.varying), "classes": classes}

    def _class_of(self, data: JsonValue) -> SizeClass[Any]:
        symbols = Symbols(data["given"])
        symbols.made += [_MADE[kind](*map(polynomial_of, of)) for kind, *of in data["made"]]
        guards = Guards(
            tuple([(low, high) for low, high in data["bounds"]]),
            tuple([Guard(polynomial_of(polynomial), relation) for polynomial, relation in data["guards"]]),
            tuple([_decision_of(*each) for each in data["decisions"]]),
        )
        plan = self._plan_of(data["plan"], symbols)
        return SizeClass(plan, symbols, guards, dict(data["places"]), dict(data["others"]))


def _kept_classes(family: Family[Any]) -> Iterator[JsonValue]:
    for found in family.classes:
        try:
            yield _class_data(found)
        except Unkept:
            continue


def _class_data(found: SizeClass[Any]) -> JsonValue:
    symbols, guards = found.symbols, found.guards
    return {
        "given": symbols.given,
        "made": [
            [type(made).__name__, *(getattr(made, of) for of in _POLYNOMIALS[type(made)])] for made in symbols.made
        ],
        "bounds": guards.bounds,
        "guards": [[guard.polynomial, guard.relation] for guard in guards.guards],
        "decisions": [_decision(decision) for decision in guards.decisions],
        "places": [*found.places.items()],
        "others": [*found.others.items()],
        "plan": found.plan.data(),
    }


def _decision(decision: object) -> JsonValue:
    if not isinstance(decision, FloatDecision):
        raise Unkept
    return decision.relation, decision.left, decision.right, decision.outcome


def _decision_of(relation: str, left: JsonValue, right: JsonValue, outcome: bool) -> FloatDecision:
    return FloatDecision(relation, expression_of(left), expression_of(right), outcome)
