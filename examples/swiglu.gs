# Gated activations. Each backward reuses the sigmoid that its forward computed: saved, never computed twice.


# y = x σ(x);  dy/dx = σ (1 + x (1 - σ))
def silu(x):
    s = torch.sigmoid(x)

    def backward(grad_output):
        return grad_output * s * (1 + x * (1 - s))

    return x * s, backward


# y = x · silu(gate)
def swiglu(x, gate):
    s = torch.sigmoid(gate)

    def backward(grad_output):
        grad_x = (grad_output * gate * s).sum_to_size(x.size())
        grad_gate = (grad_output * x * s * (1 + gate * (1 - s))).sum_to_size(gate.size())
        return grad_x, grad_gate

    return x * (gate * s), backward


# The feed-forward block of a transformer. It has no backward of its own: it is differentiated through,
# by that of `swiglu` and the library's for the products.
def feed_forward(x, w_value, w_gate, w_out):
    return swiglu(x @ w_value, x @ w_gate) @ w_out
