# Softmax cross-entropy over rows of scores: the mean of -log p[label].
# The gradient of the scores is (p - onehot) / rows: the two exponentials cancel, so neither is differentiated.


def softmax_cross_entropy(scores, labels):
    assert scores.dim() == 2 and labels.dim() == 1 and scores.size(0) == labels.size(0), "one label for each row"
    log_p = scores - scores.logsumexp([1], keepdim=True)
    picked = log_p.gather(1, labels.unsqueeze(1))

    def backward(grad_output):
        onehot = torch.zeros_like(log_p).scatter(1, labels.unsqueeze(1), 1.0)
        return (torch.exp(log_p) - onehot) * (grad_output / labels.numel()), None

    return -picked.mean(), backward


# What `gradscript check` runs it on. Zeros stand for a shape.
def softmax_cross_entropy_examples():
    return [(torch.zeros([3, 5]), torch.tensor([4, 0, 2])), (torch.zeros([1, 2]), torch.tensor([1]))]
