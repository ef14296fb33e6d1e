"""Every test can fail: it asserts something, or calls what does."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
HOLDING = re.compile(r"assert|raises|warns|check|compare|verify|hold|same|expect|fail|match")
"""What the names of such functions say, pytest's, torch's and NumPy's among them."""
Functions = dict[str, ast.FunctionDef]


def holds(function: ast.FunctionDef, known: Functions) -> bool:
    pending, seen = [function], {function.name}
    while pending:
        for node in ast.walk(pending.pop()):
            if isinstance(node, ast.Assert | ast.Raise):
                return True
            if not isinstance(node, ast.Call):
                continue
            name = ast.unparse(node.func).rpartition(".")[2]
            if HOLDING.search(name):
                return True
            if name in known and name not in seen:
                seen.add(name)
                pending.append(known[name])
    return False


def functions(tree: ast.Module) -> Functions:
    return {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_test_can_fail() -> None:
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(TESTS.rglob("*.py"))}
    shared = {name: found for tree in trees.values() for name, found in functions(tree).items()}
    idle = [
        f"{path.relative_to(TESTS)}: {name}"
        for path, tree in trees.items()
        if path.name.startswith("test_")
        for name, test in functions(tree).items()
        if name.startswith("test_") and not holds(test, shared | functions(tree))
    ]
    assert not idle, idle


def test_one_that_cannot_is_seen() -> None:
    found = functions(ast.parse("def test_a():\n    helper(1)\n\ndef helper(x):\n    return x + 1\n"))
    assert not holds(found["test_a"], found)
    found = functions(ast.parse("def test_a():\n    helper(1)\n\ndef helper(x):\n    assert x\n"))
    assert holds(found["test_a"], found)
