"""Random programs that write in place: views of views, lists, tuples, helpers, branches, loops, swaps, and their like.

The text of a program means the same to Python with torch and to the compiler, so that each can be held to the other. A
program knows the shape of each of its variables, so that nearly all that is written runs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Shape = tuple[int, ...]
"""Of a tensor; a list of tensors of one shape is `List`."""

HELPERS = """
def itself(a):
    return a


def first_row(a):
    return a[0]


def fresh(a):
    return a * 0.5 + 1


def changed(a):
    b = a.clone()
    b += 1
    return b


def swapped(a, b):
    return b, a


def larger(a, b):
    if a.sum() > b.sum() + 0.0137:
        return a
    return b


def both(a, b):
    return [a, b]
"""

N = 3
"""The size of every dimension, so that shapes meet often."""


@dataclass(frozen=True)
class List:
    """A list of so many tensors of one shape; None for a number that depends on the run."""

    element: Shape
    count: int | None


@dataclass(frozen=True)
class Pair:
    """A tuple of two tensors."""

    first: Shape
    second: Shape


Kind = Shape | List | Pair
Statements = Sequence[tuple[Callable[["Program"], None], int]]
"""What writes a statement, and how often it is chosen."""


@dataclass
class Program:
    """Text in the making, and what its variables are."""

    rng: random.Random
    lines: list[str] = field(default_factory=list)
    kinds: dict[str, Kind] = field(default_factory=dict)
    contiguous: set[str] = field(default_factory=set)
    indent: int = 1
    made: int = 0
    fixed: set[str] = field(default_factory=set)
    """Variables that may not be bound anew here: those that a loop runs over."""
    budget: int = 30
    modes: bool = False
    rebinds: bool = False
    more: Statements = ()

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def name(self) -> str:
        self.made += 1
        return f"v{self.made}"

    def of(self, wanted: Callable[[Kind], bool]) -> list[str]:
        return [name for name, kind in self.kinds.items() if wanted(kind)]

    def pick(self, wanted: Callable[[Kind], bool]) -> str | None:
        found = self.of(wanted)
        return self.rng.choice(found) if found else None

    def tensor(self, shape: Shape | None = None) -> str | None:
        return self.pick(lambda k: isinstance(k, tuple) and shape in (None, k))


def program(
    seed: int, *, modes: bool = False, rebinds: bool = False, more: Statements = (), parameters: str = "x, w"
) -> str:
    """The text of the program of a seed; its function is `f(x, w)`, of two square matrices. With `modes`, some of it
    is where no gradient flows; with `rebinds`, blocks bind several names anew to what shares memory; with `more`,
    those statements are among the others."""
    p = Program(random.Random(seed), modes=modes, rebinds=rebinds, more=more)
    p.line("a = x.clone()")
    p.line("b = w * 2")
    p.kinds.update(a=(N, N), b=(N, N))
    p.contiguous.update("ab")
    for _ in range(p.rng.randint(3, 11)):
        statement(p)
    returned = _results(p)
    return HELPERS + f"\n\ndef f({parameters}):\n" + "\n".join(p.lines) + f"\n    return {', '.join(returned)}\n"


def _results(p: Program) -> list[str]:
    names = [n for n, k in p.kinds.items() if isinstance(k, tuple)]
    chosen = p.rng.sample(names, min(len(names), p.rng.randint(1, 4)))
    for name, kind in p.kinds.items():
        if isinstance(kind, List) and p.rng.random() < 0.4:
            chosen.append(name)
        elif isinstance(kind, Pair) and p.rng.random() < 0.3:
            chosen.append(f"{name}[0]")
    return chosen or ["a"]


def statement(p: Program) -> None:
    """One statement of any kind that fits."""
    p.budget -= 1
    if p.budget < 0:
        return
    statements = [*_STATEMENTS, *([(_no_grad, 4)] * p.modes), *([(_rebound, 4)] * p.rebinds)]
    choices = [*statements, *p.more] if p.indent < 4 else [(f, w) for f, w in statements if f not in _NESTED]
    functions, weights = zip(*choices, strict=True)
    p.rng.choices(functions, weights)[0](p)


def number(p: Program) -> str:
    return p.rng.choice(["0.5", "2", "1", "-1", "0.25", "3"])


def _operand(p: Program, shape: Shape) -> str:
    """A value that may be added to a tensor of the shape."""
    same = p.tensor(shape)
    if same is not None and p.rng.random() < 0.6:
        return p.rng.choice([same, f"{same} * 0.5", f"torch.tanh({same})", f"({same} + 1)"])
    smaller = p.tensor(shape[1:]) if shape else None
    if smaller is not None and p.rng.random() < 0.5:
        return f"{smaller} * 0.5"
    return number(p)


def _expression(p: Program, shape: Shape) -> str:
    """A tensor of the shape, made anew."""
    name = p.tensor(shape)
    if name is None:
        return f"torch.zeros([{', '.join(map(str, shape))}], dtype=x.dtype)"
    other = p.tensor(shape) or name
    return p.rng.choice(
        [
            f"{name} * 0.5",
            f"{name} + {other}",
            f"torch.tanh({name})",
            f"{name} - {number(p)}",
            f"{name}.clone()",
            f"fresh({name})",
            f"changed({name})",
            f"({name} if {condition(p)} else {other}) * 1",
            f"{name} + {name}.add_({number(p)})",
            f"{name}.mul_(0.5) * {other}",
        ]
    )


def condition(p: Program) -> str:
    """No threshold is a number that sums and products of the others meet: a tie is decided by how a sum is rounded."""
    name = p.tensor() or "a"
    over = f"bool({name}.max() > 2.0137)"
    return p.rng.choice([f"{name}.sum() > 0.0137", f"{name}.mean() < 1.0137", "x.sum() > 0.0137", over])


def bind(p: Program, text: str, kind: Kind, contiguous: bool = False) -> None:
    """A new name, or one of the same kind bound anew."""
    old = p.pick(lambda k: k == kind)
    name = old if old is not None and old not in p.fixed and p.rng.random() < 0.3 else p.name()
    p.line(f"{name} = {text}")
    p.kinds[name] = kind
    (p.contiguous.add if contiguous and p.indent == 1 else p.contiguous.discard)(name)


def _new(p: Program) -> None:
    name = p.tensor()
    assert name is not None
    shape = p.kinds[name]
    assert isinstance(shape, tuple)
    bind(p, _expression(p, shape), shape)


def _alias(p: Program) -> None:
    name = p.pick(lambda k: True)
    assert name is not None
    bind(p, name, p.kinds[name], name in p.contiguous)


def _view(p: Program) -> None:
    name = p.tensor()
    assert name is not None
    text, shape = _view_of(p, name)
    bind(p, text, shape)


def _view_of(p: Program, name: str) -> tuple[str, Shape]:
    shape = p.kinds[name]
    assert isinstance(shape, tuple)
    rng = p.rng
    if not shape:
        return rng.choice([(f"{name}.unsqueeze(0)", (1,)), (f"{name}.view(1)", (1,)), (f"{name}[None]", (1,))])
    i = rng.randint(-shape[0], shape[0] - 1)
    rest = shape[1:]
    options: list[tuple[str, Shape]] = [
        (f"{name}[{i}]", rest),
        (f"{name}.select(0, {i})", rest),
        (f"{name}[{1 if shape[0] > 1 else 0}:]", (max(shape[0] - 1, 1), *rest)),
        (f"{name}.unsqueeze(0)", (1, *shape)) if len(shape) < 3 else (f"{name}[{i}]", rest),
        (f"{name}.positive()", shape),
        (f"itself({name})", shape),
        (f"first_row({name})", rest),
        (f"{name}.narrow(0, 0, {max(shape[0] - 1, 1)})", (max(shape[0] - 1, 1), *rest)),
    ]
    if len(shape) >= 2:
        j = rng.randint(0, shape[1] - 1)
        turned = (shape[1], shape[0], *shape[2:])
        options += [
            (f"{name}[:, {j}]", (shape[0], *shape[2:])),
            (f"{name}.transpose(0, 1)", turned),
            (f"{name}[..., 0]", shape[:-1]),
            (f"{name}.movedim(0, 1)", turned),
            (f"{name}.swapaxes(0, 1)", turned),
        ]
    if len(shape) == 2:
        options += [
            (f"{name}.t()", (shape[1], shape[0])),
            (f"{name}.T", (shape[1], shape[0])),
            (f"{name}.diagonal()", (min(shape),)),
            (f"{name}.permute(1, 0)", (shape[1], shape[0])),
            (f"torch.einsum('ij->ji', {name})", (shape[1], shape[0])),
        ]
    if name in p.contiguous:
        size = 1
        for dim in shape:
            size *= dim
        options.append((f"{name}.view(-1)", (size,)))
    if shape[0] == 1:
        options.append((f"{name}.squeeze(0)", rest))
    return rng.choice(options)


def _maybe_alias(p: Program) -> None:
    name = p.tensor()
    assert name is not None
    shape = p.kinds[name]
    assert isinstance(shape, tuple)
    text = p.rng.choice(
        [
            f"{name}.to(x.dtype)",
            f"{name}.double()",
            f"{name}.contiguous()",
            f"F.dropout({name}, 0.5, False)",
            f"{name}.type_as(x)",
            f"{name}.reshape({', '.join(map(str, shape))})" if shape else f"{name}.contiguous()",
            f"larger({name}, {p.tensor(shape)})",
            f"{name}.detach()",
        ]
    )
    bind(p, text, shape)


def _write(p: Program) -> None:
    name = p.tensor()
    assert name is not None
    target, shape = name, p.kinds[name]
    assert isinstance(shape, tuple)
    if shape and p.rng.random() < 0.5:
        target, shape = _view_of(p, name)
    rng = p.rng
    operand = _operand(p, shape)
    is_name = target.isidentifier() or target.endswith("]")
    options = [
        f"{target}.mul_({number(p)})",
        f"{target}.add_({operand})",
        f"{target}.sub_({operand})",
        f"{target}.clamp_(-2, 2)",
        f"{target}.copy_({p.tensor(shape) or operand + ' * torch.ones_like(' + target + ')'})",
        f"{target}.zero_()",
        f"{target}.fill_({number(p)})",
        f"{target}.tanh_()",
        f"{target}.add_(1).mul_(0.5)",
    ]
    if is_name:
        op = rng.choice(["+=", "-=", "*="])
        options += [f"{target} {op} {operand}"] * 5
    if target.endswith("]"):
        options += [f"{target} = {operand}"] * 3
    if shape and target.isidentifier():
        options += [
            f"{target}[{rng.randint(0, shape[0] - 1)}] = {_operand(p, shape[1:])}",
            f"{target}[1:] = {target}[:-1] * 2",
            f"{target}[{target} > 0.0137] = 0.5",
            f"{target}[torch.tensor([0])] += 1",
            f"{target}[0], {target}[-1] = {target}[-1], {target}[0]",
        ]
    p.line(rng.choice(options))


def _split(p: Program) -> None:
    name = p.tensor()
    assert name is not None
    shape = p.kinds[name]
    assert isinstance(shape, tuple)
    if not shape:
        return
    n, rest = shape[0], shape[1:]
    options: list[tuple[str, Shape, int]] = [(f"{name}.unbind(0)", rest, n), (f"{name}.unbind()", rest, n)]
    if n == 3:
        options += [
            (f"{name}.split(1)", (1, *rest), 3),
            (f"{name}.chunk(3)", (1, *rest), 3),
            (f"{name}.tensor_split(3)", (1, *rest), 3),
            (f"torch.vsplit({name}, 3)", (1, *rest), 3) if rest else (f"torch.hsplit({name}, 3)", (1,), 3),
        ]
    text, element, count = p.rng.choice(options)
    targets = [p.name() for _ in range(count)]
    p.line(f"{', '.join(targets)}{',' if count == 1 else ''} = {text}")
    for target in targets:
        p.kinds[target] = element


def _swap(p: Program) -> None:
    first = p.tensor()
    assert first is not None
    second = p.tensor(p.kinds[first])  # type: ignore[arg-type]
    if first in p.fixed or second in p.fixed or first == second:
        return
    p.line(f"{first}, {second} = {second}, {first}")
    p.contiguous -= {first, str(second)}


def _display(p: Program) -> None:
    name = p.tensor()
    assert name is not None
    shape = p.kinds[name]
    assert isinstance(shape, tuple)
    other = p.tensor(shape)
    text, count = p.rng.choice(
        [
            (f"[{name}, {other}]", 2),
            (f"[{name}, {_expression(p, shape)}, {other}]", 3),
            (f"[{name} * 1, {other} * 2]", 2),
            (f"[{name}] * 2", 2),
            (f"both({name}, {other})", 2),
            (f"[{name}.clone() for _ in range(3)]", 3),
            (f"[{name}[0:] for _ in range(2)]" if shape else f"[{name}]", 2 if shape else 1),
        ]
    )
    bind(p, text, List(shape, count))


def _is_list(kind: Kind) -> bool:
    return isinstance(kind, List)


def _list(p: Program) -> None:
    """Something with a list that there is."""
    name = p.pick(_is_list)
    if name is None:
        return _display(p)
    kind = p.kinds[name]
    assert isinstance(kind, List)
    count = kind.count
    if count == 0:
        return None
    i = str(p.rng.randint(0, count - 1)) if count is not None else p.rng.choice(["0", "-1"])
    operand = _operand(p, kind.element)
    rng = p.rng
    match rng.randint(0, 9):
        case 0:
            p.line(f"{name}[{i}] += {operand}")
        case 1:
            p.line(f"{name}[{i}].mul_(0.5)")
        case 2:
            p.line(f"{name}[{i}] = {_expression(p, kind.element)}")
        case 3:
            p.line(f"{name}[{i}] = {p.tensor(kind.element) or _expression(p, kind.element)}")
        case 4:
            bind(p, f"{name}[{i}]", kind.element)
        case 5 | 6 if p.indent == 1:
            _resize(p, name, kind)
        case 7:
            bind(p, f"[e * 2 for e in {name}]", kind)
        case 8 if count is not None and count <= 3 and p.indent == 1:
            targets = [p.name() for _ in range(count)]
            p.line(f"{', '.join(targets)}{',' if count == 1 else ''} = {name}")
            p.kinds.update(dict.fromkeys(targets, kind.element))
        case _:
            bind(p, f"torch.stack({name})", (count, *kind.element)) if count is not None else None
    return None


def _resize(p: Program, name: str, kind: List) -> None:
    """A list grows or shrinks; every list of its kind may be the same one."""
    rng = p.rng
    source = p.tensor(kind.element)
    item = source if source is not None and rng.random() < 0.5 else _expression(p, kind.element)
    match rng.randint(0, 4):
        case 0 | 1:
            p.line(f"{name}.append({item})")
            change = 1
        case 2:
            p.line(f"{name}.insert(0, {item})")
            change = 1
        case 3 if (kind.count or 0) > 1:
            target = p.name()
            p.line(f"{target} = {name}.pop({rng.choice(['', '0'])})")
            p.kinds[target] = kind.element
            change = -1
        case _:
            p.line(f"{name}.reverse()")
            change = 0
    for other, found in list(p.kinds.items()):
        if isinstance(found, List) and found.element == kind.element:
            p.kinds[other] = List(kind.element, None) if other != name or found.count is None else kind
    if change == 0 and kind.count is not None:
        p.kinds[name] = kind
    else:
        p.kinds[name] = List(kind.element, kind.count + change if kind.count is not None else None)
        same = [o for o, k in p.kinds.items() if isinstance(k, List) and k.element == kind.element and o != name]
        for other in same:
            del p.kinds[other]


def _tuple(p: Program) -> None:
    pair = p.pick(lambda k: isinstance(k, Pair))
    if pair is None or p.rng.random() < 0.4:
        first, second = p.tensor(), p.tensor()
        assert first is not None and second is not None
        kinds = Pair(p.kinds[first], p.kinds[second])  # type: ignore[arg-type]
        if p.rng.random() < 0.3:
            bind(p, f"swapped({second}, {first})", kinds)
        else:
            bind(p, f"({first}, {second})", kinds)
        return
    kind = p.kinds[pair]
    assert isinstance(kind, Pair)
    match p.rng.randint(0, 3):
        case 0:
            p.line(f"{pair}[0].add_({_operand(p, kind.first)})")
        case 1:
            bind(p, f"{pair}[1]", kind.second)
        case 2:
            bind(p, f"{pair}[0]", kind.first)
        case _:
            first, second = p.name(), p.name()
            p.line(f"{first}, {second} = {pair}")
            p.kinds.update({first: kind.first, second: kind.second})


# --- statements with statements inside ---


def body(p: Program, count: int, fixed: tuple[str, ...] = ()) -> None:
    """Statements one level deeper; what they bind first is gone afterwards."""
    kinds, contiguous, held = dict(p.kinds), set(p.contiguous), set(p.fixed)
    p.fixed |= set(fixed)
    p.indent += 1
    before = len(p.lines)
    for _ in range(count):
        statement(p)
    if len(p.lines) == before:
        p.line("pass")
    p.indent -= 1
    p.kinds = {name: kind for name, kind in kinds.items() if name in p.kinds}
    p.contiguous, p.fixed = contiguous & p.contiguous, held


def _if(p: Program) -> None:
    p.line(f"if {condition(p)}:")
    body(p, p.rng.randint(1, 3))
    if p.rng.random() < 0.5:
        p.line("else:")
        body(p, p.rng.randint(1, 2))


def _for(p: Program) -> None:
    rng = p.rng
    name, kind = p.name(), p.rng.choice(["range", "tensor", "list", "enumerate", "zip"])
    kinds = dict(p.kinds)
    if kind == "tensor":
        tensor = p.pick(lambda k: isinstance(k, tuple) and len(k) > 0)
        if tensor is None:
            return
        shape = p.kinds[tensor]
        assert isinstance(shape, tuple)
        p.line(f"for {name} in {tensor}:")
        p.kinds[name] = shape[1:]
        body(p, rng.randint(1, 3), (tensor,))
    elif kind == "range":
        p.line(f"for {name} in range({rng.randint(0, 3)}):")
        body(p, rng.randint(1, 3))
    else:
        _for_list(p, name, kind)
    p.kinds = {n: k for n, k in kinds.items() if n in p.kinds}


def _for_list(p: Program, name: str, kind: str) -> None:
    found = p.pick(_is_list)
    if found is None:
        return
    known = p.kinds[found]
    assert isinstance(known, List)
    if kind == "list":
        p.line(f"for {name} in {found}:")
    elif kind == "enumerate":
        p.line(f"for i, {name} in enumerate({found}):")
    else:
        other = p.pick(_is_list)
        assert other is not None
        second = p.name()
        p.line(f"for {name}, {second} in zip({found}, {other}):")
        p.kinds[second] = p.kinds[other].element  # type: ignore[union-attr]
    p.kinds[name] = known.element
    body(p, p.rng.randint(1, 2), (found,))


def _while(p: Program) -> None:
    counter = p.name()
    p.line(f"{counter} = 0")
    p.line(f"while {counter} < {p.rng.randint(1, 3)}:")
    p.indent += 1
    p.line(f"{counter} += 1")
    p.indent -= 1
    body(p, p.rng.randint(1, 2))


def _rebound(p: Program) -> None:
    """A block that may not run binds names anew to what shares memory; then one of them is written."""
    rng = p.rng
    first = p.tensor()
    assert first is not None
    shape = p.kinds[first]
    assert isinstance(shape, tuple)
    second = p.tensor(shape)
    held = p.pick(lambda k: k == List(shape, 2))
    if second in (first, None) or {first, second} & p.fixed:
        return
    head = rng.choice([f"if {condition(p)}:", f"for _ in range({rng.randint(0, 2)}):", f"while {condition(p)}:"])
    p.line(head)
    p.indent += 1
    p.line(f"{first} = {_expression(p, shape)}")
    same = ["{0}.positive()", "itself({0})", "{0}"] + (
        ["{0}[0:]", "{0}.flip(0)[:]", "{0}.view_as({0})"] if shape else []
    )
    same += ["{0}.t()", "{0}.T"] if len(shape) == 2 and shape[0] == shape[1] else []
    p.line(f"{second} = {rng.choice(same).format(first)}")
    if held is not None and held not in p.fixed:
        p.line(f"{held} = [{second}, {rng.choice([first, second])}]")
    if head.startswith("while"):
        p.line("break")
    p.indent -= 1
    p.contiguous -= {first, str(second)}
    target = f"{held}[{rng.randint(0, 1)}]" if held is not None and rng.random() < 0.5 else rng.choice([first, second])
    p.line(rng.choice([f"{target} += {number(p)}", f"{target}.mul_(0.5)", f"{target}[...] = {number(p)}"]))


def _no_grad(p: Program) -> None:
    """What is bound inside stays bound."""
    p.line(f"with torch.{p.rng.choice(['no_grad', 'no_grad', 'enable_grad'])}():")
    p.indent += 1
    for _ in range(p.rng.randint(1, 3)):
        p.rng.choice([_write, _write, _new, _view, _list, _for])(p)
    p.line("pass")
    p.indent -= 1


_STATEMENTS: list[tuple[Callable[[Program], None], int]] = [
    (_write, 9),
    (_view, 5),
    (_new, 4),
    (_alias, 2),
    (_maybe_alias, 1),
    (_split, 1),
    (_swap, 1),
    (_display, 2),
    (_list, 5),
    (_tuple, 2),
    (_if, 2),
    (_for, 2),
    (_while, 1),
]
_NESTED = (_if, _for, _while, _rebound, _no_grad)


def chain(seed: int, length: int) -> str:
    """A program of views of views, with writes into the last one and into what all are views of, in turn."""
    rng = random.Random(seed)
    lines = ["y = x.clone()", "v = y"]
    steps = ["v.t()", "v.transpose(0, 1)", "v[:, :]", "v.unsqueeze(0)[0]", "v.permute(1, 0)", "v.movedim(0, 1)"]
    writes = ["v += 1", "y *= 0.5", "v[0] -= 2", "y[:, 1] += 3", "v.mul_(-0.75)", "y.t().sub_(v * 0.5)"]
    for _ in range(length):
        lines += [f"v = {rng.choice(steps)}", *rng.sample(writes, 2)]
    return "\ndef f(x, w):\n    " + "\n    ".join(lines) + "\n    return y, v\n"
