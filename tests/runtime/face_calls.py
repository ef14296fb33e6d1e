"""Calls of the public face with arguments of every kind, from a seed, and what may come out of them.

What a user gets wrong ends in a CompileError or RuntimeFailure, or in a TypeError, ValueError or RuntimeError that our
own code raises on purpose; what Python, NumPy or torch raise somewhere inside says nothing to a user.
"""

from __future__ import annotations

import enum
import linecache
import random
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import gradscript as gs
import numpy as np

PACKAGE = Path(gs.__file__).parent
SOURCE = """
def mul(x, y):
    def backward(grad_output):
        return (grad_output * y).sum_to_size(x.size()), (grad_output * x).sum_to_size(y.size())
    return x * y, backward

def scale(x, factor: float = 2.0):
    def backward(grad_output):
        return grad_output * factor, None
    return x * factor, backward

def two(x, y):
    return x.sum(), y * 2

def pair_of_two(x, y):
    def backward(grad_a, grad_b):
        return grad_a * y, grad_b * x
    return (x * 2, y * 3), backward

def listed(xs: List[Tensor]):
    def backward(grad_output):
        return [grad_output * 2 for x in xs]
    return xs[0] * 2 + xs[1] * 2, backward

def pieces(x, n: int = 2) -> List[Tensor]:
    return torch.chunk(x, n)

def energy(x, n: int = 2):
    for i in range(min(n, 9)):
        x = x * x
    return x.sum()

def maybe(x, bias: Optional[Tensor] = None):
    if bias is not None:
        return (x + bias).sum()
    return x.sum()

def nested(x, t: Tuple[Tensor, float], flag: bool = False):
    a, b = t
    return x * a * b if flag else x

def summed(x, dims: List[int], mode: str = "sum", *, alpha: float = 1.0):
    if mode == "sum":
        return x.sum(dims) * alpha
    return x.mean(dims)

def rows(x) -> int:
    return x.size(0)

def picked(x, index):
    return x[index].sum()

def loss(x, weight, target):
    return F.mse_loss(torch.tanh(x @ weight), target)

def nothing():
    return torch.zeros([2])

def texts(names: List[str], x):
    return x * len(names)

def branched(x):
    if bool(x.sum() > 0):
        return x.exp().sum()
    return -x.sum()

def noisy(x):
    return F.dropout(x, 0.5, True).sum()
"""
UNIT = gs.CompilationUnit(SOURCE, "face.grad")
FUNCTIONS = [*UNIT.functions.values()]


class Colour(enum.IntEnum):
    RED = 1


class Broken:
    """Says it is an array, and is none."""

    shape = ()
    dtype = np.dtype(np.float32)
    ndim = "two"

    def __array__(self, *_: object, **__: object) -> Any:
        raise RuntimeError("no array after all")

    def __len__(self) -> int:
        raise RuntimeError("no length")


class Endless(list):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 3


def _circle() -> list[Any]:
    circle: list[Any] = []
    circle.append(circle)
    return circle


def array(*shape: int, dtype: Any = np.float32) -> Any:
    return np.arange(1, 1 + int(np.prod(shape)), dtype=np.float64).reshape(shape).astype(dtype)


FITTING: list[Callable[[], Any]] = [
    lambda: array(2, 3),
    lambda: array(2, 3, dtype=np.float64),
    lambda: array(3),
    lambda: array(2, 2),
    lambda: 1.5,
    lambda: 2,
    lambda: True,
    lambda: [array(2, 3), array(2, 3)],
    lambda: [0],
    lambda: None,
    lambda: (array(3), 0.5),
    lambda: "sum",
    lambda: array(2, 3, dtype=np.int64),
]
ODD: list[Callable[[], Any]] = [
    lambda: "text",
    lambda: b"bytes",
    list,
    lambda: (),
    dict,
    lambda: {"x": 1},
    lambda: {1, 2},
    lambda: [None],
    lambda: [1, "two", None],
    lambda: [[array(2)], array(2)],
    _circle,
    object,
    lambda: object,
    lambda: 2**70,
    lambda: -(2**63),
    lambda: -1,
    lambda: 0,
    lambda: float("nan"),
    lambda: float("inf"),
    lambda: 1j,
    lambda: Colour.RED,
    lambda: range(3),
    lambda: (i for i in range(3)),
    lambda: slice(0, 2),
    lambda: ...,
    lambda: lambda x: x,
    lambda: UNIT.energy,
    lambda: gs,
    Broken,
    lambda: Endless([1.0]),
    lambda: np.float32(2),
    lambda: np.int8(3),
    lambda: np.bool_(True),
    lambda: np.str_("x"),
    lambda: np.array(2.0),
    lambda: np.array("text"),
    lambda: np.array([None, 1], dtype=object),
    lambda: np.array([array(2), array(3)], dtype=object),
    lambda: np.array(["a", "b"]),
    lambda: np.array([1 + 2j]),
    lambda: np.array(["2020-01-01"], dtype="datetime64[D]"),
    lambda: np.zeros(2, dtype=[("a", "f4"), ("b", "i4")]),
    lambda: array(2, 3, dtype=np.float16),
    lambda: array(2, 3, dtype=np.longdouble),
    lambda: array(2, 3, dtype=np.uint16),
    lambda: array(2, 3, dtype=np.uint8),
    lambda: array(2, 3, dtype=bool),
    lambda: array(2, 3, dtype=">f4"),
    lambda: array(3, 2).T,
    lambda: array(4, 5)[::-2],
    lambda: array(0),
    lambda: array(0, 3),
    lambda: array(7),
    lambda: array(1, 1, 1, 1),
    lambda: np.zeros((1,) * 30, np.float32),
    lambda: np.broadcast_to(np.float32(1), (2, 3)),
    lambda: np.ma.masked_array(array(3), [0, 1, 0]),
    lambda: np.asmatrix(array(2, 2)),
    lambda: gs.tape.Variable(array(2, 3)),
    lambda: gs.tape.Variable(array(2, 3, dtype=np.int64)),
    lambda: [gs.tape.Variable(array(2, 3)), array(2, 3)],
    lambda: np.float32,
    lambda: np.dtype(np.float32),
]


