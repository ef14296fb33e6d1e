"""Small tiles are held, and pieces of an axis read what they have in common once: one kernel each way.

tests/fusion/rows/plan_campaign.py holds random programs of either to torch.
"""

from __future__ import annotations

import gradscript as gs
import numpy as np
import pytest
from gradscript.compiler.kernel_ir.kernel import Kernel, Load
from gradscript.compiler.kernel_ir.parser import parse_kernel
from gradscript.compiler.kernel_ir.statements import conditions
from gradscript.runtime.kernels.listing import KernelInfo

ROTARY = """
def rotary(q, cos, sin):
    cos, sin = gs.constant(cos), gs.constant(sin)
    half = q.size(-1) // 2
    return q * cos + torch.cat([-q[..., half:], q[..., :half]], -1) * sin
"""
PARTS = """
def parts(gates, cell):
    enter, keep, candidate, leave = gates.chunk(4, -1)
    turned = [torch.tanh(enter) * cell, keep * cell, torch.sigmoid(candidate) * enter, leave * cell * keep]
    return torch.cat(turned, -1).{reduced}
"""
PADDED = """
def padded(x):
    return torch.cat([x, x * 2, torch.full_like(x, {padding}), -x], -1).sum(0)
"""
WHOLE = (
    "torch.cat([x, y], -1) * 2",
    "x.flip([-1]) + x",
    "F.pad(x, [2, 3]) * 2",
    "torch.where(torch.arange(x.size(-1)) < 7, x, y) + x",
)


NUMBERS = (
    """
def updated(p, m, v, high, g, rate: float = 0.001, decay: float = 0.01):
    m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
    high = torch.maximum(high, v)
    return p * (1 - rate * decay) - rate * m / (torch.sqrt(high) + 1e-8), m, v, high
""",
    """
def mixed(p, q, share: float = 0.1):
    p, q = torch.softmax(p, -1), torch.softmax(q, -1)
    return (q * torch.log(share * q + (1 - share) * p)).sum(-1)
""",
)


def _kernels(source: str, *shapes: tuple[int, ...]) -> list[KernelInfo]:
    unit = gs.CompilationUnit(source)
    (name,) = unit.functions
    listing = unit[name].kernels(*(np.zeros(shape, np.float32) for shape in shapes))
    return [*listing.forward, *listing.backward]


def _kernel(info: KernelInfo) -> Kernel:
    return parse_kernel(info.ir)


@pytest.mark.parametrize("heads", [64, 128, 2048])
def test_halves_that_are_turned_are_loaded_once_and_without_conditions(heads: int) -> None:
    for info in _kernels(ROTARY, (2, 16, heads), (16, heads), (16, heads)):
        kernel = _kernel(info)
        loads = [statement for statement in kernel.body if isinstance(statement, Load)]
        assert len({(load.buffer, load.index) for load in loads}) == len(loads) == 6
        assert not any(map(conditions, kernel.body))
        elements = 2 * 16 * heads
        assert info.bytes_read + info.bytes_written == 4 * (2 * elements + 2 * 16 * heads)


@pytest.mark.parametrize("reduced", ["sum(0)", "amax(0)", "sum([0, 1])"])
def test_pieces_that_are_reduced_over_a_batch_are_read_once(reduced: str) -> None:
    (kernel, *_) = map(_kernel, _kernels(PARTS.format(reduced=reduced), (2, 16, 256), (2, 16, 64)))
    loads = [statement for statement in kernel.body if isinstance(statement, Load)]
    assert len({(load.buffer, load.index) for load in loads}) == len(loads) == 5
    assert not any(map(conditions, kernel.body))


@pytest.mark.parametrize("padding", ["0.0", "1.0"])
def test_a_piece_that_is_a_number_is_reduced_like_others(padding: str) -> None:
    x = np.random.default_rng(0).standard_normal((9, 64))
    with gs.settings.backend("c"):
        found = gs.CompilationUnit(PADDED.format(padding=padding)).padded(x)
    first = x.sum(0)
    expected = np.concatenate([first, 2 * first, np.full(64, 9 * float(padding)), -first])
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("text", WHOLE)
def test_what_reads_nothing_twice_stays_whole(text: str) -> None:
    (first, *_) = _kernels(f"def f(x, y):\n    return {text}\n", (16, 128), (16, 128))
    whole = {axis.size for axis in _kernel(first).axes}
    assert whole & {128, 256, 133, 2048}, first.ir


