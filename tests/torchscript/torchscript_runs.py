"""TorchScript's functions, compiled as they stand and run beside eager: forward, backward, vjp, second derivatives."""

from __future__ import annotations

import ast
import contextlib
import copy
import textwrap
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import gradscript as gs
import numpy as np
import torch
from gradscript.compiler.ops.arrays import dtype_of
from gradscript.compiler.types.dtypes import FLOAT64
from gradscript.runtime.face.function import Function
from samples.arrays import Leaf, to_numpy, to_torch
from torchscript_blocks import blocks, definitions
from torchscript_eager import eager, gradients, is_float, leaves

FIXED: dict[str, frozenset[int]] = {"batch_norm": frozenset({3, 4}), "nll_loss": frozenset({2})}
"""Tensors without a gradient: averages that were kept, weights of classes."""


def _bias_alone(weight: int) -> Callable[[Sequence[Any]], bool]:
    return lambda arguments: arguments[weight] is None and arguments[weight + 1] is not None


NO_SECOND: dict[str, tuple[Callable[[Sequence[Any]], bool], str]] = {
    "embedding": (lambda arguments: bool(arguments[3]), "eager's second derivative forgets the scale by frequency"),
    "hardsigmoid": (lambda arguments: True, "eager has no second derivative"),
    "batch_norm": (_bias_alone(1), "eager's second derivative fails on a bias without a weight"),
    "layer_norm": (_bias_alone(2), "eager's second derivative fails on a bias without a weight"),
}
"""Functions, and the arguments for which second derivatives are not compared, with the reason."""
EAGER_INEXACT = {"hardsigmoid": 1e-7}
"""Relative error of eager's own gradient, which multiplies by a float32."""
TOLERANCES = {8: (1e-9, 1e-11), 4: (2e-5, 1e-6), 2: (2e-2, 1e-2)}
"""Relative and absolute, by the size of the shortest float at work."""

_LOSS = """
def loss_of_{name}(cotangents: List[Tensor], {parameters}):
    result{rest} = {name}({call})
    return {total}
"""
_LIST_LOSS = """
def loss_of_{name}(cotangents: List[Tensor], {parameters}):
    items = {name}({call})
    total = (items[0] * cotangents[0]).sum()
    for i in range(1, len(items)):
        total = total + (items[i] * cotangents[i]).sum()
    return total
"""


# --- units ---


@cache
def units() -> tuple[gs.CompilationUnit, ...]:
    """Every block, compiled as it stands."""
    return tuple(gs.CompilationUnit(block, f"block {i}") for i, block in enumerate(blocks()))


@cache
def function(name: str) -> Function:
    return next(unit[name] for unit in units() if name in unit)


@cache
def _losses() -> dict[str, Function]:
    """`sum of cotangent * output` of each function, written below its block."""
    found: dict[str, Function] = {}
    for block in blocks():
        text = textwrap.dedent(block)
        nodes = [n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef) and definitions()[n.name]]
        unit = gs.CompilationUnit(text + "".join(_loss(node) for node in nodes))
        found |= {node.name: unit[f"loss_of_{node.name}"] for node in nodes}
    return found


@cache
def _gradient_of_loss(name: str, wrt: tuple[int, ...]) -> Function:
    return gs.grad(_losses()[name], wrt, allow_unused=True)


def _loss(node: ast.FunctionDef) -> str:
    # Parameters are renamed: one may have the name of its function.
    names = [f"given_{a.arg}" for a in node.args.args]
    names += [f"{a.arg}=given_{a.arg}" for a in node.args.kwonlyargs]
    parameters = copy.deepcopy(node.args)
    for argument in (*parameters.args, *parameters.kwonlyargs):
        argument.arg = f"given_{argument.arg}"
    returns = function(node.name).schema.returns
    text = _LIST_LOSS if str(returns[0].type).endswith("[]") or "List" in str(returns[0].type) else _LOSS
    return text.format(
        name=node.name,
        parameters=ast.unparse(parameters),
        call=", ".join(names),
        rest=", rest" * (len(returns) - 1),
        total="(result * cotangents[0]).sum()",
    )


def has_second(name: str, arguments: Sequence[Any]) -> bool:
    """Whether eager has a second derivative to compare with."""
    return name not in NO_SECOND or not NO_SECOND[name][0](arguments)


# --- one run ---


