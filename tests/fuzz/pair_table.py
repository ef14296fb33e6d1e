"""Functions with a backward of their own, right by construction: each row is a forward and what it is in a derivative.

`x` and `w` are tensors, `w` broadcast to `x`; `y` is the result, `m` a value between, when the row has one.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True)
class Unary:
    """y = f(x); its slope, and the slope's slope."""

    value: str
    slope: str
    bend: str = ""


UNARY = (
    Unary("torch.sin({x})", "torch.cos({x})", "-torch.sin({x})"),
    Unary("{x} * {x}", "2 * {x}", "2.0"),
    Unary("torch.tanh({x})", "(1 - {y} * {y})"),
    Unary("torch.exp({x} * 0.3)", "0.3 * {y}", "0.09 * torch.exp({x} * 0.3)"),
    Unary("torch.sigmoid({x})", "({y} * (1 - {y}))"),
    Unary("F.softplus({x})", "torch.sigmoid({x})"),
    Unary("{x} / (1 + {x} * {x})", "((1 - {x} * {x}) / (1 + {x} * {x}) ** 2)"),
    Unary("torch.log1p({x} * {x})", "(2 * {x} / (1 + {x} * {x}))"),
    Unary("{x}.abs()", "{x}.sign()"),
    Unary("torch.relu({x})", "({x} > 0).type_as({x})"),
    Unary("{x} ** 3", "3 * {x} ** 2", "6 * {x}"),
    Unary("{x}.clamp(-0.5, 0.7)", "(({x} >= -0.5) & ({x} <= 0.7)).to({x}.dtype)"),
    Unary("torch.sqrt({x} * {x} + 0.5)", "({x} / {y})"),
    Unary("2.0 - {x}", "-1.0"),
)

BINARY = (
    ("{x} * {w}", "{w}", "{x}"),
    ("{x} + 2 * {w}", "1.0", "2.0"),
    ("{x} / (1 + {w} * {w})", "1 / (1 + {w} * {w})", "-2 * {w} * {x} / (1 + {w} * {w}) ** 2"),
    ("torch.sin({x} * {w})", "torch.cos({x} * {w}) * {w}", "torch.cos({x} * {w}) * {x}"),
    # Where both are equal, torch gives half to each.
    (
        "torch.maximum({x}, {w})",
        "0.5 * (({x} > {w}).type_as({x}) + ({x} >= {w}).type_as({x}))",
        "0.5 * (({w} > {x}).type_as({x}) + ({w} >= {x}).type_as({x}))",
    ),
    (
        "torch.where({x} > 0, {w} * {x}, {w})",
        "torch.where({x} > 0, {w}, {w} * 0)",
        "torch.where({x} > 0, {x}, {x} * 0 + 1)",
    ),
)

CAPTURES = (
    "x.norm()",
    "x.sum()",
    "x.mean()",
    "x.std(unbiased=False)",
    "torch.var(x, unbiased=False)",
    "F.normalize(x, dim=-1).sum()",
    "torch.logsumexp(x, -1).sum()",
    "torch.softmax(x, -1).amax()",
    "F.softplus(x).sum()",
    "F.gelu(x).mean()",
    "F.mse_loss(x, x * 2)",
    "torch.linalg.norm(x)",
    "(x > 0).type_as(x).sum()",
    "x.sort(-1)[0].mean()",
    "torch.stack([x, x * 2]).sum()",
    "torch.cat([x.reshape(-1), x.reshape(-1)]).mean()",
    "x.amax()",
    "float(x.numel())",
    "x.dim()",
    "x.cumsum(-1).sum()",
    "F.layer_norm(x.reshape([-1]), [x.numel()]).sum()",
    "torch.where(x > 0, x, x * 2).sum()",
    "x.detach().sum()",
    "len([x, x]) * 0.5",
    "plain_helper(x).sum()",
)
"""What a backward captures beside what it needs: subtracted again from the same thing computed anew, it is zero."""

PLAIN_HELPER = """
def plain_helper(x):
    s = torch.tanh(x)
    return s * x + 0.5
"""


