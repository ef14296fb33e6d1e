"""The whole module: docstring, kernels, launchers, plain torch, ops of torch.library, a test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from ...compiler.codegen.wrapping import in_docstring
from ...compiler.types.schema import Argument
from ...lang.light_dataclasses import fields
from .facts import ExportFacts, sizes_of
from .fits_text import FitsText
from .layout import laid_out
from .ops_text import OpsText
from .own_test import OwnTest
from .python_text import tidied, wrapped_line
from .signature import ROWS, SampleShape
from .torch_words import HELPERS

_DRAWN = {
    "_drawn": '''
def _drawn(seed: int, like: Tensor) -> Tensor:
    """Numbers in [0, 1): of four neighbours the words of Philox-4x32-10 at a fourth of their place under the seed."""
    low, blocks = 0xFFFFFFFF, torch.arange(-(-like.numel() // 4), device=like.device)
    c0, c1, c2, c3 = blocks & low, blocks >> 32, blocks * 0, blocks * 0
    k0, k1 = seed & low, seed >> 32 & low
    for _ in range(10):
        left_high, left_low = _product(c0, 0xD2511F53)
        right_high, right_low = _product(c2, 0xCD9E8D57)
        c0, c1, c2, c3 = right_high ^ c1 ^ k0, right_low, left_high ^ c3 ^ k1, left_low
        k0, k1 = k0 + 0x9E3779B9 & low, k1 + 0xBB67AE85 & low
    words = torch.stack((c0, c1, c2, c3), -1).reshape(-1)[: like.numel()]
    folded = torch.where(words >= 1 << 31, low - words, words)
    return (folded.to(torch.float32) * 4.6566127342e-10).reshape(like.shape)


def _product(word: Tensor, factor: int) -> tuple[Tensor, Tensor]:
    """The upper and the lower half of a product of 32 bits by 32."""
    upper = word * (factor >> 16)
    lower = word * (factor & 0xFFFF) + ((upper & 0xFFFF) << 16)
    return (upper >> 16) + (lower >> 32), lower & 0xFFFFFFFF
''',
    "_dropped": '''
def _dropped(x: Tensor, p: float, seed: int) -> Tensor:
    """x / (1 - p) where an element's number is p or more, else 0."""
    keep = (_drawn(seed, x) >= p).to(x.dtype)
    return x * keep * (1 / (1 - p) if p < 1 else 0.0)
