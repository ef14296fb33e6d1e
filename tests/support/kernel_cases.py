"""The kernels that the emitter's tests run and compile: what fusion makes, built by hand."""

from __future__ import annotations

from dataclasses import dataclass

from gradscript.compiler.kernel_ir.index import axis, constant, value
from gradscript.compiler.kernel_ir.kernel import Condition, Kernel, Role
from gradscript.compiler.kernel_ir.read_numbers import with_numbers_read
from gradscript.compiler.scheduling.schedule import LoopedRow, Row, Schedule, Tiled
from gradscript.compiler.types.dtypes import (
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    DType,
)
from gradscript.lang.light_dataclasses import replace
from gradscript.lang.source import Source, Span
from kernel_building import KernelBuilder

SOURCE = Source("def gelu_mlp(x, b):\n    return torch.sigmoid(x + b) * x\n", "mlp.grad")
SPAN = Span(SOURCE, 27, 58)
FLOATS = (FLOAT32, FLOAT16, BFLOAT16)
LOOP = LoopedRow(4, 2, 1, 64)


def chain(shape: tuple[int, ...] = (64, 1000), dtype: DType = FLOAT32) -> Kernel:
    """A contiguous pointwise kernel of any rank."""
    axes = "ijkl"[: len(shape)]
    k = KernelBuilder("silu_scaled", **dict(zip(axes, shape, strict=True)))
    k.input("x", dtype, shape)
    k.output("result", dtype, shape)
    k.number("alpha", _number_dtype(dtype))
    x = k.load("x", axes)
    negated = k.compute("neg", x)
    e = k.compute("exp", negated)
    total = k.compute("add", e, 1.0)
    sigmoid = k.compute("div", 1.0, total, name="sigmoid")
    product = k.compute("mul", x, sigmoid)
    k.store("result", axes, k.compute("mul", product, "alpha"))
    return k.build(sources=(SPAN,))


def _number_dtype(dtype: DType) -> DType:
    return FLOAT64 if dtype.is_floating else INT64


def broadcast(rows: int = 37, columns: int = 130, dtype: DType = FLOAT32) -> Kernel:
    """A bias along columns, a scale along rows, and a matrix of which every other column is taken."""
    k = KernelBuilder("scaled_bias", i=rows, j=columns)
    k.input("x", dtype, (rows, columns), (2 * columns, 2))
    k.input("bias", dtype, (columns,))
    k.input("scale", dtype, (rows, 1))
    k.output("result", dtype, (rows, columns))
    product = k.compute("mul", k.load("x", "ij"), k.load("scale", "i-"))
    k.store("result", "ij", k.compute("add", product, k.load("bias", "j")))
    return k.build()


def transposed(rows: int = 100, columns: int = 130, dtype: DType = FLOAT32) -> Kernel:
    """The sum of a matrix and a transposed one."""
    k = KernelBuilder("add_transposed", i=rows, j=columns)
    k.input("x", dtype, (rows, columns))
    k.input("y", dtype, (rows, columns), (1, rows))
    k.output("result", dtype, (rows, columns))
    k.store("result", "ij", k.compute("add", k.load("x", "ij"), k.load("y", "ij")))
    return k.build()


def softmax(rows: int = 256, columns: int = 1000, dtype: DType = FLOAT32) -> Kernel:
    k = KernelBuilder("softmax", i=rows, j=(columns, "reduction"))
    k.input("x", dtype, (rows, columns))
    k.output("result", dtype, (rows, columns))
    x = k.load("x", "ij")
    m = k.reduce("max", x, "j", name="m")
    numerator = k.compute("exp", k.compute("sub", x, m), name="numerator")
    denominator = k.reduce("sum", numerator, "j", name="denominator")
    k.store("result", "ij", k.compute("div", numerator, denominator))
    return k.build()


def logsumexp(rows: int = 256, columns: int = 1000, dtype: DType = FLOAT32) -> Kernel:
    k = KernelBuilder("logsumexp", i=rows, j=(columns, "reduction"))
    k.input("x", dtype, (rows, columns))
    k.output("result", dtype, (rows,))
    x = k.load("x", "ij")
    m = k.reduce("max", x, "j", name="m")
    s = k.reduce("sum", k.compute("exp", k.compute("sub", x, m)), "j", name="s")
    k.store("result", "i", k.compute("add", k.compute("log", s), m))
    return k.build()


