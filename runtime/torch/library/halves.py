"""Forward and backward of a function as two ops that hand on tensors.

    swiglu_forward(x, g)                       its results, then what is saved
    swiglu_backward(grad, …, x, g, saved, mask)   the gradients, None where the mask wants none or none comes back

Both are differentiable in turn: the forward by the backward, the backward by the programs that it is made of.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch

from ....compiler.autodiff import differentiate
from ....compiler.autodiff.exchange import exchange_tensors
from ....compiler.autodiff.gradient import Gradient, residuals_of
from ....compiler.ir.graph import Graph, backward_of
from ....compiler.ir.node import Value
from ....compiler.ops.meta import UNKNOWN, Meta, is_known
from ....compiler.passes.inline_functions import inline_functions
from ....compiler.passes.simplification.eliminate_dead_code import eliminate_dead_code
from ....compiler.shapes.propagate import ShapeError, propagate_shapes
from ....compiler.types.types import TENSOR, ListType, OptionalType, is_differentiable, is_tensor, leaf_of
from ....lang.diagnostics import CompileError
from ...execution.compilation import prepare_gradient
from ...execution.compiled import Compiled
from ...execution.differentiated import CompiledGraph, Differentiated
from ...failures.failure import RuntimeFailure
from ...settings.random import local_seed, next_seed
from ...tape.programs import program_of
from ..kinds import SYMBOLIC, is_recorded, kind_of
from ..places import each
from ..recorded.kept_places import fits, pattern_of_tensor
from ..recorded.node import run_plainly, run_program
from ..symbolic import Untraceable
from .fakes import ShapeRun, abstract
from .schemas import schema_text, type_text, unique

MAX_SHAPES = 256
"""Kinds of arguments for which is kept what follows from them."""
HalfRun = Callable[[CompiledGraph, Sequence[Any]], list[Any]]
"""Runs a program on values: plainly, or recorded by torch."""


class Halves:
    """The halves of a function, for gradients of all its floating tensors."""

    def __init__(self, function: Compiled, differentiated: Differentiated) -> None:
        self.name = function.name
        self.span = function.graph.span
        program, _ = program_of(function)
        self.exchange = exchange_tensors(differentiated.gradient, recomputes=not _has_pairs(program.graph))
        self.differentiated = differentiated
        gradient = differentiated.gradient
        self._function = program
        self.inputs = gradient.f.inputs
        self.num_real = gradient.num_real_outputs
        self.saved = [i for i in self.exchange.kept if i >= self.num_real]
        given = {*range(self.num_real), *self.saved}
        self.vjps = [i for i in gradient.input_vjps if i in given]
        self.gradients = [i for i, place in enumerate(gradient.output_vjps) if i not in self._never_there]
        self._forward = CompiledGraph(self.exchange.forward, function.title)
        self._again = CompiledGraph(self.exchange.again, function.title)
        self._again_without: dict[tuple[int, ...], CompiledGraph] = {}
        self._by_shapes: dict[str, dict[int, Any]] = {}
        self._pruned: dict[Any, tuple[CompiledGraph, list[int]]] = {}

    @classmethod
    def of(cls, function: Compiled) -> Halves | None:
        """None where no result has a gradient, or an op on the way has none: asking for one is what fails then."""
        try:
            gradient = _gradient_of(function)
        except CompileError:
            return None
        if gradient is None:
            return None
        return cls(function, Differentiated(gradient, program_of(function)[0].name))

    # --- what torch is told ---

    @property
    def draws(self) -> bool:
        return self.exchange.draws

    @property
    def wanted(self) -> list[int]:
        """The arguments that the backward gives gradients of."""
        return [self.differentiated.gradient.output_vjps[i] for i in self.gradients]

    @cached_property
    def forward_results(self) -> list[Any]:
        outputs = self.differentiated.gradient.f.outputs
        types = [outputs[i].type for i in (*range(self.num_real), *self.saved)]
        return [*types, TENSOR] if self.draws else types

    @cached_property
    def _backward_arguments(self) -> list[tuple[str, str]]:
        """What the backward takes: names, and types as torch writes them."""
        outputs = self.differentiated.gradient.f.outputs
        named = [(f"grad_{outputs[i].name_hint or i}", _cotangent(outputs[i].type)) for i in self.vjps]
        named += [(self.inputs[i].name_hint, self.inputs[i].type) for i in self.exchange.needed]
        named += [(outputs[i].name_hint or f"saved{i}", _saved_type(outputs[i])) for i in self.exchange.kept]
        named += [("seed", TENSOR)] if self.draws else []
        names = unique([*(name for name, _ in named), "output_mask"])
        return [*zip(names, [*(type_text(type) or "" for _, type in named), "bool[]"], strict=True)]

    @property
    def backward_names(self) -> list[str]:
        return [name for name, _ in self._backward_arguments]

    @property
    def backward_schema(self) -> str:
        arguments = [f"{text} {name}" for name, text in self._backward_arguments]
        return schema_text(arguments, [_gradient_type(self.inputs[i].type) for i in self.wanted])

    # --- the forward ---

    def forward(self, values: Sequence[Any]) -> list[Any]:
        """Its results on tensors with memory; each has its own, and is contiguous."""
        seed = next_seed() if self.draws else 0
        with _drawing(seed if self.draws else None):
            results = run_plainly(self._forward, values, passes_on=False)
        results = self._forward_shapes.as_told(values, self._without_rest(results))
        results = with_own_memory(values, results)
        return [*results, torch.tensor(seed)] if self.draws else results

    def forward_by(self, run: HalfRun, values: Sequence[Any]) -> list[Any]:
        """The same as `run` computes it, where no numbers are drawn."""
        return run(self._forward, values)

    def forward_fake(self, values: Sequence[Any]) -> list[Any]:
        results = self._forward_shapes(values)
        return [*results, torch.empty((), dtype=torch.int64)] if self.draws else results

    @cached_property
    def _forward_shapes(self) -> ShapeRun:
        return ShapeRun(self._function.graph if self.draws else self.exchange.forward)

    def _without_rest(self, results: list[Any]) -> list[Any]:
        """Where numbers are drawn, the whole forward runs, and what is saved beside the results is dropped."""
        return results[: self.num_real] if self.draws else results

    def forward_recorded(self, values: Sequence[Any]) -> list[Any]:
        """The results by programs that torch records, level by level of its transforms."""
        if self.draws:
            seed = next_seed()
            with local_seed(seed):
                return [*run_program(self._function, values), torch.tensor(seed)]
        temporaries = run_program(self._forward, values)[self.num_real :]
        return [*run_program(self._function, values), *temporaries]

    # --- the backward ---

    def arguments_of_backward(self, values: Sequence[Any], results: Sequence[Any]) -> list[Any]:
        """What the backward takes between gradients and mask, of what the forward took and gave."""
        shapes_only = self.exchange.shapes_only
        taken = [each([values[i]], _like)[0] if i in shapes_only else values[i] for i in self.exchange.needed]
        kept = [results[self._place(i)] for i in self.exchange.kept]
        return [*taken, *kept, results[-1]] if self.draws else [*taken, *kept]

    def _place(self, output: int) -> int:
        return output if output < self.num_real else self.num_real + self.saved.index(output)

    def backward(self, arguments: Sequence[Any]) -> list[Any]:
        """The gradients, of tensors with memory."""
        results = self.gradients_by(lambda program, values: run_plainly(program, values, passes_on=False), arguments)
        return with_own_memory(arguments, results)

    def backward_recorded(self, arguments: Sequence[Any]) -> list[Any]:
        return self.gradients_by(run_program, arguments)

    def backward_fake(self, arguments: Sequence[Any]) -> list[Any]:
        vjps, inputs, _, _, mask = self.parted(arguments)
        _, defined = self._program(vjps, inputs, mask)
        pairs = enumerate(zip(self.wanted, self._not_there(), strict=True))
        return [each([inputs[i]], _blank)[0] if n in defined else none for n, (i, none) in pairs]

    # --- how gradients are computed ---

    def gradients_by(self, run: HalfRun, arguments: Sequence[Any]) -> list[Any]:
        vjps, inputs, kept, seed, mask = self.parted(arguments)
        program, defined = self._program(vjps, inputs, mask)
        row = self._not_there()
        if defined:
            captures = self._captures(run, inputs, kept, seed)
            for place, result in zip(defined, run(program, [*vjps, *captures]), strict=True):
                argument = self.wanted[place]
                row[place] = self._fitted(argument, result, inputs[argument])
        return row

    def _not_there(self) -> list[Any]:
        """Of gradients that nobody wants, or that did not come: torch takes None for a tensor, and for no list."""
        return [[] if _is_list(self.inputs[i].type) else None for i in self.wanted]

    def parted(self, arguments: Sequence[Any]) -> tuple[list[Any], dict[int, Any], dict[int, Any], Any, list[bool]]:
        """Gradients of all that the backward takes some of, inputs and kept outputs of f by number, seed and mask."""
        given = iter(arguments)
        places = {i: next(given) for i in self.vjps}
        vjps = [places.get(i) for i in self.differentiated.gradient.input_vjps]
        vjps = [None if isinstance(v, list) and all(item is None for item in v) else v for v in vjps]
        inputs = {i: next(given) for i in self.exchange.needed}
        kept = {i: next(given) for i in self.exchange.kept}
        return vjps, inputs, kept, next(given) if self.draws else None, [*next(given)]

    def _captures(self, run: HalfRun, inputs: dict[int, Any], kept: dict[int, Any], seed: Any) -> list[Any]:
        exchange, gradient = self.exchange, self.differentiated.gradient
        found = dict(kept)
        if exchange.computed:
            given = [*(inputs[i] for i in exchange.again_inputs), *kept.values()]
            found |= self._told_by_sizes(given)
        left = [i for i in exchange.computed if i not in found]
        if left:
            with _drawing(self._known(seed) if seed is not None else None):
                again = run(self._again_for(left), given)
            pairs = enumerate(again) if self.draws else zip(left, again, strict=True)
            found |= {i: value for i, value in pairs if i in exchange.computed}
        return residuals_of(gradient, inputs, found)

    def _told_by_sizes(self, given: Sequence[Any]) -> dict[int, Any]:
        """What is captured and follows from shapes, of tensors that are no stand-ins, where these tell it: all of it
        or nothing. On meta, where nobody computes and FLOPs are counted, numbers beside tensors too: products stand
        before the sizes of their results, and no kernel runs those."""
        beside_tensors = not self.draws and any(isinstance(value, torch.Tensor) and value.is_meta for value in given)
        if not (self.exchange.of_shapes or beside_tensors) or is_recorded() or not all(map(_has_sizes, given)):
            return {}
        described = [abstract(value) for value in given]
        key = repr(described)
        if key not in self._by_shapes:
            if len(self._by_shapes) >= MAX_SHAPES:
                self._by_shapes.clear()
            self._by_shapes[key] = self._propagated(described)
        return self._by_shapes[key]

    def _propagated(self, described: Sequence[Any]) -> dict[int, Any]:
        graph = self.exchange.again
        try:
            known = propagate_shapes(graph, described)
        except ShapeError:
            return {}
        pairs = zip(self.exchange.computed, graph.outputs, strict=True)
        numbers = {i: known.get(value, UNKNOWN) for i, value in pairs if not is_tensor(leaf_of(value.type))}
        found = {i: number for i, number in numbers.items() if is_known(number)}
        return found if not self.exchange.of_shapes or len(found) == len(self.exchange.computed) else {}

    def _again_for(self, left: Sequence[int]) -> CompiledGraph:
        """What computes again those that are left."""
        computed = self.exchange.computed
        if self.draws or len(left) == len(computed):
            return self._again
        key = tuple(left)
        if key not in self._again_without:
            graph: Graph = self.exchange.again.copy()
            graph.body.ret.replace_inputs([graph.outputs[computed.index(i)] for i in left])
            eliminate_dead_code(graph)
            self._again_without[key] = CompiledGraph(graph, self._again.name)
        return self._again_without[key]

    def _known(self, seed: Any) -> int:
        """The seed of a forward; Untraceable for one that nobody has drawn."""
        if is_recorded() or kind_of(seed) != "cpu":
            message = "what was drawn is not known here: gradients of this backward cannot be traced"
            span = self.differentiated.gradient.f.span
            note = "take second derivatives outside of what is compiled"
            raise Untraceable("R003", backward_of(self.name), message, span=span, notes=[note])
        return int(seed)

    def _program(
        self, vjps: Sequence[Any], inputs: dict[int, Any], mask: Sequence[bool]
    ) -> tuple[CompiledGraph, list[int]]:
        """What computes the gradients that are wanted, and which of them these are."""
        return self.program_for(tuple([pattern_of_tensor(vjp) for vjp in vjps]), inputs, mask)

    def program_for(
        self, pattern: tuple[Any, ...], inputs: dict[int, Any], mask: Sequence[bool]
    ) -> tuple[CompiledGraph, list[int]]:
        """What computes the gradients that are wanted for cotangents of these dtypes, and which of them these are."""
        wanted = tuple([has_gradient(inputs[i]) and m for i, m in zip(self.wanted, mask, strict=True)])
        found = self._pruned.get((pattern, wanted))
        if found is None:
            found = self._pruned[pattern, wanted] = self._prune(pattern, wanted)
        return found

    def _prune(self, pattern: tuple[Any, ...], wanted: Sequence[bool]) -> tuple[CompiledGraph, list[int]]:
        whole = self.differentiated.backward(pattern)
        if all(part is None for part in pattern):
            return whole, []
        defined = [n for n, i in enumerate(self.gradients) if wanted[n] and i not in whole.undefined]
        graph: Graph = whole.graph.copy()
        graph.body.ret.replace_inputs([graph.outputs[self.gradients[n]] for n in defined])
        eliminate_dead_code(graph)
        return CompiledGraph(graph, backward_of(self.name)), defined

    @cached_property
    def _never_there(self) -> frozenset[int]:
        """Gradients that are undefined whichever those of the results are."""
        gradient = self.differentiated.gradient
        types = [gradient.f.outputs[i].type for i in gradient.input_vjps]
        some = np.dtype(np.float32)
        return self.differentiated.backward(tuple([list if _is_list(type) else some for type in types])).undefined

    def _fitted(self, argument: int, gradient: Any, primal: Any) -> Any:
        """A gradient in the shape and dtype of its argument; zeros for one that did not come this time."""
        if isinstance(primal, list):
            given = gradient if gradient is not None else [None] * len(primal)
            return [self._fitted(argument, g, p) for g, p in zip(given, primal, strict=True)]
        if gradient is None:
            return torch.zeros_like(primal)
        if not fits(gradient.shape, primal.shape):
            name = self.inputs[argument].name_hint
            message = f"the gradient of '{name}' has shape {[*gradient.shape]}, the argument {[*primal.shape]}"
            note = "a backward returns gradients in the shapes of the inputs: `.sum_to_size(x.size())`"
            span = self.differentiated.gradient.f.span
            raise RuntimeFailure("R101", backward_of(self.name), message, argument=name, span=span, notes=[note])
        return gradient.to(primal.dtype).expand(primal.shape)


def _has_pairs(graph: Graph) -> bool:
    """Whether a graph, or what it calls, has a backward of its own."""
    copied = graph.copy()
    inline_functions(copied, keep_pairs=True)
    return copied.returns_closure or any(node.kind == "prim::CallFunction" for node in copied.all_nodes())


def has_no_gradient(function: Compiled) -> bool:
    """Whether no result of a function has a gradient, whatever its arguments require."""
    try:
        return _gradient_of(function) is None
    except CompileError:
        return False


def _gradient_of(function: Compiled) -> Gradient | None:
    """That of all floating tensors, where a result has one. CompileError where an op on the way has no formula."""
    program, _ = program_of(function)
    key = tuple([is_differentiable(value.type) for value in program.graph.inputs])
    if True not in key:
        return None
    # Optional arguments stay so: what runs is decided where it runs.
    gradient = differentiate(prepare_gradient(program.graph), key)
    return gradient if any(gradient.active_outputs) else None


def with_own_memory(values: Sequence[Any], results: Sequence[Any]) -> list[Any]:
    """Results as an op of torch returns them: contiguous, each of memory that nothing else has."""
    seen: set[int] = set()
    each(values, lambda value: _note(value, seen))

    def own(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        plain = value.contiguous()
        if plain.numel() and plain.untyped_storage().data_ptr() in seen:
            plain = plain.clone(memory_format=torch.contiguous_format)
        _note(plain, seen)
        return plain

    return each(results, own)


def _note(value: Any, seen: set[int]) -> None:
    if isinstance(value, torch.Tensor) and value.numel():
        seen.add(value.untyped_storage().data_ptr())


def _has_sizes(value: Any) -> bool:
    """Whether a value is no stand-in, whose sizes may be symbols."""
    if isinstance(value, list):
        return all(map(_has_sizes, value))
    if isinstance(value, torch.Tensor):
        return kind_of(value) != SYMBOLIC and not any(isinstance(size, torch.SymInt) for size in value.shape)
    return not isinstance(value, torch.SymInt | torch.SymBool | torch.SymFloat)


def _drawing(seed: int | None) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext() if seed is None else local_seed(seed)


def _like(value: Any) -> Any:
    """A tensor of the same shape and dtype with a single element of memory."""
    return value.new_empty(()).expand(value.shape) if isinstance(value, torch.Tensor) else value


def _blank(value: Any) -> Any:
    return torch.empty(value.shape, dtype=value.dtype, device=value.device)


def has_gradient(value: Any) -> bool:
    """Whether it is a floating tensor, or what stands for one, or holds such."""
    if isinstance(value, list):
        return any(map(has_gradient, value))
    if isinstance(value, Meta):
        return value.dtype.is_floating
    return isinstance(value, torch.Tensor) and value.dtype.is_floating_point


def _is_list(type: Any) -> bool:
    return isinstance(type, ListType) or (isinstance(type, OptionalType) and _is_list(type.element))


def _cotangent(type: Any) -> Any:
    return ListType(OptionalType(TENSOR)) if _is_list(type) else OptionalType(TENSOR)


def _saved_type(value: Value) -> Any:
    """Of a branch that was not taken nothing is saved."""
    return OptionalType(TENSOR) if value.node.blocks else TENSOR


def _gradient_type(type: Any) -> Any:
    return ListType(TENSOR) if _is_list(type) else TENSOR
