"""`gradscript export` and `gs.export`: modules that run without gradscript, and C that a program can link."""

from __future__ import annotations

import ast
import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click.testing
import gradscript as gs
import numpy as np
import pytest
import torch
from amounts import some_of
from exported_suite import CASES, Case, results, weights_of
from gradscript.authoring.cli.main import main

ROOT = Path(__file__).parents[2]
OTHERS = """
# y = x (1 + u) / 2
def mean_squared(x, y):
    return ((x - y) ** 2).mean()


def masked(x, p: float = 0.3):
    return F.dropout(x, p)


def named(x, y, lines: float):
    columns = x * torch.exp(y) * lines
    rows = columns.sum(-1, keepdim=True)
    return torch.tanh(columns / (1 + rows * rows)) * columns


def sized(columns, lines: float):
    return columns * lines / (1 + (columns * columns).sum(-1, keepdim=True))


def listed(x, n: int = 2):
    parts = [x * k for k in range(1, 4)]
    for i in range(n):
        parts.append(torch.tanh(parts[-1] * x))
    parts[1] = parts[0] * parts[2]
    last = parts.pop()
    return torch.stack(parts).sum(0) + last


def written(x, y):
    out = torch.zeros_like(x)
    out[..., 0] = y.sum(-1)
    out += x
    out.mul_(2)
    return out.exp_()


def scores(x, mask):
    kept = x.masked_fill(mask, -1e9)
    sizes = kept.size()
    m = torch.logsumexp(kept, -1)

    def backward(grad_output):
        grads = [grad_output.reshape(torch.kept_size(sizes, -1))]
        grads.append(torch.exp(kept - m.unsqueeze(-1)))
        return (grads[0] * grads[1]).masked_fill(mask, 0).sum_to_size(x.size()), None

    return m, backward


def largest(x, low: float = -0.7, high: float = 0.9):
    return (x.clamp(low, high) * 1.7).amax(-1)


def picked(x, i):
    return x[..., i] * x[..., 0, i] * 2


def met(x, i):
    return (x[i] * x[-i]).sum(-1)


def replaced(x):
    y = x * 2
    y[:, 0] = 0.0
    y += x
    return y.exp()
"""
EXAMPLES = {
    "gelu": ("gelu.gs", "gelu"),
    "feed_forward": ("swiglu.gs", "feed_forward"),
}


def _arguments(name: str) -> list[Any]:
    """Arguments from which the number of dimensions follows, and which sizes are the same."""
    if name == "met":
        return [torch.ones(6, 5), torch.tensor([5, 0, 3, 1])]
    if name in ("rope", "lstm_cell", "feed_forward", "cross_entropy", "adamw"):
        case = CASES[name]
        return [t.float() if t.is_floating_point() else t for t in case.arguments[1]()] + list(case.plain)
    return []


def _function(name: str) -> Any:
    if name in EXAMPLES:
        file, own = EXAMPLES[name]
        return gs.load(ROOT / "examples" / file)[own]
    if name == "scaled_rms_norm":
        text = (ROOT / "examples" / "norms.gs").read_text(encoding="utf-8")
        return gs.CompilationUnit(text.replace("def rms_norm(", f"def {name}("), "norms.gs")[name]
    suite = gs.load(ROOT / "benchmarks" / "suite.grad")
    return suite[name] if name in suite else gs.CompilationUnit(OTHERS, "others.grad")[name]


