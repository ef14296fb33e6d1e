"""Expressions for random programs, by the shape of what they give.

A shape is a word: `a` stands for the sizes in front (none, one or more), `b` for the last size, `1` for one. So "ab" is
a full tensor, "b" a row of it, "a" a column, "a1" a column with its dimension kept, "" a number. `{S}` is an operand of
the shape that is asked for, `{T}` one that broadcasts to it; others name their shapes.
"""

from __future__ import annotations

SHAPES = ("ab", "b", "a", "a1", "", "ba", "aa")
MATRIX_SHAPES = ("ba", "aa")
"""Only where `a` is one size."""

BROADCAST = {
    "ab": ("ab", "b", "a1", ""),
    "b": ("b", ""),
    "a": ("a", ""),
    "a1": ("a1", ""),
    "": ("",),
    "ba": ("ba", "a", ""),
    "aa": ("aa", "a", "a1", ""),
}
"""What broadcasts to a shape, where it stands beside an operand of the shape itself."""

OF_X = {
    "ab": "x",
    "b": "x.sum_to_size([x.size(-1)])",
    "a": "x.sum(-1)",
    "a1": "x.mean(-1, keepdim=True)",
    "": "x.sum()",
    "ba": "x.t()",
    "aa": "(x @ x.t())",
}
"""What there always is, of the first argument."""

ANY_SHAPE = (
    "torch.sin({S})",
    "torch.cos({S})",
    "torch.tanh({S})",
    "torch.sigmoid({S})",
    "torch.exp({S} * 0.3)",
    "torch.log1p({S} * {S})",
    "torch.sqrt({S} * {S} + 0.5)",
    "{S}.relu()",
    "{S}.abs()",
    "F.softplus({S})",
    "F.gelu({S})",
    "F.silu({S})",
    "{S}.clamp(-0.5, 0.7)",
    "({S} ** 2)",
    "{S}.square()",
    "(2 ** {S})",
    "(-{S})",
    "{S}.clone()",
    "{S}.detach()",
    "{S}.neg().exp()",
    "(1.5 / (2 + {S} * {S}))",
    "{S}.masked_fill({S} > 0.5, 0.25)",
    "torch.where({S} > 0.1, {S}, {T} * 2)",
    "torch.where({T} > {S}, {S}, -{S})",
    "({S} * {float})",
    "({S} + {int})",
    "({S} / {float} if {bool} else {S})",
    "({S} if {bool} else {S})",
    "torch.stack([{S}, {S}]).sum(0)",
    "torch.stack([{S}, {S}]).amax(0)",
    "torch.zeros_like({S})",
    "(torch.ones_like({S}) * {float})",
    "({T} + {S})",
    "({S} - 0.5 * {T})",
    "({S} * {T})",
    "({S} * {T})",
    "({S} / ({T} * {T} + 1))",
    "torch.maximum({S}, {T})",
    "torch.atan2({S}, {T} * {T} + 2.0)",
    "torch.add({S}, {T}, alpha={int})",
    "torch.lerp({S}, {S}, {float})",
    "({S} > {T}).to({S}.dtype)",
    "({S} * 2 + 0.3).to(torch.int64).to({S}.dtype)",
    "({S} * {S}.type_as({T} > 0))",
    "{S}.type_as({T})",
    "({S} * ({T} > 0))",
    "{S}.reshape({S}.size())",
    "{S}.sum_to_size({S}.size())",
    "torch.tanh({S}).mul({S}).add(0.1)",
    "F.leaky_relu({S}, 0.1)",
    "torch.floor({S} * 2)",
    "({S} % 0.7)",
    "{S}.expand({S}.size())",
)

