"""What people bring from torch and Python: each is accepted, or refused with what to write instead."""

from __future__ import annotations

import gradscript as gs
import numpy as np
import pytest
from gradscript.compiler.spelling.advice import CONTEXTS, MEMBERS, MODULES, NAMES, TYPES

REFUSED = {
    "return np.sum(x)": "what torch calls it",
    "return x[:, np.newaxis]": "`np.newaxis` is `None`",
    "return MyFunction.apply(x)": "`gradscript convert FILE.py`",
    "return Variable(x)": "nothing around it",
    "y = torch.ones(3, requires_grad=True)": "taken from outside",
    "if 3 in x:\n        x = x * 2": "(x == value).any()",
    "y = x[not (x > 0) or x < -1]": "`a | b`",
    "x.data *= 2": "give the new one a name",
    "return x.cuda()": "stays on the device",
    "return x.cpu().numpy()": "stays on the device",
    "return x.numpy()": "remove it",
    "return x @ self.weight": "a module's tensors are arguments",
    "return x.type(torch.float32)": "write `x.to(torch.float32)`",
    "return x.new(2, 3)": "new_zeros",
    "x.backward()": "gs.grad(f)",
    "return x.grad": "gs.grad(f)",
    "return torch.autograd.grad(x, x)[0]": "gs.grad(f)",
    "return torch.func.grad(torch.sin)(x)": "gs.grad(f)",
    "x.retain_grad()": "gs.grad(f)",
    "ctx.save_for_backward(x)": "gradscript convert",
    "y, = ctx.saved_tensors": "gradscript convert",
    "ctx.n = 1": "a closure captures",
    "if ctx.needs_input_grad[0]:\n        x = x * 2": "what nobody needs is not computed",
    "ctx.mark_dirty(x)": "write into a copy",
    "return getattr(x, 'T')": "write the attribute",
    "if hasattr(x, 'T'):\n        x = x * 2": "known before anything runs",
    "if type(x) == int:\n        x = x * 2": "annotate the parameter",
    "d = dict(a=x)": "NamedTuple",
    "d = {'a': x}": "a tuple or a list",
    "y = list(map(torch.relu, [x]))": "list comprehension",
    "y = list(filter(None, [x]))": "list comprehension",
    "g = functools.partial(torch.add, x)": "define a function",
    "logging.info('a')": "print",
    "t = time.time()": "measure from outside",
    "if random.random() > 0.5:\n        x = x * 2": "torch.rand",
    "torch.manual_seed(0)": "gs.random.manual_seed",
    "return nn.Linear(2, 2)(x)": "F.linear(x, weight, bias)",
    "w = torch.nn.Parameter(x)": "an argument of the function",
    "return torch.Tensor([1, 2]) * x": "torch.tensor(",
    "return torch.FloatTensor([1, 2]) * x": "dtype=torch.float32",
    "if torch.cuda.is_available():\n        x = x * 2": "the device of the arguments",
    "return torch.utils.checkpoint.checkpoint(f, x)": "gs.recompute",
    "return torch.vmap(torch.sin)(x)": "a dimension",
    "with torch.autocast('cuda'):\n        x = x * 2": "say the dtype",
    "with torch.profiler.record_function('a'):\n        x = x * 2": "from outside",
    "y = torch.empty_like(x)\n    torch.mul(x, 2, out=y)": "use what the call gives",
    "return torch.where(not (x > 0), x, y)": "`~a`",
    "return torch.where(0 < x < 1, x, y)": "(0 < x) & (x < 1)",
    "return torch.where((x > 0) and (y > 0), x, y)": "",
    "return rearrange(x, 'a b -> b a')": "x.permute",
    "super().forward(x)": "are arguments here",
    "opt = 3\n    return x.zero_grad()": "steps from outside",
    "return x * nan": "math.nan",
    "act = torch.nn.ReLU()\n    return act(x)": "F.relu(x)",
    "return y(x)": "say which by a str",
    "return x.astype(y)": "x.to(torch.float32)",
    "return x.view(**y)": "x.view(x.shape[:-1] + (2, 3))",
    "return x.tolist()": "values: List[float] = x.tolist()",
    "x.register_hook(y)": "a backward of its own",
    "return x.data_ptr()": "no address",
    "return deepcopy(x)": "x.clone()",
    "open('a')": "in Python",
    "lambda a: a": "give it a name and call that",
    "yield x": "in a list",
    "global y": "as a parameter",
    "import numpy as np": "what torch calls it",
    "try:\n        y = x\n    except ValueError:\n        y = x": "with 'if' before",
}
"""Statements of a function of x and y, and what is said of them; nothing where one is accepted."""


def _told(text: str) -> str:
    try:
        gs.CompilationUnit(text)
    except gs.CompileError as error:
        return "\n".join(note for diagnostic in error.diagnostics for note in diagnostic.notes)
    return ""


