"""Train a small classifier on the handwritten digits of scikit-learn, with every gradient from Gradscript's pairs.

Prints the accuracy on held-out digits and draws the loss to build/digits_loss.png. Exit status 1 below 95 percent.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import gradscript as gs
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

HERE = Path(__file__).parent
PICTURE = HERE.parents[1] / "build" / "digits_loss.png"

HIDDEN = 48
EPOCHS = 60
BATCH = 64
RATE = 3e-3
GOAL = 0.95

Array = NDArray[np.float32]
Labels = NDArray[np.int64]


class Adam:
    """Adam (Kingma and Ba, 2015, algorithm 1)."""

    def __init__(self, parameters: list[Array], rate: float) -> None:
        self.parameters = parameters
        self.rate = rate
        self.steps = 0
        self.means = [np.zeros_like(p) for p in parameters]
        self.squares = [np.zeros_like(p) for p in parameters]

    def step(self, gradients: list[Array]) -> None:
        self.steps += 1
        for parameter, gradient, mean, square in zip(self.parameters, gradients, self.means, self.squares, strict=True):
            mean += 0.1 * (gradient - mean)
            square += 0.001 * (gradient * gradient - square)
            unbiased = mean / (1 - 0.9**self.steps)
            scale = np.sqrt(square / (1 - 0.999**self.steps)) + 1e-8
            parameter -= self.rate * unbiased / scale


def initial_parameters(rng: np.random.Generator) -> list[Array]:
    """Weights and biases in the order of `loss`: uniform, within one over the root of the number of inputs."""

    def layer(inputs: int, outputs: int) -> list[Array]:
        bound = 1 / np.sqrt(inputs)
        weight = rng.uniform(-bound, bound, (inputs, outputs)).astype(np.float32)
        return [weight, np.zeros(outputs, np.float32)]

    return [*layer(64, HIDDEN), *layer(64, HIDDEN), *layer(HIDDEN, 10)]


def batches(rng: np.random.Generator, images: Array, labels: Labels) -> Iterator[tuple[Array, Labels]]:
    """The images in a new order, in whole batches; what is left over waits for another epoch."""
    order = rng.permutation(len(images))
    for start in range(0, len(order) - BATCH + 1, BATCH):
        chosen = order[start : start + BATCH]
        yield images[chosen], labels[chosen]


def train(unit: gs.CompilationUnit, images: Array, labels: Labels, console: Console) -> tuple[list[Array], list[float]]:
    """The trained parameters, and the loss of every step."""
    rng = np.random.default_rng(0)
    parameters = initial_parameters(rng)
    optimizer = Adam(parameters, RATE)
    loss_and_gradients = gs.value_and_grad(unit.loss, argnums=tuple(range(len(parameters))))
    losses: list[float] = []
    for _ in track(range(EPOCHS), "training", console=console, disable=not console.is_terminal):
        for image_batch, label_batch in batches(rng, images, labels):
            loss, gradients = loss_and_gradients(*parameters, image_batch, label_batch)
            optimizer.step(gradients)
            losses.append(float(loss))
    return parameters, losses


def accuracy(logits: Callable[..., Array], parameters: list[Array], images: Array, labels: Labels) -> float:
    return float((logits(*parameters, images).argmax(axis=1) == labels).mean())


def draw(losses: list[float], path: Path) -> None:
    """The loss of every step, and its mean over an epoch's worth of them."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    window = max(1, len(losses) // EPOCHS)
    smooth = np.convolve(losses, np.full(window, 1 / window), mode="valid")
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    axes.plot(losses, color="tab:blue", alpha=0.3, label="each batch")
    axes.plot(np.arange(len(smooth)) + window - 1, smooth, color="tab:blue", label="mean over an epoch")
    axes.set(xlabel="step", ylabel="cross-entropy", title="Handwritten digits, gradients by Gradscript")
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main() -> int:
    console = Console()
    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32)
    train_x, test_x, train_y, test_y = train_test_split(images, labels, test_size=0.25, random_state=0, stratify=labels)
    unit = gs.CompilationUnit((HERE / "model.grad").read_text(encoding="utf-8"), "model.grad")
    started = time.perf_counter()
    parameters, losses = train(unit, train_x, train_y, console)
    seconds = time.perf_counter() - started
    reached = accuracy(unit.logits, parameters, test_x, test_y)
    draw(losses, PICTURE)
    console.print(f"digits          {len(train_x)} to train on, {len(test_x)} held out", highlight=False)
    console.print(
        f"loss            {losses[0]:.3f} → {losses[-1]:.3f} in {len(losses)} steps, {seconds:.1f} s", highlight=False
    )
    console.print(f"test accuracy   {reached:.4f}", highlight=False)
    console.print(f"loss curve      {PICTURE.relative_to(HERE.parents[1])}", highlight=False)
    if reached < GOAL:
        console.print(f"below {GOAL}", style="bold red")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
