"""Random programs that write in place, as Python runs them with torch and as they are compiled.

What torch runs is compiled and equal, or refused by name (E305, and what may be an argument, when it runs); nothing
else happens. `PYTHONPATH=tests/support python
tests/fuzz/in_place/test_in_place.py 0 20000` runs more of them and prints what became of them; `rebinds` behind the
numbers has blocks bind names anew to what shares memory, and `nested` has lists of lists (`nested_list_programs.py`),
with `given` of lengths that nobody knows. `grown` has lists that elements make longer (`grown_list_programs.py`). With
`optional` variables may be None, and with `arguments` what a program was given goes into its lists
(`optional_programs.py`, `optional_list_programs.py`).
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable

import gradscript as gs
import in_place_programs as programs
import pytest
from amounts import some
from beside_torch import compare_gradients, outcome, written
from gradscript.compiler.ir.node import walk

SEEDS = range(some(300))
REFUSED_AT_MOST = 0.05


@pytest.mark.parametrize("start", range(0, len(SEEDS), 50))
def test_a_program_that_writes_gives_what_torch_gives_or_is_refused_by_name(start: int) -> None:
    seeds = SEEDS[start : start + 50]
    found = outcomes(seeds)
    counted = found["equal"] + found["refused"]
    assert counted >= 0.6 * len(seeds)
    assert found["refused"] <= 2 * REFUSED_AT_MOST * counted


def outcomes(seeds: Iterable[int], *options: str) -> Counter[str]:
    """How often the programs of these seeds ended how."""
    found: Counter[str] = Counter()
    for seed in seeds:
        text = written(seed, options)
        try:
            found[outcome(text).partition(":")[0]] += 1
        except AssertionError as error:
            raise AssertionError(f"program {seed}:\n{text}\n{error}") from error
    return found


def test_what_blocks_bind_anew_and_share_is_written() -> None:
    found = outcomes(range(some(240)), "rebinds")
    assert found["refused"] <= 2 * REFUSED_AT_MOST * found["equal"]


def test_what_lists_of_lists_hold_is_moved_and_written() -> None:
    found = outcomes(range(some(120)), "nested")
    assert found["refused"] <= 2 * REFUSED_AT_MOST * found["equal"]


def test_what_lists_of_unknown_lengths_hold_is_moved_and_written() -> None:
    """What an index means is known only when it runs."""
    found = outcomes(range(some(160)), "nested", "given")
    assert found["refused"] <= REFUSED_AT_MOST * found["equal"]


def test_what_elements_make_longer_is_written() -> None:
    found = outcomes(range(some(160)), "grown")
    assert found["refused"] <= 2 * REFUSED_AT_MOST * found["equal"]


@pytest.mark.parametrize("options", [("optional",), ("optional", "nested")])
def test_what_may_be_none_is_written_where_it_is_there(options: tuple[str, ...]) -> None:
    found = outcomes(range(some(100)), *options)
    assert found["refused"] <= 3 * REFUSED_AT_MOST * found["equal"]


@pytest.mark.parametrize("options", [("arguments",), ("arguments", "nested")])
def test_arguments_in_lists_are_never_written(options: tuple[str, ...]) -> None:
    assert outcomes(range(some(80)), *options)["equal"] >= some(80) // 2


@pytest.mark.parametrize("write", ["v[0] = -1", "v += 1", "v.mul_(0.5)", "l[0] = v\n        l[0] += 1"])
def test_a_tensor_that_a_loop_may_have_bound_is_written(write: str) -> None:
    text = f"""
def f(x, w):
    a = x.clone()
    l = [w * 2, w * 3]
    v: Optional[Tensor] = None
    for _ in range({{rounds}}):
        v = {{bound}}
    if v is not None:
        {write}
    a.mul_(3)
    l[1].add_(a)
    return a, l
"""
    for rounds in range(3):
        for bound in ("a.positive()", "l[1]", "l[-1]"):
            assert outcome(text.format(rounds=rounds, bound=bound)) == "equal"


def test_a_list_that_holds_what_another_may_have_held_is_written() -> None:
    text = """
