"""Functions as libraries of layers write them."""

import torch as th
from torch import Tensor
from torch.autograd.function import Function, once_differentiable
from torch.nn import functional as nnf


class LinearFunction(Function):
    """The one of torch's tutorial."""

    @staticmethod
    def forward(ctx, input, weight, bias=None):
        ctx.save_for_backward(input, weight, bias)
        output = input.mm(weight.t())
        if bias is not None:
            output += bias.unsqueeze(0).expand_as(output)
        return output

    @staticmethod
    def backward(ctx, grad_output):
        # a pattern that is convenient: gradients that nobody needs stay None
        input, weight, bias = ctx.saved_tensors
        grad_input = grad_weight = grad_bias = None
        if ctx.needs_input_grad[0]:
            grad_input = grad_output.mm(weight)
        if ctx.needs_input_grad[1]:
            grad_weight = grad_output.t().mm(input)
        if bias is not None and ctx.needs_input_grad[2]:
            grad_bias = grad_output.sum(0)
        return grad_input, grad_weight, grad_bias


class MulConstant(Function):
    @staticmethod
    def forward(tensor, constant):
        return tensor * constant

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, constant = inputs
        ctx.constant = constant

    @staticmethod
    def backward(ctx, grad_output):
        # as many gradients as there were arguments
        return grad_output * ctx.constant, None


class LayerNormFunction(Function):
    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
        mean = x.mean(-1, keepdim=True)
        centred = x - mean
        rstd = th.rsqrt((centred * centred).mean(-1, keepdim=True) + eps)
        x_hat = centred * rstd
        ctx.save_for_backward(x_hat, rstd, weight)
        return x_hat * weight + bias

    @staticmethod
    @once_differentiable
    def backward(ctx, dy: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
        x_hat, rstd, weight = ctx.saved_tensors
        dweight = (dy * x_hat).sum(0)
        dbias = dy.sum(0)
        g = dy * weight
        dx = (g - g.mean(-1, keepdim=True) - x_hat * (g * x_hat).mean(-1, keepdim=True)) * rstd
        return dx, dweight, dbias, None


class RMSNorm(Function):
    EPS = 1e-6

    @staticmethod
    def forward(ctx, x, weight):
        inv = RMSNorm._inverse(x)
        ctx.save_for_backward(x, weight, inv)
        return x * inv * weight

    @staticmethod
    def _inverse(x):
        return th.rsqrt(x.pow(2).mean(-1, keepdim=True) + RMSNorm.EPS)

    @staticmethod
    def backward(ctx, g):
        x, weight, inv = ctx.saved_tensors
        n = x.shape[-1]
        gw = g * weight
        gx = inv * gw - x * inv**3 * (gw * x).sum(-1, keepdim=True) / n
        return gx, (g * x * inv).sum(0)


class GRN(Function):
    @staticmethod
    def forward(ctx, x, alpha, beta, gamma):
        nu2 = (x * x).mean(dim=1, keepdim=True)
        ctx.nu2, ctx.beta = nu2, beta
        xg = x * (nu2 + gamma) ** -0.5
        ctx.save_for_backward(x, alpha, xg)
        ctx.gamma = gamma
        return alpha * xg + beta

    @staticmethod
    def backward(ctx, dy):
        x, alpha, xg = ctx.saved_tensors
        r = (ctx.nu2 + ctx.gamma) ** -0.5
        d = dy * alpha
        dx = d * r - x * r**3 * (d * x).mean(dim=1, keepdim=True)
        return dx, (dy * xg).sum_to_size(alpha.size()), dy.sum_to_size(ctx.beta.size()), None


class FlattenHead(Function):
    """Keeps a shape, and nothing else."""

    @staticmethod
    def forward(ctx, x, start):
        ctx.shape = x.shape
        return x.flatten(start)

    @staticmethod
    def backward(ctx, g):
        return g.reshape(ctx.shape), None


class Gather(Function):
    @staticmethod
    def forward(ctx, table, index):
        ctx.save_for_backward(index)
        ctx.rows = table.size(0)
        return table[index]

    @staticmethod
    def backward(ctx, g):
        (index,) = ctx.saved_tensors
        return th.zeros([ctx.rows, g.size(-1)], dtype=g.dtype).index_add(0, index, g), None


class Attention(Function):
    @staticmethod
    def forward(ctx, q, k, v, causal):
        s = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
        if causal:
            s = s.masked_fill(th.ones_like(s).triu(1) > 0, float("-inf"))
        p = nnf.softmax(s, dim=-1)
        ctx.save_for_backward(q, k, v, p)
        return p @ v

    @staticmethod
    def backward(ctx, do):
        saved = ctx.saved_tensors
        q, k, v = saved[0], saved[1], saved[2]
        p = saved[3]
        dv = p.transpose(-2, -1) @ do
        dp = do @ v.transpose(-2, -1)
        ds = p * (dp - (dp * p).sum(-1, keepdim=True)) * q.shape[-1] ** -0.5
        return ds @ k, ds.transpose(-2, -1) @ q, dv, None


class CrossEntropy(Function):
    @staticmethod
    def forward(ctx, logits, target, smoothing=0.1):
        with th.no_grad():
            logp = nnf.log_softmax(logits, -1)
            one_hot = nnf.one_hot(target, logits.size(-1)).to(logits.dtype)
            soft = one_hot * (1 - smoothing) + smoothing / logits.size(-1)
        ctx.save_for_backward(logp, soft)
        return -(soft * logp).sum(-1).mean()

    @staticmethod
    def backward(ctx, g):
        logp, soft = ctx.saved_tensors
        return g * (logp.exp() - soft) / logp.size(0), None, None


class SwiGLU(Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.set_materialize_grads(False)
        gate = nnf.silu(a)
        ctx.save_for_backward(a, b, gate)
        return gate * b

    @staticmethod
    def backward(ctx, dc):
        a, b, gate = ctx.saved_tensors
        s = th.sigmoid(a)
        db = dc * gate
        da = dc * b * (s + gate * (1 - s))
        return da, db


class Split(Function):
    @staticmethod
    def forward(ctx, x, size):
        left, right = x[:, :size], x[:, size:]
        return left * 1, right * 2

    @staticmethod
    def backward(ctx, dl, dr):
        return th.cat([dl, 2 * dr], 1), None


class ReverseGradient(Function):
    @staticmethod
    def forward(ctx, x, lambd):
        ctx.lambd = lambd
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grads):
        return grads.neg() * ctx.lambd, None
