"""Calls that fail in the way of each code of run time, and calls that do not. Tests hold both to it."""

from __future__ import annotations

from ...lang.light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ExampleCall:
    """A program, and what is wrong with a call of it: the program or how it is called.

    The calls are Python: `cu` is the program compiled, `np` NumPy, `gs` Gradscript. `is_tried` says whether any machine
    shows the code.
    """

    program: str
    call: str
    right_call: str
    right_program: str = ""
    is_tried: bool = True

    @property
    def wrong(self) -> str:
        return f"{self.program}\n# in Python: {self.call}\n"

    @property
    def right(self) -> str:
        return f"{self.right_program or self.program}\n# in Python: {self.right_call}\n"


_SCALED = "def scaled(x, times: int):\n    return x * times\n"

CALLS: dict[str, ExampleCall] = {
    "R001": ExampleCall(_SCALED, "cu.scaled(np.ones(3))", "cu.scaled(np.ones(3), 2)"),
    "R002": ExampleCall(_SCALED, "cu.scaled(np.ones(3), 0.5)", "cu.scaled(np.ones(3), 2)"),
    "R003": ExampleCall(_SCALED, "cu.scaled(np.array(['a', 'b']), 2)", "cu.scaled(np.array([1.0, 2.0]), 2)"),
    "R101": ExampleCall(
        "def gram(x):\n    return x @ x\n",
        "cu.gram(np.ones((2, 3)))",
        "cu.gram(np.ones((2, 3)))",
        "def gram(x):\n    return x @ x.mT\n",
    ),
    "R102": ExampleCall(
        "def root(x):\n    assert bool((x > 0).all()), 'x is to be positive'\n    return torch.sqrt(x)\n",
        "cu.root(np.array([4.0, -1.0]))",
        "cu.root(np.array([4.0, 1.0]))",
    ),
    "R103": ExampleCall("def table(n: int):\n    return torch.zeros(n, n)\n", "cu.table(10**8)", "cu.table(10**2)"),
    "R104": ExampleCall(
        _SCALED,
        "gs.settings.backend = 'triton'; cu.scaled(tensor_on_a_gpu, 2)  # a GPU whose driver Triton does not know",
        "gs.settings.backend = 'auto'; cu.scaled(tensor_on_a_gpu, 2)  # `gradscript doctor` tells what runs",
        is_tried=False,
    ),
    "R105": ExampleCall(
        """\
def joined(xs: List[Tensor]):
    def backward(g):
        return [g.sum() * 2]

    return torch.stack(xs), backward
""",
        "gs.vjp(cu.joined, [np.ones(2), np.ones(2)])[1](np.ones((2, 2)))",
        "gs.vjp(cu.joined, [np.ones(2), np.ones(2)])[1](np.ones((2, 2)))",
        """\
def joined(xs: List[Tensor]):
    def backward(g):
        return g.unbind()

    return torch.stack(xs), backward
""",
    ),
    "R106": ExampleCall(
        "def halved(x):\n    while float(x.sum()) > 1.0:\n        x = x / 2\n    return x\n",
        "gs.graphed(cu.halved, tensor_on_a_gpu)",
        "gs.graphed(cu.halved, tensor_on_a_gpu)",
        "def halved(x):\n    for i in range(8):\n        x = torch.where(x.sum() > 1.0, x / 2, x)\n    return x\n",
        is_tried=False,
    ),
}
