"""Every road that a call can take, each holding what it gives to torch's answer.

A road raises Mismatch for another number; what else it raises is a failure too, whatever its type.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import gradscript as gs
import numpy as np
import torch
from derived_road import derived_unit
from eager import Outcome, gradients
from fuzzed_program import Call, leaves
from gradscript.compiler.autodiff.differentiable import differentiable_graph
from gradscript.compiler.passes.inline_functions import inline_functions
from gradscript.runtime.plans.build import build_plan
from gradscript.runtime.plans.interpreter import run_plan
from subject import LOSS, Mismatch, Subject, cotangents
from transform_roads import batched, forward_mode

Road = Callable[[Subject], None]
POLICIES = ("save_all", "mirror", "min_cut", "recompute_all", "budget=24")


def values(subject: Subject, function: Any, which: int = 0, what: str = "value") -> None:
    """One call on arrays."""
    _, args, kwargs = subject.calls[which].wrap(lambda array: array)
    subject.check_value(function(*args, **kwargs), subject.expected(which, 0), what)


# --- calls ---


def first_call(subject: Subject) -> None:
    values(subject, subject.f)


def cached_call(subject: Subject) -> None:
    for what in ("first call", "second call", "third call"):
        values(subject, subject.f, what=what)


def second_kind(subject: Subject) -> None:
    """Arguments of other sizes or ranks, and the first ones again."""
    for which in (*range(len(subject.calls)), 0):
        values(subject, subject.f, which, f"call {which}")


def by_name(subject: Subject) -> None:
    """Every argument by its name, in another order."""
    _, args, kwargs = subject.calls[0].wrap(lambda array: array)
    names = [argument.name for argument in subject.f.schema.arguments]
    named = {**dict(zip(names, args, strict=False)), **kwargs}
    value = subject.f(**dict(reversed(named.items())))
    subject.check_value(value, subject.expected(0, 0))


def profiled(subject: Subject) -> None:
    with gs.settings.profiling(True):
        for round in range(4):
            values(subject, subject.f, what=f"round {round}")
        for which in (*range(1, len(subject.calls)), 0):
            values(subject, subject.f, which, f"call {which} after the profile")


def left_in_the_middle(subject: Subject) -> None:
    """Plans made for what ops gave for some numbers, left where they give something else for others."""
    other = subject.with_other_numbers()
    with gs.settings.profiling(True):
        for round, which in enumerate([*[subject] * 4, *[other] * 5, subject, other]):
            values(which, subject.f, what=f"round {round}")
            pull_back(which, subject.f, what=f"vjp of round {round}")


def not_optimized(subject: Subject) -> None:
    with gs.settings.optimize(False):
        values(subject, subject.f)


def single_precision(subject: Subject) -> None:
    """float32 all through: what it computes is rounded, the dtypes are torch's."""
    call = subject.calls[0]
    expected = subject.eager.run(call, 0, torch.float32)
    _, args, kwargs = call.wrap(lambda array: array.astype(np.float32))
    found = leaves(subject.f(*args, **kwargs))
    for ours, theirs in zip(found, expected.leaves, strict=True):
        if isinstance(theirs, torch.Tensor) and ours.dtype != theirs.numpy().dtype:
            raise Mismatch(f"float32: dtype {ours.dtype} where torch has {theirs.dtype}")


# --- gradients of arrays ---


def pull_back(
    subject: Subject,
    function: Any,
    which: int = 0,
    *,
    policy: Any = None,
    what: str = "vjp",
    by_name: bool = True,
) -> None:
    """`gs.vjp` of the function, from the slopes of its results."""
    expected = subject.expected(which, 1)
    _, args, kwargs = subject.calls[which].wrap(lambda array: array)
    kwargs = kwargs if by_name else {}
    value, pullback = gs.vjp(function, *args, **kwargs, policy=policy)
    subject.check_value(value, expected, f"{what}, value")
    if expected.first is None:
        return
    for round in ("gradient", "gradient again"):
        found = pullback(cotangents(expected.value))
        subject.check_gradients(given(subject, which, found), expected.first, f"{what}, {round}")


