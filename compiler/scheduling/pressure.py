"""What a tile asks of a multiprocessor: registers for the values that are alive at once, bytes for what is fetched.

    %x = load …
    %2 = mul(%x, %x)                     what is used at once, element by element, takes no room
    %s = reduce sum %2 over j        1   x waits for the whole row
    %3 = mul(%x, %s)
    store …, %3

Counted are 32-bit words for one point of the tile, along the axes that a program walks or holds at once. A half that
was loaded is half a word: it is widened where it is used. What a loop over a serial axis carries is alive from its
beginning to its end: sums, and what does not change from row to row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import prod

from ..kernel_ir.kernel import Cast, Definition, Kernel, Load, Reduce, Statement, Uniform
from ..kernel_ir.statements import slice_of, used_names
from .order import DRAWING
from .strides import next_power
from .tiles import is_tiled


def words_alive(kernel: Kernel, *, at_least: bool = False, each: int = 0, widened: bool = False) -> float:
    """32-bit words of one point's values that wait for others at once, 1 at least.

    Of a tile, what lies along some of its axes is of as many words as there are points along the others; `at_least`
    where each of them has it in the same thread, which has so many points, `each`, if that is said, and one word of a
    value at least. Halves are a word each if they are `widened` when they are loaded.
    """
    shares = _shares(kernel) if at_least else {}
    waiting = _waiting(kernel, _words(kernel, shares, 1 / each if each else 0, widened=widened))
    return max(waiting, _loaded_first(kernel, _words(kernel, shares, widened=widened)), 1)


def words_held(kernel: Kernel) -> float:
    """32-bit words of one point's values that wait for others, halves widened, beside what comes to the first reduction
    from memory."""
    return _waiting(kernel, _words(kernel, {}, widened=True))


def _waiting(kernel: Kernel, words: Mapping[str, float]) -> float:
    """The most 32-bit words that wait at once, of values that take so many, with what is carried from row to row."""
    tile = _tile(kernel)
    carried = _carried(kernel)
    used = [used_names(statement) for statement in kernel.body]
    ignored = carried | _used_up(kernel.body, used)
    last_use = {name: position for position, names in enumerate(used) for name in names}
    waited_for = last_use.keys() - ignored
    alive: dict[str, float] = {}
    most = 0.0
    for position, statement in enumerate(kernel.body):
        for name in used[position]:
            if last_use[name] == position:
                alive.pop(name, None)
        if isinstance(statement, Reduce | Uniform):
            drawing = DRAWING if isinstance(statement, Uniform) else 0
            most = max(most, sum(alive.values()) + drawing)
        if isinstance(statement, Definition) and statement.axes & tile and statement.name in waited_for:
            alive[statement.name] = words[statement.name]
    return most + sum(words[name] for name in carried)


def _loaded_first(kernel: Kernel, words: Mapping[str, float]) -> float:
    """32-bit words of what the first reduction needs of memory: all of it is on its way at once."""
    if kernel.with_role("serial"):
        return 0
    first = next((s for s in kernel.body if isinstance(s, Reduce)), None)
    needed = slice_of(kernel.body, used_names(first)) if first is not None else []
    return sum(words[s.name] for s in needed if isinstance(s, Load) and s.axes & _tile(kernel))


def _words(kernel: Kernel, shares: Mapping[str, float], least: float = 0, *, widened: bool = False) -> dict[str, float]:
    """32-bit words of each value for one point of the tile, by the share that a point along an axis has of it, of which
    one has so much at least."""
    found: dict[str, float] = {}
    halves: set[str] = set()
    for statement in kernel.body:
        if not isinstance(statement, Definition):
            continue
        if isinstance(statement, Load) and statement.dtype.is_half:
            halves.add(statement.name)
        is_half = statement.name in halves or (isinstance(statement, Cast) and statement.operand in halves)
        found[statement.name] = max(_share(statement, shares), least) * (
            0.5 if is_half and not widened else -(-statement.dtype.itemsize // 4)
        )
    return found


def _share(statement: Definition, shares: Mapping[str, float]) -> float:
    """What part of a value that varies along a tile lies at one point of it."""
    if not shares or statement.axes.isdisjoint(shares):
        return 1
    return prod(share for name, share in shares.items() if name not in statement.axes)


def _shares(kernel: Kernel) -> dict[str, float]:
    """The axes of a tile, and what part of its points lies at one point of each; none of a row's."""
    if not is_tiled(kernel):
        return {}
    return {axis.name: 1 / next_power(axis.size) for axis in kernel.with_role("reduction")}


def loaded_words(kernel: Kernel, *, at_least: bool = False, widened: bool = False) -> float:
    """32-bit words that one point of the tile loads; `at_least` and `widened` as above."""
    tile, words = _tile(kernel), _words(kernel, _shares(kernel) if at_least else {}, widened=widened)
    return sum(words[s.name] for s in kernel.body if isinstance(s, Load) and s.axes & tile)


def accumulated_words(kernel: Kernel) -> int:
    """32-bit words that a looped kernel keeps for each point of the tile: one value of each reduction."""
    return sum(-(-s.dtype.itemsize // 4) for s in kernel.body if isinstance(s, Reduce))


def bytes_fetched(kernel: Kernel, along: frozenset[str]) -> float:
    """Bytes that are loaded for one point of the tile in each turn of a loop along axes."""
    tile, shares = _tile(kernel), _shares(kernel)
    loads = [s for s in kernel.body if isinstance(s, Load) and s.axes & along and s.axes & tile]
    return sum(s.dtype.itemsize * _share(s, shares) for s in loads)


def _tile(kernel: Kernel) -> frozenset[str]:
    """The axes whose points a program holds at once, but for those that several programs share."""
    axes = kernel.with_role("reduction") or kernel.with_role("serial")
    return frozenset(axis.name for axis in axes)


def _carried(kernel: Kernel) -> frozenset[str]:
    """The values of a row's points that live as long as a loop over the serial axes."""
    serial = frozenset(axis.name for axis in kernel.with_role("serial"))
    if not serial:
        return frozenset()
    sums = {s.name for s in kernel.body if isinstance(s, Reduce) and s.over & serial}
    needed = {name for s in kernel.body if _is_inside(s, serial) for name in used_names(s)}
    row = _tile(kernel) - serial
    outside = {s.name for s in kernel.body if isinstance(s, Definition) and s.axes & row and not s.axes & serial}
    return frozenset(sums | (outside & needed))


def _is_inside(statement: Statement, serial: frozenset[str]) -> bool:
    """Whether a statement is one of the loop's own."""
    return isinstance(statement, Definition) and bool(statement.axes & serial)


def _used_up(body: Sequence[Statement], used: Sequence[Sequence[str]]) -> set[str]:
    """The values that nothing uses but one reduction, which takes them as they are made."""
    counts = Counter(name for names in used for name in names)
    reduced = [names for statement, names in zip(body, used, strict=True) if isinstance(statement, Reduce)]
    return {name for names in reduced for name in names if counts[name] == 1}
