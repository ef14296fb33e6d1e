"""A function registered with torch.library: `ns::name`, `ns::name_forward` and `ns::name_backward`.

| Key | What runs there |
|---|---|
| FuncTorchDynamicLayerFrontMode | the function, as it is called without an op: torch.func takes its node apart |
| Autocast | the op, of arguments cast by its policy |
| Autograd | plain tensors: the function; else a node whose halves are the other two ops |
| CompositeExplicitAutograd | the plan, by kernels where the device has them |
| Meta, and fake tensors | shapes |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode, register_flop_formula

from ....compiler.ir.graph import Graph
from ....compiler.ir.node import Value
from ....compiler.ops.registry import OPS, Trait
from ....compiler.types.types import ListType, TupleType, is_tensor, leaf_of
from ....lang.light_dataclasses import replace
from ...execution.binding import Binder
from ...execution.compilation import device_graph
from ...execution.compiled import Compiled
from ...tape.programs import program_of
from ..array_runs import dispatch, quicken
from ..calls import TorchCalls
from ..kinds import PLAIN, has_dispatch, is_recorded
from ..places import each, take_apart
from ..recorded.node import run_plainly
from ..symbolic import OpsRun, is_batchable
from ..tensors import checked, has_tangent, requires_grad
from .compile_keys import CompileKey
from .fakes import ShapeRun
from .halves import Halves, has_no_gradient, with_own_memory
from .launches import register_launches, run_traced
from .nodes import OpCall, below_autograd, is_only_recorded, is_stand_in, record_backward, record_op
from .policies import AutocastPolicy
from .schemas import function_schema
from .sharding import Staged, register_rules
from .stages import stages_of_backward, stages_of_forward, stages_of_function

_FUNC = "FuncTorchDynamicLayerFrontMode"
_modes: Callable[[], int] = torch._C._len_torch_dispatch_stack


class RegisteredOp:
    """The ops of one function. What it registers stays for as long as the process."""

    def __init__(
        self, function: Compiled, namespace: str, name: str, autocast: AutocastPolicy | None, derives: bool
    ) -> None:
        schema = function_schema(function)
        self.calls = TorchCalls(function)
        self.halves = Halves.of(function)
        self.name = f"{namespace}::{name}"
        self._function = function
        self._program, _ = program_of(function)
        self._shapes = ShapeRun(self._program.graph)
        # Of a forward and a backward, all arguments go by their place.
        placed = [replace(argument, keyword_only=False) for argument in function.schema.arguments]
        self._binder = Binder(function.title, placed, function.graph.span, checked)
        graphs = [self._program.graph]
        if self.halves is not None:
            graphs += [self.halves.exchange.forward, self.halves.exchange.again, self.halves.differentiated.gradient.df]
        self._graphs = graphs
        self._key = CompileKey(self.name, graphs)
        outputs = self._program.graph.outputs
        self._is_view = _may_alias(outputs, self._program.graph)
        self._repeats = len(set(outputs)) < len(outputs)
        self._library = torch.library.Library(namespace, "FRAGMENT")
        self.op = self._define(name, schema, self._draws)
        self.forward: Any = None
        self.backward: Any = None
        # What is prepared is for plain tensors where no mode is in force.
        autograd = dispatch(self.calls.known, self._autograd)
        self._implement(name, self._run, self._fake, autograd, self.calls_function)
        if self.halves is not None:
            self._define_halves(name, schema, self.halves)
        for device, key in (("cpu", "AutocastCPU"), ("cuda", "AutocastCUDA")):
            if autocast is not None:
                self._library.impl(name, partial(self._cast, autocast, device, key), key)
        self.packet = self.op.overloadpacket
        if autocast is None:
            quicken(self.packet, self.calls.known)
        self._count_flops()
        if not self._draws:
            self._show_launches()
        self._has_rules = derives and self._shard(schema)

    # --- registering ---

    def _define(self, name: str, schema: str, draws: bool) -> Any:
        tags = [torch.Tag.pt2_compliant_tag, *([torch.Tag.nondeterministic_seeded] if draws else [])]
        self._library.define(name + schema, tags=tags)
        return getattr(getattr(torch.ops, self._library.ns), name).default

    def _implement(self, name: str, run: Any, fake: Any, autograd: Any, under_func: Any) -> None:
        self._library.impl(name, run, "CompositeExplicitAutograd")
        self._library.impl(name, autograd, "Autograd")
        self._library.impl(name, under_func, _FUNC)

        def told(*args: Any, **kwargs: Any) -> Any:
            self._key.tell()
            return fake(*args, **kwargs)

        torch.library.register_fake(f"{self._library.ns}::{name}", told, lib=self._library)

    def _define_halves(self, name: str, schema: str, halves: Halves) -> None:
        arguments = schema[: schema.rindex(" -> ")].replace("*, ", "", 1)
        results = ", ".join("Tensor" if is_tensor(t) else "Tensor[]" for t in halves.forward_results)
        forward, backward = f"{name}_forward", f"{name}_backward"
        self.forward = self._define(forward, f"{arguments} -> ({results})", self._draws)
        self._implement(
            forward,
            lambda *args, **kwargs: returned(halves.forward(self.bound(args, kwargs))),
            lambda *args, **kwargs: returned(halves.forward_fake(self.bound(args, kwargs))),
            self._autograd_of_forward,
            self._forward_under_func,
        )
        self.backward = self._define(backward, halves.backward_schema, False)
        self._implement(
            backward,
            lambda *args: returned(halves.backward(args)),
            lambda *args: returned(halves.backward_fake(args)),
            self._autograd_of_backward,
            self._backward_under_func,
        )

    @property
    def _draws(self) -> bool:
        ops = (OPS.of(node.schema) for node in self._program.graph.all_nodes())
        return (self.halves is not None and self.halves.draws) or any(op and op.has(Trait.RANDOM) for op in ops)

    # --- the op ---

    def calls_function(self, *args: Any, **kwargs: Any) -> Any:
        if self._stays_whole([*args, *kwargs.values()]):
            assert self.halves is not None
            return returned(self._recorded(self.bound(args, kwargs))[: self.halves.num_real])
        return self.calls(args, kwargs)

    def _stays_whole(self, values: Sequence[Any]) -> bool:
        """Whether torch traces gradients of a function that its own ops cannot tell: the halves are what it sees."""
        if self.halves is None or self._is_told_by_ops or not is_only_recorded():
            return False
        return is_recorded() or any(map(is_stand_in, values))

    @cached_property
    def _is_told_by_ops(self) -> bool:
        return all(is_batchable(device_graph(graph)) for graph in self._graphs)

    def bound(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """One value for each argument, defaults where none is given."""
        return self._binder.bind(args, kwargs)

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        values = self.bound(args, kwargs)
        return returned(with_own_memory(values, run_plainly(self._program, values, passes_on=False)))

    def _fake(self, *args: Any, **kwargs: Any) -> Any:
        return returned(self._shapes(self.bound(args, kwargs)))

    def _autograd(self, *args: Any, **kwargs: Any) -> Any:
        is_plain = not _modes() and all(map(_is_plain, args)) and all(map(_is_plain, kwargs.values()))
        if is_plain and not self._is_view:
            return self.calls(args, kwargs)
        values = self.bound(args, kwargs)
        if is_plain and not self._repeats and not kwargs:
            self.calls.prepare_owning(args, values)
        if not self._has_rules and _is_spread(values):
            return self.calls(args, kwargs)
        if has_tangent(values):
            return self.calls(args, kwargs)
        if torch.is_grad_enabled() and requires_grad(values):
            if self.halves is not None:
                return returned(self._recorded(values)[: self.halves.num_real])
            if not self._has_no_gradient:
                return self.calls(args, kwargs)
        with below_autograd():
            return self.op(*args, **kwargs)

    @cached_property
    def _has_no_gradient(self) -> bool:
        return has_no_gradient(self._function)

    # --- the halves ---

    def _autograd_of_forward(self, *args: Any, **kwargs: Any) -> Any:
        values = self.bound(args, kwargs)
        assert self.halves is not None
        if has_tangent(values):
            return returned(self.halves.forward_recorded(values))
        if torch.is_grad_enabled() and requires_grad(values):
            return returned(self._recorded(values))
        with below_autograd():
            return self.forward(*args, **kwargs)

    def _recorded(self, values: Sequence[Any]) -> list[Any]:
        assert self.halves is not None
        tensors: list[Any] = []
        call = OpCall(self.halves, self.forward, self.backward, take_apart(values, tensors))
        return record_op(call, tensors)

    def _forward_under_func(self, *args: Any, **kwargs: Any) -> Any:
        assert self.halves is not None
        values = self.bound(args, kwargs)
        return returned(self._recorded(values) if self._stays_whole(values) else self.halves.forward_recorded(values))

    def _backward_under_func(self, *args: Any) -> Any:
        assert self.halves is not None
        if self._stays_whole(args):
            return returned(record_backward(self.halves, self.backward, args))
        return returned(self.halves.backward_recorded(args))

    def _autograd_of_backward(self, *args: Any) -> Any:
        assert self.halves is not None
        if has_tangent(args) or (torch.is_grad_enabled() and requires_grad(args)):
            return returned(self.halves.backward_recorded(args))
        with below_autograd():
            return self.backward(*args)

    # --- what else torch asks ---

    def _cast(self, policy: AutocastPolicy, device: str, key: str, *args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))):
            dtype = policy.dtype_for(device, [*args, *kwargs.values()])
            cast = partial(policy.cast, dtype=dtype)
            return self.op(*each(args, cast), **dict(zip(kwargs, each([*kwargs.values()], cast), strict=True)))

    def _shard(self, schema: str) -> bool:
        """Tell DTensor how the ops run on parts. It knows no lists of tensors."""
        if "Tensor[]" in schema or "Tensor?[]" in schema:
            return False
        register_rules(self.op, self.stages)
        if self.halves is not None:
            register_rules(self.forward, partial(stages_of_forward, self.halves))
            register_rules(self.backward, partial(stages_of_backward, self.halves))
        return True

    def stages(self, values: Sequence[Any]) -> Staged:
        """What the op runs, for who asks how it goes with parts of tensors."""
        return stages_of_function(self._function, values)

    def _count_flops(self) -> None:
        graphs: list[tuple[Any, Callable[..., list[Any]]]] = [(self.op, self._fake_list)]
        if self.halves is not None:
            graphs += [(self.forward, self._fake_list), (self.backward, self._fake_backward)]
        for op, run in graphs:
            register_flop_formula(op.overloadpacket, get_raw=True)(partial(_flops, run))

    def _fake_list(self, *args: Any, **kwargs: Any) -> list[Any]:
        return self._shapes.by_ops(self.bound(args, kwargs))

    def _fake_backward(self, *args: Any) -> list[Any]:
        assert self.halves is not None
        if self.halves.draws:
            # Any seed does, but none without an element.
            args = (*args[:-2], torch.tensor(0), args[-1])
        return self.halves.gradients_by(lambda program, values: ShapeRun(program.graph).by_ops(values), args)

    def _show_launches(self) -> None:
        """Have torch's compiler see the kernels of a GPU."""
        found: list[tuple[Any, Callable[..., list[Any]]]] = [
            (self.op, lambda *args, **kwargs: run_traced(self._program, self.bound(args, kwargs)))
        ]
        if self.halves is not None:
            halves = self.halves
            found += [
                (self.forward, lambda *args, **kwargs: halves.forward_by(run_traced, self.bound(args, kwargs))),
                (self.backward, lambda *args: halves.gradients_by(run_traced, args)),
            ]
        for op, run in found:
            register_launches(self._library, op, run)

    def decompositions(self) -> dict[Any, Callable[..., Any]]:
        """The ops in terms of torch's own, as `ExportedProgram.run_decompositions` takes them."""
        run = OpsRun(device_graph(self._program.graph))
        found: dict[Any, Callable[..., Any]] = {
            self.op: lambda *args, **kwargs: returned(run(self.bound(args, kwargs)))
        }
        if self.halves is not None:
            halves = self.halves
            found[self.forward] = lambda *args, **kwargs: returned(halves.forward_recorded(self.bound(args, kwargs)))
            found[self.backward] = lambda *args: returned(halves.backward_recorded(args))
        return found


