"""How a graph runs on parts of tensors on several devices: placements that it keeps to, and what forbids one."""
