"""A function captured for one kind of arguments: a graph of its forward, and where gradients are wanted one of its
backward, as a node of torch's autograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ....lang.source import Span
from ...failures.failure import RuntimeFailure
from ...settings.random import drawing_from, drawn_so_far
from ...settings.seeds_in_memory import SeedInMemory
from .driver import Driver, Replay, has_driver
from .inputs import Inputs, from_leaves, into_leaves
from .seeds import GraphSeeds, NoReplay, TriedSeeds

_WAITS = "synchronizing CUDA operation"
"""What torch's debug mode of synchronization says of a wait."""
_CAPTURING = "captur"
"""What the driver's errors say of what a capture forbids."""


class CapturedStep:
    """A function with its graphs, for arguments like these leaves.

    Raises: RuntimeFailure R106 where the function does what a graph cannot hold, and whatever the function raises.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        span: Span,
        leaves: Sequence[Any],
        structure: Any,
        driver: Driver,
        warmups: int,
    ) -> None:
        self._function, self._name, self._span = function, name, span
        self._structure = structure
        self._inputs = Inputs(leaves)
        self._records = torch.is_grad_enabled() and bool(self._inputs.differentiable)
        self._turn = 0
        self._seeds: list[Any] = []
        self._gradients: list[Any] = []
        self._given: Sequence[Any] = ()
        self.is_inside = driver.is_capturing
        """Whether what is done now becomes part of somebody else's graph."""
        device = next(leaf.device for leaf in leaves if has_driver(leaf))
        forward, backward = self._warm_up(driver, warmups, device)
        self._draws, self._draws_backward = GraphSeeds(forward, device), GraphSeeds(backward, device)
        self._capture(driver)

    def __call__(self, leaves: Sequence[Any]) -> Any:
        """The results for these leaves, in the memory of the graph."""
        if not self._records:
            self._run(leaves)
            row: Sequence[Any] = [tensor.detach() for tensor in self._row]
        else:
            # torch records those alone that are given one by one.
            row = _CapturedNode.apply(self, leaves, *[leaves[i] for i in self._inputs.differentiable])
        results = list(self._results)
        for place, tensor in zip(self._places, row, strict=True):
            results[place] = tensor
        return from_leaves(results, self._result_structure)

    # --- replays ---

    def _run(self, leaves: Sequence[Any]) -> int:
        """The turn that this is: what a backward needs lies in the graph's memory until the next one."""
        self._turn += 1
        self._inputs.take(leaves)
        self._draws.refill()
        self._forward()
        torch.autograd.graph.increment_version(self._row)
        return self._turn

    def forward(self, ctx: Any, leaves: Sequence[Any]) -> tuple[Any, ...]:
        """A replay as torch's node has it."""
        ctx.step, ctx.turn = self, self._run(leaves)
        row = tuple([tensor.detach() for tensor in self._row])
        ctx.mark_non_differentiable(*[t for t, seed in zip(row, self._seeds, strict=True) if seed is None])
        return row

    def gradients(self, turn: int, given: Sequence[Any]) -> Sequence[Any]:
        """Those of the leaves that require one, for those of the tensors among the results."""
        if torch.is_grad_enabled():
            message = "a graph has no derivative of its backward, which `create_graph=True` asks for"
            notes = ["capture what takes the first one: `gs.graphed(lambda x: gs.vjp(gs.grad(f), x)…, …)`"]
            raise RuntimeFailure("R106", self._name, message, span=self._span, notes=notes)
        if turn != self._turn:
            message = "the graph has run since, and what this backward needs is overwritten"
            notes = ["call it once for each backward, or capture both passes: `gs.graphed(gs.value_and_grad(f), …)`"]
            raise RuntimeFailure("R106", self._name, message, span=self._span, notes=notes)
        self._turn += 1
        pairs = [(seed, g) for seed, g in zip(self._seeds, given, strict=True) if seed is not None]
        if self._backward is None or not pairs:
            return [None] * len(self._inputs.differentiable)
        torch._foreach_copy_([seed for seed, _ in pairs], [g for _, g in pairs])
        self._draws_backward.refill()
        self._backward()
        found = [gradient for gradient in self._gradients if gradient is not None]
        torch.autograd.graph.increment_version(found)
        # As long as they are held here too, torch accumulates into copies of them.
        self._given = [None if gradient is None else gradient.detach() for gradient in self._gradients]
        return list(self._given)

    # --- captures ---

    def _warm_up(self, driver: Driver, warmups: int, device: torch.device) -> tuple[int, int]:
        """What is built, loaded and tuned by the first calls is none of the graph's. How many seeds each pass draws."""
        counts = (0, 0)
        for turn in range(warmups):
            strictly = turn == warmups - 1
            before = drawn_so_far()
            try:
                counts = driver.warm_up(lambda: self._both(TriedSeeds(device)), strictly=strictly)
            except Exception as error:
                unfit = self._unfit(error, strictly=strictly)
                if unfit is None:
                    raise
                raise unfit from error
            if drawn_so_far() != before:
                message = "it draws random numbers on the host, and a replay would draw the same again"
                raise self._refused(message, "draw them outside, and pass the tensor: a mask for dropout")
        written = self._inputs.written()
        if written is not None:
            message = f"it writes to value {written + 1} of its arguments, of which a graph has a copy"
            raise self._refused(message, "return what is new, or let the function hold the tensor that it writes to")
        return counts

    def _capture(self, driver: Driver) -> None:
        try:
            with drawing_from(self._draws):
                self._forward, results = driver.capture(self._results_of_inputs)
            self._results, self._result_structure = into_leaves(results)
            self._places = [i for i, leaf in enumerate(self._results) if isinstance(leaf, torch.Tensor)]
            row = [self._results[i] for i in self._places]
            with drawing_from(self._draws_backward):
                self._backward = self._captured_backward(driver, row)
            for seeds in (self._draws, self._draws_backward):
                seeds.check_all_drawn()
        except Exception as error:
            unfit = self._unfit(error, captures=True)
            if unfit is None:
                raise
            raise unfit from error
        self._row = [tensor.detach() for tensor in row]
        self._results = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in self._results]

    def _unfit(self, error: Exception, *, strictly: bool = False, captures: bool = False) -> RuntimeFailure | None:
        """What says that an error comes of what a graph cannot hold; None for the function's own."""
        is_failure = isinstance(error, RuntimeFailure)
        told, span = (error.message, error.span) if isinstance(error, RuntimeFailure) else (str(error), self._span)
        if SeedInMemory.__name__ in told:
            message = "a seed that it draws is looked at by the host: kernels alone read it, anew at each replay"
            note = "draw numbers from it, `gs.uniform(seed, size)`, or from sums and products of it and ints"
            return RuntimeFailure("R106", self._name, message, span=span, notes=[note])
        if isinstance(error, NoReplay) or isinstance(error.__cause__, NoReplay):
            return self._refused(str(error if isinstance(error, NoReplay) else error.__cause__))
        if not isinstance(error, RuntimeFailure | RuntimeError):
            return None
        if _WAITS in told and (strictly or is_failure) and not captures:
            return self._waits(span)
        if _CAPTURING in told and captures:
            return self._refused(f"the device cannot capture it: {told.splitlines()[0]}")
        return None

    def _captured_backward(self, driver: Driver, row: Sequence[Any]) -> Replay | None:
        wants = [self._records and tensor.requires_grad for tensor in row]
        self._seeds = [torch.zeros_like(tensor) if wanted else None for tensor, wanted in zip(row, wants, strict=True)]
        if not any(wants):
            return None
        replay, self._gradients = driver.capture(lambda: self._gradients_of(row, self._seeds))
        return replay

    def _both(self, seeds: TriedSeeds) -> tuple[int, int]:
        """Both passes. How many seeds each draws."""
        with drawing_from(seeds):
            leaves, _ = into_leaves(self._results_of_inputs())
            forward = seeds.count
            row = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
            self._check(leaves, row)
            if self._records and any(tensor.requires_grad for tensor in row):
                self._gradients_of(row, [torch.zeros_like(t) if t.requires_grad else None for t in row])
        return forward, seeds.count - forward

    def _results_of_inputs(self) -> Any:
        arguments = from_leaves(self._inputs.leaves, self._structure)
        return self._function(*arguments)

    def _gradients_of(self, row: Sequence[Any], seeds: Sequence[Any]) -> list[Any]:
        wanted = [(tensor, seed) for tensor, seed in zip(row, seeds, strict=True) if seed is not None]
        inputs = [self._inputs.leaves[i] for i in self._inputs.differentiable]
        outputs, given = [tensor for tensor, _ in wanted], [seed for _, seed in wanted]
        return list(torch.autograd.grad(outputs, inputs, given, allow_unused=True))

    def _check(self, leaves: Sequence[Any], row: Sequence[Any]) -> None:
        if any(isinstance(leaf, SeedInMemory) for leaf in leaves):
            raise self._refused("a seed that it draws is among its results", "return numbers that are drawn from it")
        for place, tensor in enumerate(row):
            if not has_driver(tensor):
                message = f"tensor {place + 1} of its results is on {tensor.device}, where a replay computes nothing"
                raise self._refused(message, "compute it on the device, or outside")
        inputs = {id(self._inputs.leaves[i]) for i in self._inputs.differentiable}
        if any(id(leaf) not in inputs for leaf in _leaves_behind(row)):
            message = "its results have gradients with respect to tensors that are none of its arguments"
            raise self._refused(message, "pass these too; or return `result.detach()`")

    def _waits(self, span: Span) -> RuntimeFailure:
        message = "the host waits for what is in a tensor: a graph takes the same way at each replay"
        notes = [
            "decide by shapes and numbers; on the device by `torch.where`; or capture the steps between the decisions"
        ]
        return RuntimeFailure("R106", self._name, message, span=span, notes=notes)

    def _refused(self, message: str, *notes: str) -> RuntimeFailure:
        return RuntimeFailure("R106", self._name, message, span=self._span, notes=notes)


class _CapturedNode(torch.autograd.Function):  # type: ignore[misc] # torch is not typed here
    """The node of a replay: `apply(step, leaves, *tensors)`; the tensors are the leaves that require a gradient."""

    @staticmethod
    def forward(ctx: Any, step: CapturedStep, leaves: Sequence[Any], *tensors: Any) -> tuple[Any, ...]:
        return step.forward(ctx, leaves)

    @staticmethod
    def backward(ctx: Any, *given: Any) -> tuple[Any, ...]:
        return (None, None, *ctx.step.gradients(ctx.turn, given))


def _leaves_behind(row: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The leaves that the gradients of tensors flow to."""
    found = [tensor for tensor in row if tensor.requires_grad and tensor.grad_fn is None]
    pending: list[Any] = [tensor.grad_fn for tensor in row if tensor.grad_fn is not None]
    seen = set(pending)
    while pending:
        node = pending.pop()
        if hasattr(node, "variable"):
            found.append(node.variable)
        following = {next_node for next_node, _ in node.next_functions if next_node is not None} - seen
        seen |= following
        pending += following
    return found
