"""`@dataclass` of the project does what the standard library's does."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any, ClassVar

import pytest
from gradscript.lang import light_dataclasses

Made = Any
"""A class made by either module."""


def _point(module: Any, **options: bool) -> Made:
    @module.dataclass(**options)
    class Point:
        origin: ClassVar[int] = 0
        x: int
        y: int = 2
        names: list[str] = module.field(default_factory=list)
        hidden: int = module.field(default=3, repr=False, compare=False)
        unhashed: int = module.field(default=4, hash=False)
        last: bool = module.field(default=False, kw_only=True)

        def total(self) -> int:
            return self.x + self.y

    return Point


def _named(module: Any, **options: bool) -> tuple[Made, Made]:
    """A class, and one that adds a field, a default and what is done when it is made."""

    @module.dataclass(**options)
    class Base:
        first: Any
        second: Any = ()

    @module.dataclass(**options)
    class Derived(Base):
        second: Any = 5
        third: Any = None

        def __post_init__(self) -> None:
            object.__setattr__(self, "third", (self.first, self.third))

    return Base, Derived


OPTIONS = [
    {},
    {"slots": True},
    {"frozen": True},
    {"frozen": True, "slots": True},
    {"eq": False, "slots": True},
    {"frozen": True, "eq": False, "slots": True},
]
BOTH = pytest.mark.parametrize("options", OPTIONS, ids=lambda options: ", ".join(options) or "plain")


def _told(call: Any) -> Any:
    """What a call gives; of what fails, that it does."""
    try:
        return call()
    except (TypeError, AttributeError) as error:
        return AttributeError if isinstance(error, AttributeError) else TypeError


def _facts(cls: Made) -> list[Any]:
    one, same, other = cls(1), cls(1, hidden=9), cls(1, 3, ["a"], last=True)
    return [
        repr(one).rpartition(".")[2],
        repr(other).rpartition(".")[2],
        one == same,
        one == other,
        one == 1,
        one != same,
        cls.__match_args__,
        cls.origin,
        one.total(),
        one.names is cls(1).names,
        hasattr(one, "__dict__"),
        _told(lambda: cls()),
        _told(lambda: cls(1, 2, [], 3, 4, True)),
        _told(lambda: cls(1, wrong=2)),
        _told(lambda: setattr(one, "x", 5)),
        one.x,
        _told(lambda: delattr(one, "y")),
        # The standard library's of Python 3.11 fails in another way where a class is frozen and has slots.
        isinstance(_told(lambda: setattr(one, "unknown", 5)), type),
    ]


@BOTH
def test_instances_behave_as_the_standard_library_has_them(options: dict[str, bool]) -> None:
    ours, theirs = (_point(module, **options) for module in (light_dataclasses, dataclasses))
    assert _facts(ours) == _facts(theirs)


@BOTH
def test_hashes(options: dict[str, bool]) -> None:
    found = []
    for module in (light_dataclasses, dataclasses):
        base, _ = _named(module, **options)
        one, same = base(1, (2,)), base(1, (2,))
        found.append(_told(lambda one=one, same=same: hash(one) == hash(same)))
        found.append(_told(lambda one=one: hash(one) == hash((1, (2,)))))
    assert found[:2] == found[2:]


@BOTH
def test_a_class_adds_to_another(options: dict[str, bool]) -> None:
    facts = []
    for module in (light_dataclasses, dataclasses):
        base, derived = _named(module, **options)
        one = derived(1)
        replaced = module.replace(one, third=7)
        facts.append(
            [
                (one.first, one.second, one.third),
                (replaced.second, replaced.third),
                derived.__match_args__,
                [field.name for field in module.fields(derived)],
                module.asdict(base(1, [base(2)])),
                base(1) == derived(1),
                repr(one).rpartition(".")[2],
            ]
        )
    assert facts[0] == facts[1]


@light_dataclasses.dataclass(frozen=True, slots=True)
class Kept:
    x: int
    y: tuple[int, ...] = ()


def test_frozen_instances_are_copied_and_pickled() -> None:
    one = Kept(1, (2,))
    assert copy.copy(one) == copy.deepcopy(one) == pickle.loads(pickle.dumps(one)) == one


def test_patterns_match_by_place() -> None:
    match Kept(1, (2,)):
        case Kept(x, (y,)):
            assert (x, y) == (1, 2)
        case _:
            raise AssertionError


def test_methods_are_written_when_they_are_first_called() -> None:
    @light_dataclasses.dataclass(frozen=True)
    class Fresh:
        x: int

    before = Fresh.__init__
    assert Fresh(1) == Fresh(1)
    assert Fresh.__init__ is not before
    assert Fresh.__eq__.__qualname__.endswith("Fresh.__eq__")
