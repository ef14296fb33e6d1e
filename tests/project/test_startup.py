"""What starting costs, counted in what is loaded: nothing that the work at hand does not use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from gradscript.compiler.ops.index import KEPT, OpIndex
from gradscript.compiler.ops.registry import FAMILIES

HEAVY = {"numpy", "ml_dtypes", "scipy", "torch", "triton", "lark", "click", "rich", "tempfile", "secrets", "hashlib"}
MUL = """
def mul(self, other):
    def backward(grad_output):
        grad_self = (grad_output * other).sum_to_size(self.size())
        grad_other = (grad_output * self).sum_to_size(other.size())
        return grad_self, grad_other
    return self * other, backward
"""
UNIT = f"import gradscript as gs\nunit = gs.CompilationUnit({MUL!r})"


def loaded_by(code: str) -> set[str]:
    """The modules that are loaded after running the code in a new process."""
    text = subprocess.check_output(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules, sep='\\n')"], text=True, timeout=120
    )
    return set(text.split())


def test_a_first_unit_loads_what_compiles_it() -> None:
    loaded = loaded_by(UNIT)
    assert not loaded & HEAVY
    ours = {name.removeprefix("gradscript.") for name in loaded if name.startswith("gradscript.")}
    assert len(ours) <= 190
    rooms = {name.split(".")[1] for name in ours if name.startswith("compiler.")}
    assert not rooms & {"autodiff", "codegen", "formulas", "fusion", "recompute", "shapes", "specialize", "unparse"}


def test_a_first_unit_loads_the_families_of_its_ops() -> None:
    families = {name for name in loaded_by(UNIT) if name.startswith("gradscript.compiler.ops.families.")}
    known = {f"gradscript.compiler.ops.families.{name}" for name in FAMILIES} & families
    stale = {f"gradscript.compiler.ops.families.{name}" for name in OpIndex(FAMILIES).unknown}
    language = ("language.control", "language.properties", "language.lists", "language.scalars")
    names = (*language, "pointwise", "shape", "reductions.reductions", "rearranging")
    assert known - stale <= {f"gradscript.compiler.ops.families.{name}" for name in names}


def test_declaring_every_op_loads_no_numbers() -> None:
    assert not loaded_by("from gradscript.compiler.ops import OPS; OPS.load()") & {"numpy", "ml_dtypes", "scipy"}


def test_a_first_plan_loads_no_solver() -> None:
    """For networks of tens of vertices scipy's took longer to import than all else that a first call does."""
    plan = "import numpy; unit.f.kernels(numpy.ones((8, 64), numpy.float32))"
    unit = "import gradscript; unit = gradscript.CompilationUnit('def f(x):\\n    return torch.tanh(x).softmax(-1)\\n')"
    assert not loaded_by(f"{unit}; {plan}") & {"scipy", "torch"}


def test_the_command_says_its_version_without_the_compiler() -> None:
    code = "from gradscript.authoring.cli.main import main; main(['--version'], standalone_mode=False)"
    loaded = loaded_by(code)
    assert not {name for name in loaded if name.startswith(("gradscript.compiler", "gradscript.runtime", "numpy"))}


def test_the_index_is_of_the_families() -> None:
    code = "from gradscript.compiler.ops.write_index import index_text; print(index_text())"
    made = json.loads(subprocess.check_output([sys.executable, "-c", code], text=True, timeout=120))
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    assert (kept["names"], kept["ops"]) == (made["names"], made["ops"]), "run `make tables`"


def test_a_check_unpacks_nothing_and_writes_no_other_format(tmp_path: Path) -> None:
    file = tmp_path / "mul.grad"
    file.write_text(MUL)
    run = "from gradscript.authoring.cli.main import main; main(['check', sys.argv[1]], standalone_mode=False)"
    code = f"import sys; sys.argv[1:] = [{str(file)!r}]; {run}"
    loaded = loaded_by(code)
    assert not loaded & {"scipy", "torch", "lark", "rich", "numpy.typing", "importlib.resources", "shutil", "zipfile"}
    assert not loaded & {"numpy.random", "ml_dtypes", "gradscript.compiler.functionalize.driver"}
    assert "gradscript.authoring.cli.formats" not in loaded
    assert not {name for name in loaded if name.startswith("gradscript.authoring.repair")}


def test_a_check_starts_no_threads_for_products(tmp_path: Path) -> None:
    file = tmp_path / "mul.grad"
    file.write_text(MUL)
    run = "from gradscript.authoring.cli.main import main; main(['check', sys.argv[1]], standalone_mode=False)"
    code = f"import sys, os; sys.argv[1:] = [{str(file)!r}]\n{run}\nprint(os.environ['OPENBLAS_NUM_THREADS'])"
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    for given, expected in (({}, "1"), ({"OPENBLAS_NUM_THREADS": "2"}, "2")):
        said = subprocess.check_output([sys.executable, "-c", code], text=True, timeout=120, env=environment | given)
        assert said.split()[-1] == expected