def returned(results: list[Any]) -> Any:
    """Results as an op gives them."""
    return results[0] if len(results) == 1 else tuple(results)


def _flops(run: Callable[..., list[Any]], *args: Any, out_val: Any = None, **kwargs: Any) -> int:
    """What torch counts of the ops that a function is made of; nothing where what is in a tensor decides of them."""
    with FlopCounterMode(display=False) as counter:
        try:
            run(*each(args, _on_meta), **dict(zip(kwargs, each([*kwargs.values()], _on_meta), strict=True)))
        except Exception:
            return 0
    total: int = counter.get_total_flops()
    return total


def _on_meta(value: Any) -> Any:
    return torch.empty_like(value, device="meta") if isinstance(value, torch.Tensor) else value


def _is_plain(value: Any) -> bool:
    """Whether a value holds no tensor that is more than memory."""
    if type(value) in PLAIN:
        return not value.is_meta
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return not isinstance(value, torch.Tensor) or not has_dispatch(value)


def _is_spread(values: Sequence[Any]) -> bool:
    """Whether a tensor is in parts on several devices (DTensor)."""
    return any(hasattr(value, "device_mesh") for value in values) or any(
        _is_spread(value) for value in values if isinstance(value, list)
    )


def _may_alias(outputs: Sequence[Value], graph: Graph) -> bool:
    """Whether a result may share memory with an argument or another result, as those of an op must not."""
    if len(set(outputs)) < len(outputs) or any(isinstance(value.type, ListType | TupleType) for value in outputs):
        return True
    return not all(_makes_memory(value, graph) for value in outputs)


def _makes_memory(value: Value, graph: Graph) -> bool:
    """Whether what a node gives is no part of what it is given, there or where the function lies that it calls."""
    node = value.node
    if node.kind == "prim::CallFunction":
        called = graph.functions[node.attr("callee")].graph
        return not _may_alias(called.outputs[: len(node.outputs)], called)
    op = OPS.of(node.schema)
    return op is not None and not op.has(Trait.VIEW | Trait.MAY_ALIAS) and is_tensor(leaf_of(value.type))
