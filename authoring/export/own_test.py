"""The test of a module: gradients against finite differences, kernels against plain torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...compiler.types.schema import Argument
from .facts import ExportFacts, short, tuple_of
from .python_text import wrapped_line
from .signature import FIXED, SampleShape

_KERNELS = '''\
def test_kernels() -> None:
    """The kernels, where they run, against plain torch in float64."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    results = _results(_samples(torch.float32, device))
    expected = _results(_samples(torch.float64, device))
    for result, wanted in zip(results, expected, strict=True):
        torch.testing.assert_close(result.double(), wanted, rtol=1e-4, atol=1e-5)'''
_MAIN = """\
if __name__ == "__main__":
    test_gradients()
    test_kernels()
    print("ok")"""


class OwnTest(ExportFacts):
    """Writes it, with samples like the arguments that the module was planned for."""

    def text(self) -> str:
        parts = [self._samples(), self._called(), self._gradients(), _KERNELS, self._results(), _MAIN]
        return "\n".join(short("\n\n\n".join(parts).split("\n")))

    @property
    def floating(self) -> list[str]:
        """The tensors that have a gradient, where the function has any."""
        names = [a.name for a in self.tensors if self.is_present(a) and a.name in self.launchers[0].differentiable]
        return names if self.has_gradient else []

    def _samples(self) -> str:
        lines = [
            "def _samples(dtype: torch.dtype, device: str) -> tuple[Tensor, ...]:",
            "    torch.manual_seed(0)",
            *[f"    {a.name} = {self._sample(a)}" for a in self.tensors if self.is_present(a)],
            f"    found = {tuple_of([a.name for a in self.tensors if self.is_present(a)])}",
            "    return tuple(each.to(device, dtype if each.is_floating_point() else None) for each in found)",
        ]
        return "\n".join(lines)

    def _called(self) -> str:
        values = {a.name: v for a, v in zip(self.arguments, self.values, strict=True)}
        arguments = []
        for a in self.arguments:
            text = a.name if a in self.tensors and self.is_present(a) else repr(values[a.name])
            arguments.append(f"{a.name}={text}" if a.keyword_only else text)
        if self.has_seed:
            arguments.append("seed=7")
        taken = ", ".join(f"{a.name}: Tensor" for a in self.tensors if self.is_present(a))
        call = wrapped_line(f"return {self.name}({', '.join(arguments)})", "    ")
        return "\n".join([*wrapped_line(f"def _called({taken}) -> Any:", ""), *call])

    def _gradients(self) -> str:
        lines = [
            "def test_gradients() -> None:",
            '    """The gradients against finite differences, in float64."""',
        ]
        if self.floating and "gs.surrogate" not in self.formula:
            lines += [
                '    found = _samples(torch.float64, "cpu")',
                *[f"    found[{i}].requires_grad_()" for i in self._places(self.floating)],
                "    assert torch.autograd.gradcheck(_called, found)",
            ]
        else:
            lines += ['    assert _called(*_samples(torch.float64, "cpu")) is not None']
        return "\n".join(lines)

    def _results(self) -> str:
        lines = [
            "def _results(given: tuple[Tensor, ...]) -> list[Tensor]:",
            '    """The results, and the gradients of their sum."""',
        ]
        if self.floating:
            lines += [f"    floating = [given[i].requires_grad_() for i in {self._places(self.floating)!r}]"]
        lines += [
            "    found = _called(*given)",
            "    results = list(found) if isinstance(found, tuple) else [found]",
        ]
        if not self.floating:
            return "\n".join([*lines, "    return results"])
        lines += [
            "    total = torch.stack([(each.double() ** 2).sum() for each in results]).sum()",
            "    return [*results, *torch.autograd.grad(total, floating)]",
        ]
        return "\n".join(lines)

    def _places(self, names: Sequence[str]) -> list[int]:
        """Where tensors stand among the samples."""
        present = [a.name for a in self.tensors if self.is_present(a)]
        return [present.index(name) for name in names]

    def _sample(self, argument: Argument) -> str:
        """An expression that makes a small tensor, of numbers such as the arguments given had."""
        shape: SampleShape = self.signature.arguments[self.arguments.index(argument)]
        value = self.values[self.arguments.index(argument)]
        batch = [2] if shape.batched else []
        small = {name: (3 + i) * self.signature.multiple for i, name in enumerate(self.signature.names)}
        sizes = [s.number if s.name == FIXED else int(small[s.name] * s.times) for s in shape.sizes]
        text = f"{(*batch, *sizes)!r}"
        if shape.dtype.name == "bool":
            return f"torch.rand({text}) < 0.5"
        if not shape.dtype.is_floating:
            named = [size for given in self.signature.shapes for size in given.sizes if size.name != FIXED]
            made = [*([2] if self.signature.has_batch else []), *(int(small[s.name] * s.times) for s in named)]
            return f"torch.randint(0, {_bound_of(value, made)}, {text}, dtype=torch.{shape.dtype})"
        low, high = (float(np.min(value)), float(np.max(value))) if np.size(value) else (-1.0, 1.0)
        if low > 0 and high < 1:
            return f"torch.rand({text}, dtype=torch.float64) * 0.7 + 0.15"
        if low > 0:
            return f"torch.rand({text}, dtype=torch.float64) + 0.5"
        return f"torch.randn({text}, dtype=torch.float64)"


def _bound_of(value: Any, sizes: Sequence[int]) -> int:
    """What numbers stay below that may be indices along any of the sizes."""
    least = min(sizes, default=2)
    return max(1, min(int(np.max(value)) + 1 if np.size(value) and np.max(value) > 0 else least, least))
