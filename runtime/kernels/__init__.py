"""Fused kernels run: built, kept on disk, launched on arrays and tensors.

runner        a graph on tensors of a device: programs by layouts
groups        plans in which groups of straight stretches run by kernels, between control flow
program       one program: its tensors allocated, its steps in order
parts         the groups of a program with control flow, listed
size_classes  plans for classes of sizes
donation      results that lie in the memory of arguments
notices       what runs op by op, said once
failure       a kernel that cannot be built or kept
capture       what is done beside a CUDA graph that is captured
torch_ops     an op as torch has it, for what no kernel holds
torch_forms   ops of ours that torch has no name for
whole         plans on torch tensors: control flow and what no kernel holds by torch's ops
listing       `f.kernels(…)`: what is launched, as data
reference     a program on NumPy arrays, by the meaning of kernel IR
cache/        files that are checked before they are used
triton/       kernels by Triton: text, build, prepared launch, schedules by timing a few
c/            kernels by the system's C compiler: text, build, entries
"""
