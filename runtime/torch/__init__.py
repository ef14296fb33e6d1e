"""Functions called on torch tensors, and as nodes of torch's autograd.

calls               one function called on tensors: binding, and whether the call is recorded
prepared/           the same, prepared for arguments of a kind that came before
array_runs          how such calls run on the memory of CPU tensors
call_layout         where everything stands in calls that run by one list of launches
routines/           the library on the memory of CPU tensors: products by BLAS, other ops by torch's loops
recorded/           the torch.autograd.Function of every recorded call; its backward is a recorded call again
steps               a program differentiated for one kind of call, as such a node runs it
flags               which values of a call require a gradient
second_derivatives  of what kernels differentiate once
kernels             programs for a device with kernels
sized               graphs and gradients for a class of sizes
values              `f.forward`, `f.backward` and `gs.vjp` on tensors of a device
places              values taken apart into tensors and the layout that they stand in
tensors             tensors as arrays and arrays as tensors, and whose memory is whose
kinds               what a tensor is: memory on a device, or a stand-in
symbolic            stand-ins: no memory is read, the graph runs by torch's ops
mixed_dtypes        programs for tensors of several floating dtypes
default_dtype       what `torch.set_default_dtype` changes
transforms          a node under torch.func.vmap: once per sample
devices             where a device other than the CPU plugs in
tracing             keeps torch.compile from looking inside
graphs/             whole steps as CUDA graphs
library/            functions registered as ops of torch

Importing this package imports torch: `Function` does so when it meets a tensor.
"""

from .calls import TorchCalls

__all__ = ["TorchCalls"]
