"""The whole module: docstring, kernels, launchers, plain torch, ops of torch.library, a test."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...compiler.types.schema import Argument
from ...compiler.types.types import OptionalType, is_tensor, strip_optional
from ...runtime.face.function import Function, default_of
from .launchers import Launchers
from .program_text import mentions
from .python_text import WIDTH, python_type, tidied, wrapped
from .reference import Reference
from .signature import FIXED, ROWS, Shape, Signature
from .triton_kernels import plain

HELD = 8192
"""Columns of a row that one program holds; longer ones are walked in blocks."""
NAMESPACE = "gradscript"
_HELPERS = {
    "_drawn": '''
def _drawn(seed: int, like: Tensor) -> Tensor:
    """Numbers in [0, 1): of each element the first word of Philox-4x32-10 at its place under the seed."""
    low, places = 0xFFFFFFFF, torch.arange(like.numel(), device=like.device)
    c0, c1, c2, c3 = places & low, places >> 32, places * 0, places * 0
    k0, k1 = seed & low, seed >> 32 & low
    for _ in range(10):
        left_high, left_low = _product(c0, 0xD2511F53)
        right_high, right_low = _product(c2, 0xCD9E8D57)
        c0, c1, c2, c3 = right_high ^ c1 ^ k0, right_low, left_high ^ c3 ^ k1, left_low
        k0, k1 = k0 + 0x9E3779B9 & low, k1 + 0xBB67AE85 & low
    folded = torch.where(c0 >= 1 << 31, low - c0, c0)
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


@dataclass
class ModuleText:
    """Writes the module of a function. `launchers` are those of each length of rows, the held one first."""

    function: Function
    values: Sequence[Any]
    """Arguments like which the module was planned, one for each parameter."""
    signature: Signature
    launchers: Sequence[Launchers]
    reference: Reference
    policy: str
    version: str
    formula: str
    derivation: str
    parts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.name = self.function.name
        self.arguments = self.function.schema.arguments
        self.tensors = [a for a in self.arguments if is_tensor(strip_optional(a.type))]
        self.plain = [a for a in self.arguments if a not in self.tensors]
        self.has_seed = bool(self.reference.seeds)
        self.results = len(self.function.schema.returns)
        first = self.launchers[0]
        self.saved = list(first.saved)
        self.kept_results = dict(first.results)
        self.has_gradient = first.backward is not None

    def text(self) -> str:
        self.parts = [
            self._docstring_and_imports(),
            *self._kernels(),
            *self._launchers(),
            *self._reference(),
            self._fits(),
            *self._ops(),
            self._public(),
            self._test(),
        ]
        return "\n\n\n".join(part.strip("\n") for part in self.parts if part.strip()) + "\n"

    # --- top ---

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
            lines += ["", *plain(doc.strip()).splitlines()]
        lines += ["", "The formula:", "", *_indented(plain(self.formula))]
        if self.derivation:
            lines += ["", "Its gradient, as it was derived:", "", *_indented(plain(self.derivation))]
        lines += ["", f"`python {self.name}.py` holds the gradients against finite differences.", '"""', ""]
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
        if not isinstance(given, Shape):
            return f"{argument.name}: None"
        parts = [*(["*batch" if self.signature.any_batch else ROWS] if given.batched else []), *_sizes(given)]
        return f"{argument.name}: ({', '.join(parts)}{',' if len(parts) == 1 else ''})"

    # --- kernels and launchers ---

    def _helper_texts(self) -> list[str]:
        found = dict.fromkeys(helper for one in self.launchers for f in one.kernels for helper in f.helpers)
        return list(found)

    def _kernels(self) -> Iterator[str]:
        yield from self._helper_texts()
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

    # --- plain torch ---

    def _reference(self) -> Iterator[str]:
        text = self.reference.text
        if self.has_seed:
            head, _, rest = text.partition("\n")
            opened, _, closed = head.rpartition(")")
            comma = ", " if not opened.endswith("(") else ""
            text = f"{opened}{comma}seed: int){closed}\n{rest}"
        for helper in self.reference.helpers:
            yield _HELPERS[helper]
        yield tidied(text)
        yield (
            "def _own(result: Tensor, *others: Tensor | None) -> Tensor:\n"
            '    """The result, contiguous and in memory of its own, as an op has to give it."""\n'
            "    shared = {each.untyped_storage()._cdata for each in others if each is not None}\n"
            "    if result.untyped_storage()._cdata in shared:\n"
            "        return result.clone(memory_format=torch.contiguous_format)\n"
            "    return result.contiguous()"
        )

    # --- which tensors kernels take ---

    def _fits(self) -> str:
        lines = [
            f"def _fits({self._parameters(self.arguments)}) -> bool:",
            '    """Whether the kernels take such arguments."""',
        ]
        given = [(a, self.signature.arguments[i]) for i, a in enumerate(self.arguments)]
        present = [(a.name, shape) for a, shape in given if isinstance(shape, Shape)]
        for a, value in given:
            if isinstance(value, Shape) and isinstance(a.type, OptionalType):
                lines += [f"    if {a.name} is None:", "        return False"]
            elif not isinstance(value, Shape) and not self._is_open(a, value):
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
                lines += [*wrapped(f"if {test}:", "    "), "        return False"]
        for name, s in present:
            if not s.dtype.is_floating:
                lines += [f"    if {name}.dtype != torch.{s.dtype}:", "        return False"]
        checks = [
            f"tuple({name}.shape) == {self._expected(s)}" for name, s in present if not self._is_told(name, s, bound)
        ]
        if self.signature.multiple > 1:
            named = [size for size in self.signature.names if self._is_divided(size)]
            checks = [*(f"{name} % {self.signature.multiple} == 0" for name in named), *checks]
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
        return "\n".join([*on_device, "", "", *_short(lines)])

    def _interpreted(self) -> list[str]:
        """Triton's interpreter runs on the CPU what calls no library of a device."""
        if self.uses_library:
            return ['    if device.type != "cuda":']
        return [
            '    interpreted = os.environ.get("TRITON_INTERPRET") == "1"',
            '    if device.type != "cuda" and not (interpreted and device.type == "cpu"):',
        ]

    @property
    def uses_library(self) -> bool:
        texts = [f.text for one in self.launchers for f in one.kernels] + self._helper_texts()
        return any("libdevice." in text for text in texts)

    def _is_open(self, argument: Argument, value: Any) -> bool:
        """Whether kernels take any number for it."""
        return isinstance(value, float) and not self.signature.settled

    def _is_divided(self, name: str) -> bool:
        return True

    def _bound(self, present: Sequence[tuple[str, Shape]]) -> list[str]:
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

    def _used(self, bound: Sequence[str], present: Sequence[tuple[str, Shape]]) -> list[str]:
        """The lines whose sizes a later test names."""
        tests = " ".join(self._expected(s) for name, s in present if not self._is_told(name, s, bound))
        tests += " ".join(self.signature.names) if self.signature.multiple > 1 else ""
        return [line for line in bound if " = " not in line or mentions(tests, line.split()[0])]

    def _is_new(self, name: str, known: set[str]) -> bool:
        is_new = name not in known
        known.add(name)
        return is_new

    def _is_told(self, name: str, shape: Shape, bound: Sequence[str]) -> bool:
        """Whether the shape of a tensor is what it is by the lines that name its sizes."""
        told = sum(f" = {name}.shape[" in line and " * " not in line and "batch" not in line for line in bound)
        front = not shape.batched or self.signature.any_batch
        return told == len(shape.sizes) and front and any(f"{name}.shape" in line for line in bound)

    def _expected(self, shape: Shape) -> str:
        parts = [*(["*batch"] if shape.batched else []), *_sizes(shape)]
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"

    # --- ops ---

    def _ops(self) -> Iterator[str]:
        seed = ["seed"] if self.has_seed else []
        names = [a.name for a in self.arguments]
        given = ", ".join([*names, *seed])
        typed = ", ".join([self._parameters(self.arguments, defaults=False), *(["seed: int"] if seed else [])])
        outputs = ["Tensor"] * (self.results + len(self.saved))
        returns = outputs[0] if len(outputs) == 1 else f"({', '.join(outputs)})"
        hint = "Tensor" if len(outputs) == 1 else "tuple[Tensor, ...]"
        schema = ", ".join([*map(_schema_of, self.arguments), *(["int seed"] if seed else [])])
        fits = f"_fits({', '.join(names)})"
        contiguous = [a.name for a in self.tensors if self._is_present(a)]
        said = "What the backward is to have stands behind the results." if self.saved else "Its gradients follow."
        yield "\n".join(
            [
                *_decorated(self.name, f"({schema}) -> {returns}"),
                *wrapped(f"def _{self.name}_op({typed}) -> {hint}:", ""),
                f'    """The op. {said}"""',
                f"    if {fits}:",
                *self._made_contiguous(contiguous, "        "),
                *self._dispatch("forward", given, "        "),
                f"    {self._unpacked('found')} = _reference({given})",
                *self._returned_by_torch(),
            ]
        )
        yield "\n".join(
            [
                f"@_{self.name}_op.register_fake",
                *wrapped(f"def _({typed}) -> {hint}:", ""),
                f"    {self._unpacked('found')} = _reference({given})",
                *self._returned_by_fake(fits),
            ]
        )
        if self.has_gradient:
            yield from self._backward_ops(given, typed, schema)

    def _is_present(self, argument: Argument) -> bool:
        return isinstance(self.signature.arguments[self.arguments.index(argument)], Shape)

    def _made_contiguous(self, names: Sequence[str], margin: str) -> list[str]:
        taken = ", ".join(names)
        given = ", ".join(f"{name}.contiguous()" for name in names)
        return (
            wrapped(f"{taken} = {given}", margin)
            if len(taken) + len(given) < WIDTH - 15
            else [f"{margin}{name} = {name}.contiguous()" for name in names]
        )

    def _dispatch(self, which: str, given: str, margin: str) -> list[str]:
        call = f"_{which}"
        if len(self.launchers) == 1 or not getattr(self.launchers[1], which):
            return wrapped(f"return {call}({given})", margin)
        shape = next(a.name for a in self.tensors if self._has_columns(a))
        place = self._columns_at(shape)
        return [
            f"{margin}if {shape}.shape[{place}] > {HELD}:",
            *wrapped(f"return {call}_long({given})", f"{margin}    "),
            *wrapped(f"return {call}({given})", margin),
        ]

    def _has_columns(self, argument: Argument) -> bool:
        given = self.signature.arguments[self.arguments.index(argument)]
        return isinstance(given, Shape) and any(size.name == "columns" and size.times == 1 for size in given.sizes)

    def _columns_at(self, name: str) -> int:
        given = self.signature.arguments[[a.name for a in self.arguments].index(name)]
        place = next(i for i, size in enumerate(given.sizes) if size.name == "columns" and size.times == 1)
        return place - len(given.sizes)

    def _unpacked(self, name: str) -> str:
        return name if self.results == 1 else ", ".join(f"{name}_{i}" for i in range(self.results))

    def _results(self, name: str) -> list[str]:
        return [name] if self.results == 1 else [f"{name}_{i}" for i in range(self.results)]

    def _returned_by_torch(self) -> list[str]:
        inputs = [a.name for a in self.tensors]
        results = self._results("found")
        lines = [f"    {r} = _own({', '.join([r, *inputs, *results[:i]])})" for i, r in enumerate(results)]
        empty = [f"{results[0]}.new_empty(0, dtype=torch.float32)" for _ in self.saved]
        return [*lines, *_returned([*results, *empty], "    ")]

    def _returned_by_fake(self, fits: str) -> list[str]:
        results = [f"{r}.new_empty({r}.shape)" for r in self._results("found")]
        if not self.saved:
            together = ", ".join(results)
            return (
                wrapped(f"return {together}", "    ")
                if len(results) == 1
                else ["    return (", *(f"        {r}," for r in results), "    )"]
            )
        lines = [f"    {name} = {text}" for name, text in zip(self._results("found"), results, strict=True)]
        made = self.launchers[0].saved
        lines += [f"    if not {fits}:"]
        first = self._results("found")[0]
        empty = f"{first}.new_empty(0, dtype=torch.float32)"
        lines += _returned([*self._results("found"), *[empty] * len(made)], "        ")
        lines += [f"    {line}" for line in self.launchers[0].bindings]
        lines += ["    return ("]
        lines += [f"        {each}," for each in (*self._results("found"), *made.values())]
        return [*lines, "    )"]

    def _backward_ops(self, given: str, typed: str, schema: str) -> Iterator[str]:
        grads = [f"grad_{i}" for i in range(self.results)] if self.results > 1 else ["grad_output"]
        saved = [*self.kept_results.values(), *self.saved]
        tensors = ", ".join(f"{name}: Tensor" for name in [*grads, *saved])
        taken = ", ".join([*grads, *saved, given])
        fits = f"_fits({', '.join(a.name for a in self.arguments)})"
        wanted = ", ".join(f'"{a.name}": {a.name}' for a in self.tensors)
        rest = ", ".join([*(f"{a.name}={a.name}" for a in self.plain), *(["seed=seed"] if self.has_seed else [])])
        call = ", ".join(["**{**others, **chosen}", *([rest] if rest else [])])
        backward = f"_{self.name}_backward_op"
        full_schema = f"({', '.join([*(f'Tensor {name}' for name in [*grads, *saved]), schema])}) -> Tensor[]"
        cotangent = grads[0] if self.results == 1 else f"({', '.join(grads)})"
        yield "\n".join(
            [
                *_decorated(f"{self.name}_backward", full_schema),
                *wrapped(f"def {backward}({tensors}, {typed}) -> list[Tensor]:", ""),
                '    """The gradients of the floating tensors among the arguments, in their order."""',
                f"    if {fits}:",
                *self._made_contiguous([*grads, *(a.name for a in self.tensors if self._is_present(a))], "        "),
                *self._dispatch("backward", ", ".join([*grads, *saved, given]), "        "),
                f"    given = {{{wanted}}}",
                "    chosen = {name: each for name, each in given.items() if _is_floating(each)}",
                "    others = {name: each for name, each in given.items() if name not in chosen}",
                "",
                "    def of(chosen: dict[str, Tensor]) -> Any:",
                f"        return _reference({call})",
                "",
                "    _, pullback = torch.func.vjp(of, chosen)",
                f"    (found,) = pullback({cotangent})",
                "    results: list[Tensor] = []",
                "    for name in chosen:",
                f"        results.append(_own(found[name], {', '.join(grads)}, *chosen.values(), *results))",
                "    return results",
            ]
        )
        yield (
            "def _is_floating(each: Tensor | None) -> bool:\n    return each is not None and each.is_floating_point()"
        )
        yield "\n".join(
            [
                f"@{backward}.register_fake",
                *wrapped(f"def _({tensors}, {typed}) -> list[Tensor]:", ""),
                f"    given = ({', '.join(a.name for a in self.tensors)}{',' if len(self.tensors) == 1 else ''})",
                "    floating = [each for each in given if each is not None and each.is_floating_point()]",
                "    return [each.new_empty(each.shape) for each in floating]",
            ]
        )
        names = [*(a.name for a in self.tensors)]
        plain_names = [*(a.name for a in self.plain), *(["seed"] if self.has_seed else [])]
        order = [*(a.name for a in self.arguments), *(["seed"] if self.has_seed else [])]
        save = ", ".join(names)
        lines = [
            "def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:",
            '    """What the backward is to have: the arguments'
            + (", and statistics of rows." if saved else ".")
            + '"""',
            f"    {_targets(order)} = inputs",
        ]
        lines += [f"    ctx.plain = {_tuple(plain_names)}"] if plain_names else []
        kept = ", ".join([save, *self._kept_of_output()])
        lines += [f"    ctx.save_for_backward({kept})"]
        yield "\n".join(lines)
        restored = [f"    {_targets([*names, *saved])} = ctx.saved_tensors"]
        restored += [f"    {_targets(plain_names)} = ctx.plain"] if plain_names else []
        first = [*grads, *(["*_"] if self.saved else [])]
        yield "\n".join(
            [
                *wrapped(
                    f"def _differentiated(ctx: Any, {', '.join(_typed_grads(first))}) -> tuple[Tensor | None, ...]:", ""
                ),
                *restored,
                *wrapped(f"found = iter({backward}({taken}))", "    "),
                f"    given = ({', '.join(order)}{',' if len(order) == 1 else ''})",
                "    return tuple(next(found) if _has_gradient(each) else None for each in given)",
            ]
        )
        yield (
            "def _has_gradient(each: Any) -> bool:\n    return isinstance(each, Tensor) and each.is_floating_point()"
        )
        yield (
            "def _refused(ctx: Any, *grads: Any) -> Any:\n"
            '    """Kernels have first derivatives; those of higher order are autograd\'s, of `reference`."""\n'
            "    raise RuntimeError(\n"
            f'        "{self.name}: the module has first derivatives only; for higher ones differentiate "\n'
            f'        "`reference`, the same function in plain torch"\n'
            "    )"
        )
        yield (
            f"_{self.name}_op.register_autograd(_differentiated, setup_context=_keep)\n"
            f"{backward}.register_autograd(_refused)"
        )

    def _kept_of_output(self) -> list[str]:
        is_single = self.results == 1 and not self.saved
        kept = ["output" if is_single else f"output[{i}]" for i in self.kept_results]
        return [*kept, *([f"*output[{self.results}:]"] if self.saved else [])]

    # --- what users call, and the test ---

    def _public(self) -> str:
        names = [a.name for a in self.arguments]
        typed = self._parameters(self.arguments)
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
        said = plain(doc[0]) if doc else "Fused where kernels take the arguments, plain torch elsewhere."
        call = f"_{self.name}_op({given})"
        if not self.saved:
            body = wrapped(f"return {call}", "    ")
        elif self.results == 1:
            body = wrapped(f"return {call}[0]", "    ")
        else:
            body = wrapped(f"return {call}[: {self.results}]", "    ")
        lines = [*wrapped(f"def {self.name}({typed}) -> {hint}:", ""), f'    """{said}"""']
        lines += [*(drawn if self.has_seed else []), *body, "", ""]
        lines += [
            *wrapped(f"def reference({typed}) -> {hint}:", ""),
            '    """The same in plain torch, of any order of derivatives."""',
        ]
        lines += [*(drawn if self.has_seed else []), *wrapped(f"return _reference({passed})", "    ")]
        return "\n".join(lines)

    def _passed(self) -> list[str]:
        return [f"{a.name}={a.name}" if a.keyword_only else a.name for a in self.arguments]

    def _has_keywords(self) -> bool:
        return any(a.keyword_only for a in self.arguments)

    def _parameters(self, arguments: Sequence[Argument], defaults: bool = True) -> str:
        """The parameters of a function, typed; keyword-only ones behind a star where there are defaults."""
        parts: list[str] = []
        starred = False
        for a in arguments:
            if a.keyword_only and not starred and defaults:
                parts.append("*")
                starred = True
            default = "" if a.required or not defaults else f" = {default_of(a)!r}"
            parts.append(f"{a.name}: {python_type(a.type)}{default}")
        return ", ".join(parts)

    def _test(self) -> str:
        made = [f"    {a.name} = {self._sample(a)}" for a in self.tensors if self._is_present(a)]
        values = {a.name: v for a, v in zip(self.arguments, self.values, strict=True)}
        floating = [a.name for a in self.tensors if self._is_present(a) and a.name in self.launchers[0].differentiable]
        arguments = []
        for a in self.arguments:
            text = a.name if a in self.tensors and self._is_present(a) else repr(values[a.name])
            arguments.append(f"{a.name}={text}" if a.keyword_only else text)
        if self.has_seed:
            arguments.append("seed=7")
        call = ", ".join(arguments)
        lines = [
            "def _samples(dtype: torch.dtype, device: str) -> tuple[Tensor, ...]:",
            "    torch.manual_seed(0)",
            *made,
            f"    found = {_tuple([a.name for a in self.tensors if self._is_present(a)])}",
            "    return tuple(each.to(device, dtype if each.is_floating_point() else None) for each in found)",
            "",
            "",
        ]
        lines += [
            *wrapped(
                f"def _called({', '.join(f'{a.name}: Tensor' for a in self.tensors if self._is_present(a))}) -> Any:",
                "",
            ),
            *wrapped(f"return {self.name}({call})", "    "),
            "",
            "",
            "def test_gradients() -> None:",
            '    """The gradients against finite differences, in float64."""',
        ]
        if self.has_gradient and floating and "gs.surrogate" not in self.formula:
            lines += [
                '    found = _samples(torch.float64, "cpu")',
                *[f"    found[{i}].requires_grad_()" for i in self._places(floating)],
                "    assert torch.autograd.gradcheck(_called, found)",
            ]
        else:
            lines += ['    assert _called(*_samples(torch.float64, "cpu")) is not None']
        lines += [
            "",
            "",
            "def test_kernels() -> None:",
            '    """The kernels, where they run, against plain torch in float64."""',
            '    device = "cuda" if torch.cuda.is_available() else "cpu"',
            "    results = _results(_samples(torch.float32, device))",
            "    expected = _results(_samples(torch.float64, device))",
            "    for result, wanted in zip(results, expected, strict=True):",
            "        torch.testing.assert_close(result.double(), wanted, rtol=1e-4, atol=1e-5)",
            "",
            "",
            "def _results(given: tuple[Tensor, ...]) -> list[Tensor]:",
            '    """The results, and the gradients of their sum."""',
            *(
                [f"    floating = [given[i].requires_grad_() for i in {self._places(floating)!r}]"]
                if self.has_gradient and floating
                else []
            ),
            "    found = _called(*given)",
            "    results = list(found) if isinstance(found, tuple) else [found]",
        ]
        if self.has_gradient and floating:
            lines += [
                "    total = torch.stack([(each.double() ** 2).sum() for each in results]).sum()",
                "    return [*results, *torch.autograd.grad(total, floating)]",
            ]
        else:
            lines += ["    return results"]
        lines += ["", "", 'if __name__ == "__main__":', "    test_gradients()", "    test_kernels()", '    print("ok")']
        return "\n".join(_short(lines))

    def _places(self, names: Sequence[str]) -> list[int]:
        """Where tensors stand among the samples."""
        present = [a.name for a in self.tensors if self._is_present(a)]
        return [present.index(name) for name in names]

    def _sample(self, argument: Argument) -> str:
        """An expression that makes a small tensor, of numbers such as the arguments given had."""
        shape: Shape = self.signature.arguments[self.arguments.index(argument)]
        value = self.values[self.arguments.index(argument)]
        batch = [2] if shape.batched else []
        small = {name: (3 + i) * self.signature.multiple for i, name in enumerate(self.signature.names)}
        sizes = [s.number if s.name == FIXED else int(small[s.name] * s.times) for s in shape.sizes]
        text = f"{(*batch, *sizes)!r}"
        if shape.dtype.name == "bool":
            return f"torch.rand({text}) < 0.5"
        if not shape.dtype.is_floating:
            return f"torch.randint(0, {_bound_of(value, small)}, {text}, dtype=torch.{shape.dtype})"
        low, high = (float(np.min(value)), float(np.max(value))) if np.size(value) else (-1.0, 1.0)
        if low > 0 and high < 1:
            return f"torch.rand({text}, dtype=torch.float64) * 0.7 + 0.15"
        if low > 0:
            return f"torch.rand({text}, dtype=torch.float64) + 0.5"
        return f"torch.randn({text}, dtype=torch.float64)"


