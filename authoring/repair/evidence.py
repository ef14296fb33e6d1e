"""What a wrong gradient is held against: traces of the backward, and the projections that a right one would have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from ...compiler.ir.graph import Graph
from ...compiler.ops.arrays import Array
from ...lang.light_dataclasses import dataclass, field
from ..trials.leaves import Path, at, floating_leaves
from ..trials.trace import RunTrace

MATCH = 1e-7
"""Relative: how near an edit must bring the gradient to the truth."""
HOLDS = 1e-4
"""The same of a trial that only confirms what another has shown."""
MIN_EQUATIONS = 3


@dataclass(slots=True)
class Evidence:
    """One trace per choice of output gradients. `directions` and `expected` say what the right gradient gives."""

    graph: Graph
    traces: list[RunTrace]
    path: Path
    directions: list[Array]
    expected: list[Array]
    """Per trace, the derivative along each direction."""
    others: dict[int, list[Any]]
    """Per trace-independent parameter number: its gradients, one per trace, as the backward gave them."""
    arguments: dict[str, Array]
    """Floating arguments of the function by name."""
    forward: RunTrace
    """How the forward went: what it names, the backward could have captured."""
    tolerance: float = MATCH
    _named: dict[int, dict[str, Array]] = field(default_factory=dict)
    """By trace, what `named_values` found: the same for all that is made of this by `replace`."""
    _along: Array = field(default_factory=lambda: np.zeros((0, 0)))
    """The directions as rows."""

    def __post_init__(self) -> None:
        if self.directions:
            self._along = np.stack([np.asarray(direction, np.float64).ravel() for direction in self.directions])

    @property
    def shape(self) -> tuple[int, ...]:
        return self.directions[0].shape

    @property
    def equations(self) -> int:
        return len(self.directions)

    def result(self, trace: RunTrace) -> int:
        """The number of the value that is the wrong gradient."""
        return trace.results[self.path[0]]

    def of_result(self, gradient: Any) -> Any:
        """The tensor of a gradient that may be a list."""
        return gradient if len(self.path) == 1 else at([gradient], (0, *self.path[1:]))

    def project(self, gradient: Any) -> Array | None:
        """The derivative along each direction that a gradient gives; None if it has another shape."""
        array = self.of_result(gradient)
        if isinstance(array, np.generic):
            # What NumPy's operators make of arrays without dimensions.
            array = np.asarray(array)
        if not isinstance(array, np.ndarray) or array.shape != self.shape:
            return None
        with np.errstate(all="ignore"):
            return np.asarray(self._along @ array.ravel())

    def gradients(self) -> list[Array | None]:
        """The right gradient, one per trace, where there is a direction for each element."""
        found: list[Array | None] = []
        lengths = np.array([float(np.sum(direction)) for direction in self.directions])
        whole = len(self.directions) == int(np.prod(self.shape)) and all(
            np.count_nonzero(direction) == 1 for direction in self.directions
        )
        for expected in self.expected:
            found.append((expected / lengths).reshape(self.shape) if whole else None)
        return found

    def matches(self, gradients: Iterable[Any]) -> bool:
        """Whether these gradients, one per trace, are the right ones."""
        for gradient, expected in zip(gradients, self.expected, strict=True):
            found = self.project(gradient)
            if found is None or not np.isfinite(found).all():
                return False
            scale = float(np.abs(expected).max(initial=0.0)) or float(np.abs(found).max(initial=0.0)) or 1.0
            if float(np.abs(found - expected).max(initial=0.0)) > self.tolerance * scale:
                return False
        return True

    def named_values(self, trace: RunTrace) -> dict[str, Array]:
        """Arrays that an expression of the backward could name, by name."""
        known = self._named.get(id(trace))
        if known is not None:
            return known
        found: dict[str, Array] = dict(self.arguments)
        forward = zip(self.forward.values, self.forward.names, strict=True)
        for value, name in chain(zip(trace.values, trace.names, strict=True), forward):
            if name and name not in found and isinstance(value, np.ndarray) and value.dtype.kind == "f":
                found[name] = value
        self._named[id(trace)] = found
        return found


def context_arrays(values: Sequence[Any], names: Sequence[str]) -> dict[str, Array]:
    """The floating tensors among arguments, by name; elements of lists are left out."""
    leaves = floating_leaves(values)
    return {names[path[0]]: leaf for path, leaf in leaves.items() if len(path) == 1}
