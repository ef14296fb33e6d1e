"""Short products, the few largest of rows, and variances and exponentials of columns, as kernels have them."""

from __future__ import annotations

from typing import Any

import gradscript as gs
import ml_dtypes
import numpy as np
import pytest
from array_programs import assert_close, check_fused, fused, run_fused
from gradscript.compiler.fusion.program import ExternStep, Program
from gradscript.compiler.kernel_ir.kernel import Cast


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape)


def of(body: str, names: str) -> gs.Function:
    return gs.CompilationUnit(f"def f({names}):\n    {body}\n").f


def library_of(program: Program) -> list[str]:
    return [step.node.kind for step in program.steps if isinstance(step, ExternStep) and not step.is_view]


def moved(body: str, names: str, *shapes: tuple[int, ...], dtype: Any = np.float32) -> tuple[float, float]:
    """Bytes of both passes over the least there could be; none by the library."""
    listing = of(body, names).kernels(*[np.zeros(shape, dtype) for shape in shapes])
    assert not listing.library
    passes = zip((listing.forward, listing.backward), listing.least_bytes, strict=True)
    forward, backward = (sum(k.bytes_read + k.bytes_written for k in kernels) / least for kernels, least in passes)
    return forward, backward


# --- short products ---


@pytest.mark.parametrize(
    ("body", "shapes"),
    [
        ("return torch.einsum('nij,njd->nid', x, y)", [(64, 4, 3), (64, 3, 16)]),
        ("return torch.einsum('nkd,nkj->njd', x, y)", [(64, 3, 16), (64, 3, 2)]),
        ("return torch.einsum('nd,njd->nj', x, y)", [(64, 17), (64, 2, 17)]),
        ("return torch.einsum('nj,njd->dn', x, y)", [(64, 2), (64, 2, 16)]),
        ("return torch.einsum('...ij,...jd', x, y)", [(8, 8, 2, 3), (8, 8, 3, 16)]),
        ("return torch.einsum('nij,njde->nide', x, y).sum(3)", [(64, 4, 3), (64, 3, 4, 5)]),
        ("return torch.tanh(x @ y)", [(8, 8, 2, 3), (8, 8, 3, 16)]),
        ("return torch.bmm(x, y) * 2", [(64, 2, 20), (64, 20, 3)]),
        ("p = x @ y\n    return p - p[:, :1]", [(64, 4, 4), (64, 4, 16)]),
        ("p = y + x @ y\n    return p * p[:, 2:3] + p.flip([1])", [(64, 4, 4), (64, 4, 16)]),
    ],
)
def test_products_of_many_small_matrices_are_in_kernels(body: str, shapes: list[tuple[int, ...]]) -> None:
    function, values = of(body, "x, y"), [draw(*shape) for shape in shapes]
    check_fused(function, values)
    pair = fused(function, values)
    assert not library_of(pair.forward) + library_of(pair.backward(pair.usual_seeds()))


@pytest.mark.parametrize(
    ("body", "shapes"),
    [
        ("return x @ y", [(63, 4, 3), (63, 3, 16)]),
        ("return x @ y", [(64, 9, 3), (64, 3, 16)]),
        ("return x @ y", [(64, 4, 3), (64, 3, 15)]),
        ("return x @ y", [(4, 3), (64, 3, 16)]),
        ("return x @ y", [(64, 9, 20), (64, 20, 3)]),
    ],
)
def test_other_products_are_the_librarys(body: str, shapes: list[tuple[int, ...]]) -> None:
    function, values = of(body, "x, y"), [draw(*shape) for shape in shapes]
    check_fused(function, values)
    assert library_of(fused(function, values).forward)


def test_products_of_halves_are_summed_before_they_are_rounded() -> None:
    x, y = draw(64, 2, 4).astype(np.float16), draw(64, 4, 16).astype(np.float16)
    pair = fused(function := of("return x @ y", "x, y"), [x, y])
    (found,), _, _ = run_fused(pair, [x, y], [np.ones((64, 2, 16), np.float16)])
    assert not library_of(pair.forward)
    np.testing.assert_array_equal(found, (x.astype(np.float64) @ y.astype(np.float64)).astype(np.float16))
    assert function(x, y).dtype == np.float16


