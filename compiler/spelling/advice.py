"""What to write instead of names that people bring from Python and from torch, by where the name stands."""

from __future__ import annotations

from collections.abc import Mapping

from .functions import FUNCTIONS_ONLY
from .in_place import IN_PLACE
from .names import METHOD_ATTRIBUTES, op_name

_CONVERT = "`gradscript convert FILE.py` turns a torch.autograd.Function into a function with a closure"
_CAPTURES = "a closure captures what it uses: write `def backward(grad_output):` inside, and `return y, backward`"
_DEVICE = "remove it: all stays on the device of the arguments; `x.to(y.device)` brings it to that of another"
_OUTSIDE = "do it in Python, around the call"
_GRADIENT = "gradients are taken from outside: `gs.grad(f)`, `gs.vjp(f, x)`, or torch's `backward()` of the result"
_PARAMETERS = "a module's tensors are arguments here: `def layer(x, weight, bias):`"
_LAYERS = "write the function: `F.linear(x, weight, bias)`, `F.relu(x)`; a module's tensors are arguments"
_RANDOM = "draw from torch, `torch.rand([])`; `gs.random.manual_seed(n)` seeds, from outside"

NAMES: Mapping[str, str] = {
    "null": "write `None`",
    "nil": "write `None`",
    "true": "write `True`",
    "false": "write `False`",
    "inf": "write `math.inf`",
    "nan": "write `math.nan`",
    "np": "write what torch calls it, `torch.sum(x)`; `np.newaxis` is `None`, `np.pi` is `math.pi`",
    "numpy": "write what torch calls it, `torch.sum(x)`; `numpy.newaxis` is `None`, `numpy.pi` is `math.pi`",
    "jnp": "write what torch calls it, `torch.sum(x)`",
    "type": "types are known before anything runs: annotate the parameter; for the kind of elements ask `x.dtype`",
    "dict": "take a tuple apart, or `class P(NamedTuple):` with fields",
    "set": "use a list, and `in`",
    "frozenset": "use a tuple, and `in`",
    "map": "write a list comprehension: `[f(x) for x in xs]`",
    "filter": "write a list comprehension: `[x for x in xs if …]`",
    "iter": "write `for x in xs:`",
    "next": "write `xs[0]`, or a loop",
    "slice": "write it in the subscript: `x[a:b]`",
    "getattr": "write the attribute: `x.shape`",
    "setattr": "values do not change: make a new one",
    "hasattr": "what a value has is known before anything runs: write the attribute, or annotate the parameter",
    "callable": "only functions are called, by their names",
    "id": "values have no identity: compare them with `==`",
    "hash": "compare values with `==`",
    "exec": "write the code",
    "eval": "write the code",
    "open": f"read files in Python, and pass what they hold: {_OUTSIDE}",
    "input": "take it as a parameter",
    "super": _PARAMETERS,
    "object": "values that belong together travel in a tuple",
    "complex": "keep the real and imaginary parts apart",
    "print": "call it: `print(x)`; a function is no value",
    "functools": "define a function with 'def' that calls the other",
    "itertools": "write the loops",
    "operator": "write the operator",
    "partial": "define a function with 'def' that calls the other",
    "logging": "write `print(…)` or `warnings.warn(…)`",
    "logger": "write `print(…)` or `warnings.warn(…)`",
    "time": f"measure from outside: {_OUTSIDE}",
    "random": _RANDOM,
    "os": _OUTSIDE,
    "sys": _OUTSIDE,
    "copy": "write `x.clone()` of a tensor, `list(x)` of a list",
    "deepcopy": "write `x.clone()` of a tensor, `list(x)` of a list",
    "rearrange": "write `x.permute(…)`, `x.reshape(…)`, `x.flatten(a, b)` or `x.unflatten(dim, sizes)`",
    "einops": "write `x.permute(…)`, `x.reshape(…)`, or `torch.einsum(…)`",
    "repeat": "write `x.expand(…)` or `x.repeat(…)`",
    "reduce": "write a loop, or `x.sum(dims)`",
    "checkpoint": "write `gs.recompute(x)`: what is not to be kept",
    "ctx": _CAPTURES,
    "self": _PARAMETERS,
    "cls": _PARAMETERS,
    "nn": _PARAMETERS,
    "Variable": "a tensor needs nothing around it: write it by itself",
    "device": "write the device of an argument: `x.device`",
    "tl": "kernels are generated: write the formula",
    "triton": "kernels are generated: write the formula",
    "tf": "write what torch calls it",
    "__name__": "what runs the functions stands in a file of Python",
}
"""Names that nothing has."""

