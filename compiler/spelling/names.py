"""Names: modules and their functions, Python's builtins, attributes of tensors, constants."""

from __future__ import annotations

from ..ops.registry import OPS
from .functional_names import FUNCTIONAL

MODULES = {
    "torch": "",
    "torch.Tensor": "",
    "torch.functional": "",
    "torch.nn.functional": "functional_",
    "nn.functional": "functional_",
    "F": "functional_",
    "torch.linalg": "linalg_",
    "torch.special": "special_",
    "torch.masked": "unmasked_",
    "torch.fft": "fft_",
    "math": "math_",
    "str": "str_",
    "warnings": "warnings_",
    "gs": "",
}
"""Modules that may be named in source, and what their functions' names begin with in the op table."""
LIMITS = {
    "finfo": ("eps", "max", "min", "tiny", "smallest_normal", "resolution"),
    "iinfo": ("bits", "max", "min"),
}
"""What `torch.finfo(dtype)` and `torch.iinfo(dtype)` have: an op each, such as `finfo_eps`."""
OWN = frozenset(
    (
        *(f"{kind}_{name}" for kind, names in LIMITS.items() for name in names),
        *("seed", "uniform", "random_bits", "seeded_dropout", "seeded_rrelu", "dropout_attention"),
        *("save", "recompute", "surrogate", "constant", "device_type", "device_index"),
    )
)
"""Ops that torch does not have, or that are not what torch calls so: `gs.seed()`."""
_PREFIXES = tuple(prefix for prefix in MODULES.values() if prefix)
PLAIN_TOO = frozenset(("functional_",))
"""Beginnings without which a name may stand in the table as well."""
BUILTINS = {
    "len": "len",
    "abs": "abs",
    "min": "min",
    "max": "max",
    "sum": "sum",
    "round": "round",
    "pow": "pow",
    "sorted": "sorted",
    "any": "any",
    "all": "all",
    "int": "Int",
    "float": "Float",
    "bool": "Bool",
    "list": "list",
    "str": "str",
    "repr": "repr",
    "ascii": "ascii",
    "format": "format",
    "ord": "ord",
    "chr": "chr",
    "hex": "hex",
    "oct": "oct",
    "bin": "bin",
    "print": "Print",
    "rangelist": "rangelist",
}
"""Python's functions, and the ops that they are."""
METHOD_ATTRIBUTES = {
    "shape": "size",
    "dtype": "dtype",
    "device": "device",
    "ndim": "dim",
    "T": "numpy_T",
    "mT": "mT",
    "mH": "adjoint",
    "data": "detach",
    "real": "real",
    "requires_grad": "requires_grad",
    "itemsize": "element_size",
    "layout": "layout",
    **{
        name: name
        for name in (
            *("is_cpu", "is_cuda", "is_ipu", "is_maia", "is_meta", "is_mkldnn", "is_mps", "is_mtia", "is_nested"),
            *("is_quantized", "is_sparse", "is_sparse_csr", "is_vulkan", "is_xla", "is_xpu"),
        )
    },
}
"""Attributes of a tensor, and the ops that they are."""
DEVICE_ATTRIBUTES = {"type": "device_type", "index": "device_index"}
"""The same of a device."""
CONSTANTS = {
    "math.pi": 3.141592653589793,
    "math.e": 2.718281828459045,
    "math.tau": 6.283185307179586,
    "math.inf": float("inf"),
    "math.nan": float("nan"),
    "torch.pi": 3.141592653589793,
    "torch.inf": float("inf"),
    "torch.nan": float("nan"),
    "torch.newaxis": None,
    "torch.contiguous_format": 0,
    "torch.preserve_format": 1,
    "torch.channels_last": 2,
    "torch.strided": 0,
}
"""Dotted names that are constants; a memory format is an int, as in a schema."""


def op_name(module: str, name: str) -> str | None:
    """The name in the op table of `module.name`; None where there is none. The module is one of MODULES."""
    prefix = MODULES[module]
    if not prefix and name.startswith(_PREFIXES):
        return None
    if OPS.overloads(prefix + name):
        return prefix + name
    return name if prefix in PLAIN_TOO and name in FUNCTIONAL and OPS.overloads(name) else None


def names_in_module(module: str) -> list[str]:
    """What a module has."""
    prefix = MODULES[module]
    named = [name.removeprefix(prefix) for name in OPS.names() if name.startswith(prefix)]
    return [name for name in (*named, *FUNCTIONAL) if op_name(module, name)] if prefix in ("", *PLAIN_TOO) else named