EXPORTED = (
    "masked",
    "named",
    "sized",
    "listed",
    "written",
    "scores",
    "largest",
    "picked",
    "met",
    "replaced",
    *dict.fromkeys(("layer_norm", "bias_gelu", "rope", "geglu", *some_of(CASES))),
)
"""Those that tests look at by name, and some of the others."""


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the modules of formulas."""
    folder = tmp_path_factory.mktemp("exported")
    for name in EXPORTED:
        (folder / f"{name}.py").write_text(gs.export(_function(name), *_arguments(name)), encoding="utf-8")
    return folder


def test_modules_are_right_without_gradscript(exported: Path) -> None:
    script = Path(__file__).with_name("exported_suite.py")
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-I", str(script), str(exported)]
    found = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=exported, timeout=900)
    wrong = [line for line in found.stdout.splitlines() if not line.endswith(": ok")]
    assert not wrong and found.returncode == 0, "\n".join(wrong) + found.stderr[-3000:]
    assert len(found.stdout.splitlines()) == len(EXPORTED) - 1 + 5


def test_modules_of_one_name_stand_beside_each_other(tmp_path: Path) -> None:
    """The ops that torch knows are of each text, and so are their gradients."""
    for factor in (2, 3):
        unit = gs.CompilationUnit(f"def scaled(x):\n    return x * x * {factor}\n")
        (tmp_path / f"by_{factor}.py").write_text(gs.export(unit.scaled, np.ones((2, 3))), encoding="utf-8")
    script = (
        "import torch, by_2, by_3\nx = torch.full((2, 3), 5.0, requires_grad=True)\n"
        "for module in (by_2, by_3, by_2):\n"
        "    y = module.scaled(x)\n    (grad,) = torch.autograd.grad(y.sum(), x)\n"
        "    print(y[0, 0].item(), grad[0, 0].item())\n"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert found.stdout.split("\n")[:3] == ["50.0 20.0", "75.0 30.0", "50.0 20.0"]


def test_modules_are_readable(exported: Path) -> None:
    """Each import and each helper once, every parameter of a kernel used, nothing added for nothing."""
    for path in exported.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name != "_"]
        assert len(names) == len(set(names)), path.name
        imports = [ast.unparse(node) for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        assert len(imports) == len(set(imports)) and "gradscript" not in " ".join(imports)
        assert ast.get_docstring(tree) is not None
        # What the formula comes to with the given arguments may add nothing: it is told as it was derived. But what was
        # stacked adds up to a positive zero, of negative ones too.
        assert path.stem == "listed" or not re.search(r"[+-] 0\.0\b", text.split('"""', 2)[2])
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and "triton.jit" in ast.unparse(node.decorator_list):
                used = {n.id for inner in node.body for n in ast.walk(inner) if isinstance(n, ast.Name)}
                assert {a.arg for a in node.args.args} <= used, (path.name, node.name)
    found = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F,E9,I", str(exported)], capture_output=True
    )
    assert found.returncode == 0, found.stdout.decode()
    found = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--isolated", "--diff", str(exported)], capture_output=True
    )
    assert found.returncode == 0, found.stdout.decode()


