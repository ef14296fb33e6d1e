"""`gradscript export --c`: both passes in C, behind functions that take pointers and sizes.

    int32_t swiglu_forward(const float *x, const float *gate, float *result, int64_t rows, int64_t columns);

Kernels are those of the C backend, cut up in a way that no size decides, with sizes as parameters. Tensors are float32,
contiguous; the caller allocates what is returned.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

from ...compiler.autodiff.gradient import Gradient
from ...compiler.codegen.c.module import CFunction, emit_c, emit_function, supports
from ...compiler.codegen.text import Unsupported
from ...compiler.fusion.program import ExternStep, KernelStep, Program, Ref
from ...compiler.ir.structure import spelled
from ...compiler.kernel_ir.kernel import Kernel
from ...compiler.kernel_ir.passed import passed_sizes
from ...compiler.ops.open_arrays import contiguous_strides
from ...compiler.ops.registry import OPS, Trait
from ...compiler.recompute import Policy
from ...compiler.recompute.policy import policy as policy_of
from ...compiler.scheduling.cpu import BLOCK, CpuSchedule, choose_cpu_schedule
from ...compiler.scheduling.cpu import ProgramAxis as Programs
from ...compiler.types.dtypes import DType
from ...compiler.types.types import is_tensor
from ...lang.diagnostics import CompileError, Diagnostic
from ...lang.light_dataclasses import dataclass, field
from ...runtime.face.function import Function
from .merging import merged
from .plans import NoPlan, Passes, graph_of, kernel_policy, plans, walked_in_chunks
from .program_text import mentions
from .signature import ROWS, ExportSignature, SampleShape, signatures
from .sizes import NotASize, Sizes, SizeTerm, at
from .triton_kernels import renamed_like

NOTE = (
    "C is made of functions of tensors whose branches and loops follow from shapes and numbers: choose by "
    "`torch.where`, or leave the choice to the caller"
)
LIBRARY_NOTE = (
    "C runs kernels alone, and no op of a library: export what stands in front of it and behind it, and call a library "
    "between the two, or leave out `--c`: torch runs it there"
)
_TYPES = {"float32": "float", "float64": "double", "int64": "int64_t", "int32": "int32_t", "bool": "bool"}
_ARRAY = re.compile(r"^(\s*)(\w+) (\w+)\[(.+)\] __attribute__\(\(aligned\(\d+\)\)\);$")
_PARAMETERS = {
    "buffers": "void *const *buffers",
    "sizes": "const int64_t *sizes",
    "numbers": "const gs_number *numbers",
    "scratch": "void *scratch",
    "begin": "int64_t begin",
    "end": "int64_t end",
}
"""Of a kernel's function, in their order."""
_SIGNATURE = ", ".join(_PARAMETERS.values()) + ")"
_VECTORS = """/* -fopenmp-simd has the compiler follow what loops say of vectors; without it that is passed over. */
#pragma GCC diagnostic ignored "-Wunknown-pragmas\""""
_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}


def exported_c(function: Function, values: Sequence[Any], policy: str | int | Policy | None = None) -> dict[str, str]:
    """The header and the file of C, by name. CompileError (E412) for what has no such form."""
    wanted = policy_of(policy)
    absent = [i for i, value in enumerate(values) if value is None]
    graph = graph_of(function, absent)
    reason: NoPlan | None = None
    for signature in signatures(values):
        try:
            found = plans(graph, signature, kernel_policy(wanted), supports, walked_in_chunks)
            return _Module(function, signature, found).texts()
        except NoPlan as problem:
            reason = problem
        except Unsupported as problem:
            reason = NoPlan(str(problem))
        except NotASize:
            continue
    span = reason.span if reason is not None and reason.span is not None and reason.span.source.text else None
    message = f"'{function.name}' cannot be exported as C: {reason or 'no kernels of one text serve all sizes'}"
    note = (reason.note if reason is not None else "") or NOTE
    raise CompileError([Diagnostic("E412", message, span or function.callee.graph.span, (note,))])


