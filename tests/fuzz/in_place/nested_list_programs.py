"""Random programs over lists of lists and tuples: elements moved between them, and written into through views.

As in `in_place_programs.py`, the text of a program means the same to Python with torch and to the compiler. How long a
list is depends on which lists are one, so that some programs end in an IndexError: those do not count.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from nested_list_texts import (
    DEEP,
    DUO,
    HELD,
    HELPERS,
    LIST,
    NESTED,
    PAIRS,
    ROW,
    TENSOR,
    Program,
    Statements,
    condition,
    index,
    item_text,
    list_name,
    list_text,
    nested_text,
    number,
    tensor_text,
)

KNOWN = (
    *("l = [a, b]", "n = [[a, b * 1], [x * 1, w * 3]]", "t = [(a, b), (x * 2, w * 0.5)]"),
    *("h = [(l, a), (n[1], x * 3)]", "q = (l, n[0])", "d = [n, [l, [b]]]"),
)
GIVEN = (
    ("l = [a, b]", "l = [e * 1 for e in given[0]]", "l = [e for e in [a, b] if e.sum() > 0.0137]"),
    ("n = [[e * 1 for e in held] for held in given]",),
    ("t = [(a, b), (x * 2, w * 0.5)]", "t = [(e, e * 1) for e in l]"),
    ("h = [(l, a), (n[1], x * 3)]", "h = [(held, held[0]) for held in n]", "h = [(held, w * 2) for held in n]"),
    ("q = (l, n[0])", "q = ends(n)"),
    ("d = [n, [l, [b]]]", "d = [[held] for held in n]", "d = [n for held in n]", "d = [n]"),
)
"""The variables at the start: lists whose elements are known, and, one of each row, lists of unknown lengths."""
CALL = "\n\ndef f(x, w):\n    return program(x, w, [[x * 1, w * 2], [w * 1, x * 3]])\n"


def program(seed: int, *, given: bool = False, more: Statements = (), arguments: bool = False) -> str:
    """The text of the program of a seed; its function is `f(x, w)`, of two square matrices.

    With `given` it calls one whose lists are made of such as it is given, which nobody knows the lengths of. With
    `more` those statements are among the others; with `arguments` it has lists as parameters too.
    """
    p = Program(random.Random(seed), more=tuple(more))
    p.lines += ["    a = x.clone()", "    b = w * 2", "    r = a[0]"]
    for text in map(p.rng.choice, GIVEN) if given else KNOWN:
        p.line(text)
    p.kinds.update(a=TENSOR, b=TENSOR, r=ROW, l=LIST, n=NESTED, t=PAIRS, h=HELD, q=DUO, d=DEEP)
    for _ in range(p.rng.randint(4, 12)):
        statement(p)
    names = p.rng.sample(list(p.kinds), min(len(p.kinds), p.rng.randint(2, 4)))
    results = [f"{name}[0]" if p.kinds[name] in (PAIRS, HELD) and p.rng.random() < 0.5 else name for name in names]
    body = "\n".join(p.lines) + f"\n    return {', '.join(results)}\n"
    if not given:
        parameters = "x, w, k: List[Tensor], m: List[List[Tensor]]" if arguments else "x, w"
        return f"{HELPERS}\ndef f({parameters}):\n{body}"
    return f"{HELPERS}\ndef program(x, w, given: List[List[Tensor]]):\n{body}{CALL}"


def statement(p: Program) -> None:
    p.budget -= 1
    if p.budget < 0:
        return
    choices = [(f, weight) for f, weight in (*_STATEMENTS, *p.more) if p.indent < 4 or f not in _BLOCKS]
    p.rng.choices([f for f, _ in choices], [weight for _, weight in choices])[0](p)


def _write(p: Program) -> None:
    target = p.any_of(tensor_text(p), f"{tensor_text(p)}[{index(p)}]", p.of(ROW), f"{tensor_text(p)}[:, 0]")
    texts = [f"{target}.mul_({number(p)})", f"{target}.add_({number(p)})", f"{target}.fill_({number(p)})"]
    # An element of a tuple is no target.
    if not target.endswith(")") and not _is_element_of_pair(p, target):
        texts += [f"{target} += {number(p)}", f"{target} *= 0.5"]
    if target.endswith("]"):
        texts.append(f"{target}[...] = {number(p)}")
    p.line(p.rng.choice(texts))


def _is_element_of_pair(p: Program, target: str) -> bool:
    return target.count("[") == 2 and p.kinds.get(target.partition("[")[0]) in (PAIRS, HELD)


def _bind_tensor(p: Program) -> None:
    if p.rng.random() < 0.3:
        p.bind(f"{tensor_text(p)}[{index(p)}]", ROW)
    else:
        p.bind(item_text(p), TENSOR)


def _bind_list(p: Program) -> None:
    p.bind(
        p.any_of(
            list_text(p),
            f"[{item_text(p)}, {item_text(p)}]",
            f"list({list_text(p)})",
            f"{list_text(p)} + {list_text(p)}",
            f"{list_text(p)}[:2]",
            f"[e * 1 for e in {list_text(p)}]",
            f"[e for e in {list_text(p)}]",
            f"[held[0] for held in {p.of(NESTED)}]",
            f"heads({p.of(NESTED)})",
            f"[{tensor_text(p)}] * 2",
            f"[q for p, q in {p.of(PAIRS)}]",
            f"{list_name(p)} if {condition(p)} else {list_text(p)}",
            f"grown({list_text(p)}, {item_text(p)})",
            f"{list_text(p)}[{p.any_of('1:', ':-1', '::-1', ':')}]",
            f"2 * {list_text(p)}",
            f"{list_text(p)}.copy()",
            f"[{p.of(NESTED)}[i][0] for i in range(len({p.of(NESTED)}))]",
            f"[c for held, c in {p.of(HELD)}]",
            f"[e for e in {list_text(p)} if e.sum() > 0.0137]",
            f"[e + g for e, g in zip({list_text(p)}, {list_text(p)})]",
            f"[e if i > 0 else e * 2 for i, e in enumerate({list_text(p)})]",
        ),
        LIST,
    )


def _bind_nested(p: Program) -> None:
    p.bind(
        p.any_of(
            p.of(NESTED),
            f"[{list_text(p)}, {list_text(p)}]",
            f"[[{item_text(p)}, {item_text(p)}], {list_text(p)}]",
            f"[list(held) for held in {p.of(NESTED)}]",
            f"[held for held in {p.of(NESTED)}]",
            f"[[e * 1 for e in held] for held in {p.of(NESTED)}]",
            f"{p.of(NESTED)} + [{list_text(p)}]",
            f"{p.of(NESTED)}[::-1]",
            f"wrapped({tensor_text(p)}, {tensor_text(p)})",
            f"{nested_text(p)}",
            f"{nested_text(p)}[{p.any_of('1:', ':1', ':')}]",
            f"{p.any_of(p.of(NESTED), f'[{list_text(p)}]')} * 2",
            f"{p.of(NESTED)} + {nested_text(p)}",
            f"turned({nested_text(p)})",
            f"list({nested_text(p)})",
            f"[{p.of(NESTED)}[i] for i in range(len({p.of(NESTED)}))]",
            f"[held for held in {nested_text(p)} if len(held) > 1]",
            f"[held for held in {nested_text(p)} if held[0].sum() > 0.0137]",
            f"[held + [{item_text(p)}] for held in {nested_text(p)}]",
            f"[held for held, c in {p.of(HELD)}]",
            f"[{list_name(p)} for e in {list_text(p)}]",
            f"[either(held, {list_name(p)}) for held in {nested_text(p)}]",
            f"[held if i > 0 else g for i, (held, g) in enumerate(zip({p.of(NESTED)}, {p.of(NESTED)}[::-1]))]",
            f"{p.of(NESTED)} if {condition(p)} else {nested_text(p)}",
        ),
        NESTED,
    )


def _bind_pairs(p: Program) -> None:
    p.bind(
        p.any_of(
            p.of(PAIRS),
            f"[({item_text(p)}, {item_text(p)}), ({item_text(p)}, {item_text(p)})]",
            f"[(q, p) for p, q in {p.of(PAIRS)}]",
            f"[(e, e * 1) for e in {list_text(p)}]",
        ),
        PAIRS,
    )


def _bind_others(p: Program) -> None:
    """Lists in tuples, and lists one deeper."""
    match p.rng.randint(0, 4):
        case 0:
            p.bind(p.any_of(f"({list_text(p)}, {list_text(p)})", f"ends({nested_text(p)})", p.of(DUO)), DUO)
        case 1:
            text = p.any_of(
                f"[({list_text(p)}, {item_text(p)}), ({list_text(p)}, {item_text(p)})]",
                f"[(held, held[0]) for held in {nested_text(p)}]",
                f"[(e, c) for e, c in zip({nested_text(p)}, {list_text(p)})]",
                f"{p.of(HELD)}[::-1]",
                f"[(held, c * 0.5) for held, c in {p.of(HELD)}]",
            )
            p.bind(text, HELD)
        case 2:
            text = p.any_of(
                f"[{nested_text(p)}, {nested_text(p)}]",
                f"[m for m in {p.of(DEEP)}]",
                f"[[{list_text(p)}], {nested_text(p)}]",
                f"[list(m) for m in {p.of(DEEP)}]",
                f"{p.of(DEEP)}[::-1]",
            )
            p.bind(text, DEEP)
        case 3:
            p.made += 2
            one, other = f"v{p.made - 1}", f"v{p.made}"
            p.line(f"{one}, {other} = {p.any_of(p.of(DUO), f'ends({nested_text(p)})')}")
            p.kinds.update({one: LIST, other: LIST})
        case _:
            p.made += 2
            one, other = f"v{p.made - 1}", f"v{p.made}"
            p.line(f"{one}, {other} = {p.of(HELD)}[{index(p)}]")
            p.kinds.update({one: LIST, other: TENSOR})


def _store(p: Program) -> None:
    """Elements of lists replaced and swapped."""
    one, other = nested_text(p), list_name(p)
    i, j = index(p), index(p)
    p.line(
        p.any_of(
            f"{other}[{i}] = {item_text(p)}",
            f"{one}[{i}][{j}] = {item_text(p)}",
            f"{one}[{i}] = {list_text(p)}",
            f"{one}[{i}] = [{item_text(p)}, {item_text(p)}]",
            f"{one}[0], {one}[1] = {one}[1], {one}[0]",
            f"{other}[0], {other}[-1] = {other}[-1], {other}[0]",
            f"{one}[0][{i}], {one}[1][{j}] = {one}[1][{j}], {one}[0][{i}]",
            f"{p.of(PAIRS)}[{i}] = ({item_text(p)}, {item_text(p)})",
            f"{p.of(HELD)}[{i}][0][{j}] = {item_text(p)}",
            f"{p.of(HELD)}[{i}] = ({list_text(p)}, {item_text(p)})",
            f"{p.of(DUO)}[{p.any_of('0', '1')}][{j}] = {item_text(p)}",
            f"{p.of(DEEP)}[{i}][{j}] = {list_text(p)}",
            f"{p.of(DEEP)}[{i}][{j}][0] = {item_text(p)}",
            f"{p.of(DEEP)}[{i}] = {nested_text(p)}",
        )
    )


def _resize(p: Program) -> None:
    """Lists grow and shrink; none inside a loop over one, which might never end."""
    if p.walked:
        return
    one, held = nested_text(p), list_name(p)
    text = p.any_of(
        f"{held}.append({item_text(p)})",
        f"{list_text(p)}.append({item_text(p)})",
        f"del {held}[{p.any_of('0', '-1')}]",
        f"{held}.clear()" if p.rng.random() < 0.2 else f"{held}.insert(1, {item_text(p)})",
        f"del {one}[{p.any_of('0', '-1')}]",
        f"{one}.extend({nested_text(p)})",
        f"{one} += [{list_text(p)}]",
        f"{p.of(DEEP)}.append({p.any_of(nested_text(p), f'[{list_text(p)}]')})",
        f"{p.of(HELD)}.append(({list_text(p)}, {item_text(p)}))",
        f"{held}.insert(0, {item_text(p)})",
        f"{held} += [{item_text(p)}]",
        f"{held}.extend([{item_text(p)}])",
        f"{held}.reverse()",
        f"{one}.append({list_text(p)})",
        f"{one}.insert(0, [{item_text(p)}, {item_text(p)}])",
        f"{one}.reverse()",
        f"{p.of(PAIRS)}.append(({item_text(p)}, {item_text(p)}))",
        "pop",
        "pop",
    )
    if text != "pop":
        p.line(text)
    elif p.rng.random() < 0.7:
        p.bind(f"{held}.pop({p.any_of('', '0')})", TENSOR)
    else:
        p.bind(f"{one}.pop({p.any_of('', '0')})", LIST)


def body(p: Program, bound: dict[str, str], walked: str = "") -> None:
    """Statements one level deeper; what they bind first is gone afterwards."""
    kinds, before, held = dict(p.kinds), len(p.lines), set(p.walked)
    p.kinds.update(bound)
    p.walked |= {walked} - {""}
    p.indent += 1
    for _ in range(p.rng.randint(1, 3)):
        statement(p)
    if len(p.lines) == before:
        p.line("pass")
    p.indent -= 1
    p.kinds, p.walked = kinds, held


def _if(p: Program) -> None:
    p.line(f"if {condition(p)}:")
    body(p, {})
    if p.rng.random() < 0.5:
        p.line("else:")
        body(p, {})


def _for(p: Program) -> None:
    p.made += 1
    name = f"e{p.made}"
    nested, held, pairs = nested_text(p), list_text(p), p.of(PAIRS)
    match p.rng.randint(0, 11):
        case 0:
            p.line(f"for {name} in {nested}:")
            body(p, {name: LIST}, nested)
        case 1:
            p.line(f"for {name} in {held}:")
            body(p, {name: TENSOR}, held)
        case 2:
            p.line(f"for {name}, {name}b in {pairs}:")
            body(p, {name: TENSOR, f"{name}b": TENSOR}, pairs)
        case 3:
            p.line(f"for {name}, {name}b in zip({nested}, {held}):")
            body(p, {name: LIST, f"{name}b": TENSOR}, nested)
        case 4:
            p.line(f"for {name} in range({p.rng.randint(0, 3)}):")
            body(p, {})
        case 5:
            p.line(f"for {name} in range(len({nested})):")
            p.indent += 1
            p.line(f"{nested}[{name}][0] {p.any_of('+=', '*=', '=')} {p.any_of('a', 'b')} * 0.5")
            p.indent -= 1
            body(p, {}, nested)
        case 6:
            p.line(f"for {name}, {name}b in {p.of(HELD)}:")
            body(p, {name: LIST, f"{name}b": TENSOR}, p.of(HELD))
        case 7:
            p.line(f"for {name} in {p.of(DEEP)}:")
            body(p, {name: NESTED}, p.of(DEEP))
        case 8:
            p.line(f"for i, {name} in enumerate({nested}):")
            body(p, {name: LIST}, nested)
        case 9:
            p.line(f"for {name} in reversed({nested}):")
            body(p, {name: LIST}, nested)
        case 10:
            p.line(f"for {name}, {name}b in zip({nested}, {p.of(NESTED)}[::-1]):")
            body(p, {name: LIST, f"{name}b": LIST}, nested)
        case _:
            p.line(f"for {name} in {p.of(TENSOR)}:")
            body(p, {name: ROW}, "a tensor")


def _while(p: Program) -> None:
    p.made += 1
    name = f"k{p.made}"
    p.line(f"{name} = 0")
    p.line(f"while {name} < {p.rng.randint(1, 3)}:")
    p.indent += 1
    p.line(f"{name} += 1")
    p.indent -= 1
    body(p, {})


_STATEMENTS: list[tuple[Callable[[Program], None], int]] = [
    (_write, 9),
    (_bind_tensor, 4),
    (_bind_list, 4),
    (_bind_nested, 3),
    (_bind_pairs, 1),
    (_bind_others, 3),
    (_store, 5),
    (_resize, 4),
    (_if, 3),
    (_for, 3),
    (_while, 1),
]
_BLOCKS = (_if, _for, _while)