def given(subject: Subject, which: int, found: Any) -> list[Any]:
    """The gradients of the parameters that hold tensors, in the order of the arguments."""
    call = subject.calls[which]
    names = [argument.name for argument in subject.f.schema.arguments]
    order = [*range(len(call.args)), *(names.index(name) for name in call.kwargs)]
    values = [*call.args, *call.kwargs.values()]
    held: list[Any] = []
    # A pullback gives one gradient per argument that was given, the half of a pair one per parameter.
    if len(found) == len(order):
        order = [sorted(order).index(place) for place in order]
    for place, value in zip(order, values, strict=True):
        argument = Call((value,), {})
        held += spread(found[place], argument) if argument.shapes else []
    return held


def spread(gradient: Any, argument: Call) -> list[Any]:
    """The gradient of one argument as one per tensor in it."""
    count = len(argument.shapes)
    flat = leaves(gradient)
    return flat if len(flat) == count else [gradient] * count if gradient is None else flat[:count]


def vjp(subject: Subject) -> None:
    for which in range(len(subject.calls)):
        pull_back(subject, subject.f, which, what=f"vjp of call {which}")


def absent_cotangents(subject: Subject) -> None:
    """No gradient for one result after the other."""
    expected = subject.expected(0, 0)
    if not isinstance(expected.value, tuple) or expected.failure is not None:
        return
    tensors, args, kwargs = subject.calls[0].wrap(lambda array: torch.tensor(array, requires_grad=True))
    _, ours, ours_by_name = subject.calls[0].wrap(lambda array: array)
    _, pullback = gs.vjp(subject.f, *ours, **ours_by_name)
    for i in range(len(expected.value)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = subject.eager.f(*args, **kwargs)
            first, _ = gradients([r for j, r in enumerate(value) if j != i], tensors, 1)
        start = cotangents(expected.value)
        found = pullback(tuple(None if j == i else slope for j, slope in enumerate(start)))
        subject.check_gradients(given(subject, 0, found), first, f"vjp without result {i}")


def policy_road(policy: str) -> Road:
    def road(subject: Subject) -> None:
        pull_back(subject, subject.f, policy=policy, what=policy)

    return road


def equal_policies(subject: Subject) -> None:
    """What is computed again is what was there: op by op every policy gives the same gradients, to the bit."""
    call, places = subject.calls[0], subject.differentiable(subject.calls[0])
    if subject.expected(0, 1).first is None or not places:
        return
    _, args, kwargs = call.wrap(lambda array: array)
    with gs.settings.backend("numpy"):
        found = {p: gs.grad(subject.loss, places, allow_unused=True, policy=p)(*args, **kwargs) for p in POLICIES}
    bits = {policy: [g.tobytes() for g in leaves(list(gradients))] for policy, gradients in found.items()}
    different = [policy for policy in POLICIES if bits[policy] != bits[POLICIES[0]]]
    if different:
        raise Mismatch(f"{', '.join(different)} and {POLICIES[0]} differ in their bits")


def grad(subject: Subject) -> None:
    _grad(subject, 0)


def grad_of_second_kind(subject: Subject) -> None:
    _grad(subject, len(subject.calls) - 1)


def grad_of_every_kind(subject: Subject) -> None:
    """Derived functions kept: what the first kind of arguments left behind meets the others, and the first again."""
    derived: dict[tuple[int, ...], Any] = {}
    for which in (*range(len(subject.calls)), 0):
        _grad(subject, which, derived)


def _grad(subject: Subject, which: int, derived: dict[tuple[int, ...], Any] | None = None) -> None:
    call = subject.calls[which]
    expected = subject.expected(which, 1)
    places = subject.differentiable(call)
    if expected.first is None or not places:
        return
    _, args, kwargs = call.wrap(lambda array: array)
    derived = {} if derived is None else derived
    function = derived.setdefault(tuple(places), gs.grad(subject.loss, places, allow_unused=True))
    found = function(*args, **kwargs)
    subject.check_gradients(in_call_order(subject, call, places, found), expected.first, f"grad of call {which}")


def in_call_order(subject: Subject, call: Call, places: list[int], found: Any) -> list[Any]:
    """Gradients by parameter, as gradients by argument."""
    names = [argument.name for argument in subject.f.schema.arguments]
    by_place = dict(zip(places, found, strict=True))
    order = [*range(len(call.args)), *(names.index(name) for name in call.kwargs)]
    return leaves([by_place[place] for place in order if place in by_place])


def value_and_grad(subject: Subject) -> None:
    call = subject.calls[0]
    expected, places = subject.expected(0, 1), subject.differentiable(call)
    if expected.first is None or not places:
        return
    _, args, kwargs = call.wrap(lambda array: array)
    value, found = gs.value_and_grad(subject.loss, places, allow_unused=True)(*args, **kwargs)
    total = sum(float((r * torch.cos(r)).sum()) for r in expected.leaves if isinstance(r, torch.Tensor))
    if all(not isinstance(r, torch.Tensor) or r.is_floating_point() for r in expected.leaves):
        subject.check_value(value, Outcome(torch.tensor(total, dtype=torch.float64)), "value beside the gradient")
    subject.check_gradients(in_call_order(subject, call, places, found), expected.first, "gradient beside the value")


def second_order(subject: Subject) -> None:
    """`gs.vjp` of what `gs.grad` made."""
    _second_order(subject, None)


def second_order_recomputed(subject: Subject) -> None:
    """Under one policy, which the text decides."""
    _second_order(subject, POLICIES[len(subject.program.source) % len(POLICIES)])


def _second_order(subject: Subject, policy: str | None) -> None:
    call = subject.calls[0]
    expected, places = subject.expected(0, 2), subject.differentiable(call)
    if expected.first is None or expected.second is None or not places:
        return
    _, args, kwargs = call.wrap(lambda array: array)
    derived = gs.grad(subject.loss, places, allow_unused=True)
    value, pullback = gs.vjp(derived, *args, **kwargs, policy=policy)
    what = f"second order under {policy}" if policy else "second order"
    subject.check_gradients(in_call_order(subject, call, places, value), expected.first, f"{what}, first gradient")
    start = cotangents(_tensors(value))
    subject.check_gradients(given(subject, 0, pullback(start)), expected.second, what)


def _tensors(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)([_tensors(item) for item in value])
    return torch.from_numpy(np.array(value))


# --- the halves of a pair ---


def halves(subject: Subject) -> None:
    """Forward and backward by hand, on arrays."""
    if subject.f.pair is None:
        return
    expected = subject.expected(0, 1)
    _, args, kwargs = subject.calls[0].wrap(lambda array: array)
    value, context = subject.f.forward(*args, **kwargs)
    subject.check_value(value, expected, "forward half")
    if expected.first is None:
        return
    start = cotangents(expected.value)
    found = subject.f.backward(context, *(start if isinstance(start, tuple) else (start,)))
    subject.check_gradients(given(subject, 0, found), expected.first, "backward half")


# --- tracing ---


def traced(subject: Subject) -> None:
    """A trace of a call of the function: it is put in whole. What has no place in examples takes none."""
    call = subject.calls[0]
    _, args, kwargs = call.wrap(lambda array: array)
    if Call((), call.kwargs).shapes or any(
        arg is None or isinstance(arg, str) or arg == [] for arg in args if not isinstance(arg, np.ndarray)
    ):
        return
    function = gs.trace(lambda *given: subject.f(*given, **kwargs), *args, check=False)
    subject.check_value(function(*args), subject.expected(0, 0), "trace")
    pull_back(subject, function, what="vjp of the trace", by_name=False)


# --- tapes ---


def tape(subject: Subject) -> None:
    for order in (1, 2):
        _tape(subject, order)


def _tape(subject: Subject, order: int) -> None:
    expected = subject.expected(0, 2)
    variables, args, kwargs = subject.calls[0].wrap(lambda array: gs.tape.Variable(array, requires_grad=True))
    value = subject.f(*args, **kwargs)
    subject.check_value(_plain(value), expected, "tape, value")
    total = _weighed_variables(leaves(value))
    if expected.first is None or total is None:
        return
    first = gs.tape.grad(total, variables, create_graph=order == 2, allow_unused=True)
    subject.check_gradients(first, expected.first, "tape, gradient")
    total = _weighed_variables(first)
    if order == 1 or expected.second is None or total is None:
        return
    second = gs.tape.grad(total, variables, allow_unused=True)
    subject.check_gradients(second, expected.second, "tape, second gradient")


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)([_plain(item) for item in value])
    return value.data if isinstance(value, gs.tape.Variable) else value