@dataclass
class _Module:
    function: Function
    signature: ExportSignature
    passes: Sequence[Passes]
    kernels: dict[str, CFunction] = field(default_factory=dict)
    prototypes: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)

    def texts(self) -> dict[str, str]:
        self.sizes = Sizes(self.signature.symbols, in_c=True)
        self.names = [*([ROWS] if self.signature.has_batch else []), *self.signature.names]
        name = self.function.name
        drivers = list(self._drivers())
        text = emit_c(self.kernels.values())
        told = [*self._shapes(), f"results: {', '.join(self.results)}"]
        told += [f"kept for the backward: {', '.join(self.kept)}"] if self.kept else []
        shapes = "\n".join(f" *     {line}" for line in told)
        doc = (
            f"/* {name}: both passes in C, for float32 tensors that are contiguous.\n *\n{shapes}\n *\n"
            " * Results are written where the caller says. 0: done, 1: an index was out of range, 2: no memory. */"
        )
        guard = f"GRADSCRIPT_{name.upper()}_H"
        header = [doc, f"#ifndef {guard}", f"#define {guard}", "", "#include <stdbool.h>", "#include <stdint.h>", ""]
        header += ["#ifdef __cplusplus", 'extern "C" {', "#endif", "", *(f"{p};" for p in self.prototypes), ""]
        header += ["#ifdef __cplusplus", "}", "#endif", "", "#endif", ""]
        library = "#include <stdlib.h>\n#include <string.h>"
        source = [f'#include "{name}.h"', "", library, "", _VECTORS, "", text.strip(), "", *drivers]
        return {f"{name}.h": "\n".join(header), f"{name}.c": "\n".join(source) + "\n"}

    def _shapes(self) -> Iterator[str]:
        for argument, given in zip(self.function.schema.arguments, self.signature.arguments, strict=True):
            if isinstance(given, SampleShape):
                sizes = [*([ROWS] if given.batched else []), *(size.text().replace("//", "/") for size in given.sizes)]
                yield f"{argument.name}: ({', '.join(sizes)})"
            elif not isinstance(given, float) or self.signature.settled:
                yield f"{argument.name}: {given!r}, as it was given: the text is for that alone"

    def _drivers(self) -> Iterator[str]:
        first = self.passes[0]
        names = [a.name for a in self.function.schema.arguments]
        forward = _Driver(self, f"{self.function.name}_forward", [p.forward for p in self.passes], ())
        yield forward.text()
        count = first.gradient.num_real_outputs if first.gradient is not None else len(first.forward.outputs)
        self.results, self.kept = forward.written(0, count), forward.written(count)
        if first.backward is not None and first.gradient is not None:
            gradients = [names[i] for i in first.gradient.output_vjps]
            programs = [p.backward for p in self.passes if p.backward is not None]
            backward = _Driver(self, f"{self.function.name}_backward", programs, gradients)
            backward.take(forward, first.gradient)
            yield backward.text()


