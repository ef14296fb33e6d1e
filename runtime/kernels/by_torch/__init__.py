"""Ops run by torch: its own under the names of ours, and in its terms what it has no name for.

ops       an op as torch has it, for what no kernel holds
forms     ops of ours that torch has no name for
products  of those, gradients of products
windows   of those, gradients of convolutions and of pooling
draws     numbers from seeds, on a device or of a seed that lies there
bindings  what stands for ops in prepared calls of few elements
"""
