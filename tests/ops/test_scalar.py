"""The scalar expression: how it is built, made linear and specialised."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from gradscript.compiler.ops import OPS
from gradscript.compiler.ops import scalar as s
from gradscript.compiler.ops.elementwise import RULES, SYMBOLIC
from gradscript.compiler.ops.scalar import CHOICES, EVALUATED, PRIMITIVES, Scalar, linearize, parameter


def text(expression: Scalar) -> str:
    """One line per step: `%2 = mul(%0, %1)`."""
    lines = []
    for i, step in enumerate(linearize(expression)):
        operands = ", ".join(f"%{operand}" for operand in step.operands)
        lines.append(f"%{i} = {step.op}({operands})" if step.operands else f"%{i} = {step.op} {step.value}".rstrip())
    return "\n".join(lines)


def expression(name: str, *arguments: object) -> Scalar:
    return OPS.named(f"aten::{name}").scalar.expression(arguments)


def test_operators_build_nodes_and_equal_nodes_are_one() -> None:
    x, y = parameter(0), parameter(1)
    assert text((x + y) * (x + y)) == "%0 = parameter 0\n%1 = parameter 1\n%2 = add(%0, %1)\n%3 = mul(%2, %2)"


def test_constants_of_different_kinds_are_not_one() -> None:
    assert text((parameter(0) + 0.0) * (parameter(0) + -0.0)).count("constant") == 2


def test_a_bool_among_numbers_and_a_number_among_bools() -> None:
    x = parameter(0)
    assert text((x > 0) * x).splitlines()[-2:] == ["%3 = number(%2)", "%4 = mul(%3, %0)"]
    assert text(s.where(x, x, x)).splitlines()[-2:] == ["%2 = ne(%0, %1)", "%3 = where(%2, %0, %0)"]


def test_no_truth_value() -> None:
    with pytest.raises(TypeError, match="where"):
        bool(parameter(0) > 0)


def test_depth_is_no_problem() -> None:
    node = parameter(0)
    for _ in range(10 * sys.getrecursionlimit()):
        node = s.sin(node)
    assert len(linearize(node)) == 10 * sys.getrecursionlimit() + 1


def test_defaults_and_absent_arguments_leave_the_expression() -> None:
    add, clamp = OPS.named("aten::add.Tensor").scalar, OPS.named("aten::clamp").scalar
    assert text(add.expression((SYMBOLIC, SYMBOLIC, 1))).count("\n") == 2
    assert text(add.expression((SYMBOLIC, SYMBOLIC, SYMBOLIC))).count("\n") == 4
    assert "maximum" not in text(clamp.expression((SYMBOLIC, None, SYMBOLIC)))
    assert "sigmoid" in text(expression("gelu", SYMBOLIC, "tanh"))
    assert "sigmoid" not in text(expression("gelu", SYMBOLIC, "none"))


def test_every_parameter_is_an_argument_and_every_operation_a_primitive() -> None:
    for op in OPS.all():
        if op.scalar is None or op.schema.full_name in ("aten::clamp", "aten::clamp.Tensor"):
            continue
        chosen = {"rounding_mode": None, "decimals": 2, "n": 2}
        arguments = [chosen.get(a.name, SYMBOLIC) if a.required else a.default for a in op.schema.arguments]
        steps = linearize(op.scalar.expression(arguments))
        used = {step.value for step in steps if step.op == "parameter"}
        assert used == {i for i, v in enumerate(arguments) if v is SYMBOLIC}, op.schema
        assert {step.op for step in steps} <= {*EVALUATED, "parameter", "constant"}


def test_the_table_of_primitives() -> None:
    for name, primitive in EVALUATED.items():
        assert primitive.name == name and primitive.meaning
        assert len(primitive(*[parameter(i) for i in range(primitive.arity)]).args) == primitive.arity


def test_a_choice_is_among_what_emitters_have_texts_for() -> None:
    for choice in CHOICES.values():
        assert {*choice.cases.values(), choice.otherwise} <= PRIMITIVES.keys()
        assert all(PRIMITIVES[name].arity == choice.arity - 1 for name in choice.cases.values())


def test_rules_and_temporaries() -> None:
    assert "promote" in RULES
    x = np.linspace(-3, 3, 7)
    program = OPS.named("aten::gelu").scalar.specialize((x, "tanh"))
    program.run((x, "tanh"))
    assert program._programs
    for compiled in program._programs.values():
        assert len(compiled.registers) < len(compiled.code) + len(compiled.parameters)
