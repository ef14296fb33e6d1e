"""What the source says of a value: gs.save(x), gs.recompute(x), gs.constant(x), gs.surrogate(x, "why"), which are x.

The first two are read by `compiler/recompute`, the other two by the check. A pass takes them out before anything runs;
of a constant `aten::detach` is left.
"""

from __future__ import annotations

from ...registry import Trait, declare

for _hint, _traits in {
    "save(Tensor self)": Trait.VIEW,
    "recompute(Tensor self)": Trait.VIEW,
    "surrogate(Tensor self, str why, *, bool linear=True)": Trait.VIEW,
    "constant(Tensor self)": Trait.VIEW | Trait.NONDIFFERENTIABLE,
}.items():
    declare(
        f"gs::{_hint} -> Tensor",
        lambda x, why="", linear=True: x,
        traits=_traits,
        result=lambda types: types[0],
    )
declare(
    "gs::constant.optional(Tensor? self) -> Tensor?",
    lambda x: x,
    traits=Trait.VIEW | Trait.NONDIFFERENTIABLE,
    result=lambda types: types[0],
)