@pytest.mark.parametrize(
    ("body", "names", "shapes", "bounds"),
    [
        ("return torch.einsum('nij,njd->nid', x, y)", "x, y", [(4096, 4, 4), (4096, 4, 1024)], (1.01, 1.4)),
        ("return torch.einsum('nj,njd->nd', x, y)", "x, y", [(4096, 4), (4096, 4, 1024)], (1.01, 1.01)),
        (
            "p = torch.einsum('nkd,nkj->njd', x, y)\n    return p + (z[:, None] - p[:, 0:1])",
            *("x, y, z", [(4096, 4, 1024), (4096, 4, 4), (4096, 1024)], (1.01, 1.6)),
        ),
    ],
)
def test_mixed_streams_move_little_more_than_they_are(
    body: str, names: str, shapes: list[tuple[int, ...]], bounds: tuple[float, float]
) -> None:
    forward, backward = moved(body, names, *shapes)
    assert forward < bounds[0] and backward < bounds[1]


@pytest.mark.parametrize(
    ("norm", "columns", "most"),
    [
        ("F.rms_norm(p, [p.size(-1)], z)", 1024, 1.03),
        ("F.layer_norm(p, [p.size(-1)], z)", 1024, 1.03),
        ("F.layer_norm(p, [p.size(-1)], z)", 2048, 1.03),
        ("F.layer_norm(p, [p.size(-1)], z)", 8192, 1.7),
        ("torch.softmax(p, -1) * torch.tanh(p) * z", 1024, 1.03),
        ("p * z", 8192, 1.03),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_norm_of_mixed_streams_is_one_pass(norm: str, columns: int, most: float, dtype: Any) -> None:
    body = f"p = torch.einsum('nij,njd->nid', x, y)\n    return {norm}"
    forward, backward = moved(body, "x, y, z", (4096, 4, 4), (4096, 4, columns), (columns,), dtype=dtype)
    assert forward < 1.01 and backward < most + 0.02 * (dtype == np.float16)


ALTERNATED = "p = x @ y\n    return p + z[:, :, None] * (u - p[:, 0])[:, None]"
CONNECTED = "return x @ y + z[:, :, None] * u[:, None]"
WEIGHED = "return torch.softmax(x @ y, -1) * z[:, :, None] + u[:, None]"


@pytest.mark.parametrize("body", [ALTERNATED, CONNECTED])
@pytest.mark.parametrize("columns", [1024, 2048])
def test_streams_and_what_is_added_to_them_are_one_pass(body: str, columns: int) -> None:
    shapes = (4096, 4, 4), (4096, 4, columns), (4096, 4), (4096, columns)
    assert max(moved(body, "x, y, z, u", *shapes)) < 1.01


@pytest.mark.parametrize(
    "body", [ALTERNATED, CONNECTED, "return torch.softmax(x @ y, -1) * z[:, :, None] + u[:, None]"]
)
@pytest.mark.parametrize(("given", "made", "columns"), [(4, 4, 20), (3, 2, 2100), (2, 7, 33)])
def test_streams_taken_apart_give_what_torch_gives(body: str, given: int, made: int, columns: int) -> None:
    values = [draw(64, made, given), draw(64, given, columns), draw(64, made), draw(64, columns)]
    check_fused(of(body, "x, y, z, u"), values)


@pytest.mark.parametrize("columns", [20, 520])
def test_norms_of_mixed_streams_give_what_torch_gives(columns: int) -> None:
    """In a tile, and where none holds all products."""
    body = "p = x @ y\n    return F.layer_norm(p, [p.size(-1)], z) * (p.amax(-1, keepdim=True) + y)"
    check_fused(of(body, "x, y, z"), [draw(64, 4, 4), draw(64, 4, columns), draw(columns)])


# --- the few largest ---


@pytest.mark.parametrize("count", [1, 2, 5])
def test_the_few_largest_of_rows_are_found_by_kernels(count: int) -> None:
    function = of(
        f"v, i = torch.softmax(x, -1).topk({count}, -1)\n    return v / v.sum(-1, keepdim=True), i.to(x.dtype)", "x"
    )
    check_fused(function, [draw(6, 5)])
    assert library_of(fused(function, [draw(6, 5)]).forward) == []


def test_equal_elements_infinities_and_nan_are_found_in_the_order_of_the_op() -> None:
    nan, inf = float("nan"), float("inf")
    x = np.array(
        [[1, 2, 2, 1, 2], [-inf, -inf, -inf, -inf, -inf], [nan, 1, nan, inf, -inf], [0.0, -0.0, -inf, inf, inf]]
    )
    function = of("return x.topk(4)", "x")
    pair = fused(function, [x])
    assert not library_of(pair.forward)
    found, _, _ = run_fused(pair, [x], [np.ones((4, 4)), None])
    for have, want in zip(found, function(x), strict=True):
        np.testing.assert_array_equal(have, want)


def test_what_routes_tokens_moves_what_is_routed() -> None:
    body = "v, i = torch.softmax(x, -1).topk(2, -1)\n    return v / v.sum(-1, keepdim=True), i"
    assert max(moved(body, "x", (4096, 64))) < 1.1
    body = "p = torch.softmax(x, -1)\n    mask = F.one_hot(p.topk(2, -1)[1], 64).sum(1).to(p.dtype)\n"
    assert max(moved(f"{body}    return (mask.mean(0) * p.mean(0)).sum()", "x", (4096, 64))) < 1.15


@pytest.mark.parametrize(
    "body", ["x.topk(9)[0]", "x.topk(2, 0)[0]", "x.topk(2, largest=False)[0]", "x.half().topk(2)[0]"]
)
def test_what_else_is_asked_for_is_the_librarys(body: str) -> None:
    assert library_of(fused(of(f"return {body}", "x"), [draw(12, 12)]).forward) == ["aten::topk"]


# --- streams that are weighed ---

NORM = "y * torch.rsqrt((y * y).mean(-1, keepdim=True) + 1e-6)"
WEIGHED = {
    "summed": (f"y = (w[:, :, None] * x).sum(1)\n    return {NORM}", (4,)),
    "added to a row": (f"y = z + (x * w[:, :, None]).sum(1)\n    return y, {NORM}", (2,)),
    "by what each gives": (f"y = (torch.softmax((x * x).sum(-1), -1)[:, :, None] * x).sum(1)\n    return {NORM}", (4,)),
}
"""Of `x`, in so many streams: what is written out, where no tile holds rows that are weighed by what they give."""


@pytest.mark.parametrize("name", WEIGHED)
def test_streams_that_are_weighed_and_normalised_are_a_pass_each_way(name: str) -> None:
    body, (count,) = WEIGHED[name]
    names, shapes = "x, w, z", [(40, count, 48), (40, count), (40, 48)]
    check_fused(of(body, names), [draw(*shape) for shape in shapes])
    for columns in (1024, 4096):
        assert max(moved(body, names, (512, count, columns), (512, count), (512, columns))) < 1.01


# --- variances of columns ---

OF_COLUMNS = "centered = x - x.mean(0)\n    return "


@pytest.mark.parametrize(
    "result",
    [
        "(centered * centered).sum(0)",
        "centered.square().mean(0, keepdim=True)",
        "centered * torch.rsqrt((centered ** 2).mean(0) + 1e-5) * w",
        "torch.relu(1 - torch.sqrt(x.var(0) + 1e-4)).mean() + (x * w).square().mean()",
        "x.std([0, 1]) * w",
    ],
)
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-9), (np.float32, 2e-6)])
def test_variances_of_columns_are_right(result: str, dtype: type, tolerance: float) -> None:
    check_fused(of(OF_COLUMNS + result, "x, w"), [(draw(70, 3) + 5).astype(dtype), draw(3).astype(dtype)], tolerance)