def softmax_columns(rows: int = 50, columns: int = 130, dtype: DType = FLOAT32) -> Kernel:
    """A softmax along the first dimension: lanes along the second one."""
    k = KernelBuilder("softmax_columns", j=columns, i=(rows, "reduction"))
    k.input("x", dtype, (rows, columns))
    k.output("result", dtype, (rows, columns))
    x = k.load("x", "ij")
    m = k.reduce("max", x, "i", name="m")
    e = k.compute("exp", k.compute("sub", x, m), name="e")
    s = k.reduce("sum", e, "i", name="s")
    k.store("result", "ij", k.compute("div", e, s))
    return k.build()


def layer_norm(rows: int = 256, columns: int = 768, dtype: DType = FLOAT32) -> Kernel:
    k = KernelBuilder("layer_norm", i=rows, j=(columns, "reduction"))
    k.input("x", dtype, (rows, columns))
    k.input("weight", dtype, (columns,))
    k.input("bias", dtype, (columns,))
    k.output("result", dtype, (rows, columns))
    k.output("mean_out", FLOAT32, (rows,))
    k.output("rstd_out", FLOAT32, (rows,))
    k.number("eps", _number_dtype(dtype))
    x = k.load("x", "ij")
    mean = k.compute("div", k.reduce("sum", x, "j"), float(columns), name="mean")
    centered = k.compute("sub", x, mean, name="centered")
    squares = k.reduce("sum", k.compute("mul", centered, centered), "j")
    variance = k.compute("div", squares, float(columns), name="variance")
    rstd = k.compute("rsqrt", k.compute("add", variance, "eps"), name="rstd")
    normalized = k.compute("mul", centered, rstd)
    scaled = k.compute("mul", normalized, k.load("weight", "j"))
    k.store("result", "ij", k.compute("add", scaled, k.load("bias", "j")))
    k.store("mean_out", "i", mean)
    k.store("rstd_out", "i", rstd)
    return k.build()


def layer_norm_backward(rows: int = 512, columns: int = 768, dtype: DType = FLOAT32) -> Kernel:
    """The input's gradient, and the weight's and bias's, which are reduced over the rows."""
    k = KernelBuilder("layer_norm_backward", i=rows, j=(columns, "reduction"))
    k.input("grad_output", dtype, (rows, columns))
    k.input("x", dtype, (rows, columns))
    k.input("weight", dtype, (columns,))
    k.input("mean", FLOAT32, (rows,))
    k.input("rstd", FLOAT32, (rows,))
    k.output("grad_x", dtype, (rows, columns))
    k.output("grad_weight", dtype, (columns,))
    k.output("grad_bias", dtype, (columns,))
    grad = k.load("grad_output", "ij", name="grad")
    x = k.load("x", "ij")
    mean, rstd = k.load("mean", "i"), k.load("rstd", "i")
    normalized = k.compute("mul", k.compute("sub", x, mean), rstd, name="normalized")
    weighted = k.compute("mul", grad, k.load("weight", "j"), name="weighted")
    first = k.compute("div", k.reduce("sum", weighted, "j"), float(columns), name="mean_grad")
    products = k.compute("mul", weighted, normalized)
    second = k.compute("div", k.reduce("sum", products, "j"), float(columns), name="mean_product")
    inner = k.compute("sub", k.compute("sub", weighted, first), k.compute("mul", normalized, second))
    k.store("grad_x", "ij", k.compute("mul", inner, rstd))
    k.store("grad_weight", "j", k.reduce("sum", k.compute("mul", grad, normalized), "i", name="grad_w"))
    k.store("grad_bias", "j", k.reduce("sum", grad, "i", name="grad_b"))
    return k.build()


def full_sum(size: int = 100_003, dtype: DType = FLOAT32) -> Kernel:
    """The mean of everything."""
    k = KernelBuilder("mean_square", i=(size, "reduction"))
    k.input("x", dtype, (size,))
    k.output("result", dtype, ())
    x = k.load("x", "i")
    total = k.reduce("sum", k.compute("mul", x, x), "i", name="total")
    k.store("result", "", k.compute("div", total, float(max(size, 1))))
    return k.build()


