"""Fused kernels run: built, kept on disk, launched on torch tensors.

runner          a graph on tensors of a device: programs by layouts
groups          plans in which groups of straight stretches run by kernels, between control flow
program         one program: its tensors allocated, its steps in order
triton_kernel   one kernel by Triton: text, build, prepared launch
triton_compile  modules of Triton text, and compiling them for a target without a device
capture         what is done beside a CUDA graph that is captured
torch_ops       an op as torch has it, for what no kernel holds
torch_forms     ops of ours that torch has no name for
whole           plans on torch tensors: control flow and what no kernel holds by torch's ops
tuning          schedules by timing a few
store           files that are checked before they are used
triton_store    Triton's own cache, over such files
listing         `f.kernels(…)`: what is launched, as data
reference       a program on NumPy arrays, by the meaning of kernel IR
"""