def test_short_pieces_stay_together() -> None:
    (first, *_) = _kernels(ROTARY, (2, 16, 32), (16, 32), (16, 32))
    assert any(conditions(statement) for statement in _kernel(first).body)


# --- tiles ---

BALANCED = """
def balanced(scores):
    plan = torch.exp(scores - scores.amax([-1, -2], keepdim=True))
    for _ in range({rounds}):
        plan = plan / (plan.sum(-1, keepdim=True) + 1e-9)
        plan = plan / (plan.sum(-2, keepdim=True) + 1e-9)
    return plan
"""
GROUPED = """
def grouped(x, weight, bias):
    parts = x.reshape([x.size(0), {groups}, -1])
    centered = parts - parts.mean(-1, keepdim=True)
    normal = centered * torch.rsqrt((centered * centered).mean(-1, keepdim=True) + 1e-5)
    return normal.reshape(x.size()) * weight[:, None] + bias[:, None]
"""
WEIGHED = """
def weighed(rows, query):
    return (torch.softmax((rows * query).sum(-1, keepdim=True), {dim}) * rows).sum({dim})
"""


@pytest.mark.parametrize("rounds", [1, 5, 20])
@pytest.mark.parametrize("shape", [(1000, 4, 4), (64, 3, 7), (4, 8, 16, 16), (8, 8)])
def test_rows_and_columns_in_turn_are_one_kernel_each_way(shape: tuple[int, ...], rounds: int) -> None:
    listing = gs.CompilationUnit(BALANCED.format(rounds=rounds)).balanced.kernels(np.zeros(shape, np.float32))
    assert (len(listing.forward), len(listing.backward), listing.saved_bytes) == (1, 1, 0)
    for (info,), least in zip((listing.forward, listing.backward), listing.least_bytes, strict=True):
        assert info.bytes_read + info.bytes_written == least


@pytest.mark.parametrize(("shape", "groups"), [((64, 8, 128), 2), ((300, 6, 100), 3), ((33, 32, 16), 4)])
def test_a_groups_mean_and_its_channels_sums_share_a_pass(shape: tuple[int, ...], groups: int) -> None:
    x, weight, bias = (np.zeros(size, np.float32) for size in (shape, shape[1:2], shape[1:2]))
    listing = gs.CompilationUnit(GROUPED.format(groups=groups)).grouped.kernels(x, weight, bias)
    assert (len(listing.forward), len(listing.backward)) == (1, 2)
    moved = sum(info.bytes_read + info.bytes_written for info in listing.backward)
    assert moved <= 1.1 * listing.least_bytes[1]


def test_the_largest_groups_that_a_program_holds_are_one_pass() -> None:
    unit = gs.CompilationUnit("def f(x, w, b):\n    return F.group_norm(x, 4, w, b)\n")
    listing = unit.f.kernels(*(np.zeros(shape, np.float32) for shape in ((64, 64, 1024), (64,), (64,))))
    moved = sum(info.bytes_read + info.bytes_written for info in listing.backward)
    assert len(listing.backward) == 2 and moved <= 1.1 * listing.least_bytes[1]


def test_elements_are_stored_by_the_kernel_that_adds_them_up() -> None:
    """Not by a later one, which would read for it what these follow from once more."""
    source = "def f(q, k):\n    e = torch.exp(k)\n    return q * e.sum(1, keepdim=True), e\n"
    listing = gs.CompilationUnit(source).f.kernels(*[np.zeros((16, 1024, 64), np.float32)] * 2)
    moved = sum(info.bytes_read + info.bytes_written for info in listing.forward)
    assert moved <= 1.02 * listing.least_bytes[0]


def test_what_follows_from_three_tensors_is_computed_again() -> None:
    """Where it is not needed again behind an op of the library: then it is in memory, once."""
    text = "torch.minimum(ratio * gain, torch.clamp(ratio, 0.8, 1.2) * gain).mean()"
    source = f"def f(new, old, gain):\n    ratio = torch.exp(new - old)\n    return {text}\n"
    listing = gs.CompilationUnit(source).f.kernels(*[np.zeros(1 << 16, np.float32)] * 3)
    assert listing.saved_bytes == 0
    (info,) = listing.backward
    assert info.bytes_read + info.bytes_written == 6 * 4 * (1 << 16) + 4