def either(p: List[Tensor], q: List[Tensor]):
    return p if len(p) > 1 else q


def f(x, w):
    a = x.clone()
    b = w * 2
    l = [a, b]
    n = [[a, b * 1], [x * 1, w * 3]]
    v = [n[1], l]
    o: Optional[List[Tensor]] = None
    for _ in range(2):
        o = either(n[-1], n[0])
    if o is not None and x.sum() > 0.0137:
        v[1] = o
        v[0][0], v[1][0] = v[1][0], v[0][0]
    return b, l, n
"""
    assert outcome(text) == "equal" or outcome(text).startswith("refused: ")


@pytest.mark.parametrize("move", ["o.insert(0, p)", "o.reverse()", "o[0], o[1] = o[1], o[0]", "o.pop(0)", "o[0] = p"])
def test_an_element_of_a_list_that_may_be_none_is_what_it_was_before_the_list_changed(move: str) -> None:
    text = f"""
def f(x, w):
    p = x * 3
    l = [x * 1, w * 7]
    k = [w * 1, x * 5]
    o: Optional[List[Tensor]] = None
    {{way}}
        o = {{bound}}
    if o is not None:
        e = o[0]
        {move}
        e += 1
        l[0].mul_(2)
    return l, k, p, o[0] if o is not None else p
"""
    for way in ("if x.sum() > 0.0137:", "for i in range(x.shape[0] - 1):"):
        for bound in ("l", "[w * 1, x * 5]", "k"):
            found = outcome(text.format(way=way, bound=bound))
            assert found == "equal" or found.startswith("refused: ")


def test_a_list_is_not_asked_for_an_element_that_it_holds_by_another_name() -> None:
    text = """
def either(p: List[Tensor], q: List[Tensor]):
    return p if len(p) > 1 else q


def f(x, w):
    a = x.clone()
    b = w * 2
    n = [[a, b * 1], [x * 1, w * 3]]
    l = n[0]
    o: Optional[List[List[Tensor]]] = None
    if o is not None:
        n = o
    l[0] = either(n[0], n[0])[0]
    n[-1] = n[-1]
    return n, a
"""
    assert outcome(text) == "equal" or outcome(text).startswith("refused: ")


def test_an_element_of_a_list_in_a_tuple_is_not_looked_for_where_the_list_has_moved_it() -> None:
    text = """
def program(x, w, given: List[List[Tensor]]):
    a = x.clone()
    b = w * 2
    n = [[e * 1 for e in held] for held in given]
    h = [([a, b], a), (n[1], x * 3)]
    {write}
    n.reverse()
    return h


def f(x, w):
    return program(x, w, [[x * 1, w * 2], [w * 1, x * 3]])
"""
    for write in ("pass", "n[-1][1].mul_(0.25)"):
        assert outcome(text.format(write=write)) == "equal"


def test_an_element_of_one_of_two_lists_is_what_it_was_before_the_list_changed() -> None:
    text = """
def f(x, w):
    a = x.clone()
    b = w * 2
    l = [a, b]
    n = [[torch.tanh(b), b * 1], l]
    if len(n) > 2:
        l[1] = a * 0.5
    else:
        n = n[::-1]
    n[0][0], n[1][1] = n[1][1], n[0][0]
    return b, a, n
"""
    assert outcome(text) in ("equal", "refused: an item assignment may write into …, which is read afterwards")


def test_a_list_that_grew_is_read_from_the_list_around_it() -> None:
    text = """
def f(x, w):
    a = x.clone()
    n = [[a, w * 2], [x * 1, w * 3]]
    if a.sum() > 0.0137:
        n[0].extend([n[1][0]])
    n[0], n[1] = n[1], n[0]
    n[1].insert(0, n[1][1])
    return n
