"""What the parts of a module are written from."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from ...compiler.types.schema import Argument
from ...compiler.types.types import is_tensor, strip_optional
from ...lang.light_dataclasses import dataclass
from ...runtime.face.function import Function, default_of
from .launchers import Launchers
from .python_text import python_type, wrapped_line
from .reference import ReferenceText
from .signature import ExportSignature, SampleShape


@dataclass
class ExportFacts:
    """A function, its kernels and its plain text. `launchers` are those of each length of rows, the held one first."""

    function: Function
    values: Sequence[Any]
    """Arguments like which the module was planned, one for each parameter."""
    signature: ExportSignature
    launchers: Sequence[Launchers]
    reference: ReferenceText
    policy: str
    version: str
    formula: str
    derivation: str

    def __post_init__(self) -> None:
        self.name = self.function.name
        self.arguments = self.function.schema.arguments
        self.tensors = [a for a in self.arguments if is_tensor(strip_optional(a.type))]
        self.plain = [a for a in self.arguments if a not in self.tensors]
        self.has_seed = bool(self.reference.seeds)
        self.results = len(self.function.schema.returns)
        first = self.launchers[0]
        self.saved = list(first.saved)
        self.kept_results = dict(first.results)
        self.has_gradient = first.backward is not None
        texts = [self.formula, self.reference.text, *(one.all_text for one in self.launchers)]
        self.op_name = f"{self.name}_{sha256(chr(10).join(texts).encode()).hexdigest()[:8]}"
        """What torch calls the op: functions of one name may be loaded from several modules."""

    def is_present(self, argument: Argument) -> bool:
        return isinstance(self.signature.arguments[self.arguments.index(argument)], SampleShape)

    def parameters(self, arguments: Sequence[Argument], defaults: bool = True) -> str:
        """The parameters of a function, typed; keyword-only ones behind a star where there are defaults."""
        parts: list[str] = []
        starred = False
        for a in arguments:
            if a.keyword_only and not starred and defaults:
                parts.append("*")
                starred = True
            default = "" if a.required or not defaults else f" = {default_of(a)!r}"
            parts.append(f"{a.name}: {python_type(a.type)}{default}")
        return ", ".join(parts)

    @property
    def uses_library(self) -> bool:
        texts = [f.text for one in self.launchers for f in one.kernels] + self.helper_texts()
        return any("libdevice." in text for text in texts)

    def helper_texts(self) -> list[str]:
        found = dict.fromkeys(helper for one in self.launchers for f in one.kernels for helper in f.helpers)
        return list(found)


def sizes_of(shape: SampleShape) -> list[str]:
    return [size.text() for size in shape.sizes]


def tuple_of(parts: Sequence[str]) -> str:
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


def targets(names: Sequence[str]) -> str:
    """Names that a tuple is taken apart into."""
    return f"({names[0]},)" if len(names) == 1 else ", ".join(names)


def short(lines: Sequence[str]) -> list[str]:
    found: list[str] = []
    for line in lines:
        margin = line[: len(line) - len(line.lstrip())]
        found += wrapped_line(line.lstrip(), margin) if line.strip() and '"""' not in line else [line]
    return found