def _weighed_variables(results: Any) -> Any:
    total: Any = None
    for result in results:
        if isinstance(result, gs.tape.Variable) and result.requires_grad:
            term = (result * result.cos()).sum()
            total = term if total is None else total + term
    return total


def sliced_tape(subject: Subject) -> None:
    """With what can be differentiated sliced out, down to groups of one."""
    with gs.settings.autodiff_debugging(True):
        _tape(subject, 1)


# --- torch tensors ---


def autograd(subject: Subject) -> None:
    for which in range(len(subject.calls)):
        for what in ("call", "call again"):
            order = 2 if what == "call" and not which else 1
            _autograd(subject, which, [True] * len(subject.calls[which].shapes), f"{what} {which}", order)


def one_by_one(subject: Subject) -> None:
    """Tensors of which only one requires a gradient."""
    count = len(subject.calls[0].shapes)
    for place in range(count):
        _autograd(subject, 0, [i == place for i in range(count)], f"gradient for tensor {place} alone")


def _autograd(
    subject: Subject, which: int, mask: list[bool], what: str, order: int = 2, *, function: Any = None
) -> None:
    call = subject.calls[which]
    flags = iter(mask)
    tensors, args, kwargs = call.wrap(lambda array: torch.tensor(array, requires_grad=next(flags)))
    expected = subject.expected(which, order if all(mask) else 0)
    wanted = [tensor for tensor in tensors if tensor.requires_grad]
    value = (function or subject.f)(*args, **kwargs)
    subject.check_value(_detached(value), expected, f"tensors, {what}")
    if all(mask):
        first, second = expected.first, expected.second
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            first, second = gradients(subject.eager.f(*args, **kwargs), wanted, order)
    if first is None or not wanted:
        return
    if order == 2 and second is None:
        order = 1
    found = gradients(value, wanted, order)
    for ours, theirs, name in zip(found, (first, second), ("gradient", "second gradient"), strict=True):
        if theirs is None or (name == "second gradient" and order == 1):
            continue
        if ours is None:
            raise Mismatch(f"tensors, {what}: autograd refuses the {name}")
        subject.check_gradients(ours, theirs, f"tensors, {what}, {name}")