"""
    assert outcome(text) == "equal"


@pytest.mark.parametrize(
    "collected",
    [
        "v = [h for h in n]",
        "v = [n[i] for i in range(x.shape[0] - 1)]",
        "v = [n[1]]\n    for h in n:\n        v.append(h)",
        "v = [n[1]]\n    for h in n:\n        v.insert(0, h)",
        "v = [n[1], n[1], n[1]]\n    for i in range(x.shape[0] - 1):\n        v[i] = n[i]",
        "v = [n[1]]\n    for h in n:\n        v += [h]",
    ],
)
@pytest.mark.parametrize(
    "write", ["n[0][0] = b", "n[0].append(b)", "m = n[0]\n    m[0] = b", "v[0][0] = b", "v[1] += [b]"]
)
def test_a_list_that_a_loop_put_into_another_is_one_with_it(collected: str, write: str) -> None:
    text = f"""
def f(x, w):
    a = x * 2
    b = w * 2
    n = [[a, b], [x * 1, w * 3]]
    {collected}
    {write}
    return n, v
"""
    found = outcome(text)
    # How many rounds a loop over sizes runs is not known.
    assert found == "equal" or ("shape" in collected and found.startswith("refused: "))


def test_what_may_be_its_argument_is_not_written_into_unseen() -> None:
    """The product of a single tensor is that tensor."""
    with pytest.raises(gs.CompileError, match="may write into 'y'"):
        gs.CompilationUnit("def f(x):\n    y = x.clone()\n    z = torch.cartesian_prod(y)\n    z += 1\n    return y\n")


HEADS = (
    "while x.sum() > 0.0137:",
    "if x.sum() < 0.0137:",
    "if w.sum() > 0.0137:",
    "for i in range(len(x)):",
    "for r in x:",
)
LISTS = (
    "[u, u]",
    "[u] * 2",
    "[u, u[0:]]",
    "[u, u.t()]",
    "[u * 1, u]",
    "[v, u]",
    "both(u, u)",
    "[l[1], l[1]]",
    "[l[1], l[0]]",
)
TUPLES = ("(u, u)", "(u, u[:])", "(l[1], l[1])", "(l[1], l[0])")
WRITES = (
    "l[0].mul_(2)",
    "l[0][...] = -1",
    "l[1].add_(1)",
    "v.add_(3)",
    "p, q = l\n    p += 1",
    "for e in l[:1]:\n        e += 1",
)


@pytest.mark.parametrize("head", HEADS)
def test_what_a_block_binds_may_hold_one_object_twice(head: str) -> None:
    """Lists and tuples that a branch or a loop binds anew, in whose elements one is written and another read."""
    found: Counter[str] = Counter()
    displays = [(before, held) for before in ("[w * 2, w * 3]", "[v, v]") for held in LISTS]
    displays += [(before, held) for before in ("(w * 2, w * 3)", "(v, v)") for held in TUPLES]
    for k, (before, held) in enumerate(displays):
        for j in range(2):
            write = WRITES[(2 * k + j) % len(WRITES)]
            made = ("w * 3", "v * 1", "v", "v[0:]")[(k + j) % 4]
            text = f"""
def both(a, b):
    return [a, b]


def f(x, w):
    v = w * 2
    l = {before}
    {head}
        u = {made}
        l = {held}
        {"break" if head.startswith("while") else "pass"}
    {write}
    return l[1], v, l[0]
"""
            found[outcome(text).partition(":")[0]] += 1
    assert found["equal"] >= 8


FRESH = """
def f(x, w):
    made: List[Tensor] = []
    for i in range(len(x)):
        made.append(x[i] * i)
    copies = [e * 1 for e in made]
    {write}
    return made, copies
"""


@pytest.mark.parametrize(
    "write",
    ["copies[0] += 1", "for c in copies:\n        c += 1", "for c, m in zip(copies, made):\n        c.sub_(0.1 * m)"],
)
def test_what_a_comprehension_makes_anew_is_written(write: str) -> None:
    assert outcome(FRESH.format(write=write)) == "equal"


def test_what_may_be_a_view_of_what_one_side_made_is_known_to_be() -> None:
    text = """
def f(x, w):
    a = x.clone()
    b = w * 2
    if x.sum() > 0.0137:
        b = torch.tanh(a)
        a = b[0:].double()
    b[2] = 0.25
    return b, a
