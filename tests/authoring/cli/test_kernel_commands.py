"""`gradscript show --stage kernels|triton|ptx`: no GPU is needed for any of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gradscript as gs
import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner, Result
from gradscript.authoring.cli.main import main
from gradscript.compiler.kernel_ir.parser import parse_kernel
from gradscript.compiler.kernel_ir.printer import print_kernel

SOURCE = """def scaled_softmax(x, scale: float = 0.5):
    return F.softmax(x * scale, dim=-1)


def norm(x, weight, bias):
    return F.layer_norm(x, [x.size(-1)], weight, bias)


def pick(table, rows: Tensor):
    return torch.relu(table)[rows]


def branches(x):
    if x.sum() > 0:
        x = x * 2
    return x


def product(x, y):
    return x @ y


def product_examples():
    return [(torch.zeros([3, 4]), torch.zeros([4, 5]))]


def constant_product(x, y):
    return x.detach() @ y.detach()
"""
NORM = ("norm", "-s", "x=64,512", "-s", "weight=512", "-s", "bias=512")


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "kernels.gs"
    path.write_text(SOURCE, encoding="utf-8")
    return str(path)


@pytest.fixture(autouse=True)
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADSCRIPT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)


def invoke(*args: str, status: int = 0) -> Result:
    result = CliRunner().invoke(main, list(args))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == status, result.output
    return result


def norm_listing(dtype: Any = np.float32) -> Any:
    function = gs.CompilationUnit(SOURCE).norm
    return function.kernels(np.zeros((64, 512), dtype), np.zeros(512, dtype), np.zeros(512, dtype))


# --- kernels ---


def test_kernels_are_a_table_and_the_kernel_ir_of_each(file: str) -> None:
    table, *irs = invoke("show", file, *NORM, "--stage", "kernels").stdout.rstrip("\n").split("\n\n")
    assert table == str(norm_listing())
    kernels = [parse_kernel(ir) for ir in irs]
    assert [k.name for k in kernels] == ["norm_forward", "norm_backward_partial", "norm_backward_finish"]
    assert [print_kernel(k).rstrip() for k in kernels] == irs


def test_shapes_and_dtypes_are_those_that_are_given(file: str) -> None:
    data = json.loads(invoke("show", file, *NORM, "--stage", "kernels", "--dtype", "bfloat16", "--json").stdout)
    (function,) = data["functions"]
    expected = norm_listing(ml_dtypes.bfloat16)
    assert [(k["name"], k["pass"]) for k in function["kernels"]] == [
        ("norm_forward", "forward"),
        ("norm_backward_partial", "backward"),
        ("norm_backward_finish", "backward"),
    ]
    first = function["kernels"][0]
    assert (first["bytes_read"], first["bytes_written"]) == (2 * (64 * 512 + 1024), 2 * 64 * 512 + 2 * 4 * 64)
    assert first["ir"] == expected.forward[0].ir and first["grid"] == list(expected.forward[0].grid)
    assert function["saved_bytes"] == expected.saved_bytes
    assert function["least_bytes"] == dict(zip(("forward", "backward"), expected.least_bytes, strict=True))


def test_arguments_that_are_not_given_are_found(file: str) -> None:
    assert "scaled_softmax_forward" in invoke("show", file, "scaled_softmax", "--stage", "kernels").stdout
    text = invoke("show", file, "pick", "--stage", "kernels", "-s", "table=10,6").stdout
    assert "float32[10, 6]" in text and "by the library: aten::index" in text
    given = invoke("show", file, "scaled_softmax", "--stage", "kernels", "-s", "x=7,33", "-a", "scale=2.0").stdout
    assert "float32[7, 33] in" in given


def test_products_are_told_to_be_the_librarys(file: str) -> None:
    text = invoke("show", file, "product", "--stage", "kernels").stdout
    assert "by the library: aten::matmul" in text
    data = json.loads(invoke("show", file, "product", "--stage", "kernels", "--json").stdout)
    assert "aten::matmul" in data["functions"][0]["library"]


def test_every_function_that_has_kernels_is_shown(file: str) -> None:
    data = json.loads(invoke("show", file, "--stage", "triton", "--json").stdout)
    assert [f["name"] for f in data["functions"]][:3] == ["scaled_softmax", "norm", "pick"]
    text = invoke("show", file, "--stage", "kernels").stdout
    assert text.startswith("# scaled_softmax\n") and "\n# norm\n" in text


def test_groups_are_shown_with_what_is_between_them(file: str) -> None:
    text = invoke("show", file, "branches", "--stage", "kernels").stdout
    assert "\nforward\n" in text and ": a branch\n" in text


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("norm", "-s", "x=4,5", "-s", "weight=6", "-s", "bias=5"), 1, "error[R101]"),
        (("norm", "-s", "x=4,q"), 2, "sizes are whole numbers"),
        (("norm", "-s", "y=4"), 2, "has no parameter 'y'"),
        (("norm", "--dtype", "float12"), 2, "there is no dtype 'float12'"),
        (("norm", "--dtype", "int64"), 2, "'int64' has none"),
        (("nrm",), 2, "there is no function 'nrm'"),
        (("-s", "x=4"), 2, "--shape and --arg are of one function: name it"),
        (("norm", "--target", "sm_20"), 2, "'sm_20' is not one of"),
    ],
)
def test_what_cannot_be_shown_is_told(file: str, arguments: tuple[str, ...], status: int, message: str) -> None:
    assert message in invoke("show", file, *arguments, "--stage", "kernels", status=status).stderr


# --- triton ---


def test_triton_is_the_text_of_each_kernel(file: str) -> None:
    text = invoke("show", file, *NORM, "--stage", "triton").stdout
    listing = norm_listing()
    for info in (*listing.forward, *listing.backward):
        assert info.text.replace("<string>", file).rstrip() in text


# --- ptx ---


@pytest.mark.parametrize(("target", "mark"), [("sm_90", ".target sm_90"), ("gfx942", "gfx942")])
def test_ptx_is_compiled_without_a_gpu(file: str, target: str, mark: str) -> None:
    pytest.importorskip("triton")
    command = ("show", file, "scaled_softmax", "-s", "x=64,100", "--stage", "ptx", "--target", target)
    lines = invoke(*command).stdout.splitlines()
    assert lines[0] == f"compiled for {target}:"
    assert lines[1].split() == ["kernel", "registers", "spills", "shared", "memory"]
    names, registers, spills = zip(*(line.split()[:3] for line in lines[3:5]), strict=True)
    assert names == ("scaled_softmax_forward", "scaled_softmax_backward")
    assert all(int(number) > 0 for number in registers) and set(spills) == {"0"}
    kernels = json.loads(invoke(*command, "--json").stdout)["functions"][0]["kernels"]
    assert [k["target"] for k in kernels] == [target, target]
    assert all(mark in k["assembly"] and k["name"] in k["assembly"] for k in kernels)
    assert [str(k["registers"]) for k in kernels] == list(registers)


def test_without_triton_it_is_told_how_to_get_it(file: str) -> None:
    """Only the last stage needs it."""
    code = (
        "import sys; sys.modules['triton'] = None\n"
        "from gradscript.authoring.cli.main import main\n"
        "main(['show', sys.argv[1], 'scaled_softmax', '--stage', sys.argv[2]])\n"
    )

    def run(stage: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", code, file, stage]
        return subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), check=False)

    found = run("ptx")
    assert found.returncode == 2 and "Traceback" not in found.stderr
    assert found.stderr.startswith("error: ") and "pip install 'gradscript[triton]'" in found.stderr
    assert "tl.sum" in run("triton").stdout
