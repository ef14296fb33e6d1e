"""The programs that are compiled: in the language, and the same in TorchScript for its compiler."""

from __future__ import annotations

SWIGLU = """\
def swiglu(gate, up):
    sigmoid = torch.sigmoid(gate)
    silu = gate * sigmoid

    def backward(grad_output):
        grad_gate = grad_output * up * (sigmoid + silu * (1 - sigmoid))
        grad_up = grad_output * silu
        return grad_gate.sum_to_size(gate.size()), grad_up.sum_to_size(up.size())

    return silu * up, backward
"""

SWIGLU_TORCHSCRIPT = """\
def swiglu(gate, up):
    sigmoid = torch.sigmoid(gate)
    silu = gate * sigmoid
    return silu * up, (gate, sigmoid, silu, up)

def swiglu_backward(context: Tuple[Tensor, Tensor, Tensor, Tensor], grad_output):
    gate, sigmoid, silu, up = context
    grad_gate = grad_output * up * (sigmoid + silu * (1 - sigmoid))
    grad_up = grad_output * silu
    return grad_gate.sum_to_size(gate.size()), grad_up.sum_to_size(up.size())
"""
"""TorchScript has no closures in source, so this is the pair that lifting makes of the above, written out."""

SWIGLU_LOSS = (
    SWIGLU
    + """\

def loss(gate, up):
    return swiglu(gate, up).sum()
"""
)

_LINES = (
    "    y = x * w + {i}",
    "    if flag:",
    "        y = torch.tanh(y)",
    "    else:",
    "        y = torch.relu(y - w)",
    "    z = torch.exp(-y) / (1 + y * y)",
    "    x = (x + z).sum(-1, keepdim=True) * w",
    "    w = torch.where(x > 0, w, w * 0.5)",
)


def many_functions(lines: int) -> str:
    """A file of that many lines: functions of 50, with branches and method calls. Valid TorchScript too."""
    text: list[str] = []
    while len(text) < lines:
        text.append(f"def f{len(text)}(x, w, flag: bool):")
        while len(text) % 50 < 49:
            room = 49 - len(text) % 50
            block = [line.format(i=len(text)) for line in _LINES] if room >= len(_LINES) else ["    x = x + w"] * room
            text += block
        text.append("    return x")
    return "\n".join(text[:lines]) + "\n"


def long_function(statements: int) -> str:
    """One function of that many assignments, each of which uses the one before."""
    body = [f"    x{i + 1} = x{i} * w + {i % 7}" for i in range(statements)]
    return "\n".join(["def long(x0, w):", *body, f"    return x{statements}"]) + "\n"
