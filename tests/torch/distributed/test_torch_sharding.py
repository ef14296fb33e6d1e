"""Placements that are derived of ops, held to torch's own validation, and what DTensor makes of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import gradscript as gs
import pytest
import torch
import torch.distributed
from amounts import some_of
from click.testing import CliRunner
from gradscript.authoring.cli.main import main
from gradscript.runtime.torch.library.fakes import abstract
from gradscript.runtime.torch.library.sharding import derived
from gradscript.runtime.torch.library.stages import stages_of_backward, stages_of_forward
from op_cases import (
    ARGUMENTS,
    NAMES,
    OWN,
    ROOT,
    SUITE_ARGUMENTS,
    arguments,
    backward_arguments,
    op_of,
    positive,
    spread,
)
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.tensor import Partial, Replicate, Shard, init_device_mesh
from torch.distributed.tensor._ops import strategy_validation
from torch.distributed.tensor.debug import CommDebugMode
from torch.testing._internal.distributed.fake_pg import FakeStore

MOST = 10
"""Ways of one op that are validated; more are picked evenly."""
VALIDATED = pytest.mark.skipif(
    not hasattr(strategy_validation, "validate_aten_combination"), reason="this torch does not validate placements"
)
WITH_RULES = [name for name in NAMES if name not in ("lists", "noisy", "dropout_add_layer_norm")]
LAYERS = gs.CompilationUnit("""
def by_einsum(x, w):
    return torch.einsum("bik,kj->bij", x, w)

def scores(q, k):
    return torch.einsum("...id,...jd->...ij", q, k).softmax(-1)

def attention(q, k, v):
    return (q @ k.transpose(-1, -2) * 0.5).softmax(-1) @ v

def layer(x, w, b):
    return F.gelu(F.linear(x, w, b))

def added(b, x, w):
    return torch.addmm(b, x, w)

def looked_up(i, w):
    return F.embedding(i, w) * 2.0

def rows(w, i):
    return w[i].sum(0)

def convolved(x, w, b):
    return F.avg_pool2d(F.conv2d(x, w, b), 2)

def running(x):
    return x.cumsum(1).tril()

def shifted(x):
    return torch.roll(x, 1, 1) - torch.flip(x[:, :3], [0]).sum()

def picked(x, i):
    return x.gather(1, i).logsumexp(1)

def rotated(x):
    a, b = x.chunk(2, -1)
    return torch.cat([-b, a], -1)

def squared(y, target):
    return F.mse_loss(y, target)

def classed(x, target):
    return F.cross_entropy(x, target, reduction="sum")

def grouped(x, w, b):
    return F.group_norm(x, 2, w, b)

def batched(x, w):
    def backward(g):
        return torch.bmm(g, w.transpose(1, 2)), torch.bmm(x.transpose(1, 2), g)
    return torch.bmm(x, w), backward
