"""gs.vjp, gs.grad and gs.value_and_grad: functions made of the derivatives of functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import RLock
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from ...compiler.autodiff.differentiable import differentiable_graph
from ...compiler.autodiff.flatten import leaves, rebuilt
from ...compiler.autodiff.gradient import residuals_of
from ...compiler.autodiff.joint import gradient_graph
from ...compiler.autodiff.reach import require_reach
from ...compiler.functionalize.unrecorded import carries_gradients
from ...compiler.ir.graph import Callee
from ...compiler.recompute import Policy
from ...compiler.recompute import policy as as_policy
from ...compiler.types.schema import Argument, FunctionSchema
from ...compiler.types.types import ListType, OptionalType, TupleType, Type, is_differentiable, is_tensor
from ...lang.diagnostics import counted
from ...lang.light_dataclasses import replace
from ..execution.derivatives import Derivatives, derivatives_of
from ..execution.differentiated import Differentiated
from ..execution.function_executor import FORGETTING
from ..failures.failure import RuntimeFailure
from ..settings.modes import runs_c
from ..values.arrays import FromArray, any_on_device, maker_of, to_user
from ..values.given import flag, items
from ..values.unsuitable import Unsuitable
from .donated import DonatingGradient
from .function import Function
from .rematerialized import RematerializedGradient

if TYPE_CHECKING:
    from ..kernels.c.derivatives import CDifferentiated
    from ..torch.values import RecordedFunction

_DERIVED: WeakSet[Function] = WeakSet()
"""The functions of which gradients have been made, which stay with them: a loop may ask for `gs.grad(f)` each time."""
_MAKING = RLock()
Pullback = Callable[..., tuple[Any, ...]]


def vjp(
    function: Function,
    /,
    *args: Any,
    policy: Policy | str | int | None = None,
    donate_argnums: int | Sequence[int] = (),
    **kwargs: Any,
) -> tuple[Any, Pullback]:
    """The output of a function, and the map from gradients of the output to gradients of the arguments.

    `pullback(grad_out)` takes what the output is: an array, a tuple of them for several outputs, a list for a
    List[Tensor]; None anywhere for "no gradient". It returns a tuple with one gradient per argument that was given, in
    the order of the parameters, in the argument's shape and dtype: an array, a list for a List[Tensor], None for one
    that is no floating tensor or that the output does not depend on. It may be called again. Arguments are kept, not
    copied: what is written into one meanwhile is what the pullback finds, as with `torch.func.vjp`.

    `policy` says what the pullback computes again instead of keeping it: "min_cut", "mirror", "recompute_all",
    "save_all" or a number of bytes to keep; op by op results are the same to the bit, in kernels
    up to the order of sums. What a policy compiles is for the shapes
    of these arguments; None keeps everything, for arguments of any shape.

    On tensors of a GPU, kernels decide what is computed again, and there is no policy.

    `donate_argnums` names arguments, by position, that the caller uses no more: their gradients lie in their memory
    where kernels in C run, and the pullback is called once. Refused (RuntimeFailure R002) where one is still used: a
    result, another argument or another step of the backward lies there or reads it. Op by op nothing is donated.

    Raises RuntimeFailure for data that does not fit, and (R003) where no gradient flows through an argument on which
    the output depends, such as a list of tuples; CompileError (E408) where an op has no gradient and (E410) where a
    budget is less than must be kept, ValueError for an unknown policy.
    """
    _check_function(function, "gs.vjp")
    donated = [_position(function, number) for number in _numbers(donate_argnums)]
    if donated and policy is not None:
        raise ValueError("policy and donate_argnums do not go together")
    if function.gradient_calls and policy is None and not kwargs and not donated and runs_c():
        found: tuple[Any, Pullback] | None = function.gradient_calls(*args)
        if found is not None:
            return found
    derivatives = derivatives_of(function)
    chosen = None if policy is None else as_policy(policy)
    differentiated: Differentiated | RecordedFunction | CDifferentiated
    if any_on_device([*args, *kwargs.values()]):
        differentiated, values = _on_device(function, args, kwargs, chosen, donated)
    else:
        values = function.bind(args, kwargs)
        differentiated = _differentiated(function, derivatives, values, chosen, donated)
    _require_gradients(function, values)
    flat = leaves(values, derivatives.input_types)
    parameters = enumerate(function.schema.arguments)
    given_arguments = [i for i, parameter in parameters if i < len(args) or parameter.name in kwargs]
    outputs, residuals = differentiated.run(flat)
    make = maker_of([*args, *kwargs.values()])
    pullback = _pullback(function, derivatives, differentiated, (flat, outputs, residuals), given_arguments, make)
    if make is None and not kwargs and not donated and not isinstance(differentiated, Differentiated):
        _keep_by_kernels(function, derivatives, differentiated, (values, len(args)))
    results = [to_user(output, make) for output in rebuilt(iter(outputs), derivatives.output_types)]
    return (results[0] if len(results) == 1 else tuple(results)), pullback


def _require_gradients(function: Function, values: Sequence[Any]) -> None:
    """RuntimeFailure where the output depends on an argument that holds tensors and through which no gradient flows."""
    for argument, given, value in zip(function.schema.arguments, function.graph.inputs, values, strict=True):
        if value is not None and given.use_count and not carries_gradients(argument.type):
            message = f"argument '{argument.name}': no gradient flows through a {argument.type}"
            note = "pass tensors, lists of them, or tuples of both; or ask `gs.grad` for the others by `argnums`"
            raise RuntimeFailure("R003", function.title, message, span=function.graph.span, notes=[note])


def _pullback(
    function: Function,
    derivatives: Derivatives,
    differentiated: Differentiated | RecordedFunction | CDifferentiated,
    run: tuple[Sequence[Any], Sequence[Any], Sequence[Any]],
    given_arguments: Sequence[int],
    make: FromArray | None,
) -> Pullback:
    """The pullback of a forward that ran on values and gave outputs and residuals."""
    flat, outputs, residuals = run

    def pullback(*cotangents: Any, **named: Any) -> tuple[Any, ...]:
        if named:
            raise _bad_cotangent(function, f"a gradient has no name, such as '{next(iter(named))}'", None)
        given = leaves(_by_output(function, derivatives.output_types, cotangents), derivatives.output_types)
        pairs = enumerate(zip(outputs, given, strict=True))
        seeds = [_seed(function, differentiated, i, output, g) for i, (output, g) in pairs]
        gradients = iter(differentiated.pull_back(flat, seeds, residuals))
        found = rebuilt(gradients, derivatives.input_types)
        make_gradient = make or maker_of(cotangents)
        return tuple([to_user(found[i], make_gradient) for i in given_arguments])

    return pullback


def _differentiated(
    function: Function, derivatives: Derivatives, values: Sequence[Any], policy: Policy | None, donated: Sequence[int]
) -> Differentiated | CDifferentiated:
    if policy is not None:
        return derivatives.rematerialize(values, policy)[0]
    by_kernels = _by_kernels(function, derivatives, values, donated) if runs_c() else None
    return by_kernels or derivatives.differentiate(values)


def _by_kernels(
    function: Function, derivatives: Derivatives, values: Sequence[Any], donated: Sequence[int]
) -> CDifferentiated | None:
    """The gradient by kernels in C, where there are any."""
    from ..kernels.c.derivatives import CDifferentiated, c_derivatives_of

    pair = c_derivatives_of(function).pair(values)
    if pair is None or not donated:
        return None if pair is None else CDifferentiated(pair, lambda: derivatives.differentiate(values))
    from ..kernels.c.donation import donating_pair

    return donating_pair(pair, function.graph, values, donated, lambda: derivatives.differentiate(values))


def _keep_by_kernels(
    function: Function,
    derivatives: Derivatives,
    differentiated: RecordedFunction | CDifferentiated,
    call: tuple[Sequence[Any], int],
) -> None:
    """Have calls on arrays like these, which came before, go straight to their kernels."""
    from ..kernels.c.derivatives import CDifferentiated
    from ..kernels.c.entry import new_calls
    from ..kernels.c.pair import CPair, pair_of

    if not isinstance(differentiated, CDifferentiated):
        return
    pair = differentiated.pair
    if not isinstance(pair, CPair) or pair.settled or not all(map(is_tensor, derivatives.output_types)):
        return
    values, given = call
    if len(values) != len(derivatives.input_types) or not pair.forward.meets_again():
        return
    if not differentiated.gives_all(values, pair.usual_seeds()):
        return
    count, arguments = pair.places.num_real_outputs, len(values)

    def general(known: tuple[Any, ...]) -> Pullback:
        values, results = known[:arguments], known[arguments:]
        again = CDifferentiated(pair, lambda: derivatives.differentiate(values))
        run = (values, results[:count], residuals_of(pair.places, values, results))
        return _pullback(function, derivatives, again, run, range(given), None)

    made = pair_of(pair, values, given, general)
    if made is not None:
        function.gradient_calls = function.gradient_calls if function.gradient_calls is not None else new_calls()
        function.gradient_calls.add(made)


def _on_device(
    function: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any], policy: Policy | None, donated: Sequence[int]
) -> tuple[RecordedFunction, list[Any]]:
    if donated:
        message = "torch records what is on a device: gs.vjp donates arrays and tensors of the CPU"
        note = "gs.grad and gs.value_and_grad donate there"
        raise RuntimeFailure("R003", function.title, message, span=function.graph.span, notes=[note])
    if policy is not None:
        message = "a policy of recomputation is for arrays and tensors on the CPU"
        note = "leave it out: what kernels compute again costs them no memory traffic; see `f.kernels(…).saved_bytes`"
        raise RuntimeFailure("R003", function.title, message, span=function.graph.span, notes=[note])
    return function.on_device, function.on_device.bind(args, kwargs)


def grad(
    function: Function,
    argnums: int | Sequence[int] = 0,
    *,
    policy: Policy | str | int | None = None,
    allow_unused: bool = False,
    donate_argnums: int | Sequence[int] = (),
) -> Function:
    """A Function of the same parameters that returns the gradient of `function`, whose output is one number.

    `argnums` says for which parameters, by position; a sequence gives a tuple of gradients. Differentiates again:
    `gs.grad(gs.grad(f))`. With a `policy`, as of `vjp`, calls on arrays run forward and backward apart, compiled for
    the shapes of the arguments.

    Raises CompileError (E409) for a parameter that does not reach the output; with `allow_unused` its gradient is one
    of zeros, as is that of a parameter through which no gradient comes back.

    `donate_argnums`, as of `vjp` and on devices too: of the parameters in `argnums`, those whose gradients lie in the
    memory of the arguments.
    """
    return _derived(function, argnums, policy, allow_unused, donate_argnums, with_value=False)


def value_and_grad(
    function: Function,
    argnums: int | Sequence[int] = 0,
    *,
    policy: Policy | str | int | None = None,
    allow_unused: bool = False,
    donate_argnums: int | Sequence[int] = (),
) -> Function:
    """As `grad`, but the Function returns the pair (value, gradient)."""
    return _derived(function, argnums, policy, allow_unused, donate_argnums, with_value=True)


def _derived(
    function: Function,
    argnums: int | Sequence[int],
    policy: Policy | str | int | None,
    allow_unused: bool,
    donate_argnums: int | Sequence[int],
    *,
    with_value: bool,
) -> Function:
    _check_function(function, "gs.value_and_grad" if with_value else "gs.grad")
    allow_unused = flag(allow_unused, "allow_unused")
    as_tuple = not isinstance(argnums, int)
    wrt = _numbers(argnums)
    positions = [_position(function, number) for number in wrt]
    chosen = None if policy is None else as_policy(policy)
    donated = tuple([_position(function, number) for number in _numbers(donate_argnums)])
    if donated and chosen is not None:
        raise ValueError("policy and donate_argnums do not go together")
    if not set(donated) <= set(positions):
        raise ValueError("donate_argnums are some of argnums: it is their gradients that lie in their memory")
    key = (with_value, as_tuple, *positions, chosen, allow_unused, donated)
    with _MAKING:
        if function.derived is None:
            function.derived = {}
            _DERIVED.add(function)
        found = function.derived.get(key)
        if found is None:
            found = _made(function, positions, chosen, allow_unused, with_value, as_tuple)
            if donated:
                places = {i: positions.index(i) + with_value for i in donated}
                found = DonatingGradient(found.callee, places)
            function.derived[key] = found
    return found


def _forget() -> None:
    with _MAKING:
        for function in list(_DERIVED):
            function.derived = None
        _DERIVED.clear()


FORGETTING.add(_forget)


def _made(
    function: Function,
    positions: list[int],
    chosen: Policy | None,
    allow_unused: bool,
    with_value: bool,
    as_tuple: bool,
) -> Function:
    returns = function.schema.returns
    if len(returns) != 1 or not is_differentiable(returns[0].type):
        kinds = ", ".join(str(r.type) for r in returns)
        raise ValueError(f"a gradient is taken of one Tensor; '{function.title}' returns {kinds}: use gs.vjp")
    name = f"{'value_and_grad' if with_value else 'grad'}_{function.name}"
    source = differentiable_graph(function.callee)
    if not allow_unused:
        require_reach(source, positions)
    graph = gradient_graph(
        source,
        positions,
        with_value=with_value,
        as_tuple=as_tuple,
        name=name,
    )
    results = tuple(Argument(f"result{i}", value.type) for i, value in enumerate(graph.outputs))
    arguments = [
        replace(argument, has_gradient=True) if i in positions else argument
        for i, argument in enumerate(function.schema.arguments)
    ]
    schema = FunctionSchema(name, "", tuple(arguments), results)
    callee = Callee(schema, graph)
    if chosen is None:
        return Function(callee)
    return RematerializedGradient(callee, function, positions, chosen, with_value=with_value, as_tuple=as_tuple)


def _numbers(argnums: Any) -> list[int]:
    if isinstance(argnums, int):
        return [argnums]
    return items(argnums, "argnums is an int or a sequence of them")


def _position(function: Function, number: Any) -> int:
    arguments = function.schema.arguments
    if not isinstance(number, int) or isinstance(number, bool) or not -len(arguments) <= number < len(arguments):
        raise ValueError(f"'{function.title}' has {len(arguments)} parameters; there is no argnum {number!r}")
    argument = arguments[number]
    if not is_differentiable(argument.type):
        message = f"parameter '{argument.name}' of '{function.title}' is {argument.type}: it has no gradient"
        holds = isinstance(argument.type, ListType | TupleType | OptionalType)
        advice = f"declare it a Tensor and pass `{argument.name}.astype(float)`"
        advice = "pass its tensors as tensors, or as lists of them" if holds else advice
        raise ValueError(f"{message}; {advice}, or leave it out of argnums")
    return number % len(arguments)


def _check_function(function: object, what: str) -> None:
    if not isinstance(function, Function):
        raise TypeError(f"{what} takes a Function of a CompilationUnit, not {type(function).__name__}")


def _by_output(function: Function, types: Sequence[Type], given: tuple[Any, ...]) -> tuple[Any, ...]:
    """One cotangent per output, in the outputs' nesting."""
    if len(given) == 1 and len(types) > 1:
        # The output is a tuple, and so is its cotangent; a single None stands for no gradient at all.
        given = tuple(given[0]) if isinstance(given[0], tuple | list) else given
    if len(given) == 1 and given[0] is None:
        given = (None,) * len(types)
    pending = list(zip(given, types, strict=False))
    if len(given) != len(types):
        raise _bad_cotangent(function, f"{counted(len(given), 'gradient')} for {counted(len(types), 'output')}", None)
    while pending:
        value, type = pending.pop()
        if isinstance(type, TupleType) and value is not None:
            if not isinstance(value, tuple | list) or len(value) != len(type.elements):
                raise _bad_cotangent(function, f"an output is a tuple of {len(type.elements)}", None)
            pending += zip(value, type.elements, strict=True)
    return given


