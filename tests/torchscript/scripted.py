"""A program compiled by torch.jit.script, which wants its source in a file."""

from __future__ import annotations

import importlib.util
import math
import uuid
from pathlib import Path
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch

HEAD = (
    "import math\nimport torch\nimport torch.nn.functional as F\nfrom torch import Tensor\nfrom typing import *\n"
    "from torch._jit_internal import BroadcastingList1, BroadcastingList2, BroadcastingList3\n"
)


def python_function(folder: Path, text: str) -> Any:
    """The function `f` of a program, as Python has it."""
    path = folder / f"m{uuid.uuid4().hex}.py"
    path.write_text(HEAD + text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.f


def copied(value: Any) -> Any:
    """The value with tensors and lists of its own."""
    if isinstance(value, torch.Tensor):
        return value.clone()
    return type(value)(map(copied, value)) if isinstance(value, list | tuple) else value


def same(left: Any, right: Any) -> bool:
    """Whether two results are equal, types, dtypes and shapes included."""
    if isinstance(right, np.ndarray | np.generic):
        right = torch.as_tensor(right)
    if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        return left.dtype == right.dtype and left.shape == right.shape and torch.equal(left, right)
    if type(left) is not type(right):
        return False
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right or (isinstance(left, float) and math.isnan(left) and math.isnan(right))


def check_with_python(folder: Path, text: str, calls: list[tuple[Any, ...]]) -> None:
    """Values, or an error with Python's message, also of the source that is printed."""
    python, unit = python_function(folder, text), gs.CompilationUnit(text)
    again = gs.CompilationUnit(unit.code)
    assert again.code == unit.code
    for arguments in calls:
        try:
            expected = python(*copied(arguments))
        except Exception as error:
            for made in (unit, again):
                with pytest.raises(gs.RuntimeFailure) as failure:
                    made.f(*arguments)
                assert str(error) in str(failure.value)
            continue
        for made in (unit, again):
            found = made.f(*arguments)
            assert same(found, expected), (arguments, found, expected)
