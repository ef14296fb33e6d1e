"""Fused kernels run: built, kept on disk, launched on arrays and tensors.

runner         a graph on tensors of a device: programs by layouts
groups         plans in which groups of straight stretches run by kernels, between control flow
device_plan    such plans on torch tensors: what no kernel holds by torch's ops
program        one program: its tensors allocated, its steps in order
size_classes   plans for classes of sizes
size_families  which classes there are, and which plan is right for what
donation       gradients that lie in the memory of arguments
held           what a program holds at once: its allocations, replayed
traced         a program as torch's tracers record it
capture        what is done beside a CUDA graph that is captured
notices        what runs op by op, said once
failure        a kernel that cannot be built or kept
listing        `f.kernels(…)`: what is launched, as data
listed_groups  the groups of a program with control flow, listed
by_torch/      ops run by torch, for what no kernel holds
launches/      launches and calls of the library, prepared
lists/         what a run of a plan does, as a list, from the run itself
cache/         files that are checked before they are used
triton/        kernels by Triton: text, build, prepared launch, schedules by timing a few
c/             kernels by the system's C compiler: text, build, entries
"""
