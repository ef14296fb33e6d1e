"""Shapes on the command line of which no array is filled, and arguments that are given twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from gradscript.authoring.cli.main import main

SOURCE = """def scale(x, k: float = 2.0):
    return x * k


def product(x, y):
    return x @ y
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "scale.grad"
    path.write_text(SOURCE, encoding="utf-8")
    return str(path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def test_more_elements_than_32_bits_count(file: str) -> None:
    result = run("show", file, "scale", "--stage", "triton", "-s", "x=65536,65536", "-a", "k=1.5")
    assert result.exit_code == 0 and "tl.program_id(0).to(tl.int64)" in result.output
    small = run("show", file, "scale", "--stage", "triton", "-s", "x=64,64")
    assert small.exit_code == 0 and "int64" not in small.output


def test_more_than_any_machine_has(file: str) -> None:
    for shape in ("x=99999999999999999999,2", "x=9999999999,9999999"):
        result = run("show", file, "scale", "--stage", "kernels", "-s", shape)
        assert result.exit_code == 2 and f"--shape {shape}: " in result.output
        assert "elements are more than fit" in result.output


def test_an_argument_that_is_given_twice(file: str) -> None:
    result = run("show", file, "scale", "--stage", "kernels", "-s", "x=64", "-a", "1.5")
    assert result.exit_code == 2 and "'x' is given by --shape and by --arg" in result.output


@pytest.mark.parametrize("stage", ["triton", "ptx"])
def test_a_function_without_kernels(file: str, stage: str) -> None:
    if stage == "ptx":
        pytest.importorskip("triton")
    result = run("show", file, "product", "--stage", stage, "-s", "x=4,5", "-s", "y=5,3")
    assert result.exit_code == 0 and "no kernels; by the library: aten::matmul" in result.output
