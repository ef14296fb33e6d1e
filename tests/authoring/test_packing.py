"""`gradscript stubs` and `gradscript pack`: what type checkers and pip make of them."""

from __future__ import annotations

import base64
import csv
import hashlib
import inspect
import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import click.testing
import gradscript as gs
import pytest
import torch
from gradscript.authoring.cli.main import main
from gradscript.authoring.packing.stubs import stubs_of
from gradscript.authoring.packing.wheel import NoPackage, pack

ROOT = Path(__file__).parents[2]
SOURCE = '''\
def scaled(x, factor: float = 0.5, *, bias: Optional[Tensor] = None, dims: List[int] = [0, 1]) -> Tensor:
    """Sums of what is scaled, with a \\"bias\\"."""
    y = x * factor
    if bias is not None:
        y = y + bias
    return y.sum(dims)


def both(x, top: float = float("inf"), name: str = "sum") -> Tuple[Tensor, List[Tensor]]:
    return x.clamp(max=top), [x]


def counted(x) -> int:
    return x.size(0)
'''
NORMS = '''\
def rms_norm(x, weight):
    """x over its root mean square."""
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * weight
'''
BLOCK = """\
from .norms import rms_norm


def block(x, weight):
    return rms_norm(x, weight) * 2


def printed(x):
    if float(x.sum()) > 0:
        return x
    return -x


def block_examples():
    return [(torch.zeros([2, 3]), torch.zeros([3]))]
"""


def _run(*arguments: str, status: int = 0) -> click.testing.Result:
    found = click.testing.CliRunner().invoke(main, arguments)
    assert found.exit_code == status, found.output
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of two files, of which one takes from the other."""
    inner = tmp_path / "my-norms" / "layers"
    inner.mkdir(parents=True)
    (inner / "norms.grad").write_text(NORMS, encoding="utf-8")
    (inner / "block.grad").write_text(BLOCK, encoding="utf-8")
    return inner.parent


# --- stubs ---


def test_functions_named_as_types(tmp_path: Path) -> None:
    heads = {
        "list": "x: List[Tensor], n: int",
        "tuple": "x, p: Tuple[int, float]",
        "int": "x, s: Optional[str] = None",
        "Any": "x, d: Optional[Device] = None",
        "_Tensor": "x, flag: bool = True",
    }
    unit = gs.CompilationUnit("\n".join(f"def {name}({head}):\n    return x, 1\n" for name, head in heads.items()))
    (tmp_path / "named.pyi").write_text(stubs_of(unit, "named.grad"), encoding="utf-8")
    used = "import named\n\ny, n = named.list([1.0], 2)\n"
    used += "named.tuple(y, (n, 2.0))\nnamed.int(y, 'a')\nnamed._Tensor(y, False)\n"
    (tmp_path / "used.py").write_text(used + "named.list(3, 'a')\n", encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "used.py"]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    assert told.count("error: Argument") == 2 and "Found 2 errors" in told, told


def test_a_stub_has_the_signature_of_each_function(tmp_path: Path) -> None:
    unit = gs.CompilationUnit(SOURCE)
    (tmp_path / "unit.grad").write_text(SOURCE, encoding="utf-8")
    text = _run("stubs", str(tmp_path / "unit.grad")).stdout
    assert text == stubs_of(unit, "unit.grad")
    named: dict[str, object] = {}
    for name, function in unit.functions.items():
        own = inspect.signature(function)
        line = next(line for line in text.splitlines() if line.startswith(f"def {name}("))
        assert all(f"{p.name}: " in line for p in own.parameters.values())
        named[name] = {p.name: p.default for p in own.parameters.values() if p.default is not p.empty}
    assert named["scaled"] == {"factor": 0.5, "bias": None, "dims": [0, 1]}
    assert "*, bias: _Tensor | None = None, dims: list[int] = [0, 1]) -> _Tensor:" in text
    assert "top: float = ..., name: str = 'sum') -> tuple[_Tensor, list[_Tensor]]:" in text
    assert "def counted(x: _Tensor) -> int:" in text


def test_mypy_takes_the_stub_and_holds_calls_to_it(tmp_path: Path) -> None:
    (tmp_path / "unit.grad").write_text(SOURCE, encoding="utf-8")
    written = json.loads(_run("stubs", "--write", "--json", str(tmp_path / "unit.grad")).stdout)
    assert written == [{"file": str(tmp_path / "unit.grad"), "stub": str(tmp_path / "unit.pyi")}]
    (tmp_path / "right.py").write_text("import unit\nunit.scaled(1, 2.0, dims=[0])\nn: int = unit.counted(1)\n")
    (tmp_path / "wrong.py").write_text("import unit\nunit.scaled(1, 'two')\n")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "--config-file="]
    found = subprocess.run([*command, "right.py", "wrong.py"], cwd=tmp_path, capture_output=True, text=True)
    assert [line.partition(":")[0] for line in found.stdout.splitlines()[:-1]] == ["wrong.py"], found.stdout
    assert 'Argument 2 to "scaled"' in found.stdout


def test_a_bad_file_has_no_stub(tmp_path: Path) -> None:
    (tmp_path / "bad.grad").write_text("def f(x):\n    return y\n", encoding="utf-8")
    assert "E201" in _run("stubs", str(tmp_path / "bad.grad"), status=1).stderr
    assert "cannot read" in _run("stubs", str(tmp_path / "none.grad"), status=2).stderr


# --- wheels ---


def test_a_folder_is_installed_and_imported(folder: Path, tmp_path: Path) -> None:
    told = json.loads(_run("pack", str(folder), "--export", "-o", str(tmp_path / "dist"), "--json").stdout)
    assert Path(told["wheel"]).name == "my_norms-0.1.0-py3-none-any.whl"
    assert told["modules"] == {
        "my_norms.layers.block": ["block", "printed"],
        "my_norms.layers.norms": ["rms_norm"],
    }
    assert (
        told["kernels"] == ["block", "rms_norm"]
        and "depends on what is in tensors" in told["without_kernels"]["printed"]
    )
    site = tmp_path / "site"
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--quiet", "--target", str(site)]
    subprocess.run([*command, told["wheel"]], check=True, cwd=tmp_path)
    script = (
        "import numpy as np\n"
        "from my_norms.layers import block, norms\n"
        "print(block.block(np.array([3.0, 3.0]), np.ones(2)).round(3), norms.rms_norm.__doc__, dir(block))\n"
        "import my_norms\n"
        "print(dir(my_norms), dir(my_norms.layers), hasattr(my_norms, 'none'))\n"
        "import torch\n"
        "rms_norm = my_norms.kernels.rms_norm.rms_norm\n"
        "print(rms_norm(torch.tensor([3.0, 3.0]), torch.ones(2)))\n"
    )
    environment = {**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, cwd=tmp_path
    )
    modules = "['kernels', 'layers'] ['block', 'norms'] False\n"
    assert found.stdout == (
        f"[2. 2.] x over its root mean square. ['block', 'printed']\n{modules}tensor([1.0000, 1.0000])\n"
    ), found.stderr


ALONE = """\
import importlib.util, sys
sys.path += sys.argv[1:]
assert importlib.util.find_spec("gradscript") is None
import torch, my_norms
x, weight = (torch.randn(n, dtype=torch.float64, requires_grad=True) for n in ((4, 8), (8,)))
found = my_norms.kernels.block.block(x, weight)
wanted = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * weight * 2
towards = torch.randn_like(wanted)
torch.testing.assert_close(found, wanted)
for pair in zip(*(torch.autograd.grad(y, (x, weight), towards) for y in (found, wanted))):
    torch.testing.assert_close(*pair)
