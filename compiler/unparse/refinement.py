"""What a test tells about optionals: which unwrapping its branches get by themselves.

In `if x is not None:` the name `x` stands for the value unwrapped. That is the graph's meaning if all that the
branch uses of x is one prim::unchecked_unwrap_optional, done before all else, which then needs no text. If it uses the
optional itself too, or unwraps it further down, the test must not refine the name.
"""

from __future__ import annotations

from ...lang.light_dataclasses import dataclass, field
from ..ir.node import Block, Node, Value
from ..ir.rewrite import CONSTANT
from .uses import Uses
from .written import Written

_UNWRAP = "prim::unchecked_unwrap_optional"
Presence = dict[Value, bool]


@dataclass(slots=True)
class KnownOptionals:
    """Which optionals hold a value (True) or None (False) where a test holds, and where it does not."""

    if_true: Presence = field(default_factory=dict)
    if_false: Presence = field(default_factory=dict)

    def implied(self, uses: Uses, branch: Node, stays: int | None) -> list[Node] | None:
        """The unwrapping done by the branch's own refinement; None if a use contradicts it."""
        found: list[Node] = []
        owner = branch.owner
        assert owner is not None
        for index, (block, known) in enumerate(zip(branch.blocks, (self.if_true, self.if_false), strict=True)):
            regions = [(block, *uses.range(block))]
            if index == stays:
                regions.append((owner, uses.end[branch], uses.at[owner.ret]))
            for value, present in known.items():
                for where, after, until in regions:
                    users = uses.used_within(value, after, until)
                    if users and not (present and _is_one_unwrap(users, where) and _is_first(users[0], after, uses)):
                        return None
                    found += users
        return found


def _is_one_unwrap(users: list[Node], block: Block) -> bool:
    return len(users) == 1 and users[0].kind == _UNWRAP and users[0].owner is block


def _is_first(unwrap: Node, after: int, uses: Uses) -> bool:
    """Whether a refinement would put it there: before all else that the region does."""
    before = unwrap.previous
    while before is not None and before.kind in (_UNWRAP, CONSTANT) and uses.at[before] > after:
        before = before.previous
    return before is None or uses.at[before] <= after


def known_of(written: Written, test: Value) -> KnownOptionals:
    """What a test that is written in place tells; one that has a name tells nothing. As deep as expressions get."""
    node = test.node
    if node not in written.inlined:
        return KnownOptionals()
    if node.kind == "aten::__not__.bool":
        inner = known_of(written, node.inputs[0])
        return KnownOptionals(inner.if_false, inner.if_true)
    if node.kind in ("aten::__is__", "aten::__isnot__"):
        return _of_is(written, node)
    joined_by = connective(node) if node.kind == "prim::If" else None
    if joined_by is None:
        return KnownOptionals()
    left = known_of(written, node.inputs[0])
    right = known_of(written, node.blocks[0 if joined_by == "and" else 1].outputs[0])
    if joined_by == "and":
        return KnownOptionals(if_true=left.if_true | right.if_true)
    return KnownOptionals(if_false=left.if_false | right.if_false)


def _of_is(written: Written, node: Node) -> KnownOptionals:
    value = written.uses.root(node.inputs[0])
    if not written.is_variable(value):
        return KnownOptionals()
    is_none = node.kind == "aten::__is__"
    return KnownOptionals({value: not is_none}, {value: is_none})


def connective(node: Node) -> str | None:
    """`and` or `or`, if the branch is one."""
    if len(node.outputs) != 1 or str(node.outputs[0].type) != "bool":
        return None
    for name, short, value in (("and", 1, False), ("or", 0, True)):
        result = node.blocks[short].outputs[0]
        if result.node.kind == "prim::Constant" and result.node.attrs["value"] is value:
            return name
    return None
