"""Random programs over lists of tensors that grow by what elements decide, as a history, a stack or a window does, and
whose elements are written, moved and taken away afterwards."""

from __future__ import annotations

import random

FRESH = ("x * 2", "w + 1", "x * w", "torch.tanh(x)", "w - x", "x.clone()", "total * 0.5")
ENDS = ("0", "-1")
COPIES = ("[t * 2 for t in {0}]", "[t for t in {0}]", "list({0})", "{0}[:]", "{0}[::-1]")


def program(seed: int) -> str:
    """The program of a seed."""
    r = random.Random(seed)
    start = ", ".join(r.choice(FRESH) for _ in range(r.randint(1, 2)))
    lines = ["total = x * 0", f"l = [{start}]", *_growth(r)]
    lists = ["l"]
    for _ in range(r.randint(2, 5)):
        lines += _statement(r, r.choice(lists), lists)
    results = [r.choice(["torch.stack({0}).sum(0)", "{0}[0]", "{0}[-1]"]).format(name) for name in lists]
    return "\ndef f(x, w):\n    " + "\n    ".join(lines) + f"\n    return {', '.join(['total', *results])}\n"


def _condition(r: random.Random, name: str) -> str:
    return f"bool({name}.sum() * {r.choice((-2, -1, 1, 2))} > {r.randint(-2, 2)}.0137)"


def _growth(r: random.Random) -> list[str]:
    """What makes a list longer, for so long as elements say."""
    ways = [
        [
            f"while len(l) < 6 and bool(l[-1].abs().sum() < {r.choice((5, 10, 20))}.0137):",
            f"    l.append({r.choice(('l[-1] * 1.5', 'x * len(l)', 'l[-1] + w'))})",
        ],
        [
            f"for i in range({r.randint(2, 4)}):",
            f"    if {_condition(r, 'x')}:",
            f"        l.append({r.choice(('x * i', 'w + i', 'l[0] * i'))})",
        ],
        [f"if {_condition(r, 'w')}:", f"    l.append({r.choice(FRESH)})"],
        [
            "y = x",
            f"while len(l) < 6 and bool(y.abs().sum() < {r.choice((5, 10, 20))}.0137):",
            "    y = y * 2",
            "    l.append(y)",
        ],
    ]
    return r.choice(ways)


def _statement(r: random.Random, name: str, lists: list[str]) -> list[str]:
    end, fresh = r.choice(ENDS), r.choice(FRESH)
    ways = [
        [f"{name}[{end}] += {fresh}"],
        [f"{name}[{end}].mul_({r.choice(('2.0', 'w'))})"],
        [f"{name}[{end}][0] = {r.randint(0, 3)}.0"],
        [f"for t in {name}:", f"    t {r.choice(('+=', '*=', '-='))} {r.choice(('1', 'w', '0.5'))}"],
        [
            f"for i in range(len({name})):",
            f"    {name}[i] {r.choice(('=', '+='))} {r.choice(('x * i', 'w + 1', f'{name}[i] * 2'))}",
        ],
        [f"{name}[{end}] = {fresh}"],
        [f"{name}[0], {name}[-1] = {name}[-1], {name}[0]"],
        [f"y = {name}[{end}]", f"y {r.choice(('+=', '*='))} {r.choice(('1', 'w'))}", "total = total + y"],
        [
            f"if len({name}) > 1:",
            f"    p = {name}.pop({r.choice(('', '0'))})",
            f"    {r.choice(('p += 1', 'p.mul_(2)', 'pass'))}",
            "    total = total + p",
        ],
        [f"for t in {name}:", f"    total {r.choice(('= total +', '+='))} t"],
        [f"{name}.append({fresh})"],
        [f"{name}.insert(0, {fresh})"],
        [f"if {_condition(r, f'{name}[0]')}:", f"    {name}.append({fresh})", f"    {name}[-1] += w"],
        [f"for a, b in zip({name}, {name}[1:]):", "    total = total + a * b"],
        [f"for i in range(1, len({name})):", f"    {name}[0] += {name}[i]"],
    ]
    copied = f"m{len(lists)}"
    ways.append([f"{copied} = {r.choice(COPIES).format(name)}"])
    way = r.choice(ways)
    if way is ways[-1]:
        lists.append(copied)
    return way