def column_sum(rows: int = 1000, columns: int = 130, dtype: DType = FLOAT32) -> Kernel:
    k = KernelBuilder("column_sum", i=rows, j=columns)
    k.input("x", dtype, (rows, columns))
    k.output("result", dtype, (columns,))
    k.store("result", "j", k.reduce("sum", k.load("x", "ij"), "i"))
    return k.build()


def bias_gradient(rows: int = 300, columns: int = 70, dtype: DType = FLOAT32) -> Kernel:
    """A pointwise gradient, and its sum over the rows, from one pass."""
    k = KernelBuilder("relu_bias_backward", i=rows, j=columns)
    k.input("grad_output", dtype, (rows, columns))
    k.input("y", dtype, (rows, columns))
    k.output("grad_x", dtype, (rows, columns))
    k.output("grad_bias", dtype, (columns,))
    grad, y = k.load("grad_output", "ij"), k.load("y", "ij")
    grad_x = k.compute("where", k.compute("gt", y, 0.0), grad, 0.0, name="gradient")
    k.store("grad_x", "ij", grad_x)
    k.store("grad_bias", "j", k.reduce("sum", grad_x, "i"))
    return k.build()


def loss_and_gradient(size: int = 30_001, dtype: DType = FLOAT32) -> Kernel:
    """A mean of squares and its gradient, from one pass."""
    k = KernelBuilder("mean_squared_error", i=size)
    k.input("x", dtype, (size,))
    k.input("y", dtype, (size,))
    k.output("loss", dtype, ())
    k.output("grad_x", dtype, (size,))
    error = k.compute("sub", k.load("x", "i"), k.load("y", "i"), name="error")
    k.store("grad_x", "i", k.compute("mul", error, 2.0 / max(size, 1)))
    total = k.reduce("sum", k.compute("mul", error, error), "i", name="total")
    k.store("loss", "", k.compute("div", total, float(max(size, 1))))
    return k.build()


def argmax(rows: int = 33, columns: int = 257, dtype: DType = FLOAT32) -> Kernel:
    k = KernelBuilder("argmax", i=rows, j=(columns, "reduction"))
    k.input("x", dtype, (rows, columns))
    k.output("largest", dtype, (rows,))
    k.output("position", INT64, (rows,))
    x = k.load("x", "ij")
    k.store("largest", "i", k.reduce("max", x, "j"))
    k.store("position", "i", k.reduce("argmax", x, "j"))
    return k.build()


def full_argmax(size: int = 70_001, dtype: DType = FLOAT32) -> Kernel:
    k = KernelBuilder("argmin_all", i=(size, "reduction"))
    k.input("x", dtype, (size,))
    k.output("position", INT64, ())
    k.store("position", "", k.reduce("argmin", k.load("x", "i"), "i"))
    return k.build()


def embedding(tokens: int = 45, columns: int = 96, dtype: DType = FLOAT32) -> Kernel:
    """Rows of a table at loaded indices."""
    k = KernelBuilder("embedding", i=tokens, j=columns)
    k.input("table", dtype, (50, columns))
    k.input("indices", INT64, (tokens,))
    k.output("result", dtype, (tokens, columns))
    index = k.load("indices", "i", name="index")
    k.store("result", "ij", k.load("table", [value(index), axis("j")]))
    return k.build()


def cross_entropy(rows: int = 64, columns: int = 1000, dtype: DType = FLOAT32) -> Kernel:
    """The mean loss: rows at once, and their sum in two stages; the target is compared with the position."""
    k = KernelBuilder("cross_entropy", i=rows, j=(columns, "reduction"))
    k.input("logits", dtype, (rows, columns))
    k.input("target", INT64, (rows,))
    k.output("loss", dtype, ())
    x = k.load("logits", "ij", name="x")
    m = k.reduce("max", x, "j", name="m")
    s = k.reduce("sum", k.compute("exp", k.compute("sub", x, m)), "j", name="s")
    hit = k.compute("eq", k.position(axis("j")), k.load("target", "i"))
    chosen = k.reduce("sum", k.compute("where", hit, x, 0.0, dtype=FLOAT32), "j", name="chosen")
    row = k.compute("sub", k.compute("add", k.compute("log", s), m), chosen, name="row_loss")
    total = k.reduce("sum", row, "i", name="total")
    k.store("loss", "", k.compute("div", total, float(max(rows, 1))))
    return k.build()


