"""What of the language torch has under another name, or not at all, in the words of torch and Python.

Written source says `ys.append(y)` and `x[0] = v`; the reference is printed from a graph, in which these are values:
`torch.append(ys, y)`, `torch.select_scatter(…)`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence

METHODS = frozenset(
    (
        *("byte", "char", "contiguous", "dim", "element_size", "expand", "expand_as", "item", "ndimension"),
        *("nelement", "new_empty", "new_full", "new_ones", "new_zeros", "repeat", "reshape_as", "size", "stride"),
        *("sum_to_size", "to", "type_as", "unfold", "view", "view_as"),
    )
)
"""What tensors have, and torch has not as functions."""

FUNCTIONAL = frozenset(
    (
        *("adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool2d", "adaptive_max_pool3d", "affine_grid"),
        *("avg_pool2d", "avg_pool3d", "binary_cross_entropy", "cross_entropy", "elu", "fold", "gaussian_nll_loss"),
        *("gelu", "glu", "grid_sample", "hardsigmoid", "hardswish", "hardtanh", "huber_loss", "interpolate", "l1_loss"),
        *(
            "leaky_relu",
            "linear",
            "linear_cross_entropy",
            "local_response_norm",
            "logsigmoid",
            "lp_pool1d",
            "lp_pool2d",
            "lp_pool3d",
        ),
        *("max_unpool1d", "max_unpool2d", "max_unpool3d", "mish", "mse_loss", "multi_margin_loss"),
        *("multilabel_margin_loss", "multilabel_soft_margin_loss", "nll_loss", "normalize", "one_hot", "pad", "relu6"),
        *("scaled_dot_product_attention", "silu", "smooth_l1_loss", "soft_margin_loss", "softmin", "softplus"),
        *("softshrink", "softsign", "tanhshrink", "upsample", "upsample_bilinear", "upsample_nearest"),
    )
)
"""What torch has in torch.nn.functional."""
ATEN = frozenset(
    (
        *("gelu_backward", "native_layer_norm_backward", "native_dropout_backward", "embedding_dense_backward"),
        *("nll_loss_forward", "nll_loss_backward", "avg_pool2d_backward", "max_pool2d_with_indices_backward"),
        *("_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward", "im2col", "unfold_backward"),
    )
)
"""What torch has as ops alone."""
_RENAMED = {"cross_entropy_loss": "F.cross_entropy", "log_sigmoid": "F.logsigmoid", "col2im": "F.fold"}
_MODULES = {"unmasked_": "torch.masked.", "fft_": "torch.fft."}
"""What names begin with that a module of torch has without it."""

_AS_TEXT: dict[str, Callable[[Sequence[str]], str]] = {
    "append": lambda a: f"[*{a[0]}, {a[1]}]",
    "extend": lambda a: f"[*{a[0]}, *{a[1]}]",
    "reverse": lambda a: f"{a[0]}[::-1]",
    "clear": lambda a: "[]",
    "copy": lambda a: f"list({a[0]})",
    "slice": lambda a: f"{a[0]}[{':'.join('' if part == 'None' else part for part in a[1:])}]",
    "index": lambda a: _indexed(*a),
    "rangelist": lambda a: f"list(range({', '.join(a)}))",
    "_updated": lambda a: f"{a[0]}.to({a[1]}.dtype)",
    "_replaced": lambda a: a[1],
    "_overwritten": lambda a: a[1],
    "_unwrap_optional": lambda a: a[0],
    "tensordot": lambda a: f"torch.tensordot({', '.join(a if len(a) < 4 else [*a[:2], f'({a[2]}, {a[3]})'])})",
}
"""Of the texts of arguments."""


def _indexed(of: str, indices: str) -> str:
    """`x[:, i]`, and what depends on how many dimensions there are."""
    found = ast.parse(indices, mode="eval").body
    if not isinstance(found, ast.List):
        return f"torch.ops.aten.index({of}, {indices})"
    places = [":" if isinstance(i, ast.Constant) and i.value is None else ast.unparse(i) for i in found.elts]
    return f"{of}[{', '.join(places)}]"


_NAMED = {"insert": "_inserted", "_set_item": "_with_item", "_set_slice": "_with_slice", "_without": "_without_item"}
_NAMED |= {"kept_size": "_kept_size", "broadcast_numel": "_broadcast_numel", "reduced_count": "_reduced_count"}
_NAMED |= {"_index_rank": "_index_rank", "_expand_into": "_expanded_into", "_extreme_place": "_extreme_place"}
_NAMED |= {"matmul_left": "_matmul_left", "matmul_right": "_matmul_right"}
"""What is a function of the module."""

HELPERS = {
    "_inserted": '''
def _inserted(items: list[Any], index: int, item: Any) -> list[Any]:
    """The list with an item more."""
    made = list(items)
    made.insert(index, item)
    return made
''',
    "_with_item": '''
def _with_item(items: list[Any], index: int, item: Any) -> list[Any]:
    """The list with another item."""
    made = list(items)
    made[index] = item
    return made
''',
    "_with_slice": '''
def _with_slice(
    items: list[Any], values: list[Any], start: int | None = None, end: int | None = None, step: int = 1
) -> list[Any]:
    """The list with other items."""
    made = list(items)
    made[start:end:step] = values
    return made
''',
    "_without_item": '''
def _without_item(items: list[Any], index: int = -1) -> list[Any]:
    """The list with an item less."""
    made = list(items)
    del made[index]
    return made
''',
    "_kept_size": '''
def _kept_size(size: list[int], dim: int | list[int] | None) -> list[int]:
    """The size of a reduction's result with the reduced dimensions as 1."""
    dims = [dim] if isinstance(dim, int) else dim or range(len(size))
    reduced = {d % len(size) for d in dims} if size else set()
    return [1 if d in reduced else length for d, length in enumerate(size)]
