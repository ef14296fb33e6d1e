"""Functions of torch converted: the values and gradients of the originals, the text that is left, what cannot be."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gradscript as gs
import numpy as np
import pytest
from click.testing import CliRunner
from gradscript.authoring.cli.main import main

torch = pytest.importorskip("torch")

from functions import activations, layers, numerics  # noqa: E402


def t(*sizes: int) -> Any:
    generator = torch.Generator().manual_seed(sum(sizes) + 7)
    return torch.randn(*sizes, dtype=torch.float64, generator=generator)


CASES: dict[str, tuple[Any, Callable[[], list[Any]]]] = {
    "Swish": (activations, lambda: [t(2, 3)]),
    "SwishJitAutoFn": (activations, lambda: [t(2, 3)]),
    "MishFunction": (activations, lambda: [t(2, 3)]),
    "GeLUFunction": (activations, lambda: [t(4, 3), t(3)]),
    "LeakyClamp": (activations, lambda: [t(2, 3), -0.5, 0.5]),
    "HardSwish": (activations, lambda: [4 * t(2, 3)]),
    "Exp": (activations, lambda: [t(2, 3)]),
    "ScaledTanh": (activations, lambda: [t(2, 3), t(3), t(2, 3)]),
    "LogSpace": (activations, lambda: [t(2, 3), 2.0]),
    "StraightThrough": (activations, lambda: [t(2, 3)]),
    "LinearFunction": (layers, lambda: [t(2, 3), t(4, 3), t(4)]),
    "MulConstant": (layers, lambda: [t(2, 3), 2.5]),
    "LayerNormFunction": (layers, lambda: [t(4, 3), t(3), t(3), 1e-5]),
    "RMSNorm": (layers, lambda: [t(4, 3), t(3)]),
    "GRN": (layers, lambda: [t(4, 3), t(3), t(3), 0.1]),
    "FlattenHead": (layers, lambda: [t(2, 3, 4), 1]),
    "Gather": (layers, lambda: [t(5, 3), torch.tensor([0, 4, 0])]),
    "Attention": (layers, lambda: [t(2, 3, 4), t(2, 3, 4), t(2, 3, 5), True]),
    "CrossEntropy": (layers, lambda: [t(4, 3), torch.tensor([0, 2, 1, 2])]),
    "SwiGLU": (layers, lambda: [t(2, 3), t(2, 3)]),
    "Split": (layers, lambda: [t(2, 5), 2]),
    "ReverseGradient": (layers, lambda: [t(2, 3), 0.5]),
    "Clashing": (numerics, lambda: [t(2, 3), t(2, 3)]),
    "Rebound": (numerics, lambda: [t(2, 3)]),
    "Newton": (numerics, lambda: [t(2, 3).exp()]),
    "Series": (numerics, lambda: [t(2, 3), 4]),
    "CubeForward": (numerics, lambda: [t(2, 3)]),
    "CubeBackward": (numerics, lambda: [t(2, 3), t(2, 3)]),
    "Weighted": (numerics, lambda: [t(2, 3), t(2, 3), "mean"]),
    "Sorted": (numerics, lambda: [t(2, 3)]),
    "Early": (numerics, lambda: [t(2, 3), False]),
    "AllNeeded": (numerics, lambda: [t(2, 3), t(2, 3)]),
}
"""By class: where it stands, and arguments for it."""
CONVERTED = {
    module: gs.convert(Path(str(module.__file__)).read_text(encoding="utf-8"), str(module.__file__))
    for module in (activations, layers, numerics)
}
UNITS = {module: gs.CompilationUnit(found.text) for module, found in CONVERTED.items()}


def test_there_are_many() -> None:
    assert len(CASES) >= 25
    for module, found in CONVERTED.items():
        assert found.ok, found.failures
        wanted = {name for name, (where, _) in CASES.items() if where is module}
        assert wanted <= found.names.keys()


@pytest.mark.parametrize("name", CASES)
def test_gives_what_the_original_gives(name: str) -> None:
    module, arguments = CASES[name]
    converted = UNITS[module][CONVERTED[module].names[name]]
    outcomes = [_outcome(call, arguments()) for call in (getattr(module, name).apply, converted)]
    for theirs, ours in zip(*outcomes, strict=True):
        assert (theirs is None or not theirs.any()) if ours is None else torch.allclose(ours, theirs, rtol=1e-12)


def _outcome(call: Callable[..., Any], arguments: list[Any]) -> list[Any]:
    """What a call gives, and the gradients of a weighted sum of it."""
    given = [a.requires_grad_() if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in arguments]
    results = call(*given)
    results = list(results) if isinstance(results, tuple) else [results]
    total = sum((r * torch.cos(r.detach() + 1)).sum() for r in results if r.requires_grad)
    tensors = [a for a in given if isinstance(a, torch.Tensor) and a.requires_grad]
    return [*(r.detach() for r in results), *torch.autograd.grad(total, tensors, allow_unused=True)]


def test_text_and_comments_stay() -> None:
    text = CONVERTED[activations].text
    assert "    return inp.mul(torch.tanh(F.softplus(inp))), backward" in text
    assert "        # sqrt(2/pi) * 3 * 0.044715 -> 0.1070322243\n" in text
    assert '    """x * sigmoid(x), which keeps x alone."""\n' in text
    assert "SQRT_2_OVER_PI = 0.7978845608028654\n" in text
    assert "ctx.save" not in text


def test_says_what_it_guessed_and_left_out() -> None:
    found = CONVERTED[activations]
    said = [found.told(note) for note in found.notes]
    assert any("Exp: vmap is left out" in line for line in said)
    assert any("'lower' for a float" in line for line in said)


PARENTS = """\
import torch
from elsewhere import Parent


