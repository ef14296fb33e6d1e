"""`inputs/few_elements.grad` as a user of torch writes it by hand: a `torch.autograd.Function` of each formula.

HAND_WRITTEN[name]         the Function
ARGUMENTS[name]            what it is called with
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F  # noqa: N812 - its usual name

HAND_WRITTEN: dict[str, Any] = {}
ARGUMENTS: dict[str, tuple[Any, ...]] = {}


def _draw(*shape: int) -> Any:
    generator = torch.Generator().manual_seed(sum(shape) + len(ARGUMENTS))
    return torch.randn(*shape, generator=generator).requires_grad_()


def _formula(*arguments: Any) -> Callable[[type], type]:
    """Makes a Function of a class with both halves, under its name."""

    def made(halves: type) -> type:
        both = {name: staticmethod(getattr(halves, name)) for name in ("forward", "backward") if hasattr(halves, name)}
        HAND_WRITTEN[halves.__name__] = type(torch.autograd.Function)(halves.__name__, (torch.autograd.Function,), both)
        ARGUMENTS[halves.__name__] = arguments
        return halves

    return made


@_formula(_draw(16))
class scaled:  # noqa: N801 - under the formula's name
    def forward(ctx: Any, x: Any) -> Any:  # noqa: N805 - made a static method
        return x * 2.5

    def backward(ctx: Any, grad: Any) -> Any:  # noqa: N805
        return grad * 2.5


@_formula(_draw(16), _draw(16))
class swiglu:  # noqa: N801 - under the formula's name
    def forward(ctx: Any, x: Any, g: Any) -> Any:  # noqa: N805 - made a static method
        s = torch.sigmoid(g)
        ctx.save_for_backward(x, g, s)
        return x * g * s

    def backward(ctx: Any, grad: Any) -> Any:  # noqa: N805
        x, g, s = ctx.saved_tensors
        return grad * g * s, grad * x * s * (1 + g * (1 - s))


@_formula(_draw(4, 4), _draw(4, 4))
class einsums:  # noqa: N801 - under the formula's name
    def forward(ctx: Any, x: Any, w: Any) -> Any:  # noqa: N805 - made a static method
        ctx.save_for_backward(x, w)
        return torch.einsum("ij,jk->ik", x, w)

    def backward(ctx: Any, grad: Any) -> Any:  # noqa: N805
        x, w = ctx.saved_tensors
        return torch.einsum("ik,jk->ij", grad, w), torch.einsum("ij,ik->jk", x, grad)


@_formula(_draw(16))
class running_sum:  # noqa: N801 - under the formula's name
    def forward(ctx: Any, x: Any) -> Any:  # noqa: N805 - made a static method
        return torch.cumsum(x, 0)

    def backward(ctx: Any, grad: Any) -> Any:  # noqa: N805
        return torch.flip(torch.cumsum(torch.flip(grad, [0]), 0), [0])


@_formula(_draw(16))
class largest:  # noqa: N801 - under the formula's name
    def forward(ctx: Any, x: Any) -> Any:  # noqa: N805 - made a static method
        values, indices = torch.topk(x, 4)
        ctx.save_for_backward(indices)
        ctx.shape = x.shape
        return values

    def backward(ctx: Any, grad: Any) -> Any:  # noqa: N805
        (indices,) = ctx.saved_tensors
        return grad.new_zeros(ctx.shape).scatter(0, indices, grad)


@_formula(_draw(1, 2, 8), _draw(2, 2, 3))
class convolved:  # noqa: N801 - under the formula's name
    def forward(ctx: Any, x: Any, w: Any) -> Any:  # noqa: N805 - made a static method
        ctx.save_for_backward(x, w)
        return torch.conv1d(x, w)

    def backward(ctx: Any, grad: Any) -> Any:  # noqa: N805
        x, w = ctx.saved_tensors
        return torch.nn.grad.conv1d_input(x.shape, w, grad), torch.nn.grad.conv1d_weight(x, w.shape, grad)


@_formula(_draw(16))
class decided:  # noqa: N801 - under the formula's name
    def forward(ctx: Any, x: Any) -> Any:  # noqa: N805 - made a static method
        ctx.factor = 2 if x.sum() > 0 else 3
        return x * ctx.factor

    def backward(ctx: Any, grad: Any) -> Any:  # noqa: N805
        return grad * ctx.factor


@_formula(_draw(4, 4), 1)
class indexed:  # noqa: N801 - under the formula's name
    def forward(ctx: Any, w: Any, i: Any) -> Any:  # noqa: N805 - made a static method
        ctx.i = i
        ctx.save_for_backward(w)
        row = w[i]
        return row * row

    def backward(ctx: Any, grad: Any) -> Any:  # noqa: N805
        (w,) = ctx.saved_tensors
        found = grad.new_zeros(w.shape)
        found[ctx.i] = 2 * grad * w[ctx.i]
        return found, None


@_formula(_draw(4, 4))
class row_sums:  # noqa: N801 - under the formula's name
    def forward(ctx: Any, x: Any) -> Any:  # noqa: N805 - made a static method
        ctx.save_for_backward(x)
        return (x * x).sum(-1)

    def backward(ctx: Any, grad: Any) -> Any:  # noqa: N805
        (x,) = ctx.saved_tensors
        return 2 * grad[:, None] * x


@_formula(_draw(4, 4))
class mean_and_spread:  # noqa: N801 - under the formula's name
    def forward(ctx: Any, x: Any) -> Any:  # noqa: N805 - made a static method
        m = x.mean(-1, keepdim=True)
        d = x - m
        ctx.save_for_backward(d)
        return m, (d * d).mean(-1, keepdim=True)

    def backward(ctx: Any, grad: Any, *grads: Any) -> Any:  # noqa: N805
        (d,) = ctx.saved_tensors
        return (grad + 2 * grads[0] * d) / d.shape[-1]


@_formula(_draw(4, 4))
class ordered:  # noqa: N801 - under the formula's name
    def forward(ctx: Any, x: Any) -> Any:  # noqa: N805 - made a static method
        values, indices = torch.sort(x)
        ctx.save_for_backward(values, indices)
        return values * values

    def backward(ctx: Any, grad: Any) -> Any:  # noqa: N805
        values, indices = ctx.saved_tensors
        return torch.zeros_like(values).scatter(1, indices, 2 * grad * values)


@_formula(_draw(4, 4), torch.tensor([[1, 0], [3, 2], [0, 0], [2, 1]]))
class gathered:  # noqa: N801 - under the formula's name
    def forward(ctx: Any, x: Any, i: Any) -> Any:  # noqa: N805 - made a static method
        ctx.save_for_backward(i)
        ctx.shape = x.shape
        return torch.gather(x, 1, i) * 2

    def backward(ctx: Any, grad: Any) -> Any:  # noqa: N805
        (i,) = ctx.saved_tensors
        return grad.new_zeros(ctx.shape).scatter_add(1, i, grad * 2), None


@_formula(_draw(4, 4), torch.tensor([1, 0, 3]))
class looked_up:  # noqa: N801 - under the formula's name
    def forward(ctx: Any, w: Any, i: Any) -> Any:  # noqa: N805 - made a static method
        ctx.save_for_backward(i)
        ctx.shape = w.shape
        return w[i]

    def backward(ctx: Any, grad: Any) -> Any:  # noqa: N805
        (i,) = ctx.saved_tensors
        return grad.new_zeros(ctx.shape).index_add(0, i, grad), None


@_formula(_draw(4, 4))
class padded:  # noqa: N801 - under the formula's name
    def forward(ctx: Any, x: Any) -> Any:  # noqa: N805 - made a static method
        return F.pad(x, [1, 1])

    def backward(ctx: Any, grad: Any) -> Any:  # noqa: N805
        return grad[:, 1:-1].clone()


@_formula(_draw(4, 4), _draw(4, 4), _draw(4, 4))
class chained:  # noqa: N801 - under the formula's name
    def forward(ctx: Any, a: Any, b: Any, c: Any) -> Any:  # noqa: N805 - made a static method
        ab = a @ b
        ctx.save_for_backward(a, b, c, ab)
        return ab @ c

    def backward(ctx: Any, grad: Any) -> Any:  # noqa: N805
        a, b, c, ab = ctx.saved_tensors
        g = grad @ c.t()
        return g @ b.t(), a.t() @ g, ab.t() @ grad


@_formula(_draw(16))
class powers:  # noqa: N801 - under the formula's name
    def forward(ctx: Any, x: Any) -> Any:  # noqa: N805 - made a static method
        ctx.save_for_backward(x)
        y = x
        for _ in range(3):
            y = y * x
        return y

    def backward(ctx: Any, grad: Any) -> Any:  # noqa: N805
        (x,) = ctx.saved_tensors
        return 4 * grad * x * x * x


@_formula(_draw(8), _draw(8))
class stacked:  # noqa: N801 - under the formula's name
    def forward(ctx: Any, x: Any, y: Any) -> Any:  # noqa: N805 - made a static method
        return torch.stack([x, y], 1)

    def backward(ctx: Any, grad: Any) -> Any:  # noqa: N805
        return grad[:, 0].clone(), grad[:, 1].clone()


@_formula(_draw(8), _draw(8))
class joined:  # noqa: N801 - under the formula's name
    def forward(ctx: Any, x: Any, y: Any) -> Any:  # noqa: N805 - made a static method
        return torch.cat([x, y]) * 2

    def backward(ctx: Any, grad: Any) -> Any:  # noqa: N805
        g = grad * 2
        return g[:8], g[8:]


@_formula(_draw(16))
class parts:  # noqa: N801 - under the formula's name
    def forward(ctx: Any, x: Any) -> Any:  # noqa: N805 - made a static method
        a, b = torch.chunk(x, 2)
        ctx.save_for_backward(a, b)
        return a * b

    def backward(ctx: Any, grad: Any) -> Any:  # noqa: N805
        a, b = ctx.saved_tensors
        return torch.cat([grad * b, grad * a])


@_formula(_draw(16), _draw(16))
class pair:  # noqa: N801 - under the formula's name
    def forward(ctx: Any, x: Any, y: Any) -> Any:  # noqa: N805 - made a static method
        ctx.save_for_backward(x, y)
        return x * y, x + y

    def backward(ctx: Any, grad: Any, *grads: Any) -> Any:  # noqa: N805
        x, y = ctx.saved_tensors
        return grad * y + grads[0], grad * x + grads[0]


@_formula(_draw(16), _draw(16))
class only_first:  # noqa: N801 - under the formula's name
    def forward(ctx: Any, x: Any, y: Any) -> Any:  # noqa: N805 - made a static method
        ctx.save_for_backward(y)
        return x * y

    def backward(ctx: Any, grad: Any) -> Any:  # noqa: N805
        (y,) = ctx.saved_tensors
        return grad * y, None


@_formula(_draw(16), 3)
class whole:  # noqa: N801 - under the formula's name
    def forward(ctx: Any, x: Any, n: Any) -> Any:  # noqa: N805 - made a static method
        ctx.n = n
        return x * n

    def backward(ctx: Any, grad: Any) -> Any:  # noqa: N805
        return grad * ctx.n, None


@_formula(_draw(16), 0.25)
class tempered:  # noqa: N801 - under the formula's name
    def forward(ctx: Any, x: Any, t: Any, scale: float = 2.0) -> Any:  # noqa: N805 - made a static method
        y = torch.tanh(x * t)
        ctx.save_for_backward(y)
        ctx.factor = t * scale
        return y * scale

    def backward(ctx: Any, grad: Any) -> Any:  # noqa: N805
        (y,) = ctx.saved_tensors
        return grad * (1 - y * y) * ctx.factor, None


@_formula(_draw(16))
class dropped:  # noqa: N801 - under the formula's name
    def forward(ctx: Any, x: Any) -> Any:  # noqa: N805 - made a static method
        mask = torch.rand_like(x) >= 0.5
        ctx.save_for_backward(mask)
        return x * mask * 2

    def backward(ctx: Any, grad: Any) -> Any:  # noqa: N805
        (mask,) = ctx.saved_tensors
        return grad * mask * 2


@_formula(_draw(4, 4))
class turned:  # noqa: N801 - under the formula's name
    def forward(ctx: Any, x: Any) -> Any:  # noqa: N805 - made a static method
        return x.t().clone()

    def backward(ctx: Any, grad: Any) -> Any:  # noqa: N805
        return grad.t()


@_formula(_draw(4, 4))
class places:  # noqa: N801 - under the formula's name
    def forward(ctx: Any, x: Any) -> Any:  # noqa: N805 - made a static method
        found = torch.argmax(x, -1)
        ctx.mark_non_differentiable(found)
        return found

    def backward(ctx: Any, grad: Any) -> Any:  # noqa: N805
        return None


@_formula(_draw(4), _draw(4))
class outer:  # noqa: N801 - under the formula's name
    def forward(ctx: Any, x: Any, y: Any) -> Any:  # noqa: N805 - made a static method
        ctx.save_for_backward(x, y)
        return x[:, None] * y[None, :]

    def backward(ctx: Any, grad: Any) -> Any:  # noqa: N805
        x, y = ctx.saved_tensors
        return (grad * y).sum(1), (grad * x[:, None]).sum(0)


@_formula(_draw(4, 4))
class soft:  # noqa: N801 - under the formula's name
    def forward(ctx: Any, x: Any) -> Any:  # noqa: N805 - made a static method
        y = torch.softmax(x, -1)
        ctx.save_for_backward(y)
        return y

    def backward(ctx: Any, grad: Any) -> Any:  # noqa: N805
        (y,) = ctx.saved_tensors
        g = grad * y
        return g - y * g.sum(-1, keepdim=True)


@_formula(_draw(16), _draw(16))
class nested:  # noqa: N801 - under the formula's name
    def forward(ctx: Any, x: Any, y: Any) -> Any:  # noqa: N805 - made a static method
        s = x * x + y
        ctx.save_for_backward(x, s)
        return s * s

    def backward(ctx: Any, grad: Any) -> Any:  # noqa: N805
        x, s = ctx.saved_tensors
        g = grad * 2 * s
        return g * 2 * x, g


@_formula(_draw(4, 4), _draw(4, 4), _draw(4))
class affine:  # noqa: N801 - under the formula's name
    def forward(ctx: Any, x: Any, w: Any, b: Any) -> Any:  # noqa: N805 - made a static method
        ctx.save_for_backward(x, w)
        return F.linear(x, w, b)

    def backward(ctx: Any, grad: Any) -> Any:  # noqa: N805
        x, w = ctx.saved_tensors
        return grad @ w, grad.t() @ x, grad.sum(0)


@_formula(_draw(4, 4), _draw(4), _draw(4))
class normed:  # noqa: N801 - under the formula's name
    def forward(ctx: Any, x: Any, w: Any, b: Any) -> Any:  # noqa: N805 - made a static method
        m = x.mean(-1, keepdim=True)
        r = torch.rsqrt(x.var(-1, keepdim=True, correction=0) + 1e-5)
        y = (x - m) * r
        ctx.save_for_backward(y, r, w)
        return y * w + b

    def backward(ctx: Any, grad: Any) -> Any:  # noqa: N805
        y, r, w = ctx.saved_tensors
        g = grad * w
        gx = r * (g - g.mean(-1, keepdim=True) - y * (g * y).mean(-1, keepdim=True))
        return gx, (grad * y).sum(0), grad.sum(0)


@_formula(_draw(16), torch.arange(16) % 3 == 0)
class masked:  # noqa: N801 - under the formula's name
    def forward(ctx: Any, x: Any, m: Any) -> Any:  # noqa: N805 - made a static method
        ctx.save_for_backward(m)
        return torch.where(m, x, -x)

    def backward(ctx: Any, grad: Any) -> Any:  # noqa: N805
        (m,) = ctx.saved_tensors
        return torch.where(m, grad, -grad), None


@_formula(_draw(16), torch.arange(16) % 3 == 0)
class filled:  # noqa: N801 - under the formula's name
    def forward(ctx: Any, x: Any, m: Any) -> Any:  # noqa: N805 - made a static method
        ctx.save_for_backward(m)
        return x.masked_fill(m, 0.0)

    def backward(ctx: Any, grad: Any) -> Any:  # noqa: N805
        (m,) = ctx.saved_tensors
        return grad.masked_fill(m, 0.0), None


@_formula(_draw(16), torch.tensor([1, 3, 1, 7]), _draw(4))
class scattered:  # noqa: N801 - under the formula's name
    def forward(ctx: Any, x: Any, i: Any, y: Any) -> Any:  # noqa: N805 - made a static method
        ctx.save_for_backward(i)
        return torch.scatter_add(x, 0, i, y)

    def backward(ctx: Any, grad: Any) -> Any:  # noqa: N805
        (i,) = ctx.saved_tensors
        return grad, None, grad.gather(0, i)


@_formula(_draw(16))
class turned_round:  # noqa: N801 - under the formula's name
    def forward(ctx: Any, x: Any) -> Any:  # noqa: N805 - made a static method
        return torch.roll(torch.flip(x, [0]), 1, 0)

    def backward(ctx: Any, grad: Any) -> Any:  # noqa: N805
        return torch.flip(torch.roll(grad, -1, 0), [0])


@_formula(_draw(16))
class clipped:  # noqa: N801 - under the formula's name
    def forward(ctx: Any, x: Any) -> Any:  # noqa: N805 - made a static method
        ctx.save_for_backward(x)
        return torch.clamp(x, -0.5, 0.5)

    def backward(ctx: Any, grad: Any) -> Any:  # noqa: N805
        (x,) = ctx.saved_tensors
        return grad * ((x >= -0.5) & (x <= 0.5))


@_formula(_draw(16))
class running_product:  # noqa: N801 - under the formula's name
    def forward(ctx: Any, x: Any) -> Any:  # noqa: N805 - made a static method
        y = torch.cumprod(x, 0)
        ctx.save_for_backward(x, y)
        return y

    def backward(ctx: Any, grad: Any) -> Any:  # noqa: N805
        x, y = ctx.saved_tensors
        g = torch.flip(torch.cumsum(torch.flip(grad * y, [0]), 0), [0])
        return g / x


@_formula(_draw(4, 4))
class inverted:  # noqa: N801 - under the formula's name
    def forward(ctx: Any, x: Any) -> Any:  # noqa: N805 - made a static method
        y = torch.linalg.inv(x)
        ctx.save_for_backward(y)
        return y

    def backward(ctx: Any, grad: Any) -> Any:  # noqa: N805
        (y,) = ctx.saved_tensors
        return -(y.t() @ grad @ y.t())


@_formula(_draw(1, 2, 8))
class pooled:  # noqa: N801 - under the formula's name
    def forward(ctx: Any, x: Any) -> Any:  # noqa: N805 - made a static method
        y, i = F.max_pool1d(x, 2, return_indices=True)
        ctx.save_for_backward(i)
        return y

    def backward(ctx: Any, grad: Any) -> Any:  # noqa: N805
        (i,) = ctx.saved_tensors
        return grad.new_zeros(1, 2, 8).scatter(2, i, grad)


@_formula(_draw(4, 4), torch.tensor([1, 0, 3, 2]))
class entropy:  # noqa: N801 - under the formula's name
    def forward(ctx: Any, x: Any, t: Any) -> Any:  # noqa: N805 - made a static method
        y = torch.log_softmax(x, -1)
        ctx.save_for_backward(y, t)
        return -y.gather(1, t[:, None]).mean()

    def backward(ctx: Any, grad: Any) -> Any:  # noqa: N805
        y, t = ctx.saved_tensors
        g = torch.exp(y)
        g = g.scatter_add(1, t[:, None], -torch.ones(4, 1))
        return g * (grad / 4), None


@_formula(_draw(4, 4))
class upper:  # noqa: N801 - under the formula's name
    def forward(ctx: Any, x: Any) -> Any:  # noqa: N805 - made a static method
        return torch.triu(x)

    def backward(ctx: Any, grad: Any) -> Any:  # noqa: N805
        return torch.triu(grad)


@_formula(_draw(4, 4))
class lengths:  # noqa: N801 - under the formula's name
    def forward(ctx: Any, x: Any) -> Any:  # noqa: N805 - made a static method
        y = torch.linalg.vector_norm(x, dim=-1)
        ctx.save_for_backward(x, y)
        return y

    def backward(ctx: Any, grad: Any) -> Any:  # noqa: N805
        x, y = ctx.saved_tensors
        return x * (grad / y)[:, None]


@_formula(_draw(8))
class middle:  # noqa: N801 - under the formula's name
    def forward(ctx: Any, x: Any) -> Any:  # noqa: N805 - made a static method
        return x[1:3] * 2

    def backward(ctx: Any, grad: Any) -> Any:  # noqa: N805
        found = grad.new_zeros(8)
        found[1:3] = grad * 2
        return found
