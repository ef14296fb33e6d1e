# Wrong on purpose: what `gradscript check` makes of the commonest mistakes.


# The derivative of gate · σ(gate) has `1 + gate (1 - σ)`; here the sign is wrong.
def swiglu(x, gate):
    s = torch.sigmoid(gate)

    def backward(grad_output):
        grad_x = (grad_output * gate * s).sum_to_size(x.size())
        grad_gate = (grad_output * x * s * (1 - gate * (1 - s))).sum_to_size(gate.size())
        return grad_x, grad_gate

    return x * (gate * s), backward


# Broadcasting is forgotten: where `scale` is smaller than `x`, its gradient is a sum.
def scaled(x, scale):
    def backward(grad_output):
        return (grad_output * scale).sum_to_size(x.size()), grad_output * x

    return x * scale, backward


# A straight-through estimator: useful for training, and not the derivative of rounding.
def straight_through(x):
    def backward(grad_output):
        return grad_output

    return torch.round(x), backward
