"""A program as a Python function: results allocated, kernels launched, ops of torch called, in order."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from keyword import iskeyword

from ...compiler.fusion.program import ExternStep, KernelStep, Passed, Program, Ref
from ...compiler.fusion.sharing import SharedKernels
from ...compiler.ops.registry import OPS
from ...compiler.types.dtypes import BY_CODE, DType
from ...compiler.types.types import is_tensor, is_tensor_list
from ...lang.light_dataclasses import dataclass, field
from .merging import merged_samples
from .plans import NoPlan
from .python_text import wrapped_line
from .signature import ROWS, ExportSignature
from .sizes import NotASize, Sizes
from .triton.kernels import TritonFunction, triton_function

LONG_HEAD = 72
"""Characters of a kernel's name and its grid that stand in one line."""
RESERVED = frozenset(
    ("grid", "torch", "triton", "tl", "libdevice", "math", "batch", "F", "os", ROWS, "None", "True", "False")
)
"""Names that no value has in a launcher."""
_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "remainder": "%", "pow": "**"}
_FUNCTIONS = {"neg": "-{}", "sqrt": "math.sqrt({})", "exp": "math.exp({})", "log": "math.log({})", "Float": "float({})"}
_CALLS = {
    "aten::matmul": "{0} @ {1}",
    "aten::mm": "{0} @ {1}",
    "aten::bmm": "{0} @ {1}",
    "aten::addmm": "torch.addmm({0}, {1}, {2}, {3}, {4})",
    "aten::t": "{0}.t()",
    "aten::transpose.int": "{0}.transpose({1}, {2})",
    "aten::view": "{0}.view({1})",
    "aten::reshape": "{0}.reshape({1})",
    "aten::unsqueeze": "{0}.unsqueeze({1})",
    "aten::squeeze.dim": "{0}.squeeze({1})",
    "aten::expand": "{0}.expand({1})",
}
"""Ops that have a form of their own; every other one of torch's is called by name."""


@dataclass
class ProgramText:
    """The lines of the body, and what it launches. `names` has a variable for each value of the program."""

    lines: list[str] = field(default_factory=list)
    kernels: list[TritonFunction] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, None] = field(default_factory=dict)
    """The named sizes that the lines need."""
    seeds: dict[str, str] = field(default_factory=dict)
    """The numbers that are drawn, in order, as text."""


