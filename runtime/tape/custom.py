"""gs.tape.Function: nodes of the tape written in Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import ReferenceType, ref

from ...compiler.ops.arrays import dtype_of
from ..values.recorded import taker_of
from .captures import Capture, OtherCapture, TensorCapture, require_captures
from .fingerprints import check_fingerprints, fingerprints_of, is_checking
from .mode import grad_mode, is_grad_enabled
from .node import Edge, GradientValue, Metadata, TapeNode
from .value import TapeValue, as_variable, recorded, without_past


class Context:
    """What forward leaves to backward. Attributes may be set; Variables are saved by `save_for_backward`."""

    needs_input_grad: tuple[bool, ...]
    """Per argument of forward: whether its gradient is wanted."""
    materialize_grads: bool
    """Whether backward gets zeros for gradients that are undefined, instead of None."""

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self.materialize_grads = True
        self._to_save: tuple[Any, ...] = ()
        self._captures: list[Capture] | None = []
        self._fingerprints: list[Any] | None = None
        self._without_gradient: tuple[Any, ...] = ()
        self._node: ReferenceType[TapeNode] | None = None

    def save_for_backward(self, *variables: Any) -> None:
        """Keep arguments, outputs or other Variables; `saved` has them again. None may be among them."""
        self._to_save = variables

    def mark_non_differentiable(self, *outputs: Any) -> None:
        """These outputs have no gradient, and backward gets none for them."""
        self._without_gradient = outputs

    @property
    def saved(self) -> tuple[Any, ...]:
        """What was saved. RuntimeError after a backward that did not retain it."""
        node = self._node() if self._node is not None else None
        if node is None:
            return self._to_save
        captures = require_captures(self._captures, node.name)
        if self._fingerprints is not None:
            names = [f"saved tensor {i}" for i in range(len(captures))]
            check_fingerprints(node.name, names, [capture.array() for capture in captures], self._fingerprints)
        return tuple([capture.value(node) for capture in captures])

    def attach(self, node: TapeNode, slots: dict[int, int]) -> None:
        """Capture what is to be saved; `slots` are those of the node's outputs by identity."""
        self._node = ref(node)
        self._captures = [_capture(value, slots) for value in self._to_save]
        if is_checking():
            self._fingerprints = fingerprints_of([capture.array() for capture in self._captures])
        self._to_save = ()

    def release(self) -> None:
        self._captures = None

    def has_gradient(self, output: Any) -> bool:
        return not any(output is other for other in self._without_gradient)


def _capture(value: Any, slots: dict[int, int]) -> Capture:
    slot = slots.get(id(value))
    if slot is None:
        return OtherCapture(value)
    return TensorCapture(as_variable(value).data, slot=slot)


class TapeFunction:
    """A differentiable operation in Python. Subclasses give two static methods, and are called by `apply`:

        class Cube(gs.tape.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x * x

            @staticmethod
            def backward(ctx, grad):
                (x,) = ctx.saved
                return grad * 3 * x * x

        y = Cube.apply(v)

    Variables among the arguments of `apply` come to forward as they are, and nothing that it does is recorded; arrays
    that it returns become Variables. backward takes a Variable per output and returns a gradient per argument, None
    where there is none. Under `create_graph` what backward does with Variables is recorded, so it can be
    differentiated in turn.
    """

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        raise NotImplementedError("a gs.tape.Function has a static method `forward(ctx, *args)`")

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise NotImplementedError("a gs.tape.Function has a static method `backward(ctx, *grads)`")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run forward, and record a node for it if an argument requires a gradient."""
        taker = taker_of(args)
        if taker is not None and not isinstance(taker, TapeValue):
            return taker.call_custom(cls, args)
        needs = tuple(is_grad_enabled() and isinstance(a, TapeValue) and a.requires_grad for a in args)
        ctx = Context(needs)
        with grad_mode(False):
            result = cls.forward(ctx, *args)
        outputs = list(result) if isinstance(result, tuple | list) else [result]
        if any(needs):
            variables = _record(cls, ctx, args, outputs)
        else:
            variables = [as_variable(output).detach() for output in outputs]
        return type(result)(variables) if isinstance(result, tuple | list) else variables[0]


def gradients_of(function: type[TapeFunction], ctx: Context, given: Sequence[Any], count: int) -> list[Any]:
    """What backward returns for the gradients of the outputs: one gradient for each of `count` arguments."""
    result = function.backward(ctx, *given)
    results = list(result) if isinstance(result, tuple | list) else [result]
    while len(results) > count and results[-1] is None:
        results.pop()
    if len(results) != count:
        raise RuntimeError(
            f"{function.__name__}.backward returned {len(results)} gradients for {count} arguments: "
            "return one for each, None where there is none"
        )
    return results


def _record(cls: type[TapeFunction], ctx: Context, args: Sequence[Any], outputs: Sequence[Any]) -> list[TapeValue]:
    """The outputs as Variables of a new node's slots."""
    slots: list[int | None] = []
    metadata: list[Metadata] = []
    for output in outputs:
        data = as_variable(output).data
        is_active = ctx.has_gradient(output) and dtype_of(data).is_floating
        slots.append(len(metadata) if is_active else None)
        if is_active:
            metadata.append(Metadata(data.shape, data.dtype))
    node = CustomNode(cls, ctx, [_edge(arg) for arg in args], metadata, slots)
    ctx.attach(node, {id(o): slot for o, slot in zip(outputs, slots, strict=True) if slot is not None})
    arrays = [as_variable(output).data for output in outputs]
    return [
        without_past(array) if slot is None else recorded(array, node, slot)
        for array, slot in zip(arrays, slots, strict=True)
    ]


def _edge(argument: Any) -> Edge | None:
    return argument.edge if isinstance(argument, TapeValue) else None


class CustomNode(TapeNode):
    """The node of a TapeFunction's call. `outputs` are the slots of its outputs, None for those without gradient."""

    __slots__ = ("_ctx", "_function", "_outputs")
    takes_undefined = True

    def __init__(
        self,
        function: type[TapeFunction],
        ctx: Context,
        edges: Sequence[Edge | None],
        metadata: Sequence[Metadata],
        outputs: Sequence[int | None],
    ) -> None:
        super().__init__(function.__name__, edges, metadata)
        self._function = function
        self._ctx = ctx
        self._outputs = outputs

    def backward(self, gradients: list[GradientValue], create_graph: bool, keeps: bool) -> Sequence[GradientValue]:
        given = [self._given(slot, gradients) for slot in self._outputs]
        results = gradients_of(self._function, self._ctx, given, len(self.edges))
        return [_taken(gradient, create_graph) for gradient in results]

    def _given(self, slot: int | None, gradients: list[GradientValue]) -> TapeValue | None:
        gradient = None if slot is None else gradients[slot]
        if gradient is None and slot is not None and self._ctx.materialize_grads:
            gradient = self.metadata[slot].zeros()
        return None if gradient is None else as_variable(gradient)

    def release(self) -> None:
        self._ctx.release()


def _taken(gradient: Any, create_graph: bool) -> GradientValue:
    if gradient is None:
        return None
    variable = as_variable(gradient)
    return variable if create_graph else variable.data
