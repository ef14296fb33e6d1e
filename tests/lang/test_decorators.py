"""TorchScript's decorators: what is ignored is passed over whole, what is unknown is refused."""

from __future__ import annotations

import gradscript as gs
import pytest

IGNORED = '''import math

@torch.jit.ignore
def g(x):
    # type: (foo) -> bar
    with open(x) as f:
        print(f"{x}", {1: 2})
    return [a for a in x for b in x]  # type: whatever(

@torch.jit.unused
def h(x): return lambda: x

@torch.jit.ignore(drop=True)
@torch.jit.script
def i(x):
    class A:
        """}"""
    return A

@torch.jit.script
@torch.jit.export
def f(n):
    # type: (int) -> int
    if not torch.jit.is_scripting():
        return g(n)
    return n + 1
'''


def test_ignored_functions_are_passed_over() -> None:
    cu = gs.CompilationUnit(IGNORED)
    assert list(cu) == ["f"]
    assert cu.f(3) == 4


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("@torch.jit.unused\ndef g(x): return x\n\ndef f(x):\n    return g(x)\n", "'g' is not compiled", 5),
        ("@cached\ndef f(x):\n    return x\n", "decorators are not supported", 1),
        ("@torch.jit.unused\n@cached\ndef f(x):\n    return x\n", "decorators are not supported", 1),
        ("@torch.jit.unused\nclass A:\n    pass\n", "decorators are not supported", 1),
        ("@torch.jit.unused", "decorators are not supported", 1),
        ("def f(x):\n    @torch.jit.ignore\n    def g(x):\n        pass\n    return x\n", "decorators are not", 2),
        ("@torch.jit.ignore\ndef g(x):\n    return 1 +\n\ndef f(x):\n    return x y\n", "", 6),
    ],
)  # fmt: skip
def test_what_is_refused(text: str, message: str, line: int) -> None:
    with pytest.raises(gs.CompileError) as caught:
        gs.CompilationUnit(text)
    assert message in caught.value.diagnostics[0].message
    assert caught.value.diagnostics[0].span.line == line


@pytest.mark.parametrize("end", range(0, len(IGNORED), 7))
def test_any_beginning_of_the_text_is_read_or_refused(end: int) -> None:
    try:
        gs.CompilationUnit(IGNORED[:end])
    except gs.CompileError as error:
        assert error.diagnostics
