"""The stages of the example, to the letter."""

from __future__ import annotations

from gradscript.compiler.unparse import unparse_closure_stage, unparse_function, unparse_pair, unparse_unit
from roundtrip import check_unit, compiled

MUL = """\
def mul(self, other):
    def backward(grad_output):
        grad_self = (grad_output * other).sum_to_size(self.size())
        grad_other = (grad_output * self).sum_to_size(other.size())
        return grad_self, grad_other
    return self * other, backward
"""

CODE = """\
def mul(self, other):
    def backward(grad_output):
        grad_self = (grad_output * other).sum_to_size(self.size())
        grad_other = (grad_output * self).sum_to_size(other.size())
        return grad_self, grad_other
    return self * other, backward
"""

CLOSURE = """\
def mul(self: Tensor, other: Tensor) -> Tensor:
    def backward(grad_output):
        return mul_backward((other, self), grad_output)
    return self * other, backward


def mul_backward(context: Tuple[Tensor, Tensor], grad_output: Tensor) -> Tuple[Tensor, Tensor]:
    other, self, = context
    grad_self = (grad_output * other).sum_to_size(self.size())
    grad_other = (grad_output * self).sum_to_size(other.size())
    return grad_self, grad_other
"""

LIFTED = """\
def mul(self: Tensor, other: Tensor) -> Tuple[Tensor, Tuple[Tensor, Tensor]]:
    return (self * other, (other, self))


def backward(context: Tuple[Tensor, Tensor], grad_output: Tensor) -> Tuple[Tensor, Tensor]:
    other, self, = context
    grad_self = (grad_output * other).sum_to_size(self.size())
    grad_other = (grad_output * self).sum_to_size(other.size())
    return grad_self, grad_other
"""

SIGMOID = """\
def act(x):
    s = torch.sigmoid(x)
    def backward(grad):
        slope = s * (1 - s)
        def backward_of_backward(grad_grad):
            return grad_grad * slope, grad_grad * grad
        return grad * slope, backward_of_backward
    return s, backward
"""

SIGMOID_LIFTED = """\
def act(x: Tensor) -> Tuple[Tensor, Tuple[Tensor]]:
    s = torch.sigmoid(x)
    return (s, (s,))


def backward(context: Tuple[Tensor], grad: Tensor) -> Tensor:
    s, = context
    return grad * (s * (1 - s))


def act_backward(context: Tuple[Tensor], grad: Tensor) -> Tuple[Tensor, Tuple[Tensor, Tensor]]:
    s, = context
    slope = s * (1 - s)
    return (grad * slope, (slope, grad))


def backward_of_backward(context: Tuple[Tensor, Tensor], grad_grad: Tensor) -> Tuple[Tensor, Tensor]:
    slope, grad, = context
    return grad_grad * slope, grad_grad * grad
"""


def test_code() -> None:
    callees = compiled(MUL)
    assert unparse_unit(callees) == CODE
    assert unparse_function(callees["mul"]) + "\n" == CODE
    assert check_unit(MUL) == CODE


def test_closure_stage() -> None:
    assert unparse_closure_stage(compiled(MUL)["mul"]) == CLOSURE
    assert "mul_backward" in compiled(CLOSURE)


def test_lifted() -> None:
    pair = compiled(MUL)["mul"].pair
    assert pair is not None
    assert unparse_pair(pair) == LIFTED


def test_second_order() -> None:
    callee = compiled(SIGMOID)["act"]
    assert callee.pair is not None
    text = unparse_pair(callee.pair)
    assert [line for line in text.splitlines() if line.startswith("def ")] == [
        line for line in SIGMOID_LIFTED.splitlines() if line.startswith("def ")
    ]
    check_unit(SIGMOID)
    stage = unparse_closure_stage(callee)
    assert "            return act_backward_of_backward((slope, grad), grad_grad)\n" in stage
    assert stage.count("def act_backward_of_backward(context: Tuple[Tensor, Tensor], grad_grad: Tensor)") == 1
    compiled(stage)


def test_empty_context() -> None:
    source = "def f(x):\n    def backward(grad):\n        return grad\n    return torch.neg(x), backward\n"
    pair = compiled(source)["f"].pair
    assert pair is not None
    assert unparse_pair(pair) == (
        "def f(x: Tensor) -> Tuple[Tensor, Tuple[()]]:\n    return (-x, ())\n\n\n"
        "def backward(context: Tuple[()], grad: Tensor) -> Tensor:\n    return grad\n"
    )
    check_unit(source)