''',
    "_reduced_count": '''
def _reduced_count(size: list[int], dim: int | list[int] | None) -> int:
    """How many elements a reduction makes one of."""
    dims = [dim] if isinstance(dim, int) else dim or range(len(size))
    return math.prod(size[d] for d in {d % len(size) for d in dims}) if size else 1
''',
    "_index_rank": '''
def _index_rank(index: Tensor | None) -> int:
    """How many dimensions an index takes: a mask as many as it has."""
    if index is None or index.dtype not in (torch.bool, torch.uint8):
        return 1
    return index.dim()
''',
    "_extreme_place": '''
def _extreme_place(items: list[Any], is_largest: bool) -> int:
    """Where the first of the largest, or least, stands."""
    found = 0
    for place, item in enumerate(items):
        if (item > items[found]) if is_largest else (item < items[found]):
            found = place
    return found
''',
    "_expanded_into": '''
def _expanded_into(value: Tensor, place: Tensor) -> Tensor:
    """A value as it is written to a place, which may have fewer dimensions than it, all of one."""
    more = max(value.dim() - place.dim(), 0)
    return value.reshape(value.shape[more:]).expand_as(place)
''',
    "_broadcast_numel": '''
def _broadcast_numel(left: list[int], right: list[int]) -> int:
    """How many elements two tensors have together."""
    return math.prod(torch.broadcast_shapes(tuple(left), tuple(right)))
''',
    "_matmul_left": '''
def _matmul_left(left_size: list[int], right: Tensor, grad_output: Tensor) -> Tensor:
    """The gradient of `left @ right` in `left`."""
    column = right.unsqueeze(1) if right.dim() == 1 else right
    grad = grad_output.unsqueeze(-1) if right.dim() == 1 else grad_output
    grad = grad.unsqueeze(-2) if len(left_size) == 1 else grad
    wide = [1, *left_size] if len(left_size) == 1 else left_size
    return (grad @ column.mT).sum_to_size(wide).reshape(left_size)
''',
    "_matmul_right": '''
