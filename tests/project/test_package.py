"""What is shipped: the package's metadata, its folders, what importing it loads, and what its code may not do."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gradscript as gs
import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("lang", "compiler", "runtime", "stdlib_grads", "authoring")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
MODULES = [ROOT / "__init__.py", ROOT / "__main__.py", *(p for room in ROOMS for p in (ROOT / room).rglob("*.py"))]

FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
GENERATORS = {"compiler/ops/typed.py", "lang/light_dataclasses.py"}
"""Files that may run text: it is put together from the IR, or from names of our own fields, and no word of a user's is
in it."""
COMPARERS = {"runtime/face/units/typed_source.py"}
"""Files that may compile text and not run it: to see whether it is that of a function which Python runs already."""
FORBIDDEN_MODULES = {"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle"}


def test_version() -> None:
    assert gs.__version__ == PROJECT["project"]["version"]
    assert version("gradscript") == gs.__version__


def test_tests_run_on_this_checkout() -> None:
    assert Path(gs.__file__).resolve() == ROOT / "__init__.py"


def test_no_text_is_half_merged() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    marks = re.compile(rb"^(<{7}|>{7}) ", re.MULTILINE)
    texts = [ROOT / name for name in listed.stdout.split("\0") if name]
    assert not [path for path in texts if path.is_file() and marks.search(path.read_bytes())]


def test_every_folder_is_a_package_listed() -> None:
    folders = {p.parent.relative_to(ROOT) for p in MODULES if p.name == "__init__.py"}
    names = {".".join(("gradscript", *folder.parts)) for folder in folders}
    assert names == set(PROJECT["tool"]["setuptools"]["packages"])
    assert {p.parent.relative_to(ROOT) for p in MODULES} == folders


def test_every_data_file_is_packaged() -> None:
    data = PROJECT["tool"]["setuptools"]["package-data"]
    listed = {
        path
        for package, patterns in data.items()
        for pattern in patterns
        for path in (ROOT / Path(*package.split(".")[1:])).glob(pattern)
    }
    beside_code = {p for room in ROOMS for p in (ROOT / room).rglob("*") if p.is_file()}
    assert {p for p in beside_code if p.suffix not in (".py", ".pyc")} <= listed
    assert ROOT / "lang" / "grammar" / "grammar.lark" in listed
    assert len([p for p in listed if p.suffix == ".grad"]) > 3


def loaded_by(code: str) -> set[str]:
    """The top-level modules that are loaded after running the code in a new process."""
    command = f"{code}\nimport sys; print(*{{name.partition('.')[0] for name in sys.modules}})"
    return set(subprocess.check_output([sys.executable, "-c", command], text=True, timeout=120).split())


def test_importing_is_light() -> None:
    assert not loaded_by("import gradscript") & {"numpy", "torch", "lark", "scipy", "click", "rich", "ml_dtypes"}


def test_compiling_and_running_load_neither_torch_nor_the_command_line() -> None:
    code = "import gradscript as gs; gs.CompilationUnit('def f(x):\\n    return x * 2\\n').f(1.0)"
    assert not loaded_by(code) & {"torch", "triton", "click", "rich", "matplotlib", "sklearn"}


@pytest.mark.parametrize("path", MODULES, ids=[p.relative_to(ROOT).as_posix() for p in MODULES])
def test_module_runs_no_text_and_names_no_place(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            name = path.relative_to(ROOT).as_posix()
            allowed = name in GENERATORS or (name in COMPARERS and node.func.id == "compile")
            assert allowed or node.func.id not in FORBIDDEN_CALLS, f"line {node.lineno} calls {node.func.id}"
        if isinstance(node, ast.Import):
            assert not {alias.name.partition(".")[0] for alias in node.names} & FORBIDDEN_MODULES
        if isinstance(node, ast.ImportFrom) and node.module:
            assert node.module.partition(".")[0] not in FORBIDDEN_MODULES
    assert not re.search(r"[\"'](/home|/root|/usr|/tmp|/opt|/work)/", text)


def test_public_names_exist() -> None:
    for name in gs.__all__:
        assert getattr(gs, name) is not None
    assert set(gs.__all__) <= set(dir(gs))
