"""Function: one compiled function, callable on data, and showing every stage of its compilation."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, Self

from ...compiler.ir.graph import Callee, Graph
from ...compiler.link import reachable
from ...compiler.types.lazy_numpy import np
from ...compiler.types.schema import Argument
from ...compiler.types.types import ListType, strip_optional
from ...lang import ast
from ...lang.diagnostics import nearest
from ..execution.binding import Binder
from ..execution.compiled import Compiled, SharedPlans, unwrapped
from ..execution.kernel_runner import register_kernels
from ..execution.last_plan import LAST
from ..failures.failure import RuntimeFailure
from ..settings.counters import HITS
from ..settings.modes import BEGUN, TOUCHED, runs_c
from ..values.arrays import any_on_device, any_torch, describe_argument, maker_of, to_user
from ..values.foreign import maker_for
from ..values.recorded import RecordedCall, any_recorded, taker_of
from .in_graph import allow_in_graph
from .known_calls import PLAIN, KnownCalls
from .pair import GradPair
from .stages import STAGES

if TYPE_CHECKING:
    from inspect import Signature

    from ...compiler.recompute import Policy
    from ..execution.executor import DebugState, Entry, GraphExecutor
    from ..kernels.c.entry import Calls
    from ..kernels.c.graph import CGraph
    from ..kernels.listing import KernelListing
    from ..memory.report import Report
    from ..torch import TorchCalls
    from ..torch.values import Half, RecordedFunction

count_hit = HITS.add


def default_of(argument: Argument) -> Any:
    """A default as the source has it: a list is kept as a tuple, which nobody can change."""
    default = argument.default
    if isinstance(default, tuple) and isinstance(strip_optional(argument.type), ListType):
        return list(default)
    return default


class Function(Compiled):
    """A function of a CompilationUnit, or one made from another by `gs.grad` and its like.

        f(x, y)                          the result; several are a tuple. A closure it returns is dropped
        out, ctx = f.forward(x, y)       the forward half of its pair: the result and the context tuple
        grads = f.backward(ctx, grad)    the backward half: a tuple of one gradient per input, None where there is none
        f.show("lifted")                 the text of one stage, for every name in `Function.stages`

    Arrays go in and come out as NumPy arrays, or as torch tensors if any argument is one. A call `f(x, y)` on tensors
    joins torch's autograd: see docs/torch.md. Calls raise RuntimeFailure. A result may share memory with an argument.
    Functions may be called from several threads. A copy of one is itself, and it is not pickled (TypeError).
    """

    stages: tuple[str, ...] = tuple(STAGES)
    # What takes calls, and those of `gs.vjp`, straight to kernels in C, once there are such.
    calls: Calls | None = None
    gradient_calls: Calls | None = None
    # What `gs.grad` and its like have made of it, by what they were asked.
    derived: dict[Hashable, Function] | None = None
    # What finds what was prepared for a call on tensors of the CPU, once there is such.
    on_tensors: Callable[[tuple[Any, ...]], Any] | None = None

    def __init__(
        self, callee: Callee, *, definition: ast.FunctionDef | None = None, plans: SharedPlans | None = None
    ) -> None:
        if not isinstance(callee, Callee):
            write = "gs.Function.of_graph(graph)" if isinstance(callee, Graph) else "gs.CompilationUnit(source).f"
            raise TypeError(f"a Function is not made of {type(callee).__name__}: write `{write}`")
        super().__init__(callee, plans)
        self._definition = definition
        allow_in_graph(self)
        self.__name__ = callee.schema.name
        self.__doc__ = definition.docstring if definition is not None else None

    @property
    def __signature__(self) -> Signature:
        """What `inspect.signature` gives: the parameters with their types as text, and their defaults."""
        from inspect import Parameter, Signature

        parameters = [
            Parameter(
                argument.name,
                Parameter.KEYWORD_ONLY if argument.keyword_only else Parameter.POSITIONAL_OR_KEYWORD,
                default=Parameter.empty if argument.required else default_of(argument),
                annotation=str(argument.type),
            )
            for argument in self.schema.arguments
        ]
        returns = [str(result.type) for result in self.schema.returns]
        returned = returns[0] if len(returns) == 1 else f"Tuple[{', '.join(returns)}]"
        return Signature(parameters, return_annotation=returned if returns else "None")

    @property
    def definition(self) -> ast.FunctionDef | None:
        """The syntax tree; None for a function that no source text defines."""
        return self._definition

    @cached_property
    def pair(self) -> GradPair | None:
        """The function and its own backward as two plain graphs; None where the source gives no backward."""
        return GradPair.of(self._callee.pair) if self._callee.pair is not None else None

    @property
    def code(self) -> str:
        """Canonical source, closures in place. Functions of other units that it calls stand behind it."""
        from ...compiler.unparse import unparse_function, unparse_program

        if not self.calls_own_source:
            return unparse_program(self._callee)
        return unparse_function(self._callee, docstring=self.__doc__)

    @property
    def calls_own_source(self) -> bool:
        """Whether a source text defines it, and all that it calls, directly or not."""
        if self._definition is None:
            return False
        source = self._definition.span.source
        return all(callee.graph.span.source is source for callee in reachable(self._callee, self.name))

    def show(self, stage: str) -> str:
        """The text of one stage of compilation.

        ValueError for an unknown stage, and for one that this function does not have, with the reason.
        """
        if not isinstance(stage, str):
            raise TypeError(f"a stage is a str, not {type(stage).__name__}; the stages are {', '.join(STAGES)}")
        shown = STAGES.get(stage)
        if shown is None:
            hint = nearest(stage, STAGES)
            raise ValueError(f"there is no stage '{stage}'{hint}; the stages are {', '.join(STAGES)}")
        return shown(self._callee, self._definition)

    # --- running ---

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        # The usual call finds its plan by a flat key: see `known_calls`.
        if kwargs:
            in_order = self._known_calls.in_order(args, kwargs)
            if in_order is None:
                return self._run_bound(args, kwargs)
            args, kwargs = in_order, {}
        on_tensors = self.on_tensors
        if on_tensors is not None:
            found = on_tensors(args)
            if found is not NotImplemented:
                return found
        if BEGUN.by_ops and not TOUCHED.any:
            key: list[Any] = []
            for value in args:
                kind = type(value)
                if kind is np.ndarray:
                    key.append(value.dtype)
                    key.append(value.ndim)
                elif kind in PLAIN:
                    key.append(kind)
                else:
                    break
            else:
                known, whole = self._known_calls, args
                if len(args) in known.defaults:
                    rest, kinds = known.defaults[len(args)]
                    whole = (*args, *rest)
                    key += kinds
                if known.uniform is not None and tuple(key) in known.bound:
                    key.append(known.uniform(whole))
                entry = self._known.get(tuple(key))
                if entry is not None:
                    entry.used = count_hit()
                    LAST.plan = entry.plan
                    direct = entry.direct
                    if direct is not None:
                        try:
                            return direct(*whole)
                        except Exception:
                            # Once more, for the message.
                            pass
                    return self._run_entry(entry, whole)
        elif self.calls and runs_c():
            found = self.calls(*args)
            if found is not None:
                return found
        return self._run_bound(args, kwargs)

    # torch.compile leaves a call of this to Python; see `torch/tracing.py`. Said here, it imports no torch.
    vars(__call__).update(_torchdynamo_disable=True, _torchdynamo_disable_msg="a Gradscript function is compiled")

    def _run_entry(self, entry: Entry, args: tuple[Any, ...]) -> Any:
        """Run a plan on arrays that need no conversion."""
        results = self.executor.run_entry(entry.plan, args)
        if len(results) == 1:
            (result,) = results
            return result if type(result) is np.ndarray else to_user(result, None)
        return tuple([to_user(result, None) for result in results])

    def _run_bound(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if any_torch(args) or (kwargs and any_torch([*kwargs.values()])):
            return self._torch(args, kwargs)
        taker = taker_of((*args, *kwargs.values())) if any_recorded(args) else None
        if taker is not None:
            return taker.call_function(self, args, kwargs)
        try:
            values = self._binder.bind(args, kwargs)
        except RecordedCall as call:
            taker = call.taker
        if taker is not None:
            return taker.call_function(self, args, kwargs)
        results = self.executor.run(values, None if kwargs else self._known_calls.key(args, values))
        make = maker_for([*args, *kwargs.values()])
        if make is None and not kwargs and runs_c():
            self._keep_by_kernels(values, len(args))
        return unwrapped([to_user(result, make) for result in results])

    def _keep_by_kernels(self, values: Sequence[Any], given: int) -> None:
        """Have calls on arguments like these, which came before, go straight to their kernels."""
        entry = self.executor.kernel_entry(values, given)
        if entry is not None:
            from ..kernels.c.entry import new_calls

            self.calls = self.calls if self.calls is not None else new_calls()
            self.calls.add(entry)

    def forward(self, /, *args: Any, **kwargs: Any) -> tuple[Any, tuple[Any, ...]]:
        """The result (a tuple of several), and the context that `backward` takes."""
        if any_on_device([*args, *kwargs.values()]):
            *outputs, context = self._torch_halves[0](args, kwargs)
            return unwrapped(outputs), context
        forward, _ = self._halves
        values = self.bind(args, kwargs)
        results = forward.run(values)
        make = maker_of([*args, *kwargs.values()])
        *outputs, context = [to_user(result, make) for result in results]
        return unwrapped(outputs), context

    def backward(self, context: Sequence[Any], *grad_outputs: Any) -> Any:
        """A tuple with one gradient per input, None where there is none."""
        _, backward = self._halves
        self._check_backward(context, grad_outputs)
        if any_on_device([context, *grad_outputs]):
            return tuple(self._torch_halves[1]((context, *grad_outputs), {}))[: len(self.schema.arguments)]
        kept, gradients = self._backward_binders
        values = [tuple(self.bind(tuple(context), {}, kept)), *self.bind(grad_outputs, {}, gradients)]
        results = backward.run(values)
        make = maker_of([context, *grad_outputs])
        grads = tuple([to_user(result, make) for result in results])
        return grads[: len(self.schema.arguments)]

    @cached_property
    def _torch(self) -> TorchCalls:
        """What runs the function on torch tensors: imports torch."""
        from ..torch import TorchCalls
        from ..torch.tracing import leave_to_python

        leave_to_python(Function.__call__, Function._run_bound)
        calls = TorchCalls(self)
        self.on_tensors = calls.known
        return calls

    @cached_property
    def on_device(self) -> RecordedFunction:
        """What differentiates the function where tensors of a device are: imports torch."""
        from ..torch.values import RecordedFunction

        return RecordedFunction(self)

    @cached_property
    def _known(self) -> Mapping[Hashable, Entry]:
        """The executor's plans by what calls ask for them."""
        return self.executor.known

    @cached_property
    def _known_calls(self) -> KnownCalls:
        # Asked of the graph: calls of tensors get here too, for which no executor is made.
        from ..execution.uniform import uniformity

        return KnownCalls(self.schema.arguments, uniformity(self.graph))

    def memory(self, /, *args: Any, policy: Policy | str | int | None = None, **kwargs: Any) -> Report:
        """What the backward keeps of the forward on these arguments, and the memory both take, measured in a run.

            report = f.memory(x, w, policy="min_cut")      the default; save_all, mirror, recompute_all, budget=BYTES
            report.saved, report.recomputed                each with .name, .bytes, .span, .reason
            report.saved_bytes, report.peak_bytes, report.timeline, report.totals; str(report) is what
                                                           `gradscript memory` prints

        Runs forward and backward once for each policy that the report compares. ValueError for an unknown policy,
        RuntimeFailure for arguments that do not fit, CompileError (E408) where an op has no gradient.
        """
        from ..memory.measure import memory_report

        return memory_report(self, args, kwargs, policy)

    def kernels(self, /, *args: Any, **kwargs: Any) -> KernelListing:
        """The fused kernels of both passes for arguments of these shapes, dtypes and strides. Nothing runs.

            listing = f.kernels(x, w)       arrays or tensors, on any device; gradients for the floating ones, or for
                                            the torch tensors that require one
            listing.forward, .backward      each with .name, .text (Triton), .ir, .grid, .bytes_read, .bytes_written,
                                            .flops
            str(listing)                    a table

        RuntimeFailure for arguments that do not fit, and where control flow depends on what is in tensors.
        """
        from ..kernels.listing import list_kernels

        return list_kernels(self, args, kwargs)

    def debug_state(self) -> DebugState:
        """The graph, the fallback plan and the plans by ArgumentSpec; each plan's `.graph` is what it was made of."""
        return self.executor.debug_state()

    def __copy__(self) -> Self:
        """Itself, as Python's own functions: nothing of it changes. So modules that hold one can be copied."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"'{self.name}' is compiled code, which is not pickled: keep its source and compile it again")

    @cached_property
    def _halves(self) -> tuple[GraphExecutor, GraphExecutor]:
        from ..execution.executor import GraphExecutor

        pair, plans = self._own_pair(), self._shared.cache
        return GraphExecutor(pair.forward, plans), GraphExecutor(pair.backward, plans)

    @cached_property
    def _torch_halves(self) -> tuple[Half, Half]:
        """The pair on tensors of a device: imports torch."""
        from ..torch.values import Half

        pair = self._own_pair()
        forward = Half(self.name, self.schema.arguments, pair.forward)
        return forward, Half(f"{self.name}.backward", self._backward_arguments, pair.backward)

    @cached_property
    def _backward_binders(self) -> tuple[Binder, Binder]:
        """What binds the elements of a context, under the names of what they are, and what binds the gradients."""
        pair = self._own_pair()
        captured = [Argument(item.name, item.type) for item in pair.context]
        span = pair.backward.span
        return Binder(f"the context of {self.title}", captured, span), Binder(
            f"{self.title}.backward", self._backward_arguments[1:], span
        )

    def _check_backward(self, context: object, grad_outputs: Sequence[Any]) -> None:
        """RuntimeFailure unless it is one context, as `forward` gives it, and as many gradients as are taken."""
        pair = self._own_pair()
        taken = self._backward_arguments[1:]
        is_context = isinstance(context, tuple | list) and len(context) == len(pair.context)
        if is_context and len(grad_outputs) == len(taken):
            return
        if not is_context:
            names = ", ".join(item.name for item in pair.context)
            given = f"{len(context)} values" if isinstance(context, tuple | list) else describe_argument(context)
            message = f"first comes the context, a tuple of {len(pair.context)} ({names}), not {given}"
        else:
            count = "1 gradient" if len(grad_outputs) == 1 else f"{len(grad_outputs)} gradients"
            message = f"behind the context come {', '.join(repr(argument.name) for argument in taken)}: not {count}"
        note = f"`out, context = {self.name}.forward(…)`, then `{self.name}.backward(context, …)`"
        raise RuntimeFailure("R001", f"{self.title}.backward", message, span=pair.backward.span, notes=[note])

    @cached_property
    def _backward_arguments(self) -> list[Argument]:
        return [Argument(value.name_hint or "context", value.type) for value in self._own_pair().backward.inputs]

    def _own_pair(self) -> GradPair:
        if self.pair is None:
            raise ValueError(
                f"'{self.name}' has no backward of its own: end it with `return y, backward`, or use gs.vjp"
            )
        return self.pair


def _kernels_in_c(graph: Graph) -> CGraph:
    """What runs a graph by kernels in C."""
    from ..execution.compilation import device_graph
    from ..kernels.c.graph import CGraph

    return CGraph(graph, device_graph)


def _finds_compiler() -> bool:
    """Whether there is a compiler of C; where not, one notice says how to get one."""
    if os.name != "posix":
        # What is built is kept in folders that are opened as POSIX has it.
        return False
    from ..kernels.c.compiler import has_compiler

    return has_compiler()


register_kernels(_kernels_in_c)
BEGUN.register(_finds_compiler)
