"""Torch's Python spellings where they differ from the schemas: which op a name means, and with which arguments.

`torch.nn.functional` and `torch.linalg` have functions that share their name with another of torch's and take other
arguments; those are ops whose name begins as MODULES says. The op without the beginning is meant where there is none:

    F.embedding(input, weight)         functional_embedding
    torch.embedding(weight, indices)   embedding
    F.relu(input)                      relu
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...lang.light_dataclasses import replace
from ..ir.node import Value
from ..ops.registry import OPS
from ..spelling.functional import PARAMETERS, first_left_out, legacy_reduction
from ..spelling.overloads import Argued
from ..types.types import BOOL, NUMBERS, is_tensor
from .emitter import Emitter, is_constant, known_constant

_ACTIVATIONS = (
    *("alpha_dropout", "celu", "dropout", "dropout1d", "dropout2d", "dropout3d", "elu", "feature_alpha_dropout"),
    *(
        "hardsigmoid",
        "hardswish",
        "hardtanh",
        "leaky_relu",
        "mish",
        "relu",
        "relu6",
        "rrelu",
        "selu",
        "silu",
        "threshold",
    ),
)
_RANDOM = ("bernoulli", "multinomial", "normal", "rand", "randint", "randn", "randperm")
_CREATION = (
    *("arange", "as_tensor", "empty", "eye", "full", "linspace", "logspace", "ones", "rand", "randint", "randn"),
    *("randperm", "scalar_tensor", "tensor", "tril_indices", "triu_indices", "zeros"),
    *("empty_like", "full_like", "ones_like", "rand_like", "randint_like", "randn_like", "zeros_like"),
    *("new_empty", "new_full", "new_ones", "new_tensor", "new_zeros"),
)
NO_OUT = frozenset(
    (
        *("to", "type_as", "float", "double", "half", "bfloat16", "int", "long", "short", "bool", "view", "reshape"),
        *("byte", "char", "expand", "contiguous", "clone", "detach", "size", "item", "dim", "numel"),
    )
)
"""Methods, that is, for a function of torch may write its result somewhere."""
ONLY_AS_DEFAULT: dict[str, tuple[object, Callable[[str], bool]]] = {
    "inplace": (False, lambda name: name in _ACTIVATIONS),
    "out": (None, lambda name: name not in NO_OUT),
    "generator": (None, lambda name: name in _RANDOM),
    "size_average": (None, lambda name: "loss" in name or "entropy" in name or name == "kl_div"),
    "reduce": (None, lambda name: "loss" in name or "entropy" in name or name == "kl_div"),
    "return_indices": (False, lambda name: "max_pool" in name),
    "sparse_grad": (False, lambda name: name == "gather"),
    "as_tuple": (False, lambda name: name == "nonzero"),
    "get_infos": (False, lambda name: name == "lu"),
    "requires_grad": (False, lambda name: name in _CREATION),
    "_stacklevel": (3, lambda name: name in ("softmax", "log_softmax", "softmin", "gumbel_softmax")),
}
"""Keywords of torch's that change nothing at the only value that may be given, and which functions have them."""

WITHOUT_EFFECT: dict[str, tuple[object, ...]] = {
    "pin_memory": (None, False),
    "requires_grad": (None, False),
    "memory_format": (None, 0, 1),
    "layout": (None, 0),
}
"""Arguments of schemas that nothing here heeds, and the values at which they ask for nothing."""

OTHER_OP = {"return_indices": "_with_indices", "as_tuple": "_numpy", "get_infos": "_with_infos"}
"""Keywords that ask for results of another kind, and how the op's name ends that gives them."""

BY_PLACE = {
    "adaptive_max_pool": (2, "return_indices"),
    "max_pool": (6, "return_indices"),
    "lu": (2, "get_infos"),
}
"""Functions, without their rank, and the keyword that may be given by place."""

SYMBOLS = {
    "add": "+",
    "sub": "-",
    "subtract": "-",
    "mul": "*",
    "multiply": "*",
    "div": "/",
    "divide": "/",
    "true_divide": "/",
    "floor_divide": "//",
}
"""Functions that take a number first, as their operators do: `torch.sub(1, x)`."""

SELF_AT = {"where": 1, "polygamma": 1, "special_polygamma": 1}
"""Methods whose object is not the first argument of their schema: `x.where(condition, other)`."""


_DROPOUT_AT = 4
"""Where `dropout_p` stands among the arguments of scaled_dot_product_attention."""


def with_keywords(name: str, arguments: Sequence[Argued]) -> list[Argued]:
    """`F.adaptive_max_pool2d(x, 2, True)`: what torch takes by place, and a schema here only by name."""
    place, keyword = BY_PLACE.get(name.removeprefix("functional_").rstrip("123d"), (len(arguments), ""))
    moved = [replace(a, keyword=keyword) if i == place and a.keyword is None else a for i, a in enumerate(arguments)]
    return moved if all(a.keyword is not None for a in moved[place:]) else [*arguments]


def functional_arguments(e: Emitter, name: str, arguments: Sequence[Argued]) -> list[Argued]:
    """The arguments of a function of torch.nn.functional: by name from the first on that no schema has."""
    parameters, place = PARAMETERS.get(name, ()), first_left_out(name)
    named = [
        replace(a, keyword=parameters[i]) if a.keyword is None and place <= i < len(parameters) else a
        for i, a in enumerate(arguments)
    ]
    return _with_reduction(e, name, [a for a in named if not _is_stack_level(a)])


def _is_stack_level(argument: Argued) -> bool:
    """How far up a warning is told, which is nobody's business here."""
    value = argument.value
    return argument.keyword == "_stacklevel" and is_constant(value) and isinstance(known_constant(value), int)


