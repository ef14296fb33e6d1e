# GELU by its tanh approximation: y = x/2 (1 + tanh u), u = √(2/π) (x + 0.044715 x³).
# Source: D. Hendrycks and K. Gimpel, Gaussian Error Linear Units, 2016.


def gelu(x):
    t = torch.tanh(0.7978845608028654 * (x + 0.044715 * x**3))

    def backward(grad_output):
        du = 0.7978845608028654 * (1 + 3 * 0.044715 * x**2)
        return grad_output * 0.5 * (1 + t + x * (1 - t * t) * du)

    return 0.5 * x * (1 + t), backward