MEMBERS: Mapping[str, str] = {
    **dict.fromkeys(("cuda", "cpu", "mps", "xpu", "pin_memory", "get_device"), _DEVICE),
    "numpy": "a tensor is what arrays become: remove it; the caller gets an array for arrays",
    "new": "write `x.new_zeros(sizes)` or `x.new_empty(sizes)`",
    "new_tensor": "write `torch.tensor(values, dtype=x.dtype)`",
    "type": "write `x.to(torch.float32)`, or `x.type_as(y)`",
    "astype": "write `x.to(torch.float32)`, or `x.type_as(y)`",
    "grad": _GRADIENT,
    "backward": _GRADIENT,
    "grad_fn": _GRADIENT,
    "is_leaf": _GRADIENT,
    "retain_grad": _GRADIENT,
    "register_hook": "a gradient is changed where it is made: give the function a backward of its own",
    "storage": "values have elements, and no storage",
    "data_ptr": "values have elements, and no address",
    "untyped_storage": "values have elements, and no storage",
    "save_for_backward": f"{_CAPTURES}; {_CONVERT}",
    "saved_tensors": f"use the names around the closure; {_CONVERT}",
    "saved_variables": f"use the names around the closure; {_CONVERT}",
    "save_for_forward": f"forward mode is derived: remove it; {_CONVERT}",
    "needs_input_grad": f"give every gradient: what nobody needs is not computed; {_CONVERT}",
    "mark_non_differentiable": f"return `y.detach()`; {_CONVERT}",
    "mark_dirty": f"write into a copy, `x.clone()`, and return it; {_CONVERT}",
    "set_materialize_grads": f"gradients are always there: remove it; {_CONVERT}",
    **dict.fromkeys(("weight", "bias", "gamma", "beta", "scale", "eps", "running_mean", "running_var"), _PARAMETERS),
    **dict.fromkeys(("parameters", "named_parameters", "state_dict", "modules", "children", "buffers"), _PARAMETERS),
    "training": "take it as a parameter: `training: bool`",
    "eval": "take it as a parameter: `training: bool`",
    "train": "take it as a parameter: `training: bool`",
    "forward": "call the function by its name",
    "apply": f"call the function by its name; {_CONVERT}",
    "step": f"an optimizer steps from outside: {_OUTSIDE}",
    "zero_grad": f"an optimizer steps from outside: {_OUTSIDE}",
    "keys": "there are no dicts: take a tuple, or `class P(NamedTuple):` with fields",
    "values": "there are no dicts: take a tuple, or `class P(NamedTuple):` with fields",
    "items": "there are no dicts: take a tuple, or `class P(NamedTuple):` with fields",
    "get": "there are no dicts: take a tuple, or `class P(NamedTuple):` with fields",
}
"""Methods and attributes that no value has."""

MODULES: Mapping[str, str] = {
    "torch.autograd": _GRADIENT,
    "torch.autograd.Function": _CONVERT,
    "torch.nn": _LAYERS,
    "nn": _LAYERS,
    "torch.cuda": _DEVICE,
    "torch.cuda.amp": "say the dtype, `x.to(torch.float16)`; torch.autocast around the call is followed",
    "torch.backends": _OUTSIDE,
    "torch.distributed": f"collectives run from outside: {_OUTSIDE}",
    "torch.profiler": f"measure from outside: {_OUTSIDE}",
    "torch.utils.checkpoint": "write `gs.recompute(x)`: what is not to be kept",
    "torch.utils": _OUTSIDE,
    "torch.func": _GRADIENT,
    "torch.vmap": "write the batch as a dimension; torch.vmap around the function works",
    "torch.compile": "functions are compiled as they stand: remove it",
    "torch.manual_seed": _RANDOM,
    "torch.seed": _RANDOM,
    "torch.Generator": _RANDOM,
    "torch.Tensor": "write `torch.tensor([1.0, 2.0])`, or `torch.empty(sizes)`",
    "torch.Size": "write the list of sizes: `[2, 3]`",
    "torch.device": "write the device of an argument: `x.device`",
    "torch.from_numpy": "pass the array: a tensor is what arrays become",
    "torch.save": _OUTSIDE,
    "torch.load": _OUTSIDE,
    "torch.set_default_dtype": "say the dtype: `torch.zeros(sizes, dtype=torch.float64)`",
    "torch.set_printoptions": _OUTSIDE,
    "torch.is_grad_enabled": "gradients flow unless `with torch.no_grad():` says otherwise: remove it",
    "torch.jit": "functions are compiled as they stand: remove it",
    "torch.ops": "write what torch calls it: `torch.add(x, y)`",
    "torch.nn.Parameter": "a parameter is an argument of the function",
    **{
        f"torch.{kind}Tensor": f"write `torch.tensor(values, dtype=torch.{dtype})`"
        for kind, dtype in (
            ("Float", "float32"),
            ("Double", "float64"),
            ("Half", "float16"),
            ("Long", "int64"),
            ("Int", "int32"),
            ("Bool", "bool"),
        )
    },
}
"""Modules, and what they hold; the longest that a name begins with counts."""

