"""Functions as ops of torch.library: schemas, fakes, autograd, autocast, FLOPs, sharding."""