def _with_reduction(e: Emitter, name: str, arguments: list[Argued]) -> list[Argued]:
    """`size_average` and `reduce`, which are deprecated, decide about `reduction` if they are there."""
    flags: dict[str, bool | None] = {"size_average": None, "reduce": None}
    given = [a for a in arguments if a.keyword in flags and "size_average" in PARAMETERS.get(name, ())]
    for argument in given:
        assert argument.keyword is not None
        flags[argument.keyword] = _flag(e, argument)
    if flags["size_average"] is None and flags["reduce"] is None:
        return arguments
    reduction = e.builder.constant(legacy_reduction(flags["size_average"], flags["reduce"]))
    rest = [a for a in arguments if a not in given and a.keyword != "reduction"]
    return [*rest, Argued(reduction, given[-1].span, "reduction")]


def asks_in_place(e: Emitter, name: str, arguments: Sequence[Argued]) -> bool:
    """`F.relu(y, inplace=True)`."""
    given = [a for a in arguments if a.keyword == "inplace" and "inplace" in PARAMETERS.get(name, ())]
    return any(_flag(e, argument) for argument in given)


def _flag(e: Emitter, argument: Argued) -> bool | None:
    """What a flag is: known when the program compiles."""
    value = known_constant(argument.value) if is_constant(argument.value) else argument
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return bool(value)
    note = "write it out, or an `if` around two calls"
    if isinstance(value, str) and argument.keyword in ("size_average", "reduce"):
        # Python takes any text for True there, so that torch gives the mean.
        note = f"torch has `size_average` and `reduce` in these places: by its name, `reduction={value!r}`"
    raise e.fail("E204", f"'{argument.keyword}' has to be True or False when the program compiles", argument.span, note)


def indices_spelling(name: str, arguments: Sequence[Argued]) -> str:
    """`F.max_pool2d(x, 2, return_indices=True)` has two results, and is an op of its own: OTHER_OP says which."""
    plain = name.removeprefix("functional_")
    for argument in arguments:
        suffix = OTHER_OP.get(argument.keyword or "")
        asked = suffix is not None and is_constant(argument.value) and known_constant(argument.value) is True
        if asked and OPS.overloads(f"{plain}{suffix}"):
            return f"{plain}{suffix}"
    return name


def with_dropout(name: str, arguments: Sequence[Argued]) -> str:
    """Attention that drops some of its weights draws random numbers, and is an op of its own."""
    if name != "scaled_dot_product_attention":
        return name
    positional = [argument for argument in arguments if argument.keyword is None]
    named = [argument for argument in arguments if argument.keyword == "dropout_p"]
    given = named or positional[_DROPOUT_AT : _DROPOUT_AT + 1]
    drops = any(not is_constant(argument.value) or known_constant(argument.value) != 0 for argument in given)
    return "dropout_attention" if drops else name


def meaningful(name: str, arguments: Sequence[Argued]) -> list[Argued]:
    """The arguments without those of ONLY_AS_DEFAULT."""
    return [argument for argument in arguments if not _changes_nothing(name, argument)]


def _changes_nothing(name: str, argument: Argued) -> bool:
    if argument.keyword not in ONLY_AS_DEFAULT or not is_constant(argument.value):
        return False
    if any(a.name == argument.keyword for op in OPS.overloads(name) for a in op.schema.arguments):
        return False
    value = known_constant(argument.value)
    default, has_it = ONLY_AS_DEFAULT[argument.keyword]
    is_default = type(value) is type(default) and value == default and has_it(name.removeprefix("functional_"))
    return is_default or (argument.keyword in OTHER_OP and name.endswith(OTHER_OP[argument.keyword]))


def asks_in_vain(argument: str, value: Value) -> bool:
    """Whether a value of an op's argument asks for what would not be done."""
    allowed = WITHOUT_EFFECT.get(argument)
    if allowed is None:
        return False
    if is_constant(value):
        return known_constant(value) not in allowed
    # A flag that only a run tells may be set.
    return value.type == BOOL


def symbol_for(name: str, arguments: Sequence[Argued]) -> str | None:
    """The operator that a call with a number before a tensor is."""
    if name not in SYMBOLS or len(arguments) != 2 or arguments[0].keyword is not None:
        return None
    number_first = arguments[0].value.type in NUMBERS and is_tensor(arguments[1].value.type)
    return SYMBOLS[name] if number_first and arguments[1].keyword in (None, "other") else None


def order_of_labels(arguments: Sequence[Argued]) -> tuple[Value, list[int]] | None:
    """The operand and the order in which `torch.einsum("ij->ji", x)` sees its dimensions, if that is all it does."""
    if len(arguments) != 2 or any(a.keyword for a in arguments) or not is_constant(arguments[0].value):
        return None
    equation, operand = known_constant(arguments[0].value), arguments[1].value
    if operand.node.kind == "prim::ListConstruct" and not operand.name_hint and len(operand.node.inputs) == 1:
        operand = operand.node.inputs[0]
    if not isinstance(equation, str) or not is_tensor(operand.type):
        return None
    labels, arrow, seen = equation.replace(" ", "").partition("->")
    seen = seen if arrow else "".join(sorted(labels))
    is_order = labels.isalpha() and len(set(labels)) == len(labels) and sorted(labels) == sorted(seen)
    return (operand, [labels.index(label) for label in seen]) if is_order else None


def with_receiver(name: str, subject: Argued, arguments: Sequence[Argued]) -> list[Argued]:
    """A method's arguments, the object at the place of `self`."""
    place = SELF_AT.get(name, 0)
    if sum(argument.keyword is None for argument in arguments) >= place:
        return [*arguments[:place], subject, *arguments[place:]]
    return [*arguments, Argued(subject.value, subject.span, "self")]
