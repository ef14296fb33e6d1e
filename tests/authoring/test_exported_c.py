"""Functions exported as C, called by what their headers say alone, beside torch in float64."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click.testing
import pytest
import torch
from gradscript.authoring.cli.main import main

ROWS, COLUMNS = 7, 13
LOOP = """
def f(x, n: int):
    for i in range(n):
        x = x / (1 + (x * x).sum(-1, keepdim=True).sqrt())
    return x
"""
FLAG = """
def f(x, flag: bool):
    if flag:
        y = torch.tanh(x)
    else:
        y = torch.exp(-x * x)
    return y * 2
"""
LOG_SUM = """
def f(x):
    m = x.amax(-1, keepdim=True)
    return (torch.log(torch.exp(x - m).sum(-1, keepdim=True)) + m).squeeze(-1)
"""
OWN = """
def f(x, w):
    def backward(g):
        return g * w, (g * x).sum(0)

    return x * w, backward
"""
TWO = """
def f(x, y, alpha: float):
    return torch.exp(alpha * x) + y, (x * y).sum(-1)
"""


def _looped(x: Any, n: int) -> Any:
    for _ in range(n):
        x = x / (1 + (x * x).sum(-1, keepdim=True).sqrt())
    return x


def _drawn(*shape: int) -> Any:
    return torch.randn(*shape)


@pytest.mark.parametrize(
    ("source", "values", "options", "eager"),
    [
        (LOOP, {"x": (ROWS, COLUMNS), "n": 3}, ["--arg", "n=3", "-s", "x=4,8"], _looped),
        (FLAG, {"x": (ROWS, COLUMNS), "flag": True}, ["--arg", "flag=True"], lambda x, flag: 2 * x.tanh()),
        (FLAG, {"x": (ROWS, COLUMNS), "flag": False}, ["--arg", "flag=False"], lambda x, flag: 2 * (-x * x).exp()),
        (LOG_SUM, {"x": (ROWS, COLUMNS)}, [], lambda x: x.logsumexp(-1)),
        (OWN, {"x": (ROWS, COLUMNS), "w": (COLUMNS,)}, ["-s", "x=4,8", "-s", "w=8"], lambda x, w: x * w),
        (
            TWO,
            {"x": (ROWS, COLUMNS), "y": (ROWS, COLUMNS), "alpha": 0.7},
            [],
            lambda x, y, alpha: ((alpha * x).exp() + y, (x * y).sum(-1)),
        ),
    ],
)
def test_a_header_says_how_to_call_it(
    source: str, values: dict[str, Any], options: list[str], eager: Callable[..., Any], tmp_path: Path
) -> None:
    assert shutil.which("cc") is not None
    torch.manual_seed(0)
    given = {name: _drawn(*value) if isinstance(value, tuple) else value for name, value in values.items()}
    library, header = _exported(source, options, tmp_path)
    wide = {name: value.double().requires_grad_() for name, value in given.items() if torch.is_tensor(value)}
    outputs = eager(**given | wide)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    seeds = [torch.randn_like(output) for output in outputs]
    gradients = torch.autograd.grad(outputs, [*wide.values()], seeds)

    results, kept = _names(header, "results"), _names(header, "kept for the backward")
    held = {name: torch.full(output.shape, torch.nan) for name, output in zip(results, outputs, strict=True)}
    held |= {name: torch.full((ROWS * COLUMNS,), torch.nan) for name in kept}
    _call(library, header, "forward", given | held)
    for name, output in zip(results, outputs, strict=True):
        torch.testing.assert_close(held[name].double(), output.detach(), rtol=1e-5, atol=1e-5)

    taken = [name for name in _parameters(header, "backward") if "const" in name and "*grad_" in name]
    seeded = {text.rpartition("*")[2]: seed.float() for text, seed in zip(taken, seeds, strict=True)}
    written = [t.rpartition("*")[2] for t in _parameters(header, "backward") if "*" in t and "const" not in t]
    made = {name: torch.full(v.shape, torch.nan) for name, v in zip(written, wide.values(), strict=True)}
    _call(library, header, "backward", given | held | seeded | made)
    assert [name.removeprefix("grad_").rstrip("_") for name in written] == [*wide]
    for found, wanted in zip(made.values(), gradients, strict=True):
        torch.testing.assert_close(found.double(), wanted, rtol=1e-4, atol=1e-5)


def _exported(source: str, options: Sequence[str], folder: Path) -> tuple[Any, str]:
    (folder / "f.grad").write_text(source, encoding="utf-8")
    invoked = click.testing.CliRunner().invoke(
        main, ["export", str(folder / "f.grad"), "f", "--c", *options, "-o", f"{folder}/"]
    )
    assert invoked.exit_code == 0, invoked.output
    command = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", str(folder / "f.c")]
    subprocess.run([*command, "-o", str(folder / "f.so"), "-lm"], check=True)
    return ctypes.CDLL(str(folder / "f.so")), (folder / "f.h").read_text(encoding="utf-8")


def _names(header: str, what: str) -> list[str]:
    found = re.search(rf"\* +{what}: (.*)", header)
    return found[1].split(", ") if found is not None else []


def _parameters(header: str, which: str) -> list[str]:
    found = re.search(rf"f_{which}\((.*)\);", header)
    assert found is not None
    return found[1].split(", ")


def _call(library: Any, header: str, which: str, values: dict[str, Any]) -> None:
    arguments: list[Any] = []
    for text in _parameters(header, which):
        name = re.split(r"[ *]", text)[-1]
        if "*" in text:
            arguments.append(ctypes.c_void_p(values[name].data_ptr()))
        elif text.startswith("double"):
            arguments.append(ctypes.c_double(values[name]))
        else:
            arguments.append(ctypes.c_int64({"rows": ROWS, "columns": COLUMNS}[name]))
    assert getattr(library, f"f_{which}")(*arguments) == 0


def test_rows_that_are_kept_have_room_for_whole_blocks(tmp_path: Path) -> None:
    _exported(LOOP, ["--arg", "n=3", "-s", "x=4,8"], tmp_path)
    text = (tmp_path / "f.c").read_text(encoding="utf-8")
    blocks = set(re.findall(r"j_block \+= (\d+)", text))
    rooms = set(re.findall(r"malloc\(sizeof\(float\) \* \((\d+ \* .*)\)\);", text))
    assert rooms == {f"{block} * ((columns + {int(block) - 1}) / {block})" for block in blocks}


def test_what_is_part_of_the_text_is_told(tmp_path: Path) -> None:
    _, header = _exported(LOOP, ["--arg", "n=3", "-s", "x=4,8"], tmp_path)
    assert " *     n: 3, as it was given: the text is for that alone\n" in header


@pytest.mark.parametrize(
    ("body", "says", "advises"),
    [
        ("    return torch.sort(x, -1)[0] * 2\n", "'aten::sort' is an op of a library", "in front of it"),
        ("    return F.dropout(x, 0.5, True)\n", "it draws random numbers", "torch.where"),
        ("    if float(x.sum()) > 0:\n        return x * 2\n    return x\n", "what is in tensors", "torch.where"),
        (
            "    while n > 0:\n        x = x * x\n        n -= 1\n    return x\n",
            "a number that it computes",
            "torch.where",
        ),
    ],
)
def test_what_has_no_form_in_c_is_told_with_what_to_do(body: str, says: str, advises: str, tmp_path: Path) -> None:
    (tmp_path / "f.grad").write_text(f"def f(x, n: int = 2):\n{body}", encoding="utf-8")
    command = ["export", str(tmp_path / "f.grad"), "f", "--c", "-s", "x=4,8"]
    invoked = click.testing.CliRunner().invoke(main, command)
    assert invoked.exit_code == 1
    assert says in invoked.stderr
    assert advises in invoked.stderr.partition("note: ")[2]
