"""Functions of torch and torch.linalg that are written in the language, in stdlib_grads/composites.grad and, of
differences, statistics and order, in statistics.grad.

Source of the schemas: torch's documentation of each.
"""

from __future__ import annotations

from ..composite import composite
from ..registry import OPS, Trait

_DTYPE = "ScalarType? dtype=None"

for _schema, _aliases in (
    # --- differences and integrals ---
    ("aten::diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor", ()),
    ("aten::trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor", ("trapz",)),
    ("aten::trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor", ("trapz",)),
    ("aten::cumulative_trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor", ()),
    ("aten::cumulative_trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor", ()),
    *(
        (f"aten::gradient.{overload}(Tensor self, *, {arguments}, int edge_order=1) -> Tensor[]", ())
        for overload, arguments in (
            ("scalarint", "Scalar? spacing=None, int? dim=None"),
            ("scalararray", "Scalar spacing, int[] dim"),
            ("array", "int[] dim"),
            ("scalarrayint", "float[] spacing, int? dim=None"),
            ("scalarrayarray", "float[] spacing, int[] dim"),
            ("tensorarrayint", "Tensor[] spacing, int? dim=None"),
            ("tensorarray", "Tensor[] spacing, int[] dim"),
        )
    ),
    ("gs::sum_rows(Tensor self, number start=0) -> Tensor", ()),
    ("gs::sum_tensors(Tensor[] self, number start=0) -> Tensor", ()),
    ("gs::sum_tensors.start(Tensor[] self, Tensor start) -> Tensor", ()),
    # --- statistics and order ---
    (
        "aten::cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor",
        (),
    ),
    ("aten::corrcoef(Tensor self) -> Tensor", ()),
    ("aten::msort(Tensor self) -> Tensor", ()),
    (
        "aten::quantile.scalar(Tensor self, float q, int? dim=None, bool keepdim=False, *,"
        ' str interpolation="linear") -> Tensor',
        (),
    ),
    (
        "aten::quantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *,"
        ' str interpolation="linear") -> Tensor',
        (),
    ),
    *(
        (
            f"aten::nanquantile{overload}(Tensor self, {kind} q, int? dim=None, bool keepdim=False, *,"
            ' str interpolation="linear") -> Tensor',
            (),
        )
        for overload, kind in ((".scalar", "float"), ("", "Tensor"))
    ),
    ("aten::combinations(Tensor self, int r=2, bool with_replacement=False) -> Tensor", ()),
    (
        "aten::index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True)"
        " -> Tensor",
        (),
    ),
    # --- shapes ---
    ("aten::fft_fftshift(Tensor self, int[1]? dim=None) -> Tensor", ()),
    ("aten::fft_ifftshift(Tensor self, int[1]? dim=None) -> Tensor", ()),
    ("aten::diagflat(Tensor self, int offset=0) -> Tensor", ()),
    ("gs::_fill_diagonal(Tensor self, Scalar fill_value, bool wrap=False) -> Tensor", ()),
    ("aten::block_diag(Tensor[] tensors) -> Tensor", ()),
    *(
        (f"aten::{name}.{overload}(Tensor self, {argument}) -> Tensor[]", ())
        for name in ("hsplit", "vsplit", "dsplit")
        for overload, argument in (("int", "int sections"), ("array", "int[] indices"))
    ),
    ("aten::vander(Tensor x, int? N=None, bool increasing=False) -> Tensor", ()),
    # --- products, norms, distances ---
    ("gs::tensordot.pair(Tensor self, Tensor other, int[][] dims) -> Tensor", ()),
    ("aten::chain_matmul(Tensor[] matrices) -> Tensor", ()),
    ('aten::cdist(Tensor x1, Tensor x2, float p=2.0, str compute_mode="") -> Tensor', ()),
    ("aten::renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor", ()),
    (f"gs::norm.named(Tensor self, *, int[1]? dim=None, bool keepdim=False, {_DTYPE}) -> Tensor", ()),
    ("aten::linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor", ()),
    ("aten::linalg_vander(Tensor x, *, int? N=None) -> Tensor", ()),
    (
        f"aten::linalg_norm(Tensor self, Scalar? ord=None, int[1]? dim=None, bool keepdim=False, *, {_DTYPE})"
        " -> Tensor",
        (),
    ),
    (
        f"aten::linalg_norm.ord_str(Tensor self, str ord, int[1]? dim=None, bool keepdim=False, *, {_DTYPE}) -> Tensor",
        (),
    ),
    (
        f"aten::linalg_matrix_norm(Tensor self, Scalar ord, int[] dim=[-2, -1], bool keepdim=False, *, {_DTYPE})"
        " -> Tensor",
        (),
    ),
    (
        'aten::linalg_matrix_norm.str_ord(Tensor self, str ord="fro", int[] dim=[-2, -1], bool keepdim=False, *,'
        f" {_DTYPE}) -> Tensor",
        (),
    ),
    ("aten::linalg_cond(Tensor self, Scalar? p=None) -> Tensor", ()),
    ("aten::linalg_pinv(Tensor A, *, float? rtol=None, bool hermitian=False) -> Tensor", ()),
    ("aten::linalg_tensorinv(Tensor self, int ind=2) -> Tensor", ()),
    ("aten::linalg_tensorsolve(Tensor self, Tensor other, int[]? dims=None) -> Tensor", ()),
    ("aten::mvlgamma(Tensor self, int p) -> Tensor", ("special_multigammaln",)),
):
    composite(_schema, aliases=_aliases)

