"""The text of kernels, as people review it. REWRITE_GOLDENS=1 writes it anew."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable
from pathlib import Path

import kernel_cases as cases
import pytest
from gradscript.compiler.codegen.triton.module import emit_triton, function_name, grid
from gradscript.compiler.kernel_ir.kernel import Kernel
from gradscript.compiler.kernel_ir.passed_sizes import passed_sizes, size_parameter
from gradscript.compiler.scheduling.choose import choose_schedule
from gradscript.compiler.scheduling.collapse import collapse_axes
from gradscript.compiler.scheduling.split import split_reductions
from gradscript.compiler.types.dtypes import BFLOAT16

GOLDENS = Path(__file__).parent / "goldens" / "triton"
KERNELS: dict[str, Callable[[], Kernel]] = {
    "pointwise": cases.chain,
    "broadcast": lambda: cases.broadcast(dtype=BFLOAT16),
    "transposed": cases.transposed,
    "wide": lambda: cases.chain((2**31 + 8,)),
    "dynamic": lambda: cases.dynamic(cases.broadcast(37, 128), "i"),
    "softmax": cases.softmax,
    "softmax_short": lambda: cases.softmax(4096, 61),
    "softmax_looped": lambda: cases.softmax(4, 100_000, BFLOAT16),
    "softmax_columns": lambda: cases.softmax_columns(500, 130),
    "logsumexp_looped": lambda: cases.logsumexp(4, 100_000),
    "layer_norm": cases.layer_norm,
    "layer_norm_looped": lambda: cases.layer_norm(8, 100_000),
    "layer_norm_backward": cases.layer_norm_backward,
    "layer_norm_backward_short": lambda: cases.layer_norm_backward(1001, 61, BFLOAT16),
    "layer_norm_backward_apart": lambda: cases.layer_norm_backward(512, 20_001),
    "bias_gradient": lambda: cases.bias_gradient(4096, 1024),
    "sum": cases.full_sum,
    "column_sum": lambda: cases.column_sum(5000, 130),
    "channel_sum": cases.outer_statistics,
    "argmax": cases.argmax,
    "argmin_split": cases.full_argmax,
    "embedding": cases.embedding,
    "cross_entropy": cases.cross_entropy,
    "dropout": cases.dropout,
    "any_all": cases.any_all,
    "integers": cases.integers,
    "specials": cases.specials,
    "pad": cases.padded,
    "reversed": cases.windows,
    "scalar": cases.scalar,
}


def text_of(kernel: Kernel) -> str:
    """All the modules that one kernel becomes, each after its schedule and grid."""
    found: list[str] = []
    for part in map(collapse_axes, split_reductions(kernel)):
        schedule = choose_schedule(part)
        found.append(f"# {schedule}, grid {grid(part, schedule)}\n\n{emit_triton(part, schedule)}")
    return "\n\n".join(found)


@pytest.mark.parametrize("name", KERNELS)
def test_text_is_the_golden(name: str) -> None:
    path = GOLDENS / f"{name}.triton"
    text = text_of(KERNELS[name]())
    if os.environ.get("REWRITE_GOLDENS"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_every_golden_has_a_kernel() -> None:
    assert {path.stem for path in GOLDENS.glob("*.triton")} == set(KERNELS)


@pytest.mark.parametrize("name", KERNELS)
def test_text_holds_nothing_unused(name: str) -> None:
    """Every variable, import and helper of a module is used, every parameter but sizes, and no line is too long."""
    for part in map(collapse_axes, split_reductions(KERNELS[name]())):
        text = emit_triton(part, choose_schedule(part))
        assert max(map(len, text.splitlines())) <= 100
        tree = ast.parse(text)
        read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        written = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
        parameters = {argument.arg for function in functions for argument in function.args.args}
        imported = {
            alias.asname or alias.name.split(".")[0]
            for node in tree.body
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        assert function_name(part) == functions[-1].name
        defined = {function.name for function in functions[:-1]}
        parameters -= set(map(size_parameter, passed_sizes(part)))
        assert (written | parameters | imported | defined) - read - {"_"} == set()
