"""gs.torch_op: what torch checks of an op, what comes out of it by each of torch's roads, and what is refused."""

from __future__ import annotations

import io
import shutil
from pathlib import Path
from typing import Any

import gradscript as gs
import pytest
import torch
from amounts import WHOLE, whole_only
from gradscript.compiler.ops.draw import Draw
from op_cases import LAYOUTS, NAMES, arguments, backward_arguments, op_of
from torch.distributed.pipelining import SplitPoint, pipeline
from torch.export import Dim
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
from torch.utils.flop_counter import FlopCounterMode

QUICK = ("test_schema", "test_autograd_registration", "test_faketensor")
TRACED = ("swiglu", "lists", "optional", "by_data", "noisy", "views")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore")
def test_torch_finds_nothing_wrong_with_the_ops(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Draw, "source", lambda: 7)
    layout = LAYOUTS[NAMES.index(name) % len(LAYOUTS)]
    op, given = op_of(name), arguments(name, layout)
    tests = (*QUICK, "test_aot_dispatch_dynamic") if name in TRACED else QUICK
    torch.library.opcheck(op.op, tuple(given), test_utils=tests)
    torch.library.opcheck(op.forward, tuple(given), test_utils=QUICK)
    torch.library.opcheck(op.backward, tuple(backward_arguments(name, given)), test_utils=QUICK)


def gradients(function: Any, given: list[Any]) -> list[Any]:
    tensors = [t for value in given for t in (value if isinstance(value, list) else [value])]
    tensors = [t for t in tensors if isinstance(t, torch.Tensor) and t.requires_grad]
    results = function(*given)
    results = [*results] if isinstance(results, tuple) else [results]
    flat = [t for value in results for t in (value if isinstance(value, list) else [value])]
    loss = sum((t * t).sum() for t in flat if t.requires_grad)
    return [*(t.detach() for t in flat), *torch.autograd.grad(loss, tensors, allow_unused=True)]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore")
