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

from ....compiler.autodiff.gradient import Gradient
from ....compiler.codegen.c.module import CFunction, emit_c, supports
from ....compiler.codegen.text import Unsupported
from ....compiler.fusion.program import ExternStep, KernelStep, Program, Ref, names_in
from ....compiler.ir.structure import spelled
from ....compiler.kernel_ir.kernel import Kernel
from ....compiler.kernel_ir.passed_sizes import passed_sizes
from ....compiler.ops.registry import OPS, Trait
from ....compiler.recompute import Policy
from ....compiler.recompute.policy import policy as policy_of
from ....compiler.scheduling.cpu import CpuSchedule
from ....compiler.types.dtypes import DType
from ....compiler.types.types import is_tensor
from ....lang.diagnostics import CompileError, Diagnostic
from ....lang.light_dataclasses import dataclass, field, replace
from ....runtime.face.function import Function
from ..plans import NoPlan, Passes, graph_of, kernel_policy, plans, walked_in_chunks
from ..program_text import mentions_name
from ..signature import ROWS, ExportSignature, SampleShape, signatures
from ..sizes import NotASize, Sizes, operand_text
from ..triton.kernels import renamed_like
from .kernels import c_kernel
from .library import PRODUCT
from .library import written_statements as library_lines
from .loops import OWN_NAMES, LoopWriter, NoLoops

NOTE = (
    "C is made of functions of tensors whose branches and loops follow from shapes and numbers: choose by "
    "`torch.where`, or leave the choice to the caller"
)
LIBRARY_NOTE = (
    "no loops of C are known for it: export what stands in front of it and behind it, and call a library between the "
    "two, or leave out `--c`: torch runs it there"
)
_TYPES = {"float32": "float", "float64": "double", "int64": "int64_t", "int32": "int32_t", "bool": "bool"}
_VECTORS = """/* -fopenmp-simd has the compiler follow what loops say of vectors; without it that is passed over. */
#pragma GCC diagnostic ignored "-Wunknown-pragmas\""""
_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}


def exported_c(function: Function, values: Sequence[Any], policy: str | int | Policy | None = None) -> dict[str, str]:
    """The header and the file of C, by name. CompileError (E412) for what has no such form."""
    wanted = policy_of(policy)
    absent = [i for i, value in enumerate(values) if value is None]
    graph = graph_of(function, absent)
    reason: NoPlan | None = None
    for signature in signatures(values, [argument.name for argument in function.schema.arguments]):
        try:
            found = plans(graph, signature, kernel_policy(wanted), supports, walked_in_chunks)
            return _Module(function, signature, found).texts()
        except NoPlan as problem:
            reason = problem
        except Unsupported as problem:
            reason = NoPlan(str(problem))
        except NotASize:
            # What was said of other sizes is no reason.
            reason = None
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
    made: list[str] = field(default_factory=list)
    """The shapes of both."""
    has_products: bool = False

    def texts(self) -> dict[str, str]:
        self.sizes = Sizes(self.signature.symbols, in_c=True)
        self.names = [*([ROWS] if self.signature.has_batch else []), *self.signature.names]
        name = self.function.name
        drivers = list(self._drivers())
        text = emit_c(self.kernels.values())
        told = [*self._shapes(), *self.made, f"results: {', '.join(self.results)}"]
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
        parts = [text.strip(), "", *([PRODUCT] if self.has_products else []), *drivers]
        source = [f'#include "{name}.h"', "", library, "", _VECTORS, "", *parts]
        return {f"{name}.h": "\n".join(header), f"{name}.c": "\n".join(source) + "\n"}

    def is_authors(self, name: str) -> bool:
        """Whether the author's text has a name, which may also come from the library's formulas."""
        definition = self.function.definition
        text = definition.span.text if definition is not None else self.function.code
        return re.search(rf"\b{re.escape(name)}\b(?!\()", text) is not None

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
        count = first.gradient.num_real_outputs if first.gradient is not None else len(first.forward.outputs)
        forward = _Driver(self, f"{self.function.name}_forward", [p.forward for p in self.passes], (), count)
        yield forward.text()
        self.results, self.kept = forward.written(0, count), forward.written(count)
        self.made = [f"{place}: ({forward.shape(name)})" for name, place in forward.places.items()]
        if first.backward is not None and first.gradient is not None:
            gradients = [names[i] for i in first.gradient.output_vjps]
            programs = [p.backward for p in self.passes if p.backward is not None]
            backward = _Driver(self, f"{self.function.name}_backward", programs, gradients)
            backward.take(forward, first.gradient)
            yield backward.text()


