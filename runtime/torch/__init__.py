"""Functions called on torch tensors, and as nodes of torch's autograd.

calls        one function called on tensors: binding, and whether the call is recorded
prepared     the same, prepared for arguments of a kind that came before
array_runs   how such calls run on the memory of CPU tensors
node         the torch.autograd.Function of every recorded call; its backward is a recorded call again
places       values taken apart into tensors and the layout that they stand in
tensors      tensors as arrays and arrays as tensors, and whose memory is whose
transforms   a node under torch.func.vmap: once per sample
devices      where a device other than the CPU plugs in
tracing      keeps torch.compile from looking inside
graphs       whole steps as CUDA graphs
library      functions registered as ops of torch

Importing this package imports torch: `Function` does so when it meets a tensor.
"""

from .calls import TorchCalls

__all__ = ["TorchCalls"]
