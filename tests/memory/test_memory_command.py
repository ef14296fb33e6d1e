"""gradscript memory: arguments by shape, what is printed, plots, and what is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result
from gradscript.authoring.cli.main import main

SOURCE = """def gate(x, w, v):
    gate = x @ w
    up = x @ v
    return (gate * torch.sigmoid(gate) * up).sum()


def rows(table, index: Tensor):
    return torch.exp(table[index]).sum()


def total(parts: List[Tensor], *, scale: float = 2.0):
    found = parts[0]
    for part in parts:
        found = torch.sin(found * part) * scale
    return found.sum()


def steps(x, w, n: int):
    for i in range(n):
        x = torch.tanh(x @ w)
    return x.sum()


def picky(x):
    assert x.size(0) == 12345
    return x.sum()


def looked_up(table, index: Tensor):
    assert table.size(0) == 7
    return torch.exp(table[index]).sum()


def looked_up_examples():
    return [(torch.zeros([7, 3]), torch.tensor([0, 6]))]
"""
GOLDEN = """gate: min_cut saves 128.00 KiB, peak 2.50 MiB, of which arguments 1.12 MiB
  arguments that the backward reads: x, w, v

  saved  bytes      made by          why
  -----  ---------  ---------------  --------------------------------------
  gate   64.00 KiB  2: gate = x @ w  matmul is not run again: too much work
  up     64.00 KiB  3: up = x @ v    matmul is not run again: too much work
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "models.grad"
    path.write_text(SOURCE, encoding="utf-8")
    return str(path)


def invoke(*args: str) -> Result:
    result = CliRunner().invoke(main, ["memory", *args])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def data_of(*args: str) -> dict[str, Any]:
    result = invoke(*args, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_shapes_given_in_full(file: str) -> None:
    result = invoke(file, "gate", "--shape", "x=64,512", "--shape", "w=512,256", "--shape", "v=512,256")
    assert result.exit_code == 0
    assert result.stdout.startswith(GOLDEN)


def test_what_is_not_given_is_found(file: str) -> None:
    result = invoke(file, "gate", "-s", "x=64,512", "-s", "w=(512, 256)")
    assert result.exit_code == 0
    # v has to have the columns of w, which is one of the shapes that are tried first.
    assert result.stdout.startswith(GOLDEN)
    assert invoke(file, "gate").exit_code == 0


def test_dtypes(file: str) -> None:
    single, double = (data_of(file, "gate", "-s", "x=8,4", "-s", "w=4,6", "-s", "v=4,6", "--dtype", d)
                      for d in ("float32", "float64"))  # fmt: skip
    assert double["saved_bytes"] == 2 * single["saved_bytes"] == 2 * 2 * 8 * 6 * 4
    own = data_of(file, "gate", *(part for shape in ("x=8,4", "w=4,6", "v=4,6") for part in ("-s", f"{shape}:float64")))
    assert own["input_bytes"] == 8 * (8 * 4 + 2 * 4 * 6)


def test_indices_by_dtype_and_by_name(file: str) -> None:
    by_name = data_of(file, "rows", "-s", "table=10,16", "-s", "index=5")
    assert by_name["input_bytes"] == 10 * 16 * 4 + 5 * 8
    by_dtype = data_of(file, "rows", "-s", "table=10,16", "-s", "index=5:int32")
    assert by_dtype["input_bytes"] == 10 * 16 * 4 + 5 * 4


def test_examples_beside_the_function(file: str) -> None:
    assert data_of(file, "looked_up")["input_bytes"] == 7 * 3 * 4 + 2 * 8


def test_lists_numbers_and_keywords(file: str) -> None:
    found = data_of(file, "total", "-s", "parts=3,4;3,4;3,4", "--arg", "scale=3.0", "--policy", "save_all")
    assert found["input_bytes"] == 3 * 3 * 4 * 4
    steps = data_of(file, "steps", "-s", "x=4,8", "-s", "w=8,8", "-a", "n=5", "--policy", "save_all")
    assert steps["saved_bytes"] == 5 * 4 * 8 * 4


def test_policies(file: str) -> None:
    shapes = ("-s", "x=8,4", "-s", "w=4,6", "-s", "v=4,6")
    found = data_of(file, "gate", *shapes, "--policy", "budget=200")
    assert found["policy"] == "budget=200"
    assert found["saved_bytes"] <= 200
    assert [total["policy"] for total in found["totals"]][-1] == "budget=200"


def test_plots(file: str, tmp_path: Path) -> None:
    svg = tmp_path / "live.svg"
    assert invoke(file, "gate", "--plot", str(svg)).exit_code == 0
    text = svg.read_text(encoding="utf-8")
    root = ElementTree.fromstring(text)
    assert root.tag.endswith("svg")
    assert {"forward", "backward", "arguments", "saved for the backward", "temporaries"} <= {
        (element.text or "") for element in root.iter()
    }
    assert invoke(file, "gate", "--plot", str(svg)).exit_code == 0
    assert svg.read_text(encoding="utf-8") == text


def test_a_png_by_matplotlib(file: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    png = tmp_path / "live.png"
    assert invoke(file, "gate", "--plot", str(png)).exit_code == 0
    assert png.read_bytes().startswith(b"\x89PNG")


def test_a_png_without_matplotlib(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = invoke(file, "gate", "--plot", str(tmp_path / "live.png"))
    assert result.exit_code == 2
    assert result.stderr == "error: a .png needs matplotlib: pip install matplotlib, or draw a .svg\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("gate", "-s", "x"), "--shape x: write PARAMETER=SIZES, such as x=64,512"),
        (("gate", "-s", "x=a,b"), "--shape x=a,b: sizes are whole numbers with commas between them, such as 64,512"),
        (("gate", "-s", "x=-1,2"), "--shape x=-1,2: sizes are whole numbers"),
        (("gate", "-s", "x=3;4"), "--shape x=3;4: sizes are whole numbers"),
        (("gate", "-s", "q=2"), "'gate' has no parameter 'q'; it has x, w, v"),
        (("gate", "-s", "x=99999,99999,9"), "elements are more than fit"),
        (("gate", "-s", "x=2:floaty"), "there is no dtype 'floaty'"),
        (("gate", "--dtype", "int64"), "--dtype is that of tensors with gradients; 'int64' has none"),
        (("gate", "--dtype", "real"), "--dtype: there is no dtype 'real'"),
        (("gate", "--policy", "best"), "there is no policy 'best'"),
        (("gate", "--policy", "budget=many"), "a budget is a whole number of bytes"),
        (("gate", "--plot", "live.pdf"), "--plot draws .svg and .png files, not 'live.pdf'"),
        (("gate", "--plot", "nowhere/live.svg"), "cannot write nowhere/live.svg"),
        (("steps", "-s", "n=3"), "'n' is int, not a Tensor; give it by --arg"),
        (("gates",), "there is no function 'gates'"),
        (("picky",), "no arguments were found on which 'picky' runs; give x by --shape or --arg"),
    ],
)
def test_what_is_refused(file: str, arguments: tuple[str, ...], message: str) -> None:
    result = invoke(file, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_shapes_that_do_not_fit_are_the_runs_failure(file: str) -> None:
    result = invoke(file, "gate", "-s", "x=2,3", "-s", "w=2,3", "-s", "v=2,3")
    assert result.exit_code == 1
    assert result.stderr.startswith("error[R101]")
