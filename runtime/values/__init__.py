"""What calls are given and give: arrays, their conversion, and what stands for them while they are recorded."""