def _matmul_right(left: Tensor, right_size: list[int], grad_output: Tensor) -> Tensor:
    """The gradient of `left @ right` in `right`."""
    row = left.unsqueeze(0) if left.dim() == 1 else left
    grad = grad_output.unsqueeze(-1) if len(right_size) == 1 else grad_output
    grad = grad.unsqueeze(-2) if left.dim() == 1 else grad
    if len(right_size) <= 2 and row.dim() > 2:
        row, grad = row.flatten(0, -2), grad.flatten(0, -2)
    wide = [*right_size, 1] if len(right_size) == 1 else right_size
    return (row.mT @ grad).sum_to_size(wide).reshape(right_size)
''',
}
"""By name, the texts of functions that a module may need."""

_OWN = re.compile(
    r"_.*_adjoint|.*_adjoint|grad_.*|mm_.*|no_grads|scalar_seed|conv_input|conv_weight|seeded_.*|random_bits|uniform"
    r"|numpy_T|add_n|_all_rows|_any_row|_sorted_order|_ordered|_fill_diagonal|_given_or_detached|_grad_sum_to_size"
    r"|_size_if_not_equal|_row_order|_cholesky_factor|lu_with_infos|_float_list|_flags|_any_flag|_index_tensor|_unrecorded_views?|_without_gradient|masked_dropout"
    r"|sum_rows|sum_tensors|nonzero_numpy|functional_.*|dropout_attention|math_.*|_autocast_.*|_percent|.*_backward"
    r"|.*_with_indices|cofactor|dropout[123]d|nll_loss_nd|xlog1py|zero"
)
"""What nobody but us has."""


class NoWords(Exception):
    """What neither torch nor a helper says."""


def in_torch_words(node: ast.Call) -> tuple[ast.expr, str]:
    """A call of `torch.NAME` or of a builtin of ours as torch and Python have it, and the helper that it needs.

    NoWords where there is no such thing.
    """
    function = node.func
    if isinstance(function, ast.Attribute) and function.attr == "index" and _is_list(node.args):
        return _parsed(_indexed(_operand(function.value), ast.unparse(node.args[0]))), ""
    if isinstance(function, ast.Name):
        name = function.id if function.id == "rangelist" else ""
    else:
        assert isinstance(function, ast.Attribute)
        name = function.attr if ast.unparse(function.value) in ("torch", "torch.jit") else ""
    if not name:
        return node, ""
    if name in _NAMED:
        return ast.Call(ast.Name(_NAMED[name], ast.Load()), node.args, node.keywords), _NAMED[name]
    if name in _AS_TEXT and not node.keywords:
        return _parsed(_AS_TEXT[name]([_operand(argument) for argument in node.args])), ""
    if name in METHODS and node.args:
        return ast.Call(ast.Attribute(node.args[0], name, ast.Load()), node.args[1:], node.keywords), ""
    if name in ATEN:
        return ast.Call(_parsed(f"torch.ops.aten.{name}"), node.args, node.keywords), ""
    if name in _RENAMED or name in FUNCTIONAL:
        return ast.Call(_parsed(_RENAMED.get(name, f"F.{name}")), node.args, node.keywords), ""
    for prefix, module in _MODULES.items():
        if name.startswith(prefix):
            return ast.Call(_parsed(module + name.removeprefix(prefix)), node.args, node.keywords), ""
    if _OWN.fullmatch(name):
        raise NoWords(f"'torch.{name}' has no form in torch")
    return node, ""


def _is_list(arguments: Sequence[ast.expr]) -> bool:
    """Whether there is one argument, a list that is written out, or put together of such."""
    return len(arguments) == 1 and any(isinstance(node, ast.List) for node in ast.walk(arguments[0]))


def _operand(node: ast.expr) -> str:
    plain = isinstance(node, ast.Name | ast.Constant | ast.Attribute | ast.Call | ast.Subscript | ast.List)
    return ast.unparse(node) if plain else f"({ast.unparse(node)})"


def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body