def _bound_of(value: Any, small: dict[str, int]) -> int:
    least = min(small.values(), default=2)
    return max(1, min(int(np.max(value)) + 1 if np.size(value) and np.max(value) > 0 else least, least))


def _targets(names: Sequence[str]) -> str:
    """Names that a tuple is taken apart into."""
    return f"({names[0]},)" if len(names) == 1 else ", ".join(names)


def _tuple(parts: Sequence[str]) -> str:
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


def _sizes(shape: Shape) -> list[str]:
    return [size.text() for size in shape.sizes]


def _indented(text: str) -> list[str]:
    return [f"    {line}" if line.strip() else "" for line in text.rstrip().splitlines()]


def _short(lines: Sequence[str]) -> list[str]:
    found: list[str] = []
    for line in lines:
        margin = line[: len(line) - len(line.lstrip())]
        found += wrapped(line.lstrip(), margin) if line.strip() and '"""' not in line else [line]
    return found


def _returned(parts: Sequence[str], margin: str) -> list[str]:
    """A return of several, on lines of their own where one is too short."""
    line = f"{margin}return {', '.join(parts)}"
    if len(line) <= WIDTH:
        return [line]
    return [f"{margin}return (", *(f"{margin}    {part}," for part in parts), f"{margin})"]


def _decorated(name: str, schema: str) -> list[str]:
    lines = ["@torch.library.custom_op(", f'    "{NAMESPACE}::{name}",', "    mutates_args=(),"]
    parts = [schema[i : i + 76] for i in range(0, len(schema), 76)]
    if len(parts) == 1:
        return [*lines, f'    schema="{schema}",', ")"]
    return [*lines, "    schema=(", *(f'        "{part}"' for part in parts), "    ),", ")"]


def _schema_of(argument: Argument) -> str:
    """A parameter as torch's schemas have it; defaults are those of the function in front."""
    type = argument.type
    optional = isinstance(type, OptionalType)
    name = {"Tensor": "Tensor", "int": "int", "float": "float", "bool": "bool", "str": "str"}.get(
        str(strip_optional(type)).partition("[")[0]
    )
    text = str(strip_optional(type))
    if text.startswith("List[") and text[5:-1] in ("int", "float", "bool"):
        name = f"{text[5:-1]}[]"
    return f"{name}{'?' if optional else ''} {argument.name}"


def _typed_grads(names: Sequence[str]) -> list[str]:
    return [f"{name}: {'Any' if name.startswith('*') else 'Tensor'}" for name in names]