@pytest.mark.parametrize("statement", REFUSED)
def test_says_what_to_write(statement: str) -> None:
    told = _told(f"def f(x, y, ctx, self):\n    {statement}\n    return x\n")
    assert REFUSED[statement] in told
    assert bool(told) == bool(REFUSED[statement])


WHOLE = {
    "class F(torch.autograd.Function):\n    def forward(ctx, x):\n        pass\n": "gradscript convert",
    "class M(nn.Module):\n    def forward(self, x):\n        return x\n": "functions of the module's tensors",
    "class M(Enum):\n    A = 1\n": "take a str or an int",
    "@dataclass\nclass P:\n    x: Tensor\n": "NamedTuple",
    "@staticmethod\ndef f(x):\n    return x\n": "the class around it",
    "@once_differentiable\ndef f(x):\n    return x\n": "second derivatives are derived",
    "W = torch.ones(2)\n": "made in the function",
    "Pair = Tuple[Tensor, Tensor]\n": "a type is written where it is used",
    "if __name__ == '__main__':\n    pass\n": "a file of Python",
    "def f(x: Dict[str, Tensor]):\n    return x\n": "NamedTuple",
    "def f(x: np.ndarray):\n    return x\n": "write `Tensor`",
    "def f(x, g: Callable):\n    return x\n": "not passed",
    "def f(x, y):\n    def backward(g):\n        return [g, g]\n    return x + y, backward\n": "no list",
    "def f(x):\n    def backward(g):\n        return [g]\n    return x * 2, backward\n": "no list",
    "def f(xs: List[Tensor]):\n    def backward(g):\n        return g, g\n    return xs[0], backward\n": "is one list",
    "def f(x):\n    def backward(ctx, g):\n        return g\n    return x, backward\n": "leave its first parameter out",
    "def f(x: Optional[Tensor]):\n    if x == None:\n        return torch.zeros(1)\n    return x\n": "x is None",
    "def f(x):\n    def backward(g):\n        return ctx.needs_input_grad\n    return x, backward\n": "not computed",
    "def f(x):\n    ctx.mark_non_differentiable(x)\n    return x\n": "y.detach()",
    "def f(x):\n    return self.weight * x\n": "are arguments here",
    "def f(x) -> Tuple[Tensor, Callable]:\n    return x\n": "-> Tensor",
    "def f(x: 'Tensr'):\n    return x\n": "did you mean",
    "def f(x: 'a b'):\n    return x\n": "the types are",
}


def test_annotations_in_strings_are_annotations() -> None:
    text = "def f(x: 'Tensor', n: \"Optional[int]\" = None) -> 'torch.Tensor':\n    return x if n is None else x * n\n"
    assert gs.CompilationUnit(text).f(2.0, 3) == 6.0


def test_newaxis_is_torch_s() -> None:
    assert gs.CompilationUnit("def f(x):\n    return x[:, torch.newaxis]\n").f(np.ones((2, 3))).shape == (2, 1, 3)


@pytest.mark.parametrize("text", WHOLE)
def test_says_what_to_write_of_whole_files(text: str) -> None:
    assert WHOLE[text] in _told(text)


def test_a_class_is_told_once() -> None:
    with pytest.raises(gs.CompileError) as caught:
        gs.CompilationUnit(next(iter(WHOLE)))
    assert len(caught.value.diagnostics) == 1


@pytest.mark.parametrize("table", [NAMES, MEMBERS, MODULES, TYPES, CONTEXTS])
def test_nothing_that_is_there_is_advised_against(table: dict[str, str]) -> None:
    """Advice is for names that mean nothing: each of them is refused."""
    asked = {
        id(NAMES): "    return {}\n",
        id(MEMBERS): "    return x.{}()\n",
        id(MODULES): "    return {}.abc(x)\n",
        id(CONTEXTS): "    with {}(x):\n        x = x * 2\n    return x\n",
    }.get(id(table))
    for name in table:
        text = f"def f(x: {name}):\n    return x\n" if asked is None else "def f(x):\n" + asked.format(name)
        with pytest.raises(gs.CompileError):
            gs.CompilationUnit(text)


def test_mechanical_rewrites_are_accepted() -> None:
    unit = gs.CompilationUnit(
        "from torch import nn\nimport math\n\nC = math.sqrt(2 / math.pi)\nSIZES = [1, max(2, 3)]\n\n\n"
        "def f(x, m: float = math.sqrt(4.0), n: int = 2 ** 3):\n    y = x * C\n    y = F.relu(y, inplace=True)\n"
        "    return nn.functional.relu(y) * m * n * SIZES[1]\n"
    )
    np.testing.assert_allclose(unit.f(np.ones(2)), np.full(2, np.sqrt(2 / np.pi) * 2 * 8 * 3))
    for wrong in ("math.sqrt(-1.0)", "math.log(0)", "math.exp(1000)", "max()", "int(1, 2, 3)", "pow(2, 100)"):
        with pytest.raises(gs.CompileError, match="no constant"):
            gs.CompilationUnit(f"C = {wrong}\n\n\ndef f(x):\n    return x * C\n")
