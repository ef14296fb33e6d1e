"""The functions of the memory benchmark in torch, and what AOTAutograd's min-cut partitioner saves of them.

Functions take the same arguments in the same order as those in `models/`; a list of tensors stays a list.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from functorch.compile import aot_function, make_boxed_func, min_cut_rematerialization_partition
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its usual name

# --- models ---


def lstm_cell(x: Tensor, hidden: Tensor, cell: Tensor, *weights: Tensor) -> tuple[Tensor, Tensor]:
    from_input, from_hidden, bias = weights
    enter, keep, candidate, leave = (x @ from_input + hidden @ from_hidden + bias).chunk(4, 1)
    cell = torch.sigmoid(keep) * cell + torch.sigmoid(enter) * torch.tanh(candidate)
    return torch.sigmoid(leave) * torch.tanh(cell), cell


def attend(hidden: Tensor, keys: Tensor, memory: Tensor, from_query: Tensor, score: Tensor) -> Tensor:
    weights = torch.softmax(torch.tanh(keys + hidden @ from_query) @ score, 0)
    return (weights.unsqueeze(-1) * memory).sum(0)


def lstm_nmt(source: Tensor, shifted: Tensor, expected: Tensor, zeros: Tensor, *weights: Tensor) -> Tensor:
    source_embedding, target_embedding, *others, to_keys, from_query, score, to_output, to_vocabulary = weights
    encoder, decoder = others[:3], others[3:]
    hidden = cell = zeros
    states = []
    for x in F.embedding(source, source_embedding).unbind(0):
        hidden, cell = lstm_cell(x, hidden, cell, *encoder)
        states.append(hidden)
    memory = torch.stack(states)
    keys = memory @ to_keys
    context, outputs = zeros, []
    for x in F.embedding(shifted, target_embedding).unbind(0):
        hidden, cell = lstm_cell(torch.cat([x, context], 1), hidden, cell, *decoder)
        context = attend(hidden, keys, memory, from_query, score)
        outputs.append(torch.tanh(torch.cat([hidden, context], 1) @ to_output))
    logits = torch.stack(outputs) @ to_vocabulary
    return F.cross_entropy(logits.flatten(0, 1), expected.flatten())


def attention(x: Tensor, heads: int, mask: Tensor, to_qkv: Tensor, to_output: Tensor) -> Tensor:
    batch, time, width = x.shape
    qkv = (x @ to_qkv).view(batch, time, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
    query, key, value = qkv.unbind(0)
    scores = query @ key.transpose(-2, -1) / math.sqrt(width // heads) + mask
    return (torch.softmax(scores, -1) @ value).transpose(1, 2).reshape(batch, time, width) @ to_output


def block(x: Tensor, heads: int, mask: Tensor, *weights: Tensor) -> Tensor:
    norm1, bias1, to_qkv, to_output, norm2, bias2, widen, bias3, narrow, bias4 = weights
    width = x.shape[-1]
    x = x + attention(F.layer_norm(x, [width], norm1, bias1), heads, mask, to_qkv, to_output)
    hidden = F.gelu(F.layer_norm(x, [width], norm2, bias2) @ widen + bias3, approximate="tanh")
    return x + hidden @ narrow + bias4


def transformer(tokens: Tensor, expected: Tensor, mask: Tensor, heads: int, *weights: Any) -> Tensor:
    embedding, positions, *lists, norm, bias = weights
    x = F.embedding(tokens, embedding) + positions
    for layer in zip(*lists, strict=True):
        x = block(x, heads, mask, *layer)
    logits = F.layer_norm(x, [x.shape[-1]], norm, bias) @ embedding.t()
    return F.cross_entropy(logits.flatten(0, 1), expected.flatten())


def mlp(x: Tensor, expected: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]) -> Tensor:
    for weight, bias in zip(weights, biases, strict=True):
        x = F.silu(x @ weight + bias)
    return F.mse_loss(x, expected)


def gate(x: Tensor, dilation: int, taps: Tensor, bias: Tensor) -> Tensor:
    earlier = torch.cat([torch.zeros_like(x[:, :dilation]), x[:, :-dilation]], 1)
    signal, control = (torch.cat([earlier, x], -1) @ taps + bias).chunk(2, -1)
    return torch.tanh(signal) * torch.sigmoid(control)


def wavenet(x: Tensor, expected: Tensor, *weights: Any) -> Tensor:
    *lists, to_classes = weights
    total = torch.zeros_like(x)
    for i, (taps, bias, residual, skip) in enumerate(zip(*lists, strict=True)):
        gated = gate(x, 2**i, taps, bias)
        x = x + gated @ residual
        total = total + gated @ skip
    logits = torch.relu(total) @ to_classes
    return F.cross_entropy(logits.flatten(0, 1), expected.flatten())


MODELS: dict[str, Callable[..., Tensor]] = {
    "lstm_nmt": lstm_nmt,
    "transformer": transformer,
    "mlp": mlp,
    "wavenet": wavenet,
}

# --- functions ---


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    return F.silu(gate) * up


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.layer_norm(x, [x.shape[-1]], weight, bias)


def softmax(x: Tensor) -> Tensor:
    return torch.softmax(x * 0.125, -1)


def gelu_chain(x: Tensor) -> Tensor:
    for _ in range(4):
        x = F.gelu(x * 1.5, approximate="tanh")
    return x


def dot_product_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return torch.softmax(query @ key.transpose(-2, -1) * 0.125, -1) @ value


def feed_forward(x: Tensor, widen: Tensor, bias: Tensor, narrow: Tensor) -> Tensor:
    return x + F.gelu(x @ widen + bias, approximate="tanh") @ narrow


def one_lstm_cell(x: Tensor, hidden: Tensor, cell: Tensor, *weights: Tensor) -> Tensor:
    hidden, cell = lstm_cell(x, hidden, cell, *weights)
    return hidden + cell


FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "swiglu": swiglu,
    "layer_norm": layer_norm,
    "softmax": softmax,
    "gelu_chain": gelu_chain,
    "dot_product_attention": dot_product_attention,
    "feed_forward": feed_forward,
    "one_lstm_cell": one_lstm_cell,
}

# --- what the partitioner saves ---


def min_cut_saved_bytes(function: Callable[..., Tensor], arguments: Sequence[Any]) -> int:
    """Bytes that AOTAutograd's min-cut partitioner passes from its forward graph to its backward graph.

    Views are counted once, by their storage; storages of arguments and outputs are left out. Sizes passed as numbers
    cost nothing.
    """
    saved: dict[str, Any] = {}

    def partition(joint: Any, joint_inputs: Any, *, num_fwd_outputs: int, **options: Any) -> Any:
        forward, backward = min_cut_rematerialization_partition(
            joint, joint_inputs, num_fwd_outputs=num_fwd_outputs, **options
        )
        saved["outputs"] = num_fwd_outputs
        return forward, backward

    def keep_forward(graph: Any, example: Any) -> Any:
        saved["forward"] = graph
        return make_boxed_func(graph.forward)

    tensors, rebuild = _flattened(arguments)
    compiled = aot_function(
        lambda *leaves: function(*rebuild(leaves)),
        fw_compiler=keep_forward,
        bw_compiler=lambda graph, example: make_boxed_func(graph.forward),
        partition_fn=partition,
    )
    compiled(*tensors).sum().backward()
    results = saved["forward"](*[tensor.detach() for tensor in tensors])
    known = {_storage(tensor) for tensor in (*tensors, *results[: saved["outputs"]])}
    storages = {_storage(r): r.untyped_storage().nbytes() for r in results[saved["outputs"] :] if isinstance(r, Tensor)}
    return sum(nbytes for storage, nbytes in storages.items() if storage not in known)


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _flattened(arguments: Sequence[Any]) -> tuple[list[Tensor], Callable[[Sequence[Tensor]], list[Any]]]:
    """The tensors among arguments and in lists among them, and what puts others in their places."""

    def rebuild(leaves: Sequence[Tensor]) -> list[Any]:
        rest = iter(leaves)
        return [_replaced(value, rest) for value in arguments]

    return [t for value in arguments for t in (value if isinstance(value, list) else [value]) if _is(t)], rebuild


def _replaced(value: Any, rest: Any) -> Any:
    if isinstance(value, list):
        return [next(rest) for _ in value]
    return next(rest) if _is(value) else value


def _is(value: Any) -> bool:
    return isinstance(value, Tensor)


def as_leaves(value: Any) -> Any:
    """Arrays as tensors, of which the floating ones require a gradient; lists likewise, and all else as it is."""
    if isinstance(value, list):
        return [as_leaves(item) for item in value]
    if not hasattr(value, "dtype"):
        return value
    found = torch.from_numpy(value)
    return found.requires_grad_(found.is_floating_point())