BY_SHAPE: dict[str, tuple[str, ...]] = {
    "ab": (
        "torch.softmax({ab}, -1)",
        "torch.log_softmax({ab}, -1)",
        "{ab}.cumsum(-1)",
        "{ab}.flip([-1])",
        "{ab}.sort(-1)[0]",
        "F.layer_norm({ab}, [{ab}.size(-1)])",
        "torch.cat([{ab}[..., 1:], {ab}[..., :1]], -1)",
        "{a1}.expand({ab}.size())",
        "({a1} * {b})",
        "({a}.unsqueeze(-1) * {b})",
        "{ab}.roll(1, -1)",
        "({ab} - {ab}.mean(-1, keepdim=True))",
        "({ab} / (1 + {ab}.abs().amax(-1, keepdim=True)))",
        "{ab}.index_select(-1, torch.arange({ab}.size(-1)))",
        "F.normalize({ab}, dim=-1)",
        "{b}.expand_as({ab})",
        "torch.cumprod({ab}, -1)",
        "{ab}.unsqueeze(0).squeeze(0)",
        "torch.tril(torch.stack([{ab}, {ab}], -2)).sum(-2)",
    ),
    "b": (
        "torch.softmax({b}, 0)",
        "{b}.cumsum(0)",
        "{b}.flip([0])",
        "{ab}.sum_to_size({b}.size())",
        "torch.cat([{b}[1:], {b}[:1]])",
        "({b} - {b}.mean())",
        "{b}.sort()[0]",
    ),
    "a": (
        "{ab}.sum(-1)",
        "{ab}.mean(-1)",
        "({ab} @ {b})",
        "{a1}.squeeze(-1)",
        "{ab}.logsumexp(-1)",
        "{ab}.amax(-1)",
        "{ab}.max(-1)[0]",
        "{ab}[..., 0]",
        "{ab}.norm(dim=-1)",
        "{ab}.prod(-1)",
    ),
    "a1": (
        "{ab}.sum(-1, keepdim=True)",
        "{ab}.mean(-1, keepdim=True)",
        "{a}.unsqueeze(-1)",
        "{ab}[..., :1]",
        "{ab}.logsumexp(-1, keepdim=True)",
    ),
    "": (
        "{ab}.sum()",
        "{b}.sum()",
        "{ab}.mean()",
        "({b} @ {b})",
        "F.mse_loss({ab}, {ab})",
        "{b}.norm()",
        "{b}.amax()",
        "{b}[0]",
        "{b}[-1]",
        "{a}.sum()",
        "{b}.var()",
        "{b}.max()",
    ),
    "ba": ("{ab}.t()", "{ab}.transpose(0, 1)", "{ab}.mT", "torch.outer({b}, {a})"),
    "aa": (
        "({ab} @ {ba})",
        "torch.outer({a}, {a})",
        "({aa} @ {aa})",
        "{aa}.t()",
        "torch.tril({aa})",
        "torch.diag({a})",
    ),
}

MATRIX_ONLY: dict[str, tuple[str, ...]] = {
    "ab": (
        "({aa} @ {ab})",
        "{ba}.t()",
        "{ab}.flip([0])",
        "torch.cat([{ab}[1:], {ab}[:1]])",
        "torch.stack([{b}, {b}])[[0] * {ab}.size(0)]",
        "{ab}.cumsum(0)",
        "torch.stack([row * {float} for row in {ab}.unbind(0)])",
        "torch.softmax({ab}, 0)",
    ),
    "b": ("{ab}.sum(0)", "{ab}[0]", "{ab}[-1]", "({a} @ {ab})", "{ab}.amax(0)", "{ab}.mean(0)", "({ba} @ {a})"),
    "a": ("{ba}[0]", "{ba}.sum(0)", "({aa} @ {a})", "torch.diagonal({aa})"),
    "": ("{aa}.trace()", "({a} @ {a})", "{aa}[0, 0]"),
}

INTS = (
    "({int} + 1)",
    "{ab}.size(-1)",
    "{S}.dim()",
    "({int} * 2)",
    "min({int}, 2)",
    "({int} // 2)",
    "{S}.numel()",
    "abs({int})",
)
FLOATS = (
    "0.5",
    "(-1.25)",
    "2.0",
    "({float} * 0.5)",
    "({float} + 1.0)",
    "float({number})",
    "{number}.item()",
    "({int} * 0.5)",
    "math.sin({float})",
    "max({float}, 0.25)",
)
BOOLS = (
    "{int} > 1",
    "{int} == {int}",
    "float({number}) > 0.1",
    "bool({number} > 0)",
    "bool({number} < 0.2)",
    "(not {bool})",
    "({bool} and {bool})",
    "({bool} or {int} < 2)",
    "0 < {int} <= 2",
    "{S}.dim() > 1",
)