def dropout(rows: int = 30, columns: int = 70, dtype: DType = FLOAT32) -> Kernel:
    k = KernelBuilder("dropout", i=rows, j=columns)
    k.input("x", dtype, (rows, columns))
    k.output("result", dtype, (rows, columns))
    k.output("mask", BOOL, (rows, columns))
    k.number("seed", INT64)
    keep = k.compute("ge", k.uniform("seed", axis("i") * columns + axis("j")), 0.25, name="keep")
    scaled = k.compute("mul", k.load("x", "ij"), 1.3333333333333333)
    k.store("result", "ij", k.compute("where", keep, scaled, 0.0))
    k.store("mask", "ij", keep)
    return k.build()


def drawn(
    rows: int = 5, columns: int = 64, first: int = 0, step: int = 1, reduced: str = "", is_scaled: bool = False
) -> Kernel:
    """Random numbers at places of every alignment; their sums along an axis, or with a scale for each row."""
    roles = {name: (size, "reduction") if name == reduced else size for name, size in (("i", rows), ("j", columns))}
    k = KernelBuilder("drawn", **roles)
    if is_scaled:
        k.input("scale", FLOAT32, (rows,))
    k.output("result", FLOAT32, (rows, columns))
    k.number("seed", INT64)
    uniform = k.uniform("seed", axis("i") * columns + axis("j") * step + first)
    k.store("result", "ij", k.compute("mul", uniform, k.load("scale", "i")) if is_scaled else uniform)
    if reduced:
        kept = "j" if reduced == "i" else "i"
        k.output("total", FLOAT32, (columns if reduced == "i" else rows,))
        k.store("total", kept, k.reduce("sum", uniform, reduced))
    return k.build()


def in_memory(kernel: Kernel) -> Kernel:
    """The kernel reading the numbers that it would be passed."""
    return with_numbers_read(kernel, [parameter.name for parameter in kernel.parameters])


def any_all(rows: int = 31, columns: int = 67, dtype: DType = FLOAT32) -> Kernel:
    k = KernelBuilder("any_all", i=rows, j=(columns, "reduction"))
    k.input("x", dtype, (rows, columns))
    k.output("some", BOOL, (rows,))
    k.output("every", BOOL, (rows,))
    positive = k.compute("gt", k.load("x", "ij"), 0.5, name="positive")
    k.store("some", "i", k.reduce("any", positive, "j"))
    k.store("every", "i", k.reduce("all", k.compute("gt", k.load("x", "ij"), -1.5), "j"))
    return k.build()


def integers(size: int = 1001, dtype: DType = INT32) -> Kernel:
    """Quotients and remainders rounded down, bits, and a bool as a number."""
    k = KernelBuilder("integers", i=size)
    k.input("x", dtype, (size,))
    k.input("y", dtype, (size,))
    k.input("flag", BOOL, (size,))
    k.output("quotient", dtype, (size,))
    k.output("rest", dtype, (size,))
    k.output("bits", dtype, (size,))
    k.output("odd", BOOL, (size,))
    x, y, flag = k.load("x", "i"), k.load("y", "i"), k.load("flag", "i")
    k.store("quotient", "i", k.compute("floordiv", x, y))
    rest = k.compute("remainder", x, y, name="rest")
    k.store("rest", "i", k.compute("add", rest, k.compute("number", flag, dtype=dtype)))
    k.store("bits", "i", k.compute("xor", k.compute("and", x, 12), k.compute("shl", y, 2)))
    odd = k.compute("ne", k.compute("and", x, 1), 0)
    k.store("odd", "i", k.compute("or", odd, flag))
    return k.build()


def padded(rows: int = 13, columns: int = 19, dtype: DType = FLOAT32) -> Kernel:
    """Zeros around a matrix: loads with conditions."""
    k = KernelBuilder("pad", i=rows + 2, j=columns + 4)
    k.input("x", dtype, (rows, columns))
    k.output("result", dtype, (rows + 2, columns + 4))
    i, j = axis("i") - 1, axis("j") - 2
    inside = (Condition(i, 0, rows), Condition(j, 0, columns))
    k.store("result", "ij", k.load("x", [i, j], inside, -1.0))
    return k.build()


