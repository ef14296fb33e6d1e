"""Writes the parameters of random programs, and calls of different kinds: equal shapes first, then others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from expression_table import BROADCAST
from expression_writer import ExpressionWriter
from parameter_table import ANY, FORMS, LOOSE

CALLS = 3


@dataclass(frozen=True)
class Parameter:
    name: str
    annotation: str
    values: tuple[str, ...]
    default: str = ""
    shape: str = ""
    """What its `T(p)` is, and what its `T(~)` broadcasts to."""
    only_by_name: bool = False

    @property
    def text(self) -> str:
        head = f"{self.name}: {self.annotation}" if self.annotation else self.name
        return f"{head} = {self.default}" if self.default else head


class SignatureWriter(ExpressionWriter):
    """The head of `f`, and the calls of it. What the parameters are good for is known to the expressions."""

    def signature(self) -> tuple[str, list[str]]:
        parameters = [*self._tensors(), *self._numbers(), *self._others()]
        parameters.sort(key=lambda parameter: (parameter.only_by_name, bool(parameter.default)))
        self.names.fixed |= {p.name for p in parameters if p.annotation}
        texts = [parameter.text for parameter in parameters]
        first = next((i for i, parameter in enumerate(parameters) if parameter.only_by_name), None)
        if first is not None:
            texts.insert(first, "*")
        return f"def f({', '.join(texts)}):", [self._call(parameters, kind) for kind in range(CALLS)]

    def _tensors(self) -> list[Parameter]:
        """Of one shape each, the first one of all sizes."""
        shapes = ["ab", *self.random.sample(self.shapes, self.random.choice((0, 1, 1, 2)))]
        self.names.tensors |= dict(zip("xyz", shapes, strict=False))
        made = [Parameter("xyz"[i], "", (f"T({shape})",)) for i, shape in enumerate(shapes)]
        if self.random.random() < 0.2:
            shape = self.names.lists["ts"] = self.random.choice(self.shapes)
            made.append(Parameter("ts", "List[Tensor]", (f"[T({shape}), T({shape})]",)))
        return made

    def _numbers(self) -> list[Parameter]:
        made = []
        if self.random.random() < 0.5:
            self.names.numbers["n"] = "int"
            made.append(Parameter("n", "int", ("1", "0", "2", "3"), self.random.choice(("", "2"))))
        if self.random.random() < 0.15:
            self.names.numbers["s"] = "float"
            made.append(Parameter("s", "float", ("1.5",), "0.5"))
        if self.random.random() < 0.15:
            self.names.numbers["flag"] = "bool"
            made.append(Parameter("flag", "bool", ("True", "False"), self.random.choice(("True", "False"))))
        return made

    def _others(self) -> list[Parameter]:
        return [self._other(f"o{i}") for i in range(self.random.choice((0, 0, 1, 1, 2, 3)))]

    def _other(self, name: str) -> Parameter:
        form = self.random.choice(FORMS)
        allowed = [shape for shape in self.shapes if not form.for_shapes or shape in form.for_shapes]
        shape = self.random.choice(("ab", *allowed) if not form.for_shapes else allowed)
        for given, uses in form.uses.items():
            for target in [given] if given != ANY else self._broadcast_to(shape):
                self.uses.setdefault(target, []).extend(use.replace("NAME", name) for use in uses)
        default = self.random.choice(("", *form.defaults))
        self.given[form.annotation, shape if "T(" in form.values[0] else ""] = name
        return Parameter(
            name, form.annotation, form.values, default, shape, bool(default) and self.random.random() < 0.4
        )

    def _broadcast_to(self, shape: str) -> list[str]:
        """The shapes beside which whatever broadcasts to a shape can stand."""
        return [other for other in self.shapes if set(BROADCAST[shape]) <= set(BROADCAST[other])]

    # --- calls ---

    def _call(self, parameters: Sequence[Parameter], kind: int) -> str:
        sizes = {"a": self._front(kind), "b": (self.random.choice((3, 2, 1, 4)),), "1": (1,)}
        given, by_name = [], False
        for parameter in parameters:
            if parameter.default and self.random.random() < 0.4:
                by_name = True
                continue
            by_name |= parameter.only_by_name or self.random.random() < 0.1
            value = self._value(parameter, sizes, kind)
            given.append(f"{parameter.name}={value}" if by_name else value)
        return f"# arguments: {', '.join(given)}"

    def _value(self, parameter: Parameter, sizes: dict[str, tuple[int, ...]], kind: int) -> str:
        """The first value for the first call, more often than not."""
        value = self.random.choice(parameter.values)
        if kind == 0 and self.random.random() < 0.6:
            value = parameter.values[0]

        def dims(letters: str) -> str:
            return ", ".join(str(size) for letter in letters for size in sizes[letter])

        def shaped(found: re.Match[str]) -> str:
            asked = found[1]
            shape = {"p": parameter.shape, "~": self.random.choice(LOOSE[parameter.shape])}.get(asked, asked)
            return f"T({dims(shape)})"

        value = re.sub(r"T\(([\w~]*)\)", shaped, value)
        return re.sub(r"L\((\w*)\)", lambda found: f"[{dims(found[1])}]", value)

    def _front(self, kind: int) -> tuple[int, ...]:
        if self.is_matrix:
            return (self.random.choice((2, 3, 1, 4, 2, 3, 0) if kind else (2, 3)),)
        return self.random.choice(((), (2,), (1, 2), (2, 1), (0,), (3,)) if kind else ((2,), (), (3,), (2, 2)))
