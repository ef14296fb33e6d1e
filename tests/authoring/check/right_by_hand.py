"""Right formulas with backwards written by hand: losses, norms, activations, attention, recurrences, lists, indices."""

_TEXTS = """
def rotary(x, cos, sin):
    half = x.size(-1) // 2
    assert x.size(-1) == 2 * half and cos.size() == x.size() and sin.size() == x.size()
    turned = torch.cat([-x[..., half:], x[..., :half]], -1)

    def backward(g):
        back = g * sin
        grad_x = g * cos + torch.cat([back[..., half:], -back[..., :half]], -1)
        return grad_x, g * x, g * turned

    return x * cos + turned * sin, backward
---
def geglu(gate, up):
    assert gate.size() == up.size()
    cdf = 0.5 * (1 + torch.erf(gate / 2**0.5))

    def backward(g):
        pdf = torch.exp(-gate * gate / 2) / (2 * math.pi) ** 0.5
        return g * up * (cdf + gate * pdf), g * gate * cdf

    return gate * cdf * up, backward
---
def reglu(gate, up):
    assert gate.size() == up.size()

    def backward(g):
        open = gate > 0
        return torch.where(open, g * up, 0.0), torch.where(open, g * gate, 0.0)

    return torch.relu(gate) * up, backward
---
def swish_beta(x, beta):
    assert beta.dim() == 0
    s = torch.sigmoid(beta * x)

    def backward(g):
        slope = s * (1 - s)
        return g * (s + beta * x * slope), (g * x * x * slope).sum()

    return x * s, backward
---
def jensen_shannon(p, q):
    assert p.size() == q.size() and (p > 0).all() and (q > 0).all()
    m = (p + q) / 2

    def backward(g):
        return 0.5 * g * torch.log(p / m), 0.5 * g * torch.log(q / m)

    return 0.5 * (p * torch.log(p / m) + q * torch.log(q / m)).sum(), backward
---
def kl_of_logits(p_logits, q_logits):
    assert p_logits.size() == q_logits.size() and p_logits.dim() > 0
    logp = torch.log_softmax(p_logits, -1)
    logq = torch.log_softmax(q_logits, -1)
    p = torch.exp(logp)
    gap = logp - logq
    each = (p * gap).sum(-1)

    def backward(g):
        g = g.unsqueeze(-1)
        return g * p * (gap - each.unsqueeze(-1)), g * (torch.exp(logq) - p)

    return each, backward
---
def focal(logits, labels, gamma: float = 2.0):
    assert logits.size() == labels.size() and gamma >= 1.0
    labels = gs.constant(labels)
    signs = 2 * labels - 1
    p = torch.sigmoid(signs * logits)
    logp = F.logsigmoid(signs * logits)

    def backward(g):
        rest = (1 - p) ** gamma
        return g * signs * rest * (gamma * p * logp - (1 - p)), None, None

    return -((1 - p) ** gamma) * logp, backward
---
def dice(x, y):
    assert x.size() == y.size() and x.dim() > 0
    both = (x * y).sum() * 2 + 1
    total = (x * x).sum() + (y * y).sum() + 1

    def backward(g):
        return (
            g * (2 * x * both / (total * total) - 2 * y / total),
            g * (2 * y * both / (total * total) - 2 * x / total),
        )

    return 1 - both / total, backward
---
def triplet(anchor, near, far, margin: float = 0.4):
    assert anchor.size() == near.size() and near.size() == far.size() and anchor.dim() > 0
    gap = ((anchor - near) ** 2).sum(-1) - ((anchor - far) ** 2).sum(-1) + margin

    def backward(g):
        g = (g * (gap > 0)).unsqueeze(-1)
        return 2 * g * (far - near), 2 * g * (near - anchor), 2 * g * (anchor - far), None

    return torch.relu(gap), backward
---
def contrastive(x, y, temperature: float = 0.7):
    assert x.dim() == 2 and y.dim() == 2 and x.size(0) == y.size(0) and temperature > 0.01
    logits = x @ y.t() / temperature
    logp = torch.log_softmax(logits, 1)

    def backward(g):
        grad = g * (torch.exp(logp) - torch.eye(x.size(0), dtype=x.dtype)) / (x.size(0) * temperature)
        return grad @ y, grad.t() @ x, None

    return -torch.diagonal(logp).mean(), backward
---
def poisson_deviance(rate, counts):
    assert rate.size() == counts.size()
    counts = counts.detach()

    def backward(g):
        return g * (torch.exp(rate) - counts), None

    return torch.exp(rate) - counts * rate, backward
---
def quantile_loss(prediction, target, q: float = 0.3):
    assert prediction.size() == target.size()
    error = target - prediction

    def backward(g):
        slope = torch.where(error > 0, g * q, g * (q - 1))
        return -slope, slope, None

    return torch.where(error > 0, q * error, (q - 1) * error), backward
---
def log_loss_with_temperature(logits, target, temperature: float = 1.5):
    assert logits.dim() == 2 and target.dim() == 1 and temperature > 0.01
    logp = torch.log_softmax(logits / temperature, -1)
    rows = torch.arange(target.size(0))

    def backward(g):
        grad = torch.exp(logp)
        grad = grad - F.one_hot(target, logits.size(1)).to(logits.dtype)
        return g.unsqueeze(-1) * grad / temperature, None, None

    return -logp[rows, target], backward
---
def smoothed(logits, target, smoothing: float = 0.1):
    assert logits.dim() == 2 and target.dim() == 1
    logp = torch.log_softmax(logits, -1)
    classes = logits.size(-1)
    wanted = F.one_hot(target, classes).to(logits.dtype) * (1 - smoothing) + smoothing / classes

    def backward(g):
        return g * (torch.exp(logp) * wanted.sum(-1, True) - wanted) / target.numel(), None, None

    return -(wanted * logp).sum() / target.numel(), backward
---
def scale_norm(x, scale):
    assert scale.dim() == 0 and x.dim() > 0
    norm = torch.sqrt((x * x).sum(-1, True) + 1e-3)

    def backward(g):
        along = (g * x).sum(-1, True) / (norm * norm)
        return scale / norm * (g - x * along), (g * x / norm).sum()

    return scale * x / norm, backward
---
def power_norm(x, weight):
    assert x.dim() == 2 and weight.dim() == 1 and x.size(1) == weight.size(0)
    rms = torch.sqrt((x * x).mean(0) + 1e-3)

    def backward(g):
        gw = g * weight
        return gw / rms - x * (gw * x).mean(0) / rms**3, (g * x / rms).sum(0)

    return x / rms * weight, backward
---
def residual_norm(x, residual):
    assert x.size() == residual.size() and x.dim() > 0
    total = x + residual
    rstd = torch.rsqrt((total * total).mean(-1, True) + 1e-3)
    normed = total * rstd

    def backward(g_normed, g_total):
        grad = rstd * (g_normed - normed * (g_normed * normed).mean(-1, True)) + g_total
        return grad, grad

    return normed, total, backward
---
def spectral_scale(w, u, v):
    assert w.dim() == 2 and u.dim() == 1 and v.dim() == 1
    u, v = u.detach(), v.detach()
    sigma = u @ (w @ v)

    def backward(g):
        return g / sigma - (g * w).sum() / (sigma * sigma) * torch.outer(u, v), None, None

    return w / sigma, backward


def spectral_scale_examples():
    u, v = torch.tensor([0.6, 0.8, 0.3]), torch.tensor([0.3, 0.9])
    return [(torch.tensor([[1.0, 2.0], [0.5, 1.5], [2.0, 0.7]]), u, v)]
---
def softcap(x, cap: float = 5.0):
    assert cap > 0.1
    t = torch.tanh(x / cap)

    def backward(g):
        return g * (1 - t * t), None

    return cap * t, backward
---
def squared_relu(x):
    r = torch.relu(x)

    def backward(g):
        return 2 * g * r

    return r * r, backward
---
def celu_by_hand(x, alpha: float = 1.3):
    assert alpha > 0.0
    e = torch.exp(torch.clamp(x, max=0.0) / alpha)

    def backward(g):
        return torch.where(x > 0, g, g * e), None

    return torch.where(x > 0, x, alpha * (e - 1)), backward
---
def snake(x, a):
    assert a.size() == x.size() and (a.abs() > 0.01).all()

    def backward(g):
        s, double = torch.sin(a * x), torch.sin(2 * a * x)
        return g * (1 + double), g * (x * double / a - s * s / (a * a))

    return x + torch.sin(a * x) ** 2 / a, backward
---
def maxout(x):
    assert x.dim() == 2 and x.size(1) % 2 == 0
    pairs = x.reshape(x.size(0), x.size(1) // 2, 2)
    left, right = pairs[..., 0], pairs[..., 1]

    def backward(g):
        share = torch.where(left > right, 1.0, torch.where(left < right, 0.0, 0.5)).to(x.dtype)
        return torch.stack([g * share, g * (1 - share)], -1).reshape(x.size())

    return torch.maximum(left, right), backward
---
def causal_attention(q, k, v):
    assert q.dim() == 3 and k.size() == q.size() and v.dim() == 3
    scale = q.size(-1) ** -0.5
    scores = q @ k.mT * scale
    past = torch.ones(q.size(1), q.size(1), dtype=torch.bool).tril()
    p = torch.softmax(torch.where(past, scores, -torch.inf), -1)

    def backward(g):
        gp = g @ v.mT
        gs_ = p * (gp - (gp * p).sum(-1, True)) * scale
        return gs_ @ k, gs_.mT @ q, p.mT @ g

    return p @ v, backward
---
def linear_attention(q, k, v):
    assert q.dim() == 2 and k.dim() == 2 and v.dim() == 2
    state = k.t() @ v

    def backward(g):
        g_state = q.t() @ g
        return g @ state.t(), v @ g_state.t(), k @ g_state

    return q @ state, backward
---
def attention_with_bias(q, k, v, bias: Optional[Tensor] = None):
    assert q.dim() == 2 and k.dim() == 2 and v.dim() == 2
    scores = q @ k.t()
    if bias is not None:
        assert bias.size() == scores.size()
        scores = scores + bias
    p = torch.softmax(scores, -1)

    def backward(g):
        gp = g @ v.t()
        grad = p * (gp - (gp * p).sum(-1, True))
        if bias is None:
            return grad @ k, grad.t() @ q, p.t() @ g, None
        return grad @ k, grad.t() @ q, p.t() @ g, grad

    return p @ v, backward
---
def sigmoid_attention(q, k, v):
    assert q.dim() == 2 and k.dim() == 2 and v.dim() == 2
    w = torch.sigmoid(q @ k.t())

    def backward(g):
        grad = g @ v.t() * w * (1 - w)
        return grad @ k, grad.t() @ q, w.t() @ g

    return w @ v, backward
---
def decay_scan(x, decay: float = 0.6):
    assert x.dim() == 2 and x.size(0) > 0
    state = torch.zeros_like(x[0])
    states: List[Tensor] = []
    for t in range(x.size(0)):
        state = decay * state + x[t]
        states.append(state)

    def backward(g):
        carry = torch.zeros_like(g[0])
        grads: List[Tensor] = []
        for t in range(g.size(0)):
            carry = g[g.size(0) - 1 - t] + decay * carry
            grads.append(carry)
        return torch.stack(grads).flip([0]), None

    return torch.stack(states), backward
---
def gated_scan(x, a):
    assert x.dim() == 2 and a.size() == x.size() and x.size(0) > 0
    state = torch.zeros_like(x[0])
    states: List[Tensor] = []
    for t in range(x.size(0)):
        states.append(state)
        state = a[t] * state + x[t]

    def backward(g):
        carry = g
        grad_x: List[Tensor] = []
        grad_a: List[Tensor] = []
        for i in range(x.size(0)):
            t = x.size(0) - 1 - i
            grad_x.append(carry)
            grad_a.append(carry * states[t])
            carry = carry * a[t]
        return torch.stack(grad_x).flip([0]), torch.stack(grad_a).flip([0])

    return state, backward
---
def tanh_rnn(x, w):
    assert x.dim() == 2 and w.dim() == 2 and w.size(0) == w.size(1) and x.size(1) == w.size(0) and x.size(0) > 0
    h = torch.zeros_like(x[0])
    kept = [h]
    for t in range(x.size(0)):
        h = torch.tanh(w @ h + x[t])
        kept.append(h)

    def backward(g):
        grad_w = torch.zeros_like(w)
        grads: List[Tensor] = []
        for i in range(x.size(0)):
            t = x.size(0) - i
            inner = g * (1 - kept[t] * kept[t])
            grads.append(inner)
            grad_w = grad_w + torch.outer(inner, kept[t - 1])
            g = w.t() @ inner
        return torch.stack(grads).flip([0]), grad_w

    return h, backward
---
def horner(x, coefficients):
    assert coefficients.dim() == 1 and coefficients.size(0) > 0
    y = torch.zeros_like(x)
    for i in range(coefficients.size(0)):
        y = y * x + coefficients[i]

    def backward(g):
        slope = torch.zeros_like(x)
        value = torch.zeros_like(x)
        for i in range(coefficients.size(0)):
            slope = slope * x + value
            value = value * x + coefficients[i]
        powers: List[Tensor] = []
        for i in range(coefficients.size(0)):
            powers.append((g * x ** (coefficients.size(0) - 1 - i)).sum())
        return g * slope, torch.stack(powers)

    return y, backward
---
def newton_root(x, rounds: int = 8):
    assert (x > 0.1).all() and rounds == 8
    y = torch.ones_like(x)
    for _ in range(12):
        y = 0.5 * (y + x / y)

    def backward(g):
        return g / (2 * y), None

    return y, backward
---
def running_max(x):
    assert x.dim() == 1 and x.size(0) > 0
    values, places = torch.cummax(x, 0)

    def backward(g):
        return torch.zeros_like(x).index_add(0, places, g)

    return values, backward
---
def prefix_mean(x):
    assert x.dim() == 1 and x.size(0) > 0
    counts = torch.arange(1, x.size(0) + 1, dtype=x.dtype)

    def backward(g):
        return torch.cumsum((g / counts).flip([0]), 0).flip([0])

    return torch.cumsum(x, 0) / counts, backward
"""

BY_HAND = tuple(text.strip() + "\n" for text in _TEXTS.split("---\n"))
"""The source of each."""
