"""A program compiled by torch.jit.script, which wants its source in a file."""

from __future__ import annotations

import importlib.util
import math
import uuid
from pathlib import Path
from typing import Any

import numpy as np
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
