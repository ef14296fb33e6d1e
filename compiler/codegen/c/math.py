"""The vector math of C kernels: functions `gs_NAME_f32` and `gs_NAME_f64` as text, with all that they call.

The text stands in `math_text/*.h`, one file per family. It is plain C without branches, so that loops over it
vectorise, and it counts on exact IEEE arithmetic: NaN, infinities, signed zeros and subnormal numbers come out as
torch's, and no -ffast-math may touch it. Modules that hold it are compiled with `EXACT`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from ....lang.light_dataclasses import dataclass
from ...types.dtypes import FLOAT32, FLOAT64, DType

EXACT = ("-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")
"""What the text is compiled with: products and sums stay two roundings unless it says `fma`; nobody reads `errno` or
the flags of floating-point exceptions. None of them changes a value."""

IN_STAGES = "/* What is left behind the last whole vector is little here: it goes point by point. */"
"""The first line of a module of which that is so, whose innermost loops are all long: compilers are told."""

SUFFIXES = {FLOAT32: "f32", FLOAT64: "f64"}
INLINE = "static inline __attribute__((always_inline))"
"""A loop around a call vectorises only where the callee is inlined, however long it is."""

_FILES = (
    *("bits", "roots", "exponentials", "logarithms", "powers", "hyperbolic", "inverse_hyperbolic"),
    *("trigonometric", "inverse_trigonometric", "error_functions", "gamma_functions"),
    *("special_functions", "bessel_functions"),
)
"""In an order in which every function stands behind those that it calls."""
_NAME = re.compile(r"\b(?:gs|GS)_\w+")
_DEFINED = re.compile(r"^(?:INLINE .*?(?=gs_\w+\()|static const .*?|#define |\} )((?:gs|GS)_\w+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Definition:
    """A function, table or macro: its text, with the comment above, and the names that it uses."""

    text: str
    uses: frozenset[str]


def helper(primitive: str, dtype: DType) -> str:
    """The name of the function for a primitive of `compiler.ops.scalar` on float32 or float64."""
    return f"gs_{primitive}_{SUFFIXES[dtype]}"


def has_function(primitive: str, dtype: DType) -> bool:
    """Whether there is a function for a primitive on operands of a dtype."""
    return dtype in SUFFIXES and helper(primitive, dtype) in _library()


def helpers(names: Iterable[str], dtypes: Iterable[DType]) -> str:
    """The functions for primitives on each of the dtypes, and all that they call. Needs <stdint.h>.

    Raises: KeyError for a primitive that has none.
    """
    kinds = tuple(dtypes)
    return definitions(helper(name, dtype) for name in names for dtype in kinds)


def definitions(functions: Iterable[str]) -> str:
    """The text of functions by their whole names, each once, behind what it calls."""
    library = _library()
    needed: set[str] = set()
    pending = list(functions)
    while pending:
        name = pending.pop()
        if name not in needed:
            needed.add(name)
            pending += library[name].uses
    texts = dict.fromkeys(definition.text for name, definition in library.items() if name in needed)
    return "\n\n".join(texts)


@cache
def _library() -> dict[str, _Definition]:
    """Every definition by name, in the order of the files."""
    folder = Path(__file__).with_name("math_text")
    found: dict[str, _Definition] = {}
    for file in _FILES:
        for text in (folder / f"{file}.h").read_text(encoding="utf-8").split("\n\n"):
            defined = dict.fromkeys(_DEFINED.findall(text))
            uses = frozenset(_NAME.findall(text)) - set(defined)
            written = _Definition(text.strip().replace("INLINE ", f"{INLINE} "), uses)
            found |= dict.fromkeys(defined, written)
    return found