def test_dtypes_are_those_of_torch(tmp_path: Path) -> None:
    unit = gs.CompilationUnit(
        "def halved(x, mask):\n    assert mask.dtype == torch.bool\n    if x.dtype != torch.float64:\n"
        "        x = x * 2\n    return x * mask\n"
    )
    (tmp_path / "halved.py").write_text(
        gs.export(unit.halved, np.ones((2, 3)), np.ones((2, 3), bool)), encoding="utf-8"
    )
    script = (
        "import torch, halved\nmask = torch.tensor([True, False])\n"
        "print(halved.reference(torch.ones(2, dtype=torch.float64), mask), halved.reference(torch.ones(2), mask))\n"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert found.stdout.startswith("tensor([1., 0.], dtype=torch.float64) tensor([2., 0.])")


def test_modules_are_typed(exported: Path) -> None:
    """What the checker knows of NumPy and torch is kept from one run of the tests to the next."""
    modules = [str(path) for path in sorted(exported.glob("*.py"))[:: len(EXPORTED) // 3]]
    cache = ROOT / ".mypy_cache" / "exported"
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", str(cache), *modules]
    found = subprocess.run([*command, "--ignore-missing-imports"], capture_output=True, text=True)
    assert found.returncode == 0, found.stdout


def test_the_docstring_has_the_formula_and_its_gradient(exported: Path) -> None:
    found = ast.get_docstring(ast.parse((exported / "geglu.py").read_text(encoding="utf-8")))
    assert (
        found is not None
        and 'return F.gelu(x, approximate="tanh") * g' in found
        and "def backward(grad_output):" in found
    )
    assert "x: (*batch, columns)" in found


# --- C ---


WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")


def test_c_writes_every_gradient(tmp_path: Path) -> None:
    """Also one that is another, or the one that came in; and compiles without a flag for vectors, without a warning."""
    source = tmp_path / "sums.grad"
    source.write_text(
        "def shifted(x, y):\n    return x + y\n\n\ndef doubled(x, y):\n    return (x + y) * 2\n", encoding="utf-8"
    )
    for name, factor in (("shifted", 1), ("doubled", 2)):
        command = ["export", str(source), name, "--c", "-o", f"{tmp_path}/"]
        assert click.testing.CliRunner().invoke(main, command).exit_code == 0
        library = tmp_path / f"{name}.so"
        build = ["cc", "-std=c11", *WARNINGS, "-shared", "-fPIC", str(tmp_path / f"{name}.c"), "-o", str(library)]
        subprocess.run([*build, "-lm"], check=True)
        header = (tmp_path / f"{name}.h").read_text(encoding="utf-8")
        taken = "const float *grad_output, float *grad_x, float *grad_y, int64_t rows, int64_t columns"
        assert f"int32_t {name}_backward({taken});" in header
        given, x, y = torch.randn(3, 5), torch.zeros(3, 5), torch.zeros(3, 5)
        pointers = [ctypes.c_void_p(tensor.data_ptr()) for tensor in (given, x, y)]
        sizes = [ctypes.c_int64(3), ctypes.c_int64(5)]
        assert getattr(ctypes.CDLL(str(library)), f"{name}_backward")(*pointers, *sizes) == 0
        assert torch.equal(x, given * factor) and torch.equal(y, given * factor)


def _c_case(name: str, case: Case, folder: Path) -> None:
    runner = click.testing.CliRunner()
    file, own = EXAMPLES.get(name, ("", name))
    source = ROOT / "examples" / file if file else ROOT / "benchmarks" / "suite.grad"
    invoked = runner.invoke(main, ["export", str(source), own, "--c", "-o", f"{folder}/"])
    assert invoked.exit_code == 0, invoked.output
    library = folder / f"{own}.so"
    command = ["cc", "-std=c11", "-O2", *WARNINGS, "-fopenmp-simd", "-shared", "-fPIC"]
    subprocess.run([*command, str(folder / f"{own}.c"), "-o", str(library), "-lm"], check=True)
    loaded = ctypes.CDLL(str(library))
    for make in case.arguments[1:]:
        torch.manual_seed(1)
        tensors = [t.float() if t.is_floating_point() else t for t in make()]
        wide = [t.double() if t.is_floating_point() else t for t in tensors]
        exact, eager = results(case.eager, wide, ()), results(case.eager, tensors, ())
        ours = _through_c(loaded, own, (folder / f"{own}.h").read_text(encoding="utf-8"), tensors, exact)
        for found, torchs, wanted in zip(ours, eager, exact, strict=True):
            allowed = (
                4 * (torchs.double() - wanted).abs().max() + 16 * torch.finfo(torch.float32).eps * wanted.abs().max()
            )
            assert ((found.double() - wanted).abs().max() <= allowed).item(), (name, tuple(tensors[0].shape))


def _through_c(library: Any, name: str, header: str, tensors: list[Any], exact: list[Any]) -> list[Any]:
    """Both passes, by the parameters that the header names: results of the forward first, then of the backward."""
    sizes = {"rows": tensors[0].numel() // tensors[0].shape[-1], "columns": tensors[0].shape[-1]}
    held: dict[str, Any] = {}
    inputs = [t.contiguous() for t in tensors]
    written: dict[str, list[str]] = {"forward": [], "backward": []}
    for which in written:
        line = next(line for line in header.splitlines() if f"{name}_{which}(" in line)
        pointers = []
        for parameter in line[line.index("(") + 1 : line.index(")")].split(", "):
            own = re.split(r"[ *]", parameter)[-1]
            if "*" not in parameter:
                pointers.append(ctypes.c_int64(sizes[own]))
                continue
            if not parameter.startswith("const"):
                written[which].append(own)
                held[own] = torch.empty(tensors[0].numel() * 2)
            elif own not in held:
                held[own] = inputs.pop(0) if which == "forward" else weights_of(exact[0]).float()
            pointers.append(ctypes.c_void_p(held[own].data_ptr()))
        assert getattr(library, f"{name}_{which}")(*pointers) == 0
    names = [written["forward"][0], *written["backward"]]
    return [held[own][: wanted.numel()].reshape(wanted.shape) for own, wanted in zip(names, exact, strict=True)]


@pytest.mark.parametrize("name", ["swiglu", "layer_norm", "bias_gelu", "rms_norm", "gelu"])
def test_c_is_right(name: str, tmp_path: Path) -> None:
    assert shutil.which("cc") is not None
    _c_case(name, CASES[name], tmp_path)


# --- the command ---


def _run(*arguments: str, status: int = 0) -> click.testing.Result:
    found = click.testing.CliRunner().invoke(main, ["export", *arguments])
    assert found.exit_code == status, found.output
    return found


def test_the_command_writes_or_prints(tmp_path: Path) -> None:
    suite = str(ROOT / "benchmarks" / "suite.grad")
    printed = _run(suite, "swiglu").stdout
    written = json.loads(_run(suite, "swiglu", "-o", str(tmp_path), "--json").stdout)["files"]
    assert written == [str(tmp_path / "swiglu.py")] and Path(written[0]).read_text(encoding="utf-8") == printed
    assert json.loads(_run(suite, "swiglu", "--json").stdout)["texts"] == {"swiglu.py": printed}
    policies = {_run(suite, "layer_norm", "--policy", policy).stdout for policy in ("min_cut", "recompute_all")}
    assert len(policies) == 2 and any("return normal, mean, rstd" in text for text in policies)


@pytest.mark.parametrize(
    ("source", "line", "said"),
    [
        (
            "def f(x):\n    if float(x.sum()) > 0:\n        return x\n    return -x\n",
            2,
            "depends on what is in tensors",
        ),
        ("def f(xs: List[Tensor]):\n    return xs[0]\n", 1, "'xs' is List[Tensor]"),
        ("def f(x):\n    return x.size(0)\n", 1, "returns what is no tensor"),
        ("def f(x):\n    return torch.bernoulli(x)\n", 1, "draws random numbers"),
        ("def f(x):\n    return x.argmax(-1)\n", 1, "floating numbers"),
    ],
)
def test_what_cannot_be_exported_is_told(source: str, line: int, said: str, tmp_path: Path) -> None:
    path = tmp_path / "f.grad"
    path.write_text(source, encoding="utf-8")
    told = _run(str(path), "f", status=1).stderr
    assert told.startswith("error[E412]: 'f' cannot be exported") and f"f.grad:{line}:" in told and said in told
    assert "note: " in told
    found = json.loads(_run(str(path), "f", "--json", status=1).stdout)
    assert [d["code"] for d in found["diagnostics"]] == ["E412"]


def test_wrong_commands_are_told(tmp_path: Path) -> None:
    suite = str(ROOT / "benchmarks" / "suite.grad")
    assert "there is no function" in _run(suite, "nothing", status=2).stderr
    assert "there is no policy" in _run(suite, "swiglu", "--policy", "best", status=2).stderr
    assert "cannot write to" in _run(suite, "swiglu", "-o", str(tmp_path / "no" / "where.py"), status=2).stderr
    (tmp_path / "sorted.grad").write_text("def f(x):\n    return torch.sort(x, -1)[0]\n", encoding="utf-8")
    assert "cannot be exported as C" in _run(str(tmp_path / "sorted.grad"), "f", "--c", status=1).stderr
    (tmp_path / "named.grad").write_text("def f(rows, x):\n    return torch.exp(rows) * x\n", encoding="utf-8")
    assert "give it another name" in _run(str(tmp_path / "named.grad"), "f", status=1).stderr
    with pytest.raises(TypeError, match="takes a function of a unit"):
        gs.export(len)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="takes x, g"):
        gs.export(gs.load(suite).swiglu, np.ones(3), np.ones(3), np.ones(3))
