"""Paths that return, or leave a name with, values of different types: told by the source's names, and never dropped."""

from __future__ import annotations

import gradscript as gs
import pytest

PROGRAMS = {
    "a branch": "    if n > 1:\n        return x\n    return n\n",
    "a loop": "    for i in range(n):\n        if i > 1:\n            return i\n    return x\n",
    "within a loop": (
        "    for i in range(n):\n        if i > 1:\n            return (x, i)\n"
        "        if i > 3:\n            return x\n    return x\n"
    ),
    "within a while": (
        "    while n > 0:\n        n -= 1\n        if n > 2:\n            return 1\n"
        "        elif n > 4:\n            return 'a'\n    return 2.0\n"
    ),
    "a name in a loop": (
        "    y = 1\n    for i in range(n):\n        if i > 0:\n            y = 2\n"
        "        else:\n            y = 'a'\n    return x * y\n"
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_mixed_types_are_refused(name: str) -> None:
    with pytest.raises(gs.CompileError) as error:
        gs.CompilationUnit("def f(x, n: int):\n" + PROGRAMS[name])
    assert error.value.code == "E304" and "$" not in str(error.value)
    assert ("'y' is" if "name" in name else "what 'f' returns is") in error.value.message
