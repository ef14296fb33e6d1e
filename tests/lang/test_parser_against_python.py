"""Structure and spans of valid programs agree with Python's own parser, and so does what is valid."""

from __future__ import annotations

import pytest
from amounts import some
from hypothesis import given, settings
from lang_support import assert_same_tree, parse_text, parse_with_python
from program_texts import EXPRESSIONS, PROGRAMS

OURS_ALONE = ("E102", "E104", "E105")
"""Codes for what Python's parser lets pass."""


def check(text: str) -> None:
    module, found = parse_text(text)
    if not found:
        assert_same_tree(text, module)
    elif parse_with_python(text) is not None:
        assert all(finding.code in OURS_ALONE for finding in found), "\n".join(map(str, found))


@settings(max_examples=some(400), deadline=None)
@given(EXPRESSIONS)
def test_expressions(expression: str) -> None:
    check(f"def f():\n    return ({expression})\n")


@settings(max_examples=some(300), deadline=None)
@given(PROGRAMS)
def test_programs(program: str) -> None:
    check(program)


@pytest.mark.parametrize(
    "expression",
    [
        "-x ** 2", "2 ** -x", "-x ** -y ** z", "not a == b", "not not a", "a if b else c if d else e",
        "(a if b else c) if d else e", "a or b and not c", "a or b or c and d and e", "(a or b) or c",
        "a < b <= c != d", "a is not b", "a is (not b)", "a not in b in c", "(a < b) < c", "a - b - c",
        "a - (b - c)", "a ** b ** c", "(a ** b) ** c", "a * b + c @ d // e % f", "a << b + c >> d",
        "a & b | c ^ d & ~e", "-a.b", "-a[0](b)", "~-+a", "- - a", "a + +b", "a.b.c(d)(e)[f].g",
        "f(a, b, c=d, e=(g, h),)", "f((a))", "f(\n  a,\n  b\n)", "(a)", "((a))", "((a) + (b)) * (c)", "()", "(a,)",
        "(a, b)", "(a, b,)", "[a]", "[a,]", "[a, b]", "[(a, b), c]", "x[1]", "x[1,]", "x[1, 2]", "x[:]", "x[::]",
        "x[a:]", "x[:b]", "x[a:b]", "x[a:b:c]", "x[::-1]", "x[..., None, 1:, ::2]", "x[(1, 2)]", "x[...]",
        "[i for i in x]", "[i + j for i, j in zip(x, y) if i < j]", "[i for i in a or b if c or d]",
        "[i for j in x if j if i for i in j]", "f(i for i in x)", "(i for i in x if i)", "f((i for i in x), y)",
        "[[j for j in i] for i in x]", "'a' 'b' \"c\"", "('a'\n   'b')", "r'\\n'", "'\\N{BULLET}\\x41\\101\\0'",
        "'''a\n'b'''", "0x_f + 0b1_0 + 0o1_7", "1_0e1_0", ".5e-3", "5.", "00", "1e999", "x if y else(z)",
        "1 if x else 2", "x\\\n  + y", "'é' + x", "ﬁ + µ", "lambda_",
    ],
)  # fmt: skip
def test_expression_table(expression: str) -> None:
    text = f"def f():\n    return {expression}\n"
    module, found = parse_text(text)
    assert not found
    assert_same_tree(text, module)


@pytest.mark.parametrize(
    "statement",
    [
        "a = b", "a = b = c", "a, b = c", "a, b, = c", "a, = b", "(a, b), c = d", "x[0] = y", "x.y = z",
        "x: int = 3", "x: Optional[List[int]] = None, 1", "a += 1, 2", "x[0] **= 2", "x >>= 1", "x <<= 1",
        "x //= 1", "x @= y", "(a) = b", "return", "return a, b", "return a,", "return (a, b)", "pass; pass;",
        "del a", "del a, b[0],", "del (a)", "del x[0][1]; pass",
        "assert a", "assert a, 'b'", "raise", "raise ValueError('a')", "a", "'text'; a", "if a: pass",
        "if a: pass\n    elif b: pass\n    else: pass",
        "if a:\n        pass\n    else:\n        if b:\n            pass", "for a in b: break",
        "for a, (b, c) in d, e: continue", "for x[0] in y: pass", "while a: a -= 1; break", "def g(): return 1",
        "def g(a, *, b=1, c: int) -> Tensor | None: pass", "def g(\n    a,  # first\n    b: int = 1,\n): pass",
        "def g(a, *, b,): 'doc'; return a", "x = (  # c\n\n1)", "x = [\n1,\n    # c\n2]",
        "if a:\n  # c\n        pass\n # d", "x = 1  # comment",
    ],
)  # fmt: skip
def test_statement_table(statement: str) -> None:
    text = f"def f():\n    {statement}\n"
    module, found = parse_text(text)
    assert all(finding.code in OURS_ALONE for finding in found)
    if not found:
        assert_same_tree(text, module)