class PairWriter:
    """Writes pairs. `w` is the second tensor, where a pair takes one."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.uses_helper = False

    def write(self, name: str) -> tuple[str, str]:
        """The text of one, and its kind: what it takes and gives."""
        often = (self._unary, self._binary) * 2
        deep = (self._composed, self._branching, self._looping, self._third_level, self._optional, self._dims)
        kinds = (*often, *deep, self._two_results, self._on_lists)
        return self._random.choice(kinds)(name)

    def _captured(self) -> tuple[list[str], str]:
        """Lines of the forward, and a term of the slope that is zero if they are captured right."""
        if self._random.random() < 0.45:
            return [], ""
        expression = self._random.choice(CAPTURES)
        self.uses_helper |= "plain_helper" in expression
        return [f"    c = {expression}"], f" + (c - {expression})"

    def _unary(self, name: str) -> tuple[str, str]:
        row = self._random.choice(UNARY)
        lines, term = self._captured()
        slope = row.slope.format(x="x", y="y")
        text = [
            f"def {name}(x):",
            *lines,
            f"    y = {row.value.format(x='x')}",
            "",
            "    def backward(g):",
            f"        return g * ({slope}{term})",
            "",
            "    return y, backward",
        ]
        return "\n".join(text), "S->S"

    def _binary(self, name: str) -> tuple[str, str]:
        value, by_x, by_w = (part.format(x="x", w="w") for part in self._random.choice(BINARY))
        lines, term = self._captured()
        scaled = self._random.random() < 0.4
        factor = " * k" if scaled else ""
        text = [
            f"def {name}(x, w{', k: int = 2' if scaled else ''}):",
            *lines,
            "    shape = w.size()",
            "    def backward(g):",
            *(["        g = g * k"] if scaled else []),
            f"        by_x = g * ({by_x}{term})",
            f"        return by_x, (g * ({by_w})).sum_to_size(shape){', None' if scaled else ''}",
            "",
            f"    return ({value}){factor}, backward",
        ]
        return "\n".join(text), "ST->S"

    def _composed(self, name: str) -> tuple[str, str]:
        """A value between, which a helper with a backward may have made."""
        inner, outer = self._random.choice(UNARY), self._random.choice(UNARY)
        lines, term = self._captured()
        between = inner.value.format(x="x")
        helper: list[str] = []
        if self._random.random() < 0.5:
            between = f"{name}_inner(x)"
            helper = [
                f"def {name}_inner(x):",
                f"    y = {inner.value.format(x='x')}",
                "    def backward(g):",
                f"        return g * ({inner.slope.format(x='x', y='y')})",
                "    return y, backward",
                "",
            ]
        text = [
            *helper,
            f"def {name}(x):",
            *lines,
            f"    m = {between}",
            f"    y = {outer.value.format(x='m')}",
            "    def backward(g):",
            f"        g = g * ({outer.slope.format(x='m', y='y')}{term})",
            f"        return g * ({inner.slope.format(x='x', y='m')})",
            "    return y, backward",
        ]
        return "\n".join(text), "S->S"

    def _two_results(self, name: str) -> tuple[str, str]:
        one, two = self._random.choice(UNARY), self._random.choice(BINARY)
        value, by_x, by_w = (part.format(x="x", w="w") for part in two)
        text = [
            f"def {name}(x, w):",
            f"    y = {one.value.format(x='x')}",
            f"    z = {value}",
            "    def backward(g, h):",
            f"        by_x = g * ({one.slope.format(x='x', y='y')}) + h * ({by_x})",
            f"        return by_x, (h * ({by_w})).sum_to_size(w.size())",
            "    return y, z, backward",
        ]
        return "\n".join(text), "ST->SS"

    def _optional(self, name: str) -> tuple[str, str]:
        """A factor that may be None, which the backward captures."""
        row = self._random.choice(UNARY)
        default = self._random.choice(("", " = None"))
        text = [
            f"def {name}(x, w: Optional[Tensor]{default}):",
            f"    y = {row.value.format(x='x')}",
            "    z = y if w is None else y * w",
            "    def backward(g):",
            "        by_y = g if w is None else g * w",
            f"        by_x = by_y * ({row.slope.format(x='x', y='y')})",
            "        return by_x, None if w is None else (g * y).sum_to_size(w.size())",
            "    return z, backward",
        ]
        return "\n".join(text), "SO->S"

    def _dims(self, name: str) -> tuple[str, str]:
        """Sums over dimensions that may be None, which stands for all of them."""
        row = self._random.choice(UNARY)
        default = self._random.choice(("", " = None"))
        text = [
            f"def {name}(x, dims: Optional[List[int]]{default}):",
            f"    y = {row.value.format(x='x')}",
            "    def backward(g):",
            "        by_y = g + g.sum(dims, keepdim=True)",
            f"        return by_y * ({row.slope.format(x='x', y='y')}), None",
            "    return y + y.sum(dims, keepdim=True), backward",
        ]
        return "\n".join(text), "SD->S"

    def _on_lists(self, name: str) -> tuple[str, str]:
        row = self._random.choice(UNARY)
        text = [
            f"def {name}(xs: List[Tensor], w):",
            f"    ys = [{row.value.format(x='x')} for x in xs]",
            "    total = torch.zeros_like(xs[0])",
            "    for y in ys:",
            "        total = total + y",
            "    def backward(g):",
            "        grads: List[Tensor] = []",
            "        for x, y in zip(xs, ys):",
            f"            grads.append(g * w * ({row.slope.format(x='x', y='y')}))",
            "        return grads, (g * total).sum_to_size(w.size())",
            "    return total * w, backward",
        ]
        return "\n".join(text), "LT->S"

    def _branching(self, name: str) -> tuple[str, str]:
        one, two = self._random.choice(UNARY), self._random.choice(UNARY)
        condition = self._random.choice(("float(x.sum()) > 0.2", "x.dim() > 1", "x.numel() == 3", "bool(x.mean() > 0)"))
        condition = "x.numel() > 4" if self._random.random() < 0.3 else condition
        inside = self._random.random() < 0.5
        test = ["        flag2 = flag", "        if flag2:"] if inside else ["        if flag:"]
        text = [
            f"def {name}(x):",
            f"    flag = {condition}",
            "    if flag:",
            f"        y = {one.value.format(x='x')}",
            "    else:",
            f"        y = {two.value.format(x='x')}",
            "    def backward(g):",
            *test,
            f"            d = g * ({one.slope.format(x='x', y='y')})",
            "        else:",
            f"            d = g * ({two.slope.format(x='x', y='y')})",
            "        return d",
            "    return y, backward",
        ]
        return "\n".join(text), "S->S"

    def _looping(self, name: str) -> tuple[str, str]:
        """A value per round, kept in a list and read backwards."""
        row = self._random.choice(UNARY[:8])
        text = [
            f"def {name}(x, k: int = 2):",
            "    y = x",
            "    slopes: List[Tensor] = []",
            "    for i in range(k):",
            "        before = y",
            f"        y = {row.value.format(x='before')}",
            f"        slopes.append(torch.ones_like(x) * ({row.slope.format(x='before', y='y')}))",
            "    def backward(g):",
            "        for i in range(len(slopes)):",
            "            g = g * slopes[len(slopes) - 1 - i]",
            "        return g, None",
            "    return y * 1.0, backward",
        ]
        return "\n".join(text), "S->S"

    def _third_level(self, name: str) -> tuple[str, str]:
        """A backward with a backward of its own."""
        row = self._random.choice([row for row in UNARY if row.bend])
        text = [
            f"def {name}(x):",
            f"    y = {row.value.format(x='x')}",
            "    def backward(g):",
            f"        slope = {row.slope.format(x='x', y='y')}",
            "        def backward_of_backward(gg):",
            f"            return gg * slope, gg * g * ({row.bend.format(x='x')})",
            "        return g * slope, backward_of_backward",
            "    return y, backward",
        ]
        return "\n".join(text), "S->S"
