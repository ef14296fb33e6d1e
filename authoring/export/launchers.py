"""Both passes as Python functions that launch kernels, in the order of the programs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ...compiler.fusion.program import ExternStep, Program, Ref
from ...compiler.types.schema import Argument
from ...lang.light_dataclasses import dataclass, field, replace
from .plans import NoPlan, Passes
from .program_text import ProgramText, ProgramWriter, mentions_name, shape_text
from .python_text import WIDTH, python_type, wrapped_line
from .signature import FIXED, ROWS, ExportSignature, SampleShape
from .sizes import Sizes
from .triton.kernels import TritonFunction


@dataclass(frozen=True)
class Launchers:
    """The texts of `_forward` and `_backward`, the kernels that they launch, and what passes between them. Of those for
    long rows one is empty where it is that for others.

    `saved` maps what the forward gives beside its results to what makes it; `results` are those that the backward
    takes. `bindings` are lines that say what the named sizes are.
    """

    forward: str
    backward: str | None
    kernels: tuple[TritonFunction, ...]
    saved: Mapping[str, str]
    results: Mapping[int, str]
    bindings: tuple[str, ...]
    differentiable: tuple[str, ...]
    """The arguments that have a gradient."""

    @property
    def all_text(self) -> str:
        return "\n".join([self.forward, self.backward or ""])

    @property
    def holds_rows(self) -> bool:
        """Whether a program holds a row of any length."""
        return "triton.next_power_of_2(columns" in self.all_text

    def beside(self, other: Launchers) -> Launchers | None:
        """These for long rows, under names of their own where they differ; None where they do not."""
        known = {_nameless(function): function.name for function in other.kernels}
        names = {f.name: known.get(_nameless(f), f"{f.name}_long") for f in self.kernels}
        if all(name in known.values() for name in names.values()):
            return None

        def named(text: str) -> str:
            for name, own in names.items():
                text = re.sub(rf"\b{name}(?=\[|\()", own, text)
            return text

        def launcher(text: str, beside: str) -> str:
            renamed = named(text)
            return "" if renamed == beside else re.sub(r"^def (\w+)\(", r"def \1_long(", renamed)

        kernels = tuple(
            replace(f, name=names[f.name], text=named(f.text))
            for f in self.kernels
            if names[f.name] not in known.values()
        )
        backward = launcher(self.backward, other.backward or "") if self.backward is not None else None
        return replace(self, forward=launcher(self.forward, other.forward), backward=backward, kernels=kernels)


def _nameless(function: TritonFunction) -> str:
    return re.sub(rf"\b{function.name}\b", "", function.text)


@dataclass
class LauncherWriter:
    """Writes the launchers for the samples of a signature."""

    arguments: Sequence[Argument]
    signature: ExportSignature
    passes: Sequence[Passes]
    halves: Sequence[bool]
    """Per result, whether it has the dtype of the arguments."""
    has_seed: bool = False
    kernels: list[TritonFunction] = field(default_factory=list)

    def write(self) -> Launchers:
        """NoPlan or NotASize for what has no text."""
        self.sizes = Sizes(self.signature.symbols)
        self.shapes = {
            a.name: given
            for a, given in zip(self.arguments, self.signature.arguments, strict=True)
            if isinstance(given, SampleShape)
        }
        self.floating = [name for name, shape in self.shapes.items() if shape.dtype.is_floating]
        if not self.floating:
            raise NoPlan("no argument is a floating tensor")
        self.like = self.floating[0]
        self.is_mixed = any(_is_mixed(p.forward) or (p.backward and _is_mixed(p.backward)) for p in self.passes)
        forward, saved, results = self._forward()
        backward = self._backward(saved, results) if self.passes[0].backward is not None else None
        bindings = self._bindings({name for text in saved.values() for name in self._named(text)})
        gradient = self.passes[0].gradient
        backward_outputs = self.passes[0].backward.outputs if self.passes[0].backward is not None else ()
        numbers = gradient.output_vjps if gradient is not None else ()
        pairs = zip(numbers, backward_outputs, strict=True)
        differentiable = tuple(self.arguments[i].name for i, output in pairs if isinstance(output, Ref))
        return Launchers(forward, backward, tuple(self.kernels), saved, results, tuple(bindings), differentiable)

    # --- the forward ---

    def _forward(self) -> tuple[str, dict[str, str], dict[int, str]]:
        first = self.passes[0]
        count = first.gradient.num_real_outputs if first.gradient is not None else len(first.forward.outputs)
        programs = [one.forward for one in self.passes]
        if len({len(program.outputs) for program in programs}) > 1:
            raise NoPlan("what the forward keeps for the backward follows from sizes")
        made: dict[str, str] = {}
        for number, output in enumerate(first.forward.outputs):
            if isinstance(output, Ref):
                if output.name in first.forward.layouts:
                    made.setdefault(output.name, self._made(number, number < count))
            elif number < count:
                raise NoPlan("a result is no tensor")
        taken = self._inputs(programs[0], [a.name for a in self.arguments])
        writer = ProgramWriter(programs, self.signature, self.sizes, taken, made, self.like, self.is_mixed)
        text = writer.write()
        self.kernels += text.kernels
        self.seeds = text.seeds
        saved, results = self._kept(writer, count)
        returned = [self._own(writer, number, output) for number, output in enumerate(programs[0].outputs[:count])]
        parameters = self._typed([])
        lines = self._function("_forward", parameters, text, [*returned, *saved], "")
        return lines, saved, results

    def _made(self, number: int, is_result: bool) -> str:
        """What makes an output of the forward."""
        names = [one.forward.outputs[number] for one in self.passes]
        layouts = [one.forward.layouts[ref.name] for one, ref in zip(self.passes, names, strict=True)]
        shape = shape_text([layout.shape for layout in layouts], self.signature, self.sizes)
        dtype = layouts[0].dtype
        may_be_half = (self.halves[number] if is_result else self.is_mixed) and not self._is_wide(number)
        is_half = dtype.is_floating and may_be_half
        same = next((n for n in self.floating if is_half and self._text_of(self.shapes[n]) == shape), None)
        if same is not None:
            return f"torch.empty_like({same})"
        own = f"{self.like}.dtype" if is_half else f"torch.{dtype}"
        return f"torch.empty({shape}, dtype={own}, device={self.like}.device)"

    def _text_of(self, shape: SampleShape) -> str:
        parts = [*(["*batch"] if shape.batched else []), *(size.text() for size in shape.sizes)]
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"

    def _kept(self, writer: ProgramWriter, count: int) -> tuple[dict[str, str], dict[int, str]]:
        """What the backward has of the forward: what is made for it, and results, by number."""
        gradient, program = self.passes[0].gradient, self.passes[0].forward
        saved: dict[str, str] = {}
        results: dict[int, str] = {}
        if gradient is None:
            return saved, results
        real = [output.name for output in program.outputs[:count] if isinstance(output, Ref)]
        for number in gradient.captured_outputs:
            output = program.outputs[number]
            if not isinstance(output, Ref):
                if isinstance(output, list):
                    self._require_arguments(output)
                continue
            if output.name in writer.text.seeds or output.name in program.inputs:
                continue
            if output.name not in program.layouts:
                raise NoPlan(f"a number that the forward computes, {output.name}, is kept for the backward")
            if output.name in real and not self._is_wide(number):
                results[real.index(output.name)] = writer.name(output.name)
            else:
                saved[writer.name(output.name)] = self._made(number, False)
        return saved, results

    def _require_arguments(self, output: Sequence[Any]) -> None:
        inputs = self.passes[0].forward.inputs
        if any(isinstance(item, list) or (isinstance(item, Ref) and item.name not in inputs) for item in output):
            raise NoPlan("a list is kept for the backward")

    def _is_wide(self, number: int) -> bool:
        """Whether an output of the forward is a result in the dtype of the arguments that is kept in float32."""
        return number in self.passes[0].statistics and self.halves[number]

    def _own(self, writer: ProgramWriter, number: int, output: Any) -> str:
        """A result as an op may return it."""
        name = writer.name(output.name)
        if self._is_wide(number):
            return f"{name}.to({self.like}.dtype, copy=True)"
        if output.name in writer.made and output.name in writer.allocated:
            return name
        return f"_own({', '.join([name, *dict.fromkeys(self.shapes)])})"

    # --- the backward ---

    def _backward(self, saved: Mapping[str, str], results: Mapping[int, str]) -> str:
        gradient = self.passes[0].gradient
        programs = [one.backward for one in self.passes if one.backward is not None]
        assert gradient is not None
        forward, program = self.passes[0].forward, programs[0]
        names = self.gradients
        grads = [names[i] for i in gradient.input_vjps]
        inputs = [self.arguments[i].name for i in gradient.captured_inputs]
        kept: list[str | list[str]] = []
        saved_names, count = iter(saved), gradient.num_real_outputs
        real = [output.name for output in forward.outputs[:count] if isinstance(output, Ref)]
        known: dict[str, str] = {}
        for number in gradient.captured_outputs:
            output = forward.outputs[number]
            if isinstance(output, list):
                kept.append([self._argument(item.name) if isinstance(item, Ref) else str(item) for item in output])
            elif not isinstance(output, Ref):
                kept.append("")
            elif output.name in self.seeds:
                kept.append(self.seeds[output.name])
            elif output.name in forward.inputs:
                kept.append(self._argument(output.name))
            elif output.name in real and not self._is_wide(number):
                kept.append(results[real.index(output.name)])
            else:
                if output.name not in known:
                    known[output.name] = next(saved_names)
                kept.append(known[output.name])
        taken = self._inputs(program, [*grads, *inputs, *kept])
        made: dict[str, str] = {}
        for output, number in zip(program.outputs, gradient.output_vjps, strict=True):
            if isinstance(output, Ref) and output.name not in made:
                made[output.name] = f"torch.empty_like({self.arguments[number].name})"
        writer = ProgramWriter(programs, self.signature, self.sizes, taken, made, self.like, self.is_mixed)
        text = writer.write()
        self.kernels += text.kernels
        returned = self._gradients(writer, program, gradient.output_vjps)
        parameters = self._typed([*self.gradients, *results.values(), *saved])
        return self._function("_backward", parameters, text, returned, "[]")

    def _argument(self, name: str) -> str:
        """The parameter that an input of the forward is."""
        return self.arguments[list(self.passes[0].forward.inputs).index(name)].name

    @property
    def gradients(self) -> list[str]:
        """The parameters for gradients of the results."""
        count = len(self.halves)
        return [f"grad_{i}" for i in range(count)] if count > 1 else ["grad_output"]

    def _gradients(self, writer: ProgramWriter, program: Program, numbers: Sequence[int]) -> list[str]:
        """One for each floating argument: what an op returns shares memory with nothing."""
        found = {
            self.arguments[i].name: output
            for i, output in zip(numbers, program.outputs, strict=True)
            if isinstance(output, Ref)
        }
        seen: set[str] = set()
        returned = []
        for name in self.floating:
            output = found.get(name)
            if output is None:
                returned.append(f"torch.zeros_like({name})")
                continue
            value = writer.name(output.name)
            is_new = output.name in writer.allocated and output.name not in seen
            returned.append(value if is_new else f"{value}.clone()")
            seen.add(output.name)
        return returned

    # --- text ---

    def _inputs(self, program: Program, names: Sequence[str | list[str]]) -> dict[str, str]:
        found: dict[str, str] = {}
        for given, name in zip(program.inputs, names, strict=True):
            if isinstance(given, tuple) and isinstance(name, list) and len(given) == len(name):
                found.update(zip(given, name, strict=True))
            elif isinstance(given, tuple):
                raise NoPlan("a list of tensors is taken")
            elif isinstance(name, list):
                found[given] = f"[{', '.join(name)}]"
            elif name:
                found[given] = name
        return found

    def _typed(self, tensors: Sequence[str]) -> list[str]:
        found = [f"{name}: Tensor" for name in tensors]
        found += [f"{a.name}: {'Tensor' if a.name in self.shapes else python_type(a.type)}" for a in self.arguments]
        return [*found, *(["seed: int"] if self.has_seed else [])]

    def _function(
        self, name: str, parameters: Sequence[str], text: ProgramText, returned: Sequence[str], form: str
    ) -> str:
        needed = set(text.sizes) | {n for each in returned for n in self._named(each)}
        body = [*(f"    {line}" for line in self._bindings(needed)), *text.lines]
        joined = ", ".join(returned)
        value = f"[{joined}]" if form else joined
        body += (
            wrapped_line(f"return {value}", "    ")
            if len(value) < WIDTH - 11
            else [
                f"    return {'[' if form else '('}",
                *(f"        {each}," for each in returned),
                f"    {']' if form else ')'}",
            ]
        )
        hint = "list[Tensor]" if form else "Tensor" if len(returned) == 1 else "tuple[Tensor, ...]"
        which = (
            "The kernels of the forward." if name == "_forward" else "Those of the backward: gradients of arguments."
        )
        return "\n".join(
            [*wrapped_line(f"def {name}({', '.join(parameters)}) -> {hint}:", ""), f'    """{which}"""', *body]
        )

    def _named(self, text: str) -> list[str]:
        return [n for n in ("batch", ROWS, *self.signature.names) if mentions_name(text, n)]

    def _bindings(self, needed: set[str]) -> list[str]:
        """Lines that say what named sizes are, those first from which others follow."""
        lines: list[str] = []
        batched = [(name, shape) for name, shape in self.shapes.items() if shape.batched]
        for size in self.signature.names:
            if size in needed:
                lines.append(self._binding(size))
        if batched and needed & {"batch", ROWS}:
            name, shape = batched[0]
            rank = len(shape.sizes)
            front = f"{name}.shape[: {name}.dim() - {rank}]" if rank else f"{name}.shape"
            if "batch" in needed:
                lines.append(f"batch = {front}")
                front = "batch"
            if ROWS in needed:
                lines.append(f"rows = math.prod({front})" if self.signature.any_batch else f"rows = {name}.shape[0]")
        return lines

    def _binding(self, wanted: str) -> str:
        for name, shape in self.shapes.items():
            for place, size in enumerate(shape.sizes):
                if size.name == wanted and size.name != FIXED and size.times == 1:
                    return f"{wanted} = {name}.shape[{place - len(shape.sizes)}]"
        raise NoPlan(f"no tensor has the size {wanted}")


def _is_mixed(program: Program) -> bool:
    """Whether ops of the library compute tensors between the kernels."""
    return any(isinstance(s, ExternStep) and any(name in program.layouts for name in s.results) for s in program.steps)