def _detached(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)([_detached(item) for item in value])
    return value.detach().numpy() if isinstance(value, torch.Tensor) else value


def kernels(subject: Subject) -> None:
    """On a device with kernels, run by the meaning of their IR."""
    import pytest
    from kernel_device import kernel_device

    with kernel_device(pytest.MonkeyPatch()):
        _autograd(subject, 0, [True] * len(subject.calls[0].shapes), "kernels")
        last = len(subject.calls) - 1
        if last:
            _autograd(subject, last, [True] * len(subject.calls[last].shapes), "kernels, second kind", 1)


# --- kernels in C ---


def c_kernels(subject: Subject) -> None:
    """Everything that fused kernels in C run: values of every kind of arguments, gradients, halves, torch tensors."""
    with gs.settings.backend("c"), warnings.catch_warnings():
        warnings.filterwarnings("error", message="kernels in C")
        for which in range(len(subject.calls)):
            for what in ("call", "call again"):
                values(subject, subject.f, which, f"C, {what} {which}")
            pull_back(subject, subject.f, which, what=f"C, vjp of call {which}")
        _grad(subject, 0)
        halves(subject)
        for which, call in enumerate(subject.calls):
            # What the third call finds was made by those before it.
            for order, what in ((1, "call"), (1, "call again"), (2 if which == 0 else 1, "third call")):
                _autograd(subject, which, [True] * len(call.shapes), f"C, {what} {which}", order)


# --- texts ---


def ir_text(subject: Subject) -> None:
    """The graph with its calls put in, printed, read and run."""
    graph = differentiable_graph(subject.f.callee).copy()
    while inline_functions(graph):
        pass
    text = str(graph)
    again = gs.parse_ir(text)
    if str(again) != text:
        raise Mismatch(f"the IR prints as\n{text}\nand read again as\n{again}")
    call = subject.calls[0]
    _, args, kwargs = call.wrap(lambda array: array)
    expected = subject.expected(0, 0)
    found = run_plan(build_plan(again), subject.f.bind(args, kwargs))
    subject.check_value(found[0] if len(found) == 1 else tuple(found), expected, "IR read again")


def code(subject: Subject) -> None:
    """The unit's source as it prints, compiled: it prints the same, gives the same, and so do its gradients."""
    text = subject.unit.code
    unit = gs.CompilationUnit(text)
    if unit.code != text:
        raise Mismatch(f"the code\n{text}\nprints, compiled, as\n{unit.code}")
    values(subject, unit["f"], what="code compiled again")
    pull_back(subject, unit["f"], what="code compiled again")