"""
    assert outcome(text) == "equal"


REBOUND = """
def f(x, w):
    a = x.clone()
    b = w * 2
    if {condition}:
        b = {made}
        a = b.t()
    {write}
    return a, b
"""


@pytest.mark.parametrize("condition", ["w.mean() > 1.0137", "w.mean() < 1.0137"])
@pytest.mark.parametrize("made", ["w * 3", "a.clone()", "a", "b"])
@pytest.mark.parametrize("write", ["a.zero_()", "a += 1", "a.t().mul_(2)", "b[0] = 1.0", "a[1:] = b[1:]"])
def test_a_view_of_what_one_side_of_a_branch_made_is_written(condition: str, made: str, write: str) -> None:
    assert outcome(REBOUND.format(condition=condition, made=made, write=write)) == "equal"


BOUND = """
    if x.sum() > {k}.0137:
        l = [a, b * {k}]
    else:
        m = l
    l.append(b)
    l[0].mul_(0.5)
    m[-1] = a * 2"""


def branches(count: int) -> str:
    """A list that one side of every one of so many branches binds anew, and that then grows."""
    blocks = "".join(BOUND.format(k=k) for k in range(count))
    return f"def f(x, w):\n    a = x * 2\n    b = w * 2\n    l = [a]\n    m = [b, a]{blocks}\n    return a, b, l, m\n"


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_what_one_side_of_a_branch_binds_grows_afterwards(count: int) -> None:
    assert outcome(branches(count)) == "equal"


def test_where_too_many_ways_lead_through_a_function_its_objects_are_numbered() -> None:
    assert outcome(branches(20)) == "equal"


@pytest.mark.parametrize("put", ["l.append(p)", "l.insert(0, p)", "l[-1] = p"])
@pytest.mark.parametrize("write", ["k[0].mul_(2)", "k.append(p)", "l[0].add_(1)", "for e in k:\n        e.mul_(2)"])
def test_a_list_that_may_be_none_is_written(put: str, write: str) -> None:
    text = f"""
def f(x, w):
    p = x * 3
    l = [x * 1]
    k = [w * 1, x * 5]
    o: Optional[List[Tensor]] = None
    if x.sum() > 0.0137:
        o = k
    if o is not None:
        l = o
    {put}
    {write}
    return l, k, p
"""
    # What only some ways give an element's place to is refused by name.
    assert outcome(text) == "equal" or outcome(text).startswith("refused: ")


@pytest.mark.parametrize("put", ["l.append(p)", "l.insert(0, p)", "l[0] = p", "l += [p]", "l.extend([p, p])"])
@pytest.mark.parametrize(
    "write", ["l[0].add_(1)", "l[-1].add_(1)", "p.add_(1)", "m[0].mul_(2)", "k = l[0]\n    k += 1"]
)
def test_what_went_into_one_of_two_lists_is_written(put: str, write: str) -> None:
    text = f"""
def f(x, w):
    p = {{made}}
    l = [x * 1]
    m = [w * 1]
    if x.sum() > 0.0137:
        l = m
    {put}
    {write}
    return l, m, p
"""
    assert outcome(text.format(made="x * 3")) == "equal"
    # An argument is refused wherever it may be what is written into.
    assert outcome(text.format(made="x")) == "equal" or "argument" in outcome(text.format(made="x"))


def test_what_went_from_one_of_two_lists_of_tuples_into_a_list_that_it_holds_is_written() -> None:
    text = """
def f(x, w):
    a = x.clone()
    l = [w * 2]
    h = [(l, a, 1), ([x * 3], x * 5, 2)]
    if w.sum() > 0.0137:
        h = [(held, c * 0.5, 7) for held, c, n in h]
    l.extend([h[1][1]])
    h[0][1][0] = 2
    h[0][0][0].mul_(3)
    a[1] = 0.5 * h[0][2]
    return l, a, h[0][1]
"""
    assert outcome(text) == "equal"
    assert compare_gradients(text)


NONE_OR_LIST = {
    "o: Optional[List[Tensor]] = l": "",
    "o: Optional[List[Tensor]] = None\n    if {above}:\n        o = l": "",
    "o: Optional[List[Tensor]] = l\n    if {above}:\n        o = None": "",
    "o: Optional[List[Tensor]] = None\n    for i in range(3):\n        if {above} and i == 1:\n            o = l": "",
    "o = given(l, {above})": """
