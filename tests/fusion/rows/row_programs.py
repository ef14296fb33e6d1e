"""Random functions of rows, as kernel libraries have them: norms, losses, statistics and pointwise ops.

The text is Python over torch as well. `x` and `y` are matrices, `w` a row, `b` a column, `c` one number, `labels` an
index for each row; of three dimensions, rows come in batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

MATRIX = (
    "torch.exp({m} * 0.1)",
    "torch.sigmoid({m})",
    "torch.tanh({m})",
    "F.silu({m})",
    "F.gelu({m})",
    "F.relu({m}).square()",
    "{m} * {any}",
    "{m} + {any}",
    "{m} - {any}",
    "{m} / ({any}.abs() + 1)",
    "{any} - {m}",
    "{m} * {any} * {any}",
    "torch.where({m} > {any}, {m}, {any})",
    "torch.maximum({m}, {m})",
    "torch.softmax({m}, {dim})",
    "F.log_softmax({m}, {dim})",
    "F.rms_norm({m}, [{m}.size(-1)], w, 1e-6)",
    "F.layer_norm({m}, [{m}.size(-1)], w, None, 1e-5)",
    "{m} / {m}.norm(dim=-1, keepdim=True).clamp(min=0.1)",
    "{m} - {m}.amax({dim}, keepdim=True)",
    "{m} - {m}.mean({dim}, keepdim=True)",
    "{m} / ({m}.sum({dim}, keepdim=True).abs() + 1)",
    "{m} - {m}.max()",
    "{m} / ({m}.square().sum() + 1)",
    "torch.where(torch.arange({m}.size(-1)) == labels.unsqueeze(-1), {m} - 1, {m})",
    "torch.softmax({m}, -1) * torch.log_softmax({m}, -1)",
    "({m}.logsumexp(-1, keepdim=True) - {m})",
    "{m}.flip([-1])",
    "torch.tanh({m} / 30) * 30",
    "{m}.detach() * {m}",
    "torch.cat([-{m}[..., {m}.size(-1) // 2:], {m}[..., :{m}.size(-1) // 2]], -1)",
    "{number} * {m} * {row} + {row}",
    "{row}[0] * {m} + {row}[-1] * {m}.square() + {number}",
    "torch.tanh({number} * {m}) * {row}",
    "torch.sigmoid({number} + {column}) * {m}",
    "{m}.tril()",
    "{m}.masked_fill({m} > {any}, 0.0)",
    "{m}.clamp(-1.0, 1.0) * {any}",
    "{m} - ({m} * {row}).sum(-1, keepdim=True) * {row}",
    "torch.exp({m} * 0.1) / torch.exp({m} * 0.1).sum()",
    "{m} - {m}.mean({dims}, keepdim=True)",
    "{m} * ({m}.square().mean({dims}, keepdim=True) + 0.1).rsqrt()",
    "{m} / ({m}.abs().sum({dims}, keepdim=True) + 1)",
    "{m}.transpose(0, -1).reshape({m}.shape)",
    "F.layer_norm({m}.reshape([-1, {m}.size(0)]), [{m}.size(0)]).reshape({m}.shape)",
    "({m}.reshape([-1, {m}.size(0)]) - {m}.reshape([-1, {m}.size(0)]).mean({flat}, keepdim=True)).reshape({m}.shape)",
    "torch.softmax(({m} * {row}).sum(-1, keepdim=True), 0) * {m}",
    "{m} / ({m}.exp().sum(-1, keepdim=True) + 1) / ({m}.exp().sum(-2, keepdim=True) + 1)",
    "torch.softmax(torch.softmax({m}, {dim}), {dim})",
    "({m} - {m}.mean({dim}, keepdim=True)).square().sum({dim}, keepdim=True) + {m}",
    "torch.softmax({m}.transpose(0, -1), -1).transpose(0, -1)",
    "F.layer_norm({m}.transpose(0, -1), [{m}.size(0)], {m}.select(-1, 0).flatten()[:1].expand([{m}.size(0)]))"
    ".transpose(0, -1) * {row}",
    "torch.softmax({m}.transpose(0, 1).flatten(1), -1).reshape({m}.transpose(0, 1).shape).transpose(0, 1) * {any}",
    "({m}.transpose(0, 1).flatten(1) - {m}.transpose(0, 1).flatten(1).mean(-1, keepdim=True))"
    ".reshape({m}.transpose(0, 1).shape).transpose(0, 1) * {row}",
    "torch.sort({m}, -1)[0]",
    "{m}.cumsum(-1)",
)
COLUMN = (
    "{m}.amax(-1, keepdim=True)",
    "{m}.sum(-1, keepdim=True)",
    "{m}.mean(-1, keepdim=True)",
    "{m}.logsumexp(-1, keepdim=True)",
    "{m}.square().mean(-1, keepdim=True).rsqrt()",
    "{m}.var(-1, keepdim=True)",
    "{m}.gather(-1, labels.unsqueeze(-1))",
    "{column} * {column}",
    "{column} - {column}.max()",
    "{column} / ({column}.sum().abs() + 1)",
    "torch.softmax({column}, 0)",
    "({m} * {m}).sum(-1, keepdim=True)",
    "{m}.argmax(-1, keepdim=True).to(x.dtype) * {column}",
    "torch.exp({column} * 0.1)",
    "({m}.square().mean(-1, keepdim=True) + 1e-3).sqrt()",
    "({m} * {row}).sum(-1, keepdim=True) * {number}",
)
ROW = (
    "{m}.sum({outer})",
    "{m}.mean({outer})",
    "({m} * {m}).sum({outer})",
    "{m}.amax({outer})",
    "({m} * {column}).sum({outer})",
    "{row} * {row}",
    "{row} - {row}.mean()",
    "torch.softmax({row}, -1)",
    "{row} * {number}",
    "({m} * {number}).sum({outer})",
    "{m}.select(0, 0).reshape([-1, {m}.size(-1)])[0]",
)
NUMBER = (
    "{m}.sum()",
    "{m}.mean()",
    "{m}.max()",
    "({m} - {any}).sum()",
    "({m} * {any}).mean()",
    "{column}.sum() / ({column} > 0).sum().clamp(min=1)",
    "{column}.mean()",
    "{row}.sum()",
    "({row} * {row}).sum()",
    "{number} * {number}",
    "{number} / ({number}.abs() + 1)",
    "{m}.sum(-1).max()",
    "{m}.amax(-1).sum() / (labels > 0).sum().clamp(min=1)",
    "{m}.logsumexp(-1).square().mean()",
    "F.mse_loss({m}, {m})",
    "F.smooth_l1_loss({m}, {m})",
    "F.kl_div(F.log_softmax({m}, -1), torch.softmax({m}, -1), reduction='batchmean')",
    "F.softplus({column}).sum() / (labels > 0).sum().clamp(min=1)",
    "-F.logsigmoid({column} - {column}).mean()",
    "{m}.square().sum().sqrt()",
    "{m}.sum({dim}).square().sum()",
    "({m} - {number}).square().sum()",
    "({m} * {number}).amax(-1).mean() + {row}.sum()",
    "{m}.logsumexp(-1).sum() / ({column} > {number}).sum().clamp(min=1)",
    "({m} * {m}.amax()).mean()",
    "({m} / {m}.abs().max().clamp(min=0.1)).sum()",
    "({m}.sum({outer}) * {row}).sum()",
)
FLAT_ONLY = (
    "F.cross_entropy({m}, labels)",
    "F.cross_entropy({m}, labels, label_smoothing=0.1)",
    "F.cross_entropy({m}, labels, ignore_index=1)",
    "F.cross_entropy({m}, labels, w.detach().abs() + 1)",
    "F.cross_entropy({m}, labels, w.detach().abs() + 1, label_smoothing=0.2, ignore_index=0)",
    "F.cross_entropy({m}, labels, reduction='sum') / (labels > 0).sum().clamp(min=1)",
    "F.nll_loss(F.log_softmax({m}, -1), labels)",
)
SEVERAL = {2: ([0], [1], [0, 1]), 3: ([0], [1], [0, 1], [0, 2], [1, 2], [0, 2])}
"""Dimensions that are reduced together, by rank: of images and sequences each channel's."""
KINDS = {"m": MATRIX, "column": COLUMN, "row": ROW, "number": NUMBER}
SMALL = (1, 2, 3, 5, 7, 8, 15, 16, 17)
LARGE = (
    *(1, 2, 3, 7, 15, 16, 17, 31, 32, 33, 64, 127, 255, 257, 1023, 1024, 1025),
    *(4095, 4096, 4097, 8191, 8192, 8193, 16383, 16384, 16385, 32768, 50257, 131072),
)
MOST = 1 << 31