def _torch_values() -> list[Callable[[], Any]]:
    try:
        import torch
    except ImportError:
        return []
    return [
        lambda: torch.ones(2, 3),
        lambda: torch.ones(2, 3, requires_grad=True),
        lambda: torch.ones(3, dtype=torch.float64),
        lambda: torch.tensor(1.5),
        lambda: torch.tensor([1, 0]),
        lambda: torch.ones(2, 3, dtype=torch.bfloat16),
        lambda: torch.ones(2, 3, dtype=torch.complex64),
        lambda: torch.ones(2, 3).to_sparse(),
        lambda: torch.ones(2, 3, device="meta"),
        lambda: torch.nn.Parameter(torch.ones(2, 3)),
        lambda: torch.ones(2, 3, dtype=torch.bool),
        lambda: torch.ones(0, 3),
        lambda: torch.ones(2, 3).conj(),
        lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
        lambda: [torch.ones(2, 3, requires_grad=True), torch.ones(2, 3)],
        lambda: torch.float32,
        lambda: torch.device("cpu"),
        lambda: torch.Size([2, 3]),
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    ]


TORCH = _torch_values()
POLICIES = ["min_cut", "mirror", "recompute_all", "save_all", 100, 0, -1, "other", 1.5, None, (), True, "", 2**80]
ARGNUMS: list[Any] = [
    0,
    1,
    -1,
    2,
    99,
    -99,
    (),
    [],
    (0, 1),
    (0, 0),
    [1, 0],
    True,
    0.0,
    None,
    "x",
    "01",
    [None],
    {0},
    {0: 1},
]
ARGNUMS += [np.int64(0), np.array([0, 1]), range(2), (0, (1,)), 2**70, Colour.RED, b"\0", iter([0])]


PIECES = ["0", "x", "Tensor", "(", ")", "%1", "\n", "1e400", "'", ":", "=", "\0", "é", "-", "    ", "None", "[", "->"]
"""What may stand in the place of a part of a text."""


