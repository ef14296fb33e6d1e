"""Of a list that the backward asks for shapes alone, no element is kept."""

from __future__ import annotations

import gradscript as gs
import numpy as np
import pytest
import torch

X = np.linspace(-2.0, 2.0, 64, dtype=np.float64).reshape(8, 8)
PIECES = ("chunk(2, 1)", "split(4, 1)", "tensor_split(2, 1)", "hsplit(2)")


@pytest.mark.parametrize("pieces", PIECES)
def test_pieces_are_kept_for_their_shapes_alone(pieces: str) -> None:
    f = gs.CompilationUnit(
        f"def f(x):\n    a, b = torch.sin(x).{pieces}\n    return torch.sigmoid(a) * torch.tanh(b)\n"
    ).f
    saved = f.memory(X, policy="save_all").saved_bytes
    # What the sigmoid and the tanh gave, and a number for each piece.
    assert X.nbytes <= saved <= X.nbytes + 2 * X.itemsize


@pytest.mark.parametrize("pieces", PIECES)
def test_the_gradient_of_a_piece_alone_has_zeros_for_the_others(pieces: str) -> None:
    f = gs.CompilationUnit(f"def f(x):\n    a, b = torch.sin(x).{pieces}\n    return a, torch.tanh(b)\n").f
    cotangent = np.cos(X[:, :4])
    tensor = torch.from_numpy(X).requires_grad_()
    for index in range(2):
        _, pullback = gs.vjp(f, X)
        (mine,) = pullback(tuple(cotangent if i == index else None for i in range(2)))
        a, b = eval(f"torch.sin(tensor).{pieces}")
        (theirs,) = torch.autograd.grad((a, torch.tanh(b))[index], tensor, torch.from_numpy(cotangent))
        np.testing.assert_allclose(mine, theirs.numpy(), rtol=1e-12, atol=1e-14)
