"""Independent mistakes in one file are all reported in one go, and none twice."""

from __future__ import annotations

from textwrap import dedent

import pytest
from gradscript.lang.diagnostics import MAX_DIAGNOSTICS, Diagnostics
from gradscript.lang.parser import parse
from gradscript.lang.source import Source
from lang_support import parse_text


def check(text: str, places: list[tuple[str, int]], functions: list[str]) -> None:
    module, found = parse_text(dedent(text).lstrip("\n"))
    assert [(f.code, f.span.line) for f in found] == places, "\n".join(map(str, found))
    assert [function.name for function in module.functions] == functions


def test_mistakes_in_several_functions() -> None:
    check(
        """
        def first(x):
            y = x +
            return y

        def second(x):
            return x

        def third(x:
            retrun x

        def fourth(x):
            return x
        """,
        [("E101", 2), ("E003", 8), ("E101", 9)],
        ["second", "fourth"],
    )


def test_blocks_around_and_below_a_mistake() -> None:
    check(
        """
        def f(x):
            if x > 0
                y = 1 +
            elif x = 2:
                y = await 3
            else:
                y = (
            for i range(3):
                continue
            break
            while x {
                return y
            }
            return y
        """,
        [("E101", 2), ("E101", 3), ("E101", 4), ("E102", 5), ("E003", 7), ("E101", 8), ("E104", 10), ("E101", 11)],
        [],
    )


def test_one_line_suites() -> None:
    check(
        """
        def f(x):
            if x y: return 1
            elif x: return = 2
            else: return 3

        def g(x): return x
        """,
        [("E101", 2), ("E101", 3)],
        ["g"],
    )


def test_unclosed_brackets_end_with_their_line() -> None:
    check(
        """
        def f(x):
            a = g(x
            b = (1 + 2
            c = 3 +
            return a

        def g(x):
            return (x
        """,
        [("E003", 2), ("E003", 3), ("E101", 4), ("E003", 8)],
        [],
    )


def test_brackets_over_several_lines() -> None:
    check(
        """
        def f(x):
            y = g(x,
                  1 2,
                  )
            z = g(
                x,
            return y

        def g(x):
            return x
        """,
        [("E101", 3), ("E003", 5)],
        ["g"],
    )


def test_a_construct_of_several_parts_is_reported_once() -> None:
    check(
        """
        def f(x):
            try:
                y = 1
            except ValueError as e:
                y = 2
            except:
                y = 3
            else:
                y = 4
            finally:
                y = 5
            match x:
                case 1 | 2:
                    return x
                case _:
                    return y
        """,
        [("E102", 2), ("E102", 12)],
        [],
    )


def test_a_class_and_its_methods() -> None:
    check(
        """
        class Net:
            def forward(self, x):
                return x

            @property
            def size(self):
                return 1

        def f(x):
            return x
        """,
        [("E102", 1)],
        ["f"],
    )


def test_wrong_indentation_is_reported_once() -> None:
    check(
        """
        def f(x):
                a = 1
            b = 2
            c = 3
            return a

        def g(x):
            y = 1
              z = 2
              w = 3
            return y
        """,
        [("E002", 3), ("E002", 9)],
        [],
    )


def test_mixed_tabs_are_reported_once() -> None:
    check("def f(x):\n    if x:\n\ta = 1\n\tb = 2\n    if x:\n\tc = 1\n    return x\n", [("E002", 3)], [])


def test_a_broken_header_keeps_its_place() -> None:
    """What is only allowed in a function or a loop is not reported below a header that did not parse."""
    check(
        """
        defn f(x):
            for i inn x:
                break
            return x
        """,
        [("E101", 1), ("E101", 2)],
        [],
    )


def test_imports_that_python_needs_are_skipped() -> None:
    check(
        """
        '''A file.'''
        from __future__ import annotations
        import torch
        import torch.nn.functional as F
        from torch import Tensor
        from torch.nn import functional as F
        from typing import List, Optional
        from typing import (
            Tuple,
            Union,
        )

        def f(x):
            return x

        import torch
        """,
        [],
        ["f"],
    )


@pytest.mark.parametrize("line", ["x = = 1", "'", "$", ")", "(", "retrun x", "if x:", "yield"])
def test_the_report_is_bounded(line: str) -> None:
    _, found = parse_text("def f(x):\n" + f"    {line}\n" * 5000)
    assert found
    assert len(found) <= 2 * MAX_DIAGNOSTICS


def test_findings_in_another_source_do_not_hide_ours() -> None:
    diagnostics = Diagnostics()
    for name in ("first", "second"):
        parse(Source("def f(x): return x +\n", name), diagnostics)
    assert [found.span.source.filename for found in diagnostics.found] == ["first", "second"]