class _Driver:
    """One function that runs a program."""

    def __init__(
        self,
        module: _Module,
        name: str,
        programs: Sequence[Program],
        gradients: Sequence[str],
        results: int | None = None,
    ) -> None:
        self.gradients = gradients
        """What a backward gives the gradients of, by name."""
        self.outputs = [(i, name) for i, output in enumerate(programs[0].outputs) for name in names_in(output)]
        """The tensors among the outputs, with the number of the output that each is or is part of."""
        self.count = len(programs[0].outputs) if results is None else results
        """How many outputs are for the caller; the others are for the backward."""
        self.loops = LoopWriter(programs, module.sizes, self._name, self._type)
        self.places: dict[str, str] = {}
        """By the names of outputs, the parameters that they are written to."""
        self.copies: list[tuple[str, str]] = []
        """Values, and the parameters that they are copied to at the end."""
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
        if len({tuple(map(type, p.steps)) for p in self.programs}) > 1:
            raise NotASize("the samples have not the same steps")
        for steps in zip(*(p.steps for p in self.programs), strict=True):
            if isinstance(steps[0], KernelStep):
                self._kernel(steps)
            else:
                self._extern(steps)
        self.lines += self._closing()
        sizes = [f"int64_t {name}" for name in self.module.names]
        self.pointers = {text.partition(" ")[2] for text in parameters if not text.startswith("const ")}
        prototype = f"int32_t {self.name}({', '.join([*parameters, *sizes])})"
        self.module.prototypes.append(prototype)
        freed = [f"free({name});" for name in self.own]
        body = ["int32_t failed = 0;", *self.lines, *freed, "return failed;"]
        unused = [f"(void){name};" for name in self.module.names if not any(mentions_name(line, name) for line in body)]
        return "\n".join([prototype, "{", *(f"    {line}" for line in [*unused, *body]), "}", ""])

    def _parameters(self, program: Program) -> list[str]:
        """Pointers to what is read and what is written, and numbers, by the names of the program."""
        used = {name for s in program.steps if isinstance(s, KernelStep) for name in s.arguments.values()}
        used |= {name for s in program.steps if isinstance(s, ExternStep) for name in s.read}
        used |= {name for output in program.outputs if self.gradients for name in names_in(output)}
        if not self.gradients and any(isinstance(given, tuple) for given in program.inputs):
            raise NoPlan("a list of tensors is taken")
        found: list[str] = []
        declared: set[str] = set()
        for given in program.input_names:
            if given not in used or self._name(given) in declared:
                continue
            layout = program.layouts.get(given)
            name = self._name(given)
            declared.add(name)
            found.append(f"const {self._type(layout.dtype)} *{name}" if layout is not None else f"double {name}")
            if layout is None:
                self.numbers[given] = name
        for i, output in self.outputs:
            if output not in program.layouts or (output in program.inputs and not self.gradients):
                # What is no tensor, and an argument that comes back as it is.
                continue
            wanted = f"grad_{self.gradients[i]}" if self.gradients else self._called(i, output)
            is_new = output not in self.places
            if is_new and self._is_own(output):
                place = self._name(output, wanted)
            elif is_new and i >= self.count:
                raise NoPlan("a view of what it computes is kept for the backward")
            elif is_new or self.gradients:
                place = self._unused(wanted)
                self.copies.append((output, place))
            else:
                continue
            self.places.setdefault(output, place)
            found.append(f"{self._type(program.layouts[output].dtype)} *{place}")
        return found

    def _called(self, index: int, name: str) -> str:
        """The parameter of an output: as its author named it, else after what it is for."""
        if self.module.is_authors(name):
            return name
        if index >= self.count:
            return "kept"
        return "result" if self.count == 1 else f"result_{index}"

    def _is_own(self, name: str) -> bool:
        """Whether steps write to a value, which is contiguous, and not to what it is a view of."""
        program = self.programs[0]
        is_view = any(isinstance(s, ExternStep) and s.is_view and name in s.results for s in program.steps)
        return name not in program.inputs and not is_view

    def _closing(self) -> list[str]:
        """Copies of what is elsewhere into the results that the caller gave memory for."""
        lines: list[str] = []
        for name, place in self.copies:
            source = self.loops.tensor(name)
            target = replace(source.reshaped(source.shape, self.loops.samples), name=place)
            lines += self.loops.copied(source, target)
        return ["if (!failed) {", *(f"    {line}" for line in lines), "}"] if lines else []

    def _type(self, dtype: DType) -> str:
        if dtype.name not in _TYPES:
            raise NoPlan(f"{dtype} has no type in C")
        return _TYPES[dtype.name]

    def _name(self, of: str, wanted: str = "") -> str:
        if of not in self.given:
            self.given[of] = self._unused(wanted or of)
        return self.given[of]

    def _unused(self, wanted: str) -> str:
        name = re.sub(r"\W", "_", wanted)
        taken = (*self.module.names, *self.given.values(), *self.places.values())
        while name in _WORDS or OWN_NAMES.fullmatch(name) or name in taken:
            name += "_"
        return name

    def written(self, start: int, stop: int | None = None) -> list[str]:
        """What outputs are written to, by the names of parameters."""
        stop = len(self.programs[0].outputs) if stop is None else stop
        names = [self.places.get(output, "") for i, output in self.outputs if start <= i < stop]
        return [name for name in dict.fromkeys(names) if f"*{name}" in self.pointers]

    def shape(self, name: str) -> str:
        """That of a value in terms of sizes, the batch as one."""
        signature = self.module.signature
        found = [signature.merged(layout.shape, i) for i, layout in enumerate(self.loops.layouts[name])]
        if len({(batched, len(behind)) for batched, behind in found}) != 1:
            raise NotASize("the samples have not the same shapes")
        behind = [self.sizes.of(values).text for values in zip(*(sizes for _, sizes in found), strict=True)]
        return ", ".join([*([ROWS] if found[0][0] else []), *behind])

    def take(self, forward: _Driver, gradient: Gradient) -> None:
        """Call what the forward was given, and what it wrote, as it does."""
        program = forward.programs[0]
        for ours, i in zip(self.programs[0].inputs, gradient.input_vjps, strict=False):
            if isinstance(ours, str) and not ours.startswith("grad_"):
                place = next((forward.places.get(name, name) for number, name in forward.outputs if number == i), "")
                self._name(ours, "grad_output" if forward.count == 1 else f"grad_{place}")
        theirs = [
            *(program.inputs[i] for i in gradient.captured_inputs),
            *(tuple(names_in(program.outputs[i])) for i in gradient.captured_outputs),
        ]
        for ours, names in zip(self.programs[0].inputs[len(gradient.input_vjps) :], theirs, strict=True):
            pairs = zip(
                (ours,) if isinstance(ours, str) else ours, (names,) if isinstance(names, str) else names, strict=False
            )
            self.given |= {own: forward.given[name] for own, name in pairs if name in forward.given}

    # --- steps ---

    def _kernel(self, steps: Sequence[KernelStep]) -> None:
        step = steps[0]
        kernels = [renamed_like(s.kernel, step.kernel) for s in steps]
        function = c_kernel(kernels, step.kernel.name, self.sizes, self.module.names)
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
        self.lines.append(f"{type} *{variable} = malloc(sizeof({type}) * {operand_text(count, 0)});")
        self.lines.append(f"failed = {variable} ? failed : 2;")
        self.own.append(variable)

    def _programs(self, kernels: Sequence[Kernel], schedule: CpuSchedule) -> str:
        """How many programs a kernel has."""
        counts: list[str] = []
        for program in schedule.programs:
            size = self.sizes.of([kernel.axis(program.axis).size for kernel in kernels])
            counts.append(
                f"(({operand_text(size, 1)} + {program.block - 1}) / {program.block})"
                if program.block
                else operand_text(size, 0)
            )
        return " * ".join(counts) or "1"

    def _extern(self, steps: Sequence[ExternStep]) -> None:
        """A view, an op whose loops are known, or arithmetic on numbers."""
        step = steps[0]
        layouts = self.programs[0].layouts
        if not step.results or any(result not in layouts for result in step.results):
            self._number(step)
            return
        try:
            if step.is_view:
                self.lines += self.loops.views(steps)
                return
            self._allocated(step.results)
            lines = library_lines(self.loops, steps)
        except NoLoops:
            self._number(step)
            return
        self.module.has_products |= any("GRADSCRIPT_PRODUCT" in line for line in lines)
        told = f"/* {self._name(step.results[0])}: {step.node.kind.partition('::')[2].partition('.')[0]} */"
        self.lines += [told, "if (!failed) {", *(f"    {line}" for line in lines), "}"]

    def _allocated(self, names: Sequence[str]) -> None:
        for name in names:
            if name not in self.given:
                layouts = self.loops.layouts[name]
                self._allocate(name, layouts[0].dtype, [prod(layout.shape) for layout in layouts])

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


_WORDS = frozenset(
    ("failed", "free", "malloc", "int", "float", "double", "return", "register", "long", "short", "const")
)
