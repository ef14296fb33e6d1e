"""Runs exported modules where gradscript cannot be imported, beside eager torch in float64; a line for each case.

Started with the folder of the modules and TRITON_INTERPRET=1: float32 runs by the kernels, float64 by plain torch.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its usual name

Make = Callable[[Sequence[int]], Tensor]
EPS = torch.finfo(torch.float32).eps


class Blocked:
    """Nothing of gradscript may be imported."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] == "gradscript":
            raise ImportError("gradscript is not here")


def real(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64)


def positive(*shape: int) -> Tensor:
    return torch.rand(shape, dtype=torch.float64) + 0.5


def share(*shape: int) -> Tensor:
    return torch.rand(shape, dtype=torch.float64) * 0.8 + 0.1


def labels(count: int, *shape: int) -> Tensor:
    return torch.randint(0, count, shape)


def rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.size(-1) // 2
    return x * cos.detach() + torch.cat([-x[..., half:], x[..., :half]], -1) * sin.detach()


def lstm(gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    i, f, g, o = gates.chunk(4, 1)
    following = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * following.tanh(), following


def chain(x: Tensor, y: Tensor) -> Tensor:
    a = x.sin() * y
    return ((-a * a).exp() + x.tanh()).square().add(1).sqrt().mul(y.cos()).sigmoid() * ((-a * a).exp() + x.tanh()) - a


def focal(logits: Tensor, target: Tensor) -> Tensor:
    p = logits.sigmoid()
    hit = p * target + (1 - p) * (1 - target)
    entropy = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    return (0.25 * target + 0.75 * (1 - target)) * (1 - hit) ** 2 * entropy


def adamw(p: Tensor, grad: Tensor, m: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    m_next, v_next = m * 0.9 + grad * 0.1, v * 0.99 + grad * grad * 0.01
    step = 0.1 * (m_next / (1 - 0.9**3)) / ((v_next / (1 - 0.99**3)).sqrt() + 1e-8)
    return p * (1 - 0.1 * 0.01) - step, m_next, v_next


def rms(x: Tensor, weight: Tensor) -> Tensor:
    return F.rms_norm(x, [x.size(-1)], weight, 1e-6)


def feed_forward(x: Tensor, w_value: Tensor, w_gate: Tensor, w_out: Tensor) -> Tensor:
    return ((x @ w_value) * F.silu(x @ w_gate)) @ w_out


@dataclass(frozen=True)
class Case:
    """A formula in eager torch, and makers of its arguments for each size."""

    eager: Callable[..., Any]
    arguments: Sequence[Callable[[], list[Tensor]]]
    plain: tuple[Any, ...] = ()
    """What stands behind the tensors."""


def rows(*makers: Callable[[tuple[int, ...]], Tensor], columns: Sequence[int] = (1, 5, 96, 1024, 8200)) -> list[Any]:
    """Arguments of a few batches and columns, on both sides of where rows are held and where they are walked."""
    batches = [(3,), (2, 3), (33,), (2,), (2,)]
    shapes = [(*batch, n) for batch, n in zip(batches, columns, strict=True)]
    return [lambda shape=shape: [make(shape) for make in makers] for shape in shapes]


def all_of(shape: tuple[int, ...]) -> Tensor:
    return real(*shape)


def last(shape: tuple[int, ...]) -> Tensor:
    return real(shape[-1])


FLAT = (1, 5, 96, 1024, 2050)
CASES: dict[str, Case] = {
    "bias_gelu": Case(lambda x, b: F.gelu(x + b), rows(all_of, last, columns=FLAT)),
    "bias_gelu_tanh": Case(lambda x, b: F.gelu(x + b, approximate="tanh"), rows(all_of, last, columns=FLAT)),
    "swiglu": Case(lambda x, g: F.silu(x) * g, rows(all_of, all_of, columns=FLAT)),
    "geglu": Case(lambda x, g: F.gelu(x, approximate="tanh") * g, rows(all_of, all_of, columns=FLAT)),
    "rms_norm": Case(rms, rows(all_of, last)),
    "layer_norm": Case(lambda x, w, b: F.layer_norm(x, [x.size(-1)], w, b), rows(all_of, last, last)),
    "add_rms_norm": Case(lambda x, r, w: (rms(x + r, w), x + r), rows(all_of, all_of, last)),
    "softmax": Case(lambda x: F.softmax(x, -1), rows(all_of)),
    "cross_entropy": Case(
        lambda x, t: F.cross_entropy(x, t, reduction="none"),
        [lambda n=n, r=r: [real(r, n), labels(n, r)] for r, n in ((3, 5), (33, 96), (2, 1024), (2, 8200))],
    ),
    "rope": Case(rope, [lambda n=n: [real(2, 3, 5, n), real(5, n), real(5, n)] for n in (2, 7, 64)]),
    "lstm_cell": Case(lstm, [lambda n=n: [real(3, 4 * n), real(3, n)] for n in (1, 5, 300)]),
    "chain": Case(chain, rows(all_of, all_of, columns=FLAT)),
    "focal_loss": Case(focal, [lambda n=n: [real(3, n), share(3, n)] for n in (1, 40, 700)]),
    "adamw": Case(
        adamw,
        [lambda n=n: [real(3, n), real(3, n), real(3, n), positive(3, n)] for n in (1, 40, 700)],
        (0.1, 0.9, 0.99, 1e-8, 0.01, 3.0),
    ),
    "scaled_rms_norm": Case(rms, rows(all_of, last, columns=(1, 5, 96, 1024, 8200)), (1e-6,)),
    "gelu": Case(lambda x: F.gelu(x, approximate="tanh"), rows(all_of, columns=FLAT)),
    "mean_squared": Case(lambda x, y: ((x - y) ** 2).mean(), rows(all_of, all_of, columns=(1, 5, 96, 1024, 9000))),
    "feed_forward": Case(feed_forward, [lambda n=n: [real(5, n), real(n, 7), real(n, 7), real(7, 3)] for n in (4, 40)]),
}


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"exported_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def results(function: Callable[..., Any], tensors: Sequence[Tensor], plain: Sequence[Any]) -> list[Tensor]:
    """What a function gives, and the gradients of a fixed combination of it."""
    given = [t.detach().requires_grad_(t.is_floating_point()) for t in tensors]
    found = function(*given, *plain)
    outputs = list(found) if isinstance(found, tuple) else [found]
    total = sum((output.double() * weights_of(output)).sum() for output in outputs)
    wanted = [t for t in given if t.requires_grad]
    gradients = torch.autograd.grad(total, wanted, allow_unused=True)
    zeros = [torch.zeros_like(t) if g is None else g for t, g in zip(wanted, gradients, strict=True)]
    return [output.detach() for output in outputs] + zeros


def weights_of(output: Tensor) -> Tensor:
    """The gradient that comes in: numbers that every dtype has."""
    return ((torch.arange(output.numel(), dtype=torch.float64) % 5 - 2) / 2).reshape(output.shape)


def converted(tensors: Sequence[Tensor], dtype: torch.dtype) -> list[Tensor]:
    return [t.to(dtype) if t.is_floating_point() else t for t in tensors]


def compare(name: str, module: Any, case: Case) -> None:
    """Not more than four times the error of torch's own float32, and rounding of what is largest."""
    function = getattr(module, name)
    for make in case.arguments:
        torch.manual_seed(1)
        tensors = converted(make(), torch.float32)
        wide = converted(tensors, torch.float64)
        exact = results(case.eager, wide, ())
        plain = results(function, wide, case.plain)
        eager, own = results(case.eager, tensors, ()), results(function, tensors, case.plain)
        for wanted, torchs, ours, wider in zip(exact, eager, own, plain, strict=True):
            shape = tuple(tensors[0].shape)
            assert ours.shape == wanted.shape == wider.shape and ours.dtype == torchs.dtype, (shape, ours.dtype)
            largest = wanted.abs().max().item() if wanted.numel() else 0.0
            allowed = 4 * (torchs.double() - wanted).abs().max().item() + 16 * EPS * largest + 1e-12
            assert (ours.double() - wanted).abs().max().item() <= allowed, (shape, (ours - wanted).abs().max(), allowed)
            torch.testing.assert_close(wider, wanted, rtol=1e-9, atol=1e-11)


def halves(module: Any) -> None:
    """float16 and bfloat16 are computed in float32 and rounded once, in both passes.

    To the nearest; Triton's interpreter cuts bfloat16 off.
    """
    for dtype, unit in ((torch.float16, 0.5), (torch.bfloat16, 1.0)):
        torch.manual_seed(2)
        tensors = [t.to(dtype) for t in (real(6, 80), real(80), real(80))]
        exact = results(CASES["layer_norm"].eager, converted(tensors, torch.float64), ())
        for ours, wanted in zip(results(module.layer_norm, tensors, ()), exact, strict=True):
            assert ours.dtype == dtype
            error = (ours.double() - wanted).abs().max().item()
            assert error <= (torch.finfo(dtype).eps * unit + 64 * EPS) * wanted.abs().max().item(), (dtype, error)


def statistics(module: Any) -> None:
    """A maximum that is a result of halves is compared with what the backward computes again, as it was computed."""
    for dtype in (torch.float16, torch.bfloat16):
        torch.manual_seed(4)
        x = real(20, 33).to(dtype).requires_grad_()
        found = module.largest(x)
        (gradient,) = torch.autograd.grad(found.sum(), x)
        places = x.float().clamp(-0.7, 0.9)
        top = (places == places.amax(-1, keepdim=True)).float()
        inside = (x >= -0.7) & (x <= 0.9)
        wanted = 1.7 * top / top.sum(-1, keepdim=True) * inside
        torch.testing.assert_close(gradient.float(), wanted, rtol=1e-2, atol=0.0)


def indices(module: Any) -> None:
    """An index is one in plain torch as well."""
    x = real(3, 5).requires_grad_()
    i = torch.tensor([4, 0, 4])
    wanted = x[..., i] * x[..., 0, i] * 2
    torch.testing.assert_close(module.picked(x, i), wanted)
    torch.testing.assert_close(module.reference(x, i), wanted)
    short, below = x.detach().float().requires_grad_(), i - 5
    torch.testing.assert_close(module.picked(short, below).double(), wanted, rtol=1e-4, atol=1e-5)
    gradients = [torch.autograd.grad(f.sum(), v)[0] for f, v in ((module.picked(short, below), short), (wanted, x))]
    torch.testing.assert_close(gradients[0].double(), gradients[1], rtol=1e-4, atol=1e-5)


def strides(module: Any) -> None:
    """What is transposed, expanded or empty is taken too, and what broadcasts otherwise than the kernels."""
    torch.manual_seed(3)
    for tensors in (
        [real(40, 6).t(), real(40)],
        [real(1, 40).expand(6, 40), real(1).expand(40)],
        [real(0, 40), real(40)],
        [real(6, 40), real(6, 1)],
        [real(40), real(6, 40)],
        [real(6, 1), real(1, 40)],
    ):
        exact = results(CASES["bias_gelu"].eager, tensors, ())
        for ours, wanted in zip(results(module.bias_gelu, [t.float() for t in tensors], ()), exact, strict=True):
            torch.testing.assert_close(ours.double(), wanted, rtol=1e-4, atol=1e-5)


def ops(module: Any) -> None:
    """The op as torch checks ops: schema, fakes, autograd, tracing. And what a second derivative says."""
    x, weight, bias = real(4, 9).float().requires_grad_(), real(9).float().requires_grad_(), real(9).float()
    tests = ("test_schema", "test_faketensor", "test_autograd_registration")
    names = torch._C._dispatch_get_all_op_names()
    (name,) = {
        found for n in names if (found := n.partition("::")[2]) and re.fullmatch(r"layer_norm_[0-9a-f]{8}", found)
    }
    op = getattr(torch.ops.gradscript, name)
    torch.library.opcheck(op, (x, weight, bias), test_utils=tests)
    wide = [t.detach().double().requires_grad_() for t in (x, weight, bias)]
    torch.library.opcheck(op, tuple(wide), test_utils=tests)
    gradient = torch.autograd.grad(module.layer_norm(x, weight, bias).square().sum(), x, create_graph=True)[0]
    try:
        gradient.sum().backward()
    except RuntimeError as error:
        assert "first derivatives only" in str(error) and "reference" in str(error)
    else:
        raise AssertionError("a second derivative came of nothing")
    assert torch.autograd.gradgradcheck(module.reference, tuple(wide))


def dropped(module: Any) -> None:
    """A mask follows from its seed, in both passes and on both roads, and keeps as many as it should."""
    x = (real(50, 64) + 5).float().requires_grad_()
    found = module.masked(x, seed=11)
    assert torch.equal(found, module.masked(x, seed=11)) and not torch.equal(found, module.masked(x, seed=12))
    torch.testing.assert_close(found, module.reference(x, seed=11))
    kept = (found != 0).double().mean().item()
    assert abs(kept - 0.7) < 5 * (0.7 * 0.3 / x.numel()) ** 0.5
    torch.testing.assert_close(found[found != 0], (x / 0.7)[found != 0])
    (gradient,) = torch.autograd.grad(found.sum(), x)
    torch.testing.assert_close(gradient, (found != 0).float() / 0.7)
    assert not torch.equal(module.masked(x), module.masked(x))


def main(folder: str) -> int:
    sys.meta_path.insert(0, Blocked())
    failed = 0
    modules = {path.stem: load(path) for path in sorted(Path(folder).glob("*.py"))}
    checks: list[tuple[str, Callable[[], None]]] = [
        (name, lambda name=name, case=case: compare(name, modules[name], case))
        for name, case in CASES.items()
        if name in modules
    ]
    checks += [
        ("halves", lambda: halves(modules["layer_norm"])),
        ("statistics", lambda: statistics(modules["largest"])),
        ("indices", lambda: indices(modules["picked"])),
        ("strides", lambda: strides(modules["bias_gelu"])),
        ("ops", lambda: ops(modules["layer_norm"])),
        ("dropped", lambda: dropped(modules["masked"])),
        ("own test", lambda: (modules["rope"].test_gradients(), modules["rope"].test_kernels())),
        *(
            (f"own tests of {name}", lambda name=name: (modules[name].test_gradients(), modules[name].test_kernels()))
            for name in ("named", "sized", "listed", "written", "scores", "met", "replaced")
        ),
    ]
    for name, check in checks:
        try:
            check()
            print(f"{name}: ok")
        except Exception as error:
            failed += 1
            print(f"{name}: {type(error).__name__}: {str(error)[:1500]}")
    assert "gradscript" not in sys.modules
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