# Of a single tensor it is that tensor.
composite("aten::cartesian_prod(Tensor[] tensors) -> Tensor", traits=Trait.MAY_ALIAS)

# Where no gradient flows: of what an op made of a list, the elements that it gives back as they are keep theirs.
composite("aten::_given_or_detached(Tensor[] given, Tensor[] made) -> Tensor[]", traits=Trait.MAY_ALIAS)

for _schema in (
    "aten::nonzero_numpy(Tensor self) -> Tensor[]",
    "aten::nonzero_static(Tensor self, *, int size, int fill_value=-1) -> Tensor",
    "aten::unravel_index(Tensor indices, int[1] shape) -> Tensor[]",
    "aten::histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor",
    "aten::bincount(Tensor self, Tensor? weights=None, int minlength=0) -> Tensor",
    "aten::gcd(Tensor self, Tensor other) -> Tensor",
    "aten::lcm(Tensor self, Tensor other) -> Tensor",
    "aten::equal(Tensor self, Tensor other) -> bool",
    "aten::angle(Tensor self) -> Tensor",
    "aten::isreal(Tensor self) -> Tensor",
    "aten::isin.Tensor_Tensor(Tensor elements, Tensor test_elements, *, bool assume_unique=False,"
    " bool invert=False) -> Tensor",
    "aten::isin.Tensor_Scalar(Tensor elements, Scalar test_element, *, bool assume_unique=False,"
    " bool invert=False) -> Tensor",
    "aten::isin.Scalar_Tensor(Scalar element, Tensor test_elements, *, bool assume_unique=False,"
    " bool invert=False) -> Tensor",
    "aten::allclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> bool",
):
    composite(_schema, traits=Trait.NONDIFFERENTIABLE)

ALIASES = {
    "row_stack": "vstack",
    "upsample": "interpolate",
    "unsafe_chunk": "chunk",
    "unsafe_split": "split",
    "unsafe_split_with_sizes": "split_with_sizes",
    "linalg_matmul": "matmul",
    "linalg_matrix_exp": "matrix_exp",
    "special_softmax": "softmax",
    "special_log_softmax": "log_softmax",
    "special_logsumexp": "logsumexp",
    **{f"adaptive_max_pool{rank}d_with_indices": f"adaptive_max_pool{rank}d" for rank in (1, 2, 3)},
}
"""Spellings that torch has for the same function."""

for _spelling, _name in ALIASES.items():
    OPS.alias(_spelling, _name)
