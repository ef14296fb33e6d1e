"""Exported C: built, called by what its header says alone, and held to torch's gradients in float64."""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import gradscript as gs
import torch
from gradscript.authoring.export.c.text import exported_c
from gradscript.authoring.export.face import values_for

COMMAND = ("cc", "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-fopenmp-simd", "-shared", "-fPIC")
_DTYPES = {"float": torch.float32, "int64_t": torch.int64, "bool": torch.bool}
GUARD = 64
"""Elements behind what is kept, which nothing writes to."""
TOLERANCE = 1e-5
"""Of the largest number, of results in float32."""


class CalledC:
    """A function as a library of C."""

    def __init__(self, function: gs.Function, like: Mapping[str, Any], folder: Path, more: Sequence[str] = ()) -> None:
        self.names = [argument.name for argument in function.schema.arguments]
        self.name = function.name
        self.texts = exported_c(function, values_for(function, tuple(like[name] for name in self.names), {}))
        for name, text in self.texts.items():
            (folder / name).write_text(text, encoding="utf-8")
        built = folder / f"{self.name}.so"
        subprocess.run([*COMMAND, str(folder / f"{self.name}.c"), *more, "-o", str(built), "-lm"], check=True)
        self.library = ctypes.CDLL(str(built))
        self.header = self.texts[f"{self.name}.h"]

    def listed(self, what: str) -> list[str]:
        found = re.search(rf"\* +{what}: (.*)", self.header)
        return found[1].split(", ") if found is not None else []

    def parameters(self, which: str) -> list[tuple[str, str]]:
        """Names and types."""
        found = re.search(rf"{self.name}_{which}\((.*)\);", self.header)
        texts = found[1].split(", ") if found is not None else []
        return [(re.split(r"[ *]", text)[-1], text) for text in texts]

    def call(self, which: str, values: Mapping[str, Any], sizes: Mapping[str, int]) -> int:
        given: list[Any] = []
        for name, text in self.parameters(which):
            if "*" in text:
                given.append(ctypes.c_void_p(values[name].data_ptr()))
            elif text.startswith("double"):
                given.append(ctypes.c_double(values[name]))
            else:
                given.append(ctypes.c_int64(sizes[name]))
        return int(getattr(self.library, f"{self.name}_{which}")(*given))

    def shapes(self) -> dict[str, list[str]]:
        """Of arguments, results and what is kept."""
        told = re.findall(r"^ \*     (\w+): \((.*)\)$", self.header, re.MULTILINE)
        return {name: [part for part in text.split(", ") if part] for name, text in told}

    def room(self, name: str, sizes: Mapping[str, int]) -> int:
        """The elements of a result, or of what is kept."""
        return prod(eval(part.replace("/", "//"), dict(sizes)) for part in self.shapes()[name])

    def sizes(self, values: Mapping[str, Any]) -> dict[str, int]:
        """Sizes by name, as the header says of arguments; what it says must hold."""
        found: dict[str, int] = {}
        for name, parts in self.shapes().items():
            if name not in self.names:
                continue
            shape = list(values[name].shape)
            if parts[:1] == ["rows"]:
                batch = len(shape) - len(parts) + 1
                shape = [prod(shape[:batch]), *shape[batch:]]
            for part, size in zip(parts, shape, strict=True):
                if part.isidentifier():
                    assert found.setdefault(part, size) == size
        return found


def held_to_torch(called: CalledC, values: Mapping[str, Any], eager: Callable[..., Any]) -> None:
    """Results and gradients of all floating tensors beside those of a function of torch, by random gradients."""
    wide = {
        name: value.double().requires_grad_() if torch.is_tensor(value) and value.is_floating_point() else value
        for name, value in values.items()
    }
    outputs = eager(**wide)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    sizes, results, kept = called.sizes(values), called.listed("results"), called.listed("kept for the backward")
    held = {name: torch.full(output.shape, torch.nan) for name, output in zip(results, outputs, strict=True)}
    assert [called.room(name, sizes) for name in results] == [output.numel() for output in outputs]
    types = {name: text.split()[0] for name, text in called.parameters("forward")}
    room = {name: called.room(name, sizes) for name in kept}
    held |= {name: torch.ones(room[name] + GUARD, dtype=_DTYPES[types[name]]) for name in kept}
    assert called.call("forward", {**values, **held}, sizes) == 0
    assert all(bool((held[name][room[name] :] == 1).all()) for name in kept)
    for name, output in zip(results, outputs, strict=True):
        _close(held[name], output)
    seeds = [torch.randn(output.shape) for output in outputs]
    taken = [name for name, text in called.parameters("backward") if text.startswith("const") and "*grad_" in text]
    leaves = {name: value for name, value in wide.items() if torch.is_tensor(value) and value.requires_grad}
    made = {f"grad_{name}": torch.full(leaf.shape, torch.nan) for name, leaf in leaves.items()}
    given = {**values, **held, **dict(zip(taken, seeds, strict=True)), **made}
    assert called.call("backward", given, sizes) == 0
    wanted = torch.autograd.grad(outputs, [*leaves.values()], [seed.double() for seed in seeds])
    for found, gradient in zip(made.values(), wanted, strict=True):
        _close(found, gradient)


def _close(found: torch.Tensor, wanted: torch.Tensor) -> None:
    wanted = wanted.detach()
    largest = float(wanted.abs().max()) if wanted.numel() else 0.0
    torch.testing.assert_close(found.double(), wanted, rtol=0, atol=TOLERANCE * (largest + 1e-3))