def test_variances_of_columns_of_halves_are_rounded_as_results_alone() -> None:
    """What is left of 1 beside a deviation that is nearly 1 had three digits less."""
    function = of(f"{OF_COLUMNS}torch.relu(1 - torch.sqrt(centered.square().mean(0) + 1e-4)).mean()", "x")
    x = draw(700, 20).astype(np.float16)
    (found,), _, kernels = run_fused(fused(function, [x]), [x], [np.ones((), np.float16)])
    want = np.maximum(1 - np.sqrt(x.astype(np.float64).var(0) + 1e-4), 0).mean()
    assert_close(found, want, 6e-4)
    assert not any(isinstance(s, Cast) and s.dtype.is_half for kernel in kernels for s in kernel.body)


def test_variances_of_columns_take_one_pass() -> None:
    assert moved(f"{OF_COLUMNS}centered.square().mean(0)", "x", (65_536, 512))[0] < 1.1
    norm = f"{OF_COLUMNS}centered * torch.rsqrt(centered.square().mean(0) + 1e-5) * w"
    forward, backward = moved(norm, "x, w", (4096, 512), (512,))
    assert forward < 1.6 and backward < 1.8
    assert moved("return x.var() + 0 * w.sum()", "x, w", (4096, 1024), (1,))[0] < 1.1