""")
LAYER_ARGUMENTS: dict[str, Any] = {
    "by_einsum": lambda: [positive(4, 6, 2), positive(2, 8)],
    "scores": lambda: [positive(2, 4, 6), positive(2, 8, 6)],
    "attention": lambda: [positive(2, 4, 6), positive(2, 8, 6), positive(2, 8, 4)],
    "layer": lambda: [positive(4, 6), positive(8, 6), positive(8)],
    "added": lambda: [positive(8), positive(4, 6), positive(6, 8)],
    "looked_up": lambda: [torch.tensor([[0, 3, 1, 1], [2, 0, 4, 3]]), positive(5, 6)],
    "rows": lambda: [positive(6, 4), torch.tensor([0, 2, 2, 5])],
    "convolved": lambda: [positive(2, 4, 5, 5), positive(6, 4, 2, 2), positive(6)],
    "running": lambda: [positive(4, 6, 6)],
    "shifted": lambda: [positive(4, 6)],
    "picked": lambda: [positive(4, 6), torch.tensor([[0, 2], [1, 5], [3, 3], [4, 0]])],
    "rotated": lambda: [positive(4, 6, 8)],
    "squared": lambda: [positive(4, 6), positive(4, 6)],
    "classed": lambda: [positive(4, 6), torch.tensor([0, 5, 2, 2])],
    "grouped": lambda: [positive(4, 6, 3), positive(6), positive(6)],
    "batched": lambda: [positive(2, 4, 6), positive(2, 6, 8)],
}


@pytest.fixture(scope="module")
def mesh() -> Iterator[Any]:
    torch.distributed.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    yield init_device_mesh("cpu", (2,))
    torch.distributed.destroy_process_group()


def placement(place: Any) -> Any:
    made = {"replicate": Replicate, "sum": lambda: Partial("sum"), "mean": lambda: Partial("avg")}
    return Shard(place.dim) if place.kind == "shard" else made[place.kind]()


def parts_of(name: str) -> list[tuple[Any, Any, list[Any]]]:
    """Each op of a function with what it runs and arguments."""
    op, given = op_of(name), arguments(name, "contiguous")
    return parts_of_op(op, given, backward_arguments(name, given))


def parts_of_op(op: Any, given: list[Any], taken: list[Any]) -> list[tuple[Any, Any, list[Any]]]:
    registered, halves = op._registered, op._registered.halves
    plain = [value.detach() if isinstance(value, torch.Tensor) else value for value in given]
    backward = [v.detach() if isinstance(v, torch.Tensor) else v for v in taken]
    found = registered.bound(tuple(plain), {})
    return [
        (op.op, registered.stages, found),
        (op.forward, partial(stages_of_forward, halves), found),
        (op.backward, partial(stages_of_backward, halves), backward),
    ]


def _placed(op: Any) -> Any:
    """The op with all arguments by place."""
    names = [(argument.name, argument.kwarg_only) for argument in op._schema.arguments]

    def call(*given: Any) -> Any:
        named = {name: value for (name, only), value in zip(names, given, strict=True) if only}
        return op(*[value for (_, only), value in zip(names, given, strict=True) if not only], **named)

    return call


def is_right(op: Any, given: list[Any], way: Any, mesh: Any) -> list[str]:
    """What torch's validation has against a way, result by result."""
    places = tuple(placement(p) for v, p in zip(given, way.arguments, strict=True) if isinstance(v, torch.Tensor))
    op = _placed(op)
    truth = op(*given)
    truth = truth if isinstance(truth, tuple) else (truth,)
    wrong = []
    for i, (result, place) in enumerate(zip(truth, way.results, strict=True)):
        if place is None or result is None:
            continue
        picked = lambda *args, i=i: (lambda r: r[i] if isinstance(r, tuple) else r)(op(*args))  # noqa: E731
        with LocalTensorMode(2):
            valid, message = strategy_validation.validate_aten_combination(
                picked, tuple(given), {}, result, (places, (placement(place),)), 2, mesh
            )
        if valid is False:
            wrong.append(f"{places} -> [{i}] {placement(place)}: {message}")
    return wrong


