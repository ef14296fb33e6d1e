"""Random programs over lists of lists and lists of tuples: elements moved between them, and written into through views.

As in `in_place_programs.py`, the text of a program means the same to Python with torch and to the compiler. How long a
list is depends on which lists are one, so that some programs end in an IndexError: those do not count.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

TENSOR, ROW, LIST, NESTED, PAIRS = "tensor", "row", "list", "nested", "pairs"
"""What a variable is: a square matrix, a row, a list of matrices, a list of such lists, a list of pairs of matrices."""

HELPERS = """
def second(held: List[List[Tensor]]):
    return held[-1]


def wrapped(a, b):
    return [[a, b], [b * 1]]


def heads(lists: List[List[Tensor]]):
    return [held[0] for held in lists]

"""


@dataclass
class Program:
    """Text in the making, and what its variables are."""

    rng: random.Random
    lines: list[str] = field(default_factory=list)
    kinds: dict[str, str] = field(default_factory=dict)
    indent: int = 1
    made: int = 0
    budget: int = 24
    walked: set[str] = field(default_factory=set)
    """Variables that a loop runs over: nothing grows or shrinks inside."""

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def of(self, kind: str) -> str:
        return self.rng.choice([name for name, found in self.kinds.items() if found == kind])

    def bind(self, text: str, kind: str) -> None:
        """A new name, or one of the same kind bound anew."""
        if self.rng.random() < 0.35:
            name = self.of(kind)
        else:
            self.made += 1
            name = f"v{self.made}"
        if name not in self.walked:
            self.line(f"{name} = {text}")
            self.kinds[name] = kind

    def any_of(self, *texts: str) -> str:
        return self.rng.choice(texts)


def program(seed: int) -> str:
    """The text of the program of a seed; its function is `f(x, w)`, of two square matrices."""
    p = Program(random.Random(seed))
    for text in ("a = x.clone()", "b = w * 2", "r = a[0]", "l = [a, b]", "n = [[a, b * 1], [x * 1, w * 3]]"):
        p.line(text)
    p.line("t = [(a, b), (x * 2, w * 0.5)]")
    p.kinds.update(a=TENSOR, b=TENSOR, r=ROW, l=LIST, n=NESTED, t=PAIRS)
    for _ in range(p.rng.randint(4, 12)):
        _statement(p)
    names = p.rng.sample(list(p.kinds), min(len(p.kinds), p.rng.randint(2, 4)))
    results = [f"{name}[0]" if p.kinds[name] == PAIRS and p.rng.random() < 0.5 else name for name in names]
    return HELPERS + "\ndef f(x, w):\n" + "\n".join(p.lines) + f"\n    return {', '.join(results)}\n"


def _statement(p: Program) -> None:
    p.budget -= 1
    if p.budget < 0:
        return
    choices = [(f, weight) for f, weight in _STATEMENTS if p.indent < 4 or f not in _BLOCKS]
    p.rng.choices([f for f, _ in choices], [weight for _, weight in choices])[0](p)


def _number(p: Program) -> str:
    return p.any_of("0.5", "2", "1", "-1", "0.25", "3")


def _i(p: Program) -> str:
    return p.any_of("0", "0", "1", "-1")


def _list_text(p: Program) -> str:
    """A list that there is."""
    return p.any_of(p.of(LIST), f"{p.of(NESTED)}[{_i(p)}]", f"second({p.of(NESTED)})")


def _tensor_text(p: Program) -> str:
    """A tensor that there is."""
    return p.any_of(
        p.of(TENSOR),
        f"{_list_text(p)}[{_i(p)}]",
        f"{p.of(PAIRS)}[{_i(p)}][{p.any_of('0', '1')}]",
        f"{p.of(TENSOR)}.t()",
    )


def _fresh_text(p: Program) -> str:
    return p.any_of(f"{_tensor_text(p)} * 0.5", f"torch.tanh({p.of(TENSOR)})", f"{p.of(TENSOR)} + {_tensor_text(p)}")


def _item_text(p: Program) -> str:
    return _tensor_text(p) if p.rng.random() < 0.6 else _fresh_text(p)


def _condition(p: Program) -> str:
    """No threshold is a number that sums and products of the others meet."""
    return p.any_of(
        f"{p.of(TENSOR)}.sum() > 0.0137",
        f"{p.of(TENSOR)}.mean() < 1.0137",
        f"{_tensor_text(p)}.sum() > 0.0137",
        "x.sum() > 0.0137",
        "w.sum() > 0.0137",
        f"len({p.of(NESTED)}) > 2",
        f"len({_list_text(p)}) > 1",
    )


def _write(p: Program) -> None:
    target = p.any_of(_tensor_text(p), f"{_tensor_text(p)}[{_i(p)}]", p.of(ROW), f"{_tensor_text(p)}[:, 0]")
    texts = [f"{target}.mul_({_number(p)})", f"{target}.add_({_number(p)})", f"{target}.fill_({_number(p)})"]
    # An element of a tuple is no target.
    if not target.endswith(")") and not _is_element_of_pair(p, target):
        texts += [f"{target} += {_number(p)}", f"{target} *= 0.5"]
    if target.endswith("]"):
        texts.append(f"{target}[...] = {_number(p)}")
    p.line(p.rng.choice(texts))


def _is_element_of_pair(p: Program, target: str) -> bool:
    return target.count("[") == 2 and p.kinds.get(target.partition("[")[0]) == PAIRS


def _bind_tensor(p: Program) -> None:
    if p.rng.random() < 0.3:
        p.bind(f"{_tensor_text(p)}[{_i(p)}]", ROW)
    else:
        p.bind(_item_text(p), TENSOR)


def _bind_list(p: Program) -> None:
    p.bind(
        p.any_of(
            _list_text(p),
            f"[{_item_text(p)}, {_item_text(p)}]",
            f"list({_list_text(p)})",
            f"{_list_text(p)} + {_list_text(p)}",
            f"{_list_text(p)}[:2]",
            f"[e * 1 for e in {_list_text(p)}]",
            f"[e for e in {_list_text(p)}]",
            f"[held[0] for held in {p.of(NESTED)}]",
            f"heads({p.of(NESTED)})",
            f"[{_tensor_text(p)}] * 2",
            f"[q for p, q in {p.of(PAIRS)}]",
        ),
        LIST,
    )


def _bind_nested(p: Program) -> None:
    p.bind(
        p.any_of(
            p.of(NESTED),
            f"[{_list_text(p)}, {_list_text(p)}]",
            f"[[{_item_text(p)}, {_item_text(p)}], {_list_text(p)}]",
            f"[list(held) for held in {p.of(NESTED)}]",
            f"[held for held in {p.of(NESTED)}]",
            f"[[e * 1 for e in held] for held in {p.of(NESTED)}]",
            f"{p.of(NESTED)} + [{_list_text(p)}]",
            f"{p.of(NESTED)}[::-1]",
            f"wrapped({_tensor_text(p)}, {_tensor_text(p)})",
        ),
        NESTED,
    )


def _bind_pairs(p: Program) -> None:
    p.bind(
        p.any_of(
            p.of(PAIRS),
            f"[({_item_text(p)}, {_item_text(p)}), ({_item_text(p)}, {_item_text(p)})]",
            f"[(q, p) for p, q in {p.of(PAIRS)}]",
            f"[(e, e * 1) for e in {_list_text(p)}]",
        ),
        PAIRS,
    )


def _store(p: Program) -> None:
    """Elements of lists replaced and swapped."""
    one, other = p.of(NESTED), _list_text(p)
    if other.startswith("second"):
        other = p.of(LIST)
    i, j = _i(p), _i(p)
    p.line(
        p.any_of(
            f"{other}[{i}] = {_item_text(p)}",
            f"{one}[{i}][{j}] = {_item_text(p)}",
            f"{one}[{i}] = {_list_text(p)}",
            f"{one}[{i}] = [{_item_text(p)}, {_item_text(p)}]",
            f"{one}[0], {one}[1] = {one}[1], {one}[0]",
            f"{other}[0], {other}[-1] = {other}[-1], {other}[0]",
            f"{one}[0][{i}], {one}[1][{j}] = {one}[1][{j}], {one}[0][{i}]",
            f"{p.of(PAIRS)}[{i}] = ({_item_text(p)}, {_item_text(p)})",
        )
    )


def _resize(p: Program) -> None:
    """Lists grow and shrink; none inside a loop over one, which might never end."""
    if p.walked:
        return
    one, held = p.of(NESTED), p.any_of(p.of(LIST), f"{p.of(NESTED)}[{_i(p)}]")
    text = p.any_of(
        f"{held}.append({_item_text(p)})",
        f"{held}.insert(0, {_item_text(p)})",
        f"{held} += [{_item_text(p)}]",
        f"{held}.extend([{_item_text(p)}])",
        f"{held}.reverse()",
        f"{one}.append({_list_text(p)})",
        f"{one}.insert(0, [{_item_text(p)}, {_item_text(p)}])",
        f"{one}.reverse()",
        f"{p.of(PAIRS)}.append(({_item_text(p)}, {_item_text(p)}))",
        "pop",
        "pop",
    )
    if text != "pop":
        p.line(text)
    elif p.rng.random() < 0.7:
        p.bind(f"{held}.pop({p.any_of('', '0')})", TENSOR)
    else:
        p.bind(f"{one}.pop({p.any_of('', '0')})", LIST)


def _body(p: Program, bound: dict[str, str], walked: str = "") -> None:
    """Statements one level deeper; what they bind first is gone afterwards."""
    kinds, before, held = dict(p.kinds), len(p.lines), set(p.walked)
    p.kinds.update(bound)
    p.walked |= {walked} - {""}
    p.indent += 1
    for _ in range(p.rng.randint(1, 3)):
        _statement(p)
    if len(p.lines) == before:
        p.line("pass")
    p.indent -= 1
    p.kinds, p.walked = kinds, held


def _if(p: Program) -> None:
    p.line(f"if {_condition(p)}:")
    _body(p, {})
    if p.rng.random() < 0.5:
        p.line("else:")
        _body(p, {})


def _for(p: Program) -> None:
    p.made += 1
    name = f"e{p.made}"
    nested, held, pairs = p.of(NESTED), _list_text(p), p.of(PAIRS)
    match p.rng.randint(0, 6):
        case 0:
            p.line(f"for {name} in {nested}:")
            _body(p, {name: LIST}, nested)
        case 1:
            p.line(f"for {name} in {held}:")
            _body(p, {name: TENSOR}, held)
        case 2:
            p.line(f"for {name}, {name}b in {pairs}:")
            _body(p, {name: TENSOR, f"{name}b": TENSOR}, pairs)
        case 3:
            p.line(f"for {name}, {name}b in zip({nested}, {held}):")
            _body(p, {name: LIST, f"{name}b": TENSOR}, nested)
        case 4:
            p.line(f"for {name} in range({p.rng.randint(0, 3)}):")
            _body(p, {})
        case 5:
            p.line(f"for {name} in range(len({nested})):")
            p.indent += 1
            p.line(f"{nested}[{name}][0] {p.any_of('+=', '*=', '=')} {p.any_of('a', 'b')} * 0.5")
            p.indent -= 1
            _body(p, {}, nested)
        case _:
            p.line(f"for {name} in {p.of(TENSOR)}:")
            _body(p, {name: ROW}, "a tensor")


def _while(p: Program) -> None:
    p.made += 1
    name = f"k{p.made}"
    p.line(f"{name} = 0")
    p.line(f"while {name} < {p.rng.randint(1, 3)}:")
    p.indent += 1
    p.line(f"{name} += 1")
    p.indent -= 1
    _body(p, {})


_STATEMENTS: list[tuple[Callable[[Program], None], int]] = [
    (_write, 9),
    (_bind_tensor, 4),
    (_bind_list, 4),
    (_bind_nested, 3),
    (_bind_pairs, 1),
    (_store, 5),
    (_resize, 4),
    (_if, 3),
    (_for, 3),
    (_while, 1),
]
_BLOCKS = (_if, _for, _while)