def given(l: List[Tensor], above: bool) -> Optional[List[Tensor]]:
    if above:
        return None
    return l
""",
}
WRITES_IF_THERE = (
    "if o:\n        o[0], o[-1] = o[-1], o[0]",
    "if o is not None:\n        o[0] += 1\n        o.append(x)",
    "if o is not None and len(o) > 1:\n        o[1].mul_(2)\n        o[0] = b * 3",
    "for i in range(2):\n        if o is not None:\n            o[i] += i",
)


@pytest.mark.parametrize("bind", NONE_OR_LIST)
@pytest.mark.parametrize("write", WRITES_IF_THERE)
def test_a_list_that_may_be_none_is_written_where_it_is_there(bind: str, write: str) -> None:
    for above in ("bool(x.sum() > 0.0137)", "bool(x.sum() < 0.0137)"):
        text = f"""{NONE_OR_LIST[bind]}
def f(x, w):
    a = x * 2
    b = w * 2
    l = [a, b]
    {bind.format(above=above)}
    {write}
    return l, a, b
"""
        assert outcome(text) == "equal"
        assert compare_gradients(text)


BINDS = (
    "if x.sum() > 0.0137:\n        l = n[0]",
    "if x.sum() < 0.0137:\n        l = n[0]",
    "l = n[1] if w.sum() > 0.0137 else l",
    "for i in range(3):\n        if n[i % 2][0].sum() > 0.0137:\n            l = n[i % 2]",
    "for h in n:\n        if h[0].sum() > 0.0137:\n            l = h\n            break",
    "if x.sum() > 0.0137:\n        n = n[::-1]\n    l = n[0]",
    "l = chosen(n, x)",
    "if x.sum() > 0.0137:\n        n.append(l)\n    l = n[-1]",
    "n = [h for h in n if h[0].sum() > 0.0137]\n    n.append(l)\n    l = n[0]",
)
GROWS = ("l.append(b)", "l[0] = b", "l += n[0]", "l.pop(0)", "del l[0]", "l[0].add_(1)\n    l.insert(1, a)")


@pytest.mark.parametrize("bind", BINDS)
def test_which_list_a_name_stands_for_is_known_on_each_way(bind: str) -> None:
    """Every list of those that it may be is read afterwards, and gradients flow through them."""
    for grow in GROWS:
        text = f"""
def chosen(lists: List[List[Tensor]], x):
    if x.sum() > 0.0137:
        return lists[0]
    return lists[1]


def f(x, w):
    a = x * 2
    b = w * 2
    l = [x * 3, w * 3]
    k = l
    n = [[a, b], [x * 1, w * 4]]
    m = [h for h in n]
    {bind}
    {grow}
    total = a * 0
    for h in [k, l, m[0], m[1], n[0]]:
        for e in h:
            total = total * 0.5 + e * e
    return total
"""
        assert outcome(text) == "equal"
        assert compare_gradients(text)


@pytest.mark.parametrize("seed", range(6))
def test_chains_of_views_and_writes(seed: int) -> None:
    assert outcome(programs.chain(seed, 30)) == "equal"
    assert compare_gradients(programs.chain(seed, 20))


def test_chains_of_views_and_writes_stay_as_long_as_they_are() -> None:
    def size(length: int) -> int:
        return sum(1 for _ in walk(gs.CompilationUnit(programs.chain(1, length)).f.graph.body.nodes))

    assert size(120) < 2.5 * size(60)


def main(start: int, stop: int, *options: str) -> None:
    found: Counter[str] = Counter()
    for seed in range(start, stop):
        text = written(seed, options)
        try:
            found[outcome(text)] += 1
        except Exception as error:
            found["DIFFERENT"] += 1
            print(f"program {seed} differs: {type(error).__name__} {error}\n{text}")
    for name, count in found.most_common():
        print(f"{count:7d}  {name}")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