try:
    my_norms.layers.norms.rms_norm
except ModuleNotFoundError as error:
    print(error)
"""


def test_its_kernels_run_where_there_is_torch_alone(folder: Path, tmp_path: Path) -> None:
    wheel = pack(folder, tmp_path, exported=True).path
    site = tmp_path / "site"
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--quiet", "--target", str(site)]
    subprocess.run([*command, str(wheel)], check=True, cwd=tmp_path)
    # -S: no .pth file brings the editable package.
    others = str(Path(torch.__file__).parents[1])
    run = [sys.executable, "-I", "-S", "-c", ALONE, str(site), others]
    found = subprocess.run(run, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert found.stdout == "No module named 'gradscript'\n", found.stderr


def test_the_archive_is_what_its_record_says(folder: Path, tmp_path: Path) -> None:
    first, second = pack(folder, tmp_path / "one"), pack(folder, tmp_path / "two")
    assert first.path.read_bytes() == second.path.read_bytes()
    with zipfile.ZipFile(first.path) as archive:
        record = archive.read("my_norms-0.1.0.dist-info/RECORD").decode()
        rows = {name: (digest, size) for name, digest, size in csv.reader(io.StringIO(record))}
        assert sorted(rows) == sorted(archive.namelist())
        for name, (digest, size) in rows.items():
            if not name.endswith("RECORD"):
                found = base64.urlsafe_b64encode(hashlib.sha256(archive.read(name)).digest()).rstrip(b"=").decode()
                assert digest == f"sha256={found}" and int(size) == len(archive.read(name))
        assert archive.read("my_norms/layers/norms.grad").decode() == NORMS
        assert "Requires-Dist: gradscript\n" in archive.read("my_norms-0.1.0.dist-info/METADATA").decode()


def test_what_is_no_package_is_told(folder: Path, tmp_path: Path) -> None:
    assert "is no folder" in _run("pack", str(tmp_path / "none"), status=2).stderr
    (tmp_path / "empty").mkdir()
    assert "has no .grad or .gs files" in _run("pack", str(tmp_path / "empty"), status=2).stderr
    assert "is no version" in _run("pack", str(folder), "--version", "new", "-o", str(tmp_path), status=2).stderr
    assert "is no name of a package" in _run("pack", str(folder), "--name", "1st", status=2).stderr
    (folder / "two words.grad").write_text(NORMS, encoding="utf-8")
    with pytest.raises(NoPackage, match="'two words' is no name of a module"):
        pack(folder, tmp_path)
    (folder / "two words.grad").write_text("", encoding="utf-8")
    (folder / "two words.grad").rename(folder / "wrong.grad")
    (folder / "wrong.grad").write_text("def f(x):\n    return y\n", encoding="utf-8")
    assert "wrong.grad:2:12" in _run("pack", str(folder), "-o", str(tmp_path), status=1).stderr
