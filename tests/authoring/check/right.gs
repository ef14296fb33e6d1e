# Formulas that are right: the checker must pass each of them.


def add_scaled(x, y, alpha: float):
    def backward(grad_output):
        return grad_output.sum_to_size(x.size()), (grad_output * alpha).sum_to_size(y.size()), None

    return x + y * alpha, backward


def mul(self, other):
    def backward(grad_output):
        grad_self = (grad_output * other).sum_to_size(self.size())
        grad_other = (grad_output * self).sum_to_size(other.size())
        return grad_self, grad_other

    return self * other, backward


def div(a, b):
    def backward(g):
        return (g / b).sum_to_size(a.size()), (-g * a / (b * b)).sum_to_size(b.size())

    return a / b, backward


def silu(x):
    s = torch.sigmoid(x)

    def backward(grad_output):
        return grad_output * s * (1 + x * (1 - s))

    return x * s, backward


def swiglu(x, gate):
    s = torch.sigmoid(gate)

    def backward(grad_output):
        grad_x = (grad_output * gate * s).sum_to_size(x.size())
        grad_gate = (grad_output * x * s * (1 + gate * (1 - s))).sum_to_size(gate.size())
        return grad_x, grad_gate

    return x * gate * s, backward


def relu(x):
    def backward(g):
        return g * (x > 0)

    return torch.relu(x), backward


def leaky(x, slope: float = 0.01):
    def backward(g):
        return torch.where(x > 0, g, g * slope), None

    return torch.where(x > 0, x, x * slope), backward


def absolute(x):
    def backward(g):
        return g * torch.sign(x)

    return x.abs(), backward


def clamped(x, low: float, high: float):
    def backward(g):
        return g * ((x >= low) & (x <= high)), None, None

    return x.clamp(low, high), backward


def larger(a, b):
    def backward(g):
        return (g * (a > b)).sum_to_size(a.size()), (g * (a <= b)).sum_to_size(b.size())

    return torch.where(a > b, a, b), backward


def gelu_tanh(x):
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    t = torch.tanh(inner)

    def backward(g):
        slope = 0.7978845608028654 * (1 + 3 * 0.044715 * x * x)
        return g * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope)

    return 0.5 * x * (1 + t), backward


def softplus(x, beta: float):
    def backward(g):
        return g * torch.sigmoid(beta * x), None

    return torch.log(1 + torch.exp(beta * x)) / beta, backward


def logarithm(x):
    def backward(g):
        return g / x

    return torch.log(x), backward


def square_root(x):
    y = torch.sqrt(x)

    def backward(g):
        return g / (2 * y)

    return y, backward


def entropy_term(p):
    def backward(g):
        return g * (torch.log(p) - torch.log(1 - p))

    return p * torch.log(p) + (1 - p) * torch.log(1 - p), backward


def matmul(x, w):
    def backward(g):
        return g @ w.t(), x.t() @ g

    return x @ w, backward


def linear(x, weight, bias: Optional[Tensor]):
    def backward(g):
        grad_bias = g.sum(0) if bias is not None else None
        return g @ weight, g.t() @ x, grad_bias

    out = x @ weight.t()
    if bias is not None:
        out = out + bias
    return out, backward


def bilinear(x, w, y):
    def backward(g):
        return g * (w @ y), g * x.unsqueeze(-1) * y.unsqueeze(0), g * (w.t() @ x)

    return (x * (w @ y)).sum(), backward


def mean_of(x):
    def backward(g):
        return g.expand(x.size()) / x.numel()

    return x.mean(), backward


def sum_over(x, dim: int, keepdim: bool):
    def backward(g):
        full = g if keepdim else g.unsqueeze(dim)
        return full.expand(x.size()), None, None

    return x.sum(dim, keepdim=keepdim), backward


def squared_error(pred, target):
    diff = pred - target

    def backward(g):
        grad = g * 2 * diff / diff.numel()
        return grad.sum_to_size(pred.size()), -grad.sum_to_size(target.size())

    return (diff * diff).mean(), backward


def softmax(x):
    e = torch.exp(x - x.amax(-1, keepdim=True))
    y = e / e.sum(-1, keepdim=True)

    def backward(g):
        return y * (g - (g * y).sum(-1, keepdim=True))

    return y, backward


def log_softmax(x, dim: int):
    y = torch.log_softmax(x, dim)

    def backward(g):
        return g - torch.exp(y) * g.sum(dim, keepdim=True), None

    return y, backward


def logsumexp(x):
    y = torch.logsumexp(x, [-1], keepdim=True)

    def backward(g):
        return g * torch.exp(x - y)

    return y, backward


def rms_norm(x, weight, eps: float = 1e-5):
    rstd = torch.rsqrt((x * x).mean(-1, keepdim=True) + eps)
    normed = x * rstd

    def backward(g):
        gw = g * weight
        grad_x = rstd * (gw - normed * (gw * normed).mean(-1, keepdim=True))
        return grad_x.sum_to_size(x.size()), (g * normed).sum_to_size(weight.size()), None

    return normed * weight, backward