def test_the_gradient_of_a_variance_of_columns_does_not_ask_for_the_sum_of_deviations() -> None:
    """It is zero, whatever each column's are multiplied by."""
    loss = f"{OF_COLUMNS}torch.relu(1 - torch.sqrt((centered * centered).mean(0) + 1e-4)).mean() + (x * x).mean()"
    assert moved(loss, "x", (4096, 512))[1] < 1.05
    weighed = f"{OF_COLUMNS}(centered * centered * w).sum()"
    assert moved(weighed, "x, w", (4096, 512), (4096, 1))[1] > 1.3, (
        "what rows are weighed by is not the same along columns"
    )


@pytest.mark.parametrize("count", [1, 3, 40])
@pytest.mark.parametrize("first", [0.0, 1e4, 60.0, -1e4, float("inf"), float("nan")])
def test_variances_of_columns_keep_their_digits(first: float, count: int) -> None:
    """The first elements may be those that are far off, as those of what is padded are."""
    x = (draw(100_000, 2) + 1e4).astype(np.float32)
    x[:count, 0] += np.float32(first)
    x[:, 1] = 7.25
    function = of(f"{OF_COLUMNS}centered.square().mean(0)", "x")
    (found,), _, _ = run_fused(fused(function, [x]), [x], [np.ones(2, np.float32)])
    assert found[1] == 0
    with np.errstate(invalid="ignore"):
        want = x.astype(np.float64)[:, 0].var()
    assert_close(found[0], want, 3e-7)


# --- deviations that are weighed, and two of them ---

WEIGHED_DEVIATIONS = {
    "masked": "m = (x * w).sum({dims}) / w.sum({dims})\n    return ((x - m).square() * w).sum({dims}) / w.sum({dims})",
    "bounded": "d = x - (x * w).sum({dims}) / w.sum({dims}).clamp(min=1)\n    return (d * w * d).mean({dims})",
    "centre": "return ((x - 0.5 * x.mean({dims})) ** 2).sum({dims}) + w.sum({dims})",
    "covariance": "return ((x - x.mean({dims})) * (w - w.mean({dims}))).sum({dims})",
    "of rows": "d = x - x.mean({dims})\n    return (w[:, :1] * d * d).sum({dims})",
}


