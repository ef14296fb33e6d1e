"""Graphs for which torch's slicing and ours are asked how many groups they make. `argsort` has no derivative."""

from __future__ import annotations

_HEAD = """\
  %d : int = prim::Constant[value=-1]()
  %no : bool = prim::Constant[value=False]()
  %k : int = prim::Constant[value=1]()
"""


def _graph(inputs: str, *lines: str) -> str:
    return "\n".join([f"graph f({inputs}):", _HEAD.rstrip(), *(f"  {line}" for line in lines), ""])


_MUL = "%{} : Tensor = aten::mul.Tensor(%{}, %{})"
_TANH = "%{} : Tensor = aten::tanh(%{})"
_SORT = "%{} : Tensor = aten::argsort(%{}, %d, %no)"
_ADD = "%{} : Tensor = aten::add.Tensor(%{}, %{}, %k)"
_TWO, _THREE, _FOUR = (
    "%a : Tensor, %b : Tensor",
    "%a : Tensor, %b : Tensor, %c : Tensor",
    ("%a : Tensor, %b : Tensor, %c : Tensor, %e : Tensor"),
)

GRAPHS = {
    "a chain": _graph(_TWO, _MUL.format(1, "a", "b"), _MUL.format(2, 1, "a"), _ADD.format(3, 2, "b"), "return (%3)"),
    "one node": _graph(_TWO, _MUL.format(1, "a", "b"), "return (%1)"),
    "nothing to differentiate": _graph(_TWO, _SORT.format(1, "a"), _SORT.format(2, 1), "return (%2)"),
    "unrelated chains": _graph(
        _TWO,
        *(_MUL.format(1, "a", "a"), _MUL.format(2, "b", "b"), _TANH.format(3, 1), _TANH.format(4, 2)),
        "return (%3, %4)",
    ),
    "chains that meet": _graph(
        _TWO,
        *(_MUL.format(1, "a", "a"), _MUL.format(2, "b", "b"), _TANH.format(3, 1), _TANH.format(4, 2)),
        *(_MUL.format(5, 3, 4), "return (%5)"),
    ),
    "two users of one": _graph(
        _TWO,
        *(_MUL.format(1, "a", "b"), _TANH.format(2, 1), "%3 : Tensor = aten::sigmoid(%1)", "return (%2, %3)"),
    ),
    "a node in between": _graph(
        _TWO, _MUL.format(1, "a", "b"), _SORT.format("n", "a"), _TANH.format(2, 1), "return (%2, %n)"
    ),
    "a cycle to avoid": _graph(
        _TWO,
        *(_MUL.format(1, "a", "b"), _TANH.format(2, 1), _SORT.format("n", 1), _MUL.format(3, 2, "n")),
        *("%4 : Tensor = aten::sigmoid(%3)", "return (%4)"),
    ),
    "all of it in between": _graph(
        _TWO,
        *(_MUL.format(1, "a", "b"), _TANH.format(2, 1), _SORT.format("n", 2), _MUL.format(3, "n", "b")),
        *(_TANH.format(4, 3), "return (%4)"),
    ),
    "up past what does not use it": _graph(
        _THREE,
        *(_MUL.format(1, "a", "b"), _SORT.format("n", "b"), _SORT.format("m", "n"), _MUL.format(2, 1, "c")),
        "return (%m, %2)",
    ),
    "down past what it does not use": _graph(
        _THREE,
        *(_SORT.format("n", "c"), _MUL.format(1, "a", "b"), _SORT.format("m", "n"), _MUL.format(2, 1, "m")),
        "return (%2)",
    ),
    "independent nodes of one consumer": _graph(
        _FOUR,
        *(_MUL.format(1, "a", "b"), _MUL.format(2, "c", "e"), _MUL.format(3, "a", "e"), _ADD.format(4, 1, 2)),
        *(_ADD.format(5, 4, 3), "return (%5)"),
    ),
    "a dense square": _graph(
        _TWO,
        *(_MUL.format(1, "a", "b"), _MUL.format(2, "b", "a"), _MUL.format(3, 1, 2), _MUL.format(4, 2, 1)),
        *(_MUL.format(5, 3, 4), "return (%5, %3, %1)"),
    ),
    "results that repeat": _graph(_TWO, _MUL.format(1, "a", "b"), _TANH.format(2, 1), "return (%2, %1, %2, %1)"),
    "an input that is a result": _graph(_TWO, _MUL.format(1, "a", "b"), _TANH.format(2, 1), "return (%2, %a)"),
    "views": _graph(
        _TWO,
        *("%1 : Tensor = aten::t(%a)", _MUL.format(2, 1, "b"), "%3 : Tensor = aten::t(%2)", _TANH.format(4, 3)),
        "return (%4)",
    ),
    "products": _graph(
        _THREE,
        *("%1 : Tensor = aten::t(%b)", "%2 : Tensor = aten::mm(%a, %1)", _ADD.format(3, 2, "c"), _TANH.format(4, 3)),
        "return (%4)",
    ),
    "a branch": _graph(
        f"{_TWO}, %q : bool",
        *(_MUL.format(1, "a", "b"), _MUL.format(2, 1, "b"), "%5 : Tensor = prim::If(%q)", "  block():"),
        *(f"    {_MUL.format(3, 1, 2)}", f"    {_MUL.format(4, 3, 2)}", "    return (%4)", "  block():"),
        *("    return (%1)", _MUL.format(6, 5, 2), _MUL.format(7, 6, "b"), "return (%7)"),
    ),
    "both sides of a branch": _graph(
        f"{_TWO}, %q : bool",
        *("%5 : Tensor = prim::If(%q)", "  block():"),
        *(f"    {_MUL.format(1, 'a', 'b')}", f"    {_TANH.format(2, 1)}", "    return (%2)", "  block():"),
        *(f"    {_TANH.format(3, 'b')}", f"    {_TANH.format(4, 3)}", "    return (%4)", "return (%5)"),
    ),
    "a branch in a branch": _graph(
        f"{_TWO}, %q : bool, %r : bool",
        *("%5 : Tensor = prim::If(%q)", "  block():", "    %6 : Tensor = prim::If(%r)", "      block():"),
        *(f"        {_MUL.format(1, 'a', 'b')}", f"        {_TANH.format(2, 1)}", "        return (%2)"),
        *("      block():", "        return (%a)", f"    {_TANH.format(7, 6)}", f"    {_TANH.format(8, 7)}"),
        *("    return (%8)", "  block():", "    return (%b)", "return (%5)"),
    ),
    "around a branch that is not used": _graph(
        f"{_TWO}, %q : bool",
        *(_MUL.format(1, "a", "b"), "%5 : Tensor = prim::If(%q)", "  block():"),
        *(f"    {_SORT.format(3, 'b')}", "    return (%3)", "  block():", "    return (%b)"),
        *(_TANH.format(2, 1), "return (%2, %5)"),
    ),
    "a loop": _graph(
        f"{_TWO}, %n : int, %yes : bool",
        *(_MUL.format(1, "a", "b"), _TANH.format(2, 1), "%5 : Tensor = prim::Loop(%n, %yes, %2)"),
        *("  block(%i : int, %s : Tensor):", f"    {_MUL.format(3, 's', 'b')}", f"    {_TANH.format(4, 3)}"),
        *("    return (%yes, %4)", _MUL.format(6, 5, "a"), _TANH.format(7, 6), "return (%7)"),
    ),
}
"""Written as ours; `torch_graphs.both` makes torch's of it."""