class Scaled(torch.autograd.Function):
    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y * 3


class Exp(Scaled):
    @staticmethod
    def forward(ctx, x, rate=3.0):
        y = torch.exp(x * rate)
        ctx.save_for_backward(y)
        return y


class Steeper(Exp):
    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y * 5


class Foreign(Parent):
    @staticmethod
    def forward(ctx, a, b, *, eps=1e-6):
        ctx.eps = eps
        ctx.save_for_backward(a, b)
        return a / (b + eps)

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return g / (b + ctx.eps), -g * a / (b + ctx.eps) ** 2
"""


def test_passes_of_parents_and_gradients_of_what_apply_is_given() -> None:
    found = gs.convert(PARENTS)
    assert found.ok and found.names == {"Exp": "exp", "Steeper": "steeper", "Foreign": "foreign"}, found
    unit = gs.CompilationUnit(found.text)
    x = np.array([0.2, -0.4])
    for name, slope in (("exp", 3), ("steeper", 5)):
        (gradient, _) = gs.vjp(unit[name], x, 3.0)[1](np.ones(2))
        np.testing.assert_allclose(gradient, slope * np.exp(3 * x), rtol=1e-12)
    assert gs.check(unit["foreign"]).ok


LEFT = {
    "mark_dirty": "def forward(ctx, x):\n        ctx.mark_dirty(x)\n        return x.add_(1)",
    "arguments: name each": "def forward(ctx, *xs):\n        return xs[0]",
    "returns in 2 places": "def forward(ctx, x):\n        if x.sum() > 0:\n            return x\n        return -x",
    "on some ways only": (
        "def forward(ctx, x):\n        if x.sum() > 0:\n            ctx.save_for_backward(x)\n        return x * 1"
    ),
    "'ctx' is used as a value": "def forward(ctx, x):\n        helper(ctx)\n        return x * 1",
    "E202 unknown module 'torch.autograd.functional'": (
        "def forward(ctx, x):\n        return torch.autograd.functional.vjp(x, x)[0]"
    ),
    "E201 undefined name": "def forward(ctx, x):\n        return kernel_forward(x)",
    "ctx.save_some(…) has no counterpart": "def forward(ctx, x):\n        ctx.save_some(x)\n        return x * 1",
}


@pytest.mark.parametrize("reason", LEFT)
def test_says_what_it_could_not(reason: str) -> None:
    text = (
        "import torch\n\n\nclass Op(torch.autograd.Function):\n    @staticmethod\n    "
        + LEFT[reason]
        + "\n\n    @staticmethod\n    def backward(ctx, g):\n        return g\n"
    )
    found = gs.convert(text, "op.py")
    assert not found.ok and not found.text
    (failure,) = found.failures
    assert reason in failure.message
    assert failure.line >= 4


def test_what_is_unreadable() -> None:
    with pytest.raises(ValueError, match=r"op\.py:1: this is no Python"):
        gs.convert("def f(:", "op.py")
    with pytest.raises(ValueError, match=r"nested too deeply|no Python"):
        gs.convert("x = " + "(" * 5000 + ")" * 5000, "op.py")
    with pytest.raises(TypeError, match="takes the text of a file"):
        gs.convert(3)  # type: ignore[arg-type]
    assert gs.convert("x = 1\n").text == ""


def test_nothing_runs(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    text = f"open({str(marker)!r}, 'w')\n" + Path(str(activations.__file__)).read_text(encoding="utf-8")
    assert gs.convert(text).ok
    assert not marker.exists()


# --- the command ---


def _write(folder: Path, backward: str = "grad * 2") -> Path:
    path = folder / "op.py"
    path.write_text(
        "from torch.autograd import Function\n\n\nclass Double(Function):\n    @staticmethod\n"
        "    def forward(ctx, x):\n"
        f"        return x * 2\n\n    @staticmethod\n    def backward(ctx, grad):\n        return {backward}\n",
        encoding="utf-8",
    )
    return path


def test_the_command(tmp_path: Path) -> None:
    path = _write(tmp_path)
    result = CliRunner().invoke(main, ["convert", str(path)])
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("def double(x):\n    def backward(grad):\n        return grad * 2\n")
    assert CliRunner().invoke(main, ["convert", str(tmp_path), "--write"]).exit_code == 0
    assert gs.check(gs.load(tmp_path / "op.grad").double).ok
    again = CliRunner().invoke(main, ["convert", str(path), "--write", "--json"])
    assert again.exit_code == 2
    (found,) = json.loads(again.stdout)
    assert found["checked"] == ["double"] and "is there already" in found["error"]


def test_exit_codes(tmp_path: Path) -> None:
    path = _write(tmp_path, "grad * 3")
    wrong = CliRunner().invoke(main, ["convert", str(path)])
    assert wrong.exit_code == 1
    assert "should be" in wrong.output
    assert CliRunner().invoke(main, ["convert", str(path), "--no-check"]).exit_code == 0
    assert CliRunner().invoke(main, ["convert", str(tmp_path / "none.py")]).exit_code == 2
    path.write_text("def f(:\n", encoding="utf-8")
    assert CliRunner().invoke(main, ["convert", str(path)]).exit_code == 2
    path.write_text("x = 1\n", encoding="utf-8")
    assert "holds no torch.autograd.Function" in CliRunner().invoke(main, ["convert", str(path)]).output


def test_torch_is_not_needed() -> None:
    code = "import sys; sys.modules['torch'] = None; import gradscript as gs; print(gs.convert(sys.stdin.read()).names)"
    text = Path(str(activations.__file__)).read_bytes()
    done = subprocess.run([sys.executable, "-c", code], input=text, capture_output=True, check=True)
    assert b"'Swish': 'swish'" in done.stdout


def test_helpers_take_what_they_are_given() -> None:
    text = """import torch