class Caller:
    """One call at random of something public."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.told: list[str] = []

    # --- what is passed ---

    def value(self) -> Any:
        kind = self.random.random()
        pool = FITTING if kind < 0.55 else ODD if kind < 0.85 or not TORCH else TORCH
        return self._told(self.random.choice(pool)())

    def values(self, function: gs.Function) -> list[Any]:
        """Mostly as many as are taken."""
        wanted = len(function.schema.arguments)
        number = wanted if self.random.random() < 0.85 else self.random.randrange(5)
        return [self.value() for _ in range(number)]

    def named(self) -> dict[str, Any]:
        if self.random.random() < 0.8:
            return {}
        return {self.random.choice(["x", "y", "alpha", "n", "self", "args", "backward", "é"]): self.value()}

    def function(self) -> gs.Function:
        return self._told(self.random.choice(FUNCTIONS))

    def chosen(self, pool: list[Any]) -> Any:
        return self._told(self.random.choice(pool))

    def _told(self, value: Any) -> Any:
        try:
            self.told.append(repr(value)[:100])
        except Exception:
            self.told.append(type(value).__name__)
        return value

    # --- what is called ---

    def call(self) -> Any:
        function = self.function()
        return function(*self.values(function), **self.named())

    def halves(self) -> Any:
        function = self.function()
        _, context = function.forward(*self.values(function), **self.named())
        if self.random.random() < 0.3:
            context = self.value()
        elif self.random.random() < 0.2:
            context = (*context, self.value())
        return function.backward(context, *[self.value() for _ in range(self.random.choice([0, 1, 1, 1, 2, 3]))])

    def pullback(self) -> Any:
        function = self.function()
        keywords: dict[str, Any] = self.named()
        if self.random.random() < 0.15:
            keywords["policy"] = self.chosen(POLICIES)
        _, pullback = gs.vjp(function, *self.values(function), **keywords)
        return pullback(*[self.value() for _ in range(self.random.choice([0, 1, 1, 1, 2, 3]))])

    def derived(self) -> Any:
        function = self.function()
        make = self.random.choice([gs.grad, gs.value_and_grad])
        keywords: dict[str, Any] = {"allow_unused": True} if self.random.random() < 0.3 else {}
        if self.random.random() < 0.15:
            keywords["policy"] = self.chosen(POLICIES)
        made = make(function, self.chosen(ARGNUMS), **keywords)
        if self.random.random() < 0.15:
            made = gs.grad(made)
        return made(*self.values(made), **self.named())

    def misdirected(self) -> Any:
        """What takes a Function, or a Python function, is given something else."""
        take = self.chosen(
            [gs.vjp, gs.grad, gs.value_and_grad, gs.check, gs.trace, gs.script, gs.parse_ir, gs.tape.Variable]
        )
        return take(self.value())

    def unit(self) -> Any:
        return self.random.choice(
            [
                lambda: gs.CompilationUnit(self.value()),
                lambda: gs.CompilationUnit("def f(x):\n    return x\n", self.value()),
                lambda: UNIT.functions[self.chosen(["mul", "two"])].show(self.value()),
                lambda: self.function().show(self.chosen([*gs.Function.stages])),
                lambda: self.function().pair,
                lambda: self.function().code,
            ]
        )()

    def traced(self) -> Any:
        function, example = self.function(), [self.value() for _ in range(2)]
        body = self.random.choice(
            [
                lambda x, y: x * y,
                lambda x, y: UNIT.mul(x, y).sum(),
                lambda x, y: function(x, y),
                lambda x, y: np.tanh(x) + y,
                lambda x, y: (x, [y, x]),
                lambda x, y: None,
                lambda x, y: "text",
                lambda x, y: {"x": x},
                lambda x, y: x[0] * y,
                lambda x, y: x @ y,
                lambda x, y: gs.ops.sum(x, y),
                lambda x, y: y.sum(x),
                lambda x, y: x.reshape(2, -1) + y.shape[0],
            ]
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = gs.trace(body, *example, check=self.random.random() < 0.5)
        return made(*self.values(made))

    def tape(self) -> Any:
        function = self.function()
        leaf = gs.tape.Variable(self.value(), *([self.value()] if self.random.random() < 0.2 else []))
        arguments = self.values(function)
        if arguments:
            arguments[0] = leaf
        out = function(*arguments)
        do = self.random.randrange(6)
        if do == 0:
            return gs.tape.grad(out, self.value())
        if do == 1:
            return gs.tape.grad(out, leaf, self.value(), allow_unused=True)
        if do == 2:
            leaf.data = self.value()
        elif do == 3:
            leaf.grad = self.value()
        elif do == 4:
            return leaf + self.value(), self.value() * leaf
        if isinstance(out, gs.tape.Variable):
            out.backward(*([self.value()] if self.random.random() < 0.5 else []))
        return leaf.grad

    def operated(self) -> Any:
        name = self.chosen(["add", "sum", "matmul", "where", "cat", "relu", "softmax", "reshape", "embedding", "max"])
        return getattr(gs.ops, name)(*[self.value() for _ in range(self.random.randrange(4))])

    def setting(self) -> Any:
        name = self.chosen(["optimize", "profiling", "autodiff_debugging", "capture_checking"])
        with getattr(gs.settings, name)(self.value()):
            return UNIT.energy(array(2))

    def seeded(self) -> Any:
        with gs.random.local_seed(self.value()):
            gs.random.manual_seed(self.value())
            return UNIT.noisy(array(4))

    def hooked(self) -> Any:
        """A pass that is none, or that leaves what is no graph."""
        bad = self.random.choice(
            [lambda graph: 1 / 0, lambda graph: self.value(), lambda graph: graph.body.ret.replace_inputs([])]
        )
        remove = gs.compiler_debug.register_pass(self.chosen(["optimize", "finish", "nowhere", 1, None]), bad)
        try:
            unit = gs.CompilationUnit("def f(x):\n    return x * 2\n")
            return unit.f(array(2)), gs.grad(unit.f)(1.0)
        finally:
            remove()

    def on_torch(self) -> Any:
        """Through torch's own engine."""
        function = self.function()
        values = [self._told(self.random.choice(TORCH[:5])()) for _ in function.schema.arguments]
        if values and self.random.random() < 0.5:
            values[self.random.randrange(len(values))] = self.value()
        out = function(*values, **self.named())
        first = out[0] if isinstance(out, tuple | list) else out
        return first.sum().backward() if getattr(first, "requires_grad", False) else first

    def listed(self) -> Any:
        function = self.function()
        if self.random.random() < 0.5:
            return str(function.kernels(*self.values(function), **self.named()))
        return str(function.memory(*self.values(function), policy=self.chosen(POLICIES)))

    def checked(self) -> Any:
        function = self.function()
        return str(gs.check(function, *self.values(function), **self.named()))

    def read_back(self) -> Any:
        function = self.function()
        text = str(function.graph)
        for _ in range(self.random.randrange(1, 4)):
            text = self._mutated(text)
        self.told.append(text)
        return str(gs.parse_ir(text))

    def recompiled(self) -> Any:
        text = "def " + self.random.choice(SOURCE.split("\ndef ")[1:])
        for _ in range(self.random.randrange(1, 3)):
            text = self._mutated(text)
        self.told.append(text)
        return gs.CompilationUnit(text)

    def _mutated(self, text: str) -> str:
        """A character, a word or a line is dropped, doubled, or put elsewhere."""
        if not text:
            return text
        parts = list(text)
        by = self.random.choice(["character", "word", "line"])
        if by == "word":
            parts = [word for piece in text.split(" ") for word in (piece, " ")]
        elif by == "line":
            parts = text.splitlines(keepends=True)
        at, other = self.random.randrange(len(parts)), self.random.randrange(len(parts))
        do = self.random.randrange(4)
        if do == 0:
            del parts[at]
        elif do == 1:
            parts.insert(other, parts[at])
        elif do == 2:
            parts[at], parts[other] = parts[other], parts[at]
        else:
            parts[at] = self.random.choice(PIECES)
        return "".join(parts)


