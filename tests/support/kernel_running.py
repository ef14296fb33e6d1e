"""Runs emitted kernels under Triton's interpreter and compares them with the kernels' meaning in float64.

A script for a process of its own, for Triton decides when it is imported whether it interprets:

    TRITON_INTERPRET=1 python kernel_running.py GROUP …

prints one line per case, and the traceback of each that fails. The interpreter has no
libdevice, so its functions are NumPy's here.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from gradscript.compiler.codegen.triton.module import constants, emit_triton, grid
from gradscript.compiler.kernel_ir.interpret import run_kernel
from gradscript.compiler.kernel_ir.kernel import Buffer, Definition, Kernel, Uniform
from gradscript.compiler.kernel_ir.passed_sizes import passed_sizes
from gradscript.compiler.ops.arrays import numpy_dtype
from gradscript.compiler.ops.scalar import PRIMITIVES
from gradscript.compiler.scheduling.choose import choose_schedule
from gradscript.compiler.scheduling.collapse import collapse_axes
from gradscript.compiler.scheduling.schedule import Schedule
from gradscript.compiler.scheduling.split import split_reductions
from gradscript.compiler.types.dtypes import BFLOAT16, BOOL, FLOAT16, FLOAT32, FLOAT64, DType
from gradscript.lang.light_dataclasses import replace
from gradscript.runtime.kernels.triton.compile import load_module
from kernel_cases import GROUPS, Case

Arrays = dict[str, np.ndarray[Any, Any]]
Numbers = dict[str, Any]
TOLERANCES = {FLOAT64: 1e-12, FLOAT32: 2e-5, FLOAT16: 2e-3, BFLOAT16: 2e-2}
LIBDEVICE = {
    "fast_dividef": "div",
    "nearbyint": "round",
    "cyl_bessel_i0": "bessel_i0",
    "cyl_bessel_i1": "bessel_i1",
}
"""libdevice's names of primitives, where they differ."""


def main(groups: Sequence[str]) -> int:
    _give_libdevice_to_the_interpreter()
    _reduce_in_halves()
    failed = 0
    for case in [case for group in groups for case in GROUPS[group]]:
        try:
            check(case)
            print(f"ok      {case.name}")
        except Exception:
            failed += 1
            print(f"failed  {case.name}\n{traceback.format_exc()}")
    return min(failed, 1)


def check(case: Case) -> None:
    """Every output of the kernel, after all the kernels that it was split into, is that of the kernel in float64."""

    def run(part: Kernel, found: Arrays, numbers: Numbers) -> Arrays:
        return launch(part, case.schedule or choose_schedule(part), found, numbers)

    assert_as_meant(case, case.kernel, split_reductions(case.kernel), run)


def assert_as_meant(
    case: Case, kernel: Kernel, parts: Iterable[Kernel], run: Callable[[Kernel, Arrays, Numbers], Arrays]
) -> None:
    """What `run` makes of the parts of a case's kernel is what that means in float64."""
    arrays = inputs_of(kernel, case.special)
    numbers: Numbers = {p.name: 0.625 if p.dtype.is_floating else 12345 for p in kernel.parameters}
    expected = run_kernel(_in_float64(kernel), _widened(kernel, arrays), numbers)
    found = dict(arrays)
    for part in parts:
        found.update(run(collapse_axes(part), found, numbers))
    for buffer in kernel.outputs:
        have, want = found[buffer.name], expected[buffer.name]
        if not buffer.dtype.is_floating:
            np.testing.assert_array_equal(have, want, err_msg=buffer.name)
            continue
        narrowest = max(TOLERANCES[b.dtype] for b in kernel.buffers if b.dtype.is_floating)
        np.testing.assert_allclose(
            have.astype(np.float64), want, rtol=narrowest, atol=narrowest * case.scale, err_msg=buffer.name
        )


