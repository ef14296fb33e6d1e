"""Python's named tuples as the language has them."""

from __future__ import annotations

import sys
from typing import Any

from ....compiler.emit.outside import Environment, Outside, Unusable
from ....compiler.emit.records import record_type, with_records
from ....lang.diagnostics import Diagnostics
from ....lang.parser import parse
from ....lang.source import Source

_PLAIN = (bool, int, float, str, type(None))


def is_named_tuple(value: Any) -> bool:
    """Whether a value is a class of named tuples."""
    return isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields")


def record_of(kind: Any) -> Outside:
    """A class of named tuples. Its annotations are read as source is; a field without one is a Tensor."""
    annotations = getattr(kind, "__annotations__", {})
    defaults = kind._field_defaults
    if any(type(value) not in _PLAIN for value in defaults.values()):
        note = "its defaults have to be numbers, strings, bools or None"
        return Unusable(f"the named tuple '{kind.__name__}'", (note,))
    fields = [
        f"    {name}: {written_annotation(annotations.get(name))}"
        + (f" = {defaults[name]!r}" if name in defaults else "")
        for name in kind._fields
    ]
    text = "\n".join([f"class {kind.__name__}(NamedTuple):", *fields, ""]) if fields else ""
    if not annotations:
        arguments = f"{kind.__name__!r}, {[*kind._fields]!r}, defaults={[*defaults.values()]!r}"
        text = f"{kind.__name__} = namedtuple({arguments})\n"
    diagnostics = Diagnostics()
    module = parse(Source(text, f"<{kind.__qualname__}>"), diagnostics)
    found = with_records(module.records, diagnostics, _around(kind))(kind.__name__)
    if diagnostics.found:
        return Unusable(f"the named tuple '{kind.__name__}'", (diagnostics.found[0].message,))
    return found if fields else record_type(kind.__name__, ())


def written_annotation(annotation: Any) -> str:
    """An annotation as source has it."""
    if annotation is None:
        return "Tensor"
    annotation = getattr(annotation, "__forward_arg__", annotation)
    if isinstance(annotation, str):
        return annotation
    if isinstance(annotation, type) and not hasattr(annotation, "__args__"):
        return "Tensor" if annotation.__name__ in ("Tensor", "ndarray") else annotation.__name__
    return str(annotation).replace("typing.", "").replace("torch._tensor.", "torch.")


def _around(kind: Any) -> Environment:
    """What annotations may name besides: other named tuples of the class's module, and those it was made with."""
    names = dict(vars(sys.modules.get(kind.__module__, sys)))
    names |= {each.__name__: each for each in getattr(kind, "__annotations__", {}).values() if is_named_tuple(each)}

    def find(name: str) -> Outside:
        found = names.get(name)
        return record_of(found) if is_named_tuple(found) and found is not kind else None

    return find
