"""Functions of other styles: names that clash, loops, several ways, Functions that use each other."""

import torch
import torch.autograd as autograd
from torch import nn

TWO = 2
TERMS = 4 * TWO


class Clashing(autograd.Function):
    """A local of the backward is called like what is kept, and a gradient like an argument."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.scale = x.sum()
        z = x * y
        ctx.save_for_backward(x, y)
        return z * ctx.scale

    @staticmethod
    def backward(ctx, z):
        y, x = ctx.saved_tensors
        g = z * ctx.scale
        scale = (z * y * x).sum()
        return g * x + scale, g * y


class Rebound(autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        x = x * TWO
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        x = x * 8
        return g * x


class Newton(autograd.Function):
    """The root is solved for, and differentiated by what it satisfies."""

    @staticmethod
    def forward(ctx, a):
        y = torch.ones_like(a)
        for _ in range(40):
            y = (y + a / y) / 2
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g / (2 * y)


class Series(autograd.Function):
    @staticmethod
    def forward(ctx, x, terms):
        total = torch.zeros_like(x)
        power = torch.ones_like(x)
        k = 1
        while k <= terms:
            power = power * x / k
            total = total + power
            k += 1
        ctx.save_for_backward(x)
        ctx.terms = terms
        return total

    @staticmethod
    def backward(ctx, g):
        x = ctx.saved_tensors[0]
        total = torch.ones_like(x)
        power = torch.ones_like(x)
        for k in range(1, ctx.terms):
            power = power * x / k
            total = total + power
        return g * total, None


class CubeForward(autograd.Function):
    """Its gradient is a Function of its own."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad_out):
        (x,) = ctx.saved_tensors
        return CubeBackward.apply(grad_out, x)


class CubeBackward(autograd.Function):
    @staticmethod
    def forward(ctx, grad_out, x):
        ctx.save_for_backward(x, grad_out)
        return grad_out * 3 * x**2

    @staticmethod
    def backward(ctx, grad_grad):
        x, grad_out = ctx.saved_tensors
        return grad_grad * 3 * x**2, grad_grad * grad_out * 6 * x


class Weighted(autograd.Function):
    @staticmethod
    def forward(ctx, xs, weights, mode="sum"):
        product = xs * weights
        if mode == "sum":
            out = product.sum()
        elif mode == "mean":
            out = product.mean()
        else:
            raise ValueError("mode is sum or mean")
        ctx.mode = mode
        ctx.save_for_backward(xs, weights)
        return out

    @staticmethod
    def backward(ctx, g):
        xs, weights = ctx.saved_tensors
        if ctx.mode == "mean":
            g = g / xs.numel()
        return g * weights, g * xs, None


class Sorted(autograd.Function):
    @staticmethod
    def forward(ctx, x):
        values, order = torch.sort(x, dim=-1)
        ctx.save_for_backward(order)
        ctx.mark_non_differentiable(order)
        return values, order

    @staticmethod
    def backward(ctx, g, g_order):
        (order,) = ctx.saved_tensors
        return torch.zeros_like(g).scatter(-1, order, g)


class Early(autograd.Function):
    @staticmethod
    def forward(ctx, x, flag):
        ctx.flag = flag
        ctx.save_for_backward(x)
        y = x.sin() if flag else x.cos()
        return y

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        if ctx.flag:
            return g * x.cos(), None
        return -g * x.sin(), None


class AllNeeded(autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b + torch.ones_like(a) * TERMS

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        needs_a, needs_b = ctx.needs_input_grad
        ga, gb = None, None
        if any(ctx.needs_input_grad):
            ga = g * b if needs_a else None
            gb = g * a if needs_b else None
        return ga, gb, None


class Unused(nn.Module):
    def forward(self, x):
        return CubeForward.apply(x)
