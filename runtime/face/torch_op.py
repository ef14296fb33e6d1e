"""gs.torch_op: functions as ops of torch."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Mapping
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeAlias, overload

from ..values.torch_needed import require_torch
from .function import Function
from .units.script import script
from .units.unit import CompilationUnit

if TYPE_CHECKING:
    from ..torch.library.ops import RegisteredOp

DERIVE = "derive"
_REGISTERED: dict[str, TorchOp] = {}
_REGISTERING = RLock()


class TorchOp:
    """A function as an op of torch. Called, it is `torch.ops.ns.name`.

    `op`, `forward` and `backward` are the overloads, the last two None where nothing of the function has a gradient.
    """

    def __init__(self, function: Function, registered: RegisteredOp) -> None:
        self.function = function
        self.name = registered.name
        self.op = registered.op
        self.forward = registered.forward
        self.backward = registered.backward
        self._registered = registered
        self._packet = registered.packet
        self.__name__ = function.name
        self.__doc__ = function.__doc__

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._packet(*args, **kwargs)

    def decompositions(self) -> dict[Any, Callable[..., Any]]:
        """The three ops in terms of torch's own: `exported.run_decompositions({**op.decompositions()})`, for what has
        to run without Python."""
        return self._registered.decompositions()

    def __copy__(self) -> TorchOp:
        """Itself, as of functions: modules that hold one can be copied."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> TorchOp:
        return self

    def __repr__(self) -> str:
        return f"<TorchOp {self.op._schema}>"


OpSource: TypeAlias = "Function | CompilationUnit | Callable[..., Any]"


@overload
def torch_op(
    function: CompilationUnit, name: str, *, autocast: Any = None, sharding: str | None = DERIVE
) -> Mapping[str, TorchOp]: ...


@overload
def torch_op(
    function: Function | Callable[..., Any], name: str, *, autocast: Any = None, sharding: str | None = DERIVE
) -> TorchOp: ...


@overload
def torch_op(
    function: None = None, name: str = "", *, autocast: Any = None, sharding: str | None = DERIVE
) -> Callable[[Function | Callable[..., Any]], TorchOp]: ...


def torch_op(
    function: OpSource | None = None, name: str = "", *, autocast: Any = None, sharding: str | None = DERIVE
) -> Any:
    """Register a function with torch.library, as `ns::swiglu`, `ns::swiglu_forward` and `ns::swiglu_backward`.

        swiglu = gs.torch_op(cu.swiglu, "ns::swiglu")     torch.ops.ns.swiglu(x, g), or swiglu(x, g)
        ops = gs.torch_op(cu, "ns")                       every function of a unit: ops["swiglu"]

        @gs.torch_op(name="ns::double")                   a Python function, compiled as by gs.script
        def double(x):
            return x + x

    Such an op is one node for torch.compile, torch.export, profilers and policies of checkpoints, with shapes,
    gradients of any order, vmap and FLOPs of its own. `autocast` says in which dtype it computes under torch.autocast:
    None, as it is given; a dtype or "fp32"; "lower_precision_fp"; "promote". `sharding` "derive" gives DTensor the
    rules that follow from what is computed; None has it run by the rules of torch's ops. docs/torch.md tells the rest.

    CompileError (E411) where torch has no type for an argument or a result; ValueError for a name that is none or that
    is taken, TypeError for what is no function.
    """
    if isinstance(function, str) and not name:
        raise TypeError(f"the name goes by its name: `@gs.torch_op(name={function!r})`")
    if function is None:
        return lambda given: torch_op(given, name, autocast=autocast, sharding=sharding)
    require_torch("gs.torch_op")
    if sharding is not None and not (isinstance(sharding, str) and sharding == DERIVE):
        raise ValueError(f"sharding={sharding!r} is neither 'derive' nor None")
    if isinstance(function, CompilationUnit):
        return _register_unit(function, name, autocast, sharding)
    if not isinstance(function, Function):
        if not callable(function):
            raise TypeError(f"gs.torch_op takes a Function, a unit or a Python function, not {_described(function)}")
        function = script(function)
    namespace, separator, base = _text(name).partition("::")
    if not separator:
        raise ValueError(f"an op's name is 'namespace::name', not {name!r}: '{name or 'my'}::{function.name}', say")
    return _register(function, namespace, base, autocast, sharding)


def _register_unit(unit: CompilationUnit, namespace: str, autocast: Any, sharding: str | None) -> Mapping[str, TorchOp]:
    if "::" in _text(namespace):
        raise ValueError(f"the ops of a unit have its functions' names: pass the namespace alone, not {namespace!r}")
    _require_name(namespace, "namespace")
    for name in unit:
        _require_free(namespace, name)
    return {name: _register(unit[name], namespace, name, autocast, sharding) for name in unit}


def _register(function: Function, namespace: str, name: str, autocast: Any, sharding: str | None) -> TorchOp:
    from ..torch.library.ops import RegisteredOp
    from ..torch.library.policies import AutocastPolicy

    _require_name(namespace, "namespace")
    _require_name(name, "name")
    policy = AutocastPolicy.of(autocast)
    with _REGISTERING:
        _require_free(namespace, name)
        found = TorchOp(function, RegisteredOp(function, namespace, name, policy, sharding == DERIVE))
        _REGISTERED[found.name] = found
    return found


def _require_name(part: str, what: str) -> None:
    if not part.isidentifier() or keyword.iskeyword(part) or not part.isascii():
        raise ValueError(f"{part!r} is no {what} of an op: letters, digits and underscores, not a digit first")


def _require_free(namespace: str, name: str) -> None:
    import torch

    for suffix in ("", "_forward", "_backward"):
        taken = f"{namespace}::{name}{suffix}"
        if torch._C._dispatch_has_kernel(taken) or torch._C._jit_get_schemas_for_operator(taken):
            raise ValueError(
                f"there is an op '{taken}' already, and torch keeps it for as long as the process: choose another name"
            )


def _text(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"the name of an op is a str, not {_described(name)}")
    return name


def _described(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