@pytest.mark.parametrize(("shape", "dim"), [((8, 2, 40, 256), 0), ((64, 5, 300), 1)])
def test_rows_that_are_weighed_by_what_they_give_are_read_once(shape: tuple[int, ...], dim: int) -> None:
    rows, query = np.zeros(shape, np.float32), np.zeros(shape[-1], np.float32)
    listing = gs.CompilationUnit(WEIGHED.format(dim=dim)).weighed.kernels(rows, query)
    assert len(listing.forward) == 1
    assert len(listing.backward) == 2, "one for all rows, and one that finishes the gradient of the query"


def test_of_a_large_tile_sums_are_kept_as_far_as_no_program_holds_what_each_is_of() -> None:
    unit = gs.CompilationUnit(BALANCED.format(rounds=5))
    listing = unit.balanced.kernels(np.zeros((40, 64, 128), np.float32))
    assert len(listing.forward) == 1
    assert 1 < len(listing.backward) <= 5
    assert 0 < listing.saved_bytes < 40 * 64 * 128 * 4


def test_what_no_program_holds_passes_through_memory() -> None:
    unit = gs.CompilationUnit(BALANCED.format(rounds=2))
    for shape, dtype in (((40, 128, 256), np.float32), ((40, 128, 128), np.float64)):
        assert len(unit.balanced.kernels(np.zeros(shape, dtype)).forward) > 1
    assert len(unit.balanced.kernels(np.zeros((40, 128, 128), np.float32)).forward) == 1


def test_the_least_number_of_programs_is_asked_for_where_axes_do_not_take_turns() -> None:
    unit = gs.CompilationUnit("def f(x):\n    return x.sum(-1), x.sum(-2)\n")
    few, many = (unit.f.kernels(np.zeros((batch, 32, 64), np.float32)) for batch in (8, 64))
    assert len(many.forward) == 1
    assert many.forward[0].grid == (64, 1, 1)
    assert len(few.forward) >= 1


ONE_EACH_WAY = {
    "of channels": ("torch.softmax(x, 1)", (4, 21, 4096)),
    "of a low matrix's columns": ("torch.log_softmax(x, 1)", (1, 64, 512)),
    "of columns side by side": ("torch.softmax(x, 1)", (1, 1000, 8192)),
    "of a batch's columns": ("torch.softmax(x, 0)", (4096, 1024)),
    "of rows that lie across memory": ("torch.softmax(x.t(), -1)", (1024, 4096)),
    "of rows that are turned twice": ("torch.softmax(x.t(), -1).t()", (4096, 1024)),
    "of a batch's features": ("F.batch_norm(x, None, None, None, None, True)", (4096, 1024)),
    "of an image's channels": ("F.batch_norm(x, None, None, None, None, True)", (32, 64, 56, 56)),
    "a norm of turned channels": ("F.layer_norm(x.transpose(1, 2), [256]).transpose(1, 2)", (16, 256, 4096)),
    "of blocks": ("x / (x.abs().amax([1, 3], keepdim=True) + 1)", (32, 128, 8, 128)),
    "a divergence": ("F.kl_div(F.log_softmax(x, -1), torch.softmax(x, -1), reduction='none').sum(-1)", (4096, 1024)),
    "deviations of an image's channels": ("x - x.mean([0, 2, 3], True)", (64, 256, 14, 14)),
    "of small images": ("x * torch.rsqrt(x.square().mean([0, 2, 3], True) + 1)", (16, 512, 7, 7)),
    "of pairs": ("F.softplus(x.unsqueeze(2) - x.unsqueeze(1)).mean([1, 2])", (16384, 32)),
    "of pairs and rows": ("(x.unsqueeze(2) - x.unsqueeze(1)).abs().mean([1, 2]) - x.abs().mean(1)", (65536, 16)),
    "of each with the others": ("torch.tanh(x.unsqueeze(1) - x.unsqueeze(2)).sum(1)", (4096, 64)),
    "variance": ("x.var(1)", (4, 200, 64)),
    "a norm of channels": ("x * torch.rsqrt(x.square().mean(1, keepdim=True) + 1e-6)", (4, 64, 1024)),
    "an identity": ("x * torch.eye(x.size(0), x.size(1)) + x", (32, 48)),
    "classes": ("F.one_hot(x.argmax(-1), 48) * x", (32, 48)),
}


