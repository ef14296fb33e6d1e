"""Each rule of valid IR, broken once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from gradscript.compiler.ir.graph import Graph
from gradscript.compiler.ir.node import Block, Node, Use
from gradscript.compiler.ir.verify import InvalidIR, verify
from gradscript.compiler.parse_ir import parse_ir
from gradscript.compiler.types.types import INT, TENSOR
from gradscript.lang.diagnostics import CompileError

PARAMS = (
    "%x : Tensor, %n : int, %c : bool, %o : Optional[Tensor], %l : List[int], %t : Tuple[Tensor, int], %u : Undefined"
)


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ("%a : Tensor = aten::neg(%n)", "argument 'self' is Tensor, not int"),
        ("%a : Tensor = aten::neg(%o)", "argument 'self' is Tensor, not Optional[Tensor]"),
        ("%a : Tensor = aten::neg()", "aten::neg takes 1 arguments, not 0"),
        ("%a : int = aten::neg(%x)", "a result is Tensor, not int"),
        ("aten::neg(%x)", "aten::neg has 1 results, not 0"),
        ("%a : Tensor = aten::neg(%x) block(): return ()", "an op has no blocks"),
        ("%a : List[Tensor] = aten::append.t(%l, %x)", "argument 'el' is t, not Tensor"),
        ("%a : Tensor = aten::__getitem__.t(%l, %n)", "a result is int, not Tensor"),
        ("%a : int = prim::Constant[value=None]()", "the constant is no int"),
        ("%a : List[int] = prim::Constant[value=[1.5]]()", "the constant is no List[int]"),
        ("%a : int = prim::Constant()", "prim::Constant has attributes ['value'], not []"),
        ("%a : int = prim::Constant[value=1](%x)", "prim::Constant has 0 inputs, not 1"),
        ("%a : Tensor = prim::TupleConstruct(%x)", "prim::TupleConstruct makes a Tuple"),
        (
            "%a : Tuple[int] = prim::TupleConstruct(%x)",
            "Tuple[Tensor], which does not fit Tuple[int]",
        ),
        ("%a : Tensor = prim::TupleUnpack(%t)", "2 elements for 1 outputs"),
        ("%a : int, %b : int = prim::TupleUnpack(%t)", "an element is Tensor, which does not fit int"),
        ("%a : int = prim::TupleIndex[index=2](%t)", "no element 2 among 2"),
        ("%a : int = prim::TupleIndex[index=0](%x)", "prim::TupleIndex takes a Tuple, not Tensor"),
        ("%a : List[int] = prim::ListConstruct(%x)", "input 0 of prim::ListConstruct is int, not Tensor"),
        ("%a : Tensor = prim::ListUnpack(%l)", "an element is int, which does not fit Tensor"),
        ("prim::If(%n) block(): return () block(): return ()", "input 0 of prim::If is bool, not int"),
        ("prim::If(%c) block(): return ()", "prim::If has 2 blocks, not 1"),
        (
            "%a : int = prim::If(%c) block(): return (%n) block(): return (%x)",
            "results of a branch: number 0 is Tensor, which does not fit int",
        ),
        ("%a : int = prim::If(%c) block(): return () block(): return ()", "results of a branch: 0 values for 1"),
        ("prim::If(%c) block(%p : int): return () block(): return ()", "a branch of prim::If has no parameters"),
        ("prim::Loop(%n) block(%i : int): return (%c)", "prim::Loop takes a trip count and a condition"),
        ("prim::Loop(%n, %c) block(): return (%c)", "a loop body's first parameter is the int index"),
        ("prim::Loop(%n, %c) block(%i : int): return (%i)", "a loop body's first result is the condition"),
        (
            "%a : int = prim::Loop(%n, %c, %x) block(%i : int, %p : int): return (%c, %p)",
            "initial values of prim::Loop: number 0 is Tensor, which does not fit int",
        ),
        (
            "%a : Tensor = prim::Loop(%n, %c, %x) block(%i : int, %p : Tensor): return (%c, %i)",
            "results of the body of prim::Loop: number 0 is int, which does not fit Tensor",
        ),
        ('%a : int = prim::Function[name="f"]() block(): return ()', "the output of prim::Function is a Closure"),
        ("%a : Closure = prim::Function[name=1]() block(): return ()", "the name of a closure is a string"),
        ("%a : Closure = prim::Uninitialized()", "only prim::Function makes a Closure"),
        (
            '%f : Closure = prim::Function[name="f"]() block(): return () ; return (%f, %x)',
            "a Closure may only be the last result of the function that defines it",
        ),
        (
            '%f : Closure = prim::Function[name="f"]() block(): return () '
            "%p : Tuple[Closure] = prim::TupleConstruct(%f)",
            "a Closure may only be the last result of the function that defines it",
        ),
        (
            "%a : Tensor = prim::GradOf[name=1](%x) block(): return (%x)",
            "names the forward op by a string",
        ),
        ('prim::GradOf[name="f"](%x) block(%p : int): return ()', "the block of prim::GradOf has no parameters"),
        ("%a : Tensor = prim::AutogradZero()", "the output of prim::AutogradZero is Undefined"),
        ("%a : Tensor = prim::AutogradAdd(%x, %n)", "input 1 of prim::AutogradAdd is Tensor, not int"),
        ("%a : Undefined = prim::MaterializeGrad(%u, %l, %n)", "prim::MaterializeGrad gives a Tensor"),
        ("%a : int = prim::unchecked_unwrap_optional(%o)", "Optional[Tensor] does not unwrap to int"),
        ("%a : int = prim::unchecked_cast(%x)", "a Tensor is never a int"),
        ("%a : Tensor = prim::CallFunction[callee=1]()", "the callee is named by a string"),
        ("%a : int = prim::If(%c) block(): return (%a) block(): return (%n)", "not defined before its use"),
        (
            "prim::If(%c) block(): %a : int = prim::Constant[value=1]() return () block(): return () ; return (%a)",
            "not defined before its use",
        ),
    ],
)
def test_rules_of_kinds(body: str, rule: str) -> None:
    end = "" if ";" in body else " return ()"  # with a `;`, the body brings the return of its own
    with pytest.raises(CompileError) as caught:
        parse_ir(f"graph f({PARAMS}): {body}{end}".replace(";", ""))
    assert caught.value.code == "E504"
    assert rule in caught.value.message


@pytest.mark.parametrize(
    "body",
    [
        "%a : Tensor = aten::neg(%u)",
        "%a : Tensor[float64] = aten::neg(%x)",
        "%a : bool = aten::__is__(%o, %x)",
        "%a : int = aten::__getitem__.t(%l, %n)",
        "%a : List[int] = aten::append.t(%l, %n)",
        "%a : number = prim::If(%c) block(): return (%n) block(): %f : float = prim::Constant[value=1.0]() return (%f)",
        "%a : Optional[Tensor] = prim::If(%c) block(): return (%x) block(): return (%o)",
        '%a : Device = prim::Constant[value="cpu"]()',
        "%a : List[Optional[int]] = prim::Constant[value=[1, None]]()",
        '%f : Closure = prim::Function[name="f"]() block(%g : Tensor): %h : Closure = prim::Function[name="h"]() '
        "block(): return (%g) return (%x, %h)",
        "%a : Tensor = prim::AutogradAdd(%u, %u)",
        "%a : Tuple[()] = prim::TupleConstruct()",
    ],
)
def test_what_is_valid(body: str) -> None:
    text = str(parse_ir(f"graph f({PARAMS}): {body} return ()"))
    assert str(parse_ir(text)) == text


def _break(how: Callable[[Graph, Node, Node], object]) -> InvalidIR:
    graph = parse_ir(
        "graph f(%x : Tensor): %a : Tensor = aten::neg(%x) %b : Tensor = aten::exp(%a) return (%b)", "f.ir"
    )
    first, second = graph.nodes
    how(graph, first, second)
    with pytest.raises(InvalidIR) as caught:
        verify(graph)
    return caught.value


@pytest.mark.parametrize(
    ("how", "rule"),
    [
        (lambda g, a, b: a.output._uses.clear(), "input 0 does not list this use"),
        (lambda g, a, b: a.output._uses.update({Use(a, 5): None}), "lists a use by aten::neg that does not exist"),
        (lambda g, a, b: a.output._uses.update({Use(Node("x"), 0): None}), "lists a use by x that does not exist"),
        (lambda g, a, b: a.unlink(), "not defined before its use"),
        (lambda g, a, b: a.unlink().insert_after(b), "not defined before its use"),
        (lambda g, a, b: setattr(b, "previous", None), "broken links between nodes"),
        (lambda g, a, b: setattr(b, "owner", Block()), "neighbours have the same owner"),
        (lambda g, a, b: setattr(b, "next", a), "broken links between nodes"),
        (lambda g, a, b: setattr(a.output, "node", b), "an output belongs to its node"),
        (lambda g, a, b: b.outputs.append(a.output), "aten::exp has 1 results, not 2"),
        (lambda g, a, b: setattr(b, "kind", "aten::sin"), "the kind is the schema's full name"),
        (lambda g, a, b: setattr(b, "schema", None), "neither structural nor an op"),
        (lambda g, a, b: setattr(b, "kind", "prim::Return"), "Param and Return stand only at the ends"),
        (lambda g, a, b: b.attrs.update({"a b": 1}), "attribute 'a b' has no proper name"),
        (lambda g, a, b: b.attrs.update({"a": object()}), "or is no constant"),
        (lambda g, a, b: setattr(g.body, "node", b), "the body of a graph belongs to no node"),
        (lambda g, a, b: setattr(g.body.ret, "owner", None), "a block owns its Param and Return"),
        (lambda g, a, b: g.body.ret.add_output(TENSOR), "malformed Return node"),
        (lambda g, a, b: g.body.param.add_input(a.output), "malformed Param node"),
        (lambda g, a, b: g.body.param.outputs.append(a.output), "an output belongs to its node"),
        (lambda g, a, b: g.body.param.outputs.append(g.inputs[0]), "a value is defined twice"),
        (lambda g, a, b: setattr(g.inputs[0], "type", INT), "argument 'self' is Tensor, not int"),
    ],
)
def test_rules_of_structure(how: Callable[[Graph, Node, Node], object], rule: str) -> None:
    assert rule in _break(how).rule


def test_the_message_names_graph_node_rule_and_place() -> None:
    invalid = _break(lambda g, a, b: setattr(g.inputs[0], "type", INT))
    assert str(invalid) == ("graph f: argument 'self' is Tensor, not int\n%a : Tensor = aten::neg(%x)\nat f.ir:1:23")
