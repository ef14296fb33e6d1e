"""More right formulas with backwards written by hand: pooling, indices, randomness, matrices, numbers."""

_TEXTS = """
def mean_pool(x, width: int = 2):
    assert x.dim() == 2 and width > 0 and x.size(1) % width == 0

    def backward(g):
        return g.unsqueeze(-1).expand(g.size(0), g.size(1), width).reshape(x.size()) / width, None

    return x.reshape(x.size(0), x.size(1) // width, width).mean(-1), backward
---
def max_pool(x):
    assert x.dim() == 2 and x.size(1) % 3 == 0
    windows = x.reshape(x.size(0), x.size(1) // 3, 3)
    values, places = windows.max(-1)

    def backward(g):
        return torch.zeros_like(windows).scatter(-1, places.unsqueeze(-1), g.unsqueeze(-1)).reshape(x.size())

    return values, backward
---
def lp_pool(x, p: float = 3.0):
    assert x.dim() == 2 and x.size(1) % 2 == 0 and p > 1.0 and (x.abs() > 0.01).all()
    windows = x.abs().reshape(x.size(0), x.size(1) // 2, 2)
    total = (windows**p).sum(-1) ** (1 / p)

    def backward(g):
        slope = (windows / total.unsqueeze(-1)) ** (p - 1) * g.unsqueeze(-1)
        return slope.reshape(x.size()) * torch.sign(x), None

    return total, backward
---
def global_context(x):
    assert x.dim() == 3
    w = torch.softmax(x.sum(1), -1)

    def backward(g):
        grad_w = (g.unsqueeze(-1) * x).sum(1)
        inner = w * (grad_w - (grad_w * w).sum(-1, True))
        return g.unsqueeze(-1) * w.unsqueeze(1) + inner.unsqueeze(1)

    return (x * w.unsqueeze(1)).sum(-1), backward
---
def gather_rows(table, idx):
    assert table.dim() == 2 and idx.dim() == 1

    def backward(g):
        return torch.zeros_like(table).index_add(0, idx, 2 * g * table[idx]), None

    return table[idx] ** 2, backward
---
def segment_sum(x, idx):
    assert x.dim() == 1 and idx.dim() == 1 and x.size(0) == idx.size(0)

    def backward(g):
        return g[idx], None

    return torch.zeros(4, dtype=x.dtype).index_add(0, idx, x), backward
---
def swap_ends(x):
    assert x.dim() == 1 and x.size(0) > 2

    def backward(g):
        return torch.cat([g[-1:], g[1:-1], g[:1]])

    return torch.cat([x[-1:], x[1:-1], x[:1]]), backward
---
def every_other(x, step: int = 2):
    assert x.dim() == 2 and step > 0

    def backward(g):
        grad = torch.zeros_like(x)
        grad[:, ::step] = g
        return grad, None

    return x[:, ::step] * 1, backward
---
def masked_mean(x, mask):
    assert x.size() == mask.size() and mask.dtype == torch.bool
    count = mask.sum().clamp(min=1).to(x.dtype)

    def backward(g):
        return torch.where(mask, g / count, 0.0), None

    return torch.where(mask, x, 0.0).sum() / count, backward
---
def masked_softmax(x, mask):
    assert x.dim() == 2 and x.size() == mask.size() and mask.dtype == torch.bool
    e = torch.where(mask, torch.exp(x - x.amax(-1, True).detach()), 0.0)
    p = e / (e.sum(-1, True) + 1e-6)

    def backward(g):
        return p * (g - (g * p).sum(-1, True)), None

    return p, backward
---
def mean_and_variance(x):
    assert x.dim() == 2 and x.size(1) > 0
    mean = x.mean(1)
    gap = x - mean.unsqueeze(1)

    def backward(g_mean, g_variance):
        return (g_mean.unsqueeze(1) + 2 * g_variance.unsqueeze(1) * gap) / x.size(1)

    return mean, (gap * gap).mean(1), backward
---
def polar(x, y):
    assert x.size() == y.size()
    radius = torch.sqrt(x * x + y * y + 1e-3)

    def backward(g_radius, g_angle):
        square = x * x + y * y
        return g_radius * x / radius - g_angle * y / square, g_radius * y / radius + g_angle * x / square

    assert (x * x + y * y > 0.01).all()
    return radius, torch.atan2(y, x), backward
---
def quotient_and_product(x, y):
    assert x.size() == y.size() and (y.abs() > 0.01).all()

    def backward(g_quotient, g_product):
        return g_quotient / y + g_product * y, g_product * x - g_quotient * x / (y * y)

    return x / y, x * y, backward
---
def value_and_count(x):
    def backward(g):
        return 2 * g * x

    return (x * x).sum(), x.numel(), backward
---
def noisy(x, scale: float = 0.3):
    noise = torch.randn_like(x)

    def backward(g):
        return g * (1 + scale * noise), None

    return x + scale * noise * x, backward
---
def dropped(x, p: float = 0.4):
    assert 0.0 <= p and p < 1.0
    keep = (torch.rand_like(x) >= p).to(x.dtype) / (1 - p)

    def backward(g):
        return g * keep, None

    return x * keep, backward
---
def reparametrized(mean, log_std):
    assert mean.size() == log_std.size()
    noise = torch.randn_like(mean)
    std = torch.exp(log_std)

    def backward(g):
        return g, g * noise * std

    return mean + noise * std, backward
---
def gumbel(x, temperature: float = 0.8):
    assert x.dim() > 0 and temperature > 0.1
    noise = -torch.log(-torch.log(torch.rand_like(x).clamp(0.01, 0.99)))
    p = torch.softmax((x + noise) / temperature, -1)

    def backward(g):
        return p * (g - (g * p).sum(-1, True)) / temperature, None

    return p, backward
---
def bilinear_form(x, m, y):
    assert x.dim() == 1 and m.dim() == 2 and y.dim() == 1

    def backward(g):
        return g * (m @ y), g * torch.outer(x, y), g * (m.t() @ x)

    return x @ (m @ y), backward
---
def mahalanobis(x, mean, precision):
    assert x.dim() == 1 and mean.dim() == 1 and precision.dim() == 2
    gap = x - mean

    def backward(g):
        slope = g * (precision @ gap + precision.t() @ gap)
        return slope, -slope, g * torch.outer(gap, gap)

    return gap @ (precision @ gap), backward
---
def low_rank(x, a, b, scale: float = 2.0):
    assert x.dim() == 2 and a.dim() == 2 and b.dim() == 2
    inner = x @ a

    def backward(g):
        grad_inner = scale * g @ b.t()
        return grad_inner @ a.t(), x.t() @ grad_inner, scale * inner.t() @ g, None

    return scale * inner @ b, backward
---
def two_layers(x, w, v):
    assert x.dim() == 2 and w.dim() == 2 and v.dim() == 2
    h = torch.tanh(x @ w)

    def backward(g):
        inner = g @ v.t() * (1 - h * h)
        return inner @ w.t(), x.t() @ inner, h.t() @ g

    return h @ v, backward
---
def cross_3d(a, b):
    assert a.dim() == 2 and a.size(1) == 3 and a.size() == b.size()

    def backward(g):
        return torch.linalg.cross(b, g), torch.linalg.cross(g, a)

    return torch.linalg.cross(a, b), backward
---
def log_det(a):
    assert a.dim() == 2 and a.size(0) == a.size(1)

    def backward(g):
        return g * torch.linalg.inv(a).t()

    return torch.linalg.slogdet(a)[1], backward


def log_det_examples():
    return [
        (torch.tensor([[2.0, 0.3], [0.5, 1.5]]),),
        (torch.tensor([[1.0, 0.2, 0.0], [0.1, 2.0, 0.4], [0.3, 0.0, 1.2]]),),
    ]
---
def elastic(w, ratio: float = 0.3, strength: float = 0.7):
    def backward(g):
        return g * strength * (ratio * torch.sign(w) + (1 - ratio) * w), None, None

    return strength * (ratio * w.abs().sum() + (1 - ratio) / 2 * (w * w).sum()), backward
---
def momentum_step(p, grad, velocity, rate: float = 0.1, mass: float = 0.9):
    assert p.size() == grad.size() and p.size() == velocity.size()

    def backward(g_p, g_v):
        g_v = g_v - rate * g_p
        return g_p, g_v, mass * g_v, None, None

    v = mass * velocity + grad
    return p - rate * v, v, backward
---
def compound(x, years: int = 3, rate: float = 0.05):
    assert years >= 0
    total = x
    for _ in range(years):
        total = total * (1 + rate) + 1

    def backward(g):
        return g * (1 + rate) ** years, None, None

    return total, backward
---
def logistic_map(x, rounds: int = 3):
    assert rounds >= 0
    y = x
    slope = torch.ones_like(x)
    for _ in range(rounds):
        slope = slope * 2.5 * (1 - 2 * y)
        y = 2.5 * y * (1 - y)

    def backward(g):
        slope = torch.ones_like(x)
        y = x
        for _ in range(rounds):
            slope = slope * 2.5 * (1 - 2 * y)
            y = 2.5 * y * (1 - y)
        return g * slope, None

    return y, backward
---
def switched(x, kind: str = "sin"):
    assert kind == "sin" or kind == "square"

    def backward(g):
        if kind == "sin":
            return g * torch.cos(x), None
        return 2 * g * x, None

    y = torch.sin(x) if kind == "sin" else x * x
    return y, backward
---
def sum_of_powers(xs: List[Tensor]):
    total = torch.zeros_like(xs[0].sum())
    for i in range(len(xs)):
        total = total + (xs[i] ** (i + 1)).sum()

    def backward(g):
        grads: List[Tensor] = []
        for i in range(len(xs)):
            grads.append(g * (i + 1) * xs[i] ** i)
        return grads

    return total, backward
---
def weighted_list(xs: List[Tensor], weights: List[float]):
    assert len(xs) == len(weights)
    total = xs[0] * weights[0]
    for i in range(1, len(xs)):
        assert xs[i].size() == xs[0].size()
        total = total + xs[i] * weights[i]

    def backward(g):
        return [g * weight for weight in weights], None

    return total, backward
"""

BY_HAND = tuple(text.strip() + "\n" for text in _TEXTS.split("---\n"))
"""The source of each."""
