# Normalisation over the last dimension. x̂ is the normalised input, r the reciprocal of its scale.


# x̂ = x r, r = 1/√(mean x² + ε);  dx = r (ĝ - x̂ mean(ĝ x̂)) with ĝ = g · weight
def rms_norm(x, weight, eps: float = 1e-6):
    r = torch.rsqrt((x * x).mean(-1, keepdim=True) + eps)
    normed = x * r

    def backward(grad_output):
        scaled = grad_output * weight
        grad_x = r * (scaled - normed * (scaled * normed).mean(-1, keepdim=True))
        grad_weight = (grad_output * normed).sum_to_size(weight.size())
        return grad_x.sum_to_size(x.size()), grad_weight, None

    return normed * weight, backward


# x̂ = (x - mean x) r, r = 1/√(var x + ε);  dx = r (ĝ - mean ĝ - x̂ mean(ĝ x̂))
def layer_norm(x, weight: Optional[Tensor], bias: Optional[Tensor], eps: float = 1e-5):
    centered = x - x.mean(-1, keepdim=True)
    r = torch.rsqrt((centered * centered).mean(-1, keepdim=True) + eps)
    normed = centered * r

    def backward(grad_output):
        scaled = grad_output * weight if weight is not None else grad_output
        inner = scaled - scaled.mean(-1, keepdim=True) - normed * (scaled * normed).mean(-1, keepdim=True)
        grad_x = (r * inner).sum_to_size(x.size())
        grad_weight = (grad_output * normed).sum_to_size(weight.size()) if weight is not None else None
        grad_bias = grad_output.sum_to_size(bias.size()) if bias is not None else None
        return grad_x, grad_weight, grad_bias, None

    y = normed
    if weight is not None:
        y = y * weight
    if bias is not None:
        y = y + bias
    return y, backward
