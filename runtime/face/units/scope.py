"""What names mean around a source text: functions, units, constants, and modules that the language knows.

The scope of a Python function is its own: what it closes over, then its globals; that of a unit is what it is given.
Functions that are written in Python are compiled as they are met, as `torch.jit.script` does.
"""

from __future__ import annotations

import builtins
import inspect
import sys
from collections.abc import Callable, Hashable, Mapping
from types import ModuleType
from typing import Any, get_origin

from ....compiler.emit.outside import Alias, BrokenFunction, Outside, OutsideConstant, Recursion, Unusable
from ....compiler.ops.registry import OPS
from ....compiler.spelling.names import MODULES
from ....lang.diagnostics import CompileError, did_you_mean
from ....lang.light_dataclasses import dataclass
from ..function import Function
from .records import is_named_tuple, record_of, written_annotation
from .scripted_method import Read, attribute_of
from .sources import Namespace

_MISSING = object()
_NAMES = {"gradscript": "gs", **{name: name for name in MODULES if name not in ("gs", "F", "nn.functional")}}
"""Modules of Python by the names that the language has for them."""
_ADVICE = "a source text uses functions that are compiled, and numbers, strings, bools, None and tuples of them"


@dataclass(frozen=True, slots=True)
class Owner:
    """The object, or the class, that a method is of."""

    value: Any


Compile = Callable[[Callable[..., Any], "Scopes"], Function]


class Scopes:
    """What is shared by the scopes of functions that are compiled because of one: each once, none within itself."""

    def __init__(self, compile: Compile) -> None:
        self._compile = compile
        self._open: dict[Callable[..., Any], None] = {}
        self._known: dict[Callable[..., Any], Outside] = {}
        self.reads: list[Read] = []
        """What was read of objects that methods are of."""

    def around(self, function: Callable[..., Any]) -> Callable[[str], Outside]:
        """The scope of a Python function."""
        owner = {}
        if inspect.ismethod(function):
            owner = {first_parameter(function): Owner(function.__self__)}
            function = function.__func__
        function = inspect.unwrap(function)
        free = function.__code__.co_freevars
        cells = dict(zip(free, function.__closure__ or (), strict=True))

        def find(name: str) -> Any:
            if name in owner:
                return owner[name]
            try:
                return cells[name].cell_contents if name in cells else function.__globals__.get(name, _MISSING)
            except ValueError:
                # It is assigned later.
                return _MISSING

        return lambda name: self._resolve(name, find)

    def given(self, names: Mapping[str, Any]) -> Callable[[str], Outside]:
        """The scope of a unit that is given these."""
        return lambda name: self._resolve(name, lambda first: names.get(first, _MISSING))

    def compiled(self, function: Callable[..., Any]) -> Function:
        """A Python function, compiled: the function itself may not come up again meanwhile."""
        if not isinstance(function, Hashable):
            return self._compile(function, self)
        self._open[function] = None
        try:
            return self._compile(function, self)
        finally:
            del self._open[function]

    def _resolve(self, dotted: str, find: Callable[[str], Any]) -> Outside:
        first, *rest = dotted.split(".")
        found = find(first)
        for i, name in enumerate(rest):
            if _hides(found):
                return _hidden(found)
            if isinstance(found, ModuleType):
                known = _NAMES.get(found.__name__)
                if known is not None:
                    return self._alias(".".join([known, *rest[i:]]), dotted, find)
                found = getattr(found, name, _MISSING)
                if found is _MISSING:
                    return Unusable(f"no name of the module '{'.'.join([first, *rest[:i]])}'")
            elif isinstance(found, Namespace):
                if name not in found.functions:
                    return Unusable(f"no function of the unit '{'.'.join([first, *rest[:i]])}'", _names_of(found, name))
                found = found.functions[name]
            elif isinstance(found, Owner):
                owner = found.value
                found = attribute_of(owner, name, _MISSING)
                self.reads.append((owner, name, getattr(found, "__func__", found)))
                if found is _MISSING:
                    return Unusable(f"no attribute of the object '{first}'", _attributes_like(owner, name))
            else:
                # An attribute of a value, which is for who asks to judge.
                return None if found is _MISSING or _is_constant(found) else _described(found, dotted)
        if _hides(found):
            return _hidden(found)
        if found is _MISSING or (isinstance(found, ModuleType) and found.__name__ in _NAMES):
            return None
        if getattr(builtins, first, _MISSING) is found and not rest:
            return None
        return self._classified(found, dotted, find)

    def _classified(self, found: Any, dotted: str, find: Callable[[str], Any]) -> Outside:
        if isinstance(found, Function):
            return found.callee
        if _is_constant(found):
            return OutsideConstant(found)
        if is_named_tuple(found):
            return record_of(found)
        if get_origin(found) is not None:
            return Unusable("a type", ("types stand in annotations, and in `isinstance`",), written_annotation(found))
        name = _spelling(found)
        if name is not None:
            return self._alias(name, dotted, find)
        if inspect.isfunction(found) or inspect.ismethod(found):
            return self._function(found)
        return _described(found, dotted)

    def _alias(self, name: str, dotted: str, find: Callable[[str], Any]) -> Outside:
        """A name of the language's, unless that means something else here."""
        if name == dotted:
            return None
        root = find(name.partition(".")[0])
        if root is _MISSING or (isinstance(root, ModuleType) and root.__name__ in _NAMES):
            return Alias(name)
        return Unusable(f"'{name}', and '{name.partition('.')[0]}' is another name here", ("rename one of the two",))

    def _function(self, function: Callable[..., Any]) -> Outside:
        if function in self._open:
            names = [each.__name__ for each in self._open]
            return Recursion((*names[list(self._open).index(function) :], function.__name__))
        if function not in self._known:
            self._known[function] = self._compiled(function)
        return self._known[function]

    def _compiled(self, function: Callable[..., Any]) -> Outside:
        try:
            return self.compiled(function).callee
        except CompileError as error:
            return BrokenFunction(error.diagnostics)
        except (TypeError, ValueError) as error:
            return Unusable("a Python function that cannot be compiled", (str(error),))


