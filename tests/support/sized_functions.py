"""Functions of `x`, of rows of 16, and `w`, in which sizes come up in various ways."""

TEXT = """
def normed(x, w):
    return F.layer_norm(x, [x.size(-1)], w)

def attended(x, w):
    q = x * w
    scores = q @ q.t() / 8.0
    mask = torch.tril(torch.ones([x.size(0), x.size(0)]))
    return torch.softmax(scores.masked_fill(mask == 0, -1e9), -1) @ x

def in_heads(x, w):
    h = x.view(x.size(0), 4, -1).transpose(0, 1)
    return torch.softmax(h * 2.0, -1).transpose(0, 1).reshape(x.size(0), -1) * w

def halves(x, w):
    n = x.size(0) // 2
    return torch.cat([x[:n].exp(), x[n:].tanh()], 0) * w

def turned(x, w):
    return x.flip([0]) * w + torch.cat([x[-1:], x[:-1]])

def first(x, w):
    return x[:40] * w + x[x.size(0) - 1]

def standardized(x, w):
    return (x - x.mean(0)) / torch.sqrt(x.var(0) + 1e-5) * w

def mean_loss(x, w):
    return F.mse_loss(x * w, x.detach() + 1.0) + (x * w).sum() / x.numel()

def by_size(x, w):
    if x.size(0) > 50:
        return x * w
    return torch.exp(x) + w

def counted(x, w):
    return x * w + torch.arange(x.size(0)).float().unsqueeze(1)

def in_pairs(x, w):
    a, b = torch.chunk(x * w, 2, 0)
    return a.sum(0) * b.sum(0)

def padded(x, w):
    return F.pad(x[::2] * w, [1, 2, 3, 0])

def in_rounds(x, w):
    for i in range(3):
        x = torch.tanh(x * w) + x
    return x

def in_turns(x, w):
    return torch.softmax(torch.softmax(torch.softmax(x * w, 1), 0), 1)
"""
