"""Functions as libraries of activations write them."""

import math

import torch
import torch.nn.functional as nnf
from torch.autograd import Function

SQRT_2_OVER_PI = 0.7978845608028654
COEFFICIENT = 0.044715


class Swish(torch.autograd.Function):
    """x * sigmoid(x), which keeps x alone."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return grad_output * (s * (1 + x * (1 - s)))


swish = Swish.apply


class SwishJitAutoFn(torch.autograd.Function):
    """Calls helpers that are scripted."""

    @staticmethod
    def symbolic(g, x):
        return g.op("Mul", x, g.op("Sigmoid", x))

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return swish_jit_fwd(x)

    @staticmethod
    def backward(ctx, grad_output):
        x = ctx.saved_tensors[0]
        return swish_jit_bwd(x, grad_output)


@torch.jit.script
def swish_jit_fwd(x):
    return x.mul(torch.sigmoid(x))


@torch.jit.script
def swish_jit_bwd(x, grad_output):
    x_sigmoid = torch.sigmoid(x)
    return grad_output * (x_sigmoid * (1 + x * (1 - x_sigmoid)))


class MishFunction(Function):
    @staticmethod
    def forward(ctx, inp):
        ctx.save_for_backward(inp)
        return inp.mul(torch.tanh(nnf.softplus(inp)))  # x * tanh(ln(1 + exp(x)))

    @staticmethod
    def backward(ctx, grad_out):
        (inp,) = ctx.saved_tensors
        sigmoid = torch.sigmoid(inp)
        tanh_softplus = torch.tanh(nnf.softplus(inp))
        return grad_out.mul(tanh_softplus + inp * sigmoid * (1 - tanh_softplus * tanh_softplus))


class GeLUFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input, bias):
        ctx.save_for_backward(input, bias)
        x = input + bias
        return x * 0.5 * (1.0 + torch.tanh(SQRT_2_OVER_PI * x * (1 + COEFFICIENT * x * x)))

    @staticmethod
    def backward(ctx, grad_output):
        input, bias = ctx.saved_tensors
        x = input + bias
        tanh_out = torch.tanh(SQRT_2_OVER_PI * x * (1 + COEFFICIENT * x * x))
        # sqrt(2/pi) * 3 * 0.044715 -> 0.1070322243
        ff = 0.5 * x * ((1 - tanh_out * tanh_out) * (SQRT_2_OVER_PI + 0.1070322242696 * x * x)) + 0.5 * (1 + tanh_out)
        tmp = ff * grad_output
        return tmp, tmp.sum(0)


class LeakyClamp(Function):
    """Keeps plain numbers on ctx, two at once."""

    @staticmethod
    def forward(ctx, x, lower, upper, slope: float = 0.01):
        ctx.lower, ctx.upper = lower, upper
        ctx.slope = slope
        ctx.save_for_backward(x)
        inside = x.clamp(lower, upper)
        return inside + slope * (x - inside)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        inside = (x >= ctx.lower) & (x <= ctx.upper)
        return torch.where(inside, grad, ctx.slope * grad), None, None, None


class HardSwish(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mask = (x > -3) & (x < 3)
        ctx.above = x >= 3
        ctx.save_for_backward(x)
        return x * nnf.relu6(x + 3) / 6

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        slope = torch.where(ctx.mask, x / 3 + 0.5, ctx.above.to(x.dtype))
        return g * slope


class Exp(Function):
    """The style of newer torch: forward without ctx."""

    @staticmethod
    def forward(x):
        return x.exp()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output):
        (result,) = ctx.saved_tensors
        return grad_output * result

    @staticmethod
    def vmap(info, in_dims, x):
        return x.exp(), in_dims[0]

    @staticmethod
    def jvp(ctx, x_t):
        return x_t


class ScaledTanh(Function):
    """Binds a parameter anew before what is kept of it is told."""

    @staticmethod
    def forward(x, scale, bias):
        x = x * 2
        y = torch.tanh(x)
        return y * scale + bias, y

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, scale, _ = inputs
        _, y = output
        ctx.mark_non_differentiable(y)
        ctx.save_for_backward(x, scale, y)

    @staticmethod
    def backward(ctx, g, _):
        x, scale, y = ctx.saved_tensors
        grad_x = g * scale * (1 - y * y) * 2 + 0 * x
        return grad_x, (g * y).sum_to_size(scale.shape), g


class LogSpace(Function):
    @staticmethod
    def forward(ctx, x, base=10.0):
        ctx.log_base = math.log(base)
        y = torch.exp(x * ctx.log_base)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, *grad_outputs):
        (y,) = ctx.saved_tensors
        return grad_outputs[0] * y * ctx.log_base, None


class StraightThrough(Function):
    @staticmethod
    def forward(ctx, x):
        return torch.round(x)

    @staticmethod
    def backward(ctx, g):
        return g