@pytest.mark.parametrize("name", WEIGHED_DEVIATIONS)
@pytest.mark.parametrize("dims", ["0", "0, keepdim=True", "[0, 1]"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_deviations_that_are_weighed_are_one_pass(name: str, dims: str, dtype: Any) -> None:
    body = WEIGHED_DEVIATIONS[name].format(dims=dims)
    x, w = draw(700, 20) + 2, (draw(20, 700).T > 0).astype(float)
    x, w = x.astype(dtype), w.astype(dtype)
    function = of(body, "x, w")
    (found,), _, _ = run_fused(fused(function, [x, w]), [x, w], [np.ones(of_wide(body, x, w).shape, dtype)])
    assert_close(np.asarray(found, np.float64), of_wide(body, x, w), float({2: 8e-3, 4: 1e-5}[x.itemsize]))
    assert moved(body, "x, w", (65_536, 512), (65_536, 512))[0] < 1.1


NORMALISED = {
    "by a mask": "d = x - (x * w).sum({dims}) / w.sum({dims})\n"
    "    return d * torch.rsqrt((d * d * w).sum({dims}) / w.sum({dims}) + 1e-3) * w",
    "by what scales them": "d = x * w - (x * w).mean({dims})\n"
    "    return d * w * torch.rsqrt((d.square() * 3 * w).mean({dims}) + 1e-3)",
    "by two": "d = x - x.mean({dims})\n    return d * torch.rsqrt((w * d * (d * w + d)).mean({dims}) + 1e-3) - w",
}


@pytest.mark.parametrize("name", NORMALISED)
@pytest.mark.parametrize("dims", ["0", "[0, 1]"])
def test_gradients_that_go_through_what_is_weighed_take_two_passes(name: str, dims: str) -> None:
    """What is the same along columns stands among factors that are not."""
    body = f"w = w.detach()\n    {NORMALISED[name].format(dims=dims)}"
    x, w = draw(700, 20) + 2, np.abs(draw(20, 700).T)
    check_fused(of(body, "x, w"), [x, w])
    assert len(of(body, "x, w").kernels(*[np.zeros((65_536, 512), np.float32)] * 2).backward) == 3


def of_wide(body: str, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """What a function gives in float64, op by op."""
    with gs.settings.optimize(False):
        return np.asarray(of(body, "x, w")(x.astype(np.float64), w.astype(np.float64)))


@pytest.mark.parametrize("value", [1e4, float("inf"), float("nan"), 0.0])
@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_deviations_that_are_weighed_keep_their_digits(value: float, weight: float) -> None:
    x, w = (draw(100_000, 2) + 1e4).astype(np.float32), np.ones((100_000, 2), np.float32)
    x[:40, 0], w[:40, 0], x[:, 1] = value, weight, 7.25
    body = WEIGHED_DEVIATIONS["masked"].format(dims="0")
    (found,), _, _ = run_fused(fused(of(body, "x, w"), [x, w]), [x, w], [np.ones(2, np.float32)])
    assert_close(found, of_wide(body, x, w), 1e-5)
    assert 0 <= found[1] < 1e-11


# --- exponentials of columns, part by part ---


EXPONENTIALS = {
    "torch.softmax(x, {dim})": 1.55,
    "torch.logsumexp(x, {dim})": 1.1,
    "torch.logsumexp(x, -1, True) + torch.logsumexp(x, {dim}, True)": 1.6,
    "torch.softmax(x, {dim}) + torch.softmax(x, -1), x.amax({dim})": 1.6,
}
INFINITIES = {"none": 0.0, "below": -np.inf, "above": np.inf, "no number": np.nan}


@pytest.mark.parametrize("body", EXPONENTIALS)
@pytest.mark.parametrize(("shape", "dim"), [((300, 7), 0), ((257, 130), 0), ((2, 259, 3, 1), 1)])
def test_exponentials_of_columns_give_what_torch_gives(body: str, shape: tuple[int, ...], dim: int) -> None:
    """Of parts that are short, of blocks, and where all of a part is infinite, of a column too, or one element is."""
    function = of(f"return {body.format(dim=dim)}", "x")
    kernels = check_fused(function, [draw(*shape)])
    assert any(axis.size in (64, 128) for kernel in kernels for axis in kernel.axes)
    check_fused(function, [draw(*shape).astype(np.float16)], 2e-2)
    for infinite in INFINITIES.values():
        x = 40 * draw(*shape)
        columns = np.moveaxis(x, dim, 0)
        columns[3, ..., :1] = infinite
        with np.errstate(invalid="ignore"):
            check_fused(function, [x], 1e-8)
            columns[:150, ..., :1] = -np.inf
            check_fused(function, [x], 1e-8)
            # What is left has no exponential beside 0.
            check_fused(function, [x - 2000], 1e-8)
            columns[150:, ..., :1] = -np.inf
            check_fused(function, [x], 1e-8)


@pytest.mark.parametrize(("body", "most"), EXPONENTIALS.items())
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exponentials_of_columns_are_one_pass(body: str, most: float, dtype: Any) -> None:
    shape = (2048, 2048) if "-1" in body else (4096, 512)
    assert moved(f"return {body.format(dim=0)}", "x", shape, dtype=dtype)[0] < most


def test_columns_that_programs_take_whole_are_not_cut() -> None:
    listing = of("return torch.softmax(x, 0)", "x").kernels(np.zeros((4096, 1024), np.float32))
    assert len(listing.forward) == 1


@pytest.mark.parametrize("found", [float("inf"), float("nan")])
def test_a_column_whose_deviations_are_no_numbers_has_no_gradient_that_is_one(found: float) -> None:
    text = "def f(x, w):\n    d = x - x.mean(0)\n    return ((d * d).sum(0) * w).sum()\n"
    function = gs.CompilationUnit(text).f
    x = np.random.default_rng(5).standard_normal((70, 20))
    x[3, 2] = found
    with gs.settings.backend("c"):
        _, pullback = gs.vjp(function, x, np.ones(20))
        gradient = pullback(1.0)[0]
    assert np.isnan(gradient[:, 2]).all()
    assert np.isfinite(np.delete(gradient, 2, 1)).all()
