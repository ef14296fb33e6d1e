"""Which tensors the kernels of a module take: `_fits`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...compiler.types.schema import Argument
from ...compiler.types.types import OptionalType
from .facts import ExportFacts, short, sizes_of
from .program_text import mentions_name
from .python_text import wrapped_line
from .signature import FIXED, SampleShape


class FitsText(ExportFacts):
    """Writes the test that stands before every launch."""

    def text(self) -> str:
        lines = [
            f"def _fits({self.parameters(self.arguments)}) -> bool:",
            '    """Whether the kernels take such arguments."""',
        ]
        given = [(a, self.signature.arguments[i]) for i, a in enumerate(self.arguments)]
        present = [(a.name, shape) for a, shape in given if isinstance(shape, SampleShape)]
        for a, value in given:
            if isinstance(value, SampleShape) and isinstance(a.type, OptionalType):
                lines += [f"    if {a.name} is None:", "        return False"]
            elif not isinstance(value, SampleShape) and not self._is_open(a, value):
                test = f"{a.name} is not None" if value is None else f"{a.name} != {value!r}"
                lines += [f"    if {test}:", "        return False"]
        tensors = f"({', '.join(name for name, _ in present)}{',' if len(present) == 1 else ''})"
        lines += [f"    if not _on_device({tensors}):", "        return False"]
        bound = self._bound(present)
        lines += self._used(bound, present)
        floating = [name for name, s in present if s.dtype.is_floating]
        if floating:
            first, *others = floating
            lines += [
                f"    if {first}.dtype not in (torch.float32, torch.float16, torch.bfloat16):",
                "        return False",
            ]
            if others:
                test = " or ".join(f"{name}.dtype != {first}.dtype" for name in others)
                lines += [*wrapped_line(f"if {test}:", "    "), "        return False"]
        for name, s in present:
            if not s.dtype.is_floating:
                lines += [f"    if {name}.dtype != torch.{s.dtype}:", "        return False"]
        checks = [
            f"tuple({name}.shape) == {self._expected(s)}" for name, s in present if not self._is_told(name, s, bound)
        ]
        if self.signature.multiple > 1:
            checks = [*(f"{name} % {self.signature.multiple} == 0" for name in self.signature.names), *checks]
        if len(checks) < 2:
            lines += [f"    return {checks[0] if checks else True}"]
        else:
            lines += [
                "    return (",
                *(f"        {'and ' if i else ''}{check}" for i, check in enumerate(checks)),
                "    )",
            ]
        on_device = [
            "def _on_device(tensors: tuple[Tensor, ...]) -> bool:",
            '    """Whether kernels run where tensors are, and 32 bits count their elements."""',
            "    device = tensors[0].device",
            *self._interpreted(),
            "        return False",
            "    return all(each.device == device and 0 < each.numel() < 1 << 30 for each in tensors)",
        ]
        return "\n".join([*on_device, "", "", *short(lines)])

    def _interpreted(self) -> list[str]:
        """Triton's interpreter runs on the CPU what calls no library of a device."""
        if self.uses_library:
            return ['    if device.type != "cuda":']
        return [
            '    interpreted = os.environ.get("TRITON_INTERPRET") == "1"',
            '    if device.type != "cuda" and not (interpreted and device.type == "cpu"):',
        ]

    def _is_open(self, argument: Argument, value: Any) -> bool:
        """Whether kernels take any number for it."""
        return isinstance(value, float) and not self.signature.settled

    def _bound(self, present: Sequence[tuple[str, SampleShape]]) -> list[str]:
        """Lines that give named sizes what they are, from the first tensor that has them."""
        lines: list[str] = []
        known: set[str] = set()
        shares_batch = sum(shape.batched for _, shape in present) > 1 or not self.signature.any_batch
        for name, shape in present:
            rank = len(shape.sizes)
            found = [
                f"    {size.name} = {name}.shape[{place - rank}]"
                + (f" * {size.times.denominator}" if size.times != 1 else "")
                for place, size in enumerate(shape.sizes)
                if size.name != FIXED and size.times.numerator == 1 and self._is_new(size.name, known)
            ]
            if shape.batched and shares_batch and self._is_new("batch", known):
                behind = f"[: {name}.dim() - {rank}]" if rank else ""
                found.insert(0, f"    batch = {name}.shape{behind}")
            if found and (rank or not self.signature.any_batch):
                is_open = shape.batched and self.signature.any_batch
                test = f"< {rank}" if is_open else f"!= {rank + shape.batched}"
                found = [f"    if {name}.dim() {test}:", "        return False", *found]
            lines += found
        return lines

    def _used(self, bound: Sequence[str], present: Sequence[tuple[str, SampleShape]]) -> list[str]:
        """The lines whose sizes a later test names."""
        tests = " ".join(self._expected(s) for name, s in present if not self._is_told(name, s, bound))
        tests += " ".join(self.signature.names) if self.signature.multiple > 1 else ""
        return [line for line in bound if " = " not in line or mentions_name(tests, line.split()[0])]

    def _is_new(self, name: str, known: set[str]) -> bool:
        is_new = name not in known
        known.add(name)
        return is_new

    def _is_told(self, name: str, shape: SampleShape, bound: Sequence[str]) -> bool:
        """Whether the shape of a tensor is what it is by the lines that name its sizes."""
        told = sum(f" = {name}.shape[" in line and " * " not in line and "batch" not in line for line in bound)
        front = not shape.batched or self.signature.any_batch
        return told == len(shape.sizes) and front and any(f"{name}.shape" in line for line in bound)

    def _expected(self, shape: SampleShape) -> str:
        parts = [*(["*batch"] if shape.batched else []), *sizes_of(shape)]
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
