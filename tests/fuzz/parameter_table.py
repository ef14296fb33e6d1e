"""Kinds of parameters for random programs beside the tensors of fixed shape: what may be left out, None, or broadcast.

`NAME` stands for the parameter. A value `T(p)` is a tensor of the shape that the parameter was made for, `T(~)` one of
any shape that broadcasts to it, `L(b)` the list of the sizes that the letters stand for. A use is an expression of the
shape that it stands under, `""` for any shape that the parameter broadcasts to; its holes are those of
`expression_table`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

LOOSE = {
    "ab": ("b", "a1", "", "1", "ab"),
    "b": ("", "1", "b"),
    "a": ("", "a"),
    "a1": ("", "1", "a1"),
    "": ("",),
    "ba": ("a", "", "ba"),
    "aa": ("a", "a1", "", "aa"),
}
"""What a value may be that is used beside a tensor of a shape, and broadcast to it."""

ANY = "any"


@dataclass(frozen=True)
class Form:
    annotation: str
    values: tuple[str, ...]
    """How it is spelled in calls; the first one in the first call, more often than not."""
    uses: dict[str, tuple[str, ...]] = field(default_factory=dict)
    defaults: tuple[str, ...] = ()
    for_shapes: tuple[str, ...] = ()
    """The shapes that it can be made for; none for all."""


FORMS = (
    Form(
        "Optional[Tensor]",
        ("T(p)", "T(~)", "T(~)", "None"),
        {
            ANY: (
                "({S} if NAME is None else {S} * NAME)",
                "({S} * NAME if NAME is not None else {S})",
                "({S} + (NAME if NAME is not None else {S}))",
                "torch.where({S} > 0.1, {S}, {S} if NAME is None else NAME)",
                "({S} - ({T} if NAME is None else NAME * {float}))",
                "torch.maximum({S}, {T} if NAME is None else NAME * NAME)",
                "({S} if {bool} or NAME is None else NAME + {S})",
            )
        },
        ("None",),
    ),
    Form(
        "Optional[Tensor]",
        ("T(p)", "None"),
        {
            "ab": (
                "F.layer_norm({ab}, [{ab}.size(-1)], NAME)",
                "F.layer_norm({ab}, [{ab}.size(-1)], None, NAME)",
                "F.layer_norm({ab}, [{ab}.size(-1)], NAME, NAME)",
                "F.layer_norm({ab}, [{ab}.size(-1)], {b}, NAME)",
                "F.linear({ab}, torch.outer({b}, {b}), NAME)",
            )
        },
        ("None",),
        ("b",),
    ),
    Form(
        "Tensor",
        ("T(p)", "T(~)", "T(~)"),
        {ANY: ("({S} * NAME)", "(NAME + {S})", "torch.minimum({S}, NAME)", "({S} / (NAME * NAME + 1))")},
    ),
    Form(
        "List[Tensor]",
        ("[T(p), T(p)]", "[T(~), T(~)]", "[T(~)]", "[]", "[T(~), T(p), T(~)]"),
        {
            ANY: (
                "torch.stack([{S} * NAME_e for NAME_e in NAME] + [{S}]).sum(0)",
                "({S} * NAME[0] if len(NAME) > 0 else {S})",
                "({S} + NAME[-1] if len(NAME) > 1 else {S})",
                "torch.stack([{S}] + [torch.tanh(NAME_e) + {S} for NAME_e in NAME])[-1]",
            )
        },
    ),
    Form(
        "Optional[List[Tensor]]",
        ("[T(p), T(p)]", "[T(~), T(~)]", "None", "[T(~)]"),
        {
            ANY: (
                "({S} if NAME is None else {S} * NAME[0])",
                "({S} + NAME[-1] if NAME is not None else {S})",
                "({S} if NAME is None else torch.stack([{S} * NAME_e for NAME_e in NAME]).sum(0))",
            )
        },
        ("None",),
    ),
    Form(
        "Tuple[Tensor, float]",
        ("(T(p), 0.5)", "(T(~), -1.25)"),
        {ANY: ("({S} * NAME[0] + NAME[1])", "({S} - NAME[0] * NAME[1])")},
    ),
    Form(
        "Optional[List[int]]",
        ("[-1]", "None", "[0]", "[-1]", "[]"),
        {
            "ab": (
                "({ab} + {ab}.sum(NAME, keepdim=True))",
                "({ab} * {ab}.mean(NAME, keepdim=True))",
                "({ab} - torch.linalg.vector_norm({ab}, 2.0, NAME, keepdim=True))",
                "({ab} if NAME is None else {ab}.flip(NAME))",
                # Of the variance over no dimensions, which is that over all of them, torch gives another gradient.
                "({ab} * torch.var({ab}, NAME or None, unbiased=False, keepdim=True))",
                "({ab} if NAME is None else {ab} - {ab}.amax(NAME, keepdim=True))",
                "({ab} + {ab}.nansum(NAME, keepdim=True))",
                "({ab} + torch.sum({ab} * {ab}, NAME))",
                "({ab} * (1 if NAME is None else len(NAME)))",
            )
        },
        ("None", "[-1]"),
    ),
    Form(
        "Optional[List[int]]",
        ("L(ab)", "L(b)", "None", "L(1)", "L()"),
        {
            "ab": (
                "({ab} if NAME is None else {ab} * {ab}.sum_to_size(NAME))",
                "({ab} + ({b} if NAME is None else {ab}.sum_to_size(NAME)))",
                "({ab} * {float} if NAME is None else {ab} - {ab}.sum_to_size(NAME).expand({ab}.size()))",
                "({ab} if NAME is None else {ab} + torch.ones(NAME, dtype=x.dtype))",
            )
        },
        ("None",),
    ),
    Form(
        "List[int]",
        ("[-1]", "[0]"),
        {"ab": ("({ab} + {ab}.sum(NAME, keepdim=True))", "({ab} * {ab}.amax(NAME, keepdim=True))", "{ab}.flip(NAME)")},
        ("[-1]", "[0]"),
    ),
    Form(
        "Optional[float]",
        ("0.25", "None", "(-1.5)"),
        {
            ANY: (
                "({S} if NAME is None else {S} * NAME)",
                "{S}.clamp(NAME, 0.9)",
                "{S}.clamp(max=NAME, min=-0.5)",
                "torch.nan_to_num({S}, NAME)",
                "({S} * (1.0 if NAME is None else NAME))",
                "({S} + NAME if NAME is not None and NAME > 0.1 else {S})",
            )
        },
        ("None", "0.5"),
    ),
    Form(
        "Optional[int]",
        ("0", "None", "(-1)"),
        {
            "ab": (
                "({ab} * {ab}[..., NAME:].sum())",
                "({ab} + {ab}[..., :NAME].sum(-1, keepdim=True))",
                "({ab} - {ab}.sum(-1 if NAME is None else NAME, keepdim=True))",
                "{ab}.cumsum(0 if NAME is None else NAME)",
            ),
            ANY: (
                "({S} * (2 if NAME is None else NAME))",
                "({S} if NAME is None or NAME > 1 else -{S})",
                "({S} + NAME if NAME is not None else {S})",
            ),
        },
        ("None", "0"),
    ),
    Form(
        "str",
        ("'mean'", "'sum'", "'none'"),
        {ANY: ("({S} * F.mse_loss({S}, {S}, reduction=NAME))", "({S} if NAME == 'sum' else {S} * {float})")},
        ("'mean'", "'none'"),
    ),
)
"""Each with its values, what is made of it, and what it is where it is left out."""