def windows(rows: int = 12, columns: int = 20, dtype: DType = FLOAT32) -> Kernel:
    """Index arithmetic with quotients and remainders: every element of a flat range, from a matrix read backwards."""
    size = rows * columns
    k = KernelBuilder("reversed_reshape", i=size)
    sizes = {"i": size}
    k.input("x", dtype, (rows, columns))
    k.output("result", dtype, (size,))
    flat = constant(size - 1) - axis("i")
    k.store("result", "i", k.load("x", [flat.divided(columns, sizes), flat.modulo(columns, sizes)]))
    return k.build()


def scalar(dtype: DType = FLOAT32) -> Kernel:
    k = KernelBuilder("scalar")
    k.input("x", dtype, ())
    k.output("result", dtype, ())
    k.store("result", "", k.compute("sqrt", k.load("x", "")))
    return k.build()


def outer_statistics(groups: int = 6, outer: int = 9, inner: int = 35, dtype: DType = FLOAT32) -> Kernel:
    """Sums over the first and last of three dimensions."""
    k = KernelBuilder("channel_sum", j=groups, i=(outer, "reduction"), k=(inner, "reduction"))
    k.input("x", dtype, (outer, groups, inner))
    k.output("total", FLOAT32, (groups,))
    k.output("largest", FLOAT32, (groups,))
    x = k.load("x", "ijk")
    k.store("total", "j", k.reduce("sum", x, "ik"))
    k.store("largest", "j", k.reduce("max", x, "ik"))
    return k.build()


def tile(
    batch: int = 20, depth: int = 3, columns: int = 6, dtype: DType = FLOAT32, *, outermost: bool = True
) -> Kernel:
    """Reductions over either axis of a small tile, and over both, one after the other. A batch may lie innermost."""
    k = KernelBuilder("balanced", i=batch, j=(depth, "reduction"), k=(columns, "reduction"))
    shape, at = ((batch, depth, columns), "ijk") if outermost else ((depth, columns, batch), "jki")
    k.input("x", dtype, shape)
    k.output("result", dtype, shape)
    k.output("place", INT64, (batch, depth))
    k.output("above", BOOL, (batch, columns))
    k.output("product", FLOAT32, (batch,))
    x = k.load("x", at)
    wide = x if dtype == FLOAT32 else k.cast(x, FLOAT32)
    plan = k.compute("exp", k.compute("sub", wide, k.reduce("max", wide, "jk")))
    rows = k.compute("div", plan, k.reduce("sum", plan, "k"))
    balanced = k.compute("div", rows, k.reduce("sum", rows, "j"))
    k.store("result", at, balanced)
    k.store("place", "ij", k.reduce("argmax", wide, "k"))
    k.store("above", "ik", k.reduce("any", k.compute("gt", wide, 0.5, dtype=BOOL), "j"))
    k.store("product", "i", k.reduce("prod", k.compute("add", k.reduce("min", wide, "j"), 2.0), "k"))
    return k.build()


def tile_in_turns(batch: int = 9, depth: int = 3, columns: int = 6, dtype: DType = FLOAT32) -> Kernel:
    """What is costly is needed within each row's loops, and again once columns, and all, have been reduced."""
    k = KernelBuilder("turns", i=batch, j=(depth, "reduction"), k=(columns, "reduction"))
    k.input("x", dtype, (batch, depth, columns))
    k.output("result", dtype, (batch, depth, columns))
    e = k.compute("exp", k.load("x", "ijk"))
    rows = k.compute("div", e, k.reduce("sum", e, "k"))
    columns_too = k.compute("div", rows, k.reduce("sum", rows, "j"))
    shifted = k.compute("sub", columns_too, k.reduce("sum", k.compute("mul", columns_too, e), "k"))
    total = k.reduce("sum", k.compute("mul", shifted, e), "jk")
    k.store("result", "ijk", k.compute("sub", k.compute("mul", e, shifted), total))
    return k.build()