def scaled(x, factor, shift=None):
    return x * factor if shift is None else x * factor + shift


def summed(x, keep):
    return x.sum(tuple(range(x.dim() - 1)), keepdim=keep)


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor: float):
        ctx.factor, ctx.shape = factor, x.shape
        return summed(scaled(x, factor), True)

    @staticmethod
    def backward(ctx, grad):
        return scaled(grad, ctx.factor).expand(ctx.shape), None
"""
    found = gs.convert(text)
    assert found.ok, found.failures
    assert "def scaled(x, factor: float, shift=None):" in found.text
    assert "def summed(x, keep: bool):" in found.text
    assert sorted(note.name for note in found.notes) == ["scaled", "summed"]
    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(gs.CompilationUnit(found.text).scale(x, 2.0), 2 * x.sum(0, keepdims=True))


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\xef\xbb\xbfimport torch\n\n\n@torch.jit.script\ndef f(x):\n    return x * 2\n", 0),
        (b"# coding: latin-1\nimport torch\n\n\n@torch.jit.script\ndef f(x):\n    # caf\xe9\n    return x * 2\n", 0),
        (b"x = '\xff'\n", 2),
        (b"x = '\0'\n", 2),
        (b"# coding: nonsense\n", 2),
    ],
)
def test_files_are_read_as_python_reads_them(tmp_path: Path, data: bytes, code: int) -> None:
    path = tmp_path / "f.py"
    path.write_bytes(data)
    result = CliRunner().invoke(main, ["convert", str(path)])
    assert result.exit_code == code, result.output
    assert "None" not in result.output


def test_what_is_said_of_files_in_the_wild() -> None:
    """Types that comments say, classmethods, sizes given to helpers, script_if_tracing; and what is left is told."""
    text = """
