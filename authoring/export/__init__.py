"""A function as a module of its own: kernels, launcher, plain torch, a test, and nothing of ours."""
