"""Losses in chunks hold the products of one chunk, and keep none for their backward."""

from __future__ import annotations

import sys
from pathlib import Path

import gradscript as gs
import pytest

sys.path[:0] = [str(Path(__file__).parents[2] / "benchmarks")]

from example_memory import CHUNKED, MARKS, measure  # noqa: E402


@pytest.fixture(autouse=True)
def kernels_of_its_own(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADSCRIPT_CACHE", str(tmp_path_factory.getbasetemp() / "chunked"))


@pytest.mark.parametrize("name", [name for name in CHUNKED if name != "tiled_mlp"])
def test_losses_hold_one_chunk(name: str) -> None:
    """The gradients of weights, as large as a chunk or larger, are added up where the sum lies."""
    held = measure(name, 512, 2048)
    assert held.forward <= 1.1 * held.chunk
    assert held.kept <= 0.1 * held.chunk
    assert held.backward <= 1.3 * held.chunk


def test_layers_hold_a_chunk_and_its_gradients() -> None:
    """Both products and the gradient of what they make: the other gradients lie where these did."""
    held = measure("tiled_mlp", 512, 2048)
    assert held.forward <= 1.1 * held.chunk
    assert held.kept <= 0.1 * held.chunk
    assert held.backward <= 1.7 * held.chunk


def test_without_the_word_all_chunks_are_kept() -> None:
    """What is measured is what is held: a loss whose products are not computed again keeps them."""
    held = measure("linear_cross_entropy", 512, 2048)
    text = (Path(__file__).parents[2] / "examples" / "kernels" / "layers.grad").read_text(encoding="utf-8")
    unit = gs.CompilationUnit(text.replace("gs.recompute(", "("))
    import example_memory

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(example_memory.gs, "load", lambda path: unit)
        assert measure("linear_cross_entropy", 512, 2048).kept > 0.9 * held.whole


def test_the_document_has_the_table() -> None:
    text = (Path(__file__).parents[2] / "docs" / "kernels.md").read_text(encoding="utf-8")
    listed = text.split(MARKS[0])[1].split(MARKS[1])[0]
    assert [line.split("`")[1] for line in listed.splitlines() if "`" in line] == [*CHUNKED]
