"""Statements for the programs of `nested_list_programs.py`: what may be None, and what the program was given.

Tensors, lists, and lists of lists may be None: bound on some ways, written where they are there. Parameters go into
lists of the program's own, so that a write through them may be one into an argument.
"""

from __future__ import annotations

import nested_list_programs as programs
from nested_list_texts import (
    LIST,
    NESTED,
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
)

TYPES = {TENSOR: "Tensor", LIST: "List[Tensor]", NESTED: "List[List[Tensor]]"}


def _text(p: Program, kind: str) -> str:
    """What a variable that may be None is bound to."""
    if kind == TENSOR:
        return item_text(p)
    if kind == LIST:
        return p.any_of(list_text(p), p.of(LIST), f"[{item_text(p)}, {item_text(p)}]", f"list({list_text(p)})")
    return p.any_of(nested_text(p), p.of(NESTED), f"[{list_text(p)}, {list_text(p)}]", f"{p.of(NESTED)}[::-1]")


def _use(p: Program, name: str, kind: str) -> str:
    """A write through what is there, or a name for it."""
    if kind == TENSOR:
        held = list_name(p)
        return p.any_of(
            f"{name} += {number(p)}",
            f"{name}[{index(p)}] = {number(p)}",
            f"{held}[{index(p)}] = {name}",
            f"{p.of(NESTED)}[0][0] = {name}",
            *([f"{held}.append({name})", f"{p.of(LIST)}.insert(0, {name})"] * (not p.walked)),
        )
    element = name if kind == LIST else f"{name}[{index(p)}]"
    texts = [
        f"{element}[{index(p)}] += {number(p)}",
        f"{element}[{index(p)}] = {item_text(p)}",
        f"{element}[{index(p)}].mul_({number(p)})",
        f"{element}[0], {element}[-1] = {element}[-1], {element}[0]",
    ]
    other = p.of(kind)
    if other not in p.walked:
        texts += [f"{other} = {name}"] * 3
    if not p.walked:
        texts += [f"{name}.append({_text(p, LIST if kind == NESTED else TENSOR)})", f"{name}.reverse()"]
    texts.append(f"{nested_text(p)}[{index(p)}] = {element}")
    return p.rng.choice(texts)


def optional(p: Program) -> None:
    """A variable that may be None is bound on some ways, other statements follow, and it is used where it is there."""
    p.made += 1
    name, kind, rng = f"o{p.made}", p.rng.choice([TENSOR, LIST, LIST, NESTED]), p.rng
    p.line(f"{name}: Optional[{TYPES[kind]}] = {p.any_of('None', 'None', 'None', _text(p, kind))}")
    p.line(p.any_of(f"if {condition(p)}:", f"for _ in range({rng.randint(0, 2)}):"))
    p.indent += 1
    p.line(f"{name} = {_text(p, kind)}")
    p.indent -= 1
    if rng.random() < 0.3:
        p.line(f"if {condition(p)}:")
        p.indent += 1
        p.line(f"{name} = {p.any_of('None', _text(p, kind))}")
        p.indent -= 1
    for _ in range(rng.randint(0, 2)):
        programs.statement(p)
    match rng.randint(0, 4):
        case 0:
            p.line(f"if {name} is None:")
            programs.body(p, {})
            p.line("else:")
        case 1:
            p.line(f"if {name} is not None and {condition(p)}:")
        case 2:
            p.bind(f"{name} if {name} is not None else {_text(p, kind)}", kind)
            return
        case _:
            p.line(f"if {name} is not None:")
    p.indent += 1
    p.line(_use(p, name, kind))
    p.indent -= 1
    programs.body(p, {name: kind})


def given(p: Program) -> None:
    """What the program was given goes into its own lists and names."""
    tensor = p.any_of("x", "w", "k[0]", "m[0][-1]", "x.t()")
    held = p.any_of("k", "m[0]", "m[-1]", "list(k)", "[e for e in k]", f"[{item_text(p)}] + k", "[x, w]")
    nested = p.any_of(
        "m", "list(m)", "m[::-1]", f"[k, {list_text(p)}]", "[held for held in m]", f"[{list_text(p)}] + m"
    )
    match p.rng.randint(0, 6):
        case 0:
            p.bind(p.any_of(tensor, f"{tensor} if {condition(p)} else {item_text(p)}"), TENSOR)
        case 1:
            p.bind(p.any_of(held, f"[{tensor}, {item_text(p)}]", f"{list_text(p)} if {condition(p)} else {held}"), LIST)
        case 2:
            p.bind(p.any_of(nested, f"wrapped({tensor}, {item_text(p)})", f"[{held}, [{item_text(p)}]]"), NESTED)
        case 3:
            p.line(f"{list_name(p)}[{index(p)}] = {tensor}")
        case 4:
            p.line(f"{nested_text(p)}[{index(p)}] = {held}")
        case 5 if not p.walked:
            p.line(p.any_of(f"{list_name(p)}.append({tensor})", f"{p.of(LIST)}.extend({held})"))
        case _:
            p.bind(f"[e * 1 for e in {p.any_of('k', 'm[0]')}]", LIST)


STATEMENTS: Statements = [(optional, 5)]
GIVEN: Statements = [(given, 4)]
