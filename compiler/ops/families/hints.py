"""What the source says of keeping a value for the backward: gs.save(x) and gs.recompute(x), which are x.

`compiler/autodiff/recompute` reads them; a pass takes them out before anything runs.
"""

from __future__ import annotations

from ..registry import Trait, declare

for _name in ("save", "recompute"):
    declare(
        f"gs::{_name}(Tensor self) -> Tensor",
        lambda x: x,
        traits=Trait.VIEW,
        result=lambda types: types[0],
    )
