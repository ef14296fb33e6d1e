"""Blocks as lines of source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from ...lang.light_dataclasses import dataclass, field
from ...lang.trampoline import Walk, run
from ..ir.kinds import entering, leaving, parameters
from ..ir.node import Block, Node, Value
from ..types.types import ListType, OptionalType
from .expressions import OR, ExpressionText
from .inlining import FunctionShape, is_bare, raises
from .literals import annotation
from .names import SourceNames
from .written import REPEATED

INDENT = "    "
DEFAULT_MESSAGE = "assertion failed"
_UNPACKED = ("prim::TupleUnpack", "prim::ListUnpack")

Closure = Callable[["StatementWriter", Node, int], bool]
"""Writes a closure where it stands; False to have it written as it is."""


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of source, how many levels in it stands, and the node that it says.

    What moves values from name to name, or opens the other side of a branch, says no node.
    """

    depth: int
    text: str
    node: Node | None = None

    def __str__(self) -> str:
        return INDENT * self.depth + self.text


@dataclass(slots=True)
class StatementWriter:
    """The lines of one function so far."""

    shape: FunctionShape
    names: SourceNames
    text: ExpressionText
    closure: Closure | None = None
    lines: list[SourceLine] = field(default_factory=list)

    def add(self, depth: int, line: str, node: Node | None = None) -> None:
        self.lines.append(SourceLine(depth, line, node))

    def body(self, block: Block, depth: int, *, parenthesized: bool = False) -> None:
        """A function's statements, `return` included."""
        run(self._function(block, depth, parenthesized))

    def _function(self, block: Block, depth: int, parenthesized: bool) -> Walk:
        yield self._statements(block, depth)
        if not raises(block):
            values = ", ".join(self.text.of(v) for v in block.outputs)
            is_tuple = parenthesized and len(block.outputs) > 1
            self.add(depth, f"return ({values})" if is_tuple else f"return {values}", block.ret)

    def _written(self, block: Block) -> list[Node]:
        """The nodes that are statements of their own."""
        shape = self.shape
        return [n for n in block.nodes if n.kind not in REPEATED and n not in shape.inlined and n not in shape.silent]

    def _statements(self, block: Block, depth: int) -> Walk:
        for node in self._written(block):
            if node.kind == "prim::If" and node not in self.shape.expressions:
                yield self._branch(node, depth)
            elif node.kind == "prim::Loop":
                yield self._loop(node, depth)
            elif node.kind == "prim::Function":
                yield self._closure(node, depth)
            else:
                self._simple(node, depth)

    def _simple(self, node: Node, depth: int) -> None:
        if node.kind == "prim::RaiseException":
            self.add(depth, self._raise(node), node)
            return
        if is_bare(node):
            self.add(depth, self.text.node(node), node)
            return
        names = [self.names[v] for v in node.outputs]
        if node.kind in _UNPACKED:
            if names:
                self.add(depth, f"{', '.join(names)}, = {self.text.of(node.inputs[0])}", node)
        elif node.kind == "prim::unchecked_cast":
            self.add(depth, f"{names[0]}: {annotation(node.output.type)} = {self.text.of(node.inputs[0])}", node)
        elif len(names) == 1:
            typed = f": {annotation(node.output.type)}" if _is_wider(node) else ""
            self.add(depth, f"{names[0]}{typed} = {self.text.node(node)}", node)
        else:
            self.add(depth, f"{', '.join(names)}, = {self.text.node(node)}", node)

    def _raise(self, node: Node) -> str:
        message, name = node.inputs[0], node.inputs[1].node.attrs["value"]
        is_empty = message.node.kind == "prim::Constant" and message.node.attrs["value"] == ""
        return f"raise {name}" if is_empty else f"raise {name}({self.text.of(message)})"

    # Closures

    def _closure(self, node: Node, depth: int) -> Walk:
        if self.closure is not None and self.closure(self, node, depth):
            return
        (block,) = node.blocks
        self.add(depth, f"def {self.names[node.output]}({self.parameters(block.inputs)}):", node)
        yield self._function(block, depth + 1, False)

    def parameters(self, values: Iterable[Value]) -> str:
        """A closure's parameters; a Tensor goes without saying."""
        parts = []
        for value in values:
            type = annotation(value.type)
            parts.append(self.names[value] + ("" if type == "Tensor" else f": {type}"))
        return ", ".join(parts)

    # Branches

    def _branch(self, node: Node, depth: int) -> Walk:
        test, keyword = self.text.of(node.inputs[0]), "if"
        message = self._assertion(node)
        if message is not None:
            self.add(depth, f"assert {test}{message}", node)
            return
        while True:
            then, otherwise = node.blocks
            self.add(depth, f"{keyword} {test}:", node)
            yield self._side(node, 0, then, depth + 1)
            following = self._only_branch(node, otherwise)
            if following is None:
                break
            node, keyword = following, "elif"
            test = self.text.of(node.inputs[0])
        if self._written(otherwise) or self._results(node, 1):
            self.add(depth, "else:")
            yield self._side(node, 1, otherwise, depth + 1)

    def _side(self, node: Node, index: int, block: Block, depth: int) -> Walk:
        count = len(self.lines)
        yield self._statements(block, depth)
        self._moves(self._results(node, index), depth)
        if len(self.lines) == count:
            self.add(depth, "pass")

    def _results(self, node: Node, index: int) -> dict[str, Value]:
        """What one side of a branch must still assign at its end."""
        block = node.blocks[index]
        if raises(block):
            return {}
        return self._copies(zip(node.outputs, block.outputs, strict=True))

    def _only_branch(self, node: Node, otherwise: Block) -> Node | None:
        """The branch that is all of the other side: `elif`."""
        written = self._written(otherwise)
        if len(written) != 1 or written[0].kind != "prim::If" or written[0] in self.shape.expressions:
            return None
        return None if self._assertion(written[0]) is not None or self._results(node, 1) else written[0]

    def _assertion(self, node: Node) -> str | None:
        """The end of an `assert` that the branch is; None if it is none."""
        then, otherwise = node.blocks
        failing = self._written(otherwise)
        if node.outputs or self._written(then) or len(failing) != 1 or failing[0].kind != "prim::RaiseException":
            return None
        message, name = failing[0].inputs
        if name.node.attrs["value"] != "AssertionError":
            return None
        text = self.text.of(message)
        is_default = message.node.kind == "prim::Constant" and message.node.attrs["value"] == DEFAULT_MESSAGE
        return "" if is_default else f", {text}"

    # Loops

    def _loop(self, node: Node, depth: int) -> Walk:
        (block,) = node.blocks
        header = self.shape.headers[node]
        entry, results = self._carried(node, entering(node)), self._carried(node, leaving(block))
        renamed = {
            self.shape.uses.root(result): self.names[param]
            for param, result in zip(parameters(block), leaving(block), strict=True)
            if self.shape.is_variable(self.shape.uses.root(result))
        }
        for result, k in header.slots.items():
            renamed[result] = self.names[block.inputs[k + 1]]
        test = None
        if header.test is not None:
            test = self._test_variable(node, renamed, entry, results)
            if test is None:
                test = self.text.of(header.test, OR, renamed)
        self._end_of_round(node, entry, test, depth, "0")
        if header.is_while:
            self.add(depth, f"while {test}:", node)
        else:
            self.add(depth, f"for {self.names[block.inputs[0]]} in {self._iterable(node)}:", node)
        count = len(self.lines)
        yield self._statements(block, depth + 1)
        if not raises(block):
            self._end_of_round(node, results, test, depth + 1, f"{self.names[block.inputs[0]]} + 1")
        if test is not None and not header.is_while:
            self.add(depth + 1, f"if {'' if header.breaks_if else 'not '}{test}:")
            self.add(depth + 2, "break")
        if len(self.lines) == count:
            self.add(depth + 1, "pass")

    def _end_of_round(self, node: Node, moves: dict[str, Value], test: str | None, depth: int, count: str) -> None:
        """What a round begins with: the carried values, the count of a `while` that needs it, and the test."""
        (block,) = node.blocks
        index = block.inputs[0]
        if not self.shape.headers[node].is_while:
            self._moves(moves, depth)
            return
        last: dict[str, Value] = {}
        # A test that is one of the carried values is set together with them.
        if test is not None and test in moves and self.shape.uses.root(moves[test]).node is not block.param:
            last[test] = moves.pop(test)
        # Read again, the count is a variable like others: set among them before the loop, and computed in the body.
        name = self.names[index]
        counted: dict[str, str] = {}
        if index.use_count and count == "0":
            counted[name] = count
        elif index.use_count and any(self.shape.uses.root(value) is index for value in moves.values()):
            counted[name] = self.names.fresh(name)
            self.add(depth, f"{counted[name]} = {count}")
        elif index.use_count:
            self.add(depth, f"{name} = {count}")
        self._moves(moves, depth, counted)
        self._moves(last, depth)

    def _iterable(self, node: Node) -> str:
        """What a `for` runs over."""
        index, trips = node.blocks[0].inputs[0], node.inputs[0]
        is_item = self.shape.uses.root(index) is not index
        if is_item and trips.node.kind == "aten::len.t":
            return self.text.of(trips.node.inputs[0])
        is_derived = trips.node in self.shape.inlined and trips.node.kind == "aten::__range_length"
        if not is_derived or not (is_item or not index.use_count):
            return f"range({self.text.of(trips)})"
        start, stop, step = trips.node.inputs
        is_one = step.node.kind == "prim::Constant" and step.node.attrs["value"] == 1
        bounds = (start, stop) if is_one else (start, stop, step)
        return f"range({', '.join(self.text.of(v) for v in bounds)})"

    def _test_variable(
        self, node: Node, renamed: Mapping[Value, str], entry: dict[str, Value], results: dict[str, Value]
    ) -> str | None:
        """The variable that carries the test, set with the other carried values; None if it needs none."""
        header = self.shape.headers[node]
        assert header.test is not None
        if not header.by_variable:
            return None
        root = self.shape.uses.root(header.test)
        if not header.is_while and self.shape.is_variable(root):
            targets = {self.names[param] for param in parameters(node.blocks[0])}
            if root in renamed or self.names[root] not in targets:
                return None
        name = self.names.fresh("proceed" if header.is_while or not header.breaks_if else "stop")
        results[name] = header.test
        if header.is_while:
            entry[name] = node.inputs[1]
        return name

    def _carried(self, node: Node, sources: Sequence[Value]) -> dict[str, Value]:
        return self._copies(zip(parameters(node.blocks[0]), sources, strict=True))

    # Copies

    def _copies(self, pairs: Iterable[tuple[Value, Value]]) -> dict[str, Value]:
        """The assignments left: of each target's name that is not the source's already."""
        found: dict[str, Value] = {}
        for target, source in pairs:
            root = self.shape.uses.root(source)
            if self.shape.uses.root(target) is root:
                continue
            if not self.shape.is_variable(root) or self.names[root] != self.names[target]:
                found[self.names[target]] = root
        return found

    def _moves(self, moves: Mapping[str, Value], depth: int, written: Mapping[str, str] | None = None) -> None:
        """Assign all at once, and what is `written` already: one by one where the order allows it, else as tuples."""
        written = written or {}
        sources = {t: self.names[v] if self.shape.is_variable(v) else "" for t, v in moves.items()}
        sources |= written
        readers: dict[str, int] = {}
        for source in sources.values():
            readers[source] = readers.get(source, 0) + 1
        ready = sorted((t for t in sources if not readers.get(t)), reverse=True)
        left = dict.fromkeys(sorted(sources))
        while ready:
            target = ready.pop()
            del left[target]
            if target in moves:
                self._move(target, moves[target], depth)
            else:
                self.add(depth, f"{target} = {written[target]}")
            source = sources[target]
            readers[source] -= 1
            if source in left and not readers[source]:
                ready.append(source)
        if left:
            self.add(depth, f"{', '.join(left)} = {', '.join(sources[t] for t in left)}")

    def _move(self, target: str, source: Value, depth: int) -> None:
        node = source.node
        is_empty_list = node.kind == "prim::Constant" and node.attrs["value"] == []
        typed = f": {annotation(source.type)}" if is_empty_list else ""
        self.add(depth, f"{target}{typed} = {self.text.of(source)}")


def _is_wider(node: Node) -> bool:
    """Whether a list display is of another type than its elements make it."""
    type = node.output.type
    if node.kind != "prim::ListConstruct" or not isinstance(type, ListType):
        return False
    of_optionals = isinstance(type.element, OptionalType) and all(v.type != type.element for v in node.inputs)
    return not node.inputs or of_optionals