def first_parameter(method: Callable[..., Any]) -> str:
    """What a method calls the object that it is of."""
    return str(inspect.unwrap(method).__code__.co_varnames[0])


def _names_of(unit: Namespace, name: str) -> tuple[str, ...]:
    return did_you_mean(name, unit.functions) or (f"there are {', '.join(unit.functions) or 'none'}",)


def _module(value: Any, dotted: str) -> Unusable:
    """A module of torch's: its tensors are parameters, and what it computes a function."""
    kind = type(value).__name__
    names = [name for name, _ in value.named_parameters(recurse=False)]
    tensors = ", ".join(f"`{dotted}.{name}`" for name in names)
    same = kind.lower()
    call = f"write `F.{same}({', '.join(['…', *names])})`" if OPS.overloads(same) else "write what it computes"
    take = f", take {', '.join(names)} as parameters and pass {tensors}" if names else ""
    return Unusable(f"a module, {kind}, whose tensors may change", (call + take,))


def _is_constant(value: Any) -> bool:
    """Whether a value is a constant of the language: tuples are no deeper than a program writes them."""
    if type(value) is tuple:
        return all(map(_is_constant, value))
    return value is None or type(value) in (bool, int, float, str)


def _spelling(value: Any) -> str | None:
    """The language's name for a function or dtype of a module that it knows: `from torch.nn.functional import relu`."""
    if type(value).__module__ == "torch" and type(value).__name__ == "dtype":
        return str(value)
    name = getattr(value, "__name__", None)
    if isinstance(name, str) and callable(value):
        for path, known in _NAMES.items():
            module = sys.modules.get(path)
            if module is not None and known != "gs" and vars(module).get(name, _MISSING) is value:
                return f"{known}.{name}"
    return None


def _attributes_like(owner: Any, name: str) -> tuple[str, ...]:
    """What to do about an attribute that is not there."""
    return did_you_mean(name, dir(owner)) or ("set it before: a method is compiled with what its object holds then",)


def _has(value: Any, name: str) -> bool:
    """Whether an object has an attribute, also one that cannot be read: a nested tensor has no shape to tell."""
    try:
        return hasattr(value, name)
    except Exception:
        return True


def _hides(value: Any) -> bool:
    """Whether an object cannot be asked what it is, as a proxy of what is not there yet."""
    try:
        isinstance(value, ModuleType)
        hasattr(value, "__name__")
    except Exception:
        return True
    return False


def _hidden(value: Any) -> Unusable:
    return Unusable(f"of Python's type {type(value).__name__}", ("pass it as an argument", _ADVICE))


def _described(value: Any, dotted: str) -> Unusable:
    if isinstance(value, ModuleType):
        return Unusable(f"the Python module '{value.__name__}'", (_ADVICE,))
    if isinstance(value, Owner):
        return Unusable("the object that the method is of", ("name the attribute: `self.size`",))
    if isinstance(value, type):
        return Unusable(f"the Python class '{value.__name__}'", (_ADVICE,))
    if _has(value, "shape") and _has(value, "dtype"):
        name = dotted.rpartition(".")[2]
        passed = f"take it as a parameter, `{name}`, and pass `{dotted}` where it is called"
        return Unusable("a tensor, whose elements may change", (passed,))
    if _has(value, "named_parameters") and _has(value, "forward"):
        return _module(value, dotted)
    if isinstance(value, Namespace):
        return Unusable("a CompilationUnit", ("call one of its functions: `unit.name(…)`",))
    name = getattr(value, "__name__", "") if callable(value) else ""
    if callable(value) and isinstance(name, str) and OPS.overloads(name):
        return Unusable("a function of Python's", (f"write `torch.{name}(…)`",))
    if isinstance(value, list):
        return Unusable("a list of Python's, which may change", ("make it a tuple, or pass it as an argument",))
    return _hidden(value)
