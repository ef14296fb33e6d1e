"""Functions of rows have kernels at every size, and the kernels give what torch gives: `make plans` tries more."""

from __future__ import annotations

import ast

import pytest
from gradscript.compiler.kernel_ir.kernel import Reduce
from row_program_running import SPLITS, difference, few_elements, planned
from row_programs import SMALL, RowProgram, row_program

SAMPLES = {
    "means that share a count": """
        count = (labels > 0).sum().clamp(min=1)
        return x.amax(-1).sum() / count, x.sum(-1).sum() / count
    """,
    "a number that is taken away before a sum": "return (x - c).sum()",
    "the whole's maximum taken away before a sum": "return (x - x.max()).sum()",
    "columns' maxima taken away before a sum": "return F.silu(x), (F.silu(x) - x.amax(0)).sum()",
    "a softmax of columns, and a weighted sum": "return (torch.softmax(x, 0) * y).sum(0)",
    "a result that later values follow from": """
        total = x.flip([-1]).amax(-1).sum() / (labels > 0).sum().clamp(min=1)
        return total, (w - w.mean()) * total
    """,
    "columns' means, softened": """
        normal = F.rms_norm(x, [x.size(-1)], w, 1e-6)
        return normal.mean(), torch.softmax(normal.mean(0), -1)
    """,
    "columns' means without their own mean": "return w - F.rms_norm(x, [x.size(-1)], w, 1e-6).mean(0).mean()",
    "where rows are largest": "return (torch.where(x > w, y, w) * w * b).argmax(-1, keepdim=True).to(x.dtype) * b",
    "sums of what is the same in each row": """
        return (b.expand_as(x) * c).sum(-1), (w.expand_as(x) * 2).mean(0), (w * c).sum()
    """,
    "a number and a row that scale": "return x * c * w",
    "a number, a row and a column within": "return torch.tanh(x * c + b) * w + c",
    "rows' norms by numbers": """
        normal = F.rms_norm(x, [x.size(-1)], None, 1e-6)
        return c * normal + w[0] * x / (x.square().sum(-1, keepdim=True) + 1)
    """,
    "rows without what columns are, on average": "return x - (w - y).mean(-1, keepdim=True)",
    "a softmax that scales with the sum of all": """
        return torch.softmax(w * c, -1), (x * w).sum(-1, keepdim=True) * c, y - y.tril().max()
    """,
    "a row's mean beside what is called so": """
        mean = x.mean(-1, keepdim=True)
        row_mean = (x - mean) * w
        return row_mean, row_mean.sum(0)
    """,
    "rows across memory, turned back": "return torch.softmax(x.t(), -1).t() * y",
    "rows across memory, as they are": "return torch.softmax(x.t(), -1) * y.t()",
    "columns' norms, weighed and added up": """
        normal = F.layer_norm(x.t(), [x.size(0)]).t()
        return normal * w, (normal * y).sum(0)
    """,
    "columns' norms, weighed along them": "return F.layer_norm(x.t(), [x.size(0)], y[:, 0]).t()",
    "a divergence of two softmaxes": "return F.kl_div(F.log_softmax(x, -1), torch.softmax(y, -1), reduction='sum')",
    "names that others are made of": """
        total_inside, total_at, partial_total = x * 2, x + 1, x.sum(0)
        total = (x * total_inside * total_at).sum()
        return total, partial_total, x.argmax(-1, keepdim=True).to(x.dtype) * total_at.sum()
    """,
}
SIZES = ((1, 1), (17, 15), (33, 1025), (64, 20_000), (4097, 7), (2, 131_072), (96, 64))


def _sample(name: str, shape: tuple[int, ...]) -> RowProgram:
    lines = [line.strip() for line in (SAMPLES | CHANNELS)[name].strip().splitlines()]
    return RowProgram("def f(x, y, w, b, c, labels):\n    " + "\n    ".join(lines) + "\n", shape)


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_have_kernels(name: str) -> None:
    for shape in SIZES:
        for split in SPLITS.values():
            assert planned(_sample(name, shape), split).forward.kernels


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_give_what_torch_gives(name: str) -> None:
    for seed, shape in enumerate(((1, 1), (5, 3), (17, 16), (2, 17), (3, 1))):
        with few_elements() as split:
            assert not difference(_sample(name, shape), split, seed)


