"""Where TorchScript's formulas give something else than eager: the inputs, and why. docs/torchscript.md shows both."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import Any

import numpy as np
from gradscript.compiler.types.dtypes import FLOAT64
from samples.arrays import literal
from torchscript_samples import Sample, at

NAN_IS_FALSE = "a comparison with NaN is false, so the mask of the formula is 0; eager lets the gradient pass"
TIE = "both comparisons are strict, so nobody gets the gradient of a tie; eager gives each half of it"
POW = "the gradient of the exponent multiplies by log 0, also what is 0; eager gives zeros where the base is 0"
STD_OF_EQUAL = "the formula divides by the deviation, which is 0; eager gives zeros there"
NO_DIMS = "with no dims everything is reduced, yet the formula divides by the product of no sizes, which is 1"


@dataclass(frozen=True)
class Difference:
    """One call of a function of which TorchScript's gradients are not eager's.

    `script` is the call in TorchScript, of the parameters that are tensors by name.
    """

    function: str
    sample: Sample
    why: str
    script: str


def zeros(*shape: int) -> Any:
    return literal(np.zeros(shape), FLOAT64)


DIFFERENCES: tuple[Difference, ...] = (
    Difference("max", (at(1), at(1)), TIE, "torch.max(self, other)"),
    Difference("max", (at(nan), at(1)), NAN_IS_FALSE, "torch.max(self, other)"),
    Difference("min", (at(1), at(1)), TIE, "torch.min(self, other)"),
    Difference("min", (at(nan), at(1)), NAN_IS_FALSE, "torch.min(self, other)"),
    Difference("pow_1", (at(0, 0), at(2, 0)), POW, "torch.pow(self, exponent)"),
    Difference("pow_2", (0, at(2, 1)), POW, "torch.pow(0, exponent)"),
    Difference(
        "threshold",
        (at(1), 1, 0),
        "the formula counts the threshold as above; eager as below",
        "torch.ops.aten.threshold(self, 1, 0)",
    ),
    Difference("threshold", (at(nan), 1, 0), NAN_IS_FALSE, "torch.ops.aten.threshold(self, 1, 0)"),
    Difference(
        "hardtanh",
        (at(-1, 1), -1, 1),
        "the formula counts the edges as inside; eager as outside",
        "torch.ops.aten.hardtanh(self, -1, 1)",
    ),
    Difference("hardtanh", (at(nan), -1, 1), NAN_IS_FALSE, "torch.ops.aten.hardtanh(self, -1, 1)"),
    Difference("hardshrink", (at(nan), 0.5), NAN_IS_FALSE, "torch.ops.aten.hardshrink(self, 0.5)"),
    Difference("hardswish", (at(nan),), NAN_IS_FALSE, "torch.ops.aten.hardswish(self)"),
    Difference("relu", (at(nan),), NAN_IS_FALSE, "torch.relu(self)"),
    Difference("relu6", (at(nan),), NAN_IS_FALSE, "torch.ops.aten.relu6(self)"),
    Difference(
        "softplus",
        (at(0.9), 1, 1),
        "the formula compares the result with the threshold, eager the input: they part just below it",
        "torch.ops.aten.softplus(self, 1, 1)",
    ),
    Difference(
        "leaky_relu",
        (at(-1), 0.1),
        "`torch.where` of two numbers is float32, so the slope is rounded; exact if float32 holds it",
        "torch.ops.aten.leaky_relu(self, 0.1)",
    ),
    Difference("std_0", (at(2, 2), True), STD_OF_EQUAL, "torch.std(self, True)"),
    Difference("std_1", (at(2, 2), [0], True, False), STD_OF_EQUAL, "torch.std(self, [0], True, False)"),
    Difference("std_2", (at(2, 2), [0], 0, False), STD_OF_EQUAL, "torch.std(self, [0], correction=0, keepdim=False)"),
    Difference("mean_1", (at(1, 2), [], False, None), NO_DIMS, "torch.mean(self, [])"),
    Difference(
        "clamp_2",
        (at(0, 2), at(1, 1), at(3, 3)),
        "the formula gives the bounds no gradient",
        "torch.clamp(self, min, max)",
    ),
    Difference(
        "cat",
        ([zeros(1, 2), zeros(0)], 0),
        "a piece that is skipped as it has the shape [0] gets a gradient of another shape, which the engine refuses",
        "torch.cat([tensors0, tensors1], 0)",
    ),
    Difference(
        "meshgrid",
        ([zeros(0), zeros(1)],),
        "the formula takes an empty vector for a tensor without dimensions",
        "torch.stack(torch.meshgrid([tensors0, tensors1]))",
    ),
)

PARTLY = {
    "dropout": "p of 0 or 1 alone: other numbers are drawn than torch draws. Its backward is run on a mask of torch's",
    "embedding": "`sparse` gives a dense gradient",
    "batch_norm": "running statistics are left as they are, where eager updates them in place",
}
"""What of a function cannot be run, or is not what eager does beside its results."""