def tile_of_three(batch: int = 9, inner: int = 3, outer: int = 4, columns: int = 6, dtype: DType = FLOAT32) -> Kernel:
    """Streams that are mixed, and sums of the rows that this gives beside them."""
    axes: dict[str, int | tuple[int, Role]] = {"i": batch}
    axes |= {"j": (inner, "reduction"), "k": (outer, "reduction"), "l": (columns, "reduction")}
    k = KernelBuilder("mixed", **axes)
    k.input("x", dtype, (batch, inner, columns))
    k.input("mixing", dtype, (inner, outer))
    k.output("result", dtype, (batch, outer, columns))
    k.output("total", dtype, (batch, outer))
    mixed = k.reduce("sum", k.compute("mul", k.load("x", "ijl"), k.load("mixing", "jk")), "j")
    found = k.compute("exp", mixed)
    total = k.reduce("sum", found, "l")
    k.store("result", "ikl", k.compute("sub", found, total))
    k.store("total", "ik", total)
    return k.build()


def tile_backward(batch: int = 37, depth: int = 3, columns: int = 10, dtype: DType = FLOAT32) -> Kernel:
    """What a tile gives element by element, and sums of its rows over the batch."""
    k = KernelBuilder("channels", i=batch, j=(depth, "reduction"), k=(columns, "reduction"))
    for name in ("x", "grad"):
        k.input(name, dtype, (batch, depth, columns))
    k.output("grad_x", dtype, (batch, depth, columns))
    k.output("grad_weight", dtype, (depth,))
    x, grad = k.load("x", "ijk"), k.load("grad", "ijk")
    if dtype != FLOAT32:
        x, grad = k.cast(x, FLOAT32), k.cast(grad, FLOAT32)
    product = k.compute("mul", x, grad)
    k.store("grad_weight", "j", k.reduce("sum", k.reduce("sum", product, "k"), "i"))
    k.store("grad_x", "ijk", k.compute("sub", grad, k.compute("mul", x, k.reduce("sum", product, "jk"))))
    return k.build()


def specials(size: int = 300, dtype: DType = FLOAT32) -> Kernel:
    """Functions that libdevice has, and those that are composed."""
    k = KernelBuilder("specials", i=size)
    k.input("x", dtype, (size,))
    k.input("y", dtype, (size,))
    names = ("erf", "tanh", "log1p_abs", "floordiv", "remainder", "sign", "log_ndtr", "maximum", "pow")
    for name in names:
        k.output(name, dtype, (size,))
    x, y = k.load("x", "i"), k.load("y", "i")
    k.store("erf", "i", k.compute("erf", x))
    k.store("tanh", "i", k.compute("tanh", x))
    k.store("log1p_abs", "i", k.compute("log1p", k.compute("abs", x)))
    for name in ("floordiv", "remainder", "maximum"):
        k.store(name, "i", k.compute(name, x, y))
    k.store("sign", "i", k.compute("sign", x))
    k.store("log_ndtr", "i", k.compute("log_ndtr", x))
    k.store("pow", "i", k.compute("pow", x, 3.0))
    return k.build()


def dynamic(kernel: Kernel, name: str) -> Kernel:
    """The kernel with one axis's size passed."""
    return replace(kernel, axes=tuple(replace(a, dynamic=a.name == name) for a in kernel.axes))


@dataclass(frozen=True)
class Case:
    """A kernel to run. `special` puts infinities and NaN among its inputs; sums add up to about `scale`."""

    name: str
    kernel: Kernel
    special: bool = False
    schedule: Schedule | None = None
    scale: float = 1.0


