"""Statements for the programs of `in_place_programs.py`: what may be None, and what the program was given.

A variable that may be None is bound on some ways, and written where it is there. A given tensor or list goes into lists
and tuples of the program's own, so that a write through them may be one into an argument.
"""

from __future__ import annotations

import in_place_programs as programs
from in_place_programs import List, Program, Shape

MATRIX = (programs.N, programs.N)


def _there(p: Program, name: str) -> None:
    """A block where a variable that may be None is there, by one of the ways to ask."""
    match p.rng.randint(0, 3):
        case 0:
            p.line(f"if {name} is None:")
            programs.body(p, 1)
            p.line("else:")
        case 1:
            p.line(f"if {name} is not None and {programs.condition(p)}:")
        case _:
            p.line(f"if {name} is not None:")


def optional(p: Program) -> None:
    """A variable that may be None is bound on some ways, other statements follow, and it is written where it is."""
    name, rng = p.name(), p.rng
    if rng.random() < 0.5:
        shape = p.kinds[p.tensor() or "a"]
        assert isinstance(shape, tuple)
        _optional_tensor(p, name, shape)
    else:
        _optional_list(p, name)


def _bound(p: Program, name: str, type: str, texts: list[str]) -> None:
    rng = p.rng
    p.line(f"{name}: Optional[{type}] = {rng.choice(['None', 'None', 'None', rng.choice(texts)])}")
    p.line(rng.choice([f"if {programs.condition(p)}:", f"for _ in range({rng.randint(0, 2)}):"]))
    p.indent += 1
    p.line(f"{name} = {rng.choice(texts)}")
    p.indent -= 1
    if rng.random() < 0.25:
        p.line(f"if {programs.condition(p)}:")
        p.indent += 1
        p.line(f"{name} = {rng.choice(['None', *texts])}")
        p.indent -= 1
    for _ in range(rng.randint(0, 2)):
        programs.statement(p)


def _optional_tensor(p: Program, name: str, shape: Shape) -> None:
    rng = p.rng
    one, other = p.tensor(shape) or "a", p.tensor(shape) or "a"
    texts = [one, other, f"itself({one})", f"{other}.positive()", f"{one} * 2"]
    held = p.pick(lambda kind: isinstance(kind, List) and kind.element == shape)
    if held is not None:
        texts += [f"{held}[0]", f"{held}[-1]"]
    _bound(p, name, "Tensor", texts)
    target = p.tensor(shape)
    if rng.random() < 0.25 and target is not None and target not in p.fixed:
        p.line(f"{target} = {name} if {name} is not None else {other}")
        p.contiguous.discard(target)
        p.line(f"{target} += 1")
        return
    _there(p, name)
    kinds = dict(p.kinds)
    p.indent += 1
    match rng.randint(0, 4):
        case 0 if target is not None and target not in p.fixed:
            p.line(f"{target} = {name}")
            p.contiguous.discard(target)
        case 1 if held is not None and held not in p.fixed:
            p.line(f"{held}[0] = {name}")
        case 2 if shape:
            p.line(f"{name}[0] = {programs.number(p)}")
        case _:
            p.line(rng.choice([f"{name} += {programs.number(p)}", f"{name}.mul_(0.5)"]))
    p.kinds[name] = shape
    p.indent -= 1
    programs.body(p, rng.randint(1, 2))
    p.kinds = {n: k for n, k in kinds.items() if n in p.kinds}


def _optional_list(p: Program, name: str) -> None:
    rng = p.rng
    held = p.pick(lambda kind: isinstance(kind, List) and kind.count not in (0, None))
    kind = p.kinds[held] if held is not None else List(MATRIX, 2)
    assert isinstance(kind, List) and kind.count is not None
    items = [p.tensor(kind.element) or f"torch.zeros({list(kind.element)}, dtype=x.dtype)" for _ in range(kind.count)]
    display = f"[{', '.join(items)}]"
    texts = [display, f"[{', '.join(f'{item} * 1' for item in items)}]"]
    if held is not None:
        texts += [held, held, f"list({held})"]
    _bound(p, name, "List[Tensor]", texts)
    if held is not None and p.kinds.get(held) != kind:
        held = None
    _there(p, name)
    kinds = dict(p.kinds)
    p.indent += 1
    match rng.randint(0, 4):
        case 0 if held is not None and held not in p.fixed:
            p.line(f"{held} = {name}")
        case 1:
            p.line(f"{name}[0] = {items[-1]}")
        case 2:
            p.line(f"{name}[-1] += {programs.number(p)}")
        case 3:
            p.line(f"{name}.reverse()")
        case _:
            p.line(f"{name}[0].mul_(0.5)")
    p.kinds[name] = kind
    p.indent -= 1
    programs.body(p, rng.randint(1, 2))
    p.kinds = {n: k for n, k in kinds.items() if n in p.kinds}


def given(p: Program) -> None:
    """What the program was given goes into its own lists, tuples and names."""
    rng = p.rng
    tensor = rng.choice(["x", "w", "k[0]", "k[-1]", "x.t()", "itself(w)"])
    own = p.tensor(MATRIX) or "x * 1"
    held = p.pick(lambda kind: isinstance(kind, List) and kind.element == MATRIX and kind.count not in (0, None))
    if held is not None and rng.random() < 0.5:
        kind = p.kinds[held]
        p.line(rng.choice([f"{held}[0] = {tensor}", f"{held}[-1] = {tensor}"]))
        p.kinds[held] = kind
        return
    text, kind = rng.choice(
        [
            (tensor, MATRIX),
            (f"{tensor} if {programs.condition(p)} else {own}", MATRIX),
            (f"larger({own}, {tensor})", MATRIX),
            (f"[{tensor}, {own}]", List(MATRIX, 2)),
            (f"[{own}, {tensor}]", List(MATRIX, 2)),
            (f"both({tensor}, {own})", List(MATRIX, 2)),
            ("k", List(MATRIX, 2)),
            ("list(k)", List(MATRIX, 2)),
            ("[e for e in k]", List(MATRIX, 2)),
            ("[e * 1 for e in k]", List(MATRIX, 2)),
            (f"[{own}] + k[1:]", List(MATRIX, 2)),
            (f"[{own}, {own}] if {programs.condition(p)} else k", List(MATRIX, 2)),
            (f"({own}, {tensor})", programs.Pair(MATRIX, MATRIX)),
        ]
    )
    programs.bind(p, text, kind)
