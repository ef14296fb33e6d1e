"""Results share memory with arguments where torch's do, and nowhere else: a caller may write into either."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from amounts import some, some_of
from enumeration import is_compared, is_large
from samples.arrays import to_numpy
from samples.torch_database import Case, Unspellable, case, database, flat, name_of, samples

SAMPLES = some(8)
"""Of each op; the first are the plainest."""
SPELLED = (
    "x.clone()",
    "x.detach().clone()",
    "x.clone().t()",
    "x.t().clone()",
    "x.expand(3, 3).clone()",
    "x.permute(1, 0).contiguous()",
    "x.contiguous()",
    "torch.tensor(x)",
    "torch.as_tensor(x)",
    "torch.zeros_like(x).copy_(x)",
    "x.flip([0])",
    "x.flip([])",
    "F.pad(x, [0, 0])",
    "F.dropout(x, 0.5, False)",
    "x.to(x.dtype)",
    "x.view(-1)",
    "x[1:]",
    "x * 1",
    "x + 0",
    "-(-x)",
    "x.repeat(1, 1)",
    "torch.cat([x])",
    "[x.clone(), x]",
    "(x, x.clone(), x * 2)",
    "(x.permute(1, 0).contiguous(), x * 2)",
    "(x if x.sum() > 100 else x.clone())",
)


def _shared(mine: Any, arrays: list[Any]) -> list[bool]:
    return [isinstance(leaf, np.ndarray) and any(np.shares_memory(leaf, array) for array in arrays) for leaf in mine]


def _compare(function: Any, arguments: list[Any], theirs: Any, tensors: list[torch.Tensor]) -> None:
    memory = {tensor.untyped_storage().data_ptr() for tensor in tensors if tensor.numel()}
    wanted = [isinstance(leaf, torch.Tensor) and leaf.untyped_storage().data_ptr() in memory for leaf in flat(theirs)]
    arrays = [leaf for leaf in flat(arguments) if isinstance(leaf, np.ndarray) and leaf.size]
    for _ in range(3):
        found = _shared(flat(function(*arguments)), arrays)
        assert not [i for i, (mine, torchs) in enumerate(zip(found, wanted, strict=True)) if mine and not torchs]


def _cases(op: Any) -> Iterator[tuple[Case, Any]]:
    for sample in samples(op, "float64", SAMPLES):
        try:
            made = case(op, sample)
            if not is_large(op, made.sample):
                yield made, op.op(made.sample.input, *made.sample.args, **made.sample.kwargs)
        except (Unspellable, RuntimeError, TypeError, AssertionError):
            continue


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("op", some_of(filter(is_compared, database())), ids=name_of)
def test_ops(op: Any, backend: str) -> None:
    with warnings.catch_warnings(), gs.settings.backend(backend):
        warnings.simplefilter("ignore")
        for made, theirs in _cases(op):
            given = [list(map(to_numpy, v)) if isinstance(v, list) else to_numpy(v) for v in made.values]
            # Laid out as torch's own, of which some have gaps.
            tensors = [leaf for leaf in flat(made.values) if isinstance(leaf, torch.Tensor)]
            if not all(tensor.is_contiguous() for tensor in tensors):
                continue
            try:
                function = gs.CompilationUnit(made.source).f
                function(*given)
            except (gs.CompileError, gs.RuntimeFailure):
                continue
            _compare(function, given, theirs, tensors)


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("text", SPELLED)
def test_as_users_write_it(text: str, backend: str) -> None:
    x = torch.arange(9.0, dtype=torch.float64).reshape(3, 3)
    with warnings.catch_warnings(), gs.settings.backend(backend):
        warnings.simplefilter("ignore")
        theirs = eval(text, {"x": x, "torch": torch, "F": torch.nn.functional})
        function = gs.CompilationUnit(f"def f(x):\n    return {text}\n").f
        _compare(function, [x.numpy()], theirs, [x])
        _compare_tensors(function, x, theirs)


def _compare_tensors(function: Any, x: torch.Tensor, theirs: Any) -> None:
    for mine, torchs in zip(flat(function(x)), flat(theirs), strict=True):
        if mine.untyped_storage().data_ptr() == x.untyped_storage().data_ptr():
            assert torchs.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