GROUPS: dict[str, list[Case]] = {
    "pointwise": [
        *(Case(f"chain {shape} {dtype}", chain(shape, dtype)) for shape in [(7,), (3, 5, 11)] for dtype in FLOATS),
        Case("chain of nothing", chain((0, 3))),
        Case("chain of one", chain((1, 1))),
        Case("chain, special", chain((3, 101)), special=True),
        Case("chain float64", chain((3, 101), FLOAT64), scale=1e6),
        Case("chain, dynamic", dynamic(chain((5, 31)), "i")),
        *(Case(f"broadcast {dtype}", broadcast(dtype=dtype)) for dtype in FLOATS),
        Case("broadcast, one column", broadcast(13, 1)),
        Case("broadcast, dynamic rows", dynamic(broadcast(5, 7), "i")),
        Case("broadcast, dynamic columns", dynamic(broadcast(5, 7), "j")),
        Case("transposed", transposed()),
        Case("transposed, small", transposed(5, 7)),
        *(Case(f"embedding {dtype}", embedding(7, 33, dtype)) for dtype in FLOATS),
        Case("pad", padded()),
        Case("reversed", windows()),
        Case("scalar", scalar()),
        Case("dropout", dropout()),
        Case("dropout of whole rows", dropout(5, 64)),
        *(Case(f"numbers from {n}", drawn(first=n)) for n in (0, 1, 2, 3, 4, 2**33)),
        *(Case(f"numbers from {n}, rows of 61", drawn(columns=61, first=n)) for n in (0, 3)),
        Case("numbers in reverse", drawn(first=63, step=-1)),
        Case("every third number", drawn(step=3)),
        Case("numbers in a tile", drawn(8, 64, is_scaled=True), schedule=Tiled(4, 1, "i", 4, 32)),
        Case("numbers in tiles of two columns", drawn(8, 64, is_scaled=True), schedule=Tiled(4, 1, "i", 4, 2)),
        Case("dropout by a seed in memory", in_memory(dropout())),
        Case("numbers by a seed in memory", in_memory(drawn(first=3))),
        Case("scaled by a number in memory", in_memory(chain((30, 70)))),
        Case("halves scaled by a number in memory", in_memory(chain((30, 70), FLOAT16)), scale=2.0),
        Case("numbers, dynamic rows", dynamic(drawn(), "i")),
        Case("numbers, dynamic columns", dynamic(drawn(), "j")),
        Case("integers", integers(101)),
        Case("integers of 64 bits", integers(101, INT64)),
        Case("specials", specials(61)),
        Case("specials, special", specials(61), special=True),
    ],
    "rows": [
        *(Case(f"softmax {dtype}", softmax(5, 37, dtype)) for dtype in FLOATS),
        Case("softmax, one column", softmax(3, 1)),
        Case("softmax, one row", softmax(1, 130)),
        Case("softmax, whole rows", softmax(3, 128)),
        Case("softmax, special", softmax(7, 61), special=True),
        Case("softmax, no rows", softmax(0, 5)),
        Case("softmax, several rows", softmax(9, 61), schedule=Row(4, 1, 4, 64)),
        Case("softmax of columns", softmax_columns(5, 70)),
        Case("softmax of columns, looped", softmax_columns(37, 70), schedule=LoopedRow(4, 2, 64, 8)),
        *(Case(f"layer norm {dtype}", layer_norm(5, 37, dtype), scale=4.0) for dtype in FLOATS),
        Case("layer norm, several rows", layer_norm(5, 37), schedule=Row(4, 1, 4, 64), scale=4.0),
        Case("argmax", argmax(5, 67)),
        Case("argmax, special", argmax(5, 67), special=True),
        Case("argmax, several rows", argmax(5, 67), schedule=Row(4, 1, 4, 128)),
        Case("any, all", any_all(9, 67)),
        *(Case(f"numbers, rows of {n}", drawn(5, n, reduced="j"), scale=40.0) for n in (61, 64, 128)),
        Case("numbers, several rows", drawn(5, 64, 4, reduced="j"), schedule=Row(4, 1, 4, 64), scale=40.0),
        Case("numbers, several odd rows", drawn(5, 61, 4, reduced="j"), schedule=Row(4, 1, 4, 64), scale=40.0),
        Case("numbers by a seed in memory", in_memory(drawn(5, 61, reduced="j")), scale=40.0),
        Case("numbers of columns", drawn(5, 64, reduced="i"), scale=40.0),
        Case("cross entropy", cross_entropy(5, 61), scale=4.0),
        Case("sums of channels", outer_statistics(3, 5, 7), scale=4.0),
        Case("float64 softmax", softmax(3, 37, FLOAT64)),
    ],
    "loops": [
        *(Case(f"softmax {dtype}", softmax(3, 300, dtype), schedule=LOOP) for dtype in FLOATS),
        Case("softmax, whole blocks", softmax(3, 256), schedule=LOOP),
        Case("softmax, special", softmax(7, 150), special=True, schedule=LOOP),
        Case("softmax, several rows", softmax(5, 150), schedule=LoopedRow(4, 2, 4, 64)),
        Case("softmax, long", softmax(2, 40_001)),
        Case("softmax, dynamic", dynamic(softmax(3, 150), "j")),
        Case("log of a sum of exponentials", logsumexp(3, 150), schedule=LOOP),
        Case("layer norm", layer_norm(3, 300), schedule=LOOP, scale=4.0),
        Case("layer norm, long", layer_norm(2, 40_001), scale=8.0),
        Case("argmax", argmax(3, 150), schedule=LOOP),
        Case("argmax, special", argmax(5, 150), special=True, schedule=LOOP),
        Case("any, all", any_all(3, 150), schedule=LOOP),
        *(Case(f"numbers, rows of {n}", drawn(3, n, reduced="j"), schedule=LOOP, scale=99.0) for n in (150, 152)),
        Case("numbers by a seed in memory", in_memory(drawn(3, 150, reduced="j")), schedule=LOOP, scale=99.0),
        Case("numbers from 3", drawn(3, 152, 3, reduced="j"), schedule=LOOP, scale=99.0),
        Case("sums of channels", outer_statistics(3, 5, 27), schedule=LOOP, scale=4.0),
        Case("float64 softmax", softmax(3, 150, FLOAT64), schedule=LOOP),
    ],
    "tiles": [
        *(Case(f"tile {dtype}", tile(dtype=dtype), scale=4.0) for dtype in FLOATS),
        Case("tile, whole", tile(64, 4, 8), scale=64.0),
        Case("tile in turns", tile_in_turns(), scale=64.0),
        Case("tile of three axes", tile_of_three(), scale=64.0),
        Case("tile, special", tile(9, 5, 7), special=True),
        Case("tile, one program", tile(1, 5, 7), scale=64.0),
        Case("tile of nothing", tile(0)),
        Case("tile of many rows", tile(5000, 2, 3), scale=4.0),
        Case("tile, dynamic", dynamic(tile(37, 4, 4), "i"), scale=4.0),
        Case("tile, batch innermost", tile(70, 3, 6, outermost=False), scale=4.0),
        *(Case(f"tile backward {dtype}", tile_backward(dtype=dtype), scale=16.0) for dtype in FLOATS),
        Case("tile backward, whole", tile_backward(64, 4, 16), scale=16.0),
        Case("tile backward, several rows at once", tile_backward(70, 8, 33), scale=64.0),
    ],
    "split": [
        *(Case(f"layer norm backward {dtype}", layer_norm_backward(37, 61, dtype), scale=16.0) for dtype in FLOATS),
        Case("layer norm backward, whole chunks", layer_norm_backward(32, 64), scale=16.0),
        Case("layer norm backward, one row", layer_norm_backward(1, 61), scale=16.0),
        Case("layer norm backward, no rows", layer_norm_backward(0, 61)),
        Case("layer norm backward, long", layer_norm_backward(9, 20_001), scale=64.0),
        *(
            Case(f"layer norm backward, {columns} in parts", layer_norm_backward(19, columns, dtype), scale=256.0)
            for columns, dtype in ((11_008, FLOAT32), (16_384, FLOAT16), (12_288, BFLOAT16), (9_999, FLOAT32))
        ),
        Case("cross entropy, chunks", cross_entropy(29, 61), scale=4.0),
        Case("sum", full_sum(70_001), scale=4.0),
        Case("sum of one chunk", full_sum(101), scale=4.0),
        Case("sum of nothing", full_sum(0)),
        Case("column sum", column_sum(300, 70), scale=32.0),
        Case("column sum, bfloat16", column_sum(300, 70, BFLOAT16), scale=32.0),
        Case("column sum, one column", column_sum(300, 1), scale=32.0),
        Case("column sum of nothing", column_sum(0, 70)),
        Case("bias gradient", bias_gradient(), scale=32.0),
        Case("bias gradient, one row", bias_gradient(1, 70)),
        Case("loss and gradient", loss_and_gradient(), scale=4.0),
        Case("loss and gradient of nothing", loss_and_gradient(0)),
        Case("cross entropy, long", cross_entropy(9, 20_001), scale=16.0),
        Case("argmin of everything", full_argmax(30_001)),
        Case("argmin of everything, special", full_argmax(30_001), special=True),
    ],
}
"""What the interpreter runs, a process for each group."""