@dataclass
class Run:
    """One call of one function: its arguments, outputs and gradients, ours and eager's, flat.

    `by_hand` are the gradients of `f.backward`, `by_vjp` those of `gs.vjp`; None where there is none.
    """

    arguments: list[Any]
    outputs: list[Any] = field(default_factory=list)
    by_hand: list[Any] = field(default_factory=list)
    by_vjp: list[Any] = field(default_factory=list)
    second: list[Any] = field(default_factory=list)
    eager_outputs: list[Any] = field(default_factory=list)
    eager_gradients: list[Any] = field(default_factory=list)
    eager_second: list[Any] = field(default_factory=list)


def run(name: str, sample: Sequence[Any], ones: bool = False, fails: bool = False) -> Run:
    """Everything about one sample.

    `ones` takes ones for the gradients of the outputs instead of random numbers, and the first derivatives alone.
    Where ours may fail, `by_hand` and `by_vjp` are empty if it does.
    """
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    found = Run([_made(value, rng) for value in sample])
    f = function(name)
    tensors = [_leaf(name, i, value) for i, value in enumerate(found.arguments)]
    primals = [leaf for leaf in leaves(tensors) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    result = eager(name)(*tensors)
    outputs = [leaf for leaf in leaves(result) if isinstance(leaf, torch.Tensor)]
    drawn = [np.ones(o.shape) if ones else rng.normal(size=o.shape) for o in outputs]
    seeds = [to_torch(np.asarray(d)).to(o.dtype) if is_float(o) else None for d, o in zip(drawn, outputs, strict=True)]
    found.eager_outputs = to_numpy(outputs)
    floats = [(o, s.requires_grad_()) for o, s in zip(outputs, seeds, strict=True) if s is not None]
    shown, cotangents = [o for o, _ in floats], [s for _, s in floats]
    first = gradients(shown, primals, cotangents, again=True)
    found.eager_gradients = _by_leaf(tensors, to_numpy(first))
    with contextlib.suppress(*[gs.RuntimeFailure] if fails else []):
        _run_ours(f, found, [None if s is None else to_numpy(s) for s in seeds])
    if not ones and shown and primals and has_second(name, found.arguments):
        _run_second(name, found, tensors, primals, cotangents, first, rng)
    return found


def _made(value: Any, rng: np.random.Generator) -> Any:
    if isinstance(value, Leaf):
        return value.make(rng, FLOAT64)
    return [_made(item, rng) for item in value] if isinstance(value, list) else value


def _leaf(name: str, position: int, value: Any) -> Any:
    if isinstance(value, list):
        return [_leaf(name, position, item) for item in value]
    tensor = to_torch(value)
    if is_float(tensor) and position not in FIXED.get(name, ()):
        tensor.requires_grad_()
    return tensor


def _by_leaf(tensors: Sequence[Any], found: Sequence[Any]) -> list[Any]:
    """Gradients of the leaves that have one, None for every other leaf."""
    values = iter(found)
    return [next(values) if isinstance(t, torch.Tensor) and t.requires_grad else None for t in leaves(list(tensors))]


def _split(f: Function, values: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
    pairs = list(zip(f.schema.arguments, values, strict=True))
    return [v for a, v in pairs if not a.keyword_only], {a.name: v for a, v in pairs if a.keyword_only}


def _run_ours(f: Function, found: Run, seeds: Sequence[Any]) -> None:
    positional, keywords = _split(f, found.arguments)
    out, context = f.forward(*positional, **keywords)
    found.outputs = leaves(out)
    nested: list[Any] = [list(seeds)] if isinstance(out, list) else list(seeds)
    given = [_seed(nested[i], out) for i in f.pair.grad_outputs] if f.pair else []
    found.by_hand = _fitted(f.backward(context, *given), found.arguments)
    again, pullback = gs.vjp(f, *positional, **keywords)
    cotangent = nested[0] if len(nested) == 1 else tuple(nested)
    found.by_vjp = _fitted(pullback(cotangent), found.arguments)
    for mine, other in zip(leaves(again), found.outputs, strict=True):
        # Kernels of both passes may add in another order than those of one.
        np.testing.assert_array_equal(mine, other)


def _seed(seed: Any, out: Any) -> Any:
    """What to pass for an output without a gradient: zeros."""
    return np.zeros(np.shape(out)) if seed is None else seed


def _fitted(grads: Any, arguments: Sequence[Any]) -> list[Any]:
    """Gradients in the shape and dtype of their arguments, as torch's engine sums and casts what a formula gives."""
    found = []
    for grad, value in zip(grads, arguments, strict=True):
        items = value if isinstance(value, list) else [value]
        given = [grad] * len(items) if grad is None or not isinstance(value, list) else grad
        found += [_fit(g, p) for g, p in zip(given, items, strict=True)]
    return found


def _fit(grad: Any, primal: Any) -> Any:
    if grad is None or not isinstance(primal, np.ndarray):
        assert grad is None, "a gradient of what is no tensor"
        return None
    if grad.shape != primal.shape and _expands(primal.shape, grad.shape):
        grad = to_numpy(to_torch(grad).sum_to_size(primal.shape))
    return grad.astype(primal.dtype)


def _expands(small: tuple[int, ...], large: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(small, large) == large
    except ValueError:
        return False


def _run_second(
    name: str,
    found: Run,
    tensors: Sequence[Any],
    primals: Sequence[torch.Tensor],
    cotangents: Sequence[torch.Tensor],
    first: Sequence[torch.Tensor | None],
    rng: np.random.Generator,
) -> None:
    """Gradients of `sum of u * first` in every primal and every cotangent."""
    wrt = [i for i, t in enumerate(tensors) if any(isinstance(x, torch.Tensor) and x.requires_grad for x in leaves(t))]
    gradient = _gradient_of_loss(name, tuple(i + 1 for i in wrt))
    positional, keywords = _split(gradient, [[to_numpy(c) for c in cotangents], *found.arguments])
    values, pullback = gs.vjp(gradient, *positional, **keywords)
    known = [isinstance(x, torch.Tensor) and x.requires_grad for i in wrt for x in leaves(tensors[i])]
    drawn = iter(
        [
            np.asarray(rng.normal(size=leaf.shape) * k).astype(leaf.dtype)
            for leaf, k in zip(leaves(values), known, strict=True)
        ]
    )
    given = [[next(drawn) for _ in value] if isinstance(value, list) else next(drawn) for value in values]
    grads = pullback(tuple(given) if len(given) > 1 else (given[0],) if isinstance(values, tuple) else given[0])
    weights = [to_torch(u) for u, k in zip(leaves(given), known, strict=True) if k]
    results = [(f, u) for f, u in zip(first, weights, strict=True) if f is not None and f.requires_grad]
    expected = gradients([f for f, _ in results], [*cotangents, *primals], [u for _, u in results], again=False)
    by_leaf = iter(to_numpy(expected))
    found.eager_second = [next(by_leaf) for _ in cotangents]
    found.eager_second += _by_leaf(tensors, list(by_leaf))
    found.second = _fitted(grads, [[to_numpy(c) for c in cotangents], *found.arguments])


# --- comparing ---


def differences(found: Run, inexact: float = 0.0) -> list[str]:
    """How a run differs from eager, whose own relative error is `inexact`, in words; none if it does not."""
    pairs = [("output", found.outputs, found.eager_outputs)]
    pairs += [(how, getattr(found, how), found.eager_gradients) for how in ("by_hand", "by_vjp")]
    pairs += [("second", found.second, found.eager_second)]
    floats = [x for x in leaves([found.arguments, found.eager_outputs]) if isinstance(x, np.ndarray)]
    size = min([x.dtype.itemsize for x in floats if dtype_of(x).is_floating], default=8)
    words = []
    for what, ours, theirs in pairs:
        assert len(ours) == len(theirs), what
        for i, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            if not agree(mine, other, size, inexact, exactly=what == "output"):
                words.append(f"{what} {i}: {mine!r} instead of {other!r}")
    return words


def agree(mine: Any, other: Any, size: int = 8, inexact: float = 0.0, exactly: bool = False) -> bool:
    """Whether two gradients, or outputs, are equal; no gradient is a gradient of zeros."""
    if mine is None or other is None:
        present = other if mine is None else mine
        return present is None or not np.any(present)
    if mine.shape != other.shape or (exactly and mine.dtype != other.dtype):
        return False
    rtol, atol = TOLERANCES[size]
    return bool(np.allclose(mine.astype(np.float64), other.astype(np.float64), rtol + inexact, atol, equal_nan=True))
