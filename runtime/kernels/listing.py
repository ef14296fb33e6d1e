"""`f.kernels(…)`: the kernels of a function for given shapes, as data. Neither torch nor Triton is needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property, partial
from typing import Any

import numpy as np

from ...compiler.autodiff.differentiable import differentiable_graph
from ...compiler.autodiff.flatten import flatten_signature, leaves
from ...compiler.autodiff.gradient import Gradient, residuals_of
from ...compiler.codegen.c.module import supports as supported_by_c
from ...compiler.codegen.triton.module import (
    compile_options,
    configuration,
    constants,
    divisible_sizes,
    emit_triton,
    function_name,
    grid,
    supports,
    triton_signature,
)
from ...compiler.fusion.fuse import (
    Unfusable,
    fuse,
    fuse_groups,
    pair_gradient,
    planned_pair,
)
from ...compiler.fusion.planning.assemble import Split
from ...compiler.fusion.planning.roles import Supports
from ...compiler.fusion.program import ExternStep, KernelStep, Program, Ref, names_in
from ...compiler.fusion.sharing import SharedKernels
from ...compiler.fusion.straight import require_straight
from ...compiler.fusion.unasked import planned_for
from ...compiler.fusion.write_out import settle_for_kernels
from ...compiler.ir.graph import Graph
from ...compiler.ir.node import Value
from ...compiler.kernel_ir.kernel import Kernel
from ...compiler.kernel_ir.layout import Layout
from ...compiler.kernel_ir.printer import print_kernel
from ...compiler.ops.meta import UNKNOWN, for_each
from ...compiler.scheduling.choose import choose_schedule
from ...compiler.scheduling.costs import bytes_moved, bytes_read, bytes_written, flops
from ...compiler.scheduling.cpu import split_for_cpu
from ...compiler.scheduling.schedule import Schedule
from ...compiler.scheduling.split import split_reductions
from ...compiler.shapes.propagate import ShapeError
from ...compiler.specialize.optionals import specialize_optionals
from ...compiler.types.dtypes import BY_NAME
from ...compiler.types.types import is_tensor
from ...lang.collection import collection_paused
from ...lang.light_dataclasses import dataclass, field
from ..failures.failed_node import misfit_failure
from ..failures.failure import RuntimeFailure
from ..values.arrays import check_torch, is_torch, to_array
from ..values.torch_dtypes import dtypes_of_torch
from .c.kernel import module_of
from .held import most_held
from .listed_groups import ListedParts, bytes_between, given_for, list_parts
from .notices import span_of
from .triton.compile import Binary, compile_offline


@dataclass(frozen=True)
class KernelInfo:
    """One kernel that is launched. Bytes count each element of an input or output once."""

    kernel: Kernel
    schedule: Schedule

    @property
    def name(self) -> str:
        return self.kernel.name

    @cached_property
    def ir(self) -> str:
        """The kernel IR."""
        return print_kernel(self.kernel)

    @cached_property
    def text(self) -> str:
        """The Triton module."""
        return emit_triton(self.kernel, self.schedule)

    @property
    def function(self) -> str:
        """The name of its function in the module."""
        return function_name(self.kernel)

    @property
    def signature(self) -> dict[str, str | int]:
        """The function's parameters in order → Triton's names of their types, or the numbers that block sizes are."""
        return triton_signature(self.kernel, self.schedule)

    @property
    def constants(self) -> dict[str, int]:
        """The block sizes, by name."""
        return constants(self.kernel, self.schedule)

    @property
    def options(self) -> dict[str, Any]:
        """Of the compiler, the number of warps among them."""
        return {**configuration(self.schedule), **compile_options(self.text)}

    @property
    def grid(self) -> tuple[int, int, int]:
        return grid(self.kernel, self.schedule)

    @property
    def bytes_read(self) -> int:
        return bytes_read(self.kernel)

    @property
    def bytes_written(self) -> int:
        return bytes_written(self.kernel)

    @property
    def flops(self) -> int:
        return flops(self.kernel)

    def compile(self, target: str) -> Binary:
        """Machine code for a device that need not be here: "sm_80", "sm_90", "sm_100" or "gfx942".

        KernelFailure where Triton is missing or does not compile it.
        """
        return compile_offline(
            self.text, self.function, self.signature, target, self.options, divisible_sizes(self.kernel)
        )


@dataclass(frozen=True, slots=True)
class CModules:
    """The modules of C of both passes, each a text, which is empty without kernels; and the functions in them alone."""

    forward: str
    backward: str
    functions: tuple[str, ...]


@dataclass(frozen=True)
class KernelListing:
    """The kernels of both passes, in the order in which they run.

    `library` names the ops that run between them as torch has them; `saved_bytes` is what the backward keeps beyond
    arguments and results. `least_bytes` is what kernels must move at least, per pass: of arguments and results, and of
    what the library gives and takes, each once. `peak_bytes` is the most that each pass holds at once beyond what it is
    given and what it gives; None where loops and branches between kernels say.
    """

    forward: tuple[KernelInfo, ...]
    backward: tuple[KernelInfo, ...]
    library: tuple[str, ...]
    saved_bytes: int
    least_bytes: tuple[int, int]
    peak_bytes: tuple[int | None, int | None]
    kernels_of_c: Callable[[], list[list[Kernel]]] = field(repr=False, compare=False)
    """Those of both passes as they are cut up for processors."""
    outline: tuple[str, ...] = ()
    """Of a function with control flow between its kernels: where its groups stand, and what is between them."""

    @cached_property
    def c(self) -> CModules:
        """What a processor runs: the kernels in C."""
        modules = [module_of(kernels) for kernels in self.kernels_of_c()]
        texts = [module.text if module.functions else "" for module in modules]
        functions = tuple([function.text for module in modules for function in module.functions])
        return CModules(texts[0], texts[1] if len(texts) > 1 else "", functions)

    def __str__(self) -> str:
        rows = [("kernel", "grid", "read", "written", "flops")]
        for info in (*self.forward, *self.backward):
            shown = "×".join(str(size) for size in info.grid if size != 1) or "1"
            rows.append((info.name, shown, f"{info.bytes_read:,}", f"{info.bytes_written:,}", f"{info.flops:,}"))
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
            for row in rows
        ]
        lines += [f"by the library: {', '.join(self.library)}"] if self.library else []
        lines.append(f"saved beyond arguments and results: {self.saved_bytes:,} bytes")
        lines += self.outline
        return "\n".join(lines)


def list_kernels(function: Any, args: Sequence[Any], kwargs: Any) -> KernelListing:
    """The listing for a Function. RuntimeFailure where no kernels can be made, with the reason."""
    values = _bound(function, args, kwargs)
    graph = differentiable_graph(function.callee)
    flat = leaves(values, [value.type for value in graph.inputs])
    absent = tuple([i for i, value in enumerate(flat) if value is None])
    graph = specialize_optionals(flatten_signature(graph), absent)
    try:
        with collection_paused():
            return _listing(graph, flat)
    except ShapeError as error:
        raise misfit_failure(error) from error
    except Unfusable as error:
        note = "ops run one by one where no kernel can be made of any stretch of them"
        span = span_of(error, graph)
        raise RuntimeFailure("R101", function.title, f"no kernels: {error}", span=span, notes=[note]) from error


def _listing(graph: Graph, values: Sequence[Any]) -> KernelListing:
    given = [known_layout(value, settled=False) for value in values]
    requires_grad = _wanted(given, values)

    @cache
    def gradient() -> Gradient:
        return pair_gradient(graph, given, requires_grad)

    try:
        return _for(graph, given, gradient if any(requires_grad) else None)
    except Unfusable:
        pass
    if any(isinstance(value, float) for value in values):
        known = [known_layout(value, settled=True) for value in values]
        try:
            return _for(
                graph, known, partial(pair_gradient, graph, known, requires_grad) if any(requires_grad) else None
            )
        except Unfusable:
            pass
    return _in_parts(graph, given, gradient() if any(requires_grad) else None)


def _wanted(given: Sequence[Any], values: Sequence[Any]) -> list[bool]:
    """The arguments that gradients are taken with respect to."""
    if any(map(_requires_grad, values)):
        return [_requires_grad(value) for value in values]
    return [_is_floating(layout) for layout in given]


def _in_parts(graph: Graph, given: Sequence[Any], gradient: Gradient | None) -> KernelListing:
    """The listing of a function with control flow that stays: its groups, for the shapes that they sure meet."""
    saved = 0
    settled: list[tuple[Graph, Mapping[Value, Any] | None]] = [(graph, None)]
    passes: list[tuple[str, Graph, Sequence[Any]]] = [("forward", graph, given)]
    if gradient is not None:
        f = gradient.f.plain_copy()
        known = settle_for_kernels(f, [_meta(item) for item in given])
        outputs = [given_for(known.get(value, UNKNOWN)) for value in f.outputs]
        taken = [outputs[i] for i in gradient.input_vjps]
        taken += residuals_of(gradient, given, outputs)
        saved = bytes_between(f, known, gradient.num_real_outputs, gradient.captured_outputs)
        passes = [("forward", gradient.f, given), ("backward", gradient.df, taken)]
        settled = [(f, known), (gradient.df, None)]
    listed = [
        _listed(one, found, supports, split_reductions, known)
        for (one, known), (_, _, found) in zip(settled, passes, strict=True)
    ]
    outline = [
        line for (name, _, _), parts in zip(passes, listed, strict=True) for line in (name, *parts.lines) if parts.lines
    ]

    def for_processors() -> list[list[Kernel]]:
        found = [_listed(one, taken, supported_by_c, split_for_cpu) for _, one, taken in passes]
        return [[kernel for program in parts.programs for kernel in program.kernels] for parts in found]

    products = tuple([kind for parts in listed for kind in parts.products])
    return _made([parts.programs for parts in listed], saved, for_processors, tuple(outline), products)


def _listed(
    graph: Graph,
    given: Sequence[Any],
    supports: Supports,
    split: Split,
    known: Mapping[Value, Any] | None = None,
) -> ListedParts:
    """`known` of a graph that is settled, and changed by this."""
    parts = fuse_groups(graph, given, known, split)
    if parts is not None:
        return list_parts(parts, [_meta(item) for item in given], supports, split)
    return ListedParts((fuse(graph, given, supports, split),))


def _meta(given: Any) -> Any:
    if isinstance(given, list):
        return for_each(given, _meta)
    return given.meta if isinstance(given, Layout) else given


def _for(graph: Graph, given: Sequence[Any], made: Callable[[], Gradient] | None) -> KernelListing:
    """The listing of a function that is a straight line; with the gradient that is `made` of it, of both passes."""
    if made is None:
        plain = fuse(graph, given, supports)
        return _made([[plain]], 0, lambda: [[*fuse(graph, given, supported_by_c, split_for_cpu).kernels]])
    gradient = made()
    require_straight(gradient.f, {})
    pair = planned_pair(gradient, given, supports)
    count = pair.gradient.num_real_outputs
    real = [output.name for output in pair.forward.outputs[:count] if isinstance(output, Ref)]
    saved = _saved(pair.forward, pair.gradient.captured_outputs, {*pair.forward.inputs, *real})
    gradients = pair.usual_seeds()

    def for_processors() -> list[list[Kernel]]:
        found = planned_pair(gradient, given, supported_by_c, split_for_cpu)
        return [[*found.forward.kernels], [*found.backward(gradients).kernels]]

    return _made([[pair.forward], [pair.backward(gradients)]], saved, for_processors)


def _saved(forward: Program, captured: Sequence[int], free: set[Any]) -> int:
    """Bytes of the tensors that captured outputs lie in, but for those that live anyway."""
    root_of = _roots(forward)
    roots = {root_of(name) for i in captured for name in names_in(forward.outputs[i])}
    return sum(forward.layouts[name].meta.nbytes for name in roots - free if name in forward.layouts)


def _roots(program: Program) -> Callable[[str], str]:
    """The tensor that each is a view of, or itself."""
    sources = {
        result: step.arguments[0].name
        for step in program.steps
        if isinstance(step, ExternStep) and step.is_view and isinstance(step.arguments[0], Ref)
        for result in step.results
    }

    def root_of(name: str) -> str:
        while name in sources:
            name = sources[name]
        return name

    return root_of


def _made(
    passes: Sequence[Sequence[Program]],
    saved: int,
    kernels_of_c: Callable[[], list[list[Kernel]]],
    outline: tuple[str, ...] = (),
    between: tuple[str, ...] = (),
) -> KernelListing:
    """The listing of one pass or two, each of some programs, and ops of the library `between` these."""
    shared = SharedKernels()
    steps = [[step for program in programs for step in shared.steps(program.steps)] for programs in passes]
    library = [step.node.kind for found in steps for step in found if isinstance(step, ExternStep) and _is_work(step)]
    infos = [
        tuple(KernelInfo(step.kernel, choose_schedule(step.kernel)) for step in found if isinstance(step, KernelStep))
        for found in steps
    ]
    least = [sum(map(_least, programs)) for programs in passes]
    peaks = [None if outline else sum(map(most_held, programs)) for programs in passes]
    return KernelListing(
        infos[0],
        infos[1] if len(infos) > 1 else (),
        (*library, *between),
        saved,
        (least[0], least[1] if len(least) > 1 else 0),
        (peaks[0], peaks[1] if len(peaks) > 1 else 0),
        kernels_of_c,
        outline,
    )


def _is_work(step: ExternStep) -> bool:
    """Whether an op computes tensors, or draws: views and arithmetic on numbers are nothing to speak of."""
    makes_tensors = any(is_tensor(value.type) for value in step.node.outputs)
    return not step.is_view and (makes_tensors or not step.arguments)


def _least(program: Program) -> int:
    """Bytes that kernels must move: what they read of arguments and of what the library gives, and what they write of
    results and of what the library takes, once each."""
    root_of = _roots(program)
    library = [step for step in program.steps if isinstance(step, ExternStep) and not step.is_view]
    given = {*program.input_names, *[name for step in library for name in step.results]}
    asked = [name for output in program.outputs for name in names_in(output)]
    asked += [name for step in library for name in step.read]
    read: dict[str, int] = {}
    written: dict[str, int] = {}
    for step in [step for step in program.steps if isinstance(step, KernelStep)]:
        moved = bytes_moved(step.kernel)
        for buffers, counted in ((step.kernel.inputs, read), (step.kernel.outputs, written)):
            for buffer in buffers:
                name = root_of(step.arguments[buffer.name])
                held = program.layouts[name].meta.nbytes if name in program.layouts else buffer.nbytes
                counted[name] = min(counted.get(name, 0) + moved[buffer.name], held)
    kept = {root_of(name) for name in asked}
    return sum(n for name, n in read.items() if name in given) + sum(n for name, n in written.items() if name in kept)


def known_layout(value: Any, *, settled: bool) -> Any:
    """What is known of an argument before it runs: the layout of a tensor; of a float nothing, unless `settled`."""
    if isinstance(value, list):
        # Equal ones are the same object: what is done with each is done once for many layers.
        seen: dict[Any, Any] = {}
        found = [known_layout(item, settled=settled) for item in value]
        return [seen.setdefault(item, item) if isinstance(item, Layout) else item for item in found]
    if isinstance(value, np.ndarray):
        strides = tuple(stride // value.itemsize for stride in value.strides)
        layout = Layout.found(value.shape, BY_NAME[value.dtype.name], strides)
        return Layout.contiguous(layout.meta) if any(stride < 0 for stride in strides) else layout
    if is_torch(value):
        return Layout.found(tuple(value.shape), dtypes_of_torch()[value.dtype], tuple(value.stride()))
    return planned_for(value, settled)


def _is_floating(given: Any) -> bool:
    """Whether an argument is a floating tensor, or has one among its elements."""
    if isinstance(given, list):
        return any(map(_is_floating, given))
    return isinstance(given, Layout) and given.dtype.is_floating


def _requires_grad(value: Any) -> bool:
    return any(map(_requires_grad, value)) if isinstance(value, list) else bool(getattr(value, "requires_grad", False))


def _bound(function: Any, args: Sequence[Any], kwargs: Any) -> list[Any]:
    """Torch tensors bound as they are, wherever they live: only shapes are looked at."""
    from ..execution.binding import Binder

    bound: list[Any] = function.bind(tuple(args), kwargs, Binder.of(function.schema, function.graph, _as_given))
    return bound


def _as_given(value: Any) -> Any:
    if not is_torch(value):
        return to_array(value)
    check_torch(value, elsewhere=True)
    return value
