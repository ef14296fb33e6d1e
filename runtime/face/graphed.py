"""gs.graphed: a whole step as one CUDA graph."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import RLock
from typing import TYPE_CHECKING, Any

from ...lang.source import NO_SPAN, Span
from ..values.torch_needed import require_torch
from .function import Function

if TYPE_CHECKING:
    from ..torch.graphs.step import CapturedStep

MAX_GRAPHS = 8
"""Of one function; arguments of further kinds run without."""
WARMUPS = 3


def graphed(function: Callable[..., Any], /, *example: Any, warmups: int = WARMUPS) -> Graphed:
    """A function captured as a CUDA graph: a call puts the whole step on the device by one launch.

    `function` is one of ours, what `gs.grad`, `gs.value_and_grad` or a lambda make of one, or any function of torch
    tensors: a step with its optimizer, say. `example` are arguments like those of later calls: CUDA tensors, numbers
    and strings, in lists, tuples and dicts. It runs `warmups` times on copies of them, then it is captured: a graph of
    the forward, and, where gradients are recorded and a tensor of the example requires one, another of the backward, as
    a node of torch's autograd. What is returned is called with positional arguments.

    The rules are those of torch.cuda.make_graphed_callables and torch.cuda.CUDAGraph:

    - Tensors of a call are copied into the graph's memory; a torch.nn.Parameter, and what the function holds itself,
      is read where it lies.
    - Results and gradients lie in the graph's memory: the next call overwrites them. A backward that needs results of
      an older call is refused, by torch or with R106; so is a second backward of one call.
    - There are first derivatives alone.
    - Seeds that compiled code draws lie in the device's memory, which is filled before each replay: it draws what
      `function` itself would, and its backward the same. What is captured draws none of the generator's.
    - What the host decides, it decides once. Numbers, shapes, dtypes, which tensors require a gradient and whether
      gradients are recorded are guards, asked outside the graph: a call of another kind is captured as well, up to
      MAX_GRAPHS kinds; those beyond run by `function` itself, of which one RuntimeWarning tells.

    Inside a capture or a transform of torch.func `function` itself runs. Calls on several streams or threads at once
    are not for one graph.

    Raises: RuntimeFailure R003 without CUDA and for arguments that a graph cannot read anew, R106 where the function
    waits for what is in a tensor (a branch or a loop on data, an op whose result's shape depends on elements, a number
    read out), looks at a seed, seeds a generator, draws by torch's generator of the CPU, writes to its arguments, gives
    results on another device, or with gradients with respect to tensors that it holds.
    """
    require_torch("gs.graphed")
    if not callable(function):
        raise TypeError(f"gs.graphed takes a function, not {type(function).__name__}")
    if not isinstance(warmups, int) or isinstance(warmups, bool) or warmups < 1:
        raise ValueError("gs.graphed: warmups is 1 or more, for what the first call builds is none of the graph's")
    found = Graphed(function, warmups)
    found.capture(*example)
    return found


class Graphed:
    """A function with a CUDA graph for each kind of arguments that it met; `graphed` makes one."""

    def __init__(self, function: Callable[..., Any], warmups: int) -> None:
        self._function = function
        self._warmups = warmups
        self._steps: dict[Hashable, CapturedStep] = {}
        self._last: list[tuple[Hashable, str]] = []
        self._lock = RLock()
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        self.__doc__ = function.__doc__
        self._span: Span = function.graph.span if isinstance(function, Function) else NO_SPAN

    @property
    def count(self) -> int:
        """How many kinds of arguments have been captured."""
        return len(self._steps)

    def __call__(self, *args: Any) -> Any:
        """The results, in the memory of the graph."""
        from ..torch.graphs import inputs
        from ..torch.recorded.node import is_transformed

        leaves, structure = inputs.into_leaves(args)
        key = None if is_transformed() else inputs.kind_of_call(leaves, structure)
        step = self._steps.get(key)
        if step is None and key is not None:
            step = self._captured(key, leaves, structure)
        return self._function(*args) if step is None or step.is_inside() else step(leaves)

    def capture(self, *args: Any) -> None:
        """Have calls with such arguments captured now, where they are not yet."""
        from ..torch.graphs import inputs

        leaves, structure = inputs.into_leaves(args)
        self._captured(inputs.kind_of_call(leaves, structure), leaves, structure)

    def _captured(self, key: Hashable, leaves: list[Any], structure: Any) -> CapturedStep | None:
        """None where the function itself is to run."""
        from ..torch.graphs import inputs
        from ..torch.graphs.driver import DRIVERS
        from ..torch.graphs.step import CapturedStep

        name = f"gs.graphed({self.__name__})"
        device = inputs.check_leaves(name, leaves, self._span)
        driver = DRIVERS[device.type](device)
        if driver.is_capturing():
            return None
        with self._lock:
            found = self._steps.get(key)
            if found is not None:
                return found
            if len(self._steps) >= MAX_GRAPHS:
                self._tell(inputs.first_difference(self._last, leaves))
                return None
            found = CapturedStep(
                self._function, name, self._span, leaves, structure, driver=driver, warmups=self._warmups
            )
            self._last = inputs.seen(leaves)
            return self._steps.setdefault(key, found)

    def _tell(self, difference: str) -> None:
        from ..kernels.notices import tell

        what = f"{self.__name__} has met more than {MAX_GRAPHS} kinds of arguments, and runs without a graph"
        tell(f"{what}: {difference}", of=f"graphs of {id(self)}")

    def __repr__(self) -> str:
        return f"<Graphed {self.__name__}, {self.count} kinds of arguments>"