class ProgramWriter:
    """Writes one program, given for each sample. `taken` are names for its inputs, `made` says how results are made.

    NotASize where the samples differ in more than sizes, NoPlan for an op that no module can call.
    """

    def __init__(
        self,
        programs: Sequence[Program],
        signature: ExportSignature,
        sizes: Sizes,
        taken: Mapping[str, str],
        made: Mapping[str, str],
        like: str,
        is_mixed: bool,
    ) -> None:
        self.programs = programs
        self.signature = signature
        self.sizes = sizes
        self.kernel_sizes = Sizes(sizes.symbols, runtime=frozenset({ROWS}))
        self.made = made
        self.like = like
        self.is_mixed = is_mixed
        self.text = ProgramText(names=dict(taken))
        self.allocated: set[str] = set()
        self._free = set(taken.values()) | RESERVED | set(sizes.symbols)

    def write(self) -> ProgramText:
        shared = [SharedKernels() for _ in self.programs]
        steps = [kernels.steps(program.steps) for kernels, program in zip(shared, self.programs, strict=True)]
        if len({len(found) for found in steps}) != 1:
            raise NotASize("the samples have not the same steps")
        first = self.programs[0]
        if first.constants:
            raise NoPlan("it holds constant tensors")
        functions: dict[str, TritonFunction] = {}
        for found in zip(*steps, strict=True):
            if all(isinstance(step, KernelStep) for step in found):
                self._kernel(found, functions)
            elif all(isinstance(step, ExternStep) for step in found):
                self._extern(found)
            else:
                raise NotASize("the samples have not the same steps")
        self.text.kernels = list(functions.values())
        return self.text

    def name(self, of: str) -> str:
        """The variable of a value."""
        if of not in self.text.names:
            name = re.sub(r"\W", "_", of)
            while name in self._free or iskeyword(name):
                name += "_"
            self._free.add(name)
            self.text.names[of] = name
        return self.text.names[of]

    # --- kernels ---

    def _kernel(self, steps: Sequence[KernelStep], functions: dict[str, TritonFunction]) -> None:
        step = steps[0]
        self._allocate(steps)
        name = step.kernel.name
        if name not in functions:
            wide = [b.name for b in step.kernel.buffers if self._may_be_half(step.arguments[b.name], b.dtype)]
            function = triton_function([s.kernel for s in steps], name, self.kernel_sizes, wide)
            functions[name] = function
        function = functions[name]
        tensors = [self.name(step.arguments[of]) for _, of in function.tensors]
        parameters = [f"{name}={text}" for name, text in function.sizes]
        for text in (*function.grid, *(text for _, text in function.sizes), function.options):
            self._needs(text)
        grid = f"({', '.join(function.grid)}{',' if len(function.grid) == 1 else ''})"
        if len(function.name) + len(grid) > LONG_HEAD:
            self._line(f"grid = {grid}")
            grid = "grid"
        self._line(f"{function.name}[{grid}]({', '.join([*tensors, *parameters, function.options])})")

    def _may_be_half(self, name: str, dtype: DType) -> bool:
        """Whether a buffer is of the dtype of the arguments: those between kernels alone are float32."""
        is_own = name in self.made or name in self.programs[0].inputs
        return dtype.is_floating and (is_own or (self.is_mixed and not name.startswith("partial_")))

    def _allocate(self, steps: Sequence[KernelStep]) -> None:
        for number, buffer in enumerate(steps[0].kernel.buffers):
            name = steps[0].arguments[buffer.name]
            if not buffer.is_output or name in self.allocated:
                continue
            self.allocated.add(name)
            text = self.made.get(name)
            if text is None:
                names = [step.arguments[step.kernel.buffers[number].name] for step in steps]
                text = self._empty(names, self._may_be_half(name, buffer.dtype), buffer.dtype)
            self._needs(text)
            self._line(f"{self.name(name)} = {text}")

    def _empty(self, names: Sequence[str], is_half: bool, dtype: DType) -> str:
        shapes = [program.layouts[name].shape for program, name in zip(self.programs, names, strict=True)]
        own = f"{self.like}.dtype" if is_half else f"torch.{dtype}"
        return f"torch.empty({self.shape(shapes)}, dtype={own}, device={self.like}.device)"

    def shape(self, shapes: Sequence[Sequence[int]]) -> str:
        """A shape as text, that of the batch in front."""
        return shape_text(shapes, self.signature, self.sizes)

    # --- ops of torch ---

    def _extern(self, steps: Sequence[ExternStep]) -> None:
        if steps[0].node.kind == "gs::seed":
            text = f"seed + {len(self.text.seeds)}" if self.text.seeds else "seed"
            self.text.seeds[steps[0].results[0]] = self.text.names[steps[0].results[0]] = text
            return
        texts = [self._called(step) for step in steps]
        line = merged_samples([[text] for text in texts], self.sizes).lines[0]
        self._needs(line)
        results = ", ".join(self.name(name) for name in steps[0].results)
        self._line(f"{results} = {line}")

    def _called(self, step: ExternStep) -> str:
        kind, node = step.node.kind, step.node
        op = OPS.of(node.schema)
        assert op is not None and node.schema is not None
        arguments = [
            (f"{argument.name}=" if argument.keyword_only else "") + self._argument(value, argument.is_dtype)
            for value, argument in zip(step.arguments, node.schema.arguments, strict=False)
            if value is not None or not argument.keyword_only
        ]
        name = kind.partition("::")[2].partition(".")[0]
        if not any(is_tensor(value.type) or is_tensor_list(value.type) for value in node.outputs):
            text = _on_numbers(name, arguments)
            if text is None:
                raise NoPlan(f"'{kind}' on numbers has no form in a module", node.span)
            return text
        if not kind.startswith("aten::"):
            raise NoPlan(f"'{kind}' is no op of torch", node.span)
        form = _CALLS.get(kind)
        text = form.format(*arguments) if form else f"torch.ops.aten.{name}({', '.join(arguments)})"
        if step.is_view or len(step.results) != 1:
            return text
        return f"({text}).contiguous()" if " " in text.partition("(")[0] else f"{text}.contiguous()"

    def _argument(self, value: Passed, is_dtype: bool) -> str:
        if isinstance(value, Ref):
            return self.name(value.name)
        if isinstance(value, list | tuple):
            return f"[{', '.join(self._argument(item, False) for item in value)}]"
        if is_dtype and isinstance(value, int):
            return f"torch.{BY_CODE[value]}"
        return repr(value)

    # --- lines ---

    def _needs(self, text: str) -> None:
        self.text.sizes.update(dict.fromkeys(name for name in (ROWS, *self.sizes.symbols) if mentions_name(text, name)))
        if mentions_name(text, "batch"):
            self.text.sizes["batch"] = None

    def _line(self, line: str) -> None:
        self.text.lines += wrapped_line(line, "    ")


def shape_text(shapes: Sequence[Sequence[int]], signature: ExportSignature, sizes: Sizes) -> str:
    """A shape, given for each sample, as a tuple in which the batch is `*batch`."""
    found = [signature.merged(shape, i) for i, shape in enumerate(shapes)]
    if len({(batched, len(behind)) for batched, behind in found}) != 1:
        raise NotASize("the samples have not the same shapes")
    batched = ["*batch"] if found[0][0] else []
    behind = [sizes.of(values).text for values in zip(*(sizes for _, sizes in found), strict=True)]
    parts = [*batched, *behind]
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


def mentions_name(text: str, name: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(name)}(?!\w|=[^=])", text) is not None


def _on_numbers(name: str, arguments: Sequence[str]) -> str | None:
    """Arithmetic on numbers, in Python's words."""
    if name in _OPERATORS and len(arguments) >= 2:
        return f"{_operand(arguments[0])} {_OPERATORS[name]} {_operand(arguments[1])}"
    if name == "rsub":
        return f"{_operand(arguments[1])} - {_operand(arguments[0])}"
    form: Callable[..., str] | None = _FUNCTIONS[name].format if name in _FUNCTIONS else None
    return form(_operand(arguments[0])) if form and arguments else None


def _operand(text: str) -> str:
    return f"({text})" if text.startswith("-") else text