import torch
from torch.autograd import Function


def unbroadcast(g, shape):
    return g.sum_to_size(shape)


class Scaled(Function):
    @classmethod
    def _double(cls, x):
        return x + x

    @classmethod
    def forward(cls, ctx, x, scale):
        ctx.save_for_backward(x, scale)
        return cls._double(x) * scale

    @classmethod
    def backward(cls, ctx, g):
        x, scale = ctx.saved_tensors
        return unbroadcast(cls._double(g) * scale, x.shape), unbroadcast(cls._double(g) * x, scale.shape)


def bias_dropout_add(x, bias, residual, prob, training):
    # type: (Tensor, Optional[Tensor], Tensor, float, bool) -> Tensor
    if bias is not None:
        x = x + bias
    return residual + torch.nn.functional.dropout(x, p=prob, training=training)


@torch.jit.script
def train(x, bias: torch.Tensor, residual: torch.Tensor, prob: float) -> torch.Tensor:
    return bias_dropout_add(x, bias, residual, prob, True)


@torch.jit.script_if_tracing
def shifted(x, up: bool = False):
    if up:
        x = x + 1
    return x


@torch.jit.script
class Holder:
    def __init__(self, x: int):
        self.x = x


made = torch.jit.script(torch.nn.Linear(2, 2))


def build():
    class Inner(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g

    return Inner.apply
"""
    found = gs.convert(text)
    assert [failure.name for failure in found.failures] == ["Holder", "made", "Inner"]
    assert found.names.keys() == {"Scaled", "unbroadcast", "bias_dropout_add", "train", "shifted"} | {
        name for name in found.names if name.endswith("_double")
    }
    assert "def unbroadcast(g, shape: List[int]):" in found.text
    assert "# type: (Tensor, Optional[Tensor], Tensor, float, bool) -> Tensor" in found.text
    assert [note.message for note in found.notes if note.name == "unbroadcast"] == [
        "nothing says the types of all parameters; this takes 'shape' for a List[int]"
    ]
    unit = gs.CompilationUnit(found.text)
    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(gs.vjp(unit.scaled, x, np.array(3.0))[1](np.ones((2, 3)))[1], 2 * x.sum())
    np.testing.assert_array_equal(unit.shifted(x, True), x + 1)
    np.testing.assert_array_equal(unit.train(x, x, x, 0.0), 3 * x)