@dataclass(frozen=True)
class RowProgram:
    """A function `f` of `x, y, w, b, c, labels`."""

    source: str
    shape: tuple[int, ...]
    """That of `x` and `y`: the other shapes are parts of it."""

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Those of the floating arguments, in order."""
        *outer, columns = self.shape
        return self.shape, self.shape, (columns,), (*outer, 1), ()


def row_program(seed: int, sizes: Sequence[int] = LARGE) -> RowProgram:
    """The program of a seed, at sizes out of some."""
    random = Random(seed)
    rank = random.choice((2, 2, 2, 3))
    shape = tuple(random.choice(sizes) for _ in range(rank))
    while shape and _points(shape) > MOST:
        shape = tuple(random.choice(sizes) for _ in range(rank))
    return RowProgram(_Writer(random, rank).source(), shape)


def _points(shape: Sequence[int]) -> int:
    points = 1
    for size in shape:
        points *= size
    return points


class _Writer:
    def __init__(self, random: Random, rank: int) -> None:
        self._random, self._rank = random, rank
        self._names = {"m": ["x", "y"], "column": ["b"], "row": ["w"], "number": ["c"]}

    def source(self) -> str:
        lines = [self._line(i) for i in range(self._random.randint(2, 8))]
        made = [name for names in self._names.values() for name in names if name[0] == "v"]
        last = f"v{len(lines) - 1}"
        more = self._random.sample(made, min(len(made), self._random.choice((0, 0, 1, 2))))
        results = dict.fromkeys((*more, last))
        return f"def f(x, y, w, b, c, labels):\n{chr(10).join(lines)}\n    return {', '.join(results)}\n"

    def _line(self, number: int) -> str:
        kind = self._random.choices(list(KINDS), (5, 2, 2, 4))[0]
        templates = KINDS[kind]
        if kind == "number" and self._rank == 2 and self._random.random() < 0.3:
            templates = FLAT_ONLY
        text = self._filled(self._random.choice(templates))
        self._names[kind].append(f"v{number}")
        return f"    v{number} = {text}"

    def _filled(self, template: str) -> str:
        dims = [str(d) for d in range(self._rank)] + ["-1"]
        parts = template.split("{")
        text = parts[0]
        for part in parts[1:]:
            slot, rest = part.split("}", 1)
            text += self._slot(slot, dims) + rest
        return text

    def _slot(self, slot: str, dims: list[str]) -> str:
        if slot == "dim":
            return self._random.choice(dims)
        if slot == "dims":
            return str(self._random.choice(SEVERAL[self._rank]))
        if slot == "flat":
            return self._random.choice(("0", "1"))
        if slot == "outer":
            return str(list(range(self._rank - 1)))
        if slot == "any":
            slot = self._random.choice(list(KINDS))
        names = self._names[slot]
        return self._random.choice(names[-2:] if self._random.random() < 0.6 else names)