''',
}


_UNTYPED = (
    "# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators",
    "# mypy: allow-untyped-calls, no-warn-return-any",
)
"""What a strict mypy would say of Triton's kernels, and of what torch.library gives."""

Facts = TypeVar("Facts", bound=ExportFacts)


class ModuleText(ExportFacts):
    """Writes the module of a function."""

    def text(self) -> str:
        parts = [
            self._docstring_and_imports(),
            *self._kernels(),
            *self._launchers(),
            *self._reference(),
            self._part(FitsText).text(),
            *self._part(OpsText).texts(),
            self._public(),
            self._part(OwnTest).text(),
        ]
        return laid_out("\n\n\n".join(part.strip("\n") for part in parts if part.strip()) + "\n")

    def _docstring_and_imports(self) -> str:
        shapes = "; ".join(self._shape_of(a) for a in self.tensors)
        lines = [
            f'"""{self.name}: fused kernels, plain torch, and an op of torch.library. Needs torch and triton alone.',
            "",
            f"Written by gradscript {self.version}, policy {self.policy}. Kernels run on tensors of a GPU (or under",
            "TRITON_INTERPRET=1) in float32, float16 or bfloat16, in shapes such as",
            "",
            f"    {shapes}",
            "",
            "where all sizes may be any but 0. Everything else, float64 and the CPU among it,",
            "is computed by plain torch.",
        ]
        doc = self.function.__doc__
        if doc:
            lines += ["", *in_docstring(doc.strip()).splitlines()]
        lines += ["", "The formula:", "", *_indented(in_docstring(self.formula))]
        if self.derivation:
            lines += ["", "Its gradient, as it was derived:", "", *_indented(in_docstring(self.derivation))]
        lines += ["", f"`python {self.name}.py` holds the gradients against finite differences.", '"""', ""]
        lines += ["# What triton makes of kernels, and torch of ops, has no types.", *_UNTYPED, ""]
        lines += ["from __future__ import annotations", ""]
        needs_math = "math" in self.reference.modules or any("math." in one.all_text for one in self.launchers)
        lines += ["import math"] if needs_math else []
        lines += [] if self.uses_library else ["import os"]
        lines += ["from typing import Any", "", "import torch", "import torch.nn.functional as F"]
        if "F." not in self.reference.text:
            lines.remove("import torch.nn.functional as F")
        if any(one.kernels for one in self.launchers):
            lines += ["import triton", "import triton.language as tl"]
        lines += ["from torch import Tensor"]
        if self.uses_library:
            lines.append("from triton.language.extra import libdevice")
        return "\n".join(line.rstrip() for line in lines)

    def _shape_of(self, argument: Argument) -> str:
        given = self.signature.arguments[self.arguments.index(argument)]
        if not isinstance(given, SampleShape):
            return f"{argument.name}: None"
        parts = [*(["*batch" if self.signature.any_batch else ROWS] if given.batched else []), *sizes_of(given)]
        return f"{argument.name}: ({', '.join(parts)}{',' if len(parts) == 1 else ''})"

    def _kernels(self) -> Iterator[str]:
        yield from self.helper_texts()
        yield from dict.fromkeys(f.text for one in self.launchers for f in one.kernels)
        if any("_warps(" in one.all_text for one in self.launchers):
            yield (
                "def _warps(columns: int) -> int:\n"
                '    """Warps of a program that holds a row: eight elements for each thread."""\n'
                "    return min(max(triton.next_power_of_2(columns) // 256, 1), 16)"
            )

    def _launchers(self) -> Iterator[str]:
        for one in self.launchers:
            yield from (text for text in (one.forward, one.backward) if text)

    def _reference(self) -> Iterator[str]:
        text = self.reference.text
        if self.has_seed:
            head, _, rest = text.partition("\n")
            opened, _, closed = head.rpartition(")")
            comma = ", " if not opened.endswith("(") else ""
            star = "" if self._has_keywords() else "*, "
            text = f"{opened}{comma}{star}seed: int){closed}\n{rest}"
        for helper in self.reference.helpers:
            yield HELPERS.get(helper) or _DRAWN[helper]
        yield tidied(text)
        yield (
            "def _own(result: Tensor, *others: Tensor | None) -> Tensor:\n"
            '    """The result, contiguous and in memory of its own, as an op has to give it."""\n'
            "    shared = {each.untyped_storage()._cdata for each in others if each is not None}\n"
            "    if result.untyped_storage()._cdata in shared:\n"
            "        return result.clone(memory_format=torch.contiguous_format)\n"
            "    return result.contiguous()"
        )

    def _public(self) -> str:
        names = [a.name for a in self.arguments]
        typed = self.parameters(self.arguments)
        hint = "Tensor" if self.results == 1 else f"tuple[{', '.join(['Tensor'] * self.results)}]"
        given = ", ".join([*names, *(["seed"] if self.has_seed else [])])
        passed = ", ".join([*self._passed(), *(["seed=seed"] if self.has_seed else [])])
        if self.has_seed:
            typed += ", seed: int | None = None" if self._has_keywords() else ", *, seed: int | None = None"
        drawn = [
            "    if seed is None:",
            "        seed = int(torch.randint(1 << 62, ()).item())",
        ]
        doc = (self.function.__doc__ or "").strip().splitlines()
        said = in_docstring(doc[0]) if doc else "Fused where kernels take the arguments, plain torch elsewhere."
        call = f"_{self.name}_op({given})"
        if not self.saved:
            body = wrapped_line(f"return {call}", "    ")
        elif self.results == 1:
            body = wrapped_line(f"return {call}[0]", "    ")
        else:
            body = wrapped_line(f"return {call}[: {self.results}]", "    ")
        lines = [*wrapped_line(f"def {self.name}({typed}) -> {hint}:", ""), f'    """{said}"""']
        lines += [*(drawn if self.has_seed else []), *body, "", ""]
        lines += [
            *wrapped_line(f"def reference({typed}) -> {hint}:", ""),
            '    """The same in plain torch, of any order of derivatives."""',
        ]
        lines += [*(drawn if self.has_seed else []), *wrapped_line(f"return _reference({passed})", "    ")]
        return "\n".join(lines)

    def _passed(self) -> list[str]:
        return [f"{a.name}={a.name}" if a.keyword_only else a.name for a in self.arguments]

    def _has_keywords(self) -> bool:
        return any(a.keyword_only for a in self.arguments)

    def _part(self, kind: type[Facts]) -> Facts:
        """What writes a part of the same function."""
        return kind(*[getattr(self, one.name) for one in fields(ExportFacts)])


def _indented(text: str) -> list[str]:
    return [f"    {line}" if line.strip() else "" for line in text.rstrip().splitlines()]
