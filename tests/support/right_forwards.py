"""Forwards of many fields without a backward: norms, losses, attention, physics, finance, control flow."""

_TEXTS = """
def rms_norm(x, weight, eps: float = 1e-6):
    return x * torch.rsqrt((x * x).mean(-1, True) + eps) * weight
---
def layer_norm(x, weight: Optional[Tensor] = None, bias: Optional[Tensor] = None, eps: float = 1e-5):
    centred = x - x.mean(-1, True)
    y = centred * torch.rsqrt((centred * centred).mean(-1, True) + eps)
    if weight is not None:
        y = y * weight
    if bias is not None:
        y = y + bias
    return y
---
def batch_norm(x, weight, bias, eps: float = 1e-3):
    mean = x.mean(0, True)
    var = ((x - mean) ** 2).mean(0, True)
    return (x - mean) / torch.sqrt(var + eps) * weight + bias
---
def instance_norm(x, eps: float = 1e-3):
    assert x.dim() == 3
    mean = x.mean(2, True)
    return (x - mean) / torch.sqrt(((x - mean) ** 2).mean(2, True) + eps)
---
def unit(x, eps: float = 1e-3):
    return x / torch.sqrt((x * x).sum(-1, True) + eps)
---
def weight_norm(v, g):
    assert v.dim() == 2 and g.dim() == 1
    return v / torch.sqrt((v * v).sum(1, True)) * g.unsqueeze(1)
---
def group_norm(x, groups: int = 2):
    assert x.dim() == 3 and groups > 0 and x.size(1) % groups == 0
    split = x.reshape(x.size(0), groups, -1)
    centred = split - split.mean(-1, True)
    return (centred * torch.rsqrt((centred * centred).mean(-1, True) + 1e-3)).reshape(x.size())
---
def softmax(x, dim: int = -1):
    e = torch.exp(x - x.amax(dim, True).detach())
    return e / e.sum(dim, True)
---
def log_softmax(x, dim: int = -1):
    return x - torch.logsumexp(x, dim, True)
---
def cross_entropy(logits, target):
    assert logits.dim() == 2 and target.dim() == 1
    logp = torch.log_softmax(logits, 1)
    return -logp.gather(1, target.unsqueeze(1)).mean()
---
def smoothed(logits, target, smoothing: float = 0.1):
    assert logits.dim() == 2 and target.dim() == 1
    logp = torch.log_softmax(logits, 1)
    hit = logp.gather(1, target.unsqueeze(1)).squeeze(1)
    return -((1 - smoothing) * hit + smoothing * logp.mean(1)).mean()
---
def focal(logits, target, gamma: float = 2.0):
    assert logits.dim() == 2 and target.dim() == 1
    logp = torch.log_softmax(logits, 1).gather(1, target.unsqueeze(1)).squeeze(1)
    return -((1 - torch.exp(logp)) ** gamma * logp).sum()
---
def with_logits(x, t, weight: Optional[Tensor] = None):
    each = torch.relu(x) - x * t + torch.log1p(torch.exp(-x.abs()))
    if weight is not None:
        each = each * weight
    return each.mean()
---
def poisson(rate, count, full: bool = False):
    each = torch.exp(rate) - count * rate
    if full:
        each = each + 0.5 * torch.log(2 * math.pi * (count * count + 1))
    return each.sum()
---
def kl(p, q):
    return (torch.softmax(p, -1) * (torch.log_softmax(p, -1) - torch.log_softmax(q, -1))).sum()
---
def jensen(p, q):
    a = torch.softmax(p, -1)
    b = torch.softmax(q, -1)
    m = (a + b) / 2
    return ((a * torch.log(a / m)).sum() + (b * torch.log(b / m)).sum()) / 2
---
def gaussian(x, mean, log_scale):
    z = (x - mean) * torch.exp(-log_scale)
    return (0.5 * z * z + log_scale).sum()
---
def triplet(anchor, near, far, margin: float = 1.0):
    a = ((anchor - near) ** 2).sum(-1)
    b = ((anchor - far) ** 2).sum(-1)
    return torch.relu(a - b + margin).mean()
---
def cosine_loss(a, b, eps: float = 1e-3):
    return 1 - ((a * b).sum(-1) / torch.sqrt((a * a).sum(-1) * (b * b).sum(-1) + eps)).mean()
---
def contrastive(x, y, temperature: float = 0.5):
    assert x.dim() == 2 and y.dim() == 2
    scores = x @ y.t() / temperature
    return (torch.logsumexp(scores, 1) - torch.diagonal(scores)).mean()
---
def quantile(x, t, tau: float = 0.3):
    d = t - x
    return torch.maximum(tau * d, (tau - 1) * d).mean()
---
def dice(x, t):
    p = torch.sigmoid(x)
    return 1 - (2 * (p * t).sum() + 1) / (p.sum() + (t * t).sum() + 1)
---
def hinge(x, y, reduction: str = "mean"):
    each = torch.relu(1 - x * y)
    if reduction == "mean":
        return each.mean()
    elif reduction == "sum":
        return each.sum()
    return each
---
def attention(q, k, v, causal: bool = False):
    assert q.dim() == 3 and k.dim() == 3 and v.dim() == 3
    scores = q @ k.mT / q.size(-1) ** 0.5
    if causal:
        scores = scores - 1e3 * torch.triu(torch.ones_like(scores), 1)
    return torch.softmax(scores, -1) @ v
---
def masked_attention(q, k, v, mask):
    assert q.dim() == 2 and k.dim() == 2 and v.dim() == 2 and mask.dtype == torch.bool
    scores = (q @ k.t()).masked_fill(mask, -1e3)
    return torch.softmax(scores, -1) @ v
---
def linear_attention(q, k, v):
    assert q.dim() == 2 and k.dim() == 2 and v.dim() == 2
    a = torch.exp(q)
    b = torch.exp(k)
    return (a @ (b.t() @ v)) / (a @ b.sum(0).unsqueeze(1))
---
def rotate(x, angle):
    assert x.dim() == 2 and angle.dim() == 1 and x.size(1) == 2 * angle.size(0)
    a, b = torch.chunk(x, 2, 1)
    return torch.stack([a * torch.cos(angle) - b * torch.sin(angle), a * torch.sin(angle) + b * torch.cos(angle)], 1)
---
def swiglu(x, gate, up):
    assert x.dim() == 2 and gate.dim() == 2 and up.dim() == 2
    return F.silu(x @ gate) * (x @ up)
---
def glu(x):
    assert x.dim() > 0 and x.size(-1) % 2 == 0
    a, b = torch.chunk(x, 2, -1)
    return a * torch.sigmoid(b)
---
def alibi(scores, slope):
    assert scores.dim() == 2 and slope.dim() == 0
    places = torch.arange(scores.size(1), dtype=scores.dtype)
    return torch.softmax(scores - slope * places, -1)
---
def sinkhorn(scores, rounds: int = 2):
    assert scores.dim() == 2 and rounds >= 0
    p = scores
    for _ in range(rounds):
        p = p - torch.logsumexp(p, 1, True)
        p = p - torch.logsumexp(p, 0, True)
    return torch.exp(p)
---
def spring(x, rest: float = 1.0, stiffness: float = 2.0):
    assert x.dim() == 1
    stretch = x[1:] - x[:-1] - rest
    return 0.5 * stiffness * (stretch * stretch).sum()
---
def lennard_jones(r, sigma: float = 1.0):
    s = (sigma * sigma / (r * r)) ** 3
    return 4 * (s * s - s).sum()
---
def coulomb(places, charges):
    assert places.dim() == 2 and charges.dim() == 1
    d = places.unsqueeze(0) - places.unsqueeze(1)
    r = torch.sqrt((d * d).sum(-1) + 0.1)
    return 0.5 * (charges.unsqueeze(0) * charges.unsqueeze(1) / r).sum()
---
def pendulum(angle, speed, steps: int = 3, dt: float = 0.1):
    assert steps >= 0
    for _ in range(steps):
        speed = speed - dt * torch.sin(angle)
        angle = angle + dt * speed
    return angle, speed
---
def projectile(speed, angle, gravity: float = 9.81):
    return speed * speed * torch.sin(2 * angle) / gravity
---
def decay(amount, rate, time: float = 2.0):
    return amount * torch.exp(-rate * time)
---
def planck(t, frequency: float = 1.5):
    return frequency**3 / (torch.exp(frequency / (t * t + 0.5)) - 1)
---
def heat(u, steps: int = 2, k: float = 0.2):
    assert u.dim() == 1 and u.size(0) > 2 and steps >= 0
    for _ in range(steps):
        inner = u[1:-1] + k * (u[2:] - 2 * u[1:-1] + u[:-2])
        u = F.pad(inner, [1, 1], "constant", 0.0)
    return u
---
def wave(u, v, c: float = 0.5):
    assert u.dim() == 1 and v.dim() == 1
    bend = torch.roll(u, 1, 0) - 2 * u + torch.roll(u, -1, 0)
    return u + v, v + c * c * bend
---
def ising(field, coupling):
    assert field.dim() == 1 and coupling.dim() == 2
    m = torch.tanh(field)
    return -(m * (coupling @ m)).sum() - (field * m).sum()
---
def relativistic(p, mass: float = 1.5):
    return torch.sqrt((p * p).sum(-1) + mass * mass)
---
def lens(focus, distance):
    return 1 / (1 / (focus * focus + 0.1) + 1 / (distance * distance + 0.1))
---
def black_scholes(spot, strike, volatility: float = 0.3, time: float = 1.5, rate: float = 0.02):
    s = spot * spot + 0.1
    k = strike * strike + 0.1
    deviation = volatility * time**0.5
    d = (torch.log(s / k) + (rate + volatility**2 / 2) * time) / deviation
    high = 0.5 * (1 + torch.erf(d / 2**0.5))
    low = 0.5 * (1 + torch.erf((d - deviation) / 2**0.5))
    return s * high - k * math.exp(-rate * time) * low
---
def bond(rate, coupons: List[float], face: float = 100.0):
    price = torch.zeros_like(rate)
    discount = torch.ones_like(rate)
    for coupon in coupons:
        discount = discount / (1 + rate * rate)
        price = price + coupon * discount
    return price + face * discount
---
def sharpe(returns, free: float = 0.01):
    assert returns.numel() > 1
    excess = returns - free
    centred = excess - excess.mean()
    return excess.mean() / torch.sqrt((centred * centred).mean() + 1e-2)
---
def portfolio(weights, covariance, mean, aversion: float = 2.0):
    assert weights.dim() == 1 and covariance.dim() == 2 and mean.dim() == 1
    w = torch.softmax(weights, 0)
    return (w * mean).sum() - aversion / 2 * (w * (covariance @ w)).sum()
---
def utility(wealth, kind: str = "log", aversion: float = 0.5):
    w = wealth * wealth + 0.1
    if kind == "log":
        return torch.log(w)
    elif kind == "power":
        return torch.exp((1 - aversion) * torch.log(w))
    return -torch.exp(-aversion * w)
---
def ewma(xs: List[Tensor], decay: float = 0.9):
    level = torch.zeros_like(xs[0])
    for x in xs:
        level = decay * level + (1 - decay) * x
    return level * level
---
def drawdown(x):
    assert x.dim() == 1
    total = torch.cumsum(x, 0)
    return (torch.cummax(total, 0)[0] - total).sum()
---
def recurrent(x, w, steps: int = 3):
    assert x.dim() == 1 and w.dim() == 2
    states: List[Tensor] = []
    h = x
    for i in range(steps):
        h = torch.tanh(w @ h)
        states.append(h)
    total = x.sum()
    for state in states:
        total = total + (state * state).sum()
    return total
---
def gated(x, h, wz, wh):
    assert x.dim() == 2 and h.dim() == 2 and wz.dim() == 2 and wh.dim() == 2
    z = torch.sigmoid(x @ wz)
    return (1 - z) * h + z * torch.tanh(x @ wh)
---
def highway(x, w, depth: int = 2):
    assert x.dim() == 2 and w.dim() == 2
    for _ in range(depth):
        x = x + torch.relu(x @ w)
    return x
---
def clipped_sum(xs: List[Tensor], limit: float = 1.0):
    total = xs[0].sum()
    for x in xs[1:]:
        if bool(x.sum() > limit):
            total = total + limit
        else:
            total = total + x.sum()
    return total
---
def newton(x, rounds: int = 3):
    assert rounds >= 0
    a = x * x + 1
    y = a
    for _ in range(rounds):
        y = (y + a / y) / 2
    return y
---
def bisected(x, deep: bool = False):
    y = torch.where(x > 0, torch.log1p(x.abs()), x)
    if deep:
        y = torch.where(y > 0.5, y * y, y - 0.25)
    return y
---
def taylor(x, terms: int = 4):
    assert terms >= 0
    y = torch.ones_like(x)
    part = torch.ones_like(x)
    for i in range(terms):
        part = part * x / (i + 1)
        y = y + part
    return y
---
def horner(x, coefficients: List[float]):
    y = torch.zeros_like(x)
    for c in coefficients:
        y = y * x + c
    return y
---
def moments(x, dim: int = -1):
    assert x.dim() > 0
    mean = x.mean(dim)
    return mean, (x * x).mean(dim) - mean * mean
---
def dropped(x, p: float = 0.3, training: bool = True):
    return F.dropout(x * x, p, training)
---
def noisy(x, scale):
    return x + scale * torch.randn_like(x)
---
def embedding(weight, index):
    assert weight.dim() == 2
    return torch.tanh(F.embedding(index, weight))
---
def pick(x, index, dim: int = 0):
    return torch.index_select(x, dim, index) ** 2
---
def scattered(x, index, rows: int = 4):
    assert x.dim() == 2 and index.dim() == 1
    return torch.zeros([rows, x.size(1)], dtype=x.dtype).index_add(0, index, x * x)
---
def windows(x, size: int = 2):
    assert x.dim() == 1 and size > 0
    return (x.unfold(0, size, 1) ** 2).sum(1)
---
def convolved(x, w, stride: int = 1, padding: int = 0):
    assert x.dim() == 3 and w.dim() == 3 and stride > 0 and padding >= 0
    return torch.tanh(F.conv1d(x, w, None, stride, padding))
---
def pooled(x, size: int = 2):
    assert x.dim() == 3 and size > 0
    return F.avg_pool1d(x * x, size)
---
def bilinear(x, w, y):
    assert x.dim() == 1 and w.dim() == 2 and y.dim() == 1
    return (x * (w @ y)).sum()
---
def trace_norm(a):
    assert a.dim() == 2
    return torch.sqrt(torch.diagonal(a @ a.t()).sum() + 0.1)
---
def mahalanobis(x, root):
    assert x.dim() == 1 and root.dim() == 2
    y = root @ x
    return torch.sqrt((y * y).sum() + 0.1)
---
def ridge(a, b, penalty: float = 0.5):
    assert a.dim() == 2 and b.dim() == 1 and penalty > 0
    gram = a.t() @ a + penalty * torch.eye(a.size(1), dtype=a.dtype)
    return torch.inverse(gram) @ (a.t() @ b)
---
def kernel(x, y, width: float = 1.0):
    assert x.dim() == 2 and y.dim() == 2
    d = ((x.unsqueeze(1) - y.unsqueeze(0)) ** 2).sum(-1)
    return torch.exp(-d / (2 * width * width))
---
def mixture(x, means, logits):
    assert x.dim() == 1 and means.dim() == 1 and logits.dim() == 1
    parts = torch.log_softmax(logits, 0) - 0.5 * (x.unsqueeze(1) - means) ** 2
    return torch.logsumexp(parts, 1).sum()
---
def padded(x, width: int = 1, value: float = 0.5):
    assert x.dim() > 0 and width >= 0
    return F.pad(x * x, [width, width], "constant", value)
---
def flipped(x, dim: int = 0):
    assert x.dim() > 0
    return x * torch.flip(x, [dim])
---
def shifted(x, by: int = 1):
    assert x.dim() == 1
    return x * torch.roll(x, by, 0)
---
def outer(x, y):
    assert x.dim() == 1 and y.dim() == 1
    return torch.tanh(x.unsqueeze(1) * y.unsqueeze(0))
---
def chosen(x, y, which: str = "larger"):
    if which == "larger":
        return torch.maximum(x, y)
    elif which == "smaller":
        return torch.minimum(x, y)
    elif which == "mean":
        return (x + y) / 2
    return x
---
def optional_sum(x, y: Optional[Tensor] = None, z: Optional[Tensor] = None):
    total = x.sum()
    if y is not None:
        total = total + (y * y).sum()
    if z is not None:
        total = total * z.sum()
    return total
---
def ranked(x, count: int = 2):
    assert x.dim() == 1 and count > 0
    return torch.topk(x, count)[0].sum()
---
def ordered(x):
    assert x.dim() == 1
    values = torch.sort(x)[0]
    return (values * torch.arange(x.size(0), dtype=x.dtype)).sum()
---
def pairwise(xs: List[Tensor]):
    total = torch.zeros_like(xs[0].sum())
    for i in range(len(xs)):
        for j in range(i):
            total = total + (xs[i] * xs[j]).sum()
    return total
---
def chained(xs: List[Tensor]):
    y = xs[0]
    for x in xs[1:]:
        y = torch.tanh(y * x)
    return y
---
def collatz(x, n: int = 3):
    assert n > 0
    while n != 1:
        if n % 2 == 0:
            x = x / 2
            n = n // 2
        else:
            x = torch.sin(3 * x + 1)
            n = 3 * n + 1
    return x
---
def until_small(x, limit: float = 0.5):
    y = x
    rounds = 0
    while bool((y * y).sum() > limit) and rounds < 20:
        y = y * 0.5
        rounds += 1
    return y
"""

FORWARDS = tuple(text.strip() + "\n" for text in _TEXTS.split("---\n"))
"""The source of each."""
