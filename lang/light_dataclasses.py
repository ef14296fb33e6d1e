"""`@dataclass` as the standard library's is, whose methods are written when they are first called.

The standard library compiles half a dozen functions for each class while its module is imported, and most of them
never run: for the classes of a compiler that takes longer than to compile a small program. Here a class takes its slots
and its defaults when it is defined, and `__init__`, `__eq__` and `__hash__` are compiled on their first call. Type
checkers see the standard library's names. What nobody uses is not there: `init=False`, `order`, `InitVar`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

FIELDS = "__light_fields__"


class _Missing:
    def __repr__(self) -> str:
        return "<missing>"


MISSING: Any = _Missing()


class FrozenInstanceError(AttributeError):
    """A field of a frozen instance was set or deleted."""


class Field:
    """What is known of one field."""

    __slots__ = ("compare", "default", "default_factory", "hash", "kw_only", "name", "repr")

    def __init__(self, default: Any, default_factory: Any, repr: bool, hash: bool | None, compare: bool, kw_only: bool):
        self.name = ""
        self.default, self.default_factory = default, default_factory
        self.repr, self.hash, self.compare, self.kw_only = repr, hash, compare, kw_only


def _field(
    *,
    default: Any = MISSING,
    default_factory: Any = MISSING,
    repr: bool = True,
    hash: bool | None = None,
    compare: bool = True,
    kw_only: bool = False,
) -> Any:
    return Field(default, default_factory, repr, hash, compare, kw_only)


def _dataclass(
    cls: type | None = None, /, *, frozen: bool = False, eq: bool = True, slots: bool = False
) -> type | Callable[[type], type]:
    if cls is None:
        return lambda given: _prepared(given, frozen, eq, slots)
    return _prepared(cls, frozen, eq, slots)


def _prepared(cls: type, frozen: bool, eq: bool, slots: bool) -> type:
    """The class with its fields known and its methods to come; one with slots is made anew, as slots ask for."""
    own = _own_fields(cls)
    found: dict[str, Field] = {}
    for base in reversed(cls.__mro__[1:]):
        found.update(base.__dict__.get(FIELDS, {}))
    found.update(own)
    if slots:
        names = dict(cls.__dict__)
        for name in (*own, "__dict__", "__weakref__"):
            names.pop(name, None)
        inherited = {name for base in cls.__mro__[1:] for name in base.__dict__.get("__slots__", ())}
        names["__slots__"] = tuple(name for name in own if name not in inherited)
        qualified = cls.__qualname__
        cls = type(cls)(cls.__name__, cls.__bases__, names)
        cls.__qualname__ = qualified
    else:
        for field in own.values():
            _keep_default(cls, field)
    setattr(cls, FIELDS, found)
    _add_methods(cls, frozen, eq, slots)
    return cls


def _own_fields(cls: type) -> dict[str, Field]:
    """The fields that a class itself declares, in order."""
    own = {}
    for name, annotation in cls.__annotations__.items():
        if str(annotation).startswith(("ClassVar", "typing.ClassVar")):
            continue
        given = cls.__dict__.get(name, MISSING)
        own[name] = given if isinstance(given, Field) else _field(default=given)
        own[name].name = name
    return own


def _keep_default(cls: type, field: Field) -> None:
    if field.default is not MISSING:
        setattr(cls, field.name, field.default)
    elif field.name in cls.__dict__:
        delattr(cls, field.name)


def _add_methods(cls: type, frozen: bool, eq: bool, slots: bool) -> None:
    defined = cls.__dict__
    fields: dict[str, Field] = defined[FIELDS]
    added: dict[str, Any] = {"__match_args__": tuple(f.name for f in fields.values() if not f.kw_only)}
    added["__init__"] = _written_later(cls, "__init__", lambda: _init(cls, frozen))
    added["__repr__"] = _repr
    if frozen:
        added |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
    if frozen and slots:
        added |= {"__getstate__": _state, "__setstate__": _set_state}
    if eq:
        added["__eq__"] = _written_later(cls, "__eq__", lambda: _eq(cls))
        added["__hash__"] = _written_later(cls, "__hash__", lambda: _hash(cls)) if frozen else None
    for name, method in added.items():
        if defined.get(name) is None:
            setattr(cls, name, method)


# --- methods of any class ---


def _repr(self: Any) -> str:
    shown = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in getattr(self, FIELDS).values() if f.repr)
    return f"{type(self).__qualname__}({shown})"


def _refuse_to_set(self: Any, name: str, value: Any) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in getattr(self, FIELDS)]


def _set_state(self: Any, state: list[Any]) -> None:
    for name, value in zip(getattr(self, FIELDS), state, strict=True):
        object.__setattr__(self, name, value)


# --- methods written for a class ---


def _written_later(cls: type, name: str, write: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    """A method that puts the one that is written in its place, and calls that."""

    def first_call(self: Any, *args: Any, **named: Any) -> Any:
        method = write()
        setattr(cls, name, method)
        return method(self, *args, **named)

    return first_call


def _init(cls: type, frozen: bool) -> Callable[..., Any]:
    fields: list[Field] = list(getattr(cls, FIELDS).values())
    given: dict[str, Any] = {"_MISSING": MISSING, "_set": object.__setattr__}
    parameters, body = [], []
    starred = False
    for field in sorted(fields, key=lambda f: f.kw_only):
        if field.kw_only and not starred:
            parameters.append("*")
            starred = True
        name, value = field.name, field.name
        if field.default_factory is not MISSING:
            given[f"_make_{name}"] = field.default_factory
            parameters.append(f"{name}=_MISSING")
            value = f"_make_{name}() if {name} is _MISSING else {name}"
        elif field.default is not MISSING:
            given[f"_default_{name}"] = field.default
            parameters.append(f"{name}=_default_{name}")
        else:
            parameters.append(name)
        body.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    return _function(cls, f"__init__(self, {', '.join(parameters)})", body, given)


def _eq(cls: type) -> Callable[..., Any]:
    names = [f.name for f in getattr(cls, FIELDS).values() if f.compare]
    left, right = ("".join(f"{of}.{name}, " for name in names) for of in ("self", "other"))
    body = [
        "if other.__class__ is not self.__class__:",
        "    return NotImplemented",
        f"return ({left}) == ({right})",
    ]
    return _function(cls, "__eq__(self, other)", body, {})


def _hash(cls: type) -> Callable[..., Any]:
    hashed = (f.name for f in getattr(cls, FIELDS).values() if (f.compare if f.hash is None else f.hash))
    return _function(cls, "__hash__(self)", [f"return hash(({''.join(f'self.{name}, ' for name in hashed)}))"], {})


def _function(cls: type, head: str, body: list[str], given: dict[str, Any]) -> Callable[..., Any]:
    """A function of text that is made of names of fields alone."""
    text = "\n    ".join([f"def {head}:", *(body or ["pass"])])
    exec(text, given)
    function: Callable[..., Any] = given[head.partition("(")[0]]
    function.__qualname__ = f"{cls.__qualname__}.{function.__name__}"
    return function


# --- what works on any instance ---


def _fields(of: Any) -> tuple[Any, ...]:
    return tuple(getattr(of, FIELDS).values())


def _replace(instance: Any, /, **changes: Any) -> Any:
    for name in getattr(instance, FIELDS):
        if name not in changes:
            changes[name] = getattr(instance, name)
    return type(instance)(**changes)


def _asdict(instance: Any) -> Any:
    """The fields by name, those of instances inside too."""
    if hasattr(instance, FIELDS):
        return {name: _asdict(getattr(instance, name)) for name in getattr(instance, FIELDS)}
    if isinstance(instance, list | tuple):
        return type(instance)(map(_asdict, instance))
    if isinstance(instance, dict):
        return {_asdict(key): _asdict(value) for key, value in instance.items()}
    return instance


if TYPE_CHECKING:
    from dataclasses import asdict, dataclass, field, fields, replace
else:
    asdict, dataclass, field, fields, replace = _asdict, _dataclass, _field, _fields, _replace

__all__ = ["FrozenInstanceError", "asdict", "dataclass", "field", "fields", "replace"]
