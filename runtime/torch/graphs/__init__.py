"""CUDA graphs of whole steps.

driver    what captures work on a device and replays it
seeds     what a step draws from: seeds in memory, filled before each replay
inputs    what a graph reads: memory of its own, parameters where they lie; what a captured call is guarded by
step      a function for one kind of arguments: warmed up, captured, replayed, as a node of torch's autograd
"""