KINDS: dict[str, tuple[Callable[[Caller], Any], int]] = {
    "call": (Caller.call, 6),
    "halves": (Caller.halves, 5),
    "pullback": (Caller.pullback, 6),
    "derived": (Caller.derived, 6),
    "misdirected": (Caller.misdirected, 3),
    "unit": (Caller.unit, 3),
    "traced": (Caller.traced, 5),
    "tape": (Caller.tape, 5),
    "operated": (Caller.operated, 4),
    "setting": (Caller.setting, 1),
    "seeded": (Caller.seeded, 1),
    "hooked": (Caller.hooked, 1),
    "on_torch": (Caller.on_torch, 3 if TORCH else 0),
    "listed": (Caller.listed, 2),
    "checked": (Caller.checked, 1),
    "read_back": (Caller.read_back, 6),
    "recompiled": (Caller.recompiled, 3),
}
"""By name, with how often each is drawn."""


def complaint(seed: int, kind: str | None = None) -> str | None:
    """What is wrong with how a call at random ends; None where nothing is."""
    caller = Caller(seed)
    drawn = kind or caller.random.choices([*KINDS], [weight for _, weight in KINDS.values()])[0]
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            KINDS[drawn][0](caller)
    except Exception as error:
        wrong = _wrong_with(error)
        if wrong is None:
            return None
        last = traceback.extract_tb(error.__traceback__)[-1]
        heading = f"seed {seed}, {drawn}: {wrong}: {type(error).__name__}: {error}"
        return "\n    ".join([heading + f"\n  at {last.filename}:{last.lineno}", *caller.told])
    return None


def _wrong_with(error: BaseException) -> str | None:
    if isinstance(error, gs.CompileError | gs.RuntimeFailure):
        return None if error.code and str(error).strip() else "no message"
    if Path(traceback.extract_tb(error.__traceback__)[-1].filename) == Path(__file__):
        return None
    if not isinstance(error, TypeError | ValueError | RuntimeError):
        return "an exception of Python's own"
    # Python itself tells what is wrong with how the test called something, and what a traced function of its own did.
    return None if str(error).strip() and _is_meant(error.__traceback__) else "not raised on purpose"


def _is_meant(trace: TracebackType | None) -> bool:
    """Whether a `raise` of ours ended it."""
    last = traceback.extract_tb(trace)[-1]
    path = Path(last.filename)
    return PACKAGE in path.parents and "tests" not in path.parts and _raises(last)


def _raises(frame: traceback.FrameSummary) -> bool:
    return linecache.getline(frame.filename, frame.lineno or 0).strip().startswith("raise")
