"""A random program beside what Python with torch makes of it: its values, and its gradients to second order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Optional

import gradscript as gs
import grown_list_programs
import in_place_programs as programs
import nested_list_programs
import numpy as np
import optional_list_programs
import optional_programs
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

X = np.array([[0.3, -1.2, 0.7], [1.1, 0.4, -0.6], [-0.2, 0.9, 1.5]])
W = np.array([[-0.5, 0.8, 0.1], [0.6, -0.9, 1.3], [0.2, -1.1, 0.4]])


def eager(text: str, *, requires_grad: bool = False) -> tuple[Any, list[Any], bool]:
    """What Python with torch makes of a program: what it returns, its arguments, and whether it changed one."""
    names = {"List": list, "Tensor": torch.Tensor, "Optional": Optional}
    scope: dict[str, Any] = {"torch": torch, "F": torch.nn.functional, **names}
    exec(compile(text, "<program>", "exec"), scope)
    tensors = partial(torch.tensor, requires_grad=requires_grad)
    arguments = pytree.tree_map(tensors, arguments_of(text))
    given = pytree.tree_map(id, arguments)
    result = scope["f"](*arguments)
    changed = pytree.tree_map(id, arguments) != given
    return result, arguments, changed or any(argument._version for argument in flat(arguments))


def arguments_of(text: str) -> list[Any]:
    """What a program is called with: two matrices, a list `k` of two, and a list `m` of lists."""
    held = [X * 0.5 - W, W * X]
    return [X, W] + [held] * ("def f(x, w, k" in text) + [[held[::-1], [X - W, W + 1]]] * ("m: List[List" in text)


def flat(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in flat(item)]
    return [value]


class ReadFirst(TorchDispatchMode):
    """Every write reads what it writes before it begins. torch leaves open what `y[0] = y[:, 0]` gives, which reads
    elements after it has written them."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._schema.name.endswith("_") and isinstance(args[0], torch.Tensor):
            memory = args[0].untyped_storage().data_ptr()
            args = (args[0], *(_copied(argument, memory) for argument in args[1:]))
        return func(*args, **(kwargs or {}))


def _copied(value: Any, memory: int) -> Any:
    shares = isinstance(value, torch.Tensor) and value.untyped_storage().data_ptr() == memory
    return value.clone() if shares else value


def outcome(text: str) -> str:
    """Of a program: `equal`, `refused` with the reason, or why it does not count; AssertionError for anything else."""
    try:
        wanted, _, writes_into_arguments = eager(text)
    except (RuntimeError, IndexError):
        return "torch refuses it"
    expected = [tensor.detach().numpy().copy() for tensor in flat(wanted)]
    try:
        found = flat(gs.CompilationUnit(text).f(*arguments_of(text)))
    except gs.CompileError as error:
        code, message = re.findall(r"error\[(E\d+)\]: (.*)", str(error))[0]
        assert code == "E305", str(error)
        return "refused: " + re.sub(r"'[^']*'|`[^`]*`", "…", message)
    except gs.RuntimeFailure as error:
        assert "a write into an argument" in str(error), str(error)
        return "refused: a write into an argument, when it runs"
    assert not writes_into_arguments, "a write into an argument was accepted"
    try:
        assert_equal(found, expected)
    except AssertionError:
        with ReadFirst():
            assert_equal(found, [tensor.detach().numpy() for tensor in flat(eager(text)[0])])
    return "equal"


def assert_equal(found: list[Any], expected: list[Any]) -> None:
    assert [np.shape(value) for value in found] == [value.shape for value in expected]
    for value, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(value, other, rtol=1e-9, atol=1e-9)


def written(seed: int, options: Iterable[str]) -> str:
    """The program of a seed, by the writer that the options name."""
    if "grown" in options:
        return grown_list_programs.program(seed)
    may_be_none, arguments = "optional" in options, "arguments" in options
    if "nested" in options:
        more = [*optional_list_programs.STATEMENTS] * may_be_none + [*optional_list_programs.GIVEN] * arguments
        return nested_list_programs.program(seed, given="given" in options, more=more, arguments=arguments)
    more = [(optional_programs.optional, 4)] * may_be_none + [(optional_programs.given, 4)] * arguments
    parameters = "x, w, k: List[Tensor]" if arguments else "x, w"
    modes, rebinds = "modes" in options, "rebinds" in options
    return programs.program(seed, modes=modes, rebinds=rebinds, more=more, parameters=parameters)


def compare_gradients(text: str, order: int = 1) -> bool:
    """Whether the gradients of the results' weighed sum could be compared, and were equal.

    At the second order the first gradients are weighed the same way and differentiated again.
    """
    try:
        wanted, arguments, _ = eager(text, requires_grad=True)
        total = weighed(flat(wanted))
        if total is None:
            return False
        first = torch.autograd.grad(total, arguments, allow_unused=True, create_graph=order > 1)
        again = weighed([g for g in first if g is not None]) if order > 1 else None
        second = torch.autograd.grad(again, arguments, allow_unused=True) if again is not None else (None, None)
    except (RuntimeError, IndexError):
        # Such as autograd's own refusal of writes into views that several results share.
        return False
    body = text.replace("\ndef f(x, w):", "\ndef program(x, w):")
    try:
        gradient = gs.grad(gs.CompilationUnit(body + _total(wanted)).f, argnums=(0, 1), allow_unused=True)
    except gs.CompileError:
        return False
    try:
        found = gradient(X, W)
        assert_gradients(found, first)
        if again is not None:
            _, pullback = gs.vjp(gradient, X, W)
            assert_gradients(pullback(tuple(_slope(g) for g in found)), second)
    except gs.CompileError as error:
        # Lists that stay lists in the graph, of what has no gradient: tuples.
        assert "error[E408]" in str(error), str(error)
        return False
    return True


def weighed(results: Sequence[Any]) -> Any:
    """The sum of `r * cos(r)` over what requires a gradient; None where nothing does."""
    terms = [(result * torch.cos(result)).sum() for result in results if result.requires_grad]
    return sum(terms) if terms else None


def _slope(gradient: Any) -> Any:
    return None if gradient is None else np.cos(gradient) - gradient * np.sin(gradient)


def assert_gradients(found: Iterable[Any], expected: Iterable[Any]) -> None:
    for value, other in zip(found, expected, strict=True):
        reference = np.zeros_like(X) if other is None else other.detach().numpy()
        value = np.zeros_like(X) if value is None else value
        np.testing.assert_allclose(value, reference, rtol=1e-7, atol=1e-8)


def _total(wanted: Any) -> str:
    """A function that adds up the tensors that `program` returns, in lists and tuples as they are in `wanted`."""
    lines = ["    found = program(x, w)", "    total = torch.zeros([], dtype=x.dtype)"]
    pending = [(wanted, "found")]
    while pending:
        value, name = pending.pop()
        if isinstance(value, list | tuple):
            pending += [(item, f"{name}[{i}]") for i, item in enumerate(value)]
        else:
            lines.append(f"    total = total + ({name} * torch.cos({name})).sum()")
    return "\n\ndef f(x, w):\n" + "\n".join(lines) + "\n    return total\n"