class _Driver:
    """One function that runs a program."""

    def __init__(self, module: _Module, name: str, programs: Sequence[Program], gradients: Sequence[str]) -> None:
        self.gradients = gradients
        """What a backward gives the gradients of, by name."""
        self.copies: list[str] = []
        self.pointers: set[str] = set()
        """The parameters that it writes to, as they are declared."""
        self.module = module
        self.name = name
        self.programs = programs
        self.sizes = module.sizes
        self.given: dict[str, str] = {}
        self.lines: list[str] = []
        self.own: list[str] = []
        self.numbers: dict[str, str] = {}

    def text(self) -> str:
        program = self.programs[0]
        parameters = self._parameters(program)
        for steps in zip(*(p.steps for p in self.programs), strict=True):
            if isinstance(steps[0], KernelStep):
                self._kernel(steps)
            else:
                self._number(steps[0])
        sizes = [f"int64_t {name}" for name in self.module.names]
        self.pointers = {text.partition(" ")[2] for text in parameters if not text.startswith("const ")}
        prototype = f"int32_t {self.name}({', '.join([*parameters, *sizes])})"
        self.module.prototypes.append(prototype)
        freed = [f"free({name});" for name in self.own]
        body = ["int32_t failed = 0;", *self.lines, *self.copies, *freed, "return failed;"]
        unused = [f"(void){name};" for name in self.module.names if not any(mentions(line, name) for line in body)]
        return "\n".join([prototype, "{", *(f"    {line}" for line in [*unused, *body]), "}", ""])

    def _parameters(self, program: Program) -> list[str]:
        """Pointers to what is read and what is written, and numbers, by the names of the program."""
        used = {name for s in program.steps if isinstance(s, KernelStep) for name in s.arguments.values()}
        used |= {a.name for s in program.steps if isinstance(s, ExternStep) for a in s.arguments if isinstance(a, Ref)}
        used |= {output.name for output in program.outputs if isinstance(output, Ref) and self.gradients}
        found = []
        for given in program.inputs:
            if isinstance(given, tuple):
                raise NoPlan("a list of tensors is taken")
            if given not in used:
                continue
            layout = program.layouts.get(given)
            name = self._name(given)
            found.append(f"const {self._type(layout.dtype)} *{name}" if layout is not None else f"double {name}")
            if layout is None:
                self.numbers[given] = name
        written: set[str] = set()
        for i, output in enumerate(program.outputs):
            layout = program.layouts.get(output.name) if isinstance(output, Ref) else None
            if layout is None or (output.name in program.inputs and not self.gradients):
                # What is no tensor, and an argument that comes back as it is.
                continue
            if output.name not in program.inputs and output.name not in written:
                written.add(output.name)
                if self.gradients:
                    self._name(output.name, f"grad_{self.gradients[i]}")
                found.append(f"{self._type(layout.dtype)} *{self._name(output.name)}")
            elif self.gradients:
                found.append(self._copied(i, output.name, layout.dtype))
        return found

    def _copied(self, index: int, name: str, dtype: DType) -> str:
        """The parameter of a gradient that is another, or one that came in: where its copy goes."""
        layouts = [program.layouts[program.outputs[index].name] for program in self.programs]
        if any(layout.strides != contiguous_strides(layout.shape) for layout in layouts):
            raise NoPlan("a gradient is a view of what came in; nothing is computed for it")
        count = self.sizes.of([prod(layout.shape) for layout in layouts])
        copy = self._name(f"grad_{self.gradients[index]}")
        size = f"sizeof({self._type(dtype)}) * (size_t)({count.text})"
        self.copies.append(f"memcpy({copy}, {self._name(name)}, {size});")
        return f"{self._type(dtype)} *{copy}"

    def _type(self, dtype: DType) -> str:
        if dtype.name not in _TYPES:
            raise NoPlan(f"{dtype} has no type in C")
        return _TYPES[dtype.name]

    def _name(self, of: str, wanted: str = "") -> str:
        if of not in self.given:
            name = re.sub(r"\W", "_", wanted or of)
            while name in _WORDS or name in self.module.names or name in self.given.values():
                name += "_"
            self.given[of] = name
        return self.given[of]

    def written(self, start: int, stop: int | None = None) -> list[str]:
        """What outputs are written to, by the names of parameters."""
        outputs = self.programs[0].outputs[start:stop]
        names = [self.given.get(output.name, "") for output in outputs if isinstance(output, Ref)]
        return [name for name in dict.fromkeys(names) if f"*{name}" in self.pointers]

    def take(self, forward: _Driver, gradient: Gradient) -> None:
        """Call what the forward was given, and what it wrote, as it does."""
        program = forward.programs[0]
        written = [output.name if isinstance(output, Ref) else "" for output in program.outputs]
        theirs = [
            *(program.inputs[i] for i in gradient.captured_inputs),
            *(written[i] for i in gradient.captured_outputs),
        ]
        for ours, name in zip(self.programs[0].inputs[len(gradient.input_vjps) :], theirs, strict=True):
            if isinstance(ours, str) and isinstance(name, str) and name in forward.given:
                self.given[ours] = forward.given[name]

    # --- steps ---

    def _kernel(self, steps: Sequence[KernelStep]) -> None:
        step = steps[0]
        kernels = [renamed_like(s.kernel, step.kernel) for s in steps]
        function = _function(kernels, step.kernel.name, self.sizes, self.module.names)
        self.module.kernels[function.name] = function.function
        for number, buffer in enumerate(step.kernel.buffers):
            name = step.arguments[buffer.name]
            if buffer.is_output and name not in self.given:
                counts = [k.buffers[number].numel for k in kernels]
                self._allocate(name, buffer.dtype, counts)
        pointers = ", ".join(f"(void *){self._name(step.arguments[b.name])}" for b in step.kernel.buffers)
        passed = [self.sizes.of(found).text for found in zip(*(passed_sizes(k).values() for k in kernels), strict=True)]
        numbers = [
            f"{{.{'real' if p.dtype.is_floating else 'integer'} = {self._name(step.arguments[p.name])}}}"
            for p in step.kernel.parameters
        ]
        given = {
            "buffers": f"(void *const[]){{{pointers}}}",
            "sizes": f"(const int64_t[]){{{', '.join(passed)}}}" if passed else "0",
            "numbers": f"(const gs_number[]){{{', '.join(numbers)}}}" if numbers else "0",
            "scratch": "0",
            **{name: name for name in function.sizes},
            "begin": "0",
            "end": self._programs(kernels, function.function.schedule),
        }
        arguments = [text for name, text in given.items() if name not in function.idle]
        self.lines += ["if (!failed) {", f"    failed = {function.name}("]
        self.lines += [
            f"        {argument}{',' if i < len(arguments) - 1 else ');'}" for i, argument in enumerate(arguments)
        ]
        self.lines.append("}")

    def _allocate(self, name: str, dtype: DType, counts: Sequence[int]) -> None:
        variable, type = self._name(name), self._type(dtype)
        count = self.sizes.of(counts)
        self.lines.append(f"{type} *{variable} = malloc(sizeof({type}) * {at(count, 0)});")
        self.lines.append(f"failed = {variable} ? failed : 2;")
        self.own.append(variable)

    def _programs(self, kernels: Sequence[Kernel], schedule: CpuSchedule) -> str:
        """How many programs a kernel has."""
        counts: list[str] = []
        for program in schedule.programs:
            size = self.sizes.of([kernel.axis(program.axis).size for kernel in kernels])
            counts.append(
                f"(({at(size, 1)} + {program.block - 1}) / {program.block})" if program.block else at(size, 0)
            )
        return " * ".join(counts) or "1"

    def _number(self, step: ExternStep) -> None:
        """Arithmetic on numbers; everything else is the caller's."""
        kind = step.node.kind
        name = kind.partition("::")[2].partition(".")[0]
        if kind == "gs::seed":
            raise NoPlan("it draws random numbers", step.node.span)
        op = OPS.of(step.node.schema)
        texts = [self._name(a.name) if isinstance(a, Ref) else repr(a) for a in step.arguments]
        makes_tensor = op is None or any(result in self.programs[0].layouts for result in step.results)
        if makes_tensor or name not in (*_OPERATORS, "pow", "neg") or not step.results:
            others = (s for s in self.programs[0].steps if isinstance(s, ExternStep))
            found = next((s.node for s in others if _is_computed_elsewhere(s)), step.node)
            raise NoPlan(f"'{spelled(found) or found.kind}' is an op of a library", found.span, LIBRARY_NOTE)
        left, right = texts[0], texts[1] if len(texts) > 1 else ""
        text = {"pow": f"pow({left}, {right})", "neg": f"-{left}"}.get(name) or f"{left} {_OPERATORS[name]} {right}"
        self.lines.append(f"const double {self._name(step.results[0])} = {text};")