@pytest.mark.parametrize("name", ONE_EACH_WAY)
def test_what_one_pass_can_do_is_one_kernel_each_way(name: str) -> None:
    text, shape = ONE_EACH_WAY[name]
    listing = gs.CompilationUnit(f"def f(x):\n    return {text}\n").f.kernels(np.zeros(shape, np.float32))
    assert len(listing.forward) == len(listing.backward) == 1 and not listing.library
    for (info,), least in zip((listing.forward, listing.backward), listing.least_bytes, strict=True):
        assert info.bytes_read + info.bytes_written <= 1.1 * least


def test_gradients_of_weights_share_the_pass_of_what_a_channel_holds() -> None:
    source = """
def f(x, weight, bias):
    middle = x - x.mean([0, 2, 3], True)
    scale = torch.rsqrt(middle.square().mean([0, 2, 3], True) + 1e-5)
    return middle * scale * weight.view([1, -1, 1, 1]) + bias.view([1, -1, 1, 1])
"""
    assert len(_kernels(source, (32, 64, 28, 28), (64,), (64,))) == 2


@pytest.mark.parametrize("shape", [(4096, 512), (65536, 256)])
def test_columns_that_programs_share_are_shared(shape: tuple[int, ...]) -> None:
    """One program for a few columns each would leave a device idle."""
    (first, *_) = _kernels("def f(x):\n    return torch.softmax(x, 0)\n", shape)
    assert np.prod(first.grid) >= 512


PAIRED = """
def plain(x, bias):
    y = x + bias
    return torch.relu(y[:, {first}]) * y[:, {second}]
def added(x, bias):
    return ((x + bias)[:, {first}] * x[:, {second}]).sum(0)
"""


@pytest.mark.parametrize(("first", "second"), [("::2", "1::2"), ("1::2", "::2"), ("::4", "2::4"), (":1024", "1024:")])
@pytest.mark.parametrize("rows", [4096, 65536])
def test_columns_of_pairs_are_shared_among_programs(first: str, second: str, rows: int) -> None:
    """Where they are read, neighbours are not the next element."""
    unit = gs.CompilationUnit(PAIRED.format(first=first, second=second))
    for function in unit.functions.values():
        listing = function.kernels(np.zeros((rows, 2048), np.float32), np.zeros(2048, np.float32))
        for info in (*listing.forward, *listing.backward):
            assert np.prod(info.grid) >= 64, info.name


ROUTED = """
def routed(logits, choices):
    p = torch.softmax(logits, -1)
    share = F.one_hot(choices, logits.size(-1)).to(p.dtype).mean(0)
    return (p.mean(0) * share).sum() * 8.0 + 0.001 * logits.logsumexp(-1).square().mean()
"""


@pytest.mark.parametrize("shape", [(4096, 64), (4096, 1024), (1 << 16, 128)])
def test_sums_of_rows_and_across_programs_end_in_few_kernels(shape: tuple[int, int]) -> None:
    """Both are reduced once more by what finishes chunks: neither is cut again for the other's sake."""
    listing = gs.CompilationUnit(ROUTED).routed.kernels(np.zeros(shape, np.float32), np.zeros(shape[0], np.int64))
    assert len(listing.forward) <= 4 and len(listing.backward) == 1


@pytest.mark.parametrize("source", NUMBERS, ids=["updated", "mixed"])
def test_numbers_of_numbers_are_there_before_kernels(source: str) -> None:
    """What is computed with one joined no kernel that was begun before it."""
    unit = gs.CompilationUnit(source)
    (name,) = unit.functions
    count = sum(str(argument.type) == "Tensor" for argument in unit[name].schema.arguments)
    listing = unit[name].kernels(*[np.zeros((4096, 1024), np.float32)] * count)
    assert len(listing.forward) == 1
    assert sum(info.bytes_read + info.bytes_written for info in listing.forward) == listing.least_bytes[0]