@VALIDATED
@pytest.mark.parametrize("name", some_of(WITH_RULES))
def test_torch_finds_every_placement_valid(name: str, mesh: Any) -> None:
    for op, stages, given in parts_of(name):
        found = derived(stages, [abstract(value) for value in given])
        assert found
        some = found[:: max(1, len(found) // MOST)]
        wrong = [message for way in some for message in is_right(op, given, way, mesh)]
        assert not wrong, "\n".join(wrong)
    if name in ("swiglu", "layer_norm", "bias_gelu", "chain", "views"):
        assert len(found) > 1


@VALIDATED
@pytest.mark.parametrize("name", list(LAYER_ARGUMENTS))
def test_layers_run_in_parts_and_torch_finds_that_valid(name: str, mesh: Any) -> None:
    op, given = layer_op(name), LAYER_ARGUMENTS[name]()
    for part, stages, values in parts_of_op(op, given, taken_back(op, given)):
        found = derived(stages, [abstract(value) for value in values])
        assert len(found) > 1, part
        wrong = [
            message for way in found[:: max(1, len(found) // MOST)] for message in is_right(part, values, way, mesh)
        ]
        assert not wrong, "\n".join(wrong)


@cache
def layer_op(name: str) -> Any:
    return gs.torch_op(LAYERS[name], f"layers::{name}")


def taken_back(op: Any, given: list[Any]) -> list[Any]:
    """What the backward takes, all gradients of results there."""
    halves = op._registered.halves
    results = op.forward(*given)
    results = [*results] if isinstance(results, tuple) else [results]
    vjps = [torch.ones_like(results[i]) if i < halves.num_real else None for i in halves.vjps]
    return [*vjps, *halves.arguments_of_backward(given, results), [True] * len(halves.wanted)]


@VALIDATED
@pytest.mark.parametrize("name", ["swiglu", "layer_norm", "bias_gelu", "softmax", "total", "views", "own"])
def test_no_placement_of_parts_is_missing(name: str, mesh: Any) -> None:
    """What torch's validation finds right of the forward, among all that cut dimensions, is derived."""
    op, stages, given = parts_of(name)[0]
    found = {(way.arguments, way.results) for way in derived(stages, [abstract(value) for value in given])}
    known = {(tuple(map(str, a)), tuple(map(str, r))) for a, r in found}
    tensors = [value for value in given if isinstance(value, torch.Tensor)]
    result = op(*given)
    choices: Sequence[Any] = [[Replicate(), *map(Shard, range(tensor.dim()))] for tensor in tensors]
    outputs = [Replicate(), *map(Shard, range(result.dim())), Partial("sum")]
    texts = {str(Replicate()): "replicate", str(Partial("sum")): "partial(sum)"}
    for places in product(*choices):
        for out in outputs:
            with LocalTensorMode(2):
                valid, _ = strategy_validation.validate_aten_combination(
                    op, tuple(given), {}, result, (places, (out,)), 2, mesh
                )
            said = tuple(texts.get(str(p), f"shard({getattr(p, 'dim', '')})") for p in (*places, out))
            assert (not valid) or (said[:-1], said[-1:]) in known, said


@pytest.mark.parametrize("dim", [0, 1])
def test_parts_stay_where_they_are_without_a_collective(mesh: Any, dim: int) -> None:
    op, (x, g) = op_of("swiglu"), arguments("swiglu", "contiguous")
    parts = [spread(mesh, x, Shard(dim)), spread(mesh, g, Shard(dim))]
    with CommDebugMode() as counted:
        result = op(*parts)
        result.to_local().sum().backward()
    assert counted.get_total_counts() == 0 and result.placements == (Shard(dim),)
    torch.testing.assert_close(result.to_local(), op(x, g).chunk(2, dim)[0])
    op(x, g).sum().backward()
    for part, tensor in zip(parts, (x, g), strict=True):
        torch.testing.assert_close(part.grad.to_local(), tensor.grad.chunk(2, dim)[0])


def test_the_gradient_of_a_weight_is_a_sum_over_the_rows(mesh: Any) -> None:
    op, (x, w, b) = op_of("layer_norm"), arguments("layer_norm", "contiguous")
    rows, weight, bias = spread(mesh, x, Shard(0)), spread(mesh, w, Replicate()), spread(mesh, b, Replicate())
    with CommDebugMode() as counted:
        op(rows, weight, bias).to_local().sum().backward()
    assert counted.get_total_counts() == 0
    assert weight.grad.placements == bias.grad.placements == (Partial("sum"),)
    torch.testing.assert_close(bias.grad.to_local(), torch.full((8,), 2.0).double())


def test_where_nothing_is_derived_the_ops_of_torch_say(mesh: Any) -> None:
    unit = gs.CompilationUnit("def f(x):\n    return x.sin()")
    op = gs.torch_op(unit.f, "sharding::none", sharding=None)
    x = spread(mesh, torch.ones(4), Shard(0))
    result = op(x)
    assert result.placements == (Shard(0),)
    lists = op_of("lists")
    given = arguments("lists", "contiguous")
    parts = [[spread(mesh, t, Replicate()) for t in given[0]], spread(mesh, given[1], Replicate())]
    torch.testing.assert_close(lists(*parts)[0].to_local(), lists(*given)[0])


def test_a_mean_is_one_of_parts_of_the_same_size(mesh: Any) -> None:
    unit = gs.CompilationUnit("def f(x):\n    return x.mean(0)\ndef g(x):\n    return x.sum(0) / x.size(0)")
    ops = gs.torch_op(unit, "sharding_means")
    assert ops["f"](spread(mesh, torch.ones(4, 3), Shard(0))).placements == (Partial("avg"),)
    assert ops["f"](spread(mesh, torch.ones(5, 3), Shard(0))).placements == (Replicate(),)
    assert ops["g"](spread(mesh, torch.ones(4, 3), Shard(0))).placements == (Replicate(),)


def test_every_case_is_in_one_of_the_tables() -> None:
    assert set(NAMES) == {*SUITE_ARGUMENTS, *ARGUMENTS}


def test_the_command_prints_ways_and_what_forbids_others() -> None:
    suite = str(ROOT / "benchmarks" / "suite.grad")
    told = CliRunner().invoke(main, ["shard", suite, "layer_norm", "--shape", "x=6,4"])
    assert told.exit_code == 0, told.output
    lines = " ".join(told.output.split())
    assert "shard(0) replicate replicate -> shard(0)" in lines and "partial(sum) partial(sum)" in lines
    assert "not x shard(1), weight shard(0), bias shard(0): native_layer_norm needs dimension 1 whole" in lines
    assert "return F.layer_norm(x, [x.size(-1)], weight, bias)" in lines
    told = CliRunner().invoke(main, ["shard", suite, "swiglu", "--json"])
    assert [rules["op"] for rules in json.loads(told.output)["ops"]] == ["swiglu", "swiglu_forward", "swiglu_backward"]


@pytest.mark.parametrize("name", ["noisy", "lists", "optional", "by_data", "until", "keywords", "rows"])
def test_the_command_has_an_answer_for_every_kind_of_function(name: str, tmp_path: Path) -> None:
    file = tmp_path / "own.grad"
    file.write_text(OWN)
    told = CliRunner().invoke(main, ["shard", str(file), name])
    assert told.exit_code == 0 and "replicate" in told.output, told.output