def _is_computed_elsewhere(step: ExternStep) -> bool:
    """Whether a step calls an op that computes something, and gives no view alone."""
    op = OPS.of(step.node.schema)
    return op is not None and not op.has(Trait.VIEW) and any(is_tensor(result.type) for result in op.schema.returns)


@dataclass(frozen=True)
class _Made:
    name: str
    function: CFunction
    sizes: tuple[str, ...]
    idle: frozenset[str]
    """Parameters that kernels have and this one does not use."""


def _function(kernels: Sequence[Kernel], name: str, sizes: Sizes, names: Sequence[str]) -> _Made:
    """A kernel's function whose last parameters but two are the sizes that it needs."""
    functions = [emit_function(kernel, f"gs_{name}", _schedule(kernel)) for kernel in kernels]
    first = functions[0]
    bodies = [re.sub(r"/\*.*?\*/\s*", "", f.text, count=1, flags=re.DOTALL) for f in functions]
    found = merged([body.split("\n") for body in bodies], sizes)
    needed = [n for n in names if any(mentions(line, n) for line in found.lines)]
    idle = frozenset(n for n in _PARAMETERS if sum(mentions(line, n) for line in found.lines) < 2)
    lines = [_with_sizes(line, needed, idle) for line in found.lines]
    text = "\n".join(_on_heap(lines))
    if any(f.scratch for f in functions):
        raise NotASize("scratch memory differs")
    comment = f"/* {_points(kernels, sizes)} */\nstatic "
    made = CFunction(first.name, comment + text, first.helpers, first.reductions, 0, first.schedule, first.points)
    return _Made(first.name, made, tuple(needed), idle)


