"""Each room says what it is for, in its folder and on docs/architecture.md, where it stands as the linter has it."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").partition("## Rooms")[2].partition("\n## ")[0]


def _layers() -> dict[str, list[list[str]]]:
    """The rooms of each folder, from the top floor down, as contracts of the linter name them."""
    found: dict[str, list[list[str]]] = {}
    for contract in PROJECT["tool"]["importlinter"]["contracts"]:
        if contract["type"] == "layers":
            folder = contract.get("containers", ["gradscript"])[0].removeprefix("gradscript").lstrip(".")
            floors = [floor.replace("gradscript.", "").split(" | ") for floor in contract["layers"]]
            found[folder] = floors
    return found


def _tables() -> dict[str, list[tuple[str, str]]]:
    """The rooms that the page names, by folder, each with its sentence."""
    found: dict[str, list[tuple[str, str]]] = {}
    folder = ""
    for line in PAGE.splitlines():
        if heading := re.fullmatch(r"In `(\w+)/`:", line):
            folder = heading[1]
        if row := re.fullmatch(r"\| `([\w.]+)/?` \| (.+) \|", line):
            found.setdefault(folder, []).append((row[1].removesuffix(".py"), row[2]))
    return found


LAYERS, TABLES = _layers(), _tables()


def test_each_folder_of_rooms_has_a_table() -> None:
    assert LAYERS.keys() == TABLES.keys() == {"", "compiler", "runtime", "authoring"}


@pytest.mark.parametrize("folder", LAYERS)
def test_the_page_has_the_order_of_the_linter(folder: str) -> None:
    rooms = [name for name, _ in TABLES[folder]]
    assert sorted(rooms) == sorted(room for floor in LAYERS[folder] for room in floor)
    floors = {room: i for i, floor in enumerate(LAYERS[folder]) for room in floor}
    assert [floors[room] for room in rooms] == sorted(floors[room] for room in rooms)
    assert all(sentence.endswith(".") for _, sentence in TABLES[folder])


@pytest.mark.parametrize("package", PROJECT["tool"]["setuptools"]["packages"])
def test_each_package_says_what_it_is_for(package: str) -> None:
    folder = ROOT.joinpath(*package.split(".")[1:])
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))
    assert docstring is not None
    assert docstring.partition("\n")[0].rstrip().endswith((".", ":"))


def _rows_of_the_docstring(folder: Path) -> list[str]:
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    return re.findall(r"^([\w/]+) {2,}\S", docstring, re.MULTILINE)


FOLDERS = [ROOT.joinpath(*package.split(".")[1:]) for package in PROJECT["tool"]["setuptools"]["packages"]]
TOLD = [folder for folder in FOLDERS if _rows_of_the_docstring(folder)]


def test_several_rooms_have_a_table_of_what_is_in_them() -> None:
    assert {"compiler/autodiff", "compiler/emit", "runtime/kernels", "runtime/tape", "runtime/torch"} <= {
        folder.relative_to(ROOT).as_posix() for folder in TOLD
    }


@pytest.mark.parametrize("folder", TOLD, ids=lambda folder: folder.relative_to(ROOT).as_posix())
def test_a_table_of_what_is_in_a_room_has_a_row_for_each(folder: Path) -> None:
    files = {path.stem for path in folder.glob("*.py") if path.name != "__init__.py"}
    assert sorted(_rows_of_the_docstring(folder)) == sorted(
        files | {f"{path.parent.name}/" for path in folder.glob("*/__init__.py")}
    )


def test_each_room_in_a_room_has_a_row() -> None:
    """With the sentence that stands in its folder."""
    rows = dict(re.findall(r"^\| `([\w/]+/[\w]+)/` \| (.+) \|$", PAGE, re.MULTILINE))
    folders = ["/".join(package.split(".")[1:]) for package in PROJECT["tool"]["setuptools"]["packages"]]
    tables = {f"{folder}/{name}".lstrip("/") for folder, rooms in TABLES.items() for name, _ in rooms}
    expected: dict[str, str] = {}
    for folder in set(folders) - tables - {""}:
        text = ast.get_docstring(ast.parse((ROOT / folder / "__init__.py").read_text(encoding="utf-8"))) or ""
        expected[folder] = text.partition("\n")[0]
    assert rows == expected


def test_where_things_are() -> None:
    page = (
        (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Where things are")[2].partition("\n## ")[0]
    )
    rows = [line for line in page.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 20
    for row in rows:
        named = re.findall(r"`([a-z][\w/]*/[\w.]*)`", row)
        assert named, row
        assert all((ROOT / path).exists() for path in named), row


def _type_names(tree: ast.Module) -> list[str]:
    """The classes of a file, and what it gives another name to: types, by their capital."""
    found = [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found += [target.id for target in targets if isinstance(target, ast.Name)]
    return [name for name in found if re.fullmatch(r"[A-Z]\w*[a-z]\w*", name)]


def test_a_type_has_a_name_of_its_own() -> None:
    """In the whole house; but a GradPair, as users hold it, is the compiler's with what they may ask of it."""
    found: dict[str, list[str]] = {}
    for path in (path for room in ("lang", "compiler", "runtime", "authoring") for path in (ROOT / room).rglob("*.py")):
        for name in _type_names(ast.parse(path.read_text(encoding="utf-8"))):
            found.setdefault(name, []).append(path.relative_to(ROOT).as_posix())
    assert {name: places for name, places in found.items() if len(places) > 1}.keys() == {"GradPair"}


FORMS = "an op on arrays, and the same op on tensors or on shapes"
TEXTS = "what each of the languages that kernels are written in answers to those who plan and write them"
SHARED_NAMES: dict[str, str] = {
    "add_product_in_place": FORMS,
    "add_select_in_place": FORMS,
    "add_slice_in_place": FORMS,
    "einsum_adjoint": FORMS,
    "grad_add_product": FORMS,
    "grad_add_select": FORMS,
    "grad_add_slice": FORMS,
    "cast": "a conversion: of arrays, and in the text of each language that kernels are written in",
    "literal": "a number in the text of each language that is written: C, Triton, the source language",
    "power": TEXTS,
    "spelling": TEXTS,
    "supports": TEXTS,
    "load_module": "the text of kernels in C, or in Triton, made what can be called",
}
"""The functions whose names stand in several files, and what is the same about them."""


def test_a_function_has_a_name_of_its_own() -> None:
    """In the whole house, but a command of the command line, which goes by what it calls."""
    found: dict[str, set[str]] = {}
    for path in (path for room in ("lang", "compiler", "runtime", "authoring") for path in (ROOT / room).rglob("*.py")):
        if path.parent != ROOT / "authoring" / "cli" / "commands":
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                    found.setdefault(node.name, set()).add(path.relative_to(ROOT).as_posix())
    assert {name: places for name, places in found.items() if len(places) > 1}.keys() == SHARED_NAMES.keys()


MOST_ENTRIES = 24
MANY = ("tests", "tests/codegen/goldens/triton", "docs/ops")
"""A room for each room of the code; a text for each kernel; a page for each file of formulas."""


def test_rooms_are_small_enough_to_look_through() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    entries: dict[str, set[str]] = {}
    for name in listed.stdout.split("\0"):
        parts = name.split("/")
        for depth, entry in enumerate(parts):
            entries.setdefault("/".join(parts[:depth]), set()).add(entry)
    assert not {room: len(held) for room, held in entries.items() if len(held) > MOST_ENTRIES and room not in MANY}
