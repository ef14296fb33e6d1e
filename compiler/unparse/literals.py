"""Constants, types and parameters in source."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from ..ir.constants import TensorConstant
from ..ir.printer import quote
from ..types.dtypes import BY_CODE
from ..types.schema import Argument
from ..types.types import TENSOR, Type

_LONGEST_DECIMAL = 4096
_KNOWN = re.compile(r"Tensor\[[^\[\]]*\]|\bUndefined\b")


def literal(value: Any) -> str:
    """A number, string, bool, None, or a list of such."""
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, TensorConstant):
        return _tensor(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, int) and value.bit_length() > _LONGEST_DECIMAL:
        return hex(value)
    return repr(value)


def triple_quoted(text: str) -> str:
    """A docstring: its line breaks as they are."""
    escaped = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    if escaped.endswith('"'):
        escaped = escaped[:-1] + '\\"'
    return f'"""{escaped}"""'


def _tensor(value: TensorConstant) -> str:
    """A call that makes the tensor."""
    shape, dtype = list(value.array.shape), f"dtype=torch.{value.type.dtype}"
    if not value.elements:
        return f"torch.zeros({shape}, {dtype})"
    if not shape:
        return f"torch.tensor({literal(value.elements[0])}, {dtype})"
    flat = f"torch.tensor({literal(value.elements)}, {dtype})"
    return flat if len(shape) == 1 else f"{flat}.reshape({shape})"


def _float(value: float) -> str:
    if math.isnan(value):
        return "math.nan"
    if math.isinf(value):
        return "math.inf" if value > 0 else "-math.inf"
    return repr(value)


def dtype_literal(code: Any) -> str:
    """`torch.float32` for a dtype's code."""
    return f"torch.{BY_CODE[code]}" if code in BY_CODE else literal(code)


def annotation(type: Type) -> str:
    """A type's own text is its annotation, but for what is known about a tensor, or about a gradient."""
    return _KNOWN.sub("Tensor", str(type))


def _annotation_of(argument: Argument) -> str:
    text = annotation(argument.type)
    return text if argument.fixed_size is None else text.replace("List", f"BroadcastingList{argument.fixed_size}", 1)


def parameter_text(argument: Argument, name: str, annotated: bool) -> str:
    """`n: int = 1`; a plain Tensor goes without saying unless everything is annotated."""
    text = name
    if annotated or argument.type != TENSOR:
        text += f": {_annotation_of(argument)}"
    if argument.required:
        return text
    default = argument.default
    return f"{text} = {literal(default)}" if ":" in text else f"{text}={literal(default)}"


def parameters_text(arguments: tuple[Argument, ...], name_of: Callable[[int], str], annotated: bool) -> str:
    """A signature's content; `*` stands before the first keyword-only parameter."""
    parts: list[str] = []
    for i, argument in enumerate(arguments):
        if argument.keyword_only and "*" not in parts:
            parts.append("*")
        parts.append(parameter_text(argument, name_of(i), annotated))
    return ", ".join(parts)
