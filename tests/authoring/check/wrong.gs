# Formulas with one mistake each. The comment above tells what the checker must say of it:
#     # ARGUMENT KIND: the text that the failure points at (… for any)


# x value: x * (1 - s)
def silu_sign(x):
    s = torch.sigmoid(x)

    def backward(grad_output):
        return grad_output * s * (1 - x * (1 - s))

    return x * s, backward


# x value: …
def silu_forgets_product_rule(x):
    s = torch.sigmoid(x)

    def backward(grad_output):
        return grad_output * s

    return x * s, backward


# self value: 1.001
def mul_one_permille(self, other):
    def backward(grad_output):
        grad_self = (grad_output * other * 1.001).sum_to_size(self.size())
        grad_other = (grad_output * self).sum_to_size(other.size())
        return grad_self, grad_other

    return self * other, backward


# other shape: grad_output * self
def mul_unsummed(self, other):
    def backward(grad_output):
        grad_self = (grad_output * other).sum_to_size(self.size())
        grad_other = grad_output * self
        return grad_self, grad_other

    return self * other, backward


# self value: (grad_output * self).sum_to_size(self.size())
def mul_swapped(self, other):
    def backward(grad_output):
        grad_self = (grad_output * self).sum_to_size(self.size())
        grad_other = (grad_output * other).sum_to_size(other.size())
        return grad_self, grad_other

    return self * other, backward


# b value: g * a / (b * b)
def div_sign(a, b):
    def backward(g):
        return (g / b).sum_to_size(a.size()), (g * a / (b * b)).sum_to_size(b.size())

    return a / b, backward


# b value: b
def div_power(a, b):
    def backward(g):
        return (g / b).sum_to_size(a.size()), (-g * a / b).sum_to_size(b.size())

    return a / b, backward


# x value: y
def tanh_unsquared(x):
    y = torch.tanh(x)

    def backward(g):
        return g * (1 - y)

    return y, backward


# x value: torch.cos(x)
def cos_as_cos(x):
    def backward(g):
        return -g * torch.cos(x)

    return torch.cos(x), backward


# x value: g * torch.sin(x)
def cos_sign(x):
    def backward(g):
        return g * torch.sin(x)

    return torch.cos(x), backward


# x value: 2
def cube_power(x):
    def backward(g):
        return g * 2 * x * x

    return x * x * x, backward


# x value: 0.5
def square_root_factor(x):
    y = torch.sqrt(x)

    def backward(g):
        return g / (0.5 * y)

    return y, backward


# x value: …
def relu_straight_through(x):
    def backward(g):
        return g

    return torch.relu(x), backward


# x value: …
def rounded_straight_through(x):
    def backward(g):
        return g

    return torch.round(x), backward


# x value: …
def clamp_wrong_side(x):
    def backward(g):
        return g * (x > 1.0)

    return x.clamp(-1.0, 1.0), backward


# x value: …
def leaky_without_slope(x, slope: float = 0.01):
    def backward(g):
        return g * (x > 0), None

    return torch.where(x > 0, x, x * slope), backward


# alpha none: None
def scale_without_gradient(x, alpha):
    def backward(g):
        return (g * alpha).sum_to_size(x.size()), None

    return x * alpha, backward


# x value: torch.ones_like(grad_output)
def ignores_grad_output(x):
    def backward(grad_output):
        return torch.ones_like(grad_output) * 2 * x

    return x * x, backward


# w value: …
def matmul_swapped_square(x, w):
    assert x.dim() == 2 and w.dim() == 2 and x.size(1) == x.size(0) and w.size(1) == w.size(0)

    def backward(g):
        return g @ w.t(), x @ g

    return x @ w, backward


# x shape: x.t() @ g
def matmul_exchanged(x, w):
    def backward(g):
        return x.t() @ g, g @ w.t()

    return x @ w, backward


# w shape: g.t() @ x
def matmul_transposed(x, w):
    def backward(g):
        return g @ w.t(), g.t() @ x

    return x @ w, backward


# bias shape: g
def linear_bias_unsummed(x, weight, bias):
    def backward(g):
        return g @ weight, g.t() @ x, g

    return x @ weight.t() + bias, backward


# weight value: 0.5
def linear_weight_factor(x, weight, bias):
    def backward(g):
        return g @ weight, 0.5 * (g.t() @ x), g.sum(0)

    return x @ weight.t() + bias, backward


# x value: …
def mean_as_sum(x):
    def backward(g):
        return g.expand(x.size())

    return x.mean(), backward


# x value: 2
def variance_twice(x):
    centered = x - x.mean()

    def backward(g):
        return 2 * 2 * g * centered / x.numel()

    return (centered * centered).mean(), backward


# x value: (g * y).sum(-1, keepdim=True)
def softmax_sign(x):
    e = torch.exp(x - x.amax(-1, keepdim=True))
    y = e / e.sum(-1, keepdim=True)

    def backward(g):
        return y * (g + (g * y).sum(-1, keepdim=True))

    return y, backward


# x value: …
def softmax_diagonal(x):
    y = torch.softmax(x, -1)

    def backward(g):
        return g * y * (1 - y)

    return y, backward


