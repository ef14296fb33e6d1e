"""`@gs.script` on a method of a class: compiled of each object, and anew when what it reads there has changed."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from types import FunctionType, MethodType
from typing import Any

from ....lang.light_dataclasses import dataclass
from ..function import Function

Read = tuple[Any, str, Any]
"""An object, the name of an attribute, and what that was when a method was compiled: of a method its function."""
_MISSING = object()


@dataclass(frozen=True, slots=True)
class CompiledMethod:
    """A method of one object, and what it was compiled with: of that object, which None stands for, or of others."""

    function: Function
    reads: Sequence[Read]

    def holds(self, instance: Any) -> bool:
        """Whether what was read is what is there now."""
        for owner, name, value in self.reads:
            if not _same(attribute_of(instance if owner is None else owner, name, _MISSING), value):
                return False
        return True


class ScriptedMethod:
    """A method as its class holds it: asked for of an object, it is the compiled function of that object.

    Objects are known as themselves, not as what they equal, and are not kept alive.
    """

    def __init__(self, function: FunctionType, compile: Callable[[MethodType], CompiledMethod]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self._compile = compile
        self._known: dict[int, tuple[weakref.ref[Any], CompiledMethod]] = {}

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        key = id(instance)
        known = self._known.get(key)
        if known is not None and known[0]() is instance and known[1].holds(instance):
            return known[1].function
        made = self._compile(MethodType(self.function, instance))
        try:
            forget = weakref.ref(instance, lambda _: self._known.pop(key, None) and None)
        except TypeError:
            # What cannot be referred to weakly is compiled each time.
            return made.function
        self._known[key] = (forget, made)
        return made.function

    def __call__(self, instance: Any, /, *args: Any, **kwargs: Any) -> Any:
        """`Class.method(x, …)` is `x.method(…)`."""
        return self.__get__(instance)(*args, **kwargs)


def attribute_of(owner: Any, name: str, missing: Any) -> Any:
    """An attribute of an object; one of these methods as it was written."""
    of_class = getattr(type(owner), name, None)
    if type(of_class) is ScriptedMethod:
        return MethodType(of_class.function, owner)
    return getattr(owner, name, missing)


def _same(found: Any, value: Any) -> bool:
    """Whether an attribute is what it was: a method is made anew each time that it is asked for."""
    found = getattr(found, "__func__", found)
    return found is value or (type(found) is type(value) and type(value) in _PLAIN and repr(found) == repr(value))


_PLAIN = (bool, int, float, str, tuple)
