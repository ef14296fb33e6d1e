"""The text of a maximum and of sums of exponentials that come from one loop over a row.

    largest_acc = tl.full((1, BLOCK // 4), -3.4e38, tl.float32)
    total_acc = tl.zeros((1, BLOCK // 4), tl.float32)
    for start in tl.range(0, 32000, BLOCK, num_stages=2):
        x = tl.load(…)
        largest_parts = tl.reshape(x, (4, BLOCK // 4))
        largest_new = _nan_max(largest_acc, tl.reduce(largest_parts, axis=0, combine_fn=_nan_max, keep_dims=True))
        total_acc = total_acc * exp(largest_acc - largest_new) + tl.sum(exp(largest_parts - largest_new), axis=0, …)
        largest_acc = largest_new
    largest = tl.reduce(largest_acc, axis=None, combine_fn=_nan_max)
    total = tl.sum(total_acc * exp(largest_acc - largest), axis=None)

Each thread rescales sums of its own, once for all parts of a block: threads wait for each other after the loop only.
Milakov and Gimelshein 2018, "Online normalizer calculation for softmax".
"""

from __future__ import annotations

from ....lang.light_dataclasses import dataclass, field
from ...types.dtypes import FLOAT32, FLOAT64, DType
from ..naming import Names
from ..text import Text
from .layout import Dimension, TritonLayout
from .primitives import TYPES, TritonSpelling

LOWEST = {FLOAT32: -3.4028234663852886e38, FLOAT64: -1.7976931348623157e308}
"""The lowest finite numbers."""


@dataclass
class Rescaling:
    """The lines before a loop, its own, and those after it. A module that has them needs the helper `_nan_max`."""

    layout: TritonLayout
    names: Names
    dtype: DType
    exp: TritonSpelling
    before: list[str] = field(default_factory=list)
    inner: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)

    def write(self, operand: str, maximum: str, sums: list[str], is_seen: bool) -> None:
        """Lines for variables that hold the maximum of an operand and the sums of its exponentials less the maximum.

        `is_seen` says whether anything but these exponentials uses the maximum.
        """
        parts, largest, grown = (self.names.take(f"{maximum}_{suffix}") for suffix in ("parts", "acc", "new"))
        self.before += ["# Finite, for -inf - -inf is NaN.", self._filled(largest)]
        best = f"tl.reduce({parts}, axis={self._axis}, combine_fn=_nan_max, keep_dims=True)"
        self.inner += [
            f"{parts} = tl.reshape({operand}, {self._shape(str(self._loop.parts), self._lanes)})",
            f"{grown} = _nan_max({largest}, {best})",
        ]
        self.after.append(f"{maximum} = tl.reduce({largest}, {self._across}, combine_fn=_nan_max)")
        for total in sums:
            self._sum(total, f"{largest} - {grown}", f"{parts} - {grown}", f"{largest} - {self._spread(maximum)}")
        self.inner.append(f"{largest} = {grown}")
        if is_seen:
            self.after.append(f'{maximum} = tl.where({sums[0]} == 0, -float("inf"), {maximum})')

    def _sum(self, total: str, grown: str, terms: str, rest: str) -> None:
        scale, added, last = (self.exp.apply([Text(text)]).text for text in (grown, terms, rest))
        sums = self.names.take(f"{total}_acc")
        self.before.append(f"{sums} = tl.zeros({self._kept}, {TYPES[self.dtype]})")
        self.inner.append(f"{sums} = {sums} * {scale} + tl.sum({added}, axis={self._axis}, keep_dims=True)")
        self.after.append(f"{total} = tl.sum({sums} * {last}, {self._across})")

    def _filled(self, largest: str) -> str:
        return f"{largest} = tl.full({self._kept}, {LOWEST[self.dtype]}, {TYPES[self.dtype]})"

    # --- the tile, with the loop's block in two dimensions: parts, and what each thread has in every part ---

    @property
    def _loop(self) -> Dimension:
        loop = self.layout.loop
        assert loop is not None
        return loop

    @property
    def _axis(self) -> int:
        return self.layout.tile.index(self._loop)

    @property
    def _lanes(self) -> str:
        return f"{self._loop.label} // {self._loop.parts}" if self._loop.parts > 1 else self._loop.label

    @property
    def _kept(self) -> str:
        return self._shape("1", self._lanes)

    def _shape(self, parts: str, lanes: str) -> str:
        sizes = [f"{parts}, {lanes}" if d == self._loop else d.label for d in self.layout.tile]
        return f"({', '.join(sizes)})"

    @property
    def _across(self) -> str:
        return "axis=None" if len(self.layout.tile) == 1 else f"axis={self._axis + 1}"

    def _spread(self, maximum: str) -> str:
        """What is left of a tile, over all lanes again."""
        if len(self.layout.tile) == 1:
            return maximum
        indices = [":" for _ in self.layout.tile]
        indices.insert(self._axis + 1, "None")
        return f"{maximum}[{', '.join(indices)}]"