def inputs_of(kernel: Kernel, special: bool = False) -> Arrays:
    """Random elements, the same each time. Special ones are infinities and NaN among them."""
    generator = np.random.default_rng(7)
    return {buffer.name: _elements(buffer, generator, special) for buffer in kernel.inputs}


def _elements(buffer: Buffer, generator: np.random.Generator, special: bool) -> np.ndarray[Any, Any]:
    dtype = numpy_dtype(buffer.dtype)
    if buffer.dtype == BOOL:
        return generator.random(buffer.shape) < 0.5
    if not buffer.dtype.is_floating:
        numbers = generator.integers(1, 40, buffer.shape)
        signs = 1 if buffer.name in ("indices", "target") else generator.choice([-1, 1], buffer.shape)
        return np.asarray(numbers * signs).astype(dtype)
    numbers = generator.standard_normal(buffer.shape)
    if buffer.name == "rstd":
        numbers = np.abs(numbers) + 0.5
    if special and numbers.size:
        flat = numbers.reshape(-1)
        flat[:: max(numbers.size // 5, 1)] = np.resize(
            [np.inf, -np.inf, np.nan, 0.0, -0.0], flat[:: max(numbers.size // 5, 1)].size
        )
    return np.asarray(numbers).astype(dtype)


def _in_float64(kernel: Kernel) -> Kernel:
    def wide(dtype: DType) -> DType:
        return FLOAT64 if dtype.is_floating else dtype

    body = [
        replace(s, dtype=wide(s.dtype)) if isinstance(s, Definition) and not isinstance(s, Uniform) else s
        for s in kernel.body
    ]
    buffers = tuple(replace(b, dtype=wide(b.dtype)) for b in kernel.buffers)
    return replace(kernel, buffers=buffers, body=tuple(body))


def _widened(kernel: Kernel, arrays: Arrays) -> Arrays:
    return {b.name: arrays[b.name].astype(np.float64) if b.dtype.is_floating else arrays[b.name] for b in kernel.inputs}


def launch(kernel: Kernel, schedule: Schedule, arrays: Arrays, numbers: dict[str, Any]) -> Arrays:
    """The outputs of one kernel's text."""
    import torch

    memory = {b.name: _memory(b, arrays.get(b.name), torch) for b in kernel.buffers}
    programs = grid(kernel, schedule)
    if all(programs):
        module = load_module(emit_triton(kernel, schedule))
        function = getattr(module, kernel.name)
        sizes = passed_sizes(kernel).values()
        given = [numbers[p.name] for p in kernel.parameters]
        function[programs](*memory.values(), *sizes, *given, **constants(kernel, schedule))
    return {b.name: _array(b, memory[b.name], torch) for b in kernel.outputs}


def _memory(buffer: Buffer, array: np.ndarray[Any, Any] | None, torch: Any) -> Any:
    """A flat tensor with the buffer's elements where its strides lead; what lies between them is not a number."""
    extent = 1 + sum((size - 1) * stride for size, stride in zip(buffer.shape, buffer.strides, strict=True) if size)
    filler = 9 if not buffer.dtype.is_floating else float("nan")
    flat = torch.full((max(extent, 1),), 0 if buffer.dtype == BOOL else filler, dtype=getattr(torch, buffer.dtype.name))
    if array is not None and buffer.numel:
        source = array.view(np.int16) if buffer.dtype == BFLOAT16 else array
        tensor = torch.from_numpy(np.ascontiguousarray(source).reshape(buffer.shape))
        tensor = tensor.view(torch.bfloat16) if buffer.dtype == BFLOAT16 else tensor
        torch.as_strided(flat, buffer.shape, buffer.strides).copy_(tensor)
    return flat


def _array(buffer: Buffer, flat: Any, torch: Any) -> np.ndarray[Any, Any]:
    if not buffer.numel:
        return np.zeros(buffer.shape, numpy_dtype(buffer.dtype))
    tensor = torch.as_strided(flat, buffer.shape, buffer.strides).contiguous()
    if buffer.dtype == BFLOAT16:
        return np.asarray(tensor.view(torch.int16).numpy()).view(numpy_dtype(BFLOAT16))
    return np.asarray(tensor.numpy())


def _reduce_in_halves() -> None:
    """Reductions by a function combine halves of a tile, as a device does, not element by element."""
    import triton.language as tl
    from triton.runtime.interpreter import ReduceOps, TensorHandle

    def block(data: np.ndarray[Any, Any], dtype: Any) -> Any:
        return tl.tensor(TensorHandle(data, dtype.scalar), tl.block_type(dtype.scalar, list(data.shape)))

    def generic_reduce(self: Any, tensors: tuple[Any, ...]) -> list[Any]:
        dtypes = [tensor.dtype for tensor in tensors]
        parts = [tensor.handle.data for tensor in tensors]
        if self.axis is None:
            parts = [part.reshape(-1) for part in parts]
        axis = self.axis or 0
        while parts[0].shape[axis] > 1:
            left, right = zip(*(np.split(part, 2, axis) for part in parts), strict=True)
            operands = [block(part, t) for half in (left, right) for part, t in zip(half, dtypes, strict=True)]
            found = self.combine_fn.fn(*operands)
            found = found if isinstance(found, tuple) else (found,)
            parts = [part.handle.data for part in found]
        if not self.keep_dims:
            parts = [part.squeeze(axis) for part in parts]
        return [self.to_tensor(part, dtype) for part, dtype in zip(parts, dtypes, strict=True)]

    ReduceOps.generic_reduce = generic_reduce


def _let_numbers_be_indices() -> None:
    """The interpreter's own numbers are arrays of one element, which NumPy no longer takes for integers."""
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def patched(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = patched


def _keep_conditions_bool() -> None:
    """The interpreter takes what compares two numbers for one of their dtype where a whole tile is to have it."""
    import triton.language as tl
    from triton.runtime import interpreter

    splat = interpreter.InterpreterBuilder.create_splat

    def of_bools(builder: Any, result: Any, number: Any) -> Any:
        if number.data.dtype != np.bool_:
            return splat(builder, result, number)
        return interpreter.TensorHandle(np.full(result.shape, number.data.item()), tl.int1)

    interpreter.InterpreterBuilder.create_splat = of_bools


def _fuse() -> None:
    """Older interpreters round a fused operation twice; here it is one of float64."""
    from triton.runtime import interpreter

    if hasattr(getattr(interpreter, "_interpreter", None), "fma_fp32"):
        return

    def fused(builder: Any, x: Any, y: Any, z: Any) -> Any:
        result = x.data.astype(np.float64) * y.data + z.data
        return interpreter.TensorHandle(result.astype(x.data.dtype), x.dtype.scalar)

    interpreter.InterpreterBuilder.create_fma = fused


def _give_libdevice_to_the_interpreter() -> None:
    import triton.language as tl
    from triton.language.extra import libdevice
    from triton.runtime.interpreter import TensorHandle, interpreter_semantic

    def function(primitive: str) -> Any:
        definition = PRIMITIVES[primitive]

        def evaluate(*operands: Any) -> Any:
            tensors = [interpreter_semantic.to_tensor(operand) for operand in operands]
            with np.errstate(all="ignore"):
                result = np.asarray(definition.evaluate(*(tensor.handle.data for tensor in tensors)))
            dtype = tl.int1 if definition.result == "bool" else tensors[0].dtype
            result = result if definition.result == "bool" else result.astype(tensors[0].handle.data.dtype)
            is_block = any(tensor.type.is_block() for tensor in tensors)
            return tl.tensor(
                TensorHandle(result, dtype), tl.block_type(dtype, list(result.shape)) if is_block else dtype
            )

        return evaluate

    _let_numbers_be_indices()
    _keep_conditions_bool()
    _fuse()
    for name in dir(libdevice):
        primitive = LIBDEVICE.get(name, name)
        if primitive in PRIMITIVES and callable(getattr(libdevice, name)):
            setattr(libdevice, name, function(primitive))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