# x value: …
def softmax_wrong_dimension(x):
    y = torch.softmax(x, -1)

    def backward(g):
        return y * (g - (g * y).sum(0, keepdim=True))

    return y, backward


# x value: …
def rms_norm_without_projection(x, weight):
    rstd = torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5)

    def backward(g):
        return (g * weight * rstd).sum_to_size(x.size()), (g * x * rstd).sum_to_size(weight.size())

    return x * rstd * weight, backward


# x value: …
def rms_norm_without_eps(x):
    rstd = torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5)
    clean = torch.rsqrt((x * x).mean(-1, keepdim=True))

    def backward(g):
        y = x * clean
        return clean * (g - y * (g * y).mean(-1, keepdim=True))

    return x * rstd, backward


# weight shape: g * normed
def rms_norm_weight_unsummed(x, weight):
    rstd = torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5)
    normed = x * rstd

    def backward(g):
        gw = g * weight
        grad_x = rstd * (gw - normed * (gw * normed).mean(-1, keepdim=True))
        return grad_x.sum_to_size(x.size()), g * normed

    return normed * weight, backward


# gate value: x
def swiglu_wrong_saved(x, gate):
    s = torch.sigmoid(gate)

    def backward(grad_output):
        grad_x = (grad_output * gate * s).sum_to_size(x.size())
        grad_gate = (grad_output * x * s * (1 + x * (1 - s))).sum_to_size(gate.size())
        return grad_x, grad_gate

    return x * gate * s, backward


# gate value: …
def swiglu_missing_term(x, gate):
    s = torch.sigmoid(gate)

    def backward(grad_output):
        grad_x = (grad_output * gate * s).sum_to_size(x.size())
        grad_gate = (grad_output * x * s).sum_to_size(gate.size())
        return grad_x, grad_gate

    return x * gate * s, backward


# x value: x * y
def extra_term(x, y):
    def backward(g):
        return (g * (y + x * y)).sum_to_size(x.size()), (g * x).sum_to_size(y.size())

    return x * y, backward


# x value: …
def missing_additive_term(x, y):
    def backward(g):
        return (g * y).sum_to_size(x.size()), (g * x).sum_to_size(y.size())

    return x * y + x * x, backward


# x value: 2
def gelu_constant(x):
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    t = torch.tanh(inner)

    def backward(g):
        slope = 0.7978845608028654 * (1 + 2 * 0.044715 * x * x)
        return g * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope)

    return 0.5 * x * (1 + t), backward


# x value: grad_c * s
def two_outputs_sign(x):
    s = torch.sin(x)
    c = torch.cos(x)

    def backward(grad_s, grad_c):
        return grad_s * c + grad_c * s

    return s, c, backward


# x value: …
def second_output_forgotten(x):
    s = torch.sin(x)
    c = torch.cos(x)

    def backward(grad_s, grad_c):
        return grad_s * c

    return s, c, backward


# parts value: …
def pieces_reversed(parts: List[Tensor]):
    def backward(g):
        return [g * part for part in parts]

    return parts[0] * parts[0] + parts[1] * parts[1], backward


# x value: …
def wrong_branch(x, positive: bool):
    y = torch.exp(x) if positive else torch.sin(x)

    def backward(g):
        return g * y, None

    return y, backward


# x value: torch.log(1 - p)
def entropy_sign(x):
    p = torch.sigmoid(x)

    def backward(g):
        return g * (torch.log(p) + torch.log(1 - p)) * p * (1 - p)

    return p * torch.log(p) + (1 - p) * torch.log(1 - p), backward


# logits value: …
def cross_entropy_unscaled(logits, target):
    logp = torch.log_softmax(logits, -1)
    picked = logp.gather(1, target.unsqueeze(1)).squeeze(1)

    def backward(g):
        onehot = torch.zeros_like(logp).scatter(1, target.unsqueeze(1), 1.0)
        return (torch.exp(logp) - onehot) * g, None

    return -picked.mean(), backward


# a error: g.view(b.size())
def wrong_view(a, b):
    def backward(g):
        return g.view(b.size()), g.sum_to_size(b.size())

    return a + b, backward


# x dtype: …
def wrong_dtype(x):
    def backward(g):
        return (g * 2).to(torch.float64)

    return x * 2, backward


# x nan: …
def not_finite(x):
    def backward(g):
        return g * (x - x) / (x - x)

    return x * 2, backward


# x second_order: …
def square_second_factor(x):
    def backward(g):
        def backward(gg):
            return gg * 2 * x, gg * g

        return g * 2 * x, backward

    return x * x, backward


# g second_order: gg * x
def square_second_in_gradient(x):
    def backward(g):
        def backward(gg):
            return gg * x, gg * 2 * g

        return g * 2 * x, backward

    return x * x, backward


# x second_order: …
def detached_intermediate(x):
    y = torch.exp(x).detach()

    def backward(g):
        return g * y

    return torch.exp(x), backward


# x error: …
def index_out_of_range(x):
    def backward(g):
        return g.expand([7, 7])[0]

    return x.sum(-1), backward