def _seed(
    function: Function,
    differentiated: Differentiated | RecordedFunction | CDifferentiated,
    index: int,
    output: Any,
    given: Any,
) -> Any:
    if given is None or not differentiated.can_have_gradient(output):
        return None
    if isinstance(output, list):
        if not isinstance(given, list | tuple) or len(given) != len(output):
            raise _bad_cotangent(function, f"output {index} is a list of {len(output)} tensors", index)
        seeds = [_seed(function, differentiated, index, o, g) for o, g in zip(output, given, strict=True)]
        return [o * 0 if s is None else s for o, s in zip(output, seeds, strict=True)]
    try:
        seed = differentiated.seed(given, output)
    except Unsuitable as error:
        raise _bad_cotangent(function, f"the gradient of output {index}: {error.message}", index) from None
    if seed.shape != output.shape:
        message = f"the gradient of output {index} has shape {list(seed.shape)}, the output {list(output.shape)}"
        raise _bad_cotangent(function, message, index)
    return seed


def _bad_cotangent(function: Function, message: str, index: int | None) -> RuntimeFailure:
    argument = None if index is None else f"grad_output{index}"
    note = "pass one gradient per output, by position, each of the output's shape; None stands for no gradient"
    return RuntimeFailure(
        "R002", f"the pullback of {function.title}", message, argument=argument, span=function.graph.span, notes=[note]
    )