def _points(kernels: Sequence[Kernel], sizes: Sizes) -> str:
    terms: list[tuple[str, SizeTerm]] = [
        (found[0].name, sizes.of([axis.size for axis in found]))
        for found in zip(*(k.axes for k in kernels), strict=True)
    ]
    return " × ".join(f"{name} < {term.text}" for name, term in terms) or "a single point"


def _with_sizes(line: str, names: Sequence[str], idle: frozenset[str]) -> str:
    """The line, and where it is a kernel's signature, with sizes among the parameters that it uses."""
    if _SIGNATURE not in line:
        return line
    sizes = [f"int64_t {name}" for name in names]
    used = [text for name, text in _PARAMETERS.items() if name not in idle and name not in ("begin", "end")]
    ends = [text for name, text in _PARAMETERS.items() if name not in idle and name in ("begin", "end")]
    margin = line[: len(line) - len(line.lstrip())]
    return f"{margin}{', '.join([*used, *sizes, *ends])})"


def _on_heap(lines: Sequence[str]) -> list[str]:
    """Arrays whose length follows from sizes in memory that is given back."""
    found: list[str] = []
    names: list[str] = []
    for line in lines:
        array = _ARRAY.match(line)
        if array is not None and not array[4].isdigit():
            margin, type, name, count = array.groups()
            found.append(f"{margin}{type} *restrict {name} = malloc(sizeof({type}) * ({count}));")
            found += [f"{margin}if (!{name}) {{", *(f"{margin}    free({other});" for other in names)]
            found += [f"{margin}    return 2;", f"{margin}}}"]
            names.append(name)
        elif line.startswith("    return "):
            found += [*(f"    free({name});" for name in names), line]
        else:
            found.append(line)
    return found


def _schedule(kernel: Kernel) -> CpuSchedule:
    """A schedule whose blocks no size decides."""
    chosen = choose_cpu_schedule(kernel)
    if kernel.with_role("reduction") or kernel.with_role("serial") or not kernel.axes:
        return chosen
    *outer, last = kernel.axes
    if len(chosen.loops) > 1 and chosen.programs[-1].block and chosen.programs[-1].axis == last.name:
        return chosen
    if not outer:
        return CpuSchedule((Programs(last.name, BLOCK),), (last.name,))
    return CpuSchedule(tuple(Programs(axis.name) for axis in outer), (last.name,))


_WORDS = frozenset(
    ("failed", "free", "malloc", "int", "float", "double", "return", "register", "long", "short", "const")
)