def lifted_code(subject: Subject) -> None:
    """The text of every pair compiles to itself, and its functions give what the halves give."""
    for function in subject.unit.functions.values():
        if function.pair is not None:
            text = function.pair.code
            again = gs.CompilationUnit(text).code
            if again != text:
                raise Mismatch(f"the pair of '{function.name}'\n{text}\nprints, compiled, as\n{again}")


def gradient_code(subject: Subject) -> None:
    """What `gs.grad` made, as source: it compiles to the same text, and gives the same."""
    call = subject.calls[0]
    expected, places = subject.expected(0, 1), subject.differentiable(call)
    if expected.first is None or not places:
        return
    derived = gs.grad(subject.loss, places, allow_unused=True)
    again = compiled_again(derived.code, "the gradient")[derived.name]
    _, args, kwargs = call.wrap(lambda array: array)
    found = again(*args, **kwargs)
    subject.check_gradients(in_call_order(subject, call, places, found), expected.first, "gradient compiled again")


def derived_halves(subject: Subject) -> None:
    """The number that is differentiated, lifted: both halves compile to the same text, and give the same."""
    call = subject.calls[0]
    expected, places = subject.expected(0, 1), subject.differentiable(call)
    if expected.first is None or not places:
        return
    try:
        text = subject.loss.show("lifted")
    except ValueError:
        return
    unit = compiled_again(text, "the halves")
    _, args, kwargs = call.wrap(lambda array: array)
    *_, context = unit[LOSS](*args, **kwargs)
    found = unit["backward"](context, np.ones(()))
    found = found if isinstance(found, tuple) else (found,)
    subject.check_gradients(given(subject, 0, found), expected.first, "halves compiled again")


def compiled_again(text: str, what: str) -> gs.CompilationUnit:
    """The unit of a text, which prints as it."""
    unit = gs.CompilationUnit(text)
    if unit.code != text:
        raise Mismatch(f"{what}\n{text}\nprints, compiled, as\n{unit.code}")
    return unit


def written_backwards(subject: Subject) -> None:
    """The program with backwards that `gs.derive` wrote."""
    derived = derived_unit(subject)["f"]
    for which in range(len(subject.calls)):
        values(subject, derived, which, f"derived source, call {which}")
        pull_back(subject, derived, which, what=f"derived source, vjp of call {which}")


def written_second_order(subject: Subject) -> None:
    """The program with backwards in its backwards, all of them derived: values, and derivatives to second order."""
    derived = derived_unit(subject, 2)["f"]
    for which in range(len(subject.calls)):
        values(subject, derived, which, f"derived to order 2, call {which}")
    pull_back(subject, derived, what="derived to order 2, vjp")
    _autograd(subject, 0, [True] * len(subject.calls[0].shapes), "derived to order 2", function=derived)


def stages(subject: Subject) -> None:
    """Every stage can be shown, or says why not."""
    for function in subject.unit.functions.values():
        for stage in function.stages:
            try:
                function.show(stage)
            except (ValueError, gs.CompileError):
                continue


ROADS: dict[str, Road] = {
    "first call": first_call,
    "cached call": cached_call,
    "second kind": second_kind,
    "by name": by_name,
    "profiled": profiled,
    "left in the middle": left_in_the_middle,
    "not optimized": not_optimized,
    "single precision": single_precision,
    "vjp": vjp,
    "absent cotangents": absent_cotangents,
    **{policy: policy_road(policy) for policy in POLICIES},
    "equal policies": equal_policies,
    "grad": grad,
    "grad of second kind": grad_of_second_kind,
    "grad of every kind": grad_of_every_kind,
    "value and grad": value_and_grad,
    "second order": second_order,
    "second order recomputed": second_order_recomputed,
    "halves": halves,
    "traced": traced,
    "tape": tape,
    "sliced tape": sliced_tape,
    "autograd": autograd,
    "one by one": one_by_one,
    "kernels": kernels,
    "C kernels": c_kernels,
    "forward mode": forward_mode,
    "batched": batched,
    "IR text": ir_text,
    "code": code,
    "lifted code": lifted_code,
    "gradient code": gradient_code,
    "derived halves": derived_halves,
    "written backwards": written_backwards,
    "written second order": written_second_order,
    "stages": stages,
}