CHANNELS = {
    "each channel normalised": "return F.batch_norm(x, None, None, None, None, True) * y",
    "each channel normalised and scaled": """
        scale = y[0, :, 0]
        return F.batch_norm(x, None, None, scale, scale * 2, True)
    """,
    "each place's channels normalised and scaled": """
        normal = (x - x.mean(1, keepdim=True)) / torch.sqrt(x.var(1, keepdim=True, unbiased=False) + 1)
        return normal * y[0, :, 0][:, None] + y[0, :, 1][:, None]
    """,
    "each sample's channels normalised and scaled": "return F.instance_norm(x, None, None, y[0, :, 0], y[0, :, 1])",
    "rows cut from others, and channels summed": """
        cut = x.reshape([-1, x.size(0)])
        return (F.layer_norm(cut, [x.size(0)]).reshape(x.shape) * y).sum([0, 2]) + c
    """,
}


@pytest.mark.parametrize("name", CHANNELS)
def test_channels_have_kernels_whatever_their_chunks_cut(name: str) -> None:
    program = _sample(name, ())
    for shape in ((8, 3, 18), (8, 3, 16), (64, 3, 16_385), (16, 7, 16_383), (257, 1, 2)):
        for split in SPLITS.values():
            assert planned(RowProgram(program.source, shape), split).forward.kernels
    with few_elements() as split:
        for seed, shape in enumerate(((4, 3, 5), (3, 2, 8), (17, 1, 2))):
            assert not difference(RowProgram(program.source, shape), split, seed)


OF_A_SHAPE = {
    "a mean that runs again in another order, and an extreme among what follows": """(8, 16, 16)
        grown = torch.exp(y * 0.1).reshape([-1, 8])
        return ((grown - y.reshape([-1, 8]).mean(0, keepdim=True)).reshape(y.shape) * c).amax(-1)
    """,
    "parts of parts that are called alike": """(5, 7)
        centered = x - y.mean(0, keepdim=True)
        return (centered / (b.abs() + 1) * w).sum(0), centered
    """,
}


@pytest.mark.parametrize("name", OF_A_SHAPE)
def test_samples_of_a_shape_give_what_torch_gives(name: str) -> None:
    shape, *lines = OF_A_SHAPE[name].strip().splitlines()
    source = "def f(x, y, w, b, c, labels):\n    " + "\n    ".join(line.strip() for line in lines) + "\n"
    with few_elements() as split:
        assert not difference(RowProgram(source, ast.literal_eval(shape)), split, 3)


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_random_programs_have_kernels(first: int) -> None:
    for seed in range(first, first + 10):
        assert planned(row_program(seed), SPLITS["for processors" if seed % 2 else "for GPUs"]).forward.outputs


def test_a_sum_along_rows_of_what_is_the_same_in_each_has_a_kernel() -> None:
    """Nothing else of that kernel goes along them: the gradient of a sum over all rows, of which halves are cut."""
    for split in SPLITS.values():
        assert planned(row_program(214564), split).forward.kernels


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_random_programs_give_what_torch_gives(first: int) -> None:
    for seed in range(first, first + 10):
        with few_elements() as split:
            assert not difference(row_program(seed, SMALL), split, seed)


@pytest.mark.parametrize("of", ["argmax", "argmin"])
def test_what_no_store_asks_for_is_in_no_kernel(of: str) -> None:
    # The place of the largest of one number is known; a mean over what the kernel walks was left beside it.
    source = (
        "def f(x, y, w, b, c, labels):\n"
        f"    return (torch.tanh(y) * x.mean([0])).{of}(-1, keepdim=True).to(x.dtype) * x\n"
    )
    with few_elements() as split:
        program = RowProgram(source, (17, 1))
        assert difference(program, split, 0) == ""
        pair = planned(program, split)
        assert not any(isinstance(s, Reduce) for k in pair.forward.kernels for s in k.body)