def layer_norm(x, weight, bias, eps: float):
    mean = x.mean(-1, keepdim=True)
    centered = x - mean
    rstd = torch.rsqrt((centered * centered).mean(-1, keepdim=True) + eps)
    normed = centered * rstd

    def backward(g):
        gw = g * weight
        grad_x = rstd * (gw - gw.mean(-1, keepdim=True) - normed * (gw * normed).mean(-1, keepdim=True))
        return grad_x, (g * normed).sum(0), g.sum(0), None

    return normed * weight + bias, backward


def cross_entropy(logits, target):
    logp = torch.log_softmax(logits, -1)
    picked = logp.gather(1, target.unsqueeze(1)).squeeze(1)

    def backward(g):
        onehot = torch.zeros_like(logp).scatter(1, target.unsqueeze(1), 1.0)
        return (torch.exp(logp) - onehot) * g / target.numel(), None

    return -picked.mean(), backward


def embedding(weight, indices):
    def backward(g):
        return torch.zeros_like(weight).index_add(0, indices, g), None

    return weight.index_select(0, indices), backward


def dropout(x, mask, p: float):
    mask = mask.detach()

    def backward(g):
        return g * mask / (1 - p), None, None

    return x * mask / (1 - p), backward


def scaled(x, *, scale: float = 2.0, shift: Optional[Tensor] = None):
    def backward(g):
        if shift is not None:
            return (g * scale).sum_to_size(x.size()), None, g.sum_to_size(shift.size())
        return g * scale, None, None

    y = x * scale
    if shift is not None:
        y = y + shift
    return y, backward


def sin_cos(x):
    s = torch.sin(x)
    c = torch.cos(x)

    def backward(grad_s, grad_c):
        return grad_s * c - grad_c * s

    return s, c, backward


def split_in_two(x):
    half = x.size(-1) // 2

    def backward(grad_left, grad_right):
        return torch.cat([grad_left, grad_right], -1)

    return x.narrow(-1, 0, half), x.narrow(-1, half, x.size(-1) - half), backward


def concatenated(parts: List[Tensor]):
    sizes = [part.size(0) for part in parts]

    def backward(g):
        grads: List[Tensor] = []
        start = 0
        for size in sizes:
            grads = grads + [g.narrow(0, start, size)]
            start += size
        return grads

    return torch.cat(parts, 0), backward


def power(x, n: int):
    y = torch.ones_like(x)
    for i in range(n):
        y = y * x

    def backward(g):
        slope = torch.zeros_like(x)
        if n > 0:
            slope = torch.ones_like(x)
            for i in range(n - 1):
                slope = slope * x
        return g * slope * n, None

    return y, backward


def branching(x, positive: bool):
    if positive:
        y = torch.exp(x)
    else:
        y = torch.sin(x)

    def backward(g):
        if positive:
            return g * y, None
        return g * torch.cos(x), None

    return y, backward


def reduced(x, reduction: str):
    def backward(g):
        if reduction == "mean":
            return (g / x.numel()).expand(x.size()), None
        return g.expand(x.size()), None

    assert reduction == "mean" or reduction == "sum"
    return x.mean() if reduction == "mean" else x.sum(), backward


def largest(x):
    y = x.amax(-1, keepdim=True)

    def backward(g):
        tied = x == y
        return g * tied / tied.sum(-1, keepdim=True)

    return y, backward


def swapped_dims(x, dim0: int, dim1: int):
    def backward(g):
        return g.transpose(dim0, dim1), None, None

    return x.transpose(dim0, dim1), backward


def reshaped(x, shape: List[int]):
    def backward(g):
        return g.reshape(x.size()), None

    return x.reshape(shape), backward


def attention(q, k, v):
    scores = torch.softmax(q @ k.mT, -1)

    def backward(g):
        grad_scores = g @ v.mT
        inner = scores * (grad_scores - (grad_scores * scores).sum(-1, keepdim=True))
        return inner @ k, inner.mT @ q, scores.mT @ g

    return scores @ v, backward


def square_with_second(x):
    def backward(g):
        def backward(gg):
            return gg * 2 * x, gg * 2 * g

        return g * 2 * x, backward

    return x * x, backward


def lookup(table, rows: Tensor):
    def backward(g):
        return torch.zeros_like(table).index_add(0, rows, g), None

    return table.index_select(0, rows), backward


def lookup_examples():
    return [(torch.zeros([5, 3]), torch.tensor([0, 4, 1, 4]))]


def huber(x, delta: float):
    size = x.abs()

    def backward(g):
        return g * torch.where(size < delta, x, delta * torch.sign(x)), None

    return torch.where(size < delta, 0.5 * x * x, delta * (size - 0.5 * delta)), backward


def inverse(a):
    y = torch.inverse(a)

    def backward(g):
        return -(y.mT @ g @ y.mT)

    return y, backward


def loop_saved(x, n: int):
    y = torch.ones_like(x)
    total = torch.zeros_like(x)
    for _ in range(n):
        y = y * torch.sin(x)
        total = total + y

    def backward(g):
        s = torch.zeros_like(x)
        p = torch.ones_like(x)
        for i in range(n):
            s = s + p * (i + 1)
            p = p * torch.sin(x)
        return g * s * torch.cos(x) + g * 0 * y, None

    return total, backward