def test_an_op_is_its_function_where_torch_looks_on(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a mode of torch, which sees the halves, and without one."""
    monkeypatch.setattr(Draw, "source", lambda: 7)
    op = op_of(name)
    for layout in LAYOUTS:
        given = arguments(name, layout)
        expected = gradients(op.function, given)
        torch.testing.assert_close(gradients(op, given), expected)
        with FlopCounterMode(display=False):
            torch.testing.assert_close(gradients(op, given), expected)


@pytest.mark.parametrize("name", ["swiglu", "own", "lstm_cell", "loop", "optional", "views", "lists"])
@pytest.mark.filterwarnings("ignore")
def test_second_derivatives_hold_below_a_mode(name: str) -> None:
    op, given = op_of(name), arguments(name, "contiguous")
    if name == "own":
        given[0] = given[0].detach()

    def run(*args: Any) -> Any:
        with FlopCounterMode(display=False):
            results = op(*args)
        results = results if isinstance(results, tuple) else (results,)
        return sum((t * t * t).sum() for v in results for t in (v if isinstance(v, list) else [v]))

    tensors = [t for value in given for t in (value if isinstance(value, list) else [value])]
    tensors = [t for t in tensors if isinstance(t, torch.Tensor) and t.requires_grad]

    def second(function: Any) -> list[Any]:
        firsts = torch.autograd.grad(function(*given), tensors, create_graph=True)
        return [*torch.autograd.grad(sum((g * g).sum() for g in firsts), tensors)]

    plain = lambda *args: sum(  # noqa: E731 - beside the other
        (t * t * t).sum()
        for v in (lambda r: r if isinstance(r, tuple) else (r,))(op.function(*args))
        for t in (v if isinstance(v, list) else [v])
    )
    torch.testing.assert_close(second(run), second(plain))


def test_gradcheck_to_second_order() -> None:
    for name in ("swiglu", "loop", "rms_norm"):
        given = [value[:2, :2] if value.dim() == 2 else value[:2] for value in arguments(name, "contiguous")]
        given = [value.detach().clone().requires_grad_() for value in given]
        op = op_of(name)
        assert torch.autograd.gradcheck(op, given)
        assert torch.autograd.gradgradcheck(op, given)


@pytest.mark.parametrize("name", ["own", "loop", "noisy"])
@pytest.mark.filterwarnings("ignore")
def test_one_graph_at_three_batch_sizes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Draw, "source", lambda: 7)
    torch._dynamo.reset()
    op = op_of(name)
    compiled = torch.compile(lambda *args: op(*args), backend="aot_eager", fullgraph=True, dynamic=True)
    for rows in (4, 2, 7):
        given = arguments(name, "contiguous")
        given[0] = given[0].detach().repeat(2, 1)[:rows].requires_grad_()
        torch.testing.assert_close(gradients(compiled, given), gradients(op.function, given))


@pytest.mark.filterwarnings("ignore")
def test_inductor_and_func_grad() -> None:
    torch._dynamo.reset()
    op, (x, w) = op_of("own"), arguments("own", "contiguous")
    given = [x, w]
    backend = "inductor" if WHOLE else "aot_eager"
    compiled = torch.compile(lambda x, w: op(x * 1, w), backend=backend, fullgraph=True)
    torch.testing.assert_close(gradients(compiled, given), gradients(op.function, given))

    def total(x: Any) -> Any:
        return op(x, w.detach()).sum()

    expected = 3 * (1 - x.detach().tanh() ** 2) * w.detach()
    torch.testing.assert_close(torch.func.grad(total)(x.detach()), expected)
    compiled = torch.compile(torch.func.grad(total), backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x.detach()), expected)


def test_torch_func_takes_the_functions_own_way() -> None:
    op, (x, w) = op_of("swiglu"), (t.detach() for t in arguments("swiglu", "contiguous"))
    function = op.function
    torch.testing.assert_close(torch.func.vmap(op)(x, w), function(x, w))
    for transform in (torch.func.hessian, torch.func.jacfwd, torch.func.jacrev):
        found = transform(lambda x: op(x, w).sum(0))(x)
        torch.testing.assert_close(found, transform(lambda x: function(x, w).sum(0))(x))
    rows = torch.func.vmap(torch.func.grad(lambda x, w: op(x, w).sum()))(x, w)
    torch.testing.assert_close(rows, torch.func.grad(lambda x: function(x, w).sum())(x))


@pytest.mark.filterwarnings("ignore")
def test_exported_saved_loaded_and_run_at_another_batch() -> None:
    op = op_of("own")

    class Module(torch.nn.Module):
        def forward(self, x: Any, w: Any) -> Any:
            return op(x, w)

    x, w = (t.detach() for t in arguments("own", "contiguous"))
    exported = torch.export.export(Module(), (x, w), dynamic_shapes=({0: Dim("batch", min=2, max=64)}, None))
    file = io.BytesIO()
    torch.export.save(exported, file)
    file.seek(0)
    loaded = torch.export.load(file)
    assert any(node.target is op.op for node in loaded.graph.nodes)
    batch = torch.cat([x, x, x])
    torch.testing.assert_close(loaded.module()(batch, w), op(batch, w))
    plain = loaded.run_decompositions(op.decompositions())
    assert not any("op_cases" in str(node.target) for node in plain.graph.nodes)
    torch.testing.assert_close(plain.module()(batch, w), op(batch, w))


@whole_only
@pytest.mark.skipif(not shutil.which("g++"), reason="AOTInductor compiles C++")
@pytest.mark.filterwarnings("ignore")
def test_a_package_without_python_runs_at_another_batch(tmp_path: Path) -> None:
    op = op_of("own")

    class Module(torch.nn.Module):
        def forward(self, x: Any, w: Any) -> Any:
            return op(x, w)

    x, w = (t.detach() for t in arguments("own", "contiguous"))
    exported = torch.export.export(Module(), (x, w), dynamic_shapes=({0: Dim("batch", min=2, max=64)}, None))
    plain = exported.run_decompositions(op.decompositions())
    path = torch._inductor.aoti_compile_and_package(plain, package_path=str(tmp_path / "own.pt2"))
    loaded = torch._inductor.aoti_load_package(path)
    for batch in (x, torch.cat([x, x, x])):
        torch.testing.assert_close(loaded(batch, w), op(batch, w))


@pytest.mark.filterwarnings("ignore")
def test_stages_of_a_pipeline_are_cut_between_ops() -> None:
    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate, self.up = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            return op_of("swiglu")(self.up(x), self.gate(x))

    net, x = torch.nn.Sequential(Layer(), Layer()), torch.randn(6, 4)
    stages = pipeline(net, mb_args=(x,), split_spec={"1": SplitPoint.BEGINNING})
    first, second = (stages.get_stage_module(i) for i in range(2))
    out = second(first(x))
    torch.testing.assert_close(out, net(x))
    out.sum().backward()
    assert all(parameter.grad is not None for parameter in [*first.parameters(), *second.parameters()])


def test_checkpoints_save_by_the_name_of_the_op() -> None:
    op, given = op_of("swiglu"), arguments("swiglu", "contiguous")
    runs = []
    for saved in ([], [op.forward]):
        with FlopCounterMode(display=False), torch.profiler.profile() as profile:
            contexts = lambda saved=saved: create_selective_checkpoint_contexts(saved)  # noqa: E731
            out = checkpoint(op, *given, use_reentrant=False, context_fn=contexts)
            found = torch.autograd.grad((out * out).sum(), given)
        torch.testing.assert_close([*found], gradients(op.function, given)[1:])
        runs.append(sum(e.count for e in profile.key_averages() if e.key == "op_cases::swiglu_forward"))
    assert runs[0] > runs[1]


def test_names_in_profiles_nodes_and_anomalies() -> None:
    op, given = op_of("swiglu"), arguments("swiglu", "contiguous")
    with torch.profiler.profile() as profile:
        out = op(*given)
        out.sum().backward()
    keys = {event.key for event in profile.key_averages()}
    assert "op_cases::swiglu" in keys and any("swigluBackward" in key for key in keys)
    assert type(out.grad_fn).__name__ == "swigluBackward"
    with torch.autograd.detect_anomaly(check_nan=False):
        out = op(*given)
        text = "".join(out.grad_fn.metadata["traceback_"])
    assert "suite.grad" in text and "swiglu" in text


def test_flops_are_those_of_the_ops_that_it_is_made_of() -> None:
    op, given = op_of("loop"), arguments("loop", "contiguous")
    with FlopCounterMode(display=False) as counter:
        op(*given).sum().backward()
    # Two products of 4 x 4 forward, and as many for each of the two gradients, with those computed again.
    assert counter.get_total_flops() >= 3 * 2 * 2 * 4**3


def test_flops_of_convolutions_are_those_of_the_gradients_asked_for() -> None:
    unit = gs.CompilationUnit("""
def convolved(x, w, v):
    return torch.nn.functional.conv1d(torch.relu(torch.nn.functional.conv2d(x, w, padding=1).flatten(2)), v)
""")
    shapes = ((2, 3, 4, 4), (4, 3, 3, 3), (5, 4, 2))

    def eager(x: Any, w: Any, v: Any) -> Any:
        functional = torch.nn.functional
        return functional.conv1d(torch.relu(functional.conv2d(x, w, padding=1).flatten(2)), v)

    def counted(function: Any, needed: tuple[bool, ...]) -> list[int]:
        given = [torch.randn(s, requires_grad=n) for s, n in zip(shapes, needed, strict=True)]
        with FlopCounterMode(display=False) as forward:
            out = function(*given)
        with FlopCounterMode(display=False) as backward:
            out.sum().backward()
        return [forward.get_total_flops(), backward.get_total_flops()]

    op = gs.torch_op(unit.convolved, "flops::convolved")
    for needed in ((True, True, True), (False, True, False), (False, False, True), (True, False, True)):
        assert counted(op, needed) == counted(eager, needed)


ATTENTION = """
def biased(q, k, v, b, heads: int):
    n, d = q.size(0), q.size(1)
    qh = q.reshape(n, heads, d // heads).transpose(0, 1)
    kh = k.reshape(n, heads, d // heads).transpose(0, 1)
    vh = v.reshape(n, heads, d // heads).transpose(0, 1)
    a = torch.softmax(qh @ kh.transpose(-1, -2) / math.sqrt(d // heads) + b, -1)
    return (a @ vh).transpose(0, 1).reshape(n, d)
"""


def test_products_whose_sizes_alone_are_asked_for_are_not_counted() -> None:
    op = gs.torch_op(gs.CompilationUnit(ATTENTION).biased, "flops::biased")
    given = [torch.randn(3, 4, requires_grad=True) for _ in range(3)] + [torch.randn(3, 1, requires_grad=True)]
    with FlopCounterMode(display=False) as counter:
        op(*given, 2).sum().backward()
    product = 2 * 3 * 3 * 4
    assert counter.get_total_flops() == 2 * product + 4 * product


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (None, torch.float32),
        ("fp32", torch.float32),
        (torch.float16, torch.float16),
        ("lower_precision_fp", torch.bfloat16),
        ("promote", torch.float32),
    ],
)
def test_policies_of_autocast(policy: Any, expected: Any) -> None:
    unit = gs.CompilationUnit("def mul(x, y):\n    return x * y")
    name = f"mul_{str(policy).removeprefix('torch.')}"
    op = gs.torch_op(unit.mul, f"op_policies::{name}", autocast=policy)
    x, y = torch.ones(3, requires_grad=True), torch.ones(3, dtype=torch.bfloat16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = op(x, y)
    assert out.dtype == expected
    assert torch.autograd.grad(out.sum(), x)[0].dtype == torch.float32
    assert op(x, y).dtype == torch.float32


def test_a_decorator_a_unit_and_defaults() -> None:
    @gs.torch_op(name="op_forms::double")
    def double(x):  # type: ignore[no-untyped-def]
        return x + x

    assert torch.equal(torch.ops.op_forms.double(torch.ones(2)), torch.full((2,), 2.0))
    assert double.function.name == "double" and "double" in repr(double)
    ops = gs.torch_op(gs.CompilationUnit("def a(x):\n    return x\ndef b(x):\n    return -x"), "op_unit")
    assert list(ops) == ["a", "b"] and torch.equal(ops["b"](torch.ones(2)), -torch.ones(2))
    x = torch.ones(2)
    assert torch.ops.op_unit.a(x) is not x and torch.ops.op_unit.a(x).data_ptr() != x.data_ptr()
    keywords = op_of("keywords")
    torch.testing.assert_close(keywords(torch.ones(2, 2), mode="b"), torch.ones(1, 2))
    torch.testing.assert_close(keywords(torch.ones(2, 2), scale=3.0, dims=[1]), torch.full((2,), 6.0))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def f(x: Tuple[Tensor, Tensor]):\n    return x[0]", "parameter 'x' of 'f' is a Tuple"),
        ("def f(x: List[List[Tensor]]):\n    return x[0][0]", "parameter 'x' of 'f' is a List"),
        ("def f(x):\n    return x.size(0)", "'f' returns a int"),
        ("def f(x):\n    return (x, x), x", "'f' returns a Tuple"),
    ],
)
def test_what_no_op_can_be_is_told(source: str, message: str) -> None:
    with pytest.raises(gs.CompileError) as caught:
        gs.torch_op(gs.CompilationUnit(source).f, "op_refused::f")
    assert caught.value.code == "E411" and message in caught.value.message and caught.value.diagnostics[0].notes


@pytest.mark.parametrize(
    ("function", "name", "error", "message"),
    [
        ("double", "double", ValueError, "namespace::name"),
        ("double", "a::b::c", ValueError, "is no name"),
        ("double", "a b::c", ValueError, "is no namespace"),
        ("double", "ns::", ValueError, "is no name"),
        ("double", "aten::mul", ValueError, "already"),
        ("double", None, TypeError, "is a str, not None"),
        ("double", 3, TypeError, "is a str, not a int"),
        ("unit", "a::b", ValueError, "namespace alone"),
        (3, "ns::x", TypeError, "takes a Function"),
        ([], "ns::x", TypeError, "takes a Function"),
        ("ns::x", "", TypeError, "goes by its name"),
    ],
)
def test_bad_names_and_functions(function: Any, name: Any, error: Any, message: str) -> None:
    unit = gs.CompilationUnit("def double(x):\n    return x + x")
    given = {"double": unit.double, "unit": unit}.get(function, function) if isinstance(function, str) else function
    with pytest.raises(error, match=message):
        gs.torch_op(given, name)


def test_a_name_is_taken_once_and_options_are_checked() -> None:
    unit = gs.CompilationUnit("def double(x):\n    return x + x")
    gs.torch_op(unit.double, "op_twice::double")
    with pytest.raises(ValueError, match="already"):
        gs.torch_op(unit.double, "op_twice::double")
    with pytest.raises(ValueError, match="no policy"):
        gs.torch_op(unit.double, "op_twice::other", autocast="bf16")
    with pytest.raises(ValueError, match="sharding"):
        gs.torch_op(unit.double, "op_twice::other", sharding="guess")
    gs.torch_op(unit.double, "op_twice::other")


def test_wrong_arguments_say_what_fits() -> None:
    op = op_of("own")
    with pytest.raises(gs.RuntimeFailure):
        op(torch.ones(2, 3), torch.ones(4))
    with pytest.raises(RuntimeError, match="Declaration"):
        op(torch.ones(2))


def test_a_call_by_name_goes_where_the_dispatcher_goes() -> None:
    """What was prepared is for where nothing of torch's is in between."""
    op = op_of("swiglu")
    packet = getattr(getattr(torch.ops, op.name.partition("::")[0]), op.name.partition("::")[2])
    x, g = (torch.randn(4, generator=torch.Generator().manual_seed(seed)).requires_grad_() for seed in (1, 2))
    for call in (op, packet, packet.default):
        for _ in range(3):
            assert type(call(x, g).grad_fn).__name__ == "swigluBackward"
        with torch._C._AutoDispatchBelowAutograd():
            assert not call(x, g).requires_grad
        with torch.inference_mode():
            assert call(x, g).is_inference()
        with torch.utils.flop_counter.FlopCounterMode(display=False) as counter:
            call(x, g)
        assert op.forward.overloadpacket in counter.get_flop_counts()["Global"] or not counter.get_total_flops()
        torch.testing.assert_close(torch.func.vmap(call)(x, g), call(x, g))
        torch.testing.assert_close(call(x=x, g=g) if call is not op else op(x, g=g), call(x, g))
    scripted = torch.jit.script(_of_packet(packet))
    torch.testing.assert_close(scripted(x, g), op(x, g))


def _of_packet(packet: Any) -> Any:
    def run(x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        return packet(x, g)

    return run


ALIASING = gs.CompilationUnit("""
def norms(xs: List[Tensor], eps: float = 1e-5):
    return [x / (x.norm() + eps) for x in xs]

def roots(x, steps: int):
    y = x.abs() + 1.0
    target = y
    for _ in range(steps):
        y = 0.5 * (y + target / y)
    return y, target

def chosen(x, scale: Optional[Tensor] = None):
    if scale is None:
        return x * x
    return x * scale

def best(x):
    values, places = x.topk(2, 0)
    return values * values, values
""")


@pytest.mark.parametrize("name", list(ALIASING))
def test_results_that_may_share_memory_have_tangents_and_gradients_in_batches(name: str) -> None:
    """Of such an op torch sees the halves in every case."""
    op = gs.torch_op(ALIASING[name], f"op_aliasing::{name}")
    x, y = torch.randn(3, 2, dtype=torch.float64).requires_grad_(), torch.randn(2, dtype=torch.float64).requires_grad_()

    def call(x: Any, y: Any) -> Any:
        given = {"norms": ([x, y],), "roots": (x * y, 3), "chosen": (x, y), "best": (x * y,)}[name]
        result = op(*given)
        return tuple(result) if isinstance(result, list | tuple) else result

    assert torch.autograd.gradcheck(
        call, (x, y), check_forward_ad=True, check_batched_grad=True, check_batched_forward_grad=True
    )
    assert torch.autograd.gradgradcheck(call, (x, y))