TYPES: Mapping[str, str] = {
    "Any": "say the type; without an annotation it is a Tensor",
    "object": "say the type; without an annotation it is a Tensor",
    "Callable": "functions are called by their names, and not passed; what returns a closure is `-> Tensor`",
    **dict.fromkeys(("Dict", "dict", "Mapping", "TypedDict"), "take a tuple, or `class P(NamedTuple):` with fields"),
    **dict.fromkeys(("Set", "set", "Iterable", "Iterator", "Collection", "deque"), "write `List[…]`"),
    **dict.fromkeys(("ndarray", "np.ndarray", "numpy.ndarray", "ArrayLike", "jnp.ndarray"), "write `Tensor`"),
    "Size": "write `List[int]`",
    "...": "a tuple has as many elements as its type names; of any number: `List[int]`",
    "dtype": "a dtype is an int here: `dtype: int`",
    **dict.fromkeys(("nn.Module", "torch.nn.Module", "Module"), _PARAMETERS),
    **dict.fromkeys(("nn.Parameter", "torch.nn.Parameter", "Parameter"), "write `Tensor`"),
    **dict.fromkeys(("complex", "TypeVar", "Self", "bytes"), "say a type of the language"),
    **dict.fromkeys(("torch.Generator", "Generator"), _RANDOM),
    "double": "write `float`",
    "long": "write `int`",
    "string": "write `str`",
    "boolean": "write `bool`",
    "array": "write `Tensor`",
}
"""Types that the language has not."""


CONTEXTS: Mapping[str, str] = {
    **dict.fromkeys(("torch.autocast", "torch.amp.autocast", "torch.cuda.amp.autocast"), MODULES["torch.cuda.amp"]),
    "torch.profiler": MODULES["torch.profiler"],
    "torch.cuda": _OUTSIDE,
    "torch.random": _RANDOM,
    "open": NAMES["open"],
    "warnings": _OUTSIDE,
    "torch.set_grad_enabled": "whether gradients flow is known before anything runs: write `with torch.no_grad():`",
}
"""What a `with` cannot enter."""


def for_name(name: str) -> tuple[str, ...]:
    """What to write instead of a name that nothing has."""
    return _found(NAMES, name)


def for_member(name: str) -> tuple[str, ...]:
    """What to write instead of a method or an attribute."""
    return _found(MEMBERS, name)


def for_function(name: str) -> tuple[str, ...]:
    """What to write instead of a method that torch has as a function alone."""
    return (f"it is a function: write `{FUNCTIONS_ONLY[name]}(…)`",) if name in FUNCTIONS_ONLY else ()


def for_function_elsewhere(module: str, name: str) -> tuple[str, ...]:
    """What to write instead of a function that torch has in another module, or as a method that writes in place."""
    if op_name("torch", name):
        return (f"write `{FUNCTIONS_ONLY.get(name, f'torch.{name}')}(…)`",)
    plain = name.removesuffix("_")
    if plain == name or not op_name(module, plain):
        return ()
    if plain in IN_PLACE:
        return (f"it is a method: write `y.{name}(…)`",)
    return (f"torch writes nothing of the name in place; bind the name anew: `y = {module}.{plain}(…)`",)


def for_attribute(name: str) -> tuple[str, ...]:
    """What to write instead of a call of an attribute."""
    return (f"it is an attribute: write `.{name}`",) if name in METHOD_ATTRIBUTES else ()


def for_member_of(name: str, member: str) -> tuple[str, ...]:
    """What to write instead of a member of what torch hands to methods, a context or the object itself, or of an
    autograd.Function, which is applied."""
    return for_member(member) if name in ("ctx", "self", "cls") or member == "apply" else ()


def for_module(name: str) -> tuple[str, ...]:
    """What to write instead of a module, or of what it holds."""
    return _found(MODULES, name)


def for_type(name: str) -> tuple[str, ...]:
    """What to write instead of a type."""
    return _found(TYPES, name)


def for_context(name: str) -> tuple[str, ...]:
    """What to write instead of a `with`."""
    return _found(CONTEXTS, name)


def _found(table: Mapping[str, str], name: str) -> tuple[str, ...]:
    while name not in table and "." in name:
        name = name.rpartition(".")[0]
    return (table[name],) if name in table else ()
